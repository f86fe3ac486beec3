//! Running requests: look-up, checks, latches, loading, transactions, statistics.
//!
//! Nothing here waits. What cannot run now (a cold key, a full log buffer, CLIENT PAUSE, a command
//! that walks the key space) is handed back untouched, and the caller runs the same request again
//! when the reason is gone.

mod access;
mod check;
mod class;
mod context;
mod databases;
mod error;
mod exec;
mod fast;
mod guard;
mod keys;
mod log_wait;
mod replay;
mod snapshot_session;
pub mod table;
#[cfg(test)]
mod tests;

pub use crate::resp::Args;
pub use access::Purpose;
pub(crate) use access::{bring_in, reply_string};
pub use class::{Class, Handler, KeyRange};
pub use context::Ctx;
pub(crate) use context::REPLAY_MS;
pub(crate) use databases::{flush_mode_is_known, selected_db, swapped_dbs};
pub use error::{CommandError, CommandResult, OUT_OF_MEMORY};
pub(crate) use guard::{error_of, give_up};
pub use keys::too_long_key;
pub use log_wait::LogWait;
pub use snapshot_session::SnapshotSession;
pub(crate) use snapshot_session::snapshot_error;
pub use table::{Binding, CommandSpec, Flags, Table};

use crate::client::{Client, Queued};
use crate::client_memory::reply_max_bytes;
use crate::clock::now_ms;
use crate::events::notify;
use crate::jobs::eviction;
use crate::resp::{Reply, write_command};
use crate::server::Server;
use check::{Refusal, Verdict};
use fast::FastCounts;
use guard::{run_guarded, take_back};
use keys::{Slots, each_key, find_cold, needs_values};
use sexton_engine::{Latched, OwnedKey, Seq, SyncPolicy, TxBuf};
use std::sync::atomic::Ordering;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// What a thread needs to run requests; reused from request to request.
pub struct Executor {
    /// The commands that it knows.
    table: &'static Table,
    /// Number of the worker thread, for striped statistics.
    pub worker: usize,
    /// True on a helper thread, which may block: [`Class::Offload`] runs.
    pub may_block: bool,
    /// True while the log is replayed: no expiry, no checks, no statistics, no log.
    pub replaying: bool,
    tx_buf: TxBuf,
    hashes: Vec<u64>,
    /// Plain GETs and SETs that are not in the statistics yet.
    fast: FastCounts,
}

/// What became of a request.
#[derive(Debug)]
pub enum Outcome {
    /// Executed or refused; the reply is written. It may leave once `durable()` has reached the
    /// sequence (N13); 0 when it depends on no write.
    Done(Seq),
    /// These keys must be loaded first.
    Cold(Vec<OwnedKey>),
    /// Writers must wait (N14).
    Paced,
    /// CLIENT PAUSE is in force.
    Paused(Instant),
    /// WAITAOF: to be run again when the log or the clock has moved.
    Waits(LogWait),
    /// It belongs on a helper thread.
    Offload,
}

impl Executor {
    /// An executor of one worker or helper thread.
    #[must_use]
    pub fn new(table: &'static Table, worker: usize, may_block: bool) -> Self {
        Self {
            table,
            worker,
            may_block,
            replaying: false,
            tx_buf: TxBuf::default(),
            hashes: Vec::new(),
            fast: FastCounts::default(),
        }
    }

    /// One whose owner calls [`Executor::end_batch`] behind every batch of requests: their writes become durable
    /// together.
    #[must_use]
    pub fn of_worker(table: &'static Table, worker: usize) -> Self {
        Self { tx_buf: TxBuf::fencing_by_batch(), ..Self::new(table, worker, false) }
    }

    /// Ends a batch of requests, before anybody hears of it.
    pub fn end_batch(&mut self, server: &Server) {
        server.engine.end_batch(&mut self.tx_buf);
    }

    /// Evicts keys when those in memory take too much; between requests.
    #[inline]
    pub fn make_room(&mut self, server: &Server, requests: usize) {
        eviction::make_room(server, &mut self.tx_buf, requests);
    }

    /// Runs one request.
    pub fn execute(
        &mut self,
        server: &Server,
        client: &mut Client,
        args: Args<'_>,
        out: &mut Reply,
        now_ms: u64,
    ) -> Outcome {
        let mark = out.len();
        if !self.replaying {
            self.make_room(server, 1);
        }
        out.limit(reply_max_bytes(server));
        let outcome = match self.check(server, client, args) {
            Ok((spec, Verdict::Run)) => self.run(server, client, spec, args, out, now_ms),
            Ok((_, Verdict::Exec)) => self.exec(server, client, args, out, now_ms),
            Ok((spec, Verdict::Queue)) => {
                client.queue(Queued::new(spec, args));
                out.simple("QUEUED");
                drop_if_muted(client, out, mark);
                Outcome::Done(0)
            }
            Err(Refusal::Error(error)) => {
                // Inside of MULTI and outside, as in Redis.
                let aborts = args.get(0).eq_ignore_ascii_case(b"exec");
                let error = if aborts { abort(server, client, &error) } else { error };
                client.fail_transaction();
                write_error(server, out, &error);
                drop_if_muted(client, out, mark);
                Outcome::Done(0)
            }
            Err(Refusal::Close) => {
                client.closing = true;
                Outcome::Done(0)
            }
            Err(Refusal::Later(outcome)) => outcome,
        };
        if out.is_cut()
            && let Outcome::Done(required) = outcome
        {
            out.truncate(mark);
            // Where something was written an error would not be true: no answer at all.
            client.closing |= required != 0;
            write_error(server, out, &CommandError::text(OUT_OF_MEMORY));
            drop_if_muted(client, out, mark);
        }
        out.limit(u64::MAX);
        if matches!(outcome, Outcome::Done(_)) {
            client.reply_mode.end_request();
        }
        outcome
    }

    fn run(
        &mut self,
        server: &Server,
        client: &mut Client,
        spec: &'static CommandSpec,
        args: Args<'_>,
        out: &mut Reply,
        now_ms: u64,
    ) -> Outcome {
        let engine = &server.engine;
        let started = Instant::now();
        let mark = out.len();
        self.hashes.clear();
        let latched = match spec.class {
            Class::Local | Class::Survey | Class::Offload => None,
            // The past needs no latch.
            Class::Keyed if client.snapshot_session.is_some() => None,
            Class::Exclusive => Some(Latched::All),
            Class::Keyed => {
                each_key(spec, args, |key| self.hashes.push(engine.hash(key)));
                Some(Latched::Hashes(&self.hashes))
            }
        };
        let mut required = 0;
        let mut result = if let Some(latched) = latched {
            let mut tx = engine.begin(latched, &mut self.tx_buf);
            if needs_values(server, spec, args) {
                let mut cold = Vec::new();
                let place = (client.db, &Slots::NOW);
                find_cold(server, place, spec, args, &self.hashes, &mut tx, &mut cold);
                if !cold.is_empty() {
                    return Outcome::Cold(cold);
                }
            }
            let tx_ref = &mut tx;
            let mut ctx = Ctx { server, client, args, spec, out, tx: Some(tx_ref), now_ms };
            match run_guarded(&mut ctx) {
                Ok(result) => {
                    required = tx.commit().last_seq;
                    if required == 0 && engine.sync_policy() == SyncPolicy::Always {
                        required = match spec.class {
                            Class::Exclusive => engine.last_seq(),
                            _ => {
                                self.hashes.iter().map(|&h| engine.last_write(h)).max().unwrap_or(0)
                            }
                        };
                    }
                    result
                }
                Err(error) => {
                    take_back(tx, spec.name);
                    Err(error)
                }
            }
        } else if !matches!(spec.class, Class::Local | Class::Survey)
            && let Some(past) = client.snapshot_session.as_deref_mut()
        {
            let now_ms = past.now_ms();
            let mut keys = Vec::new();
            if spec.class == Class::Keyed {
                each_key(spec, args, |key| keys.push(key));
            }
            let fetched = past.fetch(client.db, keys.into_iter());
            if engine.sync_policy() == SyncPolicy::Always {
                required = past.snapshot().seq();
            }
            let mut ctx = Ctx { server, client, args, spec, out, tx: None, now_ms };
            let result = fetched.and_then(|()| run_guarded(&mut ctx).unwrap_or_else(Err));
            if let Some(past) = client.snapshot_session.as_deref_mut() {
                past.release();
            }
            result
        } else {
            let mut ctx = Ctx { server, client, args, spec, out, tx: None, now_ms };
            let result = run_guarded(&mut ctx).unwrap_or_else(Err);
            if let Some(wait) = client.log_wait {
                return Outcome::Waits(wait);
            }
            if spec.class == Class::Offload && engine.sync_policy() == SyncPolicy::Always {
                required = engine.last_seq();
            }
            result
        };
        required = required.max(client.take_hold());
        notify::release(server, required);
        if !spec.flags.contains(Flags::WRITE)
            && let Some(error) = untellable(server, required)
        {
            (result, required) = (Err(error), 0);
        }
        let failed = result.is_err();
        write_outcome(server, client, spec, result, out, mark);
        if !self.replaying {
            account(self.worker, server, client, spec, args, started, failed);
            show_monitors(server, client.db, client, spec, args, required);
        }
        Outcome::Done(required)
    }
}

/// Why a request that writes nothing cannot be told of writes up to `required`: they are not durable, and nobody knows
/// whether they will be (N2). An error, where the reply would be held for ever and its connection closed.
fn untellable(server: &Server, required: Seq) -> Option<CommandError> {
    let engine = &server.engine;
    if required == 0 || engine.given_up_through() < required || engine.durable() >= required {
        return None;
    }
    let reason = engine.write_refusal().unwrap_or_else(|| "the log has failed".to_owned());
    Some(
        format!(
            "MISCONF The answer depends on writes that may be lost. Errors writing to the AOF file: {reason}"
        )
        .into(),
    )
}

/// Statistics, slow log and latency monitor of one execution.
fn account(
    worker: usize,
    server: &Server,
    client: &Client,
    spec: &CommandSpec,
    args: Args<'_>,
    started: Instant,
    failed: bool,
) {
    let time_us = started.elapsed().as_micros() as u64;
    let histogram = server.settings.latency_tracking.load(Ordering::Relaxed);
    spec.stats.record(worker, time_us, failed, histogram);
    note_slow(server, client, spec, args, 0, time_us);
}

/// Shows an execution that took `time_us` to the slow log and to the latency monitor. With `more` so many
/// requests behind it took that time together with it.
fn note_slow(
    server: &Server,
    client: &Client,
    spec: &CommandSpec,
    args: Args<'_>,
    more: u64,
    time_us: u64,
) {
    let observe = &server.observe;
    if observe.slowlog.is_slow(time_us) && !spec.flags.contains(Flags::SKIP_SLOWLOG) {
        let name = client.session.labels.lock().name.clone();
        let addr = client.session.addr.clone();
        observe.slowlog.push(args, more, now_ms() / 1000, time_us, addr, &name);
    }
    if time_us >= 1000 {
        let fast = spec.flags.contains(Flags::FAST);
        let event = if fast { "fast-command" } else { "command" };
        observe.latency.record(event, now_ms() / 1000, time_us / 1000);
    }
}

/// MONITOR sees a request when what it wrote or read is durable.
fn show_monitors(
    server: &Server,
    db: usize,
    client: &Client,
    spec: &CommandSpec,
    args: Args<'_>,
    required: Seq,
) {
    let monitors = &server.observe.monitors;
    if !monitors.is_active() || spec.flags.intersects(Flags::SKIP_MONITOR.union(Flags::ADMIN)) {
        return;
    }
    // Passwords must not be shown.
    let secret_from = match spec.name {
        "auth" => Some(1),
        "hello" => Some(2),
        _ => None,
    };
    let now_us =
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_micros() as u64);
    monitors.feed(args, secret_from, (db, &client.session.addr), now_us, required);
}

/// A refused EXEC ends its transaction: the error that it answers, in Redis' words.
fn abort(server: &Server, client: &mut Client, reason: &CommandError) -> CommandError {
    client.discard_transaction();
    client.unwatch(server);
    let reason = reason.bytes();
    let reason = reason.strip_prefix(b"ERR ").unwrap_or(&reason);
    let reason = String::from_utf8_lossy(reason);
    format!("EXECABORT Transaction discarded because of: {reason}").into()
}

/// What a command has written from `mark` on becomes its reply: an error takes its place, and CLIENT REPLY
/// drops it, unless it is a push (a subscription's confirmation).
fn write_outcome(
    server: &Server,
    client: &Client,
    spec: &CommandSpec,
    result: CommandResult,
    out: &mut Reply,
    mark: usize,
) {
    let pushes = spec.name.ends_with("subscribe");
    match result {
        Ok(()) if pushes => return,
        Ok(()) => {}
        Err(error) => {
            out.truncate(mark);
            write_error(server, out, &error);
        }
    }
    drop_if_muted(client, out, mark);
}

/// CLIENT REPLY OFF or SKIP drops what was answered from `mark` on.
fn drop_if_muted(client: &Client, out: &mut Reply, mark: usize) {
    if client.reply_mode.is_muted() {
        out.truncate(mark);
    }
}

fn write_error(server: &Server, out: &mut Reply, error: &CommandError) {
    let bytes = error.bytes();
    server.observe.traffic.count_error(&bytes);
    out.error(&bytes);
}

/// A request in RESP form, for the log, when it did not come as one.
pub fn logged_form(out: &mut Vec<u8>, args: Args<'_>) {
    out.clear();
    write_command(out, args.from(0));
}

//! The executor: a thread's state for running requests, and the steps of a single request.

use super::after::{account, drop_if_muted, refuse, refuse_cut, show_monitors, write_error};
use super::call::{Called, answer_from_the_past, answer_long, call, call_missing, read_snapshot};
use super::client::Client;
use super::commit::{commit, publish, take_back, tell};
use super::exec::abort;
use super::fast_counts::{FastCounts, PlainSpecs};
use super::gate::{Refusal, Verdict, wait_or_refuse};
use super::heavy::{LARGE_REQUEST_BYTES, prepare};
use super::kept_removal::Removal;
use super::latch::{Scope, each_key, latch};
use super::load::{cold_keys_before, wants};
use super::long_reply::{LongReply, OpenReply};
use super::look_ahead::LooksAhead;
use super::past::{Past, PastKeys};
use super::replay_buf::ReplayBuf;
use super::table::stores;
use super::{
    Args, Class, CommandError, CommandSpec, Ctx, Flags, LogWait, OUT_OF_MEMORY, Table, Traits,
};
use crate::blocking::{State, Waiter};
use crate::client_memory::written_max_bytes;
use crate::events::Changes;
use crate::jobs::eviction;
use crate::resp::{Reply, pack};
use crate::server::Server;
use crate::session::TrackingMode;
use sexton_engine::{Engine, Seq, SyncPolicy, TxBuf, Want};
use std::sync::Arc;
use std::time::Instant;

/// A thread's state for running requests; reused from request to request.
pub struct Executor {
    /// The commands that it knows.
    pub(super) table: &'static Table,
    /// Number of the worker thread, for striped statistics.
    pub worker: usize,
    /// True on a helper thread, which may block: [`Class::Offload`] runs.
    pub may_block: bool,
    /// True while the log is replayed: no expiry, no checks, no statistics, no log.
    pub replaying: bool,
    pub(super) tx_buf: TxBuf,
    pub(super) hashes: Vec<u64>,
    pub(super) changes: Changes,
    pub(super) replay: ReplayBuf,
    ahead: LooksAhead,
    /// Plain GETs and SETs that are not in the statistics yet.
    pub(super) fast: FastCounts,
    /// The rows of GET and SET, where the table has them.
    pub(super) plain: Option<PlainSpecs>,
}

/// What became of a request.
#[derive(Debug)]
pub enum Outcome {
    /// Executed or refused; the reply is written. It may be sent once `durable()` has reached the
    /// sequence (N13); 0 if it depends on no write.
    Done(Seq),
    /// These must be loaded first.
    Cold(Vec<Want>),
    /// Writers must wait (N14).
    Paced,
    /// CLIENT PAUSE is in force.
    Paused(Instant),
    /// WAITAOF: to be run again when the log or the clock has moved.
    Waits(LogWait),
    /// A key must have an element first: to be run again when the waiter is called or has timed out.
    Blocks(Arc<Waiter>),
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
            changes: Changes::default(),
            replay: ReplayBuf::default(),
            ahead: LooksAhead::default(),
            fast: FastCounts::default(),
            plain: PlainSpecs::of(table),
        }
    }

    /// An executor whose owner calls [`Executor::end_batch`] after every batch of requests: their writes become durable
    /// together.
    #[must_use]
    pub fn of_worker(table: &'static Table, worker: usize) -> Self {
        Self { tx_buf: TxBuf::fencing_by_batch(), ..Self::new(table, worker, false) }
    }

    /// The commands that it runs.
    #[must_use]
    pub fn table(&self) -> &'static Table {
        self.table
    }

    /// Notifies clients that track by prefix of the changes of a batch before the batch is answered. `client`, which sent
    /// the requests, is notified after its replies.
    #[inline]
    pub fn tell_prefixes(&mut self, server: &Server, client: &Client, out: &mut Reply) {
        let own = Some((&*client.session, out));
        self.changes.end_batch(&server.events, server.post(), own);
    }

    /// Ends a batch of requests, before any of its replies is sent.
    pub fn end_batch(&mut self, server: &Server) {
        server.engine.end_batch(&mut self.tx_buf);
    }

    /// Asks for pages that these requests will look at, which are about to run in the database `db` on the short way, each with the hash of
    /// its key.
    pub fn look_ahead<'r>(
        &mut self,
        server: &Server,
        db: usize,
        requests: impl Iterator<Item = (&'static CommandSpec, Args<'r>, u64)> + Clone,
    ) {
        self.ahead.look(server, (db, &self.tx_buf), requests);
    }

    /// Evicts keys when those in memory take too much; between requests. Returns true if there was room.
    #[inline]
    pub fn make_room(&mut self, server: &Server, requests: usize) -> bool {
        eviction::make_room(server, &mut self.tx_buf, requests)
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
        if let Some(waiter) = client.waiter.take()
            && let Some(outcome) = self.resume(server, client, (waiter, args), out)
        {
            if matches!(outcome, Outcome::Done(_)) {
                self.end_caching(client, args);
            }
            return outcome;
        }
        if !self.replaying {
            if !client.renew_rights(server) {
                return Outcome::Done(0);
            }
            self.make_room(server, 1);
        }
        out.limit(written_max_bytes(server, &client.session));
        let mut load_refused = std::mem::take(&mut client.load_refused);
        if load_refused && client.removal.as_mut().is_some_and(Removal::shrink) {
            (load_refused, client.lets_go) = (false, true);
        }
        let outcome = match self.gate(server, client, args) {
            Ok((spec, Verdict::Run)) if self.hands_over(spec, args) => Outcome::Offload,
            Ok((spec, Verdict::Run)) if spec.class == Class::Script => {
                self.run_script(server, client, spec, args, out, now_ms)
            }
            Ok((spec, Verdict::Run)) => self.run(server, client, spec, args, out, now_ms),
            Ok((_, Verdict::Exec)) => self.exec(server, client, args, out, now_ms),
            Ok((spec, Verdict::Queue)) => {
                client.queue(spec, args);
                out.simple("QUEUED");
                drop_if_muted(client, out, mark);
                Outcome::Done(0)
            }
            Err(Refusal::Error(error)) => {
                // Inside of MULTI and outside, as in Redis.
                let error = if self.is_exec(args) { abort(server, client, &error) } else { error };
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
        let outcome = match outcome {
            Outcome::Cold(_) if load_refused => {
                let error = CommandError::text(OUT_OF_MEMORY);
                let error = if self.is_exec(args) { abort(server, client, &error) } else { error };
                refuse(server, client, out, &error, mark);
                Outcome::Done(0)
            }
            outcome => outcome,
        };
        if matches!(outcome, Outcome::Done(_))
            && let Some(waiter) = client.waiter.take()
        {
            waiter.give_up();
            server.blocking.remove(&waiter);
        }
        if out.is_cut()
            && let Outcome::Done(required) = outcome
        {
            refuse_cut(server, client, (out, mark), required);
        }
        out.limit(u64::MAX);
        if matches!(outcome, Outcome::Done(_)) {
            client.reply_mode.end_request();
            client.end_runs(server);
            client.is_heavy = false;
            client.past = Past::None;
            self.end_caching(client, args);
        }
        self.changes.tell_own(&server.events, server.post(), (&client.session, out));
        outcome
    }

    /// True for a request that is so large that others should not wait for it.
    fn hands_over(&self, spec: &CommandSpec, args: Args<'_>) -> bool {
        !(self.may_block || self.replaying)
            && args.span_bytes() > LARGE_REQUEST_BYTES
            && spec.class == Class::Keyed
            && !spec.flags.contains(Flags::BLOCKING)
    }

    /// CLIENT CACHING applies to the next request, or the next transaction.
    fn end_caching(&self, client: &Client, args: Args<'_>) {
        let tracking = &client.session.tracking;
        if tracking.mode().has(TrackingMode::CACHING)
            && client.transaction.is_none()
            && !self.table.lookup(args).is_ok_and(|spec| spec.traits.has(Traits::BEFORE_CACHING))
        {
            tracking.end_caching();
        }
    }

    /// True of EXEC, by whatever name.
    fn is_exec(&self, args: Args<'_>) -> bool {
        let spec = self.table.find(args.get(0));
        spec.is_some_and(|spec| spec.traits.has(Traits::RUNS_QUEUED))
    }

    /// Resumes a request that has waited: with its reply, without one, or by running it again (`None`).
    fn resume(
        &mut self,
        server: &Server,
        client: &mut Client,
        (waiter, args): (Arc<Waiter>, Args<'_>),
        out: &mut Reply,
    ) -> Option<Outcome> {
        let mark = out.len();
        let required = match waiter.take_answer() {
            Some((reply, required)) => {
                out.raw(&reply);
                required
            }
            None if waiter.deadline.is_some_and(|at| at <= Instant::now()) && waiter.give_up() => {
                out.raw(&waiter.nothing);
                0
            }
            None if waiter.state() == State::Waiting => {
                waiter.begin_again();
                client.waiter = Some(waiter);
                return None;
            }
            None => {
                client.waiter = Some(Arc::clone(&waiter));
                return Some(Outcome::Blocks(waiter));
            }
        };
        server.blocking.remove(&waiter);
        if let Some(spec) = self.table.find(args.get(0)) {
            let error = out.bytes()[mark..].strip_prefix(b"-");
            if let Some(error) = error {
                server.observe.traffic.count_error(error.trim_ascii_end());
            }
            let called = Called { failed: error.is_some() };
            account(self.worker, server, client, spec, args, Instant::now(), called);
        }
        drop_if_muted(client, out, mark);
        client.reply_mode.end_request();
        Some(Outcome::Done(required))
    }

    /// Runs a single request, outside of MULTI.
    pub(super) fn run(
        &mut self,
        server: &Server,
        client: &mut Client,
        spec: &'static CommandSpec,
        args: Args<'_>,
        out: &mut Reply,
        now_ms: u64,
    ) -> Outcome {
        let reads_past = client.past.take_wanted() && self.may_block;
        if reads_past && stores(spec, args) {
            return self.run_ahead(server, client, (spec, args), out, now_ms);
        }
        let (engine, table, mark) = (&server.engine, self.table, out.len());
        let begun = client.past.begun().or(client.removal.as_ref().map(Removal::begun));
        let started = begun.unwrap_or_else(Instant::now);
        let changes = &mut self.changes;
        let scope = Scope::of(spec, args, client);
        let keys = || {
            let mut keys = Vec::new();
            each_key(spec, args, |key| keys.push(key));
            keys
        };
        let long = match std::mem::take(&mut client.long_reply) {
            LongReply::Wanted if self.may_block => {
                let request = (keys().first().copied().unwrap_or_default(), pack(args.from(0)));
                let client = (&*client.session, client.db);
                OpenReply::open(server, client, request, now_ms).transpose()
            }
            _ => None,
        };
        let past = reads_past
            .then(|| PastKeys::open(server, &client.session, (client.db, &keys()), now_ms));
        let ended = match scope {
            _ if let Some(past) = past.flatten() => answer_from_the_past(
                &mut Ctx { server, client, table, args, spec, out, tx: None, changes, now_ms },
                past,
                mark,
            ),
            _ if let Some(long) = long => answer_long(
                &mut Ctx { server, client, table, args, spec, out, tx: None, changes, now_ms },
                long,
                mark,
            ),
            scope @ (Scope::Keys | Scope::All) => {
                let latched = latch(&mut self.hashes, server, scope, spec, args);
                // Who needs one of its latches does not wait for it, but comes back.
                let is_heavy = client.is_heavy || args.span_bytes() > LARGE_REQUEST_BYTES;
                let is_heavy = is_heavy && self.may_block && !self.replaying;
                let prepared = is_heavy.then(|| prepare(server, spec, args)).flatten();
                let holds = is_heavy
                    .then(|| server.running_scripts.start_other(Engine::shard_bits(latched)));
                let begun = if holds.is_some() {
                    Some(engine.begin(latched, &mut self.tx_buf))
                } else {
                    let occupied = server.running_scripts.occupied();
                    engine.begin_unless(latched, occupied, &mut self.tx_buf)
                };
                let Some(mut tx) = begun else {
                    return wait_or_refuse(server, client, out, mark);
                };
                if client.past.is_outdated() {
                    take_back(server, tx, changes, spec.name);
                    return Outcome::Offload;
                }
                if let Some(prepared) = &prepared {
                    tx.set_prepared(prepared);
                }
                let cold = cold_keys_before(server, client.db, spec, args, &self.hashes, &mut tx);
                if !cold.is_empty() {
                    return Outcome::Cold(wants(cold));
                }
                if let Some(waiter) = &client.waiter
                    && waiter.state() != State::Waiting
                {
                    return Outcome::Blocks(Arc::clone(waiter));
                }
                let tx_ref = Some(&mut tx);
                let args = args.with_key_hashes(&self.hashes, spec.keys.first);
                let mut ctx =
                    Ctx { server, client, table, args, spec, out, tx: tx_ref, changes, now_ms };
                // One that waits for other clients does so with its worker.
                let on_worker = !self.may_block && !spec.flags.contains(Flags::BLOCKING);
                match call_missing(&mut ctx, mark, on_worker) {
                    Ok(_) if let Some(would_wait) = client.would_wait.take() => {
                        out.truncate(mark);
                        // Under the latches of its keys: any later writer sees it.
                        let has_waited = client.waiter.is_some();
                        let waiter = client.waiter.take().unwrap_or_else(|| {
                            let waiter = Arc::new(*would_wait);
                            server.blocking.add(&waiter);
                            waiter
                        });
                        let required = commit(server, tx, changes, scope, &self.hashes);
                        tell(server, changes, required);
                        if !has_waited {
                            show_monitors(server, client.db, client, spec, args, required);
                        }
                        client.waiter = Some(Arc::clone(&waiter));
                        return Outcome::Blocks(waiter);
                    }
                    Ok(_) if client.removal.as_mut().is_some_and(Removal::take_goes_on) => {
                        out.truncate(mark);
                        let required = commit(server, tx, changes, scope, &self.hashes);
                        tell(server, changes, required);
                        // Nothing is wanted but another run.
                        return Outcome::Cold(Vec::new());
                    }
                    Ok(_) if client.long_reply.is_wanted() => {
                        out.truncate(mark);
                        // What was due of the collection is gone.
                        let required = commit(server, tx, changes, scope, &self.hashes);
                        tell(server, changes, required);
                        return Outcome::Offload;
                    }
                    Ok(called) => (called, commit(server, tx, changes, scope, &self.hashes)),
                    Err(error) => {
                        take_back(server, tx, changes, spec.name);
                        if client.is_heavy && !self.may_block {
                            out.truncate(mark);
                            return Outcome::Offload;
                        }
                        let missed = std::mem::take(&mut client.missed);
                        if !missed.is_empty() {
                            out.truncate(mark);
                            return Outcome::Cold(missed);
                        }
                        (refuse(server, client, out, &error, mark), 0)
                    }
                }
            }
            Scope::Snapshot => read_snapshot(
                &mut Ctx { server, client, table, args, spec, out, tx: None, changes, now_ms },
                mark,
            ),
            Scope::Free => {
                let mut ctx =
                    Ctx { server, client, table, args, spec, out, tx: None, changes, now_ms };
                ctx.client.may_hand_over = !self.may_block && !self.replaying;
                let called = call(&mut ctx, mark);
                client.may_hand_over = false;
                if let Some(wait) = client.log_wait {
                    return Outcome::Waits(wait);
                }
                if std::mem::take(&mut client.is_heavy) && !self.may_block {
                    out.truncate(mark);
                    return Outcome::Offload;
                }
                let called =
                    called.unwrap_or_else(|error| refuse(server, client, out, &error, mark));
                let reads = spec.class == Class::Offload;
                let waits = reads && engine.sync_policy() == SyncPolicy::Always;
                (called, if waits { engine.last_seq() } else { 0 })
            }
        };
        let has_written = spec.flags.contains(Flags::WRITE);
        let (called, required) = publish(server, client, changes, (out, mark), has_written, ended);
        if !self.replaying {
            account(self.worker, server, client, spec, args, started, called);
            // One that has waited was shown when it came.
            if client.waiter.is_none() {
                show_monitors(server, client.db, client, spec, args, required);
            }
        }
        Outcome::Done(required)
    }
}

//! Running requests: look-up, checks, latches, loading, transactions, statistics.
//!
//! Nothing here waits. What cannot run now (a cold key, a full log buffer, CLIENT PAUSE, a command
//! that walks the key space) is handed back untouched, and the caller runs the same request again
//! when the reason is gone.

use super::context::REPLAY_MS;
use super::table::{self, key_positions};
use super::{Args, Class, CommandError, CommandSpec, Ctx, Flags, Past};
use crate::client::{Client, Queued};
use crate::eviction;
use crate::notify::{self, NotifyClass};
use crate::resp::{Reply, write_command};
use crate::server::Server;
use crate::session::ReplyMode;
use crate::value;
use sexton_engine::{Found, Key, Latched, LoadPin, Meta, OwnedKey, Seq, SyncPolicy, Tx, TxBuf};
use std::sync::atomic::Ordering;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// What a thread needs to run requests; reused from request to request.
#[derive(Default)]
pub struct Executor {
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

#[derive(Default)]
struct FastCounts {
    gets: u64,
    sets: u64,
    hits: u64,
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
    /// It belongs on a helper thread.
    Offload,
}

/// What writes, and PING, answer while `stop-writes-on-bgsave-error` is in force.
const SAVE_FAILED: &str = "MISCONF Redis is configured to save RDB snapshots, but it's currently \
unable to persist to disk. Commands that may modify the data set are disabled, because this instance \
is configured to report errors during writes if RDB snapshotting fails (stop-writes-on-bgsave-error \
option). Please check the Redis logs for details about the RDB error.";

/// Milliseconds since the epoch.
#[must_use]
pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_millis() as u64)
}

/// What a subscriber may run under RESP2.
const SUBSCRIBER_COMMANDS: [&str; 9] = [
    "ping",
    "quit",
    "reset",
    "subscribe",
    "psubscribe",
    "ssubscribe",
    "unsubscribe",
    "punsubscribe",
    "sunsubscribe",
];

/// What the dispatcher decides before it touches data.
enum Verdict {
    Run,
    Queue,
    Exec,
}

impl Executor {
    /// An executor of one worker or helper thread.
    #[must_use]
    pub fn new(worker: usize, may_block: bool) -> Self {
        Self { worker, may_block, ..Self::default() }
    }

    /// True while plain GETs and SETs of this client may take [`Executor::fast_get`] and
    /// [`Executor::fast_set`], which leave out what these conditions make unnecessary. To be asked
    /// again after every other command.
    #[must_use]
    pub fn is_fast(&self, server: &Server, client: &Client) -> bool {
        client.transaction.is_none()
            && client.past.is_none()
            && client.authenticated
            && !client.only_listens()
            && !server.settings.events.needs_old_values()
            && client.reply_mode == ReplyMode::On
            && !server.sessions.is_paused()
            && !server.loading.is_active()
            && !server.observe.slowlog.is_slow(0)
            && !server.observe.monitors.is_active()
    }

    /// The same for writes: false while they are refused or paced.
    #[must_use]
    pub fn is_fast_write(&self, server: &Server) -> bool {
        !server.settings.out_of_memory.load(Ordering::Relaxed)
            && !server.engine.must_wait()
            && server.engine.write_refusal().is_none()
            && !server.saving.refuses_writes()
    }

    /// GET key. `None`: run it the long way.
    #[inline]
    pub fn fast_get(
        &mut self,
        server: &Server,
        client: &Client,
        bytes: &[u8],
        hash: u64,
        out: &mut Reply,
        now_ms: u64,
    ) -> Option<Seq> {
        let engine = &server.engine;
        let mut tx = engine.begin(Latched::Hashes(&[hash]), &mut self.tx_buf);
        let key = Key { slot: engine.slot_of(client.db), bytes, hash };
        let mut touched = None;
        match tx.find(key) {
            Found::Live(entry) => {
                let meta = entry.meta();
                if meta.is_expired(now_ms) || !value::is_string(meta.flags) {
                    return None;
                }
                if !client.session.no_touch.load(Ordering::Relaxed) {
                    let access = server.eviction.access.touched(entry.access(), now_ms);
                    touched = (access != entry.access()).then_some(access);
                }
                out.bulk(entry.value());
                self.fast.hits += 1;
            }
            Found::Absent => out.null(),
            Found::Cold => return None,
        }
        if let Some(access) = touched {
            tx.set_access(key, access);
        }
        tx.commit();
        self.fast.gets += 1;
        Some(engine.last_write(hash))
    }

    /// SET key value; `logged` is the request itself in RESP form.
    #[inline]
    #[allow(clippy::too_many_arguments)]
    pub fn fast_set(
        &mut self,
        server: &Server,
        client: &mut Client,
        bytes: &[u8],
        hash: u64,
        value: &[u8],
        logged: &[u8],
        out: &mut Reply,
        now_ms: u64,
    ) -> Seq {
        let engine = &server.engine;
        let mut tx = engine.begin(Latched::Hashes(&[hash]), &mut self.tx_buf);
        let key = Key { slot: engine.slot_of(client.db), bytes, hash };
        let access = kept_access(server, client, &mut tx, key, now_ms);
        client.signal_modified(server, client.db, key);
        let meta = Meta { flags: value::PLAIN_STRING, expire_at_ms: 0 };
        let commit = tx.commit_put(key, meta, value, access, (client.db, logged));
        self.fast.sets += 1;
        notify::notify(server, NotifyClass::String, "set", bytes, client.db);
        notify::release(server, commit.last_seq);
        out.ok();
        commit.last_seq
    }

    /// Evicts keys when those in memory take too much; between requests.
    #[inline]
    pub fn make_room(&mut self, server: &Server) {
        eviction::make_room(server, &mut self.tx_buf);
    }

    /// Brings the plain GETs and SETs of a batch, which took `time_us` together, into the
    /// statistics.
    pub fn settle(&mut self, server: &Server, get: &CommandSpec, set: &CommandSpec, time_us: u64) {
        let FastCounts { gets, sets, hits } = std::mem::take(&mut self.fast);
        let calls = gets + sets;
        if calls == 0 {
            return;
        }
        let histogram = server.settings.latency_tracking.load(Ordering::Relaxed);
        if gets != 0 {
            server.stats.count_lookups(hits, gets - hits);
            get.stats.record_many(self.worker, gets, time_us * gets / calls, histogram);
        }
        if sets != 0 {
            set.stats.record_many(self.worker, sets, time_us * sets / calls, histogram);
        }
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
        let mode = client.reply_mode;
        if !self.replaying {
            self.make_room(server);
        }
        let outcome = match self.check(server, client, args) {
            Ok((spec, Verdict::Run)) => self.run(server, client, spec, args, out, now_ms),
            Ok((_, Verdict::Exec)) => self.exec(server, client, args, out, now_ms),
            Ok((spec, Verdict::Queue)) => {
                client.queue(Queued::new(spec, args));
                out.simple("QUEUED");
                Outcome::Done(0)
            }
            Err(Refusal::Error(error)) => {
                client.fail_transaction();
                write_error(server, out, &error);
                Outcome::Done(0)
            }
            Err(Refusal::Close) => {
                client.closing = true;
                Outcome::Done(0)
            }
            Err(Refusal::Later(outcome)) => outcome,
        };
        if matches!(outcome, Outcome::Done(_)) {
            if mode == ReplyMode::SkipNext {
                out.truncate(mark);
                if client.reply_mode == ReplyMode::SkipNext {
                    client.reply_mode = ReplyMode::On;
                }
            } else if client.reply_mode == ReplyMode::Off {
                out.truncate(mark);
            }
        }
        outcome
    }

    /// Everything that can be said about a request without its keys, in Redis' order.
    fn check(
        &self,
        server: &Server,
        client: &Client,
        args: Args<'_>,
    ) -> Result<(&'static CommandSpec, Verdict), Refusal> {
        let spec = match table::lookup(args) {
            Ok(spec) => spec,
            Err(error) => {
                let name = args.get(0);
                let browser =
                    name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:");
                return Err(if browser { Refusal::Close } else { Refusal::Error(error) });
            }
        };
        let refuse = |error: CommandError| {
            spec.stats.reject(self.worker);
            Err(Refusal::Error(error))
        };
        if !spec.accepts(args.len()) {
            return refuse(spec.arity_error());
        }
        if self.replaying {
            return Ok((spec, Verdict::Run));
        }
        if !client.authenticated && !spec.flags.contains(Flags::NO_AUTH) {
            return refuse(CommandError::text("NOAUTH Authentication required."));
        }
        if client.past.is_some()
            && let Some(error) = Past::refuses(spec)
        {
            return refuse(error);
        }
        let in_transaction = client.transaction.is_some();
        if in_transaction && spec.flags.contains(Flags::NO_MULTI) {
            return refuse(CommandError::text("ERR Command not allowed inside a transaction"));
        }
        let exec = in_transaction && spec.name == "exec";
        let queued_flag = |flag| {
            exec && client.transaction.as_ref().is_some_and(|transaction| {
                transaction.queued.iter().any(|queued| queued.spec.flags.contains(flag))
            })
        };
        let writes = spec.flags.contains(Flags::WRITE) || queued_flag(Flags::WRITE);
        let needs_memory = spec.flags.contains(Flags::DENYOOM) || queued_flag(Flags::DENYOOM);
        if needs_memory
            && (server.settings.out_of_memory.load(Ordering::Relaxed) || is_too_large(server, args))
        {
            return refuse(CommandError::text(
                "OOM command not allowed when used memory > 'maxmemory'.",
            ));
        }
        if server.loading.is_active() && !spec.flags.contains(Flags::LOADING) {
            return refuse(CommandError::text("LOADING Redis is loading the dataset in memory"));
        }
        if (writes || spec.name == "ping") && server.saving.refuses_writes() {
            return refuse(CommandError::text(SAVE_FAILED));
        }
        if writes && let Some(reason) = server.engine.write_refusal() {
            return refuse(format!("MISCONF Errors writing to the AOF file: {reason}").into());
        }
        if client.only_listens() && !SUBSCRIBER_COMMANDS.contains(&spec.name) {
            return refuse(
                format!(
                    "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / \
                     RESET are allowed in this context",
                    spec.name
                )
                .into(),
            );
        }
        if in_transaction
            && !matches!(spec.name, "exec" | "discard" | "multi" | "watch" | "quit" | "reset")
        {
            return Ok((spec, Verdict::Queue));
        }
        let pausable = !spec.name.starts_with("client|");
        let may_replicate = spec.flags.contains(Flags::MAY_REPLICATE);
        if pausable && let Some(until) = server.sessions.paused_until(writes || may_replicate) {
            return Err(Refusal::Later(Outcome::Paused(until)));
        }
        if writes && server.engine.must_wait() {
            return Err(Refusal::Later(Outcome::Paced));
        }
        if exec {
            return Ok((spec, Verdict::Exec));
        }
        let blocks =
            spec.class == Class::Offload || (spec.class == Class::Keyed && client.past.is_some());
        if blocks && !self.may_block {
            return Err(Refusal::Later(Outcome::Offload));
        }
        Ok((spec, Verdict::Run))
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
            Class::Local | Class::Offload => None,
            // The past needs no latch.
            Class::Keyed if client.past.is_some() => None,
            Class::Exclusive => Some(Latched::All),
            Class::Keyed => {
                each_key(spec, args, |key| self.hashes.push(engine.hash(key)));
                Some(Latched::Hashes(&self.hashes))
            }
        };
        let mut required = 0;
        let result = if let Some(latched) = latched {
            let mut tx = engine.begin(latched, &mut self.tx_buf);
            if needs_values(server, spec, args) {
                let mut cold = Vec::new();
                find_cold(server, client.db, spec, args, &self.hashes, &mut tx, &mut cold);
                if !cold.is_empty() {
                    return Outcome::Cold(cold);
                }
            }
            let tx_ref = &mut tx;
            let mut ctx = Ctx { server, client, args, spec, out, tx: Some(tx_ref), now_ms };
            let result = (spec.run)(&mut ctx);
            required = tx.commit().last_seq;
            if required == 0 && engine.sync_policy() == SyncPolicy::Always {
                required = match spec.class {
                    Class::Exclusive => engine.stats().last_seq,
                    _ => self.hashes.iter().map(|&h| engine.last_write(h)).max().unwrap_or(0),
                };
            }
            result
        } else if spec.class != Class::Local
            && let Some(past) = client.past.as_deref_mut()
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
            fetched.and_then(|()| (spec.run)(&mut ctx))
        } else {
            let mut ctx = Ctx { server, client, args, spec, out, tx: None, now_ms };
            let result = (spec.run)(&mut ctx);
            if let Some(wait) = client.log_wait {
                return Outcome::Paused(wait.next_look());
            }
            if spec.class == Class::Offload && engine.sync_policy() == SyncPolicy::Always {
                required = engine.stats().last_seq;
            }
            result
        };
        required = required.max(client.take_hold());
        notify::release(server, required);
        let failed = result.is_err();
        if let Err(error) = result {
            out.truncate(mark);
            write_error(server, out, &error);
        }
        if !self.replaying {
            self.account(server, client, spec, args, started, failed);
            show_monitors(server, client.db, client, spec, args, required);
        }
        Outcome::Done(required)
    }

    /// Statistics, slow log and latency monitor of one execution.
    fn account(
        &self,
        server: &Server,
        client: &Client,
        spec: &CommandSpec,
        args: Args<'_>,
        started: Instant,
        failed: bool,
    ) {
        let time_us = started.elapsed().as_micros() as u64;
        let histogram = server.settings.latency_tracking.load(Ordering::Relaxed);
        spec.stats.record(self.worker, time_us, failed, histogram);
        let observe = &server.observe;
        if observe.slowlog.is_slow(time_us) && !spec.flags.contains(Flags::SKIP_SLOWLOG) {
            let name = client.session.labels.lock().name.clone();
            let addr = client.session.addr.clone();
            observe.slowlog.push(args, now_ms() / 1000, time_us, addr, &name);
        }
        if time_us >= 1000 {
            let fast = spec.flags.contains(Flags::FAST);
            let event = if fast { "fast-command" } else { "command" };
            observe.latency.record(event, now_ms() / 1000, time_us / 1000);
        }
    }

    /// EXEC: all queued commands under all their latches, in one engine transaction.
    fn exec(
        &mut self,
        server: &Server,
        client: &mut Client,
        args: Args<'_>,
        out: &mut Reply,
        now_ms: u64,
    ) -> Outcome {
        let started = Instant::now();
        let Some(transaction) = client.transaction.take() else { return Outcome::Done(0) };
        let exec_spec = table::find(b"exec");
        if transaction.failed {
            client.discard_transaction();
            client.unwatch(server);
            let error =
                CommandError::text("EXECABORT Transaction discarded because of previous errors.");
            write_error(server, out, &error);
            return Outcome::Done(0);
        }
        let has = |class| transaction.queued.iter().any(|queued| queued.spec.class == class);
        if has(Class::Offload) && !self.may_block {
            client.transaction = Some(transaction);
            return Outcome::Offload;
        }
        let engine = &server.engine;
        self.hashes.clear();
        for queued in &transaction.queued {
            if queued.spec.class == Class::Keyed {
                each_key(queued.spec, queued.args(), |key| self.hashes.push(engine.hash(key)));
            }
        }
        self.hashes.extend(client.watched_keys().map(|key| engine.hash(key)));
        let all = has(Class::Offload) || has(Class::Exclusive);
        let latched = if all { Latched::All } else { Latched::Hashes(&self.hashes) };
        let sets = transaction.queued.iter().any(|queued| queued.spec.name == "config|set");
        let _hold = sets.then(|| server.config.hold());
        let mut tx = engine.begin(latched, &mut self.tx_buf);
        if client.watch_failed(now_ms) {
            drop(tx);
            client.discard_transaction();
            client.unwatch(server);
            out.null_array();
            return Outcome::Done(0);
        }
        let mut cold = Vec::new();
        let mut db = client.db;
        for queued in &transaction.queued {
            if matches!(queued.spec.class, Class::Keyed | Class::Exclusive) {
                find_cold(server, db, queued.spec, queued.args(), &[], &mut tx, &mut cold);
            } else if queued.spec.name == "select" {
                db = super::selected_db(queued.args(), server.databases).unwrap_or(db);
            }
        }
        if !cold.is_empty() {
            drop(tx);
            client.transaction = Some(transaction);
            return Outcome::Cold(cold);
        }
        client.unwatch(server);
        client.session.queued.store(0, Ordering::Relaxed);

        let writes =
            transaction.queued.iter().filter(|q| q.spec.flags.contains(Flags::WRITE)).count();
        if writes > 1 {
            tx.log(client.db, b"*1\r\n$5\r\nMULTI\r\n");
        }
        out.array(transaction.queued.len());
        // The database of each command, for those who watch.
        let mut dbs = Vec::with_capacity(transaction.queued.len());
        for queued in &transaction.queued {
            let (spec, args) = (queued.spec, queued.args());
            let begun = Instant::now();
            let mark = out.len();
            dbs.push(client.db);
            let tx = (spec.class != Class::Local).then_some(&mut tx);
            let result = (spec.run)(&mut Ctx { server, client, args, spec, out, tx, now_ms });
            if let Some(wait) = client.log_wait.take() {
                // Nothing blocks in a transaction.
                wait.answer(server, out);
            }
            let failed = result.is_err();
            if let Err(error) = result {
                out.truncate(mark);
                write_error(server, out, &error);
            }
            self_account(self.worker, server, client, queued, begun, failed);
        }
        if writes > 1 {
            tx.log(client.db, b"*1\r\n$4\r\nEXEC\r\n");
        }
        let mut required = tx.commit().last_seq;
        if required == 0 && engine.sync_policy() == SyncPolicy::Always {
            required = engine.stats().last_seq;
        }
        required = required.max(client.take_hold());
        notify::release(server, required);
        for (queued, db) in transaction.queued.iter().zip(dbs) {
            show_monitors(server, db, client, queued.spec, queued.args(), required);
        }
        if let Some(spec) = exec_spec {
            self.account(server, client, spec, args, started, false);
            show_monitors(server, client.db, client, spec, args, required);
        }
        Outcome::Done(required)
    }

    /// Runs the commands of one group of the log again (N1) and returns how many operations they
    /// made. Nothing expires, nothing is checked or logged; cold keys are loaded while waiting.
    ///
    /// # Errors
    /// A text that names the command when it is damaged or fails: the start must be refused.
    pub fn replay(
        &mut self,
        server: &Server,
        client: &mut Client,
        group: &[u8],
    ) -> Result<(), String> {
        use crate::resp::{Batch, Limits, Scanner};
        self.replaying = true;
        self.may_block = true;
        let mut buf = group.to_vec();
        let mut rest = buf.as_mut_slice();
        let mut batch = Batch::default();
        loop {
            batch.clear();
            let limits =
                Limits { bulk_max_bytes: sexton_engine::VALUE_MAX_BYTES, ..Limits::default() };
            let (used, error) = Scanner::default().scan(rest, &mut batch, limits);
            if let Some(error) = error {
                return Err(error.to_string());
            }
            for request in &batch.requests {
                let args = Args::new(rest, batch.args(request));
                let name = args.get(0);
                if !name.eq_ignore_ascii_case(b"multi") && !name.eq_ignore_ascii_case(b"exec") {
                    self.replay_request(server, client, args)?;
                }
            }
            rest = &mut rest[used..];
            if rest.is_empty() {
                return Ok(());
            }
            if batch.requests.is_empty() {
                return Err("a group ends inside a command".to_owned());
            }
        }
    }

    /// Runs one logged command again, as [`Executor::replay`] does.
    ///
    /// # Errors
    /// A text that names the command and what it answered.
    pub fn replay_request(
        &mut self,
        server: &Server,
        client: &mut Client,
        args: Args<'_>,
    ) -> Result<(), String> {
        self.replaying = true;
        self.may_block = true;
        let mut out = Reply::new();
        let mut _pin = None;
        while let Outcome::Cold(keys) = self.execute(server, client, args, &mut out, REPLAY_MS) {
            _pin = Some(load_blocking(server, keys)?);
        }
        match out.bytes().strip_prefix(b"-") {
            None => Ok(()),
            Some(text) => {
                let name = String::from_utf8_lossy(args.get(0)).to_ascii_lowercase();
                let text = String::from_utf8_lossy(text).trim_end().to_owned();
                Err(format!("logged command '{name}' answered: {text}"))
            }
        }
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
    if !monitors.is_active() {
        return;
    }
    let now_us =
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_micros() as u64);
    monitors.feed(spec, args, (db, &client.session.addr), now_us, required);
}

fn self_account(
    worker: usize,
    server: &Server,
    client: &Client,
    queued: &Queued,
    begun: Instant,
    failed: bool,
) {
    Executor::new(worker, false).account(server, client, queued.spec, queued.args(), begun, failed);
}

/// Loads keys and waits for them; they stay in memory while the pin lives. For threads that may block.
///
/// # Errors
/// The engine's text when a key could not be read.
pub fn load_blocking(server: &Server, keys: Vec<OwnedKey>) -> Result<LoadPin, String> {
    let (sender, receiver) = std::sync::mpsc::channel();
    server.engine.load(keys, move |result| {
        // The receiver waits below; it can only be gone when its thread is.
        let _ = sender.send(result);
    });
    match receiver.recv() {
        Ok(Ok(pin)) => Ok(pin),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("the load was dropped".to_owned()),
    }
}

/// True for a request that is larger than the memory bound: what it brings can never be held (N18).
fn is_too_large(server: &Server, args: Args<'_>) -> bool {
    let bound = server.engine.memory_bound();
    bound != 0 && args.from(1).map(|arg| arg.len() as u64).sum::<u64>() > bound
}

/// Under an LFU policy an overwritten key keeps its counter, as in Redis: the access field it is to
/// have after the write.
pub(super) fn kept_access(
    server: &Server,
    client: &Client,
    tx: &mut Tx<'_>,
    key: Key<'_>,
    now_ms: u64,
) -> Option<u32> {
    let access = &server.eviction.access;
    if !access.is_lfu() {
        return None;
    }
    match tx.find(key) {
        Found::Live(entry) if client.session.no_touch.load(Ordering::Relaxed) => {
            Some(entry.access())
        }
        Found::Live(entry) => Some(access.touched(entry.access(), now_ms)),
        Found::Absent | Found::Cold => None,
    }
}

/// Why a request is not run.
enum Refusal {
    Error(CommandError),
    Later(Outcome),
    /// A browser was made to speak to us: say nothing.
    Close,
}

fn write_error(server: &Server, out: &mut Reply, error: &CommandError) {
    server.observe.traffic.count_error(&error.to_string());
    out.error(&error.bytes());
}

/// Calls `found` with every key of a request.
fn each_key<'a>(spec: &'static CommandSpec, args: Args<'a>, mut found: impl FnMut(&'a [u8])) {
    let range = spec.keys;
    if spec.flags.contains(Flags::MOVABLEKEYS) || range.first == 0 {
        for key in key_positions(spec, args).unwrap_or_default() {
            found(args.get(key.index));
        }
        return;
    }
    let count = args.len() as isize;
    let last = if range.last < 0 { count + range.last } else { range.last.min(count - 1) };
    let mut index = range.first;
    while (index as isize) <= last {
        found(args.get(index));
        index += range.step.max(1);
    }
}

/// True when the command looks at old values.
fn needs_values(server: &Server, spec: &CommandSpec, args: Args<'_>) -> bool {
    spec.reads_values
        || (spec.name == "set" && args.len() > 3)
        || server.settings.events.needs_old_values()
}

/// `hashes`: those of the keys in the order of [`each_key`], or none when they are not known.
fn find_cold(
    server: &Server,
    db: usize,
    spec: &'static CommandSpec,
    args: Args<'_>,
    hashes: &[u64],
    tx: &mut Tx<'_>,
    cold: &mut Vec<OwnedKey>,
) {
    if !needs_values(server, spec, args) {
        return;
    }
    let engine = &server.engine;
    let mut nth = 0;
    each_key(spec, args, |bytes| {
        engine.prefetch_ahead(hashes, nth);
        let hash = hashes.get(nth).copied().unwrap_or_else(|| engine.hash(bytes));
        nth += 1;
        let mut look = |db: usize| {
            let key = Key { slot: engine.slot_of(db), bytes, hash };
            if matches!(tx.find(key), Found::Cold) {
                cold.push(OwnedKey { slot: key.slot, bytes: bytes.to_vec(), hash: key.hash });
            }
        };
        look(db);
        // MOVE and COPY name a second database; its keys share the latches, since the hash
        // covers the bytes only.
        if matches!(spec.name, "move" | "copy") {
            (0..server.databases).filter(|&other| other != db).for_each(&mut look);
        }
    });
}

/// A request in RESP form, for the log, when it did not come as one.
pub fn logged_form(out: &mut Vec<u8>, args: Args<'_>) {
    out.clear();
    write_command(out, args.from(0));
}

//! EXEC.

use super::after::{
    account, count, count_calls, drop_if_muted, finish, refuse, show_monitors, write_error,
};
use super::call::{Called, call, run_guarded};
use super::client::{Client, Queued, ScriptTurn, ScriptWants, Transaction};
use super::commit::{commit, publish, take_back};
use super::heavy::LARGE_REQUEST_BYTES;
use super::latch::{Scope, each_key};
use super::load::{Slots, cold_keys, cold_pages, wants};
use super::{
    Args, Class, CommandError, Ctx, Executor, OnDatabases, Outcome, Table, Traits, selected_db,
};
use crate::auth::Context;
use crate::events::Changes;
use crate::resp::Reply;
use crate::scripting::Running;
use crate::server::Server;
use sexton_engine::{Engine, Latched, Seq, SyncPolicy, Tx, Want};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// The cold keys that the queued commands will access, and the cold pages that they will probably access. Each key is looked up
/// in the database that it will be in by then.
fn find_all_cold(
    server: &Server,
    mut db: usize,
    queued: &Transaction,
    tx: &mut Tx<'_>,
) -> Vec<Want> {
    let mut cold = Vec::new();
    let mut slots = Slots::NOW;
    for Queued { spec, args } in queued.queued() {
        if matches!(spec.class, Class::Keyed | Class::Exclusive) {
            cold.extend(wants(cold_keys(server, (db, &slots), spec, args, &[], tx)));
            cold.extend(cold_pages(server, (db, &slots), spec, args, tx));
            slots.follow(server, db, spec, args);
        } else if spec.on_databases == OnDatabases::Selects {
            db = selected_db(args, server.databases).unwrap_or(db);
        }
    }
    cold
}

/// The latches of a transaction: those of its keys, and of the keys that it watches.
fn latch_all<'h>(
    hashes: &'h mut Vec<u64>,
    server: &Server,
    client: &Client,
    queued: &Transaction,
) -> Latched<'h> {
    hashes.clear();
    // A script may need more than it names, and EXEC cannot begin again.
    let needs_all = [Class::Offload, Class::Exclusive, Class::Script];
    if needs_all.into_iter().any(|class| queued.contents.has(class)) {
        return Latched::All;
    }
    for Queued { spec, args } in queued.queued().filter(|queued| queued.spec.class == Class::Keyed)
    {
        each_key(spec, args, |key| {
            hashes.push(args.hash_of(key).unwrap_or_else(|| server.engine.hash(key)));
        });
    }
    hashes.extend(client.watched_keys().map(|key| server.engine.hash(key)));
    Latched::Hashes(hashes)
}

/// What the calls of one transaction have in common.
#[derive(Clone, Copy)]
struct Calls<'a> {
    table: &'static Table,
    worker: usize,
    server: &'a Server,
    now_ms: u64,
    /// How others see it, where there are scripts in it.
    running: Option<&'a Arc<Running>>,
    /// Others wait for this thread, and nothing has been done before the end: where a command takes long, all of them begin again on a
    /// helper thread.
    may_hand_over: bool,
}

/// The error that ends a whole transaction if a script in it cannot continue.
fn failed_in_transaction(wants: ScriptWants) -> CommandError {
    match wants {
        ScriptWants::End(error) => error,
        // It has all latches, its own thread, and reads what is cold.
        _ => CommandError::text("ERR internal error: a script in a transaction asks for more"),
    }
}

/// Remaining work for queued commands that have run.
struct Ran<'q> {
    /// The database of each command, for MONITOR; none where all have the same.
    dbs: Vec<usize>,
    /// Commands that may not run under a latch, where their replies belong, and whether those are dropped.
    surveys: Vec<(Queued<'q>, usize, bool)>,
    /// What scripts have left to do.
    scripts: Vec<ScriptTurn>,
    /// Executions that are not counted yet, each with its time in microseconds.
    uncounted: Vec<(Queued<'q>, u64, Called)>,
}

impl Calls<'_> {
    /// Calls the queued commands inside of `tx`.
    ///
    /// # Errors
    /// The command that could not continue, and why: the transaction must be rolled back.
    fn run<'q>(
        self,
        client: &mut Client,
        all: &'q Transaction,
        (tx, changes): (&mut Tx<'_>, &mut Changes),
        out: &mut Reply,
    ) -> Result<Ran<'q>, (&'static str, CommandError)> {
        let Self { table, worker, server, now_ms, running, may_hand_over } = self;
        let writes = all.contents.writes;
        if writes > 1 {
            tx.log(client.db, b"*1\r\n$5\r\nMULTI\r\n");
        }
        // Each reply behind it is dropped or sent as CLIENT REPLY says when its command has run.
        if !client.reply_mode.is_muted() {
            out.array(all.len());
        }
        let mut ran = Ran {
            dbs: Vec::new(),
            surveys: Vec::new(),
            scripts: Vec::new(),
            uncounted: Vec::with_capacity(if may_hand_over { all.len() } else { 0 }),
        };
        let selects = all.contents.selects;
        // Where one ends, the next begins: the clock is read once for each.
        let mut begun = Instant::now();
        for queued in all.queued() {
            let Queued { spec, args } = queued;
            if selects {
                ran.dbs.push(client.db);
            }
            if spec.class == Class::Survey {
                ran.surveys.push((queued, out.len(), client.reply_mode.is_muted()));
                continue;
            }
            let mark = out.len();
            // A previous command, or another client, may have changed the rights. If the user was deleted, the
            // connection is closed after the reply.
            client.renew_rights(server);
            if let Err(denied) = client.check_rights(spec, args) {
                client.note_denied(server, (spec, args), denied, Context::Multi);
                refuse(server, client, out, &denied.queued_text().into(), mark);
                continue;
            }
            let tx = (spec.class != Class::Local).then_some(&mut *tx);
            if spec.class == Class::Script {
                client.script = ScriptTurn {
                    worker,
                    is_alone: true,
                    in_transaction: true,
                    reads_cold: true,
                    running: running.map(Arc::clone),
                    ..ScriptTurn::default()
                };
            }
            let mut ctx = Ctx { server, client, table, args, spec, out, tx, changes, now_ms };
            ctx.client.may_hand_over = may_hand_over;
            let called = call(&mut ctx, mark).map_err(|error| (spec.name, error));
            client.may_hand_over = false;
            let called = called?;
            if spec.class == Class::Script {
                let mut turn = std::mem::take(&mut client.script);
                count_calls(server, &mut turn);
                if let Some(wants) = turn.wants.take() {
                    return Err((spec.name, failed_in_transaction(wants)));
                }
                ran.scripts.push(turn);
            }
            if let Some(wait) = client.log_wait.take() {
                // Nothing blocks in a transaction.
                wait.answer(server, out);
                drop_if_muted(client, out, mark);
            }
            let ended = Instant::now();
            let time_us = (ended - std::mem::replace(&mut begun, ended)).as_micros() as u64;
            if may_hand_over {
                ran.uncounted.push((queued, time_us, called));
            } else {
                count(worker, server, client, spec, args, time_us, called);
            }
        }
        for &(queued, time_us, called) in &ran.uncounted {
            count(worker, server, client, queued.spec, queued.args, time_us, called);
        }
        if writes > 1 {
            tx.log(client.db, b"*1\r\n$4\r\nEXEC\r\n");
        }
        Ok(ran)
    }

    /// Runs a command of [`Class::Survey`] for a transaction that has been committed; its reply belongs at `at`, unless
    /// CLIENT REPLY drops it.
    fn survey(
        self,
        client: &mut Client,
        queued: Queued<'_>,
        changes: &mut Changes,
        (out, at, is_muted): (&mut Reply, usize, bool),
    ) {
        let Self { table, worker, server, now_ms, .. } = self;
        let (spec, args, begun) = (queued.spec, queued.args, Instant::now());
        let behind = out.buf_mut().split_off(at);
        let mut ctx = Ctx { server, client, table, args, spec, out, tx: None, changes, now_ms };
        let result = run_guarded(&mut ctx).unwrap_or_else(Err);
        let called = Called { failed: result.is_err() };
        if let Err(error) = result {
            out.truncate(at);
            write_error(server, out, &error);
        }
        if is_muted {
            out.truncate(at);
        }
        out.raw(&behind);
        account(worker, server, client, spec, args, begun, called);
    }
}

impl Executor {
    /// EXEC: all queued commands under all their latches, in one engine transaction.
    pub(super) fn exec(
        &mut self,
        server: &Server,
        client: &mut Client,
        args: Args<'_>,
        out: &mut Reply,
        now_ms: u64,
    ) -> Outcome {
        let started = Instant::now();
        let Some(transaction) = client.transaction.take() else { return Outcome::Done(0) };
        if transaction.failed {
            client.end_transaction(Some(transaction));
            client.unwatch(server);
            let error =
                CommandError::text("EXECABORT Transaction discarded because of previous errors.");
            let mark = out.len();
            let called = refuse(server, client, out, &error, mark);
            self.account_exec(server, client, args, started, (called, 0));
            return Outcome::Done(0);
        }
        let contents = transaction.contents;
        let has_script = contents.has(Class::Script);
        let is_large = client.queued_bytes() > LARGE_REQUEST_BYTES || client.is_heavy;
        if (contents.has(Class::Offload) || has_script || is_large) && !self.may_block {
            client.transaction = Some(transaction);
            return Outcome::Offload;
        }
        let engine = &server.engine;
        let sets = contents.traits.has(Traits::CHANGES_SETTINGS);
        let _hold = sets.then(|| server.config.hold());
        let latched = latch_all(&mut self.hashes, server, client, &transaction);
        let (running_scripts, shards) = (&server.running_scripts, Engine::shard_bits(latched));
        let occupied = match has_script {
            true => Some(running_scripts.start(shards)),
            false => is_large.then(|| running_scripts.start_other(shards)),
        };
        // One with a script, or a large one, holds up others, and waits for its latches as long as it takes.
        let nobody = AtomicU64::new(0);
        let others = if occupied.is_some() { &nobody } else { running_scripts.occupied() };
        let Some(mut tx) = engine.begin_unless(latched, others, &mut self.tx_buf) else {
            client.transaction = Some(transaction);
            return Outcome::Paced;
        };
        if client.watch_failed(now_ms) {
            drop(tx);
            client.end_transaction(Some(transaction));
            client.unwatch(server);
            if !client.reply_mode.is_muted() {
                out.null_array();
            }
            // It reveals another client's write (N13).
            let held = engine.sync_policy() == SyncPolicy::Always;
            let required = if held { engine.last_seq() } else { 0 };
            self.account_exec(server, client, args, started, (Called { failed: false }, required));
            return Outcome::Done(required);
        }
        let cold = find_all_cold(server, client.db, &transaction, &mut tx);
        if !cold.is_empty() {
            drop(tx);
            client.transaction = Some(transaction);
            return Outcome::Cold(cold);
        }
        let may_hand_over = !(self.may_block || self.replaying || contents.is_final);

        let (mark, db_before) = (out.len(), client.db);
        let running = occupied.as_ref().filter(|_| has_script).map(|occupied| &occupied.running);
        let (table, worker) = (self.table, self.worker);
        let calls = Calls { table, worker, server, now_ms, running, may_hand_over };
        let ran = calls.run(client, &transaction, (&mut tx, &mut self.changes), out);
        if let Err((name, _)) = ran
            && client.is_heavy
            && may_hand_over
        {
            take_back(server, tx, &mut self.changes, name);
            client.select(db_before);
            out.truncate(mark);
            client.transaction = Some(transaction);
            return Outcome::Offload;
        }
        client.unwatch(server);
        client.session.queued_bytes.store(0, Ordering::Relaxed);
        client.session.queued.store(0, Ordering::Relaxed);
        let ran = match ran {
            Ok(ran) => ran,
            Err((name, error)) => {
                take_back(server, tx, &mut self.changes, name);
                client.select(db_before);
                refuse(server, client, out, &error, mark);
                return Outcome::Done(0);
            }
        };
        let required = commit(server, tx, &mut self.changes, Scope::All, &[]);
        if sets {
            engine.apply_memory_bound();
        }
        // From the last one on, so that the places of those before stay.
        for (queued, at, is_muted) in ran.surveys.into_iter().rev() {
            calls.survey(client, queued, &mut self.changes, (out, at, is_muted));
        }
        let ended = (Called { failed: false }, required);
        let (called, required) = publish(
            server,
            client,
            &mut self.changes,
            (&mut *out, mark),
            contents.writes > 0,
            ended,
        );
        drop(occupied);
        let mut scripts = ran.scripts.into_iter();
        for (nth, queued) in transaction.queued().enumerate() {
            let db = ran.dbs.get(nth).copied().unwrap_or(client.db);
            show_monitors(server, db, client, queued.spec, queued.args, required);
            if queued.spec.class == Class::Script
                && let Some(turn) = scripts.next()
            {
                finish(server, turn, required);
            }
        }
        client.end_transaction(Some(transaction));
        self.account_exec(server, client, args, started, (called, required));
        Outcome::Done(required)
    }

    /// Counts EXEC itself in the statistics and shows it to monitors, whether or not anything was executed.
    fn account_exec(
        &self,
        server: &Server,
        client: &Client,
        args: Args<'_>,
        started: Instant,
        (called, required): (Called, Seq),
    ) {
        if let Some(spec) = self.table.find_own(b"exec") {
            account(self.worker, server, client, spec, args, started, called);
            show_monitors(server, client.db, client, spec, args, required);
        }
    }
}

/// A refused EXEC ends its transaction: the error that it answers, in Redis' words.
pub(super) fn abort(server: &Server, client: &mut Client, reason: &CommandError) -> CommandError {
    client.discard_transaction();
    client.unwatch(server);
    let reason = reason.bytes();
    let reason = reason.strip_prefix(b"ERR ").unwrap_or(&reason);
    let reason = String::from_utf8_lossy(reason);
    format!("EXECABORT Transaction discarded because of: {reason}").into()
}

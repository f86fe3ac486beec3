//! EXEC.

use super::guard::{run_guarded, take_back};
use super::keys::{Slots, each_key, find_cold};
use super::{Args, Class, CommandError, Ctx, Flags, selected_db};
use super::{
    Executor, Outcome, account, drop_if_muted, show_monitors, untellable, write_error,
    write_outcome,
};
use crate::client::{Client, Queued};
use crate::events::notify;
use crate::resp::Reply;
use crate::server::Server;
use sexton_engine::{Latched, OwnedKey, Seq, SyncPolicy, Tx};
use std::sync::atomic::Ordering;
use std::time::Instant;

/// The keys that the queued commands will meet and that are on a device: each looked up in the database that it will
/// be in by then.
fn find_all_cold(
    server: &Server,
    mut db: usize,
    queued: &[Queued],
    tx: &mut Tx<'_>,
) -> Vec<OwnedKey> {
    let mut cold = Vec::new();
    let mut slots = Slots::NOW;
    for queued in queued {
        let (spec, args) = (queued.spec, queued.args());
        if matches!(spec.class, Class::Keyed | Class::Exclusive) {
            find_cold(server, (db, &slots), spec, args, &[], tx, &mut cold);
            slots.follow(server, db, spec, args);
        } else if spec.name == "select" {
            db = selected_db(args, server.databases).unwrap_or(db);
        }
    }
    cold
}

impl Executor {
    /// Runs a command of [`Class::Survey`] for a transaction that has been committed; its reply belongs at `at`, unless
    /// CLIENT REPLY drops it.
    fn survey(
        &mut self,
        server: &Server,
        client: &mut Client,
        queued: &Queued,
        (out, at, is_muted): (&mut Reply, usize, bool),
        now_ms: u64,
    ) {
        let (spec, args, begun) = (queued.spec, queued.args(), Instant::now());
        let behind = out.buf_mut().split_off(at);
        let mut ctx = Ctx { server, client, args, spec, out, tx: None, now_ms };
        let result = run_guarded(&mut ctx).unwrap_or_else(Err);
        let failed = result.is_err();
        if let Err(error) = result {
            out.truncate(at);
            write_error(server, out, &error);
        }
        if is_muted {
            out.truncate(at);
        }
        out.raw(&behind);
        account(self.worker, server, client, spec, args, begun, failed);
    }

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
            client.discard_transaction();
            client.unwatch(server);
            let error =
                CommandError::text("EXECABORT Transaction discarded because of previous errors.");
            let mark = out.len();
            write_error(server, out, &error);
            drop_if_muted(client, out, mark);
            self.account_exec(server, client, args, started, (true, 0));
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
            if !client.reply_mode.is_muted() {
                out.null_array();
            }
            // It tells of a write of others (N13).
            let held = engine.sync_policy() == SyncPolicy::Always;
            let required = if held { engine.last_seq() } else { 0 };
            self.account_exec(server, client, args, started, (false, required));
            return Outcome::Done(required);
        }
        let cold = find_all_cold(server, client.db, &transaction.queued, &mut tx);
        if !cold.is_empty() {
            drop(tx);
            client.transaction = Some(transaction);
            return Outcome::Cold(cold);
        }
        client.unwatch(server);
        client.session.queued.store(0, Ordering::Relaxed);
        client.session.queued_bytes.store(0, Ordering::Relaxed);

        let writes =
            transaction.queued.iter().filter(|q| q.spec.flags.contains(Flags::WRITE)).count();
        if writes > 1 {
            tx.log(client.db, b"*1\r\n$5\r\nMULTI\r\n");
        }
        let (reply_start, db_before) = (out.len(), client.db);
        // Each reply behind it is dropped or sent as CLIENT REPLY says when its command has run.
        if !client.reply_mode.is_muted() {
            out.array(transaction.queued.len());
        }
        // The database of each command, for those who watch.
        let mut dbs = Vec::with_capacity(transaction.queued.len());
        // Commands that may not run under a latch, and where their replies belong.
        let mut surveys = Vec::new();
        for queued in &transaction.queued {
            let (spec, args) = (queued.spec, queued.args());
            dbs.push(client.db);
            if spec.class == Class::Survey {
                surveys.push((queued, out.len(), client.reply_mode.is_muted()));
                continue;
            }
            let begun = Instant::now();
            let mark = out.len();
            let tx_ref = (spec.class != Class::Local).then_some(&mut tx);
            let mut ctx = Ctx { server, client, args, spec, out, tx: tx_ref, now_ms };
            let result = match run_guarded(&mut ctx) {
                Ok(result) => result,
                Err(error) => {
                    take_back(tx, spec.name);
                    client.select(db_before);
                    out.truncate(reply_start);
                    write_error(server, out, &error);
                    drop_if_muted(client, out, reply_start);
                    return Outcome::Done(0);
                }
            };
            if let Some(wait) = client.log_wait.take() {
                // Nothing blocks in a transaction.
                wait.answer(server, out);
            }
            let failed = result.is_err();
            write_outcome(server, client, spec, result, out, mark);
            account(self.worker, server, client, spec, args, begun, failed);
        }
        if writes > 1 {
            tx.log(client.db, b"*1\r\n$4\r\nEXEC\r\n");
        }
        let mut required = tx.commit().last_seq;
        if required == 0 && engine.sync_policy() == SyncPolicy::Always {
            required = engine.last_seq();
        }
        if sets {
            engine.settle_memory();
        }
        // From the last one on, so that the places of those before stay.
        for (queued, at, is_muted) in surveys.into_iter().rev() {
            self.survey(server, client, queued, (out, at, is_muted), now_ms);
        }
        required = required.max(client.take_hold());
        notify::release(server, required);
        if writes == 0
            && let Some(error) = untellable(server, required)
        {
            required = 0;
            out.truncate(reply_start);
            write_error(server, out, &error);
            drop_if_muted(client, out, reply_start);
        }
        for (queued, db) in transaction.queued.iter().zip(dbs) {
            show_monitors(server, db, client, queued.spec, queued.args(), required);
        }
        self.account_exec(server, client, args, started, (false, required));
        Outcome::Done(required)
    }

    /// EXEC itself in the statistics, and before those who watch, whether or not anything was executed.
    fn account_exec(
        &self,
        server: &Server,
        client: &Client,
        args: Args<'_>,
        started: Instant,
        (failed, required): (bool, Seq),
    ) {
        if let Some(spec) = self.table.find(b"exec") {
            account(self.worker, server, client, spec, args, started, failed);
            show_monitors(server, client.db, client, spec, args, required);
        }
    }
}

//! EXEC.

use super::keys::{each_key, find_cold};
use super::{Executor, Outcome, account, show_monitors, write_error};
use crate::client::Client;
use crate::command::{Args, Class, CommandError, Ctx, Flags, selected_db, table};
use crate::notify;
use crate::resp::Reply;
use crate::server::Server;
use sexton_engine::{Latched, SyncPolicy};
use std::sync::atomic::Ordering;
use std::time::Instant;

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
                db = selected_db(queued.args(), server.databases).unwrap_or(db);
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
            account(self.worker, server, client, spec, args, begun, failed);
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
            account(self.worker, server, client, spec, args, started, false);
            show_monitors(server, client.db, client, spec, args, required);
        }
        Outcome::Done(required)
    }
}

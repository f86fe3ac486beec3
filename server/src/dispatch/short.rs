//! The short path of keyed requests that meet no obstacle: the gate's per-request checks are made once per batch,
//! and the clock is read once for many requests.

use super::after::{refuse, refuse_cut};
use super::call::{Called, call, call_missing};
use super::client::Client;
use super::commit::{commit, publish, take_back};
use super::latch::{Scope, latch};
use super::load::cold_keys_before;
use super::long_reply::LongReply;
use super::{Args, Class, CommandSpec, Ctx, Executor, Flags, Past, Traits};
use crate::resp::Reply;
use crate::server::Server;
use sexton_engine::{Latched, Seq};

impl CommandSpec {
    /// True for commands that need only the latches and the values of the keys at fixed positions, or none:
    /// they take the short path.
    #[must_use]
    pub fn is_short(&self) -> bool {
        let moves = Flags::MOVABLEKEYS.union(Flags::BLOCKING);
        let traits =
            Traits::GATHERS_NAMES.and(Traits::CONTROLS_TRANSACTION).and(Traits::ANSWERS_PUSHES);
        let is_keyed = self.class == Class::Keyed
            && self.keys.first == 1
            && !self.flags.intersects(moves)
            && !self.traits.has(traits);
        is_keyed || self.answers_alone()
    }

    /// True for commands that need neither latches nor values.
    #[must_use]
    pub fn answers_alone(&self) -> bool {
        self.class == Class::Local && self.traits.has(Traits::ANSWERS_ALONE)
    }

    /// True for commands that are refused while writes are: the short path must know whether these are.
    #[must_use]
    pub fn asks_like_a_write(&self) -> bool {
        self.flags.contains(Flags::WRITE) || self.traits.has(Traits::TELLS_OF_FAILED_SAVES)
    }

    /// True if the first key of each request is its first argument, and is looked up in one database alone.
    pub(super) fn begins_with_key(&self) -> bool {
        self.keys.first == 1 && self.key_count.is_none() && !self.traits.has(Traits::NAMES_DATABASE)
    }

    /// True for short commands whose duration depends on the request alone: several are timed together.
    #[must_use]
    pub fn is_timed_together(&self) -> bool {
        self.flags.contains(Flags::FAST) || self.traits.has(Traits::DELETES)
    }
}

impl Executor {
    /// Runs a request of a [short](CommandSpec::is_short) command with a valid number of arguments, while
    /// [`Executor::way`] is the short one, and [`Executor::is_fast_write`] for one that writes. `None`: nothing has happened, and
    /// the long path must run it. `now_ms`: the time of the batch; `reply_max_bytes`: that of
    /// [`RequestBounds`](crate::client_memory::RequestBounds).
    #[inline]
    pub fn run_short(
        &mut self,
        server: &Server,
        client: &mut Client,
        (spec, args): (&'static CommandSpec, Args<'_>),
        out: &mut Reply,
        (now_ms, reply_max_bytes): (u64, u64),
    ) -> Option<Seq> {
        let mark = out.len();
        let times = (now_ms, reply_max_bytes);
        let ended = if spec.answers_alone() {
            self.answer_alone(server, client, (spec, args), out, times)
        } else {
            self.run_latched(server, client, (spec, args), out, times)?
        };
        let changes = &mut self.changes;
        client.end_runs(server);
        let writes = spec.flags.contains(Flags::WRITE);
        let (called, required) = publish(server, client, changes, (out, mark), writes, ended);
        if out.is_cut() {
            refuse_cut(server, client, (out, mark), required);
        }
        out.limit(u64::MAX);
        self.changes.tell_own(&server.events, server.post(), (&client.session, out));
        self.fast.count(spec, called.failed);
        Some(required)
    }

    /// Runs a command that needs neither latches nor values.
    fn answer_alone(
        &mut self,
        server: &Server,
        client: &mut Client,
        (spec, args): (&'static CommandSpec, Args<'_>),
        out: &mut Reply,
        (now_ms, reply_max_bytes): (u64, u64),
    ) -> (Called, Seq) {
        let (table, mark) = (self.table, out.len());
        out.limit(reply_max_bytes);
        let changes = &mut self.changes;
        let mut ctx = Ctx { server, client, table, args, spec, out, tx: None, changes, now_ms };
        let called = call(&mut ctx, mark);
        (called.unwrap_or_else(|error| refuse(server, client, out, &error, mark)), 0)
    }

    /// Runs a command under the latches of its keys, and commits; `None`: nothing has happened.
    #[inline]
    fn run_latched(
        &mut self,
        server: &Server,
        client: &mut Client,
        (spec, args): (&'static CommandSpec, Args<'_>),
        out: &mut Reply,
        (now_ms, reply_max_bytes): (u64, u64),
    ) -> Option<(Called, Seq)> {
        let (table, mark) = (self.table, out.len());
        self.hashes.clear();
        let is_single = spec.keys.last == 1;
        if is_single {
            let key = args.get(1);
            self.hashes.push(args.hash_of(key).unwrap_or_else(|| server.engine.hash(key)));
        } else {
            latch(&mut self.hashes, server, Scope::Keys, spec, args);
        }
        let occupied = server.running_scripts.occupied();
        let latched = Latched::Hashes(&self.hashes);
        let mut tx = server.engine.begin_unless(latched, occupied, &mut self.tx_buf)?;
        let cold = cold_keys_before(server, client.db, spec, args, &self.hashes, &mut tx);
        if !cold.is_empty() {
            return None;
        }
        out.limit(reply_max_bytes);
        let changes = &mut self.changes;
        let tx_ref = Some(&mut tx);
        let args = args.with_key_hashes(&self.hashes, 1);
        let mut ctx = Ctx { server, client, table, args, spec, out, tx: tx_ref, changes, now_ms };
        Some(match call_missing(&mut ctx, mark, true) {
            Ok(_) if client.long_reply.is_wanted() => {
                // The long way finds that again, and hands it to a helper thread.
                take_back(server, tx, changes, spec.name);
                client.long_reply = LongReply::None;
                out.truncate(mark);
                out.limit(u64::MAX);
                return None;
            }
            Ok(called) => (called, commit(server, tx, changes, Scope::Keys, &self.hashes)),
            Err(error) => {
                take_back(server, tx, changes, spec.name);
                (client.long_reply, client.past) = (LongReply::None, Past::None);
                if client.is_heavy || !std::mem::take(&mut client.missed).is_empty() {
                    // The long way finds that again: what is missed is loaded, what is heavy handed over.
                    out.truncate(mark);
                    out.limit(u64::MAX);
                    return None;
                }
                (refuse(server, client, out, &error, mark), 0)
            }
        })
    }
}

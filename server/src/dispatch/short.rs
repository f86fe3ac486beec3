//! The short path of keyed requests that meet no obstacle: the gate's per-request checks are made once per batch,
//! and the clock is read once for many requests.

use super::after::{refuse, refuse_cut};
use super::call::{Called, call, call_missing};
use super::client::Client;
use super::commit::{commit, publish, take_back, untellable};
use super::latch::{Scope, latch};
use super::left_out::{Step, left_out};
use super::load::cold_keys_before;
use super::long_reply::LongReply;
use super::{Args, Class, CommandError, CommandSpec, Ctx, Executor, Flags, Past, Traits};
use crate::resp::Reply;
use crate::server::Server;
use sexton_engine::{Key, Latched, Seq};

/// With replies of so many bytes no further request joins those that run together.
const TOGETHER_REPLY_BYTES: usize = 16 << 10;

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

    /// True for short commands on one key that may share a transaction with others on it: none of them takes long.
    #[must_use]
    pub fn shares_transaction(&self) -> bool {
        self.flags.contains(Flags::FAST) && self.keys.last == 1 && self.begins_with_key()
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
        times: (u64, u64),
    ) -> Option<Seq> {
        if !spec.answers_alone() {
            let ran = self.run_together(server, client, std::iter::once((spec, args)), out, times);
            return ran.map(|(_, required)| required);
        }
        let (mark, has_written) = (out.len(), spec.flags.contains(Flags::WRITE));
        let ended = self.answer_alone(server, client, (spec, args), out, times);
        Some(self.end_short(server, client, (spec, has_written), (out, mark), ended))
    }

    /// True while requests of this client may [run together](Executor::run_together).
    #[inline]
    #[must_use]
    pub fn joins(client: &Client) -> bool {
        // What is outdated of its own cache is told behind the reply that it belongs to.
        !client.session.tracking.is_on() && !left_out(Step::Joining)
    }

    /// The same for requests that follow one another, of commands that [share a transaction](CommandSpec::shares_transaction), all on one
    /// key of one database. Answers how many of them have run; the next may need a transaction of its own. `None`: nothing has
    /// happened, and each must run for itself.
    #[inline]
    pub fn run_together<'r>(
        &mut self,
        server: &Server,
        client: &mut Client,
        requests: impl ExactSizeIterator<Item = (&'static CommandSpec, Args<'r>)>,
        out: &mut Reply,
        times: (u64, u64),
    ) -> Option<(usize, Seq)> {
        let mark = out.len();
        let ran = self.run_latched(server, client, requests, out, times);
        if ran.is_none() {
            self.fast.joined.clear();
        }
        let ran = ran?;
        self.fast.count_joined();
        let ended = (ran.last_called, ran.required);
        let specs = (ran.last, ran.has_written);
        Some((ran.count, self.end_short(server, client, specs, (out, mark), ended)))
    }

    /// What follows the commit of requests, of which the last is of `spec`; those before it have not failed.
    #[inline]
    fn end_short(
        &mut self,
        server: &Server,
        client: &mut Client,
        (spec, has_written): (&'static CommandSpec, bool),
        (out, mark): (&mut Reply, usize),
        ended: (Called, Seq),
    ) -> Seq {
        let changes = &mut self.changes;
        client.end_runs(server);
        let (called, required) = publish(server, client, changes, (out, mark), has_written, ended);
        if out.is_cut() {
            refuse_cut(server, client, (out, mark), required);
        }
        out.limit(u64::MAX);
        self.changes.tell_own(&server.events, server.post(), (&client.session, out));
        self.fast.count(spec, called.failed);
        required
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

    /// Runs commands under the latches of their keys, and commits; `None`: nothing has happened.
    #[inline]
    fn run_latched<'r>(
        &mut self,
        server: &Server,
        client: &mut Client,
        mut requests: impl ExactSizeIterator<Item = (&'static CommandSpec, Args<'r>)>,
        out: &mut Reply,
        (now_ms, reply_max_bytes): (u64, u64),
    ) -> Option<RanTogether> {
        let (table, mark, together) = (self.table, out.len(), requests.len());
        let (mut spec, mut args) = requests.next()?;
        self.hashes.clear();
        if spec.keys.last == 1 {
            let key = args.get(1);
            self.hashes.push(args.hash_of(key).unwrap_or_else(|| server.engine.hash(key)));
        } else {
            latch(&mut self.hashes, server, Scope::Keys, spec, args);
        }
        let occupied = server.running_scripts.occupied();
        let latched = Latched::Hashes(&self.hashes);
        let mut tx = server.engine.begin_unless(latched, occupied, &mut self.tx_buf)?;
        let changes = &mut self.changes;
        let (mut count, mut has_written, mut is_found) = (0, false, false);
        let last_called = loop {
            let begun = out.len();
            let is_here = is_found
                || cold_keys_before(server, client.db, spec, args, &self.hashes, &mut tx)
                    .is_empty();
            let called = if is_here {
                out.limit(reply_max_bytes);
                let tx = Some(&mut tx);
                let args = args.with_key_hashes(&self.hashes, 1);
                let mut ctx = Ctx { server, client, table, args, spec, out, tx, changes, now_ms };
                call_here(&mut ctx, begun, together == 1)
            } else {
                Err(Hindered::Elsewhere)
            };
            count += 1;
            has_written |= spec.flags.contains(Flags::WRITE);
            let next = match called {
                Ok(called) if called.failed => break called,
                // What somebody waits for is handed over between two commands.
                Ok(_) if changes.are_awaited() => None,
                Ok(_) if out.len() - mark > TOGETHER_REPLY_BYTES => None,
                Ok(_) => requests.next(),
                Err(hindered) => {
                    take_back(server, tx, changes, spec.name);
                    if let Hindered::Refused(error) = hindered {
                        let last_called = refuse(server, client, out, &error, mark);
                        return Some(RanTogether {
                            count,
                            last: spec,
                            last_called,
                            has_written,
                            required: 0,
                        });
                    }
                    out.truncate(mark);
                    out.limit(u64::MAX);
                    return None;
                }
            };
            let Some(next) = next else { break Called { failed: false } };
            self.fast.joined.push(spec);
            (spec, args) = next;
            let slot = server.engine.slot_of(client.db);
            is_found = tx.stays_with(Key { slot, bytes: args.get(1), hash: self.hashes[0] });
        };
        let required = commit(server, tx, changes, Scope::Keys, &self.hashes);
        if count > 1 && !has_written && untellable(server, required).is_some() {
            // Each is refused for itself.
            changes.forget();
            out.truncate(mark);
            out.limit(u64::MAX);
            return None;
        }
        Some(RanTogether { count, last: spec, last_called, has_written, required })
    }
}

/// Requests that have run in one transaction.
struct RanTogether {
    /// How many.
    count: usize,
    /// The command of the last one, which alone may have failed.
    last: &'static CommandSpec,
    last_called: Called,
    has_written: bool,
    /// The sequence that their replies wait for.
    required: Seq,
}

/// Why a command has not run where it was to run.
enum Hindered {
    /// It was refused.
    Refused(CommandError),
    /// It must run in another way: by itself, or on the long way.
    Elsewhere,
}

/// Runs a command in the transaction of `ctx`, which is its own, or that of several.
#[inline]
fn call_here(ctx: &mut Ctx<'_, '_>, mark: usize, is_own: bool) -> Result<Called, Hindered> {
    match call_missing(ctx, mark, true) {
        // The long way finds that again, and hands it to a helper thread.
        Ok(_) if ctx.client.long_reply.is_wanted() => {
            ctx.client.long_reply = LongReply::None;
            Err(Hindered::Elsewhere)
        }
        Ok(_) if ctx.out.is_cut() && !is_own => Err(Hindered::Elsewhere),
        Ok(called) => Ok(called),
        Err(error) => {
            let client = &mut *ctx.client;
            (client.long_reply, client.past) = (LongReply::None, Past::None);
            let has_missed = !std::mem::take(&mut client.missed).is_empty();
            if !is_own {
                client.is_heavy = false;
                return Err(Hindered::Elsewhere);
            }
            // The long way finds that again: what is missed is loaded, what is heavy handed over.
            Err(if client.is_heavy || has_missed {
                Hindered::Elsewhere
            } else {
                Hindered::Refused(error)
            })
        }
    }
}

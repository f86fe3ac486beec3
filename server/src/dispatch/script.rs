//! Runs scripts: takes their latches, reruns them with further resources, and handles their results.
//!
//! A script runs under the latches of the keys that it declares. If it touches another key, needs a key that is on a
//! device, or takes too long for a thread that serves other clients, it is stopped and its writes are rolled back.
//! It then runs again from its start: with the latch, with the key in memory, or on a thread of its own.

use super::after::{account, count_calls, finish, refuse, show_monitors};
use super::call::call;
use super::client::{Client, ScriptTurn, ScriptWants};
use super::commit::{commit, publish, take_back};
use super::gate::wait_or_refuse;
use super::latch::{Scope, each_key};
use super::load::{Slots, cold_keys, wants};
use super::{Args, CommandSpec, Ctx, Executor, Outcome, Traits};
use crate::resp::Reply;
use crate::server::Server;
use sexton_engine::{Engine, Latched};
use std::sync::Arc;
use std::time::Instant;

/// After this many runs, each of which added a few latches, a script gets all latches.
const RUNS_WITH_SOME_LATCHES: usize = 8;

/// After this many loads, further keys are read on demand.
const COLD_ROUNDS_MAX: u32 = 64;

/// A client keeps the buffer for the commands of its scripts if it has room for at most this many.
const KEPT_TALLIES: usize = 8;

impl Executor {
    /// EVAL and its like, outside of MULTI.
    pub(super) fn run_script(
        &mut self,
        server: &Server,
        client: &mut Client,
        spec: &'static CommandSpec,
        args: Args<'_>,
        out: &mut Reply,
        now_ms: u64,
    ) -> Outcome {
        let engine = &server.engine;
        let (table, started, mark) = (self.table, Instant::now(), out.len());
        let mut again = std::mem::take(&mut client.script.again);
        for run in 1.. {
            self.hashes.clear();
            each_key(spec, args, |key| self.hashes.push(engine.hash(key)));
            self.hashes.extend_from_slice(&again.latches);
            let all = again.all_latches;
            let latched = if all { Latched::All } else { Latched::Hashes(&self.hashes) };
            let occupied = self.may_block.then(|| {
                let shards = Engine::shard_bits(latched);
                if spec.traits.has(Traits::WAITS_OUTSIDE) {
                    server.running_scripts.start_other(shards)
                } else {
                    server.running_scripts.start(shards)
                }
            });
            let begun = if occupied.is_some() {
                Some(engine.begin(latched, &mut self.tx_buf))
            } else {
                engine.begin_unless(latched, server.running_scripts.occupied(), &mut self.tx_buf)
            };
            let Some(mut tx) = begun else {
                let outcome = wait_or_refuse(server, client, out, mark);
                // One that is refused does not begin again.
                if matches!(outcome, Outcome::Paced) {
                    client.script.again = again;
                }
                return outcome;
            };
            let reads_cold = again.cold_rounds >= COLD_ROUNDS_MAX;
            if !reads_cold {
                let slots = (client.db, &Slots::NOW);
                let cold = cold_keys(server, slots, spec, args, &self.hashes, &mut tx);
                if !cold.is_empty() {
                    again.cold_rounds += 1;
                    client.script.again = again;
                    return Outcome::Cold(wants(cold));
                }
            }
            let tallies = std::mem::take(&mut client.script.tallies);
            client.script = ScriptTurn {
                tallies,
                started: (run == 1).then_some(started),
                worker: self.worker,
                is_alone: self.may_block,
                reads_cold,
                running: occupied.as_ref().map(|occupied| Arc::clone(&occupied.running)),
                ..ScriptTurn::default()
            };
            let tx_ref = Some(&mut tx);
            let changes = &mut self.changes;
            let mut ctx =
                Ctx { server, client, table, args, spec, out, tx: tx_ref, changes, now_ms };
            let called = call(&mut ctx, mark);
            let mut turn = std::mem::take(&mut client.script);
            let called = match turn.wants.take() {
                None => called,
                Some(ScriptWants::End(error)) => Err(error),
                Some(more_wanted) => {
                    take_back(server, tx, &mut self.changes, spec.name);
                    out.truncate(mark);
                    match more_wanted {
                        ScriptWants::Latches(hashes) => {
                            again.latches.extend(hashes);
                            again.all_latches |= run >= RUNS_WITH_SOME_LATCHES;
                        }
                        ScriptWants::AllLatches if self.may_block => again.all_latches = true,
                        ScriptWants::Cold(keys) => {
                            again.cold_rounds += 1;
                            client.script.again = again;
                            return Outcome::Cold(wants(keys));
                        }
                        _ => {
                            client.script.again = again;
                            return Outcome::Offload;
                        }
                    }
                    continue;
                }
            };
            count_calls(server, &mut turn);
            if turn.tallies.capacity() <= KEPT_TALLIES {
                client.script.tallies = std::mem::take(&mut turn.tallies);
            }
            let scope = if all { Scope::All } else { Scope::Keys };
            let ended = match called {
                Ok(called) => (called, commit(server, tx, &mut self.changes, scope, &self.hashes)),
                Err(error) => {
                    take_back(server, tx, &mut self.changes, spec.name);
                    turn = ScriptTurn::default();
                    (refuse(server, client, out, &error, mark), 0)
                }
            };
            drop(occupied);
            let (reply, changes) = ((&mut *out, mark), &mut self.changes);
            let (called, required) =
                publish(server, client, changes, reply, turn.has_written, ended);
            if !self.replaying {
                account(self.worker, server, client, spec, args, started, called);
                show_monitors(server, client.db, client, spec, args, required);
            }
            finish(server, turn, required);
            return Outcome::Done(required);
        }
        unreachable!("the loop has no end of its own")
    }
}

//! Plain GETs and SETs without the steps that their conditions make unnecessary, and the counters of the short path.

use super::Executor;
use super::access::note_access;
use super::after::{is_noted, note_slow};
use super::client::Client;
use super::entry::kept_access;
use super::fast_counts::PlainSpecs;
use super::left_out::{Step, left_out};
use super::obstacles::Obstacles;
use super::{Args, CommandSpec, Flags, Purpose};
use crate::events::Event;
use crate::keyspace::{StringView, Written};
use crate::resp::Reply;
use crate::server::Server;
use sexton_engine::{Found, Key, Latched, Seq, Tx, TxBuf};
use std::sync::atomic::Ordering;

/// How the requests of a client may be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By [`Executor::fast_get`], [`Executor::fast_set`] and [`Executor::run_short`], which leave out what no obstacle makes unnecessary.
    Short,
    /// By [`Executor::fast_queue`]: the client is in a transaction, which is the only obstacle.
    Queue,
    /// By [`Executor::execute`] only.
    Long,
}

/// Bytes of a value from which on it is sent from where it is. A shorter one is copied in less time than its part of a write takes.
const HELD_MIN_BYTES: usize = 16 << 10;

impl Executor {
    /// How requests of this client may be run. To be asked again after every command that has taken the long way.
    #[must_use]
    pub fn way(&self, server: &Server, client: &Client) -> Way {
        let behind = Obstacles::behind_the_gate(server, client);
        match Obstacles::of(server, client).and(behind) {
            _ if self.plain.is_none() => Way::Long,
            obstacles if obstacles.is_empty() => Way::Short,
            Obstacles::IN_TRANSACTION if client.waiter.is_none() => Way::Queue,
            _ => Way::Long,
        }
    }

    /// True while plain GETs and SETs of this client may take [`Executor::fast_get`] and [`Executor::fast_set`].
    #[cfg(test)]
    pub fn is_fast(&self, server: &Server, client: &Client) -> bool {
        self.way(server, client) == Way::Short
    }

    /// Queues a command of the short path for EXEC; false: the long path must decide. `max_bytes` are those of queued commands that
    /// need no further check. To be called where [`Executor::way`] is [`Way::Queue`], and for a write where
    /// [`Executor::is_fast_write`] holds, too.
    #[inline]
    pub fn fast_queue(
        client: &mut Client,
        (spec, args): (&'static CommandSpec, Args<'_>),
        max_bytes: u64,
        out: &mut Reply,
    ) -> bool {
        debug_assert!(spec.is_short(), "{} may control the transaction", spec.name);
        let bytes = client.queued_bytes() + args.span_bytes();
        if spec.flags.contains(Flags::NO_MULTI) || bytes as u64 > max_bytes {
            return false;
        }
        client.queue(spec, args);
        out.simple("QUEUED");
        true
    }

    /// True while writes may take the way that [`Executor::way`] says: they are neither refused nor paced.
    #[must_use]
    pub fn is_fast_write(&self, server: &Server) -> bool {
        let obstacles = Obstacles::of_writes(server);
        obstacles.is_empty() || (left_out(Step::Pacing) && obstacles == Obstacles::PACED)
    }

    /// The row of GET, if it has a short way.
    #[inline]
    #[must_use]
    pub fn plain_get(&self) -> Option<&'static CommandSpec> {
        self.plain.map(|plain| plain.get)
    }

    /// The row of SET, if it has a short way.
    #[inline]
    #[must_use]
    pub fn plain_set(&self) -> Option<&'static CommandSpec> {
        self.plain.map(|plain| plain.set)
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
        let mut tx = begin_of_key(server, &hash, &mut self.tx_buf)?;
        let key = Key { slot: engine.slot_of(client.db), bytes, hash };
        match tx.find_once(key) {
            Found::Live(entry) => {
                if entry.meta().is_expired(now_ms) {
                    return None;
                }
                let string = StringView::of(entry)?;
                note_access((server, &client.session, now_ms), Purpose::Read, &entry);
                let bytes = string.bytes();
                match (bytes.len() >= HELD_MIN_BYTES).then(|| entry.held()).flatten() {
                    Some(value) => out.bulk_held(Box::new(value)),
                    None => out.bulk(bytes),
                }
                self.fast.hits += 1;
            }
            Found::Absent => out.null(),
            Found::Cold => return None,
        }
        if client.session.tracking.mode().remembers_reads() {
            server.events.tracking.remember(bytes, client.id);
        }
        tx.commit();
        self.fast.gets += 1;
        Some(engine.last_write(hash))
    }

    /// SET key value; `None`: run it the long way. `logged` is the request itself in RESP form.
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
    ) -> Option<Seq> {
        let engine = &server.engine;
        let mut tx = begin_of_key(server, &hash, &mut self.tx_buf)?;
        if server.blocking.wait_for(client.db, bytes) {
            return None;
        }
        let key = Key { slot: engine.slot_of(client.db), bytes, hash };
        let access = kept_access(server, &client.session, &mut tx, key, now_ms);
        let (changes, events) = (&mut self.changes, &server.events);
        changes.begin_command(Some(client.id));
        changes.write(events, client.db, bytes, Some(Event::string("set")));
        if !left_out(Step::Watch) {
            changes.signal(events);
        }
        let meta = Written::Whole.expiring_at(0);
        let commit = tx.commit_put(key, meta, value, access, (client.db, logged));
        self.fast.sets += 1;
        // No client waits for it: that was checked under its latch.
        let _ = changes.take_ready();
        changes.tell_caches(events, server.post());
        changes.publish(events, commit.last_seq);
        out.ok();
        changes.tell_own(events, server.post(), (&client.session, out));
        Some(commit.last_seq)
    }

    /// Adds requests of the short path, which took `time_us` together, to the statistics, and reports slow ones to the slow
    /// log and the latency monitor. `first` are the arguments of the first of them.
    pub fn record_stats(
        &mut self,
        server: &Server,
        client: &Client,
        first: Args<'_>,
        time_us: u64,
    ) {
        let (gets, sets, hits) = (self.fast.gets, self.fast.sets, self.fast.hits);
        (self.fast.gets, self.fast.sets, self.fast.hits) = (0, 0, 0);
        let others: u64 = self.fast.others.iter().map(|(_, calls, _)| calls).sum();
        let calls = gets + sets + others;
        if calls == 0 {
            return;
        }
        if is_noted(server, time_us)
            && let Some(spec) = self.table.find(first.get(0))
            && !left_out(Step::SlowLog)
        {
            note_slow(server, client, spec, first, calls - 1, time_us);
        }
        let histogram = server.settings.latency_tracking.load(Ordering::Relaxed);
        let record = |spec: &CommandSpec, count: u64, failed: u64| {
            if count != 0 {
                let time_us = time_us * count / calls;
                spec.stats.record_many(self.worker, (count, failed), time_us, histogram);
            }
        };
        if let Some(PlainSpecs { get, set }) = self.plain {
            record(get, gets, 0);
            record(set, sets, 0);
        }
        self.fast.others.iter().for_each(|&(spec, count, failed)| record(spec, count, failed));
        self.fast.others.clear();
        if gets != 0 {
            server.stats.count_lookups(hits, gets - hits);
        }
    }
}

/// A transaction of the key with this hash. `None` while a script holds its latch.
#[inline]
fn begin_of_key<'e>(server: &'e Server, hash: &'e u64, tx_buf: &'e mut TxBuf) -> Option<Tx<'e>> {
    let latched = Latched::Hashes(std::slice::from_ref(hash));
    server.engine.begin_unless(latched, server.running_scripts.occupied(), tx_buf)
}

//! Plain GETs and SETs, without what their conditions make unnecessary.

use super::Executor;
use super::after::note_slow;
use super::obstacles::Obstacles;
use super::{Args, CommandSpec, Table};
use crate::client::Client;
use crate::events::Event;
use crate::keyspace::{StringView, Written};
use crate::resp::Reply;
use crate::server::Server;
use sexton_engine::{Found, Key, Latched, Seq, Tx, TxBuf};
use std::sync::atomic::Ordering;

/// Plain GETs and SETs since the last [`Executor::settle`].
#[derive(Default)]
pub(super) struct FastCounts {
    gets: u64,
    sets: u64,
    hits: u64,
}

/// The rows of the commands that have the short way.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlainSpecs {
    get: &'static CommandSpec,
    set: &'static CommandSpec,
}

impl PlainSpecs {
    pub(super) fn of(table: &'static Table) -> Option<Self> {
        Some(Self { get: table.find(b"get")?, set: table.find(b"set")? })
    }
}

impl Executor {
    /// True while plain GETs and SETs of this client may take [`Executor::fast_get`] and
    /// [`Executor::fast_set`], which leave out what these conditions make unnecessary. To be asked
    /// again after every other command.
    #[must_use]
    pub fn is_fast(&self, server: &Server, client: &Client) -> bool {
        let behind = Obstacles::behind_the_gate(server, client);
        self.plain.is_some() && Obstacles::of(server, client).and(behind).is_empty()
    }

    /// The same for writes: false while they are refused or paced.
    #[must_use]
    pub fn is_fast_write(&self, server: &Server) -> bool {
        Obstacles::of_writes(server).is_empty()
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
        let mut touched = None;
        match tx.find(key) {
            Found::Live(entry) => {
                if entry.meta().is_expired(now_ms) {
                    return None;
                }
                let string = StringView::of(entry)?;
                if !client.session.no_touch.load(Ordering::Relaxed) {
                    let access = server.eviction.access.touched(entry.access(), now_ms);
                    touched = (access != entry.access()).then_some(access);
                }
                out.bulk(string.bytes());
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
        let key = Key { slot: engine.slot_of(client.db), bytes, hash };
        let access = kept_access(server, client, &mut tx, key, now_ms);
        self.changes.write(&server.events, client.db, bytes, Some(Event::string("set")));
        self.changes.signal(&server.events);
        let meta = Written::Whole.expiring_at(0);
        let commit = tx.commit_put(key, meta, value, access, (client.db, logged));
        self.fast.sets += 1;
        self.changes.publish(&server.events, commit.last_seq);
        out.ok();
        Some(commit.last_seq)
    }

    /// Brings plain GETs and SETs that took `time_us` together into the statistics, and those that were slow
    /// before the slow log and the latency monitor. `first` are the arguments of the first of them.
    pub fn settle(&mut self, server: &Server, client: &Client, first: Args<'_>, time_us: u64) {
        let FastCounts { gets, sets, hits } = std::mem::take(&mut self.fast);
        let calls = gets + sets;
        let Some(PlainSpecs { get, set }) = self.plain.filter(|_| calls != 0) else { return };
        let spec = if sets == 0 { get } else { set };
        note_slow(server, client, spec, first, calls - 1, time_us);
        let histogram = server.settings.latency_tracking.load(Ordering::Relaxed);
        if gets != 0 {
            server.stats.count_lookups(hits, gets - hits);
            get.stats.record_many(self.worker, gets, time_us * gets / calls, histogram);
        }
        if sets != 0 {
            set.stats.record_many(self.worker, sets, time_us * sets / calls, histogram);
        }
    }
}

/// A transaction of the key with this hash. `None` while a script holds its latch.
#[inline]
fn begin_of_key<'e>(server: &'e Server, hash: &'e u64, tx_buf: &'e mut TxBuf) -> Option<Tx<'e>> {
    let latched = Latched::Hashes(std::slice::from_ref(hash));
    server.engine.begin_unless(latched, server.running_scripts.occupied(), tx_buf)
}

/// Under an LFU policy an overwritten key keeps its counter, as in Redis: the access field it is to
/// have after the write.
pub(crate) fn kept_access(
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

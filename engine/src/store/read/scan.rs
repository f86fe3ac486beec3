//! Walks over the newest state in key order, whatever the DRAM table holds (N12, G2).

use crate::cemetery::RunList;
use crate::key::{EngineKey, Meta, Seq};
use crate::store::engine::{Engine, EngineError};
use crate::store::latch::Latched;
use crate::store::namespace::{self, HEAD_BYTES};
use crate::store::read::iter::{Iter, IterOptions};
use crate::store::shard::shard_of;
use crate::table::TableResult;
use crate::tree::Graves;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Keys of each shard that are looked at for a mean.
const TTL_LOOKS: usize = 8;

/// A range of one database in key order.
#[derive(Clone, Debug, Default)]
pub struct ScanRange {
    /// Logical database.
    pub db: usize,
    /// First key wanted (inclusive), or past it when `after` is set. Empty: from the start.
    pub from: Vec<u8>,
    /// True when `from` itself is not wanted.
    pub after: bool,
    /// Only keys with this prefix.
    pub prefix: Vec<u8>,
    /// Values are not copied: they come out empty.
    pub keys_only: bool,
}

/// One live key of a scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanItem {
    /// The user's key.
    pub key: Vec<u8>,
    /// Flags and expiry.
    pub meta: Meta,
    /// Its value; empty in a scan of keys only.
    pub value: Vec<u8>,
}

/// A scan in progress: one sequence and one superversion for its life (G2).
pub struct Scan {
    iter: Iter,
    /// The first key is still to be sought from here.
    start: Option<Vec<u8>>,
    keys_only: bool,
    failed: bool,
}

impl Scan {
    fn step(&mut self) -> Result<Option<ScanItem>, EngineError> {
        match self.start.take() {
            Some(start) => self.iter.seek(&start)?,
            None => self.iter.next()?,
        }
        let iter = &self.iter;
        Ok(iter.valid().then(|| ScanItem {
            key: iter.key().to_vec(),
            meta: iter.meta(),
            value: if self.keys_only { Vec::new() } else { iter.value().to_vec() },
        }))
    }
}

impl Iterator for Scan {
    type Item = Result<ScanItem, EngineError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let item = self.step().transpose();
        self.failed = matches!(item, Some(Err(_)));
        item
    }
}

/// D(k, s) for a caller that holds all latches, by hash and engine key.
pub(in crate::store) struct LatchedGraves<'a, F> {
    engine: &'a Engine,
    /// The spilled ones, taken before the superversion: latches are no pin.
    runs: Arc<RunList>,
    in_memory: F,
}

impl<'a, F: Fn(u64, &[u8], Seq) -> Option<Seq>> LatchedGraves<'a, F> {
    pub(in crate::store) fn new(engine: &'a Engine, in_memory: F) -> Self {
        Self { engine, runs: engine.inner().graveyard.spill.runs.load(), in_memory }
    }
}

impl<F: Fn(u64, &[u8], Seq) -> Option<Seq>> Graves for LatchedGraves<'_, F> {
    fn is_empty(&self) -> bool {
        false
    }

    fn newest_at(&self, key: &[u8], s: Seq) -> TableResult<Option<Seq>> {
        let d = match namespace::split(key) {
            Some((_, user)) => (self.in_memory)(self.engine.hash(user), key, s),
            None => self.engine.inner().graveyard.elements.newest_at(key, s),
        };
        Ok(d.max(self.runs.newest_at(key, s)?))
    }
}

impl ScanRange {
    /// The least key wanted.
    fn start(&self) -> Vec<u8> {
        let mut start = self.from.clone();
        if self.after {
            start.push(0);
        }
        start
    }

    fn options(&self) -> IterOptions {
        let (db, prefix, keys_only) = (self.db, self.prefix.clone(), self.keys_only);
        IterOptions { db, prefix, keys_only, ..IterOptions::default() }
    }
}

impl Engine {
    /// Live keys of the newest state in key order, from all memtables and tables whatever the DRAM
    /// table holds. Blocks on I/O: never call it on a worker thread. The view is taken at the call.
    /// No latch may be held by the caller (under `Latched::All` there is [`crate::store::Tx::scan`]).
    pub fn scan(&self, range: &ScanRange) -> Result<Scan, EngineError> {
        let iter = self.iter(&range.options());
        let keys_only = range.keys_only;
        Ok(Scan { iter, start: Some(range.start()), keys_only, failed: false })
    }

    /// A scan for a transaction that holds all latches, until `visit` answers false.
    pub(in crate::store) fn scan_latched(
        &self,
        range: &ScanRange,
        graves: &dyn Graves,
        visit: &mut dyn FnMut(ScanItem) -> bool,
    ) -> Result<(), EngineError> {
        let (view, head) = self.view_latched(range.db);
        let mut iter_options = range.options();
        iter_options.lower = range.start();
        let mut walk = view.walk(iter_options.bounds(&head)).keys_only(range.keys_only);
        walk.seek(&head, graves)?;
        while walk.valid() {
            let key = walk.key()[HEAD_BYTES..].to_vec();
            let value = if range.keys_only { Vec::new() } else { walk.value().to_vec() };
            if !visit(ScanItem { key, meta: walk.meta(), value }) {
                break;
            }
            walk.next(graves)?;
        }
        Ok(())
    }

    /// D(k, s), asked under the latch of the key's shard unless the shard has no grave at all in memory, or none
    /// with this hash. What left memory meanwhile was in a run before.
    ///
    /// # Errors
    /// A grave run that cannot be read.
    pub(in crate::store) fn newest_grave(
        &self,
        hash: u64,
        key: &[u8],
        s: Seq,
    ) -> TableResult<Option<Seq>> {
        let d = self.newest_grave_in_memory(hash, key, s);
        Ok(d.max(self.inner().graveyard.spill.runs.newest_at(key, s)?))
    }

    /// D(k, s) among the graves that are not in runs.
    pub(in crate::store) fn newest_grave_in_memory(
        &self,
        hash: u64,
        key: &[u8],
        s: Seq,
    ) -> Option<Seq> {
        let shard = &self.inner().shards[shard_of(hash)];
        let any = shard.graves.load(Ordering::Acquire) > 0 && shard.grave_filter.may_hold(hash);
        if any { shard.latch().graves.newest_at(hash, key, s) } else { None }
    }

    /// D(k, s) of a page (E4); none of a key of another kind that has no graves.
    ///
    /// # Errors
    /// As for [`Engine::newest_grave`].
    pub(in crate::store) fn newest_element_grave(
        &self,
        key: &[u8],
        s: Seq,
    ) -> TableResult<Option<Seq>> {
        if !EngineKey::is_element(key) {
            return Ok(None);
        }
        let d = self.inner().graveyard.elements.newest_at(key, s);
        Ok(d.max(self.inner().graveyard.spill.runs.newest_at(key, s)?))
    }

    /// Exact number of live keys of a database (expired ones that were not deleted yet included,
    /// as in Redis). May block on I/O until unresolved overwrites are settled (N9).
    pub fn count(&self, db: usize) -> Result<u64, EngineError> {
        let inner = self.inner();
        // Nothing is frozen meanwhile, so what was not settled is where it was looked for.
        let _freeze_permit = inner.flusher.freeze_permit.lock();
        let _resolver = inner.flusher.resolver.lock();
        for job in inner.flusher.frozen.all() {
            // Those of a recovery may not be in order yet.
            self.sorted_run(&job);
            self.resolve_items(job.unresolved())?;
        }
        loop {
            for shard in &inner.shards {
                let mut state = shard.latch();
                // With its room, which a burst may have made large.
                inner.flusher.settling.lock().extend(std::mem::take(&mut state.unresolved));
            }
            let settled = self.resolve_items(&inner.flusher.settling);
            // The device failed: the rest waits for the next caller.
            loop {
                // A statement of its own: a condition of the loop would hold the lock through its body.
                let next = inner.flusher.settling.lock().last().map(|item| item.hash);
                let Some(hash) = next else { break };
                let mut state = inner.shards[shard_of(hash)].latch();
                state.unresolved.extend(inner.flusher.settling.lock().pop());
            }
            *inner.flusher.settling.lock() = Vec::new();
            settled?;
            let guards = inner.barrier();
            if guards.iter().all(|guard| guard.unresolved.is_empty()) {
                return Ok(self.counted(&guards, db));
            }
        }
    }

    /// The same where it takes neither I/O nor a wait for who holds a latch for long; `None` where it does.
    #[must_use]
    pub fn count_at_once(&self, db: usize) -> Option<u64> {
        let inner = self.inner();
        // Who settles an overwrite says so behind the count that it corrects under its latch.
        let is_settled = || inner.flusher.unresolved.load(Ordering::Relaxed) == 0;
        let guards = is_settled().then(|| inner.try_barrier().ok()).flatten()?;
        is_settled().then(|| self.counted(&guards, db))
    }

    /// The keys that these shards, which are all, count of a database.
    fn counted(&self, guards: &[Latched<'_>], db: usize) -> u64 {
        let slot = usize::from(self.slot_of(db));
        let keys: i64 = guards.iter().map(|guard| guard.counts[slot].keys).sum();
        keys.max(0) as u64
    }

    /// Count of live keys and of keys with an expiry as known now, and how many overwrites of all
    /// databases are not settled yet. Never blocks on I/O.
    #[must_use]
    pub fn count_provisional(&self, db: usize) -> (u64, u64, u64) {
        let inner = self.inner();
        let (mut keys, mut expires) = (0, 0);
        for shard in &inner.shards {
            let state = shard.latch();
            let count = state.counts[usize::from(inner.namespaces.slot_of(db))];
            keys += count.keys;
            expires += count.expires;
        }
        let unresolved = inner.flusher.unresolved.load(Ordering::Relaxed);
        (keys.max(0) as u64, expires.max(0) as u64, unresolved)
    }

    /// Mean time to live in milliseconds of the keys in memory that have an expiry, from a few keys of each shard, which
    /// `random` chooses. 0 if none of these is a key of this database.
    #[must_use]
    pub fn mean_time_to_live_ms(&self, db: usize, now_ms: u64, random: u64) -> u64 {
        let slot = self.slot_of(db);
        let (mut sum_ms, mut keys) = (0_u128, 0);
        for shard in &self.inner().shards {
            shard.latch().table.sample_expiring(random, TTL_LOOKS, |entry| {
                let left_ms = entry.meta().expire_at_ms.saturating_sub(now_ms);
                if entry.slot() == slot && left_ms > 0 {
                    sum_ms += u128::from(left_ms);
                    keys += 1;
                }
                true
            });
        }
        sum_ms.checked_div(keys).unwrap_or_default() as u64
    }
}

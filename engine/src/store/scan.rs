//! Walks over the newest state in key order, whatever the DRAM table holds (N12, G2).

use super::engine::{Engine, EngineError};
use super::namespace::{self, HEAD_BYTES};
use super::pins::Pin;
use super::shard::shard_of;
use super::superversion::SuperVersion;
use crate::key::{Meta, Seq};
use crate::memtable::{Mark, RunSource};
use crate::tree::{self, MergeIter, ScanSource, Source};
use std::sync::Arc;
use std::sync::atomic::Ordering;

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
}

/// One live key of a scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanItem {
    /// The user's key.
    pub key: Vec<u8>,
    /// Flags and expiry.
    pub meta: Meta,
    /// Its value.
    pub value: Vec<u8>,
}

/// Where a scan asks for D(k, s).
type GraveLookup<'a> = &'a dyn Fn(u64, &[u8], Seq) -> Option<Seq>;

struct Walk {
    merge: MergeIter<ScanSource>,
    s: Seq,
    head: [u8; HEAD_BYTES],
    prefix: Vec<u8>,
}

/// A scan in progress: one sequence and one superversion for its life (G2).
pub struct Scan {
    engine: Engine,
    walk: Walk,
    failed: bool,
    _pin: Pin,
}

impl Iterator for Scan {
    type Item = Result<ScanItem, EngineError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let engine = self.engine.clone();
        let graves = |hash: u64, key: &[u8], s: Seq| engine.newest_grave(hash, key, s);
        let item = self.walk.next(&engine, &graves).transpose();
        self.failed = matches!(item, Some(Err(_)));
        item
    }
}

impl Walk {
    fn open(
        superversion: &SuperVersion,
        active_mark: Mark,
        s: Seq,
        namespace: u64,
        range: &ScanRange,
    ) -> Result<Self, EngineError> {
        let head = namespace::head(namespace);
        let mut sources: Vec<ScanSource> = Vec::new();
        for run in superversion.active.ordered_through(active_mark) {
            sources.push(Box::new(RunSource::new(run)));
        }
        for frozen in &superversion.frozen {
            match &frozen.run {
                Some(run) => sources.push(Box::new(RunSource::new(Arc::clone(run)))),
                None => {
                    let runs = frozen.memtable.ordered_through(frozen.mark);
                    for run in runs {
                        sources.push(Box::new(RunSource::new(run)));
                    }
                }
            }
        }
        tree::add_sources(&superversion.version, &mut sources);
        let mut merge = MergeIter::new(sources);
        let start = range.from.as_slice().max(range.prefix.as_slice());
        let mut seek = [head.as_slice(), start].concat();
        if range.after && start == range.from {
            seek.push(0);
        }
        merge.seek(&seek)?;
        Ok(Self { merge, s, head, prefix: range.prefix.clone() })
    }

    /// The next live key: newest version at or below s, unless a grave covers it.
    fn next(
        &mut self,
        engine: &Engine,
        graves: GraveLookup<'_>,
    ) -> Result<Option<ScanItem>, EngineError> {
        while self.merge.valid() {
            let key = self.merge.key();
            let in_range =
                key.strip_prefix(&self.head).is_some_and(|k| k.starts_with(&self.prefix));
            if !in_range {
                return Ok(None);
            }
            if self.merge.seq() > self.s {
                self.merge.next()?;
                continue;
            }
            let user = &key[HEAD_BYTES..];
            let dead = self.merge.meta().is_tombstone()
                || graves(engine.hash(user), key, self.s) > Some(self.merge.seq());
            let item = (!dead).then(|| ScanItem {
                key: user.to_vec(),
                meta: self.merge.meta(),
                value: self.merge.value().to_vec(),
            });
            self.merge.next_key()?;
            if item.is_some() {
                return Ok(item);
            }
        }
        Ok(None)
    }
}

impl Engine {
    /// Live keys of the newest state in key order, from all memtables and tables whatever the DRAM
    /// table holds. Blocks on I/O: never call it on a worker thread. The view is taken at the call.
    /// No latch may be held by the caller (under `Latched::All` there is [`super::Tx::scan`]).
    pub fn scan(&self, range: &ScanRange) -> Result<Scan, EngineError> {
        let inner = self.inner();
        let (pin, superversion, mark, namespace) = {
            let _guards = inner.barrier();
            let commit = inner.commit.lock();
            // Superversion and pin in one step: between the two a sweep could forget graves whose
            // dead lie in this superversion only (F3).
            let change = inner.superversion_change.lock();
            let superversion = inner.superversion.load_full();
            let pin = inner.pins.add(commit.next_seq - 1, superversion.number);
            drop(change);
            let namespace = inner.namespaces.id_of(inner.namespaces.slot_of(range.db));
            (pin, superversion, commit.mark(), namespace)
        };
        let walk = Walk::open(&superversion, mark, pin.seq(), namespace, range)?;
        Ok(Scan { engine: self.clone(), walk, failed: false, _pin: pin })
    }

    /// The same for a transaction that holds all latches.
    pub(super) fn scan_latched(
        &self,
        range: &ScanRange,
        graves: GraveLookup<'_>,
    ) -> Result<Vec<ScanItem>, EngineError> {
        let inner = self.inner();
        let (mark, s) = {
            let commit = inner.commit.lock();
            (commit.mark(), commit.next_seq - 1)
        };
        let superversion = inner.superversion.load_full();
        let namespace = inner.namespaces.id_of(inner.namespaces.slot_of(range.db));
        let mut walk = Walk::open(&superversion, mark, s, namespace, range)?;
        let mut items = Vec::new();
        while let Some(item) = walk.next(self, graves)? {
            items.push(item);
        }
        Ok(items)
    }

    /// D(k, s), asked under the latch of the key's shard unless the shard has no grave at all.
    pub(super) fn newest_grave(&self, hash: u64, key: &[u8], s: Seq) -> Option<Seq> {
        let shard = &self.inner().shards[shard_of(hash)];
        if shard.graves.load(Ordering::Acquire) == 0 {
            return None;
        }
        shard.state.lock().graves.newest_at(hash, key, s)
    }

    /// Exact number of live keys of a database (expired ones that were not deleted yet included,
    /// as in Redis). May block on I/O until unresolved overwrites are settled (N9).
    pub fn count(&self, db: usize) -> Result<u64, EngineError> {
        let inner = self.inner();
        let mut resolver = inner.resolver.lock();
        self.settle_frozen(&mut resolver)?;
        loop {
            let mut pending = Vec::new();
            for shard in &inner.shards {
                pending.append(&mut shard.state.lock().unresolved);
            }
            let settled = self.settle(&mut pending, &mut Vec::new());
            for item in pending {
                // The device failed: they wait for the next one who asks.
                inner.shards[shard_of(item.hash)].state.lock().unresolved.push(item);
            }
            settled?;
            let guards = inner.barrier();
            if guards.iter().all(|guard| guard.unresolved.is_empty()) {
                let slot = usize::from(inner.namespaces.slot_of(db));
                let keys: i64 = guards.iter().map(|guard| guard.counts[slot].keys).sum();
                return Ok(keys.max(0) as u64);
            }
        }
    }

    /// Count of live keys and of keys with an expiry as known now, and how many overwrites of all
    /// databases are not settled yet. Never blocks on I/O.
    #[must_use]
    pub fn count_provisional(&self, db: usize) -> (u64, u64, u64) {
        let inner = self.inner();
        let (mut keys, mut expires) = (0, 0);
        for shard in &inner.shards {
            let state = shard.state.lock();
            let count = state.counts[usize::from(inner.namespaces.slot_of(db))];
            keys += count.keys;
            expires += count.expires;
        }
        let unresolved = inner.unresolved.load(Ordering::Relaxed);
        (keys.max(0) as u64, expires.max(0) as u64, unresolved)
    }
}

//! Walks over the newest state in key order, whatever the DRAM table holds (N12, G2).

use super::engine::{Engine, EngineError};
use super::namespace::{self, HEAD_BYTES};
use super::pins::Pin;
use super::shard::shard_of;
use super::superversion::SuperVersion;
use crate::key::{Meta, Seq};
use crate::memtable::{Mark, Run, RunSource};
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

/// Where a scan asks for D(k, s).
pub(super) type GraveLookup<'a> = &'a dyn Fn(u64, &[u8], Seq) -> Option<Seq>;

/// What a walk reads: one sequence and one superversion.
pub(super) struct View {
    pub(super) superversion: Arc<SuperVersion>,
    /// Where the active memtable ends.
    active_mark: Mark,
    s: Seq,
    namespace: u64,
}

impl View {
    /// The sorted memtables, newest first.
    pub(super) fn runs(&self) -> Vec<Arc<Run>> {
        let mut runs = self.superversion.active.ordered_through(self.active_mark);
        for frozen in &self.superversion.frozen {
            match &frozen.run {
                Some(run) => runs.push(Arc::clone(run)),
                None => runs.extend(frozen.memtable.ordered_through(frozen.mark)),
            }
        }
        runs
    }

    /// The first engine key of the database, and the first one behind it.
    pub(super) fn bounds(&self) -> ([u8; HEAD_BYTES], [u8; HEAD_BYTES]) {
        (namespace::head(self.namespace), namespace::head(self.namespace + 1))
    }
}

/// What a walk found on a key.
pub(super) enum Step {
    /// Behind the last key.
    End,
    /// No value that this walk sees.
    Nothing,
    Live(ScanItem),
}

/// A walk over the keys of one database.
pub(super) struct Walk {
    merge: MergeIter<ScanSource>,
    s: Seq,
    head: [u8; HEAD_BYTES],
    prefix: Vec<u8>,
    keys_only: bool,
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
    /// A walk from the start of `range`.
    pub(super) fn open(view: &View, range: &ScanRange) -> Result<Self, EngineError> {
        let mut sources: Vec<ScanSource> = Vec::new();
        for run in view.runs() {
            sources.push(Box::new(RunSource::new(run)));
        }
        tree::add_sources(&view.superversion.version, &mut sources);
        let (head, prefix) = (namespace::head(view.namespace), range.prefix.clone());
        let merge = MergeIter::new(sources);
        let mut walk = Self { merge, s: view.s, head, prefix, keys_only: range.keys_only };
        let start = range.from.as_slice().max(range.prefix.as_slice());
        let mut seek = [head.as_slice(), start].concat();
        if range.after && start == range.from {
            seek.push(0);
        }
        walk.seek(&seek)?;
        Ok(walk)
    }

    /// Goes to the first version at or behind an engine key.
    pub(super) fn seek(&mut self, engine_key: &[u8]) -> Result<(), EngineError> {
        Ok(self.merge.seek(engine_key)?)
    }

    /// The next live key: newest version at or below s, unless a grave covers it.
    pub(super) fn next(
        &mut self,
        engine: &Engine,
        graves: GraveLookup<'_>,
    ) -> Result<Option<ScanItem>, EngineError> {
        loop {
            match self.step(engine, graves)? {
                Step::Live(item) => return Ok(Some(item)),
                Step::Nothing => {}
                Step::End => return Ok(None),
            }
        }
    }

    /// Looks at one version, and behind the key when it is the one that counts.
    pub(super) fn step(
        &mut self,
        engine: &Engine,
        graves: GraveLookup<'_>,
    ) -> Result<Step, EngineError> {
        if !self.merge.valid() {
            return Ok(Step::End);
        }
        let key = self.merge.key();
        let in_range = key.strip_prefix(&self.head).is_some_and(|k| k.starts_with(&self.prefix));
        if !in_range {
            return Ok(Step::End);
        }
        if self.merge.seq() > self.s {
            self.merge.next()?;
            return Ok(Step::Nothing);
        }
        let user = &key[HEAD_BYTES..];
        let dead = self.merge.meta().is_tombstone()
            || graves(engine.hash(user), key, self.s) > Some(self.merge.seq());
        let step = if dead {
            Step::Nothing
        } else {
            let value = if self.keys_only { Vec::new() } else { self.merge.value().to_vec() };
            Step::Live(ScanItem { key: user.to_vec(), meta: self.merge.meta(), value })
        };
        self.merge.next_key()?;
        Ok(step)
    }
}

impl Engine {
    /// Live keys of the newest state in key order, from all memtables and tables whatever the DRAM
    /// table holds. Blocks on I/O: never call it on a worker thread. The view is taken at the call.
    /// No latch may be held by the caller (under `Latched::All` there is [`super::Tx::scan`]).
    pub fn scan(&self, range: &ScanRange) -> Result<Scan, EngineError> {
        let (view, pin) = self.view(range.db);
        let walk = Walk::open(&view, range)?;
        Ok(Scan { engine: self.clone(), walk, failed: false, _pin: pin })
    }

    /// The newest state of a database, and what keeps the graves it needs.
    pub(super) fn view(&self, db: usize) -> (View, Pin) {
        let inner = self.inner();
        let _guards = inner.barrier();
        let commit = inner.commit.lock();
        // Superversion and pin in one step: between the two a sweep could forget graves whose
        // dead lie in this superversion only (F3).
        let change = inner.superversion_change.lock();
        let superversion = inner.superversion.load_full();
        let s = commit.next_seq - 1;
        let pin = inner.pins.add(s, superversion.number);
        drop(change);
        let namespace = inner.namespaces.id_of(inner.namespaces.slot_of(db));
        (View { superversion, active_mark: commit.mark(), s, namespace }, pin)
    }

    /// The same for a transaction that holds all latches, which stand for the pin.
    pub(super) fn view_latched(&self, db: usize) -> View {
        let inner = self.inner();
        let commit = inner.commit.lock();
        let (active_mark, s) = (commit.mark(), commit.next_seq - 1);
        drop(commit);
        let superversion = inner.superversion.load_full();
        let namespace = inner.namespaces.id_of(inner.namespaces.slot_of(db));
        View { superversion, active_mark, s, namespace }
    }

    /// A scan for a transaction that holds all latches, until `visit` answers false.
    pub(super) fn scan_latched(
        &self,
        range: &ScanRange,
        graves: GraveLookup<'_>,
        visit: &mut dyn FnMut(ScanItem) -> bool,
    ) -> Result<(), EngineError> {
        let mut walk = Walk::open(&self.view_latched(range.db), range)?;
        while let Some(item) = walk.next(self, graves)? {
            if !visit(item) {
                break;
            }
        }
        Ok(())
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

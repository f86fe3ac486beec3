//! Freezing the active memtable: the barrier at which a recovery mark is born (N1).

use super::engine::{Engine, EngineError};
use super::pins::Pin;
use super::shard::{Count, Unresolved, shard_of};
use super::superversion::{Frozen, SuperVersion};
use crate::key::Seq;
use crate::memtable::Memtable;
use parking_lot::MutexGuard;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A frozen memtable on its way into the tree, with the state as of its mark.
pub(super) struct FlushJob {
    pub(super) frozen: Frozen,
    /// m in S, until the flush is installed: graves that the checkpoint needs stay.
    pub(super) pin: Pin,
    /// Namespace id of each database at m.
    pub(super) namespaces: Vec<u64>,
    /// Counts of each database at m; right once its overwrites are settled.
    pub(super) counts: Vec<Count>,
}

/// Overwrites of the frozen memtable that were counted as new keys. Whoever holds it sees all such
/// overwrites either here or in their shards (N9).
#[derive(Default)]
pub(super) struct Resolver {
    frozen: Vec<Unresolved>,
    /// Namespace and expiring keys of those settled, until the counts of the mark are corrected.
    overwrites: Vec<(u64, i64)>,
}

impl Engine {
    /// Freezes the active memtable into `pending`, if there is anything to freeze, sorts it, and
    /// settles the overwrites of it that were counted as new keys.
    ///
    /// On an error the job stays in `pending`: its memtable must reach the tree before any later
    /// one may (memtables install in order, N1).
    pub(super) fn freeze(&self, pending: &mut Option<FlushJob>) -> Result<(), EngineError> {
        let mut resolver = self.inner().resolver.lock();
        // Before the mark is born: so it passes them all.
        self.inner().dead_runs.seal();
        let Some((mut job, unresolved)) = self.rotate_memtable() else { return Ok(()) };
        resolver.frozen = unresolved;
        self.kick_log();
        self.publish_sorted(&mut job.frozen);
        let job = pending.insert(job);
        self.resolve(&mut resolver, job)
    }

    /// The part under all latches: no I/O, no sorting.
    fn rotate_memtable(&self) -> Option<(FlushJob, Vec<Unresolved>)> {
        let inner = self.inner();
        let mut guards = inner.barrier();
        let mut commit = inner.commit.lock();
        if commit.next_seq - 1 == inner.mark.load(Ordering::Acquire) {
            commit.begin_log_if_wanted();
            return None;
        }
        let old = inner.superversion.load_full();
        let generation = old.active.generation % u8::MAX + 1;
        let pool = Arc::clone(&inner.pool);
        let active = match inner.wbl.get() {
            Some(wbl) => {
                let arenas = (Vec::new(), wbl.pool().new_arena());
                Memtable::in_pool(pool, arenas, generation, commit.next_seq)
            }
            None => Memtable::new(pool, inner.options.memtable, generation, commit.next_seq),
        };
        let mark = commit.mark();
        let (m, wake_log) = commit.rotate(Arc::clone(&active));
        if wake_log {
            inner.log_wants_kick();
        }
        inner.set_generation(generation);
        inner.graves_unmarked.store(0, Ordering::Relaxed);
        let databases = inner.namespaces.databases();
        let mut counts = vec![Count::default(); databases];
        let mut unresolved = Vec::new();
        for guard in &mut guards {
            for (db, count) in counts.iter_mut().enumerate() {
                let shard = guard.counts[usize::from(inner.namespaces.slot_of(db))];
                count.keys += shard.keys;
                count.expires += shard.expires;
            }
            unresolved.append(&mut guard.unresolved);
        }
        let frozen = Frozen { memtable: Arc::clone(&old.active), m, mark, run: None };
        let number = self.change_superversion(|superversion| {
            superversion.active = active;
            superversion.frozen.insert(0, frozen.clone());
        });
        let pin = inner.pins.add(m, number);
        let namespaces = inner.namespaces.ids();
        Some((FlushJob { frozen, pin, namespaces, counts }, unresolved))
    }

    /// Sorts a frozen memtable; from then on its keys may leave the DRAM table.
    fn publish_sorted(&self, frozen: &mut Frozen) {
        let run = Arc::new(frozen.memtable.sorted(frozen.mark));
        frozen.run = Some(Arc::clone(&run));
        self.change_superversion(|superversion| {
            for held in &mut superversion.frozen {
                if held.m == frozen.m {
                    held.run = Some(Arc::clone(&run));
                }
            }
        });
        self.inner().unpin_generation(frozen.memtable.generation);
        if self.inner().has_tombstones() {
            for shard in &self.inner().shards {
                shard.state.lock().tombstones.forget_through(frozen.m);
            }
        }
    }

    /// Settles what the frozen memtable counted as new without looking (N9), and corrects both the
    /// live counts and those of the mark. What could not be read is tried again with the flush.
    pub(super) fn resolve(
        &self,
        resolver: &mut Resolver,
        job: &mut FlushJob,
    ) -> Result<(), EngineError> {
        self.settle_frozen(resolver)?;
        for (namespace, expires) in resolver.overwrites.drain(..) {
            if let Some(db) = job.namespaces.iter().position(|&id| id == namespace) {
                job.counts[db].keys -= 1;
                job.counts[db].expires -= expires;
            }
        }
        Ok(())
    }

    /// The same without the counts of the mark, which follow when its flush is under way.
    pub(super) fn settle_frozen(&self, resolver: &mut Resolver) -> Result<(), EngineError> {
        self.settle(&mut resolver.frozen, &mut resolver.overwrites)
    }

    /// Looks up each item, in key order so that neighbours share blocks, and corrects the live
    /// counts. Adds namespace and expiring keys (0 or 1) of each put that turned out to be an
    /// overwrite to `overwrites`. Items that were not settled before an error stay in `items`.
    pub(super) fn settle(
        &self,
        items: &mut Vec<Unresolved>,
        overwrites: &mut Vec<(u64, i64)>,
    ) -> Result<(), EngineError> {
        let inner = self.inner();
        items.sort_unstable_by(|a, b| (b.namespace, &b.key).cmp(&(a.namespace, &a.key)));
        while let Some(item) = items.last() {
            if let Some(meta) = self.lived_before(item)? {
                let expires = i64::from(meta.expire_at_ms != 0);
                overwrites.push((item.namespace, expires));
                let mut shard = inner.shards[shard_of(item.hash)].state.lock();
                if inner.namespaces.id_of(item.slot) == item.namespace {
                    let count = shard.count_mut(item.slot);
                    count.keys -= 1;
                    count.expires -= expires;
                }
            }
            inner.unresolved.fetch_sub(1, Ordering::Relaxed);
            items.pop();
        }
        Ok(())
    }

    /// Takes over the tables as of the last edit. Never those that one edit answered: a flush and a
    /// compaction that end together may come here in the other order than their edits.
    pub(super) fn publish_tables(&self, change: impl FnOnce(&mut SuperVersion)) {
        self.change_superversion(|superversion| {
            superversion.version = self.inner().versions.current();
            change(superversion);
        });
    }

    /// Replaces the superversion; returns the new one's number.
    pub(super) fn change_superversion(&self, change: impl FnOnce(&mut SuperVersion)) -> u64 {
        let inner = self.inner();
        let _change: MutexGuard<'_, ()> = inner.superversion_change.lock();
        let mut next = SuperVersion::clone(&inner.superversion.load());
        next.number += 1;
        change(&mut next);
        let number = next.number;
        inner.superversion.store(Arc::new(next));
        number
    }

    /// Members of S that a merge with `now` must look at: those at or below it, and `now` (C1).
    pub(super) fn snapshots_through(&self, now: Seq) -> Vec<Seq> {
        let mut snapshots = self.inner().pins.sequences();
        snapshots.retain(|&s| s < now);
        snapshots.push(now);
        snapshots
    }
}

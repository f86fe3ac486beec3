//! Freezing the active memtable: the barrier at which a recovery mark is born (N1).

use crate::key::Seq;
use crate::memtable::{Memtable, Run};
use crate::store::engine::{Engine, EngineError};
use crate::store::flush::frozen::{FlushJob, FreezePermit};
use crate::store::latch::Latched;
use crate::store::read::superversion::{Frozen, SuperVersion};
use crate::store::shard::{Count, Unresolved, shard_of};
use crate::store::write::commit::CommitState;
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

impl Engine {
    /// Freezes the active memtable, if there is anything to freeze, and sorts it. It waits for its flush behind
    /// those that were frozen before. Does no I/O.
    pub(in crate::store) fn freeze(&self, _permit: &mut FreezePermit) {
        // Before the mark is born: so it passes them all.
        self.inner().graveyard.dead_runs.seal();
        if self.rotate_active() {
            self.kick_log();
        }
        self.sort_frozen();
    }

    /// Sorts what is frozen, oldest first, since what is known of dead keys goes with each that is sorted.
    pub(in crate::store) fn sort_frozen(&self) {
        for job in self.inner().flusher.frozen.all() {
            self.sorted_run(&job);
        }
    }

    /// Freezes the active memtable, under all latches: no I/O, no sorting. False, and nothing was done, when it is
    /// empty.
    fn rotate_active(&self) -> bool {
        let inner = self.inner();
        let mut guards = inner.barrier();
        let mut commit = inner.write.commit.lock();
        let last_mark = inner
            .flusher
            .frozen
            .last_m()
            .unwrap_or_else(|| inner.flusher.mark.load(Ordering::Acquire));
        if commit.next_seq - 1 == last_mark {
            commit.begin_log_if_wanted();
            return false;
        }
        let filled = commit.memtable_bytes();
        inner.write.pace.note_filled(filled, Instant::now());
        let pool = Arc::clone(&inner.memory.pool);
        self.rotate(&mut guards, &mut commit, |generation, first_seq| {
            match inner.write.wbl.get() {
                Some(wbl) => {
                    let arenas = (Vec::new(), wbl.pool().new_arena());
                    Memtable::in_pool(pool, arenas, generation, first_seq)
                }
                None => inner.order.new_memtable(pool, generation, first_seq),
            }
        });
        true
    }

    /// The active memtable ends with the sequence `m` and is frozen; `next` makes the one that follows, of a
    /// generation and for sequences from one on. For recovery, which nobody writes beside.
    pub(in crate::store) fn rotate_at(&self, m: Seq, next: impl FnOnce(u8, Seq) -> Arc<Memtable>) {
        let inner = self.inner();
        let mut guards = inner.barrier();
        let mut commit = inner.write.commit.lock();
        commit.next_seq = m + 1;
        self.rotate(&mut guards, &mut commit, next);
    }

    fn rotate(
        &self,
        guards: &mut [Latched<'_>],
        commit: &mut CommitState,
        next: impl FnOnce(u8, Seq) -> Arc<Memtable>,
    ) {
        let inner = self.inner();
        inner.views.end_epoch();
        let old = inner.views.superversion.load_full();
        let generation = old.active.generation % u8::MAX + 1;
        let active = next(generation, commit.next_seq);
        let mark = commit.mark();
        let (m, wake_log) = commit.rotate(Arc::clone(&active));
        if wake_log {
            inner.write.log_wants_kick();
        }
        inner.flusher.set_generation(generation);
        let graves_bytes = inner.graveyard.spill.note_freeze();
        let databases = inner.namespaces.databases();
        let mut counts = vec![Count::default(); databases];
        let mut unresolved = Vec::new();
        for guard in guards {
            for (db, count) in counts.iter_mut().enumerate() {
                let shard = guard.counts[usize::from(inner.namespaces.slot_of(db))];
                count.keys += shard.keys;
                count.expires += shard.expires;
            }
            // With its room, which a burst may have made large.
            unresolved.extend(std::mem::take(&mut guard.unresolved));
        }
        let frozen = Frozen { memtable: Arc::clone(&old.active), m, mark, run: None };
        let number = self.change_superversion(|superversion| {
            superversion.active = active;
            superversion.frozen.insert(0, frozen.clone());
        });
        let pin = inner.views.pins.add(m, number);
        let namespaces = inner.namespaces.ids();
        let job = FlushJob::new(frozen, pin, namespaces, counts, unresolved, graves_bytes);
        inner.flusher.frozen.push(Arc::new(job));
    }

    /// The records of a frozen memtable in order; from then on its keys may leave the DRAM table. Whoever asks
    /// first sorts them, the others wait for that.
    pub(in crate::store) fn sorted_run<'j>(&self, job: &'j FlushJob) -> &'j Arc<Run> {
        job.run_or_sort(|frozen| {
            let run = Arc::new(frozen.memtable.sorted(frozen.mark));
            self.change_superversion(|superversion| {
                for held in &mut superversion.frozen {
                    if held.m == frozen.m {
                        held.run = Some(Arc::clone(&run));
                    }
                }
            });
            self.inner().flusher.unpin_generation(frozen.memtable.generation);
            // Large values are more than a shard's share each, and no shard could give one up before.
            self.keep_shards_within_bound();
            self.inner().dead_keys.memtable_sorted(self, frozen.m);
            run
        })
    }

    /// Settles what a frozen memtable counted as new without looking (N9). What could not be read stays for the
    /// next attempt.
    pub(in crate::store) fn resolve(&self, job: &FlushJob) -> Result<(), EngineError> {
        let _resolver = self.inner().flusher.resolver.lock();
        self.resolve_items(job.unresolved())
    }

    /// Looks up each item, in key order so that neighbours share blocks, and corrects the live counts and those of
    /// the marks at or above it. Items that were not settled before an error stay in `items`. The resolver is
    /// held, so nobody else changes them.
    pub(in crate::store) fn resolve_items(
        &self,
        items: &Mutex<Vec<Unresolved>>,
    ) -> Result<(), EngineError> {
        let inner = self.inner();
        items.lock().sort_unstable_by(|a, b| (b.namespace, &b.key).cmp(&(a.namespace, &a.key)));
        loop {
            // Not for longer than that: a holder of all latches asks what is still in it (`Tx::count`).
            let Some(item) = items.lock().last().cloned() else { return Ok(()) };
            if let Some(before) = self.lived_before(&item)? {
                let expires = i64::from(before.meta.expire_at_ms != 0);
                let mut shard = inner.shards[shard_of(item.hash)].latch();
                if inner.namespaces.id_of(item.slot) == item.namespace {
                    let count = shard.count_mut(item.slot);
                    count.keys -= 1;
                    count.expires -= expires;
                }
                // Under the latch, as the counts of a mark are taken under all of them: so each mark has this
                // overwrite either in what it took or from here.
                inner.flusher.frozen.correct(&item, expires);
                self.bury_overwritten(&mut shard, item.namespace, &before, item.seq);
                items.lock().pop();
            } else {
                items.lock().pop();
            }
            inner.flusher.unresolved.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Takes over the tables as of the last edit. Never those that one edit answered: a flush and a
    /// compaction that end together may come here in the other order than their edits.
    pub(in crate::store) fn publish_tables(&self, change: impl FnOnce(&mut SuperVersion)) {
        self.change_superversion(|superversion| {
            superversion.version = self.inner().versions.current();
            change(superversion);
        });
    }

    /// Replaces the superversion; returns the new one's number.
    pub(in crate::store) fn change_superversion(
        &self,
        change: impl FnOnce(&mut SuperVersion),
    ) -> u64 {
        let inner = self.inner();
        let _change: MutexGuard<'_, ()> = inner.views.superversion_change.lock();
        let mut next = SuperVersion::clone(&inner.views.superversion.load());
        next.number += 1;
        change(&mut next);
        let number = next.number;
        inner.views.active_memtable.store(Arc::as_ptr(&next.active).cast_mut(), Ordering::Release);
        inner.views.superversion.store(Arc::new(next));
        number
    }

    /// Members of S that a merge with `now` must look at: those at or below it, and `now` (C1).
    pub(in crate::store) fn snapshots_through(&self, now: Seq) -> Vec<Seq> {
        let mut snapshots = self.inner().views.pins.sequences();
        snapshots.retain(|&s| s < now);
        snapshots.push(now);
        snapshots
    }
}

//! Frozen memtables on their way into the tree, oldest first.

use crate::key::Seq;
use crate::memtable::Run;
use crate::store::read::pins::Pin;
use crate::store::read::superversion::Frozen;
use crate::store::shard::{Count, Unresolved};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

/// The permit to freeze a memtable, or to prevent freezes.
#[derive(Default)]
pub(in crate::store) struct FreezePermit(());

/// The permit to install a flush, or to prevent flushes. Taken before [`FreezePermit`].
#[derive(Default)]
pub(in crate::store) struct FlushPermit(());

/// A frozen memtable, with the state as of its mark.
pub(in crate::store) struct FlushJob {
    frozen: Frozen,
    run: OnceLock<Arc<Run>>,
    /// m in S, until the flush is installed: graves that the checkpoint needs stay.
    pin: Pin,
    /// Namespace id of each database at m.
    pub(in crate::store) namespaces: Vec<u64>,
    /// Counts of each database at m; right once the overwrites up to m are settled.
    counts: Mutex<Vec<Count>>,
    /// Overwrites in it that were counted as new keys. A thread that holds all latches, or the resolver and the right to
    /// freeze, sees all such overwrites here, in their shards or in `Flusher::settling` (N9).
    unresolved: Mutex<Vec<Unresolved>>,
    /// Memory of the graves that it seals, estimated.
    pub(in crate::store) graves_bytes: u64,
}

impl FlushJob {
    pub(in crate::store) fn new(
        frozen: Frozen,
        pin: Pin,
        namespaces: Vec<u64>,
        counts: Vec<Count>,
        unresolved: Vec<Unresolved>,
        graves_bytes: u64,
    ) -> Self {
        let (counts, unresolved) = (Mutex::new(counts), Mutex::new(unresolved));
        Self { frozen, run: OnceLock::new(), pin, namespaces, counts, unresolved, graves_bytes }
    }

    /// The memtable; without its run, which [`Self::run_or_sort`] answers.
    pub(in crate::store) fn frozen(&self) -> &Frozen {
        &self.frozen
    }

    /// Its mark m.
    pub(in crate::store) fn m(&self) -> Seq {
        self.pin.seq()
    }

    /// Its records in order; the first caller makes them with `sort`.
    pub(in crate::store) fn run_or_sort(
        &self,
        sort: impl FnOnce(&Frozen) -> Arc<Run>,
    ) -> &Arc<Run> {
        self.run.get_or_init(|| sort(&self.frozen))
    }

    /// Keys and expiring keys of each database at m.
    pub(in crate::store) fn counts(&self) -> Vec<(u64, u64)> {
        let counts = self.counts.lock();
        counts.iter().map(|c| (c.keys.max(0) as u64, c.expires.max(0) as u64)).collect()
    }

    /// Items are removed by the holder of the resolver; one that corrects a count, under the latch of its shard.
    pub(in crate::store) fn unresolved(&self) -> &Mutex<Vec<Unresolved>> {
        &self.unresolved
    }
}

/// What was frozen and is not flushed yet: memtables install in the order in which they were frozen (N1). The lock
/// is held for the length of a look only.
#[derive(Default)]
pub(in crate::store) struct FrozenQueue(Mutex<VecDeque<Arc<FlushJob>>>);

impl FrozenQueue {
    /// Adds the youngest. All latches are held.
    pub(in crate::store) fn push(&self, job: Arc<FlushJob>) {
        self.0.lock().push_back(job);
    }

    /// The oldest, which is the next to be flushed.
    pub(in crate::store) fn oldest(&self) -> Option<Arc<FlushJob>> {
        self.0.lock().front().cloned()
    }

    /// The oldest was flushed.
    pub(in crate::store) fn pop(&self, m: Seq) {
        let popped = self.0.lock().pop_front();
        debug_assert_eq!(popped.map(|job| job.m()), Some(m), "in order");
    }

    /// All of them, oldest first.
    pub(in crate::store) fn all(&self) -> Vec<Arc<FlushJob>> {
        self.0.lock().iter().cloned().collect()
    }

    /// The mark of the youngest.
    pub(in crate::store) fn last_m(&self) -> Option<Seq> {
        self.0.lock().back().map(|job| job.m())
    }

    /// How many there are.
    pub(in crate::store) fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// A put that was counted as a new key turned out to be an overwrite of one with `expires` (0 or 1)
    /// expiries: the marks at or above it have it in their counts. The latch of its key is held.
    pub(in crate::store) fn correct(&self, item: &Unresolved, expires: i64) {
        for job in self.0.lock().iter().filter(|job| job.m() >= item.seq) {
            if let Some(db) = job.namespaces.iter().position(|&id| id == item.namespace) {
                let count = &mut job.counts.lock()[db];
                count.keys -= 1;
                count.expires -= expires;
            }
        }
    }
}

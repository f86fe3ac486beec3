//! The path of memtables into the tree: the permits to freeze and to install, the queue of flushes, and the recovery mark.

use crate::store::flush::frozen::{FlushPermit, FreezePermit, FrozenQueue};
use crate::store::options::SyncPolicy;
use crate::store::shard::Unresolved;
use parking_lot::{Mutex, RwLock};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// The state of freezes and flushes.
pub(in crate::store) struct Flusher {
    pub(in crate::store) freeze_permit: Mutex<FreezePermit>,
    pub(in crate::store) flush_permit: Mutex<FlushPermit>,
    /// What was frozen and is not flushed yet.
    pub(in crate::store) frozen: FrozenQueue,
    /// The last installed recovery mark (N1).
    pub(in crate::store) mark: AtomicU64,
    pub(in crate::store) checkpoint_file: Mutex<Option<String>>,
    /// Whether new tables are synced; not while the store is wiped at the next start anyway (N3).
    /// Flushes and merges hold it for reading from their first byte to their edit.
    pub(in crate::store) syncs_tables: RwLock<bool>,
    /// Held while unresolved overwrites are settled, so that `count` sees none in flight (N9).
    pub(in crate::store) resolver: Mutex<()>,
    pub(in crate::store) unresolved: AtomicU64,
    /// What `count` has taken from the shards and not settled yet. Changes as the lists of frozen memtables do.
    pub(in crate::store) settling: Mutex<Vec<Unresolved>>,
    generation: AtomicU8,
    /// One bit a generation: entries changed in it may not be evicted (N10).
    pinned_generations: [AtomicU64; 4],
}

impl Flusher {
    pub(in crate::store) fn new(generation: u8, policy: SyncPolicy) -> Self {
        let flusher = Self {
            freeze_permit: Mutex::default(),
            flush_permit: Mutex::default(),
            frozen: FrozenQueue::default(),
            mark: AtomicU64::new(0),
            checkpoint_file: Mutex::new(None),
            syncs_tables: RwLock::new(policy != SyncPolicy::Off),
            resolver: Mutex::default(),
            unresolved: AtomicU64::new(0),
            settling: Mutex::default(),
            generation: AtomicU8::new(generation),
            pinned_generations: Default::default(),
        };
        flusher.pin_generation(generation);
        flusher
    }

    pub(in crate::store) fn active_generation(&self) -> u8 {
        self.generation.load(Ordering::Acquire)
    }

    /// Makes `generation` the active one. All latches are held.
    pub(in crate::store) fn set_generation(&self, generation: u8) {
        self.pin_generation(generation);
        self.generation.store(generation, Ordering::Release);
    }

    fn pin_generation(&self, generation: u8) {
        let word = &self.pinned_generations[usize::from(generation >> 6)];
        word.fetch_or(1 << (generation & 63), Ordering::AcqRel);
    }

    /// The memtable of this generation is sorted: its entries may be evicted.
    pub(in crate::store) fn unpin_generation(&self, generation: u8) {
        let word = &self.pinned_generations[usize::from(generation >> 6)];
        word.fetch_and(!(1 << (generation & 63)), Ordering::AcqRel);
    }

    pub(in crate::store) fn is_pinned(&self, generation: u8) -> bool {
        let word = &self.pinned_generations[usize::from(generation >> 6)];
        word.load(Ordering::Acquire) >> (generation & 63) & 1 == 1
    }
}

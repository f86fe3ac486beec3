//! Counts which part answers reads: the DRAM table or, when it misses, a sorted memtable or a level of the tree.

use crate::tree::LEVELS;
use std::sync::atomic::{AtomicU64, Ordering};

/// Figures of one shard, under its latch.
#[derive(Default)]
pub(in crate::store) struct ShardReads {
    /// Look-ups that the DRAM table answered with a value.
    pub(in crate::store) hits: u64,
    /// Look-ups that a sorted memtable answered under the latch.
    pub(in crate::store) from_memtable: u64,
}

/// Where a value was that the DRAM table did not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum Place {
    Memtable,
    Level(usize),
}

/// Figures of the reads that went on without a latch.
#[derive(Default)]
pub(in crate::store) struct Reads {
    from_memtable: AtomicU64,
    from_level: [AtomicU64; LEVELS],
    not_found: AtomicU64,
}

impl Reads {
    /// Notes a read of a device with the place of what it found.
    pub(in crate::store) fn note_miss(&self, place: Option<Place>) {
        let figure = match place {
            Some(Place::Memtable) => &self.from_memtable,
            Some(Place::Level(level)) => &self.from_level[level],
            None => &self.not_found,
        };
        figure.fetch_add(1, Ordering::Relaxed);
    }

    /// Reads that a memtable answered after all: it was sorted meanwhile.
    pub(in crate::store) fn memtable_misses(&self) -> u64 {
        self.from_memtable.load(Ordering::Relaxed)
    }

    /// Reads that each level answered.
    pub(in crate::store) fn level_misses(&self) -> Vec<u64> {
        self.from_level.iter().map(|figure| figure.load(Ordering::Relaxed)).collect()
    }

    /// Reads of tables whose filters had said "maybe" in vain.
    pub(in crate::store) fn not_found(&self) -> u64 {
        self.not_found.load(Ordering::Relaxed)
    }
}

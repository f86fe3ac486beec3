//! The memory bound of the process, and the sizes of the store's parts that follow from it.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A bound of the process's memory, with what of the configuration depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryBound {
    /// `maxmemory`, in bytes; 0 for none.
    pub bytes: u64,
    /// A memtable is frozen at this size.
    pub memtable_bytes: u64,
    /// Size at which a memtable is frozen without a bound.
    pub memtable_max_bytes: u64,
    /// Memtables that there may be with a log, the active one included.
    pub max_write_buffer_number: usize,
}

/// The bound divided by this is the most that one buffer or cache may take. A memtable and the log's buffer may
/// take twice as much, as one request may.
const BUFFER_SHARE: u64 = 64;

/// The machinery of the store takes at most this many such shares of the bound, ...
const MACHINERY_SHARES: u128 = 20;

/// ... or, if that is less, this much for threads, files, room in the table's pages and allocator overhead, plus
/// the shares of its parts.
const MACHINERY_BYTES: u64 = 16 << 20;

/// What merges read ahead and write behind hardly takes more than this.
const MERGES_BYTES: u64 = 32 << 20;

/// Memtables that are filled, flushed and kept for reuse, in halves.
const HALF_MEMTABLES: u128 = 5;

/// What the store's machinery may take at most.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct MachineryMax {
    pub(in crate::store) memtable_bytes: u64,
    pub(in crate::store) block_cache_bytes: u64,
}

/// What of a bound belongs to the machinery: memtables, the log's buffer, caches, merges, graves, filters, and what cannot
/// be told apart. It depends on bound and configuration alone, and grows more slowly than the bound.
pub(in crate::store) fn machinery_bytes(bound_bytes: u64, max: &MachineryMax) -> u64 {
    // All of it times `BUFFER_SHARE`, so that a byte more of the bound never leaves less for data.
    let bound = u128::from(bound_bytes);
    let share = |max_bytes: u64| (u128::from(max_bytes) * u128::from(BUFFER_SHARE)).min(bound);
    let parts = HALF_MEMTABLES * share(max.memtable_bytes / 2)
        + share(max.block_cache_bytes)
        + share(MERGES_BYTES)
        // The log's buffer, graves, filters and indexes: each may take a share, but hardly ever do they all.
        + 2 * bound;
    let fixed = u128::from(MACHINERY_BYTES) * u128::from(BUFFER_SHARE);
    let all = (fixed + parts).min(MACHINERY_SHARES * bound) / u128::from(BUFFER_SHARE);
    u64::try_from(all).unwrap_or(bound_bytes)
}

/// The least bound that leaves `data_bytes` beside the machinery.
pub(in crate::store) fn bound_for(data_bytes: u64, max: &MachineryMax) -> u64 {
    let fits = |bound: u64| bound - machinery_bytes(bound, max) >= data_bytes;
    // The machinery has less than half.
    let (mut low, mut high) = (data_bytes, data_bytes.saturating_mul(2));
    while low < high {
        let middle = low + (high - low) / 2;
        if fits(middle) { high = middle } else { low = middle + 1 }
    }
    low
}

/// The bound in force. Relaxed: whoever reads an old size goes by it once more.
#[derive(Debug)]
pub(in crate::store) struct Shares {
    bound_bytes: AtomicU64,
    memtable_bytes: AtomicU64,
    memtable_max_bytes: AtomicU64,
    write_buffers: AtomicUsize,
}

/// A buffer's size, lowered to its share of the bound where there is one (`bound_bytes` is not 0).
pub(in crate::store) fn buffer_bytes(bound_bytes: u64, configured_bytes: u64) -> u64 {
    match bound_bytes {
        0 => configured_bytes,
        bound => configured_bytes.min(bound / BUFFER_SHARE),
    }
}

/// The same for the log's buffer.
pub(in crate::store) fn log_buffer_bytes(bound_bytes: u64, configured_bytes: u64) -> u64 {
    buffer_bytes(bound_bytes.saturating_mul(2), configured_bytes)
}

impl Shares {
    pub(in crate::store) fn new(bound: MemoryBound) -> Self {
        Self {
            bound_bytes: AtomicU64::new(bound.bytes),
            memtable_bytes: AtomicU64::new(bound.memtable_bytes),
            memtable_max_bytes: AtomicU64::new(bound.memtable_max_bytes),
            write_buffers: AtomicUsize::new(bound.max_write_buffer_number),
        }
    }

    pub(in crate::store) fn set(&self, bound: MemoryBound) {
        self.bound_bytes.store(bound.bytes, Ordering::Relaxed);
        self.memtable_bytes.store(bound.memtable_bytes, Ordering::Relaxed);
        self.memtable_max_bytes.store(bound.memtable_max_bytes, Ordering::Relaxed);
        self.write_buffers.store(bound.max_write_buffer_number, Ordering::Relaxed);
    }

    pub(in crate::store) fn get(&self) -> MemoryBound {
        MemoryBound {
            bytes: self.bound_bytes(),
            memtable_bytes: self.memtable_bytes(),
            memtable_max_bytes: self.memtable_max_bytes.load(Ordering::Relaxed),
            max_write_buffer_number: self.write_buffers(),
        }
    }

    /// The bound of the process; 0 for none.
    #[inline]
    pub(in crate::store) fn bound_bytes(&self) -> u64 {
        self.bound_bytes.load(Ordering::Relaxed)
    }

    /// A memtable is frozen at this size.
    #[inline]
    pub(in crate::store) fn memtable_bytes(&self) -> u64 {
        self.memtable_bytes.load(Ordering::Relaxed)
    }

    /// Memtables that there may be with a log, the active one included.
    pub(in crate::store) fn write_buffers(&self) -> usize {
        self.write_buffers.load(Ordering::Relaxed)
    }
}

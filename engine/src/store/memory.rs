//! One bound for the whole process: what is left of it for the DRAM table.

use super::engine::Engine;
use super::shard::{SHARDS, ShardState};
use std::sync::atomic::Ordering;

/// What a process without data holds: code, stacks, connection buffers.
const BASE_BYTES: u64 = 16 << 20;

/// The DRAM table keeps at least this much, however small the bound: below it nothing works well.
const TABLE_MIN_BYTES: u64 = 4 << 20;

impl Engine {
    /// Gives the DRAM table what `maxmemory` leaves beside memtables, filters, indexes, caches and
    /// buffers. Runs now and then, because tables come and go.
    pub(super) fn adjust_memory_bound(&self) {
        let inner = self.inner();
        let bound = inner.memory_bound_bytes.load(Ordering::Relaxed);
        if bound == 0 {
            inner.shard_bound_bytes.store(usize::MAX, Ordering::Relaxed);
            return;
        }
        let memtables = inner.pool.held_bytes().max(2 * inner.options.memtable_bytes);
        let beside = BASE_BYTES + memtables + self.tree_memory_bytes() + self.graves_bytes();
        let table = bound.saturating_sub(beside).max(TABLE_MIN_BYTES.min(bound));
        inner.shard_bound_bytes.store((table as usize).div_ceil(SHARDS), Ordering::Relaxed);
    }

    /// Changes the bound (`CONFIG SET maxmemory`); 0 for none.
    pub fn set_memory_bound(&self, bytes: u64) {
        self.inner().memory_bound_bytes.store(bytes, Ordering::Relaxed);
        self.adjust_memory_bound();
    }

    /// Filters, indexes and cached blocks.
    pub(super) fn tree_memory_bytes(&self) -> u64 {
        let inner = self.inner();
        inner.versions.current().memory_bytes() + inner.versions.cache_bytes()
    }

    /// Memory of the cemetery and of the due times.
    pub(super) fn graves_bytes(&self) -> u64 {
        let bytes = |state: &ShardState| state.graves.bytes() + state.expiry.bytes();
        self.inner().shards.iter().map(|shard| bytes(&shard.state.lock()) as u64).sum()
    }
}

//! The figures behind the bound of memory: what is allowed, what is held, and where pages come from.

use super::shares::{MemoryBound, Shares};
use super::table_bound::TableBound;
use crate::dram::PagePool;
use crate::memtable::ChunkPool;
use crate::store::options::EngineOptions;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

/// What a process is taken to hold beside the parts of the store (code, stacks, connection buffers,
/// pages the allocator keeps) until it was measured.
const BASE_BYTES: u64 = 16 << 20;

/// The memory of a store. `memory.rs` says how the bound is kept.
pub(in crate::store) struct MemoryBudget {
    /// The bound of the whole process, and the sizes that follow from it.
    pub(in crate::store) shares: Shares,
    /// The DRAM tables of all shards.
    pub(in crate::store) table_bound: TableBound,
    /// What of their bytes the system gave, and not the allocator.
    pub(in crate::store) table_mapped_bytes: AtomicUsize,
    /// Bytes of the data in them; up to date while memory is bounded.
    pub(in crate::store) data_bytes: AtomicUsize,
    /// Bytes that data in memory and clients may take together; `usize::MAX` without `maxmemory`.
    pub(in crate::store) room_bytes: AtomicUsize,
    /// What clients hold, as of the last measurement.
    pub(in crate::store) client_bytes: AtomicUsize,
    /// Where the tables of all shards have their pages from.
    pub(in crate::store) pages: Arc<PagePool>,
    /// Where memtables have their chunks from.
    pub(in crate::store) pool: Arc<ChunkPool>,
    /// Keys are evicted (`maxmemory-policy`), so entries do not leave memory by themselves.
    pub(in crate::store) evicts_keys: AtomicBool,
    /// Memory of the process that no part of the store accounts for.
    pub(in crate::store) other_bytes: AtomicU64,
    /// Since the last measurement a shard grew by more than an equal share at once, or nothing could be given up that was
    /// too much: values are large.
    pub(in crate::store) holds_large: AtomicBool,
    /// The process was larger than the memory bound when it was last measured.
    pub(in crate::store) above_bound: AtomicBool,
    /// The bound or the eviction of keys was changed, and the table in memory knows nothing of it yet.
    pub(in crate::store) memory_unsettled: AtomicBool,
}

impl MemoryBudget {
    pub(in crate::store) fn new(
        pages: Arc<PagePool>,
        pool: Arc<ChunkPool>,
        options: &EngineOptions,
    ) -> Self {
        Self {
            shares: Shares::new(MemoryBound {
                bytes: options.memory_bound_bytes,
                memtable_bytes: options.memtable_bytes,
                // The configuration says so before the first client is heard.
                memtable_max_bytes: options.memtable_bytes,
                max_write_buffer_number: options.max_write_buffer_number,
            }),
            table_bound: TableBound::default(),
            table_mapped_bytes: AtomicUsize::new(0),
            data_bytes: AtomicUsize::new(0),
            room_bytes: AtomicUsize::new(usize::MAX),
            client_bytes: AtomicUsize::new(0),
            pages,
            pool,
            evicts_keys: AtomicBool::new(options.evicts_keys),
            other_bytes: AtomicU64::new(BASE_BYTES),
            holds_large: AtomicBool::new(false),
            above_bound: AtomicBool::new(false),
            memory_unsettled: AtomicBool::new(false),
        }
    }
}

//! The memory of one memtable: chunks of the pool, filled by any number of writers.
#![allow(unsafe_code)]

use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use super::chunk::Chunk;
use super::pool::PmemPool;

/// Chunks of one memtable.
///
/// Where its records are is the memtable's knowledge: [`Writer::append`](super::Writer::append) and
/// [`Record::position`](super::Record) say it. A record that was appended does not change any more.
#[derive(Debug)]
pub struct PmemArena {
    pool: Arc<PmemPool>,
    number: u64,
    /// Only ever grows, while the arena lives.
    chunks: Mutex<Vec<Arc<Chunk>>>,
    used_bytes: Arc<AtomicU64>,
    retired: AtomicBool,
}

impl PmemArena {
    pub(super) fn new(pool: Arc<PmemPool>, number: u64, chunks: Vec<Arc<Chunk>>) -> Arc<Self> {
        let used_bytes = chunks.iter().map(|chunk| chunk.filled()).sum();
        Arc::new(Self {
            pool,
            number,
            chunks: Mutex::new(chunks),
            used_bytes: Arc::new(AtomicU64::new(used_bytes)),
            retired: AtomicBool::new(false),
        })
    }

    /// Its number; later arenas have higher ones, also over restarts.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The pool that it belongs to.
    #[must_use]
    pub fn pool(&self) -> &Arc<PmemPool> {
        &self.pool
    }

    /// Bytes of its records and of the room left between batches, as of the last fence of each writer. Decides
    /// when a memtable is full.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Ordering::Relaxed)
    }

    pub(super) fn used_counter(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.used_bytes)
    }

    pub(super) fn add_chunk(&self, chunk: Arc<Chunk>) {
        self.chunks.lock().push(chunk);
    }

    /// Its records are in the tree (or are not needed by anybody, ever): once the last reader has dropped it, its
    /// slots are erased and used again (M7).
    pub fn retire(&self) {
        self.retired.store(true, Ordering::Release);
    }

    /// All its chunks.
    pub(super) fn chunks(&self) -> Vec<Arc<Chunk>> {
        self.chunks.lock().clone()
    }

    /// The filled bytes of one of its chunks, header included.
    pub(super) fn chunk_bytes(&self, chunk: &Chunk) -> &[u8] {
        let len = chunk.filled() as usize;
        let start = chunk.region().address(chunk.offset(), len);
        // SAFETY: `address` has checked the range; what is filled does not change (M2); and the file stays mapped
        // as long as the chunk, which this arena holds as long as it lives.
        unsafe { slice::from_raw_parts(start, len) }
    }
}

impl Drop for PmemArena {
    fn drop(&mut self) {
        let chunks = std::mem::take(self.chunks.get_mut());
        if *self.retired.get_mut() {
            self.pool.take_back(chunks);
        }
    }
}

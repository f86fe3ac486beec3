//! The memory of one memtable: chunks of the pool, filled by any number of writers.
#![allow(unsafe_code)]

use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use super::chunk::{CHUNK_HEADER_BYTES, Chunk, Walk};
use super::pool::PmemPool;
use super::record::{Header, List, RECORD_HEADER_BYTES, Record};

/// Chunks of one memtable.
///
/// Readers of records take an [`ArenaMark`] at a barrier (all latches held), or hold an arena to which nothing is
/// added any more. Below a mark nothing changes.
#[derive(Debug)]
pub struct PmemArena {
    pool: Arc<PmemPool>,
    number: u64,
    /// Only ever grows, while the arena lives.
    chunks: Mutex<Vec<Arc<Chunk>>>,
    used_bytes: Arc<AtomicU64>,
    retired: AtomicBool,
}

/// How far the chunks of an arena were filled at a barrier. The default is the beginning.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ArenaMark {
    /// For each chunk the offset behind its last record.
    fills: Arc<[u64]>,
}

impl ArenaMark {
    fn fill(&self, chunk: usize) -> u64 {
        self.fills.get(chunk).copied().unwrap_or(CHUNK_HEADER_BYTES)
    }

    /// Bytes below it: of two marks of one arena the later one has as many or more.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.fills.iter().map(|fill| fill - CHUNK_HEADER_BYTES).sum()
    }
}

/// Where a record of an arena begins in memory. Good as long as the arena lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PmemPosition(*const u8);

// SAFETY: only an address; it is read by way of `PmemArena::record_at` alone.
unsafe impl Send for PmemPosition {}
// SAFETY: as above.
unsafe impl Sync for PmemPosition {}

impl PmemPosition {
    /// Of a record whose header begins there.
    pub(super) fn at(header: *const u8) -> Self {
        Self(header)
    }

    pub(super) fn new(address: *const u8) -> Self {
        Self(address)
    }

    /// The address of the record's header.
    #[must_use]
    pub fn address(self) -> *const u8 {
        self.0
    }
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

    /// How far it is filled. To be called at a barrier, or when nothing is added any more.
    #[must_use]
    pub fn mark(&self) -> ArenaMark {
        let chunks = self.chunks.lock();
        ArenaMark { fills: chunks.iter().map(|chunk| chunk.filled()).collect() }
    }

    /// The records of `list` between two marks, chunk by chunk: each chunk in the order of sequences, the chunks
    /// in any.
    #[must_use]
    pub fn records(&self, list: List, from: &ArenaMark, to: &ArenaMark) -> Records<'_> {
        let chunks = self.chunks.lock();
        let stretches = chunks.iter().enumerate().filter(|(_, chunk)| chunk.list() == list);
        let stretches =
            stretches.map(|(nth, chunk)| (Arc::clone(chunk), from.fill(nth), to.fill(nth)));
        let mut stretches: Vec<_> = stretches.filter(|(_, from, to)| from < to).collect();
        stretches.reverse();
        Records { arena: self, stretches, walk: None }
    }

    /// The record that begins at `position`, which came from this arena.
    #[must_use]
    pub fn record_at(&self, position: PmemPosition) -> Record<'_> {
        // SAFETY: positions are given out for records of chunks of this arena only, behind a mark: the header
        // is there, does not change, and stays mapped as long as the arena lives.
        let header = unsafe { &*position.0.cast::<[u8; RECORD_HEADER_BYTES]>() };
        let header = Header::trusted(header);
        // SAFETY: as above, now for all of the record.
        let bytes = unsafe { slice::from_raw_parts(position.0, header.len()) };
        header.record(bytes)
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
    pub(super) fn chunk_bytes(&self, chunk: &Chunk, to: u64) -> &[u8] {
        let start = chunk.region().address(chunk.offset(), to as usize);
        // SAFETY: `address` has checked the range; the caller has `to` from a mark, so nothing below it changes (M2);
        // and the file stays mapped as long as the chunk, which this arena holds as long as it lives.
        unsafe { slice::from_raw_parts(start, to as usize) }
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

/// The records of an arena between two marks.
#[derive(Debug)]
pub struct Records<'a> {
    arena: &'a PmemArena,
    stretches: Vec<(Arc<Chunk>, u64, u64)>,
    walk: Option<Walk<'a>>,
}

impl<'a> Iterator for Records<'a> {
    type Item = (PmemPosition, Record<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some((bytes, header)) = self.walk.as_mut().and_then(Walk::next_trusted) {
                return Some((PmemPosition(bytes.as_ptr()), header.record(bytes)));
            }
            let (chunk, from, to) = self.stretches.pop()?;
            self.walk = Some(Walk::new(self.arena.chunk_bytes(&chunk, to), from));
        }
    }
}

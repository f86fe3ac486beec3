//! The arena of a memtable: chunks filled front to back, recycled through a pool because fresh
//! pages cost many times what reused ones do.
//!
//! Room is reserved under the commit mutex and filled outside it, under the latch of the key. So
//! bytes of a chunk are written by several threads at once, each in its own reservation, and read
//! only once a barrier (all latches) has shown that every reservation below a length is filled.
#![allow(unsafe_code)]

use crate::huge_page;
use crate::prefetch::{prefetch_for_write, prefetch_line};
use parking_lot::Mutex;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Size of an ordinary chunk, and of a huge page; a record that does not fit gets a chunk of its own.
pub(crate) const CHUNK_BYTES: usize = huge_page::HUGE_PAGE_BYTES;

/// Size of an ordinary chunk of small memtables.
pub(crate) const SMALL_CHUNK_BYTES: usize = 256 << 10;

/// Memtables from this size on have large chunks.
const LARGE_MEMTABLE_BYTES: usize = 16 << 20;

/// Bytes behind a record that are asked for when it is written: what follows those, the processor sees
/// coming itself.
#[cfg(target_arch = "x86_64")]
const AHEAD_BYTES: usize = 256;

/// Memory of one chunk.
struct Chunk {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a chunk is plain memory; the protocol of the module comment keeps every byte either with
// the one thread that reserved it or shared read-only after a barrier.
unsafe impl Send for Chunk {}
// SAFETY: as above.
unsafe impl Sync for Chunk {}

impl Chunk {
    fn new(len: usize) -> Self {
        let layout = Self::layout(len);
        // SAFETY: the layout has a size; zeroed bytes are valid.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) });
        let start = start.unwrap_or_else(|| handle_alloc_error(layout));
        if layout.align() == CHUNK_BYTES {
            // SAFETY: our own zeroed memory, aligned by the layout. A flush walks an arena in key order,
            // which with small pages misses the translation cache at nearly every record.
            unsafe {
                if huge_page::wish_if_cheap(start) {
                    huge_page::first_touch(start);
                }
            }
        }
        Self { start, len }
    }

    /// Frees it at once: the allocator would keep its pages for the next to ask.
    fn give_back(self) {
        if self.len.is_multiple_of(CHUNK_BYTES) {
            // SAFETY: our own memory, whole pages of it, of which nothing is needed any more. Only
            // advice: on failure the pages stay until the allocator gives them up.
            unsafe { libc::madvise(self.start.as_ptr().cast(), self.len, libc::MADV_DONTNEED) };
        }
    }

    fn layout(len: usize) -> Layout {
        let align = if len == CHUNK_BYTES { CHUNK_BYTES } else { align_of::<u64>() };
        Layout::from_size_align(len, align).expect("a chunk's size fits the address space")
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout.
        unsafe { dealloc(self.start.as_ptr(), Self::layout(self.len)) };
    }
}

/// Memtables' worth of unused chunks that a pool keeps at rest.
const KEPT_AT_REST: usize = 3;

/// Limit while chunks are being taken and memory is not bounded: under load a memtable grows to
/// twice its size before its writers wait, and so does the one that is being flushed meanwhile.
const KEPT_UNDER_LOAD: usize = 5;

/// Calls of [`ChunkPool::trim`] without a chunk taken in between, after which the pool is at rest.
/// About a minute: memory taken back from the system costs several milliseconds a chunk.
pub(super) const REST_LOOKS: u32 = 600;

/// Chunks waiting to be used again, shared by the memtables of a store.
pub(crate) struct ChunkPool {
    free: Mutex<FreeChunks>,
    held_bytes: AtomicU64,
    /// Looks of `trim` since a chunk was last taken.
    looks: AtomicU32,
}

/// Unused chunks, and how many of them are kept.
struct FreeChunks {
    /// All `chunk_bytes` long.
    chunks: Vec<Chunk>,
    chunk_bytes: usize,
    keep_at_rest: usize,
    keep_under_load: usize,
}

impl FreeChunks {
    /// None, for memtables of `memtable_bytes`.
    fn new(memtable_bytes: usize, bounded: bool) -> Self {
        let large = memtable_bytes >= LARGE_MEMTABLE_BYTES;
        let chunk_bytes = if large { CHUNK_BYTES } else { SMALL_CHUNK_BYTES };
        let chunks = |memtables: usize| (memtables * memtable_bytes).div_ceil(chunk_bytes);
        Self {
            chunks: Vec::new(),
            chunk_bytes,
            keep_at_rest: chunks(KEPT_AT_REST),
            keep_under_load: chunks(if bounded { KEPT_AT_REST } else { KEPT_UNDER_LOAD }),
        }
    }
}

impl ChunkPool {
    /// A pool for memtables of `memtable_bytes`; it keeps at most three times that of unused chunks,
    /// and five times under load where memory is not `bounded`.
    #[must_use]
    pub(crate) fn new(memtable_bytes: usize, bounded: bool) -> Arc<Self> {
        Arc::new(Self {
            free: Mutex::new(FreeChunks::new(memtable_bytes, bounded)),
            held_bytes: AtomicU64::new(0),
            looks: AtomicU32::new(0),
        })
    }

    /// Memtables are of `memtable_bytes` from now on: unused chunks beyond what is kept for those are given back.
    pub(crate) fn resize(&self, memtable_bytes: usize, bounded: bool) {
        let mut next = FreeChunks::new(memtable_bytes, bounded);
        let mut free = self.free.lock();
        let mut chunks = std::mem::take(&mut free.chunks);
        if next.chunk_bytes == free.chunk_bytes {
            let at = next.keep_under_load.min(chunks.len());
            next.chunks = chunks;
            chunks = next.chunks.split_off(at);
        }
        *free = next;
        drop(free);
        self.give_all_back(chunks);
    }

    fn give_all_back(&self, chunks: Vec<Chunk>) {
        let bytes: usize = chunks.iter().map(|chunk| chunk.len).sum();
        chunks.into_iter().for_each(Chunk::give_back);
        self.held_bytes.fetch_sub(bytes as u64, Ordering::Relaxed);
    }

    /// Gives back what only a load wants to have at hand, once nobody has taken a chunk for a while.
    /// To be called a few times a second.
    pub(crate) fn trim(&self) {
        if self.looks.fetch_add(1, Ordering::Relaxed) < REST_LOOKS {
            return;
        }
        let mut free = self.free.lock();
        let at = free.keep_at_rest.min(free.chunks.len());
        let surplus = free.chunks.split_off(at);
        drop(free);
        self.give_all_back(surplus);
    }

    /// Bytes of all chunks, in use or waiting.
    #[must_use]
    pub(crate) fn held_bytes(&self) -> u64 {
        self.held_bytes.load(Ordering::Relaxed)
    }

    fn take(&self, len: usize) -> Chunk {
        self.looks.store(0, Ordering::Relaxed);
        let mut free = self.free.lock();
        if len <= free.chunk_bytes
            && let Some(chunk) = free.chunks.pop()
        {
            return chunk;
        }
        let len = len.max(free.chunk_bytes);
        drop(free);
        self.held_bytes.fetch_add(len as u64, Ordering::Relaxed);
        Chunk::new(len)
    }

    fn give(&self, chunk: Chunk) {
        let len = chunk.len;
        let mut free = self.free.lock();
        if len == free.chunk_bytes && free.chunks.len() < free.keep_under_load {
            free.chunks.push(chunk);
            return;
        }
        drop(free);
        self.held_bytes.fetch_sub(len as u64, Ordering::Relaxed);
    }
}

struct Used {
    chunk: Chunk,
    len: usize,
}

/// Chunks of one memtable with their fill marks.
pub(crate) struct Arena {
    pool: Arc<ChunkPool>,
    chunks: Mutex<Vec<Used>>,
    used_bytes: AtomicU64,
}

/// A reservation: memory that only the holder may touch until the next barrier.
pub(crate) struct Room {
    at: *mut u8,
    len: usize,
}

/// The last chunk of an arena, kept under the commit mutex.
#[derive(Default)]
pub(crate) struct Cursor {
    at: usize,
    end: usize,
    base: Option<*mut u8>,
}

// SAFETY: the pointer is into a chunk of the arena that the cursor belongs to; the cursor lives
// under the commit mutex beside that arena and is reset whenever the arena is replaced.
unsafe impl Send for Cursor {}

/// Position of a record of a memtable: its first byte, in an arena or in persistent memory. Valid while
/// the memtable lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Position(*const u8);

// SAFETY: a position is read only through `Arena::record_bytes`, under the module's protocol.
unsafe impl Send for Position {}
// SAFETY: as above.
unsafe impl Sync for Position {}

impl Arena {
    /// An empty arena on a pool.
    #[must_use]
    pub(crate) fn new(pool: Arc<ChunkPool>) -> Self {
        Self { pool, chunks: Mutex::new(Vec::new()), used_bytes: AtomicU64::new(0) }
    }

    /// Bytes reserved so far.
    #[must_use]
    pub(crate) fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Ordering::Relaxed)
    }

    /// Reserves `len` bytes (a multiple of 8). Callers hold the commit mutex, which owns `cursor`.
    pub(crate) fn reserve(&self, cursor: &mut Cursor, len: usize) -> Room {
        debug_assert_eq!(len % 8, 0);
        if cursor.base.is_none() || cursor.end - cursor.at < len {
            self.next_chunk(cursor, len);
        }
        let base = cursor.base.expect("a chunk was just put there");
        // SAFETY: at + len <= end, the length of the chunk behind base.
        let at = unsafe { base.add(cursor.at) };
        cursor.at += len;
        // Under the commit mutex there is one writer. A locked addition would wait here until all
        // that was just copied into the log buffer has left the store buffer.
        let used = self.used_bytes.load(Ordering::Relaxed) + len as u64;
        self.used_bytes.store(used, Ordering::Relaxed);
        // The next record probably takes the place behind this one and is about as long.
        prefetch_for_write(at.wrapping_add(len), len.min(AHEAD_BYTES));
        Room { at, len }
    }

    fn next_chunk(&self, cursor: &mut Cursor, len: usize) {
        let chunk = self.pool.take(len);
        let mut chunks = self.chunks.lock();
        if let Some(last) = chunks.last_mut() {
            last.len = cursor.at;
        }
        cursor.base = Some(chunk.start.as_ptr());
        cursor.at = 0;
        cursor.end = chunk.len;
        chunks.push(Used { chunk, len: 0 });
    }

    /// Calls `f` with the filled bytes of each chunk from `from` on, where `from` and the answer are
    /// (chunk, offset) marks. Callers have passed a barrier at which `cursor_at` was the offset of the
    /// cursor, so that all of this is written and will not change.
    pub(crate) fn for_each_filled(&self, from: Mark, to: Mark, mut f: impl FnMut(&[u8], Position)) {
        let views: Vec<(*const u8, usize)> = {
            let chunks = self.chunks.lock();
            chunks
                .iter()
                .enumerate()
                .take(to.chunk + 1)
                .skip(from.chunk)
                .map(|(i, used)| {
                    let len = if i == to.chunk { to.offset } else { used.len };
                    (used.chunk.start.as_ptr().cast_const(), len)
                })
                .collect()
        };
        for (i, (base, len)) in views.into_iter().enumerate() {
            let start = if i == 0 { from.offset } else { 0 };
            if start >= len {
                continue;
            }
            // SAFETY: the chunk lives as long as self, and bytes below `len` are filled and
            // unchanging since the barrier the caller passed.
            let bytes = unsafe { std::slice::from_raw_parts(base.add(start), len - start) };
            // SAFETY: start < len, inside the chunk.
            f(bytes, Position(unsafe { base.add(start) }));
        }
    }

    /// The end of what is reserved, as a mark. Callers hold the commit mutex.
    #[must_use]
    pub(crate) fn mark(&self, cursor: &Cursor) -> Mark {
        let chunks = self.chunks.lock().len();
        if chunks == 0 { Mark::default() } else { Mark { chunk: chunks - 1, offset: cursor.at } }
    }

    /// The bytes from a record's position to (at most) `len` further.
    #[must_use]
    pub(crate) fn record_bytes(&self, position: Position, len: usize) -> &[u8] {
        // SAFETY: positions come from `for_each_filled` or a room of this arena, or from the pool whose arenas the
        // memtable keeps beside this one, and `len` from the header of the record that starts there.
        unsafe { std::slice::from_raw_parts(position.0, len) }
    }
}

impl Position {
    /// The position of a node of a skip list; `None` for null.
    #[must_use]
    pub(super) fn of_node(node: *mut u8) -> Option<Self> {
        (!node.is_null()).then_some(Self(node))
    }

    /// The position of a record whose first byte is there.
    #[must_use]
    pub(super) fn at(first: *const u8) -> Self {
        Self(first)
    }

    /// The address of the node whose position this is.
    #[must_use]
    pub(super) fn node(self) -> *mut u8 {
        self.0.cast_mut()
    }

    /// The position `bytes` further on.
    #[must_use]
    pub(crate) fn advance(self, bytes: usize) -> Self {
        Self(self.0.wrapping_add(bytes))
    }

    /// Hint: this byte's cache line will be read soon.
    pub(crate) fn prefetch(self) {
        prefetch_line(self.0);
    }
}

/// A place between two records of a memtable: in an arena, or in the list of stretches that hold them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mark {
    chunk: usize,
    offset: usize,
}

impl Mark {
    /// The place `offset` bytes into a chunk of an arena, or into a stretch of records.
    #[must_use]
    pub(super) fn new(chunk: usize, offset: usize) -> Self {
        Self { chunk, offset }
    }

    /// Number of the chunk or stretch.
    #[must_use]
    pub(super) fn chunk(self) -> usize {
        self.chunk
    }

    /// Bytes before it in there.
    #[must_use]
    pub(super) fn offset(self) -> usize {
        self.offset
    }
}

impl Room {
    /// Where it starts.
    #[must_use]
    pub(crate) fn position(&self) -> Position {
        Position(self.at)
    }

    /// Ends the reservation; answers where it starts.
    pub(super) fn into_start(self) -> *mut u8 {
        self.at
    }

    /// The reserved bytes.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: a Room is the only reference to its reservation, which is inside a live chunk: it
        // is filled and dropped under a latch, and arenas are only replaced at a barrier.
        unsafe { std::slice::from_raw_parts_mut(self.at, self.len) }
    }

    /// Splits off the first `len` bytes.
    #[must_use]
    pub(crate) fn split_to(&mut self, len: usize) -> Self {
        assert!(len <= self.len, "room of {} bytes split at {len}", self.len);
        let head = Self { at: self.at, len };
        // SAFETY: len <= self.len was just checked.
        self.at = unsafe { self.at.add(len) };
        self.len -= len;
        head
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        for used in self.chunks.get_mut().drain(..) {
            self.pool.give(used.chunk);
        }
    }
}

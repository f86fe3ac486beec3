//! Pages for the slabs of all shards, cut from chunks of 1 MB.
#![allow(unsafe_code)]

use crate::huge_page;
use parking_lot::Mutex;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const CHUNK_BYTES: usize = REGION_BYTES / 2;
/// Chunks are mapped two at a time, in one huge page where the system has them: entries are anywhere,
/// and with small pages nearly every look-up would miss the translation cache too.
pub(super) const REGION_BYTES: usize = huge_page::HUGE_PAGE_BYTES;
/// Free pages whose memory is kept without a bound of memory; what is freed beyond is given back to the system.
const KEEP_PAGES: usize = 256;
/// Under a bound, kept pages have at most one part in this many of it.
const KEEP_SHARE: u64 = 128;
/// One bit of every pair.
const PAIRS: u64 = 0x5555_5555_5555_5555;

/// Size of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageSize {
    /// 16 KB.
    Small,
    /// 32 KB: two small ones side by side.
    Big,
}

/// Bytes of a small page.
pub(super) const SMALL_BYTES: usize = 16 << 10;

/// Where the page of this address begins, if it is a small one.
pub(super) fn small_page_of(address: usize) -> usize {
    address & !(SMALL_BYTES - 1)
}

impl PageSize {
    pub(super) const fn bytes(self) -> usize {
        match self {
            Self::Small => SMALL_BYTES,
            Self::Big => 2 * SMALL_BYTES,
        }
    }

    fn mask(self) -> u64 {
        match self {
            Self::Small => 1,
            Self::Big => 3,
        }
    }
}

/// A page, aligned to its size.
pub(super) struct Page {
    pub(super) start: NonNull<u8>,
    /// Number of its chunk, to be given back with it.
    pub(super) chunk: u32,
}

/// A chunk is 64 small pages; one bit each.
struct Chunk {
    start: NonNull<u8>,
    free: u64,
    /// Free pages that were used before, so that they are backed by memory.
    dirty: u64,
    listed: bool,
    pairs_listed: bool,
}

impl Chunk {
    /// First pages of free aligned pairs.
    fn free_pairs(&self) -> u64 {
        self.free & self.free >> 1 & PAIRS
    }
}

#[derive(Default)]
struct Chunks {
    all: Vec<Chunk>,
    /// Chunks that may have a free page, or a free pair: looked at when popped.
    with_page: Vec<u32>,
    with_pair: Vec<u32>,
    dirty_pages: usize,
    /// Second chunk of the last region.
    unused: Option<NonNull<u8>>,
}

impl Chunks {
    fn candidate(&mut self, size: PageSize) -> Option<(u32, u32)> {
        loop {
            let list = match size {
                PageSize::Small => &mut self.with_page,
                PageSize::Big => &mut self.with_pair,
            };
            let &number = list.last()?;
            let chunk = &mut self.all[number as usize];
            let pairs = chunk.free_pairs();
            let single = chunk.free & !(pairs | pairs << 1);
            let (choice, listed) = match size {
                PageSize::Small if single != 0 => (single, &mut chunk.listed),
                PageSize::Small => (chunk.free, &mut chunk.listed),
                PageSize::Big => (pairs, &mut chunk.pairs_listed),
            };
            if choice != 0 {
                return Some((number, choice.trailing_zeros()));
            }
            *listed = false;
            list.pop();
        }
    }

    fn list(&mut self, number: u32) {
        let chunk = &mut self.all[number as usize];
        if !chunk.listed {
            chunk.listed = true;
            self.with_page.push(number);
        }
        if !chunk.pairs_listed && chunk.free_pairs() != 0 {
            chunk.pairs_listed = true;
            self.with_pair.push(number);
        }
    }
}

/// Pages of all shards: a page that one gives back serves any other, in any class.
pub struct PagePool {
    chunks: Mutex<Chunks>,
    keep_pages: AtomicUsize,
}

impl Default for PagePool {
    fn default() -> Self {
        Self { chunks: Mutex::default(), keep_pages: AtomicUsize::new(KEEP_PAGES) }
    }
}

// SAFETY: the pointers are to memory mapped by the pool, which hands out each page to one owner.
unsafe impl Send for PagePool {}
// SAFETY: everything is behind the mutex.
unsafe impl Sync for PagePool {}

impl PagePool {
    /// An empty pool.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }

    /// Number of chunks mapped so far.
    #[cfg(test)]
    pub(super) fn chunks(&self) -> usize {
        self.chunks.lock().all.len()
    }

    /// Keeps less of what is free from now on where the memory of the process is bounded (`bound_bytes` is not 0).
    pub fn set_bound(&self, bound_bytes: u64) {
        let share = usize::try_from(bound_bytes / KEEP_SHARE).unwrap_or(usize::MAX) / SMALL_BYTES;
        let pages = if bound_bytes == 0 { KEEP_PAGES } else { share.min(KEEP_PAGES) };
        self.keep_pages.store(pages, Ordering::Relaxed);
    }

    /// Bytes of pages that nobody uses but whose memory is kept: at most 4 MB.
    pub fn idle_bytes(&self) -> usize {
        self.chunks.lock().dirty_pages * SMALL_BYTES
    }

    /// A page whose content is undefined.
    pub(super) fn allocate(&self, size: PageSize) -> Page {
        let mut chunks = self.chunks.lock();
        let mut is_huge = false;
        let (number, bit) = chunks.candidate(size).unwrap_or_else(|| {
            let start = chunks.unused.take().unwrap_or_else(|| {
                let region = map_aligned(REGION_BYTES);
                // SAFETY: fresh memory, mapped to the size and alignment of a huge page.
                is_huge = unsafe { huge_page::wish_if_cheap(region) };
                // SAFETY: the second half of a region of two chunks.
                chunks.unused = Some(unsafe { region.add(CHUNK_BYTES) });
                region
            });
            let number = chunks.all.len() as u32;
            let chunk =
                Chunk { start, free: u64::MAX, dirty: 0, listed: false, pairs_listed: false };
            chunks.all.push(chunk);
            chunks.list(number);
            (number, 0)
        });
        let chunk = &mut chunks.all[number as usize];
        let mask = size.mask() << bit;
        chunk.free &= !mask;
        let reused = (chunk.dirty & mask).count_ones() as usize;
        chunk.dirty &= !mask;
        // SAFETY: bit < 64 pages of a chunk.
        let start = unsafe { chunk.start.add(bit as usize * SMALL_BYTES) };
        chunks.dirty_pages -= reused;
        drop(chunks);
        if is_huge {
            // Not under the mutex: the system may take its time.
            // SAFETY: the first byte of the page that the caller gets, whose content is undefined.
            unsafe { huge_page::first_touch(start) };
        }
        Page { start, chunk: number }
    }

    /// Takes a page back.
    ///
    /// # Safety
    /// It came from `allocate(size)` of this pool and is not used any more.
    pub(super) unsafe fn release(&self, page: Page, size: PageSize) {
        let mut chunks = self.chunks.lock();
        let keep = chunks.dirty_pages < self.keep_pages.load(Ordering::Relaxed);
        let chunk = &mut chunks.all[page.chunk as usize];
        let offset = page.start.as_ptr() as usize - chunk.start.as_ptr() as usize;
        let mask = size.mask() << (offset / SMALL_BYTES);
        debug_assert_eq!(chunk.free & mask, 0, "page given back twice");
        chunk.free |= mask;
        if keep {
            chunk.dirty |= mask;
            chunks.dirty_pages += mask.count_ones() as usize;
        } else {
            // SAFETY: the page is part of a private mapping of ours and nobody uses it.
            unsafe { libc::madvise(page.start.as_ptr().cast(), size.bytes(), libc::MADV_DONTNEED) };
        }
        chunks.list(page.chunk);
    }
}

impl Drop for PagePool {
    fn drop(&mut self) {
        let chunks = self.chunks.get_mut();
        for start in chunks.all.iter().map(|chunk| chunk.start).chain(chunks.unused) {
            // SAFETY: the tables hold the pool alive, so no page is in use any more.
            unsafe { libc::munmap(start.as_ptr().cast(), CHUNK_BYTES) };
        }
    }
}

/// Maps `bytes`, a multiple of [`REGION_BYTES`], in huge pages where the system has them.
pub(super) fn map_huge(bytes: usize) -> NonNull<u8> {
    let start = map_aligned(bytes);
    // SAFETY: the mapping just made.
    unsafe { huge_page::wish(start, bytes) };
    start
}

/// Maps `bytes`, a multiple of [`REGION_BYTES`], aligned to it. A process that gets no memory ends, as it does when the
/// global allocator gets none.
fn map_aligned(bytes: usize) -> NonNull<u8> {
    debug_assert!(bytes.is_multiple_of(REGION_BYTES));
    let align = REGION_BYTES;
    let mapped = map(bytes + align);
    let skip = mapped.as_ptr().align_offset(align);
    // SAFETY: skip < align, so both cut-off parts lie inside the new mapping and outside the
    // chunk; lengths are multiples of the system's page, as mapping and alignment are.
    unsafe {
        let start = mapped.add(skip);
        if skip > 0 {
            libc::munmap(mapped.as_ptr().cast(), skip);
        }
        libc::munmap(start.add(bytes).as_ptr().cast(), align - skip);
        start
    }
}

/// Fresh zeroed memory of the system.
pub(super) fn map(bytes: usize) -> NonNull<u8> {
    let (protection, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: an anonymous mapping at an address of the system's choice touches nothing else.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        let layout = std::alloc::Layout::from_size_align(bytes, 8);
        std::alloc::handle_alloc_error(layout.unwrap_or(std::alloc::Layout::new::<u64>()));
    }
    NonNull::new(start.cast::<u8>()).expect("a mapping never starts at null")
}

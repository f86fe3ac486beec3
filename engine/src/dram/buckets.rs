//! Arrays of buckets, and the hints that read them without the latch.
//!
//! A bucket is one cache line of 8 words: 16-bit tag, address of an entry, and 3 spare bits
//! (entries are aligned to 8). The spare bits of the first two words are the bucket's overflow
//! count: the number of entries that passed it because it was full. A look-up continues with the next
//! bucket while that count is not 0. A count that reached its maximum keeps it until the next rehash.
//!
//! Arrays are never unmapped: a retired one releases its memory and waits for reuse. A hint
//! may therefore read it at any time and see zeros or the words of another table, both harmless.
#![allow(unsafe_code)]

use super::entry::Entry;
use super::page_pool::{self, REGION_BYTES};
use crate::prefetch::{prefetch_line, prefetch_lines};
use parking_lot::Mutex;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// Entries of a bucket.
pub(super) const LANES: usize = 8;
/// Smallest array: one page of the system, 64 buckets.
pub(super) const MIN_LOG2: u32 = 6;
const MAX_LOG2: u32 = 40;
const BUCKET_BYTES: usize = 64;

/// Smaller arrays have small pages: a few keys should not take megabytes.
const SHARED_MIN_BYTES: usize = 128 << 10;

const TAG_SHIFT: u32 = 48;
const ADDRESS: u64 = 0x0000_ffff_ffff_fff8;
const SPARE: u64 = 7;
const OVERFLOW_MAX: u64 = 63;

/// Arrays in waiting, by size; the process has one list, because hints outlive tables.
static RETIRED: [Mutex<Vec<usize>>; MAX_LOG2 as usize + 1] =
    [const { Mutex::new(Vec::new()) }; MAX_LOG2 as usize + 1];

/// The tag of a hash: bits that choose neither shard nor bucket; never 0.
#[inline]
fn tag_of(hash: u64) -> u64 {
    (hash >> 40 & 0xffff).max(1)
}

#[repr(C, align(64))]
struct Bucket([AtomicU64; LANES]);

/// Position of an entry in an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) bucket: usize,
    pub(super) lane: usize,
}

/// A power of two of buckets.
pub(super) struct BucketArray {
    start: NonNull<Bucket>,
    log2: u32,
    /// Entries in it.
    pub(super) len: usize,
}

impl BucketArray {
    /// Empty array of `1 << log2` buckets.
    pub(super) fn new(log2: u32) -> Self {
        let log2 = log2.clamp(MIN_LOG2, MAX_LOG2);
        let waiting = RETIRED[log2 as usize].lock().pop();
        let start = waiting.and_then(|address| NonNull::new(address as *mut Bucket));
        Self { start: start.unwrap_or_else(|| Self::map(log2)), log2, len: 0 }
    }

    /// Allocates memory for an array in huge pages, one of which several arrays of equal size share (shards
    /// grow almost simultaneously). Look-ups are random accesses, and with small pages nearly each of them
    /// would miss the TLB.
    fn map(log2: u32) -> NonNull<Bucket> {
        let bytes = BUCKET_BYTES << log2;
        if bytes < SHARED_MIN_BYTES {
            return page_pool::map(bytes).cast();
        }
        let start = page_pool::map_huge(bytes.max(REGION_BYTES));
        let others = (bytes..REGION_BYTES).step_by(bytes);
        let others = others.map(|at| start.as_ptr() as usize + at);
        RETIRED[log2 as usize].lock().extend(others);
        start.cast()
    }

    pub(super) fn log2(&self) -> u32 {
        self.log2
    }

    pub(super) fn buckets(&self) -> usize {
        1 << self.log2
    }

    pub(super) fn bytes(&self) -> usize {
        BUCKET_BYTES << self.log2
    }

    #[inline]
    pub(super) fn home(&self, hash: u64) -> usize {
        hash as usize & (self.buckets() - 1)
    }

    #[inline]
    fn next(&self, bucket: usize) -> usize {
        (bucket + 1) & (self.buckets() - 1)
    }

    #[inline]
    fn words(&self, bucket: usize) -> &[AtomicU64; LANES] {
        let bucket = bucket & (self.buckets() - 1);
        // SAFETY: the array has this bucket, and its memory is zeroed or written atomically.
        unsafe { &self.start.add(bucket).as_ref().0 }
    }

    #[inline]
    fn load(&self, bucket: usize, lane: usize) -> u64 {
        self.words(bucket)[lane].load(Ordering::Relaxed)
    }

    fn store(&self, bucket: usize, lane: usize, word: u64) {
        self.words(bucket)[lane].store(word, Ordering::Relaxed);
    }

    #[inline]
    fn overflow(&self, bucket: usize) -> u64 {
        let words = self.words(bucket);
        let [low, high] = [0, 1].map(|i: usize| words[i].load(Ordering::Relaxed) & SPARE);
        low | high << 3
    }

    fn set_overflow(&self, bucket: usize, count: u64) {
        for (lane, spare) in [count & SPARE, count >> 3].into_iter().enumerate() {
            self.store(bucket, lane, self.load(bucket, lane) & !SPARE | spare);
        }
    }

    /// The entry at a place, if there is one.
    #[inline]
    pub(super) fn entry(&self, place: Place) -> Option<Entry> {
        let word = self.load(place.bucket, place.lane & (LANES - 1));
        // SAFETY: a word with a tag holds the address of an entry of this table; the table takes the
        // word away before it frees the entry.
        (word >> TAG_SHIFT != 0).then(|| unsafe { Entry::from_address(word & ADDRESS) })
    }

    /// First entry with the tag of `hash` that `wanted` accepts, in probe order.
    #[inline]
    pub(super) fn probe(
        &self,
        hash: u64,
        mut wanted: impl FnMut(Entry) -> bool,
    ) -> Option<(Place, Entry)> {
        let tag = tag_of(hash);
        let mut bucket = self.home(hash);
        for _ in 0..self.buckets() {
            let words = self.words(bucket);
            let mut matches = 0_u32;
            for (lane, word) in words.iter().enumerate() {
                matches |= u32::from(word.load(Ordering::Relaxed) >> TAG_SHIFT == tag) << lane;
            }
            while matches != 0 {
                let place = Place { bucket, lane: matches.trailing_zeros() as usize };
                if let Some(entry) = self.entry(place)
                    && wanted(entry)
                {
                    return Some((place, entry));
                }
                matches &= matches - 1;
            }
            if self.overflow(bucket) == 0 {
                return None;
            }
            bucket = self.next(bucket);
        }
        None
    }

    /// Adds an entry; the caller keeps the array from getting full.
    pub(super) fn insert(&mut self, hash: u64, entry: Entry) {
        let mut bucket = self.home(hash);
        loop {
            for lane in 0..LANES {
                let word = self.load(bucket, lane);
                if word >> TAG_SHIFT == 0 {
                    let spare = word & SPARE;
                    self.store(bucket, lane, tag_of(hash) << TAG_SHIFT | entry.address() | spare);
                    self.len += 1;
                    return;
                }
            }
            let passed = self.overflow(bucket);
            self.set_overflow(bucket, (passed + 1).min(OVERFLOW_MAX));
            bucket = self.next(bucket);
        }
    }

    /// Takes an entry's word away; the entry itself stays.
    pub(super) fn remove(&mut self, hash: u64, place: Place) {
        let spare = self.load(place.bucket, place.lane) & SPARE;
        self.store(place.bucket, place.lane, spare);
        self.len -= 1;
        let mut bucket = self.home(hash);
        while bucket != place.bucket {
            let passed = self.overflow(bucket);
            debug_assert_ne!(passed, 0);
            if passed < OVERFLOW_MAX {
                self.set_overflow(bucket, passed.saturating_sub(1));
            }
            bucket = self.next(bucket);
        }
    }

    /// The entry at `place` moved to another block.
    pub(super) fn redirect(&mut self, place: Place, entry: Entry) {
        let word = self.load(place.bucket, place.lane);
        self.store(place.bucket, place.lane, word & !ADDRESS | entry.address());
    }

    /// Asks for the bucket of `hash`.
    #[inline]
    pub(super) fn prefetch(&self, hash: u64) {
        prefetch_line(self.words(self.home(hash)).as_ptr().cast());
    }

    /// Asks for the first line of each entry of a bucket.
    pub(super) fn prefetch_entries(&self, bucket: usize) {
        for word in self.words(bucket) {
            prefetch_line((word.load(Ordering::Relaxed) & ADDRESS) as usize as *const u8);
        }
    }
}

impl Drop for BucketArray {
    fn drop(&mut self) {
        // SAFETY: the array is a private mapping of ours; afterwards it reads as zeros, which is
        // what hints may see and what the next owner expects.
        let given =
            unsafe { libc::madvise(self.start.as_ptr().cast(), self.bytes(), libc::MADV_DONTNEED) };
        if given != 0 {
            for bucket in 0..self.buckets() {
                self.words(bucket).iter().for_each(|word| word.store(0, Ordering::Relaxed));
            }
        }
        RETIRED[self.log2 as usize].lock().push(self.start.as_ptr() as usize);
    }
}

/// What other threads may ask a table without its latch: to bring lines into the cache.
#[derive(Debug, Default)]
pub struct Hint {
    /// Address of an array with its log2 in the low bits, so that both are read together; 0 for
    /// none. The second is the array that a resize is emptying.
    arrays: [AtomicU64; 2],
}

impl Hint {
    pub(super) fn publish(&self, current: &BucketArray, old: Option<&BucketArray>) {
        let word =
            |array: &BucketArray| array.start.as_ptr() as usize as u64 | u64::from(array.log2);
        self.arrays[0].store(word(current), Ordering::Release);
        self.arrays[1].store(old.map_or(0, word), Ordering::Release);
    }

    /// Where the arrays are now.
    #[inline]
    pub fn view(&self) -> HintView {
        HintView { arrays: [0, 1].map(|at| self.arrays[at].load(Ordering::Acquire)) }
    }

    /// [`HintView::prefetch_bucket`] of the arrays that there are now.
    #[inline]
    pub fn prefetch_bucket(&self, hash: u64) {
        self.view().prefetch_bucket(hash);
    }

    /// [`HintView::prefetch_entry`] of the arrays that there are now.
    #[inline]
    pub fn prefetch_entry(&self, hash: u64, content_bytes: usize) {
        self.view().prefetch_entry(hash, content_bytes);
    }

    /// Asks for the heads of the pages of these entries: one that is removed leaves its cell to its page.
    #[inline]
    pub fn prefetch_page(&self, hash: u64) {
        self.view().entries(hash, |address| {
            prefetch_line(page_pool::small_page_of(address) as *const u8);
        });
    }
}

/// Where the arrays of a table were when it was asked.
#[derive(Clone, Copy, Debug)]
pub struct HintView {
    arrays: [u64; 2],
}

impl HintView {
    /// Asks for the bucket of `hash` (first pass of a batch).
    #[inline]
    pub fn prefetch_bucket(self, hash: u64) {
        self.homes(hash, |bucket| prefetch_line(std::ptr::from_ref(bucket).cast()));
    }

    /// Asks for the lines of the entries that may be the one of `hash` (second pass), whose key and value are
    /// `content_bytes` long. A line that is missing when the entry is overwritten costs as much as all of them: the next
    /// locked instruction waits until every store has found its line.
    #[inline]
    pub fn prefetch_entry(self, hash: u64, content_bytes: usize) {
        let bytes = (HEADER_BYTES_MAX + content_bytes).min(PREFETCH_BYTES_MAX);
        self.entries(hash, |address| prefetch_lines(address as *const u8, bytes));
    }

    /// The home buckets of a hash.
    #[inline]
    fn homes(self, hash: u64, mut f: impl FnMut(&Bucket)) {
        for word in self.arrays {
            if word == 0 {
                continue;
            }
            let log2 = word & 63;
            let start = (word & !63) as usize as *const Bucket;
            // SAFETY: the word describes an array as it was published, and arrays are never
            // unmapped. Its memory is only ever accessed by atomics.
            f(unsafe { &*start.add(hash as usize & ((1 << log2) - 1)) });
        }
    }

    /// The addresses of the entries that may be the one of `hash`.
    #[inline]
    fn entries(self, hash: u64, mut f: impl FnMut(usize)) {
        let tag = tag_of(hash);
        self.homes(hash, |bucket| {
            for word in &bucket.0 {
                let word = word.load(Ordering::Relaxed);
                if word >> TAG_SHIFT == tag {
                    f((word & ADDRESS) as usize);
                }
            }
        });
    }
}

/// Bytes of an entry before its key: header, two long lengths, an expiry with the place of its item.
const HEADER_BYTES_MAX: usize = 28;

/// Bytes of an entry that are asked for at most.
const PREFETCH_BYTES_MAX: usize = 1024;

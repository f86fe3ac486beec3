//! Where the records of a memtable are stored, in the order in which they were written.
//!
//! Used by memtables whose records do not fill one arena front to back. A writer stores a record and adds its place under
//! the latch of its key. The versions of one key are therefore listed in sequence order, while those of different keys,
//! written by other threads, may not be.
//!
//! Records that one writer adds without another in between form one stretch. Only the last stretch grows. A writer that
//! finds the last stretch to be its own may extend it even if another stretch is added meanwhile, since that one holds
//! other keys.
#![allow(unsafe_code)]

use super::arena::{Mark, Position};
use std::ptr;
use std::slice;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

/// Stretches of one block.
const BLOCK_STRETCHES: usize = 4096;
/// Blocks of one shelf, and shelves of a list: four billion stretches, of which each holds a record.
const SHELF_BLOCKS: usize = 1024;
const SHELVES: usize = 1024;

/// Between two batches of a writer there are fewer zeros than this (M1).
const GAP_BYTES: usize = 256;

/// Lengths of records, and of the gaps between them, are multiples of this, in bytes.
const WORD_BYTES: usize = 8;

/// Bits of a stretch's length; its writer is above them.
const LEN_BITS: u32 = 48;

/// One stretch; zeros before it is there.
#[derive(Debug)]
struct Stretch {
    start: AtomicPtr<u8>,
    /// Bytes, and above them the number of the writer that may go on here, plus one, or 0.
    extent: AtomicU64,
}

type Block = Box<[Stretch]>;
type Shelf = Box<[OnceLock<Block>]>;

/// A list that grows without a lock, since each write adds to it. Below a mark taken at a barrier all of it can be read.
pub(super) struct Stretches {
    shelves: Box<[OnceLock<Shelf>]>,
    count: AtomicUsize,
}

impl Default for Stretches {
    fn default() -> Self {
        Self { shelves: empty(SHELVES), count: AtomicUsize::new(0) }
    }
}

impl Stretches {
    /// Adds `len` bytes of records, whose keys' latches are held. With a `writer` they follow in its chunk what it has
    /// added before, or begin another chunk; without one they may be anywhere.
    ///
    /// # Safety
    ///
    /// They are whole records, and nothing but zeros is between them and those before them in the chunk. From the next
    /// barrier on they can be read, and stay as they are while this list lives.
    pub(super) unsafe fn add(&self, writer: Option<u16>, at: Position, len: usize) {
        let owner = writer.map_or(0, |number| u64::from(number) + 1);
        if owner != 0
            && let Some(last) = self.count.load(Ordering::Relaxed).checked_sub(1)
        {
            // Another writer's may not be whole yet, but never looks like one of this writer.
            let stretch = self.stretch(last);
            let extent = stretch.extent.load(Ordering::Relaxed);
            if extent >> LEN_BITS == owner {
                let end = stretch.start.load(Ordering::Relaxed).addr() + len_of(extent);
                let gap = at.node().addr().wrapping_sub(end);
                if gap < GAP_BYTES {
                    stretch.extent.store(extent + (gap + len) as u64, Ordering::Relaxed);
                    return;
                }
            }
        }
        // The barrier before anybody reads it orders this.
        let stretch = self.stretch(self.count.fetch_add(1, Ordering::Relaxed));
        stretch.start.store(at.node(), Ordering::Relaxed);
        stretch.extent.store(owner << LEN_BITS | len as u64, Ordering::Relaxed);
    }

    /// A stretch's place, whose block is made by whoever comes first.
    fn stretch(&self, index: usize) -> &Stretch {
        let block = index / BLOCK_STRETCHES;
        let shelf = self.shelves[block / SHELF_BLOCKS].get_or_init(|| empty(SHELF_BLOCKS));
        &shelf[block % SHELF_BLOCKS].get_or_init(empty_block)[index % BLOCK_STRETCHES]
    }

    /// The current end. Must be taken at a barrier by whoever will read below it.
    pub(super) fn mark(&self) -> Mark {
        let Some(last) = self.count.load(Ordering::Relaxed).checked_sub(1) else {
            return Mark::default();
        };
        Mark::new(last, len_of(self.stretch(last).extent.load(Ordering::Relaxed)))
    }

    /// Memory of the list, in bytes.
    pub(super) fn held_bytes(&self) -> u64 {
        let blocks = self.count.load(Ordering::Relaxed).div_ceil(BLOCK_STRETCHES);
        let shelves = SHELVES + blocks.div_ceil(SHELF_BLOCKS) * SHELF_BLOCKS;
        (blocks * size_of::<[Stretch; BLOCK_STRETCHES]>() + shelves * size_of::<OnceLock<Block>>())
            as u64
    }

    /// Calls `f` with the bytes of each stretch between two marks, and where they begin. Before a record there may be
    /// zeros: see [`skip_room`].
    pub(super) fn for_each_filled(&self, from: Mark, to: Mark, mut f: impl FnMut(&[u8], Position)) {
        for index in from.chunk()..=to.chunk() {
            let stretch = self.stretch(index);
            let len = len_of(stretch.extent.load(Ordering::Relaxed));
            let end = if index == to.chunk() { to.offset() } else { len };
            let begin = if index == from.chunk() { from.offset() } else { 0 };
            if begin >= end {
                continue;
            }
            let start = stretch.start.load(Ordering::Relaxed).wrapping_add(begin).cast_const();
            // SAFETY: below a mark everything was added before the barrier at which the mark was taken, so by the
            // promise of `add` it can be read and does not change.
            let bytes = unsafe { slice::from_raw_parts(start, end - begin) };
            f(bytes, Position::at(start));
        }
    }
}

/// Where at or behind `at` the next record of a stretch begins; the end of `bytes` when there is none. The first word of
/// a record, its sequence, is never zero.
pub(super) fn skip_room(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() && bytes[at..at + WORD_BYTES] == [0; WORD_BYTES] {
        at += WORD_BYTES;
    }
    at
}

fn len_of(extent: u64) -> usize {
    (extent & ((1 << LEN_BITS) - 1)) as usize
}

fn empty<T>(count: usize) -> Box<[OnceLock<T>]> {
    (0..count).map(|_| OnceLock::new()).collect()
}

fn empty_block() -> Block {
    let none = || Stretch { start: AtomicPtr::new(ptr::null_mut()), extent: AtomicU64::new(0) };
    (0..BLOCK_STRETCHES).map(|_| none()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory in which records are eight bytes long, their number at their start, lines as in a pool.
    #[repr(align(256))]
    struct Memory([u64; 4096]);

    impl Memory {
        fn add(&mut self, to: &Stretches, writer: Option<u16>, word: usize, number: u64) {
            self.0[word] = number;
            // SAFETY: a word of this memory, which outlives the list and is not written again.
            unsafe { to.add(writer, Position::at((&raw const self.0[word]).cast()), 8) };
        }
    }

    fn numbers(stretches: &Stretches, from: Mark, to: Mark) -> Vec<u64> {
        let mut found = Vec::new();
        stretches.for_each_filled(from, to, |bytes, start| {
            assert_eq!(start, Position::at(bytes.as_ptr()));
            let mut at = skip_room(bytes, 0);
            while at < bytes.len() {
                found.push(u64::from_le_bytes(bytes[at..at + 8].try_into().expect("a word")));
                at = skip_room(bytes, at + 8);
            }
        });
        found
    }

    #[test]
    fn records_come_back_in_the_order_in_which_they_were_added() {
        let mut memory = Box::new(Memory([0; 4096]));
        let stretches = Stretches::default();
        assert_eq!(numbers(&stretches, Mark::default(), stretches.mark()), []);
        // One writer: a batch, the next at the next line and at the next media line.
        for (number, word) in [(1, 0), (2, 1), (3, 8), (4, 32), (5, 33)] {
            memory.add(&stretches, Some(7), word, number);
        }
        let one = stretches.mark();
        assert_eq!((one.chunk(), one.offset()), (0, 34 * 8), "one stretch");
        // Another in turn with it, and a record that lies elsewhere.
        for (writer, word, number) in
            [(8, 1024, 6), (7, 34, 7), (7, 40, 8), (8, 1025, 9), (7, 41, 10)]
        {
            memory.add(&stretches, Some(writer), word, number);
        }
        memory.add(&stretches, None, 3000, 11);
        memory.add(&stretches, None, 3001, 12);
        // In another chunk, behind a header.
        memory.add(&stretches, Some(7), 41 + 33, 13);
        memory.add(&stretches, Some(7), 41 + 34, 14);
        let end = stretches.mark();
        assert_eq!(end.chunk(), 1 + 4 + 2, "the same writer goes on in its own stretch only");
        assert_eq!(numbers(&stretches, Mark::default(), one), (1..=5).collect::<Vec<_>>());
        assert_eq!(numbers(&stretches, one, end), (6..=14).collect::<Vec<_>>());
        // What is added later to the last stretch is behind the mark.
        memory.add(&stretches, Some(7), 41 + 35, 15);
        assert_eq!(numbers(&stretches, one, end).len(), 9);
        assert_eq!(numbers(&stretches, end, stretches.mark()), [15]);
    }

    #[test]
    fn there_may_be_more_than_a_block_holds() {
        let mut memory = Box::new(Memory([0; 4096]));
        let stretches = Stretches::default();
        for number in 0..2 * BLOCK_STRETCHES as u64 + 10 {
            memory.add(&stretches, Some((number % 2) as u16), (number % 2 * 2048) as usize, 1);
        }
        let found = numbers(&stretches, Mark::default(), stretches.mark());
        assert_eq!(found.len(), 2 * BLOCK_STRETCHES + 10);
        assert!(stretches.held_bytes() > 3 * 16 * BLOCK_STRETCHES as u64);
    }
}

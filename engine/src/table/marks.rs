//! Marks on versions that a walk found dead (N5).
//!
//! A grave (d, e) with q < d <= s covers version q for every reader from s on, whatever happens to the grave
//! afterwards. Finding that out costs each walk several cache misses; a bit tells it to
//! the next walk. Marks are in memory only and are dropped with the table.

use crate::key::Seq;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Entries of a block that can be marked, in words of 64; those behind are looked up.
const WORDS_A_BLOCK_MAX: u64 = 16;

/// One bit for each entry of a table, and the sequence from which on they hold.
#[derive(Debug)]
pub(super) struct DeadMarks {
    blocks: usize,
    words_a_block: usize,
    /// No mark is of a walk above this.
    as_of: AtomicU64,
    /// Made with the first mark: a table without dead needs none.
    words: OnceLock<Box<[AtomicU64]>>,
}

impl DeadMarks {
    /// For a table of `entries` in `blocks`.
    pub(super) fn new(blocks: usize, entries: u64) -> Self {
        // Blocks of small values differ in their number of entries: a quarter more than the average.
        let a_block = entries / (blocks.max(1) as u64);
        let words_a_block =
            (a_block + a_block / 4).div_ceil(64).clamp(1, WORDS_A_BLOCK_MAX) as usize;
        Self { blocks, words_a_block, as_of: AtomicU64::new(0), words: OnceLock::new() }
    }

    /// Place of the bit of entry `nth` in `block`.
    #[inline]
    fn place(&self, block: usize, nth: u32) -> Option<(usize, u64)> {
        let word = (nth / 64) as usize;
        (word < self.words_a_block && block < self.blocks)
            .then(|| (block * self.words_a_block + word, 1 << (nth % 64)))
    }

    /// A walk at `s` found entry `nth` of `block` covered by a grave at or below `s`.
    pub(super) fn mark(&self, block: usize, nth: u32, s: Seq) {
        let Some((word, bit)) = self.place(block, nth) else { return };
        let words = self.words.get_or_init(|| {
            (0..self.blocks * self.words_a_block).map(|_| AtomicU64::new(0)).collect()
        });
        // Before the bit: whoever sees that must see from where on it holds.
        if self.as_of.load(Ordering::Relaxed) < s {
            self.as_of.fetch_max(s, Ordering::Relaxed);
        }
        words[word].fetch_or(bit, Ordering::Release);
    }

    /// True when entry `nth` of `block` is known to be dead for a reader at `s`.
    #[inline]
    pub(super) fn is_dead(&self, block: usize, nth: u32, s: Seq) -> bool {
        let (Some(words), Some((word, bit))) = (self.words.get(), self.place(block, nth)) else {
            return false;
        };
        words[word].load(Ordering::Acquire) & bit != 0 && self.as_of.load(Ordering::Relaxed) <= s
    }

    /// Bytes of memory.
    pub(super) fn memory_bytes(&self) -> usize {
        self.words.get().map_or(0, |words| size_of_val(&**words))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_holds_for_readers_from_its_walk_on() {
        let marks = DeadMarks::new(3, 100);
        assert!(!marks.is_dead(1, 7, 100));
        assert_eq!(marks.memory_bytes(), 0);
        marks.mark(1, 7, 50);
        assert!(marks.is_dead(1, 7, 50) && marks.is_dead(1, 7, 99));
        assert!(!marks.is_dead(1, 7, 49), "an older reader has to look");
        assert!(!marks.is_dead(1, 6, 99) && !marks.is_dead(0, 7, 99) && !marks.is_dead(2, 7, 99));
        marks.mark(2, 0, 60);
        assert!(!marks.is_dead(1, 7, 55), "marks of younger walks hide those of older ones");
        marks.mark(2, 1, 10);
        assert!(marks.is_dead(2, 1, 60));
    }

    #[test]
    fn entries_without_a_place_are_never_marked() {
        let marks = DeadMarks::new(2, 20);
        for (block, nth) in [(0, 64), (2, 0), (1, u32::MAX)] {
            marks.mark(block, nth, 5);
            assert!(!marks.is_dead(block, nth, 5), "{block}, {nth}");
        }
        let many = DeadMarks::new(2, 400);
        many.mark(1, 200, 5);
        assert!(many.is_dead(1, 200, 5) && !many.is_dead(0, 200, 5));
    }
}

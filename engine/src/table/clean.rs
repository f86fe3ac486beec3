//! Which blocks of a table have no version with a grave (N5).
//!
//! A walk asks the cemetery about every version that it shows, and where few are dead nearly always in vain. Two
//! things make the question unnecessary. The table's claim: what graves with d <= `buried_through` cover was left out
//! when it was written. And a look at the whole cemetery at sequence g: a block that none of its graves may
//! concern has no version that a grave with d <= g covers. Graves only leave, and those that come have d > g, so
//! this stays true for every reader for as long as the table lives. It is kept in memory only.

use crate::key::Seq;
use arc_swap::ArcSwapOption;

/// What one look found of a table.
#[derive(Debug)]
pub(crate) struct CleanBlocks {
    through: Seq,
    /// A bit for each block that a grave may concern; empty when there is none.
    hit: Vec<u64>,
    blocks: usize,
}

impl CleanBlocks {
    /// For a look at `through` at a table of so many blocks, none of which is hit yet.
    pub(crate) fn new(through: Seq, blocks: usize) -> Self {
        Self { through, hit: Vec::new(), blocks }
    }

    /// A grave may cover a version in these blocks.
    pub(crate) fn hit(&mut self, blocks: std::ops::Range<usize>) {
        if self.hit.is_empty() {
            self.hit.resize(self.blocks.div_ceil(64), 0);
        }
        for block in blocks {
            if let Some(word) = self.hit.get_mut(block / 64) {
                *word |= 1 << (block % 64);
            }
        }
    }

    fn is_hit(&self, block: usize) -> bool {
        self.hit.get(block / 64).is_some_and(|word| word >> (block % 64) & 1 == 1)
    }
}

/// The last look at one table.
#[derive(Debug, Default)]
pub(super) struct LastLook(ArcSwapOption<CleanBlocks>);

impl LastLook {
    pub(super) fn set(&self, found: CleanBlocks) {
        self.0.store(Some(found.into()));
    }

    /// No grave with d at or below covers a version of `block`; 0 when nothing is known.
    pub(super) fn through(&self, block: usize) -> Seq {
        let found = self.0.load();
        found.as_ref().filter(|found| !found.is_hit(block)).map_or(0, |found| found.through)
    }

    /// Bytes of memory.
    pub(super) fn memory_bytes(&self) -> usize {
        let words = self.0.load().as_ref().map_or(0, |found| found.hit.capacity());
        words * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_without_a_grave_are_clean_through_the_look() {
        let look = LastLook::default();
        assert_eq!((look.through(0), look.memory_bytes()), (0, 0), "nobody has looked");
        look.set(CleanBlocks::new(40, 130));
        assert_eq!((look.through(0), look.through(129), look.memory_bytes()), (40, 40, 0));
        let mut found = CleanBlocks::new(50, 130);
        found.hit(63..65);
        found.hit(129..130);
        look.set(found);
        let clean: Vec<usize> = (0..130).filter(|&block| look.through(block) == 50).collect();
        let expected: Vec<usize> = (0..63).chain(65..129).collect();
        assert_eq!(clean, expected);
        assert_eq!((look.through(64), look.through(129)), (0, 0));
    }
}

//! Where the records of a memtable lie, in the order in which they were written.
//!
//! For memtables whose records are not in one arena, front to back. Under the latch of its key a record is
//! written and its position added: so the versions of one key follow each other as their sequences do,
//! while those of different keys, which other threads write, may not.

use super::arena::Position;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// Positions of one block.
const BLOCK_POSITIONS: usize = 8192;
/// Blocks of one shelf, and shelves of a list: eight billion positions, whose records would fill 400 GB.
const SHELF_BLOCKS: usize = 1024;
const SHELVES: usize = 1024;

type Block = Box<[AtomicPtr<u8>]>;
type Shelf = Box<[OnceLock<Block>]>;

/// A list that grows without a lock, since each write adds to it: a place is taken by one addition. Below a length
/// taken at a barrier all of it can be read.
pub(super) struct Positions {
    shelves: Shelves,
    len: AtomicUsize,
}

type Shelves = Box<[OnceLock<Shelf>]>;

impl Default for Positions {
    fn default() -> Self {
        Self { shelves: empty(SHELVES), len: AtomicUsize::new(0) }
    }
}

impl Positions {
    /// Adds the positions of records, whose keys' latches are held.
    pub(super) fn add(&self, positions: &[Position]) {
        let first = self.len.fetch_add(positions.len(), Ordering::Relaxed);
        for (index, position) in (first..).zip(positions) {
            // The barrier before anybody reads it orders this.
            self.block(index)[index % BLOCK_POSITIONS].store(position.node(), Ordering::Relaxed);
        }
    }

    /// The block of a position, which is made by whoever comes first.
    fn block(&self, index: usize) -> &Block {
        let block = index / BLOCK_POSITIONS;
        let shelf = self.shelves[block / SHELF_BLOCKS].get_or_init(|| empty(SHELF_BLOCKS));
        shelf[block % SHELF_BLOCKS].get_or_init(empty_block)
    }

    /// How many there are. To be taken at a barrier by those who will read below it.
    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Memory of the list, in bytes.
    pub(super) fn held_bytes(&self) -> u64 {
        let blocks = self.len().div_ceil(BLOCK_POSITIONS);
        let shelves = SHELVES + blocks.div_ceil(SHELF_BLOCKS) * SHELF_BLOCKS;
        (blocks * size_of::<[*const u8; BLOCK_POSITIONS]>()
            + shelves * size_of::<OnceLock<Block>>()) as u64
    }

    /// Calls `f` with the positions from `from` to `to`, each with the one `ahead` places further on where
    /// there is one, until it answers false.
    pub(super) fn each(
        &self,
        (from, to): (usize, usize),
        ahead: usize,
        mut f: impl FnMut(Position, Option<Position>) -> bool,
    ) {
        let position = |index: usize| {
            let word = &self.block(index)[index % BLOCK_POSITIONS];
            Position::of_node(word.load(Ordering::Relaxed))
        };
        for index in from..to {
            let next = (index + ahead < to).then(|| position(index + ahead)).flatten();
            let Some(at) = position(index) else { continue };
            if !f(at, next) {
                return;
            }
        }
    }
}

fn empty<T>(count: usize) -> Box<[OnceLock<T>]> {
    (0..count).map(|_| OnceLock::new()).collect()
}

fn empty_block() -> Block {
    (0..BLOCK_POSITIONS).map(|_| AtomicPtr::new(ptr::null_mut())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_come_back_in_the_order_in_which_they_were_added() {
        let bytes = vec![0_u8; 3 * BLOCK_POSITIONS];
        let at = |index: usize| Position::at(&bytes[index]);
        let positions = Positions::default();
        positions.add(&[at(0)]);
        positions.add(&(1..bytes.len()).map(at).collect::<Vec<_>>());
        assert_eq!(positions.len(), bytes.len());
        let mut seen = Vec::new();
        let (from, to) = (BLOCK_POSITIONS - 2, 2 * BLOCK_POSITIONS + 1);
        positions.each((from, to), 3, |position, next| {
            assert_eq!(next, (seen.len() + 3 < to - from).then(|| at(from + seen.len() + 3)));
            seen.push(position);
            true
        });
        assert_eq!(seen, (from..to).map(at).collect::<Vec<_>>());
    }
}

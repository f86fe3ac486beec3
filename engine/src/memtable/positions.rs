//! Where the records of a memtable lie, in the order in which they were written.
//!
//! For memtables whose records are not in one arena, front to back. Under the latch of its key a record is
//! written and its position added: so the versions of one key follow each other as their sequences do,
//! while those of different keys, which other threads write, may not.

use super::arena::Position;
use parking_lot::Mutex;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Positions of one block.
const BLOCK_POSITIONS: usize = 8192;

type Block = Arc<[AtomicPtr<u8>]>;

/// A list that grows under a lock, and is read without one below a length taken at a barrier.
#[derive(Default)]
pub(super) struct Positions(Mutex<Blocks>);

#[derive(Default)]
struct Blocks {
    blocks: Vec<Block>,
    len: usize,
}

impl Positions {
    /// Adds the positions of records, whose keys' latches are held.
    pub(super) fn add(&self, positions: &[Position]) {
        let mut list = self.0.lock();
        for position in positions {
            let at = list.len % BLOCK_POSITIONS;
            if at == 0 {
                list.blocks.push(empty_block());
            }
            let block = list.blocks.last().expect("a block was just added at its start");
            // The barrier before anybody reads it orders this.
            block[at].store(position.node(), Ordering::Relaxed);
            list.len += 1;
        }
    }

    /// How many there are. To be taken at a barrier by those who will read below it.
    pub(super) fn len(&self) -> usize {
        self.0.lock().len
    }

    /// Memory of the list, in bytes.
    pub(super) fn held_bytes(&self) -> u64 {
        (self.0.lock().blocks.len() * BLOCK_POSITIONS * size_of::<*const u8>()) as u64
    }

    /// Calls `f` with the positions from `from` to `to`, each with the one `ahead` places further on where
    /// there is one, until it answers false.
    pub(super) fn each(
        &self,
        (from, to): (usize, usize),
        ahead: usize,
        mut f: impl FnMut(Position, Option<Position>) -> bool,
    ) {
        let blocks = self.0.lock().blocks.clone();
        let position = |index: usize| {
            let word = &blocks[index / BLOCK_POSITIONS][index % BLOCK_POSITIONS];
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

//! Putting the records of one commit into a skip list (`memtable = skiplist`).

use crate::memtable::{self, Memtable, Room};
use crate::store::tx::filler::Filler;
use std::cell::Cell;
use std::sync::Arc;

thread_local! {
    /// Memory for heights, which the thread's next commit uses again.
    static HEIGHTS: Cell<Vec<usize>> = const { Cell::new(Vec::new()) };
}

/// Records follow each other in the arena, with room for the links of each behind its header.
pub(in crate::store) struct Linked {
    memtable: Arc<Memtable>,
    /// Links of each operation's node.
    heights: Vec<usize>,
}

impl Linked {
    /// For the commit of a transaction whose records belong to this memtable.
    pub(in crate::store) fn new(memtable: Arc<Memtable>) -> Self {
        Self { memtable, heights: HEIGHTS.take() }
    }
}

impl Drop for Linked {
    fn drop(&mut self) {
        self.heights.clear();
        HEIGHTS.set(std::mem::take(&mut self.heights));
    }
}

impl Filler for Linked {
    fn bytes_beside(&mut self, have_records: impl Iterator<Item = bool>) -> usize {
        let height = |has_record| if has_record { memtable::random_height() } else { 0 };
        self.heights.extend(have_records.map(height));
        self.heights.iter().sum::<usize>() * memtable::LINK_BYTES
    }

    #[inline]
    fn fill(&self, room: &mut Room, record: &[u8], operation: usize) {
        let height = self.heights[operation];
        let node = room.split_to(record.len() + height * memtable::LINK_BYTES);
        self.memtable.link(node, record, height);
    }
}

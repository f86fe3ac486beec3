//! The records of a memtable that lie in persistent memory (`engine/DESIGN.md`, "Write-behind logging").

use super::arena::{Mark, Position};
use super::positions::Positions;
use sexton_persistence::pmem::{PmemArena, PmemPosition};
use std::sync::Arc;

/// Arenas of a pool, and where in them the memtable's records are. What the pool had no room for lies in
/// the memtable's own arena; its positions are here, too.
pub(crate) struct Pooled {
    /// Those of an earlier run first, to which nothing is added; the last one takes new records.
    arenas: Vec<Arc<PmemArena>>,
    pub(super) positions: Positions,
}

impl Pooled {
    /// Arenas of an earlier run, oldest first, and the one that takes new records.
    pub(super) fn new(mut recovered: Vec<Arc<PmemArena>>, active: Arc<PmemArena>) -> Self {
        recovered.push(active);
        Self { arenas: recovered, positions: Positions::default() }
    }

    /// The arena for new records.
    pub(crate) fn active(&self) -> &Arc<PmemArena> {
        self.arenas.last().expect("there is always one")
    }

    /// Adds records that were appended to its arenas. The latches of their keys are held.
    pub(crate) fn add(&self, records: &[PmemPosition]) {
        match records {
            [one] => self.positions.add(&[Position::at(one.address())]),
            several => {
                let positions = several.iter().map(|record| Position::at(record.address()));
                self.positions.add(&positions.collect::<Vec<_>>());
            }
        }
    }

    /// Adds records in the memtable's own arena, for which the pool had no room.
    pub(crate) fn add_spilled(&self, records: &[Position]) {
        self.positions.add(records);
    }

    /// Its end, as of a barrier. What writers have appended below it and still hold is copied first (`FORMAT.md` of
    /// persistence, M9).
    pub(super) fn mark(&self) -> Mark {
        self.active().pool().settle();
        Mark::of_count(self.positions.len())
    }

    /// Bytes of its arenas.
    #[must_use]
    pub(crate) fn used_bytes(&self) -> u64 {
        self.arenas.iter().map(|arena| arena.used_bytes()).sum()
    }

    /// Memory of the positions.
    #[must_use]
    pub(crate) fn held_bytes(&self) -> u64 {
        self.positions.held_bytes()
    }

    /// The arenas, to be erased when everything in them is in the tree (M7).
    #[must_use]
    pub(crate) fn arenas(&self) -> &[Arc<PmemArena>] {
        &self.arenas
    }
}

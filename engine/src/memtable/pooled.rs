//! The records of a memtable that are in persistent memory (`engine/DESIGN.md`, "Write-behind logging").
#![allow(unsafe_code)]

use super::arena::{Mark, Position};
use super::stretches::Stretches;
use sexton_persistence::pmem::{PmemArena, PmemPosition};
use std::sync::Arc;

/// Arenas of a pool, and where in them the memtable's records are. What the pool had no room for is in
/// the memtable's own arena; where, is here, too.
pub(crate) struct Pooled {
    /// Those of an earlier run first, to which nothing is added; the last one takes new records.
    arenas: Vec<Arc<PmemArena>>,
    pub(super) stretches: Stretches,
}

impl Pooled {
    /// Arenas of an earlier run, oldest first, and the one that takes new records.
    pub(super) fn new(mut recovered: Vec<Arc<PmemArena>>, active: Arc<PmemArena>) -> Self {
        recovered.push(active);
        Self { arenas: recovered, stretches: Stretches::default() }
    }

    /// The arena for new records.
    pub(crate) fn active(&self) -> &Arc<PmemArena> {
        self.arenas.last().expect("there is always one")
    }

    /// Adds `len` bytes of records that `writer` has appended to its list of versions, one behind the other. The latches
    /// of their keys are held.
    pub(crate) fn add(&self, writer: u16, first: PmemPosition, len: usize) {
        // SAFETY: the arena of the records is one of this memtable's and keeps them; a writer leaves nothing but zeros
        // between its batches (M1 of persistence); `mark` has all of it copied at the barrier.
        unsafe { self.stretches.add(Some(writer), Position::at(first.address()), len) };
    }

    /// Adds `len` bytes of records in the memtable's own arena, for which the pool had no room.
    pub(crate) fn add_spilled(&self, first: Position, len: usize) {
        // SAFETY: the memtable's own arena keeps them, and they were written before they came here.
        unsafe { self.stretches.add(None, first, len) };
    }

    /// Its end, as of a barrier. What writers have appended below it and still hold is copied first (M9).
    pub(super) fn mark(&self) -> Mark {
        self.active().pool().copy_pending();
        self.stretches.mark()
    }

    /// Bytes of its arenas.
    #[must_use]
    pub(crate) fn used_bytes(&self) -> u64 {
        self.arenas.iter().map(|arena| arena.used_bytes()).sum()
    }

    /// Memory of the list of its records.
    #[must_use]
    pub(crate) fn held_bytes(&self) -> u64 {
        self.stretches.held_bytes()
    }

    /// The arenas, to be erased when everything in them is in the tree (M7).
    #[must_use]
    pub(crate) fn arenas(&self) -> &[Arc<PmemArena>] {
        &self.arenas
    }
}

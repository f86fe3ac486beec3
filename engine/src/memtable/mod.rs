//! Memtables: put records in commit order in an arena; order comes on demand.
//!
//! A memtable has no index: keys changed in it are pinned in the DRAM table until it is sorted
//! (`engine/DESIGN.md`, "A write").

mod arena;
mod record;
mod run;

pub(crate) use arena::{Arena, ChunkPool, Cursor, Mark, Room};
pub(crate) use record::{HEADER_BYTES, encode, encoded_len, stamp};
pub(crate) use run::{Run, RunSource};

use crate::key::Seq;
use parking_lot::Mutex;
use std::sync::Arc;

/// An arena with its place in the order of memtables.
pub(crate) struct Memtable {
    arena: Arena,
    /// Stands in the DRAM entries changed while this memtable was active.
    pub(crate) generation: u8,
    /// Lowest sequence it can hold.
    pub(crate) first_seq: Seq,
    /// What scans have sorted of it so far.
    ordered: Mutex<Ordered>,
}

#[derive(Default)]
struct Ordered {
    runs: Vec<Arc<Run>>,
    upto: Mark,
}

/// With more sorted pieces than this the next scan sorts the whole memtable again.
const ORDERED_RUNS_MAX: usize = 8;

impl Memtable {
    /// An empty memtable.
    #[must_use]
    pub(crate) fn new(pool: Arc<ChunkPool>, generation: u8, first_seq: Seq) -> Arc<Self> {
        let ordered = Mutex::new(Ordered::default());
        Arc::new(Self { arena: Arena::new(pool), generation, first_seq, ordered })
    }

    /// Its memory.
    #[must_use]
    pub(crate) fn arena(&self) -> &Arena {
        &self.arena
    }

    /// Sorted runs that together hold everything below `upto`, a mark taken at a barrier. Sorts
    /// only what came since the last call.
    #[must_use]
    pub(crate) fn ordered_through(self: &Arc<Self>, upto: Mark) -> Vec<Arc<Run>> {
        let mut ordered = self.ordered.lock();
        if ordered.upto != upto {
            if ordered.runs.len() >= ORDERED_RUNS_MAX {
                *ordered = Ordered::default();
            }
            let run = Run::sort(Arc::clone(self), ordered.upto, upto);
            ordered.upto = upto;
            if !run.is_empty() {
                ordered.runs.push(Arc::new(run));
            }
        }
        ordered.runs.clone()
    }
}

#[cfg(test)]
mod tests;

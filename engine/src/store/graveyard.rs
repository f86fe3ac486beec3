//! What is dead and not gone yet: graves beyond the shards, dead namespaces, stretches proved dead, and when all of it
//! is to be gone.

use super::background::Background;
use super::deadline::Deadline;
use super::options::EngineOptions;
use super::proofs::Places;
use super::spill::Spill;
use super::sweep_turn::SweepTurn;
use crate::cemetery::DeadRuns;
use crate::key::{Seq, Slot};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A namespace that died and whose entries are still in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct DeadSlot {
    pub(super) slot: Slot,
    pub(super) id: u64,
    pub(super) d: Seq,
}

/// The dead of a store, but for the graves that the shards hold.
pub(super) struct Graveyard {
    /// Namespaces whose entries are still in memory.
    pub(super) dead_slots: Mutex<Vec<DeadSlot>>,
    /// Namespace ids that died and that files may still hold, each with its sequence (N7).
    pub(super) dead: Mutex<BTreeMap<u64, Seq>>,
    /// When deletes must be gone from every file (N17).
    pub(super) deadline: Deadline,
    /// The bound of the cemetery, and what lies beyond it.
    pub(super) spill: Spill,
    /// Where keys were deleted of late.
    pub(super) places: Places,
    /// Stretches of the key space in which nothing lives (N5).
    pub(super) dead_runs: Arc<DeadRuns>,
    /// Graves or tables changed since a burial was last looked for.
    pub(super) burial_wanted: AtomicBool,
    pub(super) sweep_turn: SweepTurn,
}

impl Graveyard {
    pub(super) fn new(options: &EngineOptions) -> Self {
        Self {
            dead_slots: Mutex::default(),
            dead: Mutex::default(),
            deadline: Deadline::new(options.delete_persist_ms),
            spill: Spill::new(options.cemetery_max_bytes, options.memory_bound_bytes),
            places: Places::default(),
            dead_runs: Arc::default(),
            burial_wanted: AtomicBool::new(true),
            sweep_turn: SweepTurn::default(),
        }
    }

    /// A grave was opened. Without puts no memtable ever fills, so graves are counted, too: their burial
    /// waits for the mark.
    pub(super) fn note_grave(&self, key_bytes: usize, background: &Background) {
        if self.spill.note_grave(key_bytes) {
            background.freeze_early();
        }
    }

    /// A namespace died at `d`.
    pub(super) fn note_dead(&self, slot: Slot, id: u64, d: Seq, background: &Background) {
        self.dead_slots.lock().push(DeadSlot { slot, id, d });
        self.dead.lock().insert(id, d);
        background.wake_flush();
    }

    /// A member of S is gone: what only it needed may go.
    pub(super) fn reader_left(&self, background: &Background) {
        self.burial_wanted.store(true, Ordering::Release);
        background.wake_compaction();
    }
}

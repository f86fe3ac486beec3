//! What is dead and not gone yet: graves beyond the shards, dead namespaces, stretches proved dead, and when all of it
//! is to be gone.

pub(in crate::store) mod collections;
pub(in crate::store) mod deadline;
pub(in crate::store) mod deadline_clock;
pub(in crate::store) mod grave_keys;
pub(in crate::store) mod places;
pub(in crate::store) mod proofs;
pub(in crate::store) mod spill;
pub(in crate::store) mod sweep;
pub(in crate::store) mod sweep_look;
pub(in crate::store) mod sweep_turn;

use crate::cemetery::{DeadRun, DeadRuns, ElementGraves, RUN_KEYS_MIN};
use crate::key::{EngineKey, Seq, Slot};
use crate::store::graveyard::collections::Collections;
use crate::store::graveyard::deadline_clock::Deadline;
use crate::store::graveyard::places::Places;
use crate::store::graveyard::spill::bound::Spill;
use crate::store::graveyard::sweep_turn::SweepTurn;
use crate::store::options::EngineOptions;
use crate::store::upkeep::signals::Background;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// A namespace that died and whose entries are still in memory.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct DeadSlot {
    pub(in crate::store) slot: Slot,
    pub(in crate::store) id: u64,
    pub(in crate::store) d: Seq,
}

/// The dead of a store, but for the graves that the shards hold.
pub(in crate::store) struct Graveyard {
    /// Namespaces whose entries are still in memory.
    pub(in crate::store) dead_slots: Mutex<Vec<DeadSlot>>,
    /// Databases emptied so far, and of how many of them no entry is left in memory.
    pub(in crate::store) emptied: AtomicU64,
    pub(in crate::store) emptied_swept: AtomicU64,
    /// Namespace ids that died and that files may still hold, each with its sequence (N7).
    pub(in crate::store) dead: Mutex<BTreeMap<u64, Seq>>,
    /// Graves of pages and collections (E4).
    pub(in crate::store) elements: ElementGraves,
    /// Names of collections.
    pub(in crate::store) collections: Collections,
    /// Pages of collections that are gone may be in memory.
    pub(in crate::store) has_dead_pages: AtomicBool,
    /// Held by who takes them out.
    pub(in crate::store) dead_pages_turn: Mutex<()>,
    /// Collections in pages that are gone, and of how many of them no page is left in memory.
    pub(in crate::store) gone: AtomicU64,
    pub(in crate::store) gone_swept: AtomicU64,
    /// About the bytes of data in memory of those that are not swept.
    pub(in crate::store) leaving_bytes: AtomicUsize,
    /// When deletes must be gone from every file (N17).
    pub(in crate::store) deadline: Deadline,
    /// The bound of the cemetery, and the graves beyond it.
    pub(in crate::store) spill: Spill,
    /// Where keys were deleted of late.
    pub(in crate::store) places: Places,
    /// Stretches of the key space in which nothing lives (N5).
    pub(in crate::store) dead_runs: Arc<DeadRuns>,
    /// Graves or tables changed since a burial was last looked for.
    pub(in crate::store) burial_wanted: AtomicBool,
    pub(in crate::store) sweep_turn: SweepTurn,
}

impl Graveyard {
    pub(in crate::store) fn new(options: &EngineOptions) -> Self {
        Self {
            dead_slots: Mutex::default(),
            emptied: AtomicU64::new(0),
            emptied_swept: AtomicU64::new(0),
            dead: Mutex::default(),
            elements: ElementGraves::default(),
            collections: Collections::default(),
            has_dead_pages: AtomicBool::new(false),
            dead_pages_turn: Mutex::default(),
            gone: AtomicU64::new(0),
            gone_swept: AtomicU64::new(0),
            leaving_bytes: AtomicUsize::new(0),
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
    pub(in crate::store) fn note_grave(&self, key_bytes: usize, background: &Background) {
        if self.spill.note_grave(key_bytes) {
            background.freeze_early();
        }
    }

    /// The collection of this prefix died at `d`, with about so many pages. All of them are dead then and stay so: with many
    /// pages that is a dead run without a walk (N5). So many bytes of data leave memory with it.
    /// To be called under the latch of its root, behind [`ShardPages::note_dead`](crate::store::pages::ShardPages::note_dead).
    pub(in crate::store) fn note_dead_pages(
        &self,
        prefix: &[u8],
        d: Seq,
        (pages, leaving_bytes): (u64, usize),
    ) {
        // Counted before the flag is set: whoever takes the flag finds the bytes here, and the pages once it has the latch.
        self.leaving_bytes.fetch_add(leaving_bytes, Ordering::AcqRel);
        self.gone.fetch_add(1, Ordering::AcqRel);
        self.has_dead_pages.store(true, Ordering::Release);
        if let Some(end) = EngineKey::end_of_prefix(prefix).filter(|_| pages >= RUN_KEYS_MIN) {
            let (from, to) = (prefix.into(), end.into());
            self.dead_runs.add(DeadRun { from, to, d, keys: pages });
        }
    }

    /// A namespace died at `d`.
    pub(in crate::store) fn note_dead(&self, slot: Slot, id: u64, d: Seq, background: &Background) {
        self.dead_slots.lock().push(DeadSlot { slot, id, d });
        self.emptied.fetch_add(1, Ordering::AcqRel);
        self.dead.lock().insert(id, d);
        background.wake_flush();
    }

    /// A member of S is gone: what only it needed may go.
    pub(in crate::store) fn reader_left(&self, background: &Background) {
        self.burial_wanted.store(true, Ordering::Release);
        background.wake_compaction();
    }
}

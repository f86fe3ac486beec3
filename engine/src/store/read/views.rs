//! What readers see (the superversion), and the set of readers (the members of S).

use crate::memtable::Memtable;
use crate::shared_value::Epoch;
use crate::store::flush::publication::Publication;
use crate::store::options::EngineOptions;
use crate::store::read::open_snapshots::Snapshots;
use crate::store::read::pins::Pins;
use crate::store::read::superversion::SuperVersion;
use crate::store::read::undo_bound::Undo;
use arc_swap::ArcSwap;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// The state that readers of a store share.
pub(in crate::store) struct Views {
    pub(in crate::store) superversion: ArcSwap<SuperVersion>,
    /// Address of its active memtable. It changes under all latches, so whoever holds one can tell whether a memtable
    /// that it has kept still is the active one, without the cost of a look at the superversion.
    pub(in crate::store) active_memtable: AtomicPtr<Memtable>,
    /// Number of the present epoch (E2).
    epoch: AtomicU64,
    /// Serialises changes of `superversion`.
    pub(in crate::store) superversion_change: Mutex<()>,
    pub(in crate::store) publication: Publication,
    pub(in crate::store) pins: Pins,
    pub(in crate::store) snapshots: Snapshots,
    pub(in crate::store) undo: Undo,
    /// Held while a checkpoint is made.
    pub(in crate::store) checkpoints: Mutex<()>,
}

impl Views {
    pub(in crate::store) fn new(superversion: SuperVersion, options: &EngineOptions) -> Self {
        Self {
            active_memtable: AtomicPtr::new(Arc::as_ptr(&superversion.active).cast_mut()),
            superversion: ArcSwap::from_pointee(superversion),
            epoch: AtomicU64::new(1),
            superversion_change: Mutex::new(()),
            publication: Publication::default(),
            pins: Pins::default(),
            snapshots: Snapshots::default(),
            undo: Undo::new(options.undo_max_bytes, options.undo_full),
            checkpoints: Mutex::new(()),
        }
    }

    /// The epoch in which blocks that are made now may be changed. Under a latch it stands still.
    pub(in crate::store) fn epoch(&self) -> Epoch {
        Epoch::new(self.epoch.load(Ordering::Relaxed))
    }

    /// Ends the epoch (E2): what the active memtable has now may be read from here on. All latches are held.
    pub(in crate::store) fn end_epoch(&self) {
        self.epoch.fetch_add(1, Ordering::Relaxed);
    }
}

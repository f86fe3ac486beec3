//! What readers look at, and who they are: the superversion, and the members of S.

use super::options::EngineOptions;
use super::pins::Pins;
use super::publication::Publication;
use super::snapshot::Snapshots;
use super::superversion::SuperVersion;
use super::undo::Undo;
use crate::memtable::Memtable;
use arc_swap::ArcSwap;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::AtomicPtr;

/// The state that readers of a store share.
pub(super) struct Views {
    pub(super) superversion: ArcSwap<SuperVersion>,
    /// Address of its active memtable. It changes under all latches, so whoever holds one can tell whether a memtable
    /// that it has kept still is the active one, without the cost of a look at the superversion.
    pub(super) active_memtable: AtomicPtr<Memtable>,
    /// Serialises changes of `superversion`.
    pub(super) superversion_change: Mutex<()>,
    pub(super) publication: Publication,
    pub(super) pins: Pins,
    pub(super) snapshots: Snapshots,
    pub(super) undo: Undo,
    /// Held while a checkpoint is made.
    pub(super) checkpoints: Mutex<()>,
}

impl Views {
    pub(super) fn new(superversion: SuperVersion, options: &EngineOptions) -> Self {
        Self {
            active_memtable: AtomicPtr::new(Arc::as_ptr(&superversion.active).cast_mut()),
            superversion: ArcSwap::from_pointee(superversion),
            superversion_change: Mutex::new(()),
            publication: Publication::default(),
            pins: Pins::default(),
            snapshots: Snapshots::default(),
            undo: Undo::new(options.undo_max_bytes, options.undo_full),
            checkpoints: Mutex::new(()),
        }
    }
}

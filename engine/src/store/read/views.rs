//! What readers look at, and who they are: the superversion, and the members of S.

use crate::memtable::Memtable;
use crate::store::flush::publication::Publication;
use crate::store::options::EngineOptions;
use crate::store::read::open_snapshots::Snapshots;
use crate::store::read::pins::Pins;
use crate::store::read::superversion::SuperVersion;
use crate::store::read::undo_bound::Undo;
use arc_swap::ArcSwap;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::AtomicPtr;

/// The state that readers of a store share.
pub(in crate::store) struct Views {
    pub(in crate::store) superversion: ArcSwap<SuperVersion>,
    /// Address of its active memtable. It changes under all latches, so whoever holds one can tell whether a memtable
    /// that it has kept still is the active one, without the cost of a look at the superversion.
    pub(in crate::store) active_memtable: AtomicPtr<Memtable>,
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
            superversion_change: Mutex::new(()),
            publication: Publication::default(),
            pins: Pins::default(),
            snapshots: Snapshots::default(),
            undo: Undo::new(options.undo_max_bytes, options.undo_full),
            checkpoints: Mutex::new(()),
        }
    }
}

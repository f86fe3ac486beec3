//! How many bytes of undo runs there may be (N6), and what happens there.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// What happens at `undo-max-bytes`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum UndoFull {
    /// No more snapshots are opened; what the open ones need stays in the tree, as without undo runs.
    #[default]
    RefuseSnapshots = 0,
    /// The oldest snapshots end, until the rest fits.
    ExpireOldest = 1,
}

/// Bounds and figures of the undo runs.
#[derive(Default)]
pub(in crate::store) struct Undo {
    /// 0 for no bound.
    pub(super) max_bytes: AtomicU64,
    pub(super) full: AtomicU8,
    pub(in crate::store) written_bytes: AtomicU64,
}

impl Undo {
    pub(in crate::store) fn new(max_bytes: u64, full: UndoFull) -> Self {
        let (max_bytes, full) = (AtomicU64::new(max_bytes), AtomicU8::new(full as u8));
        Self { max_bytes, full, written_bytes: AtomicU64::new(0) }
    }

    pub(super) fn max_bytes(&self) -> u64 {
        self.max_bytes.load(Ordering::Relaxed)
    }

    pub(super) fn refuses(&self) -> bool {
        self.full.load(Ordering::Relaxed) == UndoFull::RefuseSnapshots as u8
    }
}

//! The list of the snapshots that are open: what the store knows of each, without holding it.

use crate::error::EngineError;
use crate::key::Seq;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// What is known of an open snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// Rises with each snapshot of a run.
    pub id: u64,
    /// As it was opened.
    pub name: String,
    /// The last sequence it sees.
    pub seq: Seq,
    /// Time since it was opened, in milliseconds.
    pub age_ms: u64,
    /// Its timeout in milliseconds; 0 for none.
    pub timeout_ms: u64,
    /// Bytes of the undo runs that stay for it, if for others too.
    pub held_bytes: u64,
}

/// An open snapshot, as the list knows it.
pub(in crate::store) trait OpenSnapshot: Send + Sync {
    /// The last sequence it sees.
    fn seq(&self) -> Seq;
    /// True when it has ended by itself.
    fn has_ended(&self) -> bool;
    /// True when its time is over.
    fn is_over(&self) -> bool;
    /// Takes the sequence out of S. Reads that have begun keep it there until they end. `expired_at_bytes`: the bound of
    /// the undo runs for which it ends; 0 when it does not.
    fn end(&self, expired_at_bytes: u64);
    /// What lists say of it.
    fn info(&self) -> SnapshotInfo;
}

/// The open snapshots of a store.
#[derive(Default)]
pub(in crate::store) struct Snapshots {
    /// `None` for one that is being opened.
    open: Mutex<BTreeMap<u64, Option<Weak<dyn OpenSnapshot>>>>,
    next_id: AtomicU64,
    refused: AtomicU64,
    pub(in crate::store) ended: AtomicU64,
}

impl Snapshots {
    /// Takes the place of one more, and answers its id.
    ///
    /// # Errors
    /// [`EngineError::SnapshotRefused`] when `max` are open.
    pub(super) fn take_place(&self, max: usize) -> Result<u64, EngineError> {
        let mut open = self.open.lock();
        if open.len() >= max {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return Err(EngineError::SnapshotRefused { open: open.len(), max });
        }
        let id = self.next_id.fetch_add(1, Ordering::Relaxed) + 1;
        open.insert(id, None);
        Ok(id)
    }

    /// The snapshot of the place `id`.
    pub(super) fn opened(&self, id: u64, snapshot: Weak<dyn OpenSnapshot>) {
        self.open.lock().insert(id, Some(snapshot));
    }

    /// It is released.
    pub(super) fn remove(&self, id: u64) {
        self.open.lock().remove(&id);
    }

    /// The open ones, oldest first.
    pub(super) fn all(&self) -> Vec<Arc<dyn OpenSnapshot>> {
        // Collected under the lock and dropped outside it: the last reference takes the lock again.
        self.open.lock().values().flatten().filter_map(Weak::upgrade).collect()
    }

    pub(in crate::store) fn len(&self) -> usize {
        self.open.lock().len()
    }

    /// How many were refused since the start.
    pub(in crate::store) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

//! The past on its own (N6): when versions go to undo runs, how many bytes of them there may be, and
//! when a run goes.

use crate::store::engine::{Engine, EngineError};
use crate::store::read::undo_bound::UndoFull;
use crate::store::read::view::ReaderGraves;
use crate::tree::{self, CompactionContext, VersionEdit};
use std::sync::atomic::Ordering;

/// Name of the undo runs' directory in the data directory.
pub const UNDO_DIR: &str = "undo";

/// With more undo runs than this they are merged into one, when nothing else is to do.
pub(in crate::store) const RUNS_MAX: usize = 8;

/// With more than this, before anything else: each is one more place for a reader to look.
pub(in crate::store) const RUNS_FAR_TOO_MANY: usize = 32;

impl Engine {
    /// Changes the bound of the undo runs, in bytes (0 for none), and what happens there.
    pub fn set_undo_bound(&self, max_bytes: u64, full: UndoFull) {
        let undo = &self.inner().views.undo;
        undo.max_bytes.store(max_bytes, Ordering::Relaxed);
        undo.full.store(full as u8, Ordering::Relaxed);
    }

    /// Bytes of the undo runs that new readers may need.
    pub(in crate::store) fn undo_bytes(&self) -> u64 {
        let version = self.inner().versions.current();
        version.undo_runs().iter().map(|run| run.table.file_bytes()).sum()
    }

    /// True when the undo runs have reached their bound.
    fn undo_is_full(&self) -> bool {
        let max = self.inner().views.undo.max_bytes();
        max != 0 && self.undo_bytes() >= max
    }

    /// # Errors
    /// Snapshots are refused while the undo runs are full.
    pub(in crate::store) fn check_undo_room(&self) -> Result<(), EngineError> {
        let undo = &self.inner().views.undo;
        if undo.refuses() && self.undo_is_full() {
            let (bytes, max_bytes) = (self.undo_bytes(), undo.max_bytes());
            return Err(EngineError::UndoFull { bytes, max_bytes });
        }
        Ok(())
    }

    /// True when a merge that starts now has two outputs.
    pub(in crate::store) fn separates(&self) -> bool {
        let inner = self.inner();
        inner.versions.has_undo_place()
            && inner.dead_keys.has_cemetery()
            && !(inner.views.undo.refuses() && self.undo_is_full())
    }

    /// Counts what an installed edit brought, and keeps the bound.
    pub(in crate::store) fn note_undo(&self, edit: &VersionEdit) {
        let inner = self.inner();
        let bytes: u64 = edit.undo_added().iter().map(|run| run.table.file_bytes()).sum();
        if bytes == 0 {
            return;
        }
        inner.views.undo.written_bytes.fetch_add(bytes, Ordering::Relaxed);
        while !inner.views.undo.refuses()
            && self.undo_is_full()
            && self.end_oldest_snapshot(inner.views.undo.max_bytes())
        {
            self.forget_undo_runs();
        }
    }

    /// Drops the undo runs of which no reader at or below their last sequence is left. Current readers
    /// still hold them in their superversions. True when some were dropped.
    pub(in crate::store) fn forget_undo_runs(&self) -> bool {
        let inner = self.inner();
        let version = inner.versions.current();
        if version.undo_runs().is_empty() {
            return false;
        }
        // Whoever comes later is above all of them: a run is made for readers below its merge's `now`.
        let oldest = inner.views.pins.sequences().first().copied();
        let mut edit = VersionEdit::new();
        for run in version.undo_runs() {
            if oldest.is_none_or(|oldest| run.through < oldest) {
                edit.delete_undo(run.table.number());
            }
        }
        if edit.undo_deleted().is_empty() || inner.versions.apply_undo(&edit).is_err() {
            return false;
        }
        self.publish_tables(|_| {});
        true
    }

    /// Merges the undo runs when there are more than `bound`; false when nothing was done.
    pub(in crate::store) fn merge_undo_runs(&self, bound: usize) -> Result<bool, EngineError> {
        let inner = self.inner();
        let runs = inner.versions.current().undo_runs().to_vec();
        if runs.len() <= bound {
            return Ok(false);
        }
        let snapshots = inner.views.pins.sequences();
        if snapshots.is_empty() {
            return Ok(false);
        }
        let graves = ReaderGraves::new(self, self.has_graves());
        let context = CompactionContext {
            versions: &inner.versions,
            snapshots: &snapshots,
            graves: &graves,
            dead_ids: &[],
            stop: inner.upkeep.background.stop_flag(),
            threads: 1,
            limiter: None,
            separates: true,
            sync: false,
        };
        let edit = tree::merge_undo(&runs, &context)?;
        inner.versions.apply_undo(&edit)?;
        self.publish_tables(|_| {});
        Ok(true)
    }
}

//! Graves beyond `cemetery-max-memory`: spilled to grave runs by the flush that seals them.
//!
//! A spill is part of a flush: the graves at or below its mark m are written to a run that the manifest edit of m
//! names, and the checkpoint of m omits them (N1, D2). A run holds only what the mark has passed, so
//! whatever uses it is durable (D1). Deleting faster than flushes spill is throttled, never refused.

pub(in crate::store) mod bound;
mod run_writer;
mod upkeep;

use crate::cemetery::Grave;
use crate::key::Seq;
use crate::store::engine::{Engine, EngineError};
use crate::store::graveyard::grave_keys::GraveKeys;
use crate::tree::GraveFile;
use run_writer::RunWriter;
use std::sync::atomic::Ordering;

fn bytes_of(files: &[GraveFile]) -> u64 {
    files.iter().map(|file| file.table.file_bytes()).sum()
}

impl Engine {
    /// Changes the bound of the graves in memory (`CONFIG SET cemetery-max-memory`), in bytes; 0 for none. What is above
    /// it is spilled by the next flush, which this asks for if there is anything to flush.
    pub fn set_cemetery_bound(&self, bytes: u64) {
        let inner = self.inner();
        if inner.graveyard.spill.max_bytes.swap(bytes, Ordering::Relaxed) != bytes {
            inner.upkeep.background.freeze_early();
        }
    }

    /// With the flush of the mark `m`: the graves at or below it as a run, when there is need. Those that
    /// F1 lets go at m, and those in limbo (F3), need no run.
    pub(in crate::store) fn write_spill(
        &self,
        m: Seq,
        sync: bool,
    ) -> Result<Vec<GraveFile>, EngineError> {
        let inner = self.inner();
        let has_cemetery = inner.dead_keys.has_cemetery();
        if !has_cemetery || !inner.graveyard.spill.is_wanted(self.cemetery_bytes()) {
            return Ok(Vec::new());
        }
        let snapshots = self.snapshots_through(m);
        // With a deadline closed graves stay, too, until what they killed is gone (N17).
        let has_deadline = inner.graveyard.deadline.is_set();
        let is_needed = |grave: &Grave| {
            grave.is_sealed_through(m) && (has_deadline || !grave.may_go_closed(m, m, &snapshots))
        };
        let mut graves = GraveKeys::default();
        for shard in &inner.shards {
            if shard.graves.load(Ordering::Acquire) > 0 {
                // None of them goes meanwhile: this thread lets them go, or the sweep of a dead database.
                graves.add_from(shard, is_needed);
            }
        }
        for (key, d) in inner.graveyard.elements.copies(is_needed) {
            graves.add(&key, d);
        }
        let mut run = RunWriter::new(self, sync);
        for (key, d) in graves.sorted() {
            run.add(key, d)?;
        }
        let files = run.finish()?;
        inner.graveyard.spill.spilled_bytes.fetch_add(bytes_of(&files), Ordering::Relaxed);
        Ok(files)
    }

    /// The manifest names the run of mark `m`: readers can find it, so its graves leave memory. Graves
    /// that were not written were dropped by F1, which still holds: every new reader is above m.
    pub(in crate::store) fn end_spill(&self, files: &[GraveFile], m: Seq) {
        let inner = self.inner();
        if files.is_empty() {
            return;
        }
        inner.graveyard.spill.runs.change(files, &[], 0);
        inner.graveyard.elements.retain(|grave| !grave.is_sealed_through(m));
        for shard in &inner.shards {
            if shard.graves.load(Ordering::Acquire) > 0 {
                let mut state = shard.latch();
                state.graves.retain(|_, grave| !grave.is_sealed_through(m));
                shard.graves.store(state.graves.len(), Ordering::Release);
            }
        }
    }

    /// True when burial should free graves although few are to be had: filters and indexes of runs, which no spill
    /// makes smaller, take half of the bound.
    pub(in crate::store) fn cemetery_is_pressed(&self) -> bool {
        let spill = &self.inner().graveyard.spill;
        let max = spill.max_bytes();
        max != 0 && spill.runs.load().figures().memory_bytes > max / 2
    }

    /// Memory of the graves that are not spilled.
    pub(in crate::store) fn cemetery_bytes(&self) -> u64 {
        let inner = self.inner();
        let shards = inner.shards.iter().map(|shard| shard.latch().graves.bytes());
        (shards.sum::<usize>() + inner.graveyard.elements.bytes()) as u64
    }
}

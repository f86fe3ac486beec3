//! What becomes of grave runs: those that F2 lets go leave, those of like size become one.

use super::bytes_of;
use super::run_writer::RunWriter;
use crate::cemetery::RunList;
use crate::store::engine::{Engine, EngineError};
use crate::store::graveyard::sweep_look::SweepLook;
use crate::table::{ReadMode, TableError};
use crate::tree::{GraveFile, KeepRule, LevelIter, MergeIter, NoGraves, Source, VersionEdit};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Graves between two looks at the stop flag.
const CHECK_GRAVES: u64 = 4096;

impl Engine {
    /// Retires files of runs whose graves are all buried, and merges runs; true when something was done.
    pub(crate) fn maintain_grave_runs(&self) -> Result<bool, EngineError> {
        let inner = self.inner();
        let runs = &inner.graveyard.spill.runs;
        if runs.is_empty() {
            return Ok(false);
        }
        let Some(_tending) = inner.graveyard.spill.tending.try_lock() else { return Ok(false) };
        let look = SweepLook::new(self);
        runs.end_limbo(look.oldest_reader);
        let list = runs.load();
        let past: Vec<u64> = list
            .in_use()
            .filter(|file| look.is_past_all_of(&file.table))
            .map(|file| file.table.number())
            .collect();
        if !past.is_empty() {
            self.replace_graves(&look, &past, &[])?;
            return Ok(true);
        }
        let inputs = list.pick_merge();
        if !inputs.is_empty() {
            self.merge_graves(&look, &inputs)?;
            return Ok(true);
        }
        if inner.graveyard.spill.scrub_wanted.swap(false, Ordering::AcqRel) {
            return self.scrub_grave_runs(&look, &list);
        }
        Ok(false)
    }

    /// Takes files of runs out of the manifest, and adds others. Everything that made them unnecessary
    /// is in the manifest already (D4).
    fn replace_graves(
        &self,
        look: &SweepLook,
        gone: &[u64],
        added: &[GraveFile],
    ) -> Result<(), EngineError> {
        let inner = self.inner();
        let mut edit = VersionEdit::new();
        gone.iter().for_each(|&number| edit.delete_graves(number));
        added.iter().for_each(|file| edit.add_graves(file.clone()));
        inner.versions.apply(&edit)?;
        inner.graveyard.spill.runs.change(added, gone, look.superversion.number);
        inner.graveyard.deadline.has_traces.store(true, Ordering::Release);
        Ok(())
    }

    /// Merges files of runs into a run without the graves that are buried (F2), those that no member of
    /// S has for its D (F4), and those of dead namespaces (N7). Answers whether there were such.
    ///
    /// F4 is C2 for graves: d is kept exactly if it is the newest at or below some s. All are at or
    /// below the mark, which is a member of S.
    fn merge_graves(&self, look: &SweepLook, inputs: &[GraveFile]) -> Result<bool, EngineError> {
        let inner = self.inner();
        let now = inner.flusher.mark.load(Ordering::Acquire);
        let snapshots = self.snapshots_through(now);
        let dead = self.droppable_ids(now);
        let mut rule = KeepRule::new(&snapshots, &NoGraves).with_dead_ids(&dead);
        let sources = inputs
            .iter()
            .map(|file| LevelIter::new(Arc::from([Arc::clone(&file.table)]), ReadMode::Sequential));
        let mut input = MergeIter::new(sources.collect());
        let syncs_tables = inner.flusher.syncs_tables.read();
        let mut output = RunWriter::new(self, *syncs_tables);
        let mut read = 0u64;
        input.seek(b"")?;
        while input.valid() {
            read += 1;
            if read.is_multiple_of(CHECK_GRAVES)
                && inner.upkeep.background.stop_flag().load(Ordering::Relaxed)
            {
                return Err(TableError::Cancelled.into());
            }
            let (key, d) = (input.key(), input.seq());
            if rule.keeps(key, d)? && !look.is_buried(key, d) {
                output.add(key, d)?;
            }
            input.next()?;
        }
        let dropped = output.graves < read;
        // A single file that nothing leaves is as good as before.
        if dropped || inputs.len() > 1 {
            let files = output.finish()?;
            inner.graveyard.spill.merged_bytes.fetch_add(bytes_of(&files), Ordering::Relaxed);
            let gone: Vec<u64> = inputs.iter().map(|file| file.table.number()).collect();
            self.replace_graves(look, &gone, &files)?;
        }
        Ok(dropped)
    }

    /// Rewrites the files of runs that name deletes older than the deadline allows, without what is
    /// buried (N17).
    fn scrub_grave_runs(&self, look: &SweepLook, list: &RunList) -> Result<bool, EngineError> {
        let overdue = self.inner().graveyard.deadline.overdue();
        let mut any = false;
        for file in list.in_use().filter(|file| file.table.properties().min_seq <= overdue) {
            any |= self.merge_graves(look, std::slice::from_ref(file))?;
        }
        Ok(any)
    }
}

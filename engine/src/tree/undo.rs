//! Undo runs (N6): versions that only readers of the past need, apart from the tree.
//!
//! An undo run is a table like those of the tree. It is part of a [`Version`](super::Version), so that it appears
//! in the step that removes its versions from the tree, but not of the manifest: snapshots end
//! with the process, and the next start wipes what is left.

use super::context::CompactionContext;
use super::drop_rule::{Fate, KeepRule};
use super::edit::VersionEdit;
use super::files::TableWriter;
use super::merge::MergeIter;
use super::undo_run::UndoRun;
use super::version_set::VersionSet;
use crate::key::{Meta, Seq};
use crate::source::Source;
use crate::table::{TableError, TableResult};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Collects the second output of C2.
#[derive(Debug)]
pub struct UndoWriter<'a> {
    versions: &'a VersionSet,
    writer: Option<TableWriter>,
    through: Seq,
}

impl<'a> UndoWriter<'a> {
    /// For versions of the tree of `versions`; no file is made before the first one comes.
    #[must_use]
    pub fn new(versions: &'a VersionSet) -> Self {
        Self { versions, writer: None, through: 0 }
    }

    /// Adds a version that the reader at `through` is the youngest to need. In the tree's order.
    ///
    /// # Errors
    /// A failing medium.
    pub fn add(
        &mut self,
        key: &[u8],
        seq: Seq,
        meta: Meta,
        value: &[u8],
        through: Seq,
    ) -> TableResult<()> {
        let writer = match &mut self.writer {
            Some(writer) => writer,
            None => self.writer.insert(self.versions.new_undo_table()?),
        };
        self.through = self.through.max(through);
        writer.add(key, seq, meta, value)
    }

    /// Ends the run, if there is anything in it. `oldest_reader` is min(S) as collected at the start: the
    /// claim of an undo run, whatever the tree's output claims.
    ///
    /// # Errors
    /// A failing medium.
    pub fn finish(self, oldest_reader: Seq) -> TableResult<Option<UndoRun>> {
        let Some(writer) = self.writer else { return Ok(None) };
        // It need not survive a crash, so nothing is synced.
        let table = writer.finish(oldest_reader, false)?;
        Ok(Some(UndoRun { table, through: self.through }))
    }
}

/// Merges undo runs into one that holds what the readers of `context` still need: an edit to apply.
///
/// # Errors
/// A failing medium, a damaged run, or the stop flag.
pub fn merge_undo(runs: &[UndoRun], context: &CompactionContext<'_>) -> TableResult<VersionEdit> {
    let mut edit = VersionEdit::new();
    let through = runs.iter().map(|run| run.through).max().unwrap_or(0);
    let readers = &context.snapshots[..context.snapshots.partition_point(|&s| s <= through)];
    let sources = runs.iter().map(|run| {
        edit.delete_undo(run.table.number());
        context.versions.merge_input(Arc::from([Arc::clone(&run.table)]), runs.len())
    });
    let mut input = MergeIter::new(sources.collect());
    let mut rule = KeepRule::new(readers, context.graves).of_undo();
    let mut output = UndoWriter::new(context.versions);
    input.seek(b"")?;
    while input.valid() {
        if context.stop.load(Ordering::Relaxed) {
            return Err(TableError::Cancelled);
        }
        let seq = input.seq();
        if let Fate::Undo(through) = rule.fate(input.key(), seq)? {
            input.load_value()?;
            output.add(input.key(), seq, input.meta(), input.value(), through)?;
        }
        input.next()?;
    }
    let oldest = context.snapshots.first().copied().unwrap_or(0);
    if let Some(run) = output.finish(oldest)? {
        edit.add_undo(run);
    }
    Ok(edit)
}

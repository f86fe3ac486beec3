//! Running a compaction: merge the inputs, keep what C2 keeps, write new tables.

use super::drop_rule::{Graves, KeepRule};
use super::edit::VersionEdit;
use super::level_iter::LevelIter;
use super::merge::MergeIter;
use super::pick::Job;
use super::source::Source;
use super::tombstone::TombstoneRule;
use super::version_set::{TableWriter, VersionSet};
use crate::key::Seq;
use crate::table::{ReadMode, TableError, TableResult};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Versions merged between two looks at the stop flag.
const STOP_CHECK_ENTRIES: u64 = 4096;

/// What a compaction works with. `now` was read first, then S was collected (C1).
pub struct CompactionContext<'a> {
    /// Where new tables are made.
    pub versions: &'a VersionSet,
    /// S, ascending; its last member is `now`.
    pub snapshots: &'a [Seq],
    /// The cemetery.
    pub graves: &'a dyn Graves,
    /// Dead namespace ids with the sequences of their deaths (N7).
    pub dead_ids: &'a [(u64, Seq)],
    /// Set to make the compaction return [`TableError::Cancelled`].
    pub stop: &'a AtomicBool,
    /// Whether new tables are synced; not for a store that is wiped at start (N3).
    pub sync: bool,
}

impl std::fmt::Debug for CompactionContext<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CompactionContext")
            .field("snapshots", &self.snapshots)
            .finish_non_exhaustive()
    }
}

/// The result of a compaction, not installed. Dropped, it takes its tables along.
#[derive(Debug)]
pub struct Outcome {
    /// The edit to apply when [`Outcome::needs_durable`] is durable.
    pub edit: VersionEdit,
    /// Largest sequence of a version written.
    pub max_seq_written: Seq,
    /// Largest sequence of a grave or death that made a version go.
    pub max_grave_used: Seq,
    /// `now` of the merge: the claims of the outputs do not go above it.
    pub now: Seq,
    /// Versions read and versions written.
    pub entries_in_out: (u64, u64),
    /// Bytes of files read and written.
    pub bytes_in_out: (u64, u64),
}

impl Outcome {
    /// D1: the edit may be applied once `durable` is at or above this.
    #[must_use]
    pub fn needs_durable(&self) -> Seq {
        self.max_seq_written.max(self.max_grave_used).max(self.now)
    }
}

/// Runs `job` and answers what to install.
///
/// Inputs stay untouched and current until the edit is applied. The outputs claim
/// `buried_through` = min(S) (C3); moved tables keep their own.
///
/// # Errors
/// A failing medium, a damaged input, or the stop flag. Tables written so far are removed.
pub fn compact(job: &Job, context: &CompactionContext<'_>) -> TableResult<Outcome> {
    compact_with_expiry_mark(job, context, 0)
}

/// As [`compact`], dropping expiry index records due at or before the durable mark
/// `expiry_mark_ms` (N11); 0 drops none.
///
/// # Errors
/// As for [`compact`].
pub fn compact_with_expiry_mark(
    job: &Job,
    context: &CompactionContext<'_>,
    expiry_mark_ms: u64,
) -> TableResult<Outcome> {
    let now = context.snapshots.last().copied().unwrap_or(0);
    let mut outcome = Outcome {
        edit: VersionEdit::new(),
        max_seq_written: 0,
        max_grave_used: 0,
        now,
        entries_in_out: (0, 0),
        bytes_in_out: (0, 0),
    };
    for (level, table) in job.tables() {
        outcome.edit.delete(level, table.number());
        if job.is_move {
            outcome.edit.add(job.output_level, Arc::clone(table));
        }
    }
    if job.is_move {
        // Nothing is written and no grave is used: the inputs are durable already.
        outcome.now = 0;
        return Ok(outcome);
    }
    outcome.bytes_in_out.0 = job.input_bytes();
    merge(job, context, expiry_mark_ms, &mut outcome)?;
    Ok(outcome)
}

fn merge(
    job: &Job,
    context: &CompactionContext<'_>,
    expiry_mark_ms: u64,
    outcome: &mut Outcome,
) -> TableResult<()> {
    let Some((min, max)) = job.key_range() else { return Ok(()) };
    let common = min.iter().zip(max).take_while(|(a, b)| a == b).count();
    let common = &min[..common];
    let mut sources = Vec::new();
    for (level, tables) in &job.inputs {
        if *level == 0 {
            let each = tables.iter().map(|table| Arc::from([Arc::clone(table)]));
            sources.extend(each.map(|one| LevelIter::new(one, ReadMode::Sequential)));
        } else {
            sources.push(LevelIter::new(tables.as_slice().into(), ReadMode::Sequential));
        }
    }
    let mut input = MergeIter::with_common_prefix(sources, common);
    let mut rule = KeepRule::new(context.snapshots, context.graves)
        .with_dead_ids(context.dead_ids)
        .with_expiry_mark(expiry_mark_ms);
    let version = context.versions.current();
    let mut below = TombstoneRule::new(&version, job.output_level, rule.buried_through());
    let mut writer: Option<TableWriter> = None;
    let mut last_key = Vec::new();
    let (mut read, mut written) = (0u64, 0u64);
    input.seek(b"")?;
    while input.valid() {
        read += 1;
        if read.is_multiple_of(STOP_CHECK_ENTRIES) && context.stop.load(Ordering::Relaxed) {
            return Err(TableError::Cancelled);
        }
        let (key, seq) = (input.key(), input.seq());
        if rule.keeps(key, seq) && !(input.meta().is_tombstone() && below.allows(key, seq)) {
            // A key never straddles two tables of a level.
            let full = writer.as_ref().is_some_and(|w| w.data_bytes() >= job.output_bytes);
            if full && key != last_key {
                close(&mut writer, job, context, &rule, outcome)?;
            }
            let open = match &mut writer {
                Some(open) => open,
                None => writer.insert(context.versions.new_table(job.output_level)?),
            };
            open.add(key, seq, input.meta(), input.value())?;
            if open.data_bytes() >= job.output_bytes {
                last_key.clear();
                last_key.extend_from_slice(key);
            }
            outcome.max_seq_written = outcome.max_seq_written.max(seq);
            written += 1;
        }
        input.next()?;
    }
    close(&mut writer, job, context, &rule, outcome)?;
    outcome.entries_in_out = (read, written);
    outcome.max_grave_used = rule.max_grave_used().max(below.max_dropped);
    Ok(())
}

fn close(
    writer: &mut Option<TableWriter>,
    job: &Job,
    context: &CompactionContext<'_>,
    rule: &KeepRule<'_>,
    outcome: &mut Outcome,
) -> TableResult<()> {
    if let Some(writer) = writer.take() {
        let table = writer.finish(rule.buried_through(), context.sync)?;
        outcome.bytes_in_out.1 += table.file_bytes();
        outcome.edit.add(job.output_level, table);
    }
    Ok(())
}

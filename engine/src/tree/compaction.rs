//! Running a compaction: merge the inputs, keep what C2 keeps, write new tables.

use super::context::CompactionContext;
use super::drop_rule::{Fate, IndexDrops, KeepRule};
use super::edit::VersionEdit;
use super::files::TableWriter;
use super::level_iter::LevelIter;
use super::merge::MergeIter;
use super::pick::Job;
use super::tombstone::TombstoneRule;
use super::undo::UndoWriter;
use super::undo_run::UndoRun;
use super::version_set::VersionSet;
use crate::key::Seq;
use crate::source::Source;
use crate::table::{Table, TableError, TableResult};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Versions merged between two looks at the stop flag and the rate limit.
const CHECK_ENTRIES: u64 = 4096;

/// Sampled keys of a table for each piece a merge is cut into.
const SAMPLES: usize = 8;

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
    compact_with_index_drops(job, context, IndexDrops::default())
}

/// As [`compact`], also dropping the expiry index records that `drops` names (N11, N17).
///
/// # Errors
/// As for [`compact`].
pub fn compact_with_index_drops(
    job: &Job,
    context: &CompactionContext<'_>,
    drops: IndexDrops,
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
    let is_move = context.versions.is_mere_move(job);
    for (level, table) in job.tables() {
        outcome.edit.delete(level, table.number());
        if is_move {
            outcome.edit.add(job.output_level, Arc::clone(table));
        }
    }
    if job.dead_through > 0 {
        // C2 would keep nothing: no member of S is below the graves. They count as used (D1).
        debug_assert!(context.snapshots.first().is_some_and(|&s| s >= job.dead_through));
        outcome.max_grave_used = job.dead_through;
        return Ok(outcome);
    }
    if is_move {
        // Nothing is written and no grave is used: the inputs are durable already.
        outcome.now = 0;
        return Ok(outcome);
    }
    outcome.bytes_in_out.0 = job.input_bytes();
    let cuts = split_keys(job, context.threads);
    let range = |i: usize| {
        let from = if i == 0 { &[][..] } else { cuts[i - 1] };
        (from, cuts.get(i).copied())
    };
    let parts: Vec<TableResult<Part>> = std::thread::scope(|scope| {
        let merge = |i: usize| Merge::new(job, context, drops).run(range(i));
        let others: Vec<_> = (1..=cuts.len())
            .map(|i| std::thread::Builder::new().spawn_scoped(scope, move || merge(i)))
            .collect();
        let mut parts = vec![merge(0)];
        for (i, other) in others.into_iter().enumerate() {
            parts.push(match other {
                Ok(handle) => {
                    handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                }
                // No thread to be had: this one does it.
                Err(_) => merge(i + 1),
            });
        }
        parts
    });
    for part in parts {
        outcome.add(part?, job.output_level);
    }
    Ok(outcome)
}

/// Keys that cut the inputs into at most `threads` pieces of about equal size. A piece smaller than
/// an output table would not pay.
fn split_keys(job: &Job, threads: usize) -> Vec<&[u8]> {
    let bytes = job.input_bytes();
    let pieces = (threads as u64).min(bytes / job.output_bytes.max(1)).max(1);
    if pieces == 1 {
        return Vec::new();
    }
    let mut samples: Vec<(&[u8], u64)> =
        job.tables().flat_map(|(_, table)| table.samples(pieces as usize * SAMPLES)).collect();
    samples.sort_unstable();
    let (mut cuts, mut before) = (Vec::new(), 0);
    for (key, sampled_bytes) in samples {
        before += sampled_bytes;
        let wanted = (cuts.len() as u64 + 1) * bytes / pieces;
        if before >= wanted && cuts.len() as u64 + 1 < pieces && cuts.last() != Some(&key) {
            cuts.push(key);
        }
    }
    cuts
}

/// What the merge of one range of keys has brought.
#[derive(Default)]
struct Part {
    tables: Vec<Arc<Table>>,
    undo: Option<UndoRun>,
    max_seq_written: Seq,
    max_grave_used: Seq,
    entries_in_out: (u64, u64),
    bytes_out: u64,
}

impl Outcome {
    fn add(&mut self, part: Part, level: usize) {
        for table in part.tables {
            self.edit.add(level, table);
        }
        if let Some(run) = part.undo {
            self.edit.add_undo(run);
        }
        self.max_seq_written = self.max_seq_written.max(part.max_seq_written);
        self.max_grave_used = self.max_grave_used.max(part.max_grave_used);
        self.entries_in_out.0 += part.entries_in_out.0;
        self.entries_in_out.1 += part.entries_in_out.1;
        self.bytes_in_out.1 += part.bytes_out;
    }
}

/// The merge of one range of keys: all of a compaction, or a part that a thread has for itself.
struct Merge<'a> {
    job: &'a Job,
    context: &'a CompactionContext<'a>,
    rule: KeepRule<'a>,
    writer: Option<TableWriter>,
    undo: UndoWriter<'a>,
    part: Part,
    /// Bytes of output that the rate limit has seen.
    bytes_taken: u64,
}

impl<'a> Merge<'a> {
    fn new(job: &'a Job, context: &'a CompactionContext<'a>, drops: IndexDrops) -> Self {
        let rule = KeepRule::new(context.snapshots, context.graves)
            .with_dead_ids(context.dead_ids)
            .with_index_drops(drops)
            .separating(context.separates);
        let undo = UndoWriter::new(context.versions);
        Self { job, context, rule, writer: None, undo, part: Part::default(), bytes_taken: 0 }
    }

    /// Merges the keys from `range.0` on and below `range.1`, if that is there.
    fn run(mut self, (from, to): (&[u8], Option<&[u8]>)) -> TableResult<Part> {
        let context = self.context;
        let Some(mut input) = merge_of(self.job, context.versions, context.threads) else {
            return Ok(self.part);
        };
        let version = self.context.versions.current();
        let mut below =
            TombstoneRule::new(&version, self.job.output_level, self.rule.buried_through());
        let mut last_key = Vec::new();
        let (mut read, mut written) = (0u64, 0u64);
        input.seek(from)?;
        while input.valid() {
            let (key, seq) = (input.key(), input.seq());
            if to.is_some_and(|to| key >= to) {
                break;
            }
            read += 1;
            if read.is_multiple_of(CHECK_ENTRIES) {
                self.check()?;
            }
            let fate = self.rule.fate(key, seq)?;
            if fate != Fate::Gone {
                input.load_value()?;
            }
            let key = input.key();
            if let Fate::Undo(through) = fate {
                self.undo.add(key, seq, input.meta(), input.value(), through)?;
            } else if fate == Fate::Tree && !(input.meta().is_tombstone() && below.allows(key, seq))
            {
                // A key never straddles two tables of a level.
                let full = self.writer.as_ref().is_some_and(|w| w.is_full(self.job.output_bytes));
                if full && key != last_key {
                    self.close()?;
                }
                let open = match &mut self.writer {
                    Some(open) => open,
                    None => {
                        let level = self.job.output_level;
                        self.writer.insert(self.context.versions.new_table(level)?)
                    }
                };
                open.add(key, seq, input.meta(), input.value())?;
                if open.is_full(self.job.output_bytes) {
                    last_key.clear();
                    last_key.extend_from_slice(key);
                }
                self.part.max_seq_written = self.part.max_seq_written.max(seq);
                written += 1;
            }
            input.next()?;
        }
        self.close()?;
        self.part.undo = self.undo.finish(self.rule.oldest_reader())?;
        self.part.entries_in_out = (read, written);
        self.part.max_grave_used = self.rule.max_grave_used().max(below.max_dropped);
        Ok(self.part)
    }

    /// Looks at the stop flag, and pays for what was written.
    fn check(&mut self) -> TableResult<()> {
        let open = self.writer.as_ref().map_or(0, TableWriter::data_bytes);
        let written = self.part.bytes_out + open;
        if let Some(limiter) = self.context.limiter {
            limiter.take(written.saturating_sub(self.bytes_taken), self.context.stop);
            self.bytes_taken = self.bytes_taken.max(written);
        }
        if self.context.stop.load(Ordering::Relaxed) {
            return Err(TableError::Cancelled);
        }
        Ok(())
    }

    fn close(&mut self) -> TableResult<()> {
        if let Some(writer) = self.writer.take() {
            let table = writer.finish(self.rule.buried_through(), self.context.sync)?;
            self.part.bytes_out += table.file_bytes();
            self.part.tables.push(table);
        }
        Ok(())
    }
}

/// The versions of all inputs in order, for one of `threads` threads.
fn merge_of(job: &Job, versions: &VersionSet, threads: usize) -> Option<MergeIter<LevelIter>> {
    let (min, max) = job.key_range()?;
    let common = min.iter().zip(max).take_while(|(a, b)| a == b).count();
    let mut sources = Vec::new();
    let inputs = |(level, tables): &(usize, Vec<_>)| if *level == 0 { tables.len() } else { 1 };
    let inputs: usize = job.inputs.iter().map(inputs).sum();
    let inputs = inputs * threads.max(1);
    let source = |tables| versions.merge_input(tables, inputs);
    for (level, tables) in &job.inputs {
        if *level == 0 {
            let each = tables.iter().map(|table| Arc::from([Arc::clone(table)]));
            sources.extend(each.map(source));
        } else {
            sources.push(source(tables.as_slice().into()));
        }
    }
    Some(MergeIter::with_common_prefix(sources, &min[..common]))
}

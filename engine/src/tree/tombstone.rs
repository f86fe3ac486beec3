//! Paper mode (`deletes = tombstones`): when a tombstone may go, and which tables are merged to make
//! them go.

use super::levels::LEVELS;
use super::pick::{CompactionOptions, Job, job_of_level_0, job_of_table};
use super::version::Version;
use crate::key::Seq;
use crate::table::{Table, key_hash};
use std::sync::Arc;

/// Share of tombstones in a table, in percent, from which merging it down pays; equal to that of burial.
const DENSITY_PERCENT_MIN: u64 = 25;

/// Decides whether a merge may drop the tombstone that its keep rule keeps.
///
/// It may when every reader sees it (so the merge drops all older versions of the key among its inputs),
/// and no table below the output can hold an older one. Older versions are nowhere else: see the order of
/// levels at [`Version`]. A running merge of deeper levels only moves them further down, where this
/// version's tables already show them.
#[derive(Debug)]
pub(super) struct TombstoneRule<'a> {
    version: &'a Version,
    output_level: usize,
    min_reader: Seq,
    /// Largest sequence of a tombstone that went.
    pub(super) max_dropped: Seq,
}

impl<'a> TombstoneRule<'a> {
    /// For a merge into `output_level` of `version`; `min_reader` is min(S).
    pub(super) fn new(version: &'a Version, output_level: usize, min_reader: Seq) -> Self {
        Self { version, output_level, min_reader, max_dropped: 0 }
    }

    /// True when the tombstone of `key` at `seq` may go.
    #[cold]
    pub(super) fn allows(&mut self, key: &[u8], seq: Seq) -> bool {
        let mut below = (self.output_level + 1..LEVELS)
            .filter_map(|level| self.version.table_for(level, key))
            .peekable();
        let is_needed = seq > self.min_reader
            || below.peek().is_some() && {
                let hash = key_hash(key);
                below.any(|table| table.may_contain(hash))
            };
        if !is_needed {
            self.max_dropped = self.max_dropped.max(seq);
        }
        !is_needed
    }
}

/// A merge for the sake of tombstones, when no level is too large: the table with the largest share of
/// them, from a quarter on. Without anything below, it is rewritten where it is.
///
/// Only tables that every reader is past (`min_reader` = min(S)) are looked at: so each such merge drops
/// tombstones or moves them further down, and the work ends.
#[must_use]
pub fn pick_tombstones(
    version: &Version,
    min_reader: Seq,
    options: &CompactionOptions,
) -> Option<Job> {
    let percent = |table: &Arc<Table>| {
        let p = table.properties();
        if p.max_seq > min_reader { 0 } else { p.tombstones * 100 / p.entries.max(1) }
    };
    let dense = version.tables().filter(|(_, table)| percent(table) >= DENSITY_PERCENT_MIN);
    let (level, table) = dense.max_by_key(|(level, table)| (percent(table), *level))?;
    if level == 0 {
        return Some(job_of_level_0(version, options, false));
    }
    let p = table.properties();
    let is_lowest = (level + 1..LEVELS)
        .all(|below| version.overlapping(below, &p.min_key, &p.max_key).is_empty());
    if is_lowest {
        return Some(Job::burial(level, Arc::clone(table), options));
    }
    Some(job_of_table(version, level, table, options))
}

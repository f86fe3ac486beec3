//! What merges work with.

use super::drop_rule::Graves;
use super::rate_limit::RateLimiter;
use super::version_set::VersionSet;
use crate::key::Seq;
use std::sync::atomic::AtomicBool;

/// What a compaction works with. `now` was read first, then S was collected (C1).
pub struct CompactionContext<'a> {
    /// Where new tables are made.
    pub versions: &'a VersionSet,
    /// S, ascending; its last member is `now`.
    pub snapshots: &'a [Seq],
    /// The cemetery.
    pub graves: &'a (dyn Graves + Sync),
    /// Dead namespace ids with the sequences of their deaths (N7).
    pub dead_ids: &'a [(u64, Seq)],
    /// Set to make the compaction return [`TableError::Cancelled`](crate::table::TableError::Cancelled).
    pub stop: &'a AtomicBool,
    /// Threads that share a large merge, each with a range of keys of its own.
    pub threads: usize,
    /// Bounds what is written per second.
    pub limiter: Option<&'a RateLimiter>,
    /// Versions that only older readers need go to undo runs (N6).
    pub separates: bool,
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

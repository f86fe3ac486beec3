//! Priority of background work: flush > level 0 > deadline > size > density.
//!
//! A flush has a thread of its own and never waits for the rest, because writers wait for it. The others
//! share one thread, which takes the first of [`ORDER`] that has work. Before them it does what
//! costs next to nothing and saves other work: tables that are entirely dead, runs that nobody needs. When
//! nothing is left and nobody writes, it runs merges that only readers gain by (`store/upkeep/rest.rs`).

use crate::key::Seq;
use crate::store::engine::{Engine, EngineError};
use crate::store::read::undo::{RUNS_FAR_TOO_MANY, RUNS_MAX};
use crate::tree::{self, Job, Version};
use std::sync::atomic::Ordering;

/// Why tables are rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// Level 0 has too many tables: every read looks at each of them.
    LevelZero,
    /// The time of a delete is running out (N17).
    Deadline,
    /// A level is larger than its target.
    Size,
    /// Much of a table is dead, or the cemetery is too large.
    Density,
}

/// The order of causes.
const ORDER: [Cause; 4] = [Cause::LevelZero, Cause::Deadline, Cause::Size, Cause::Density];

impl Engine {
    /// Does the most urgent work that is not a flush; false when there is none.
    pub(crate) fn compact_once(&self) -> Result<bool, EngineError> {
        let inner = self.inner();
        // C1: now first, then S. The mark is durable and below every running write, so D1 holds and
        // every grave that a merge may use is durable too.
        let now = inner.flusher.mark.load(Ordering::Acquire);
        match self.merge_undo_runs(RUNS_FAR_TOO_MANY) {
            Ok(false) => {}
            Ok(true) => return Ok(true),
            // Readers of the past bear a failing undo device; the tree goes on.
            Err(error) => inner.upkeep.background.note_error(&error),
        }
        if self.maintain_grave_runs()? {
            return Ok(true);
        }
        let version = inner.versions.current();
        let job = match self.pick_dead_tables(&version, now) {
            Some(job) => Some(job),
            None => self.pick_by_order(&version, now)?,
        };
        let Some(job) = job else {
            if self.is_at_rest(inner.graveyard.deadline.now_ms()) && self.compact_at_rest()? {
                return Ok(true);
            }
            return self.merge_undo_runs(RUNS_MAX);
        };
        self.run_compaction_job(&job)?;
        Ok(true)
    }

    fn pick_by_order(&self, version: &Version, now: Seq) -> Result<Option<Job>, EngineError> {
        let (inner, dead_keys) = (self.inner(), self.inner().dead_keys);
        let mut by_shape = tree::pick_compaction(version, &inner.compaction_options());
        let is_of_level_0 = by_shape.as_ref().is_some_and(|job| job.inputs[0].0 == 0);
        for cause in ORDER {
            let job = match cause {
                Cause::LevelZero => by_shape.take_if(|_| is_of_level_0),
                Cause::Deadline if self.has_overdue() => {
                    dead_keys.pick_merge(self, version, now)?
                }
                Cause::Deadline => None,
                Cause::Size => by_shape.take(),
                Cause::Density => dead_keys.pick_merge(self, version, now)?,
            };
            if job.is_some() {
                return Ok(job);
            }
        }
        Ok(None)
    }
}

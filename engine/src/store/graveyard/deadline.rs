//! The delete deadline (`delete-persist-seconds`, N17): when a deleted key must be gone from every file.
//!
//! Of the limit a quarter is for waiting: memtable and log segment are rotated when they hold anything
//! older, even when idle, so that the mark passes the delete; then tables with dead of that age are
//! rewritten before other work. What remains are names of keys in checkpoint and manifest: both are
//! written anew once the graves are gone.

use crate::cemetery::Checkpoint;
use crate::key::Seq;
use crate::store::engine::{Engine, EngineError};
use crate::store::flush::job::checkpoint_name;
use crate::tree::VersionEdit;
use parking_lot::Mutex;
use sexton_persistence::aof::LogOptions;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// Parts of the limit after which a delete is worked on.
const WAIT_SHARE: u64 = 4;

/// Parts of the limit between two rewrites of checkpoint and manifest.
const SCRUB_SHARE: u64 = 8;

/// What compactions are taken to write in a second when nothing limits them.
const ASSUMED_BYTES_PER_S: u64 = 100 << 20;

/// Every table once for a period's deletes, and as much for other compactions.
const PASSES: u64 = 2;

/// Notes of the clock at most; with more every other one is forgotten, so old ages become coarser.
const NOTES_MAX: usize = 1024;

/// Shortest time between two notes, in milliseconds.
const NOTE_EVERY_MS: u64 = 50;

/// Which sequence had been handed out when.
#[derive(Debug, Default)]
struct Clock(VecDeque<(u64, Seq)>);

impl Clock {
    fn note(&mut self, now_ms: u64, last_seq: Seq) {
        if self.0.back().is_some_and(|&(at, seq)| seq == last_seq || now_ms < at + NOTE_EVERY_MS) {
            return;
        }
        if self.0.len() >= NOTES_MAX {
            let mut nth = 0;
            self.0.retain(|_| {
                nth += 1;
                nth % 2 == 0
            });
        }
        self.0.push_back((now_ms, last_seq));
    }

    /// Everything up to this sequence was handed out at or before `at_ms`.
    fn through(&self, at_ms: u64) -> Seq {
        let after = self.0.partition_point(|&(at, _)| at <= at_ms);
        after.checked_sub(1).map_or(0, |last| self.0[last].1)
    }

    /// When `seq` had been handed out at the latest.
    fn time_of(&self, seq: Seq) -> Option<u64> {
        let at = self.0.partition_point(|&(_, last)| last < seq);
        self.0.get(at).map(|&(ms, _)| ms)
    }
}

/// Retired segments that the log may keep for reuse. With a deadline none: they would hold what was
/// deleted.
pub(in crate::store) fn recycled_segments_max(limit_ms: u64) -> usize {
    if limit_ms > 0 { 0 } else { LogOptions::RECYCLED_SEGMENTS_MAX }
}

/// The state of the deadline.
pub(in crate::store) struct Deadline {
    /// The limit in milliseconds; 0 for none.
    limit_ms: AtomicU64,
    started: Instant,
    clock: Mutex<Clock>,
    /// Deletes up to here are to be buried before other work.
    overdue: AtomicU64,
    /// Names of dead keys may stand in checkpoint or manifest.
    pub(in crate::store) has_traces: AtomicBool,
    scrubbed_ms: AtomicU64,
    /// The oldest grave's sequence, as of the last sweep; 0 without any.
    pub(in crate::store) oldest_grave: AtomicU64,
    /// Estimated bytes of dead versions in tables, and bytes of tables that wait for burial.
    pub(in crate::store) dead_bytes: AtomicU64,
    pub(in crate::store) queue_bytes: AtomicU64,
}

impl Deadline {
    pub(in crate::store) fn new(limit_ms: u64) -> Self {
        Self {
            limit_ms: AtomicU64::new(limit_ms),
            started: Instant::now(),
            clock: Mutex::default(),
            overdue: AtomicU64::new(0),
            has_traces: AtomicBool::new(true),
            scrubbed_ms: AtomicU64::new(0),
            oldest_grave: AtomicU64::new(0),
            dead_bytes: AtomicU64::new(0),
            queue_bytes: AtomicU64::new(0),
        }
    }

    /// The limit in milliseconds; 0 for none.
    pub(in crate::store) fn limit_ms(&self) -> u64 {
        self.limit_ms.load(Ordering::Acquire)
    }

    /// True when there is one.
    pub(in crate::store) fn is_set(&self) -> bool {
        self.limit_ms() > 0
    }

    /// Deletes up to this sequence are to be buried before other work; 0 without a limit.
    pub(in crate::store) fn overdue(&self) -> Seq {
        self.overdue.load(Ordering::Acquire)
    }

    pub(in crate::store) fn now_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    /// Age of the oldest grave in milliseconds; 0 without any. One from before the start of the
    /// process counts from the start.
    pub(in crate::store) fn oldest_age_ms(&self) -> u64 {
        let oldest = self.oldest_grave.load(Ordering::Acquire);
        let now_ms = self.now_ms();
        let born_ms = self.clock.lock().time_of(oldest).unwrap_or(now_ms);
        if oldest == 0 { 0 } else { now_ms.saturating_sub(born_ms) }
    }
}

impl Engine {
    /// The limit after which a deleted key must be gone from every file (N17), in milliseconds; 0 for none.
    #[must_use]
    pub fn delete_deadline_ms(&self) -> u64 {
        self.inner().graveyard.deadline.limit_ms()
    }

    /// Changes the limit (`CONFIG SET delete-persist-seconds`); 0 for none. What was deleted before is due
    /// at once. A key that was deleted and written anew before may have an old value in a table, whose grave
    /// is forgotten: that goes with an ordinary merge.
    ///
    /// # Errors
    /// The limit cannot be met on what is stored: see [`Engine::shortest_deadline_ms`].
    pub fn set_delete_deadline(&self, limit_ms: u64) -> Result<(), EngineError> {
        let inner = self.inner();
        let deadline = &inner.graveyard.deadline;
        let shortest_ms = self.shortest_deadline_ms();
        if limit_ms != 0 && limit_ms < shortest_ms {
            return Err(EngineError::Refused(format!(
                "deletes cannot be persisted within {limit_ms} ms: rewriting the tables takes {shortest_ms} ms"
            )));
        }
        deadline.limit_ms.store(limit_ms, Ordering::Release);
        deadline.has_traces.store(true, Ordering::Release);
        if let Some(log) = inner.write.log.load().as_ref() {
            log.set_recycled_max(recycled_segments_max(limit_ms))?;
        }
        inner.graveyard.burial_wanted.store(true, Ordering::Release);
        inner.upkeep.background.wake_compaction();
        Ok(())
    }

    /// False when the deadline cannot be met on what is stored.
    #[must_use]
    pub fn deadline_is_reachable(&self) -> bool {
        let limit_ms = self.inner().graveyard.deadline.limit_ms();
        limit_ms == 0 || limit_ms >= self.shortest_deadline_ms()
    }

    /// The shortest limit that can be met on what is stored, in milliseconds: in the worst case every table
    /// is read and written once a period, in what waiting leaves of the limit. Without a rate limit
    /// compactions are taken to write 100 MB/s.
    #[must_use]
    pub fn shortest_deadline_ms(&self) -> u64 {
        let inner = self.inner();
        let rate = match inner.options.compaction_bytes_per_s {
            0 => ASSUMED_BYTES_PER_S,
            rate => rate,
        };
        let sizes = inner.versions.current().level_sizes();
        let bytes: u64 = sizes.iter().map(|(_, bytes)| bytes).sum();
        let work_ms = PASSES * bytes / rate * 1000;
        work_ms + work_ms / (WAIT_SHARE - 1)
    }

    /// True when something deleted is to be buried before other work.
    pub(in crate::store) fn has_overdue(&self) -> bool {
        let inner = self.inner();
        let overdue = inner.graveyard.deadline.overdue();
        let oldest = inner.graveyard.deadline.oldest_grave.load(Ordering::Acquire);
        (oldest != 0 && oldest <= overdue)
            || (overdue > 0 && inner.graveyard.dead.lock().values().any(|&d| d <= overdue))
    }

    /// Looks at the clock. Runs on the flush thread, ten times a second.
    pub(in crate::store) fn keep_deadline(&self) -> Result<(), EngineError> {
        let deadline = &self.inner().graveyard.deadline;
        self.keep_deadline_at(deadline.now_ms())
    }

    pub(in crate::store) fn keep_deadline_at(&self, now_ms: u64) -> Result<(), EngineError> {
        let inner = self.inner();
        let deadline = &inner.graveyard.deadline;
        let limit_ms = deadline.limit_ms();
        let overdue = {
            let mut clock = deadline.clock.lock();
            clock.note(now_ms, self.last_seq());
            if limit_ms == 0 {
                return Ok(());
            }
            // Whatever was there at the start is of unknown age: it is due at once.
            let waited_ms = now_ms.saturating_sub(limit_ms / WAIT_SHARE);
            let first = clock.0.front().map_or(0, |&(_, seq)| seq);
            clock.through(waited_ms).max(first)
        };
        if deadline.overdue.fetch_max(overdue, Ordering::AcqRel) < overdue {
            inner.graveyard.burial_wanted.store(true, Ordering::Release);
            inner.upkeep.background.wake_compaction();
        }
        if overdue > inner.flusher.mark.load(Ordering::Acquire) {
            self.flush_now()?;
        }
        let scrub_ms = deadline.scrubbed_ms.load(Ordering::Acquire);
        if now_ms >= scrub_ms + limit_ms / SCRUB_SHARE
            && deadline.has_traces.swap(false, Ordering::AcqRel)
        {
            inner.graveyard.spill.scrub_wanted.store(true, Ordering::Release);
            inner.upkeep.background.wake_compaction();
            deadline.scrubbed_ms.store(now_ms, Ordering::Release);
            let scrubbed = self.scrub();
            if !matches!(scrubbed, Ok(true)) {
                deadline.has_traces.store(true, Ordering::Release);
            }
            scrubbed?;
        }
        Ok(())
    }

    /// Writes the checkpoint of the mark m and the manifest anew, without what is forgotten; false when
    /// it must wait. The edit that names the new checkpoint is durable before the old one is removed.
    ///
    /// A grave open as of m that is left out was let go by F2 (F1 asks for e <= m), after a burial that
    /// the manifest holds (D4): what replay finds above m is the same without it. Or its namespace has
    /// died (N7). If that was above m, replay executes again what was done before the death, when the
    /// grave still counted: then this waits for the next mark. Both kinds of grave leave on the
    /// flush thread only, which is this one, and a death is listed until its memtable is flushed.
    fn scrub(&self) -> Result<bool, EngineError> {
        let inner = self.inner();
        // No flush meanwhile: the mark must be the one of the checkpoint.
        let _right = inner.flusher.flush_right.lock();
        let Some(mut mark) = inner.versions.recovered_mark() else { return Ok(true) };
        if inner.graveyard.dead.lock().values().any(|&d| d > mark.m) {
            return Ok(false);
        }
        let checkpoint = self.write_checkpoint(mark.m, false)?;
        mark.checkpoint.clone_from(&checkpoint);
        inner.versions.apply(&VersionEdit::mark(mark))?;
        self.remove_old_checkpoints(&checkpoint);
        inner.versions.rewrite_manifest()?;
        Ok(true)
    }

    /// Rule D2: the graves open as of m but for those in limbo, sorted, synced before the manifest names
    /// them; with the dead runs that m has passed, unless a deadline forbids to keep names of dead keys
    /// longer than their graves.
    /// `spilled`: those graves go to a run with the same edit.
    pub(in crate::store) fn write_checkpoint(
        &self,
        m: Seq,
        spilled: bool,
    ) -> Result<Option<String>, EngineError> {
        let inner = self.inner();
        let mut graves = Vec::new();
        for shard in inner.shards.iter().filter(|_| !spilled) {
            let state = shard.latch();
            graves.extend(state.graves.needed_as_of(m).map(|g| (g.key.clone(), g.d)));
        }
        if !spilled {
            graves.extend(inner.graveyard.elements.copies(|grave| grave.is_needed_as_of(m)));
        }
        graves.sort_unstable();
        let dead_runs = if inner.graveyard.deadline.is_set() {
            Vec::new()
        } else {
            inner.graveyard.dead_runs.through(m)
        };
        if graves.is_empty() && dead_runs.is_empty() {
            return Ok(None);
        }
        let name = checkpoint_name(inner.versions.new_file_number());
        let path = inner.tree_dir().join(&name);
        Checkpoint { c: m, graves, dead_runs }.write(&*inner.options.storage, &path)?;
        inner.options.storage.sync_dir(&inner.tree_dir())?;
        Ok(Some(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_answers_what_was_there_at_a_time() {
        let mut clock = Clock::default();
        for (at_ms, seq) in [(0, 5), (100, 8), (200, 8), (300, 20)] {
            clock.note(at_ms, seq);
        }
        assert_eq!(clock.through(99), 5);
        assert_eq!(clock.through(100), 8);
        assert_eq!(clock.through(1000), 20);
        assert_eq!(clock.time_of(6), Some(100));
        assert_eq!(clock.time_of(21), None);
    }

    #[test]
    fn a_long_history_is_kept_coarsely_and_never_early() {
        let mut clock = Clock::default();
        for tick in 0..10_000_u64 {
            clock.note(tick * 100, tick + 1);
        }
        assert!(clock.0.len() <= NOTES_MAX);
        for tick in (0..10_000).step_by(77) {
            assert!(clock.through(tick * 100) <= tick + 1, "younger ones are not called old");
        }
        assert!(clock.through(999_900) > 9_990);
    }
}

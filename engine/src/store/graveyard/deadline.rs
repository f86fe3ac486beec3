//! The delete deadline (`delete-persist-seconds`, N17): when a deleted key must be gone from every file.
//!
//! A quarter of the limit is for waiting: memtable and log segment are rotated when they hold anything
//! older, even when idle, so that the mark passes the delete. Then tables with dead keys of that age are
//! rewritten before other work. Names of keys remain in checkpoint and manifest: both are
//! rewritten once the graves are gone.

use crate::cemetery::Checkpoint;
use crate::key::Seq;
use crate::store::engine::{Engine, EngineError};
use crate::store::flush::job::checkpoint_name;
use crate::tree::VersionEdit;
use sexton_persistence::aof::LogOptions;
use std::sync::atomic::Ordering;

/// Parts of the limit after which a delete is worked on.
const WAIT_SHARE: u64 = 4;

/// Parts of the limit between two rewrites of checkpoint and manifest.
const SCRUB_SHARE: u64 = 8;

/// What compactions are taken to write in a second when nothing limits them.
const ASSUMED_BYTES_PER_S: u64 = 100 << 20;

/// Every table once for a period's deletes, and as much for other compactions.
const PASSES: u64 = 2;

/// Retired segments that the log may keep for reuse. With a deadline none: they would hold what was
/// deleted.
pub(in crate::store) fn recycled_segments_max(limit_ms: u64) -> usize {
    if limit_ms > 0 { 0 } else { LogOptions::RECYCLED_SEGMENTS_MAX }
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
            clock.through(waited_ms).max(clock.first())
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

    /// Rewrites the checkpoint of the mark m, and the manifest, without what is forgotten; false when
    /// it must wait. The edit that names the new checkpoint is durable before the old one is removed.
    ///
    /// A grave open as of m that is left out was released by F2 (F1 asks for e <= m), after a burial that
    /// the manifest records (D4): what replay finds above m does not depend on it. Or its namespace has
    /// died (N7). If that was above m, replay repeats operations from before the death, when the
    /// grave still counted: then this waits for the next mark. Both kinds of grave leave on the
    /// flush thread only, which is this one, and a death is listed until its memtable is flushed.
    fn scrub(&self) -> Result<bool, EngineError> {
        let inner = self.inner();
        // No flush meanwhile: the mark must be the one of the checkpoint.
        let _permit = inner.flusher.flush_permit.lock();
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

    /// Rule D2: the graves open as of m, except those in limbo, sorted, synced before the manifest names
    /// them; with the dead runs that m has passed, unless a deadline forbids keeping names of dead keys
    /// longer than their graves.
    /// `spilled`: this edit also moves those graves to a run.
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

//! The background threads: freezing, flush, compaction, cold reads.

use crate::store::engine::{Engine, EngineError};
use crate::store::flush::frozen::FlushPermit;
use crate::store::read::view::ReaderGraves;
use crate::store::upkeep::events::Fault;
use crate::store::upkeep::room::LOG_SHARE;
use crate::store::upkeep::signals::IDLE;
use crate::table::TableError;
use crate::tree::{self, CompactionContext, IndexDrops, Job};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

impl Engine {
    /// Starts the threads that read cold keys; replay needs them already.
    pub(in crate::store) fn start_cold_reads(&self) {
        for number in 0..self.inner().cold.threads {
            self.spawn(&format!("cold-read-{number}"), |engine| engine.run_cold_reads());
        }
    }

    /// Starts freezing, flush and compaction.
    pub(in crate::store) fn start_background(&self) {
        self.spawn("freeze", Self::run_freeze);
        self.spawn("flush", Self::run_flush);
        self.spawn("compaction", Self::run_compaction);
        self.spawn("health", Self::run_health);
        self.inner().dead_keys.start_workers(self);
    }

    /// Starts the thread that proves stretches dead (N5).
    pub(in crate::store) fn start_proofs(&self) {
        self.spawn("dead-runs", |engine| engine.run_proofs(&engine.inner().upkeep.background.stop));
    }

    /// A panic in a worker poisons the store: writes stop, reads go on, INFO says why.
    fn spawn(&self, name: &str, work: fn(&Self)) {
        let engine = self.clone();
        let label = name.to_owned();
        let body = move || {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| work(&engine))) {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("?");
                engine.inner().upkeep.poison(&format!("thread {label} panicked: {text}"));
            }
        };
        match std::thread::Builder::new().name(name.to_owned()).spawn(body) {
            Ok(handle) => self.inner().upkeep.background.threads.lock().push(handle),
            Err(error) => {
                self.inner().upkeep.poison(&format!("cannot start thread {name}: {error}"))
            }
        }
    }

    /// Freezes memtables while others are written to the device, so that a burst of writes waits for memory only when
    /// as many as there may be are full.
    fn run_freeze(&self) {
        let inner = self.inner();
        let background = &inner.upkeep.background;
        // What recovery has left.
        self.maintain_pool();
        self.sort_frozen();
        while !background.stop.load(Ordering::Acquire) {
            background.wait(|signals| std::mem::take(&mut signals.freeze));
            if inner.may_freeze() {
                let early = std::mem::take(&mut background.signals.lock().freeze_early);
                let filled = inner.views.superversion.load().active.filled_bytes();
                let some = filled > 0
                    || inner.graveyard.spill.has_unmarked()
                    || self.has_unmarked_deaths();
                if self.memtable_is_full() || (early && some) {
                    self.freeze(&mut inner.flusher.freeze_permit.lock());
                    background.wake_flush();
                }
            }
            self.maintain_pool();
        }
    }

    /// Looks ten times a second whether something has begun to go wrong, or is over.
    fn run_health(&self) {
        let background = &self.inner().upkeep.background;
        while !background.stop.load(Ordering::Acquire) {
            self.look_at_health(Instant::now());
            let mut signals = background.signals.lock();
            if !background.stop.load(Ordering::Acquire) {
                background.ended.wait_for(&mut signals, IDLE);
            }
        }
        self.inner().upkeep.health.end_episodes(Instant::now(), true);
    }

    fn run_flush(&self) {
        let inner = self.inner();
        let background = &inner.upkeep.background;
        let mut compactions_seen = 0;
        while !background.stop.load(Ordering::Acquire) {
            background.wait(|signals| std::mem::take(&mut signals.flush));
            if self.log_has_failed() {
                self.report(self.flush_now());
            } else if inner.flusher.frozen.len() > 0 && !inner.flush_yields() {
                self.report(self.flush_oldest(&mut inner.flusher.flush_permit.lock()));
            }
            // Those under way ask between two pieces of their output.
            inner.upkeep.limiter.set_held(inner.compaction_yields());
            let compactions = inner.figures.compactions.load(Ordering::Relaxed);
            if compactions != compactions_seen {
                compactions_seen = compactions;
                inner.graveyard.sweep_turn.owe();
            }
            match self.keep_deadline() {
                Ok(()) => inner.upkeep.health.works(Fault::Deadline),
                Err(error) => {
                    background.note_error(&error);
                    inner.upkeep.health.fails(Fault::Deadline, || error.to_string());
                }
            }
            if inner.graveyard.spill.is_at_rest(inner.graveyard.deadline.now_ms()) {
                background.freeze_early();
            }
            self.make_room(inner.graveyard.deadline.now_ms());
            self.end_old_snapshots();
            if self.forget_undo_runs() {
                // Graves that only they needed may go (F2).
                inner.graveyard.sweep_turn.owe();
            }
            self.sweep_in_turn();
            self.sweep_dead_namespaces();
            self.sweep_dead_pages();
            inner.memory.pool.trim();
            self.adjust_memory_bound();
            // A look that fails is tried again; readers of the same blocks report the damage.
            let _ = self.look_for_cold_due();
        }
    }

    /// Says whether the files are to become smaller. While they are, deletes give back room within seconds, although that
    /// costs more writing than they do else.
    pub fn note_short_of_room(&self, is_short: bool) {
        let inner = self.inner();
        if inner.upkeep.room.note_short(is_short) {
            inner.graveyard.burial_wanted.store(true, Ordering::Release);
            inner.upkeep.background.wake_flush();
            inner.upkeep.background.wake_compaction();
        }
    }

    /// Asks for a flush while room is short and one gives some back. Runs on the flush thread, ten times a second.
    fn make_room(&self, now_ms: u64) {
        let room = &self.inner().upkeep.room;
        if room.is_short() && self.flush_gives_room() && room.takes_turn(now_ms) {
            self.inner().upkeep.background.freeze_early();
        }
    }

    /// True when deletes wait for the mark, or the log is much of all and no base needs it.
    fn flush_gives_room(&self) -> bool {
        let log_goes = self.log_base_bytes().is_none();
        self.inner().graveyard.spill.has_unmarked()
            || self.has_unmarked_deaths()
            || (log_goes && self.log_file_bytes() * LOG_SHARE > self.file_bytes())
    }

    /// True when databases were emptied since the last mark.
    fn has_unmarked_deaths(&self) -> bool {
        let inner = self.inner();
        let mark = inner.flusher.mark.load(Ordering::Acquire);
        inner.graveyard.dead.lock().values().any(|&d| d > mark)
    }

    /// Keeps the error of a flush for INFO, and waits a little before it is tried again.
    fn report(&self, flushed: Result<(), EngineError>) {
        let background = &self.inner().upkeep.background;
        match flushed {
            Ok(()) => background.forget_error(),
            Err(error) => {
                background.note_error(&error);
                background.rest();
            }
        }
    }

    /// Freezes and flushes the active memtable, and installs the result. One at a time.
    pub(in crate::store) fn flush_now(&self) -> Result<(), EngineError> {
        self.flush_all(&mut self.inner().flusher.flush_permit.lock())
    }

    /// Like `flush_now`, for a caller that keeps later flushes off.
    pub(in crate::store) fn flush_all(&self, permit: &mut FlushPermit) -> Result<(), EngineError> {
        let flushed = self.freeze_and_flush(permit);
        if flushed.is_err() && self.log_has_failed() {
            let last_seq = self.last_seq();
            self.inner().write.given_up.fetch_max(last_seq, Ordering::AcqRel);
            self.durable_moved();
        }
        flushed
    }

    fn freeze_and_flush(&self, permit: &mut FlushPermit) -> Result<(), EngineError> {
        let inner = self.inner();
        // First what waits: where that cannot be flushed nothing more is frozen.
        self.flush_frozen(permit)?;
        let failed = self.log_has_failed();
        self.freeze(&mut inner.flusher.freeze_permit.lock());
        self.flush_frozen(permit)?;
        if failed {
            self.heal_log()?;
        }
        Ok(())
    }

    /// Flushes what is frozen by now, oldest first.
    pub(in crate::store) fn flush_frozen(
        &self,
        permit: &mut FlushPermit,
    ) -> Result<(), EngineError> {
        let inner = self.inner();
        let Some(last_m) = inner.flusher.frozen.last_m() else { return Ok(()) };
        while inner.flusher.frozen.oldest().is_some_and(|job| job.m() <= last_m) {
            self.flush_oldest(permit)?;
        }
        Ok(())
    }

    /// Flushes the oldest frozen memtable, if there is one. On an error it stays, before all later ones (N1).
    pub(in crate::store) fn flush_oldest(
        &self,
        _permit: &mut FlushPermit,
    ) -> Result<(), EngineError> {
        let inner = self.inner();
        let Some(job) = inner.flusher.frozen.oldest() else { return Ok(()) };
        // Sorted first: what was overwritten may lie in it.
        self.sorted_run(&job);
        match self.resolve(&job).and_then(|()| self.flush_job(&job)) {
            Ok(()) => inner.upkeep.health.works(Fault::Flush),
            Err(error) => {
                inner.upkeep.health.fails(Fault::Flush, || error.to_string());
                return Err(error);
            }
        }
        drop(job);
        inner.upkeep.background.wake_freeze();
        self.maintain_pool();
        inner.graveyard.sweep_turn.owe();
        self.sweep_in_turn();
        inner.graveyard.burial_wanted.store(true, Ordering::Release);
        inner.upkeep.background.wake_compaction();
        Ok(())
    }

    fn run_compaction(&self) {
        let inner = self.inner();
        let background = &inner.upkeep.background;
        while !background.stop.load(Ordering::Acquire) {
            background.wait(|signals| std::mem::take(&mut signals.compact));
            loop {
                if background.stop.load(Ordering::Acquire) {
                    return;
                }
                match self.compact_once() {
                    Ok(true) => {
                        inner.upkeep.health.works(Fault::Compaction);
                        inner.upkeep.background.wake_flush();
                    }
                    Ok(false) => {
                        inner.upkeep.health.works(Fault::Compaction);
                        break;
                    }
                    Err(error) => {
                        background.note_error(&error);
                        if !background.stop.load(Ordering::Acquire) {
                            inner.upkeep.health.fails(Fault::Compaction, || error.to_string());
                        }
                        background.rest();
                        break;
                    }
                }
            }
        }
    }

    /// Runs and installs one compaction.
    pub(in crate::store) fn run_compaction_job(&self, job: &Job) -> Result<(), EngineError> {
        let inner = self.inner();
        let now = inner.flusher.mark.load(Ordering::Acquire);
        let snapshots = self.snapshots_through(now);
        let dead = self.dead_ids_through(now);
        let graves = ReaderGraves::new(self, self.has_graves());
        let syncs_tables = inner.flusher.syncs_tables.read();
        let mut context = CompactionContext {
            versions: &inner.versions,
            snapshots: &snapshots,
            graves: &graves,
            dead_ids: &dead,
            stop: &inner.upkeep.background.stop,
            threads: inner.options.effective_compaction_threads(),
            limiter: Some(&inner.upkeep.limiter),
            separates: snapshots.len() > 1 && self.separates(),
            sync: *syncs_tables,
        };
        let drops = IndexDrops {
            due_through_ms: inner.upkeep.cold_due.lock().droppable_ms(),
            of_deleted: inner.graveyard.deadline.is_set(),
        };
        let outcome = match tree::compact_with_index_drops(job, &context, drops) {
            // An undo device that fails must not keep the tree from being merged.
            Err(error) if context.separates && !matches!(error, TableError::Cancelled) => {
                context.separates = false;
                tree::compact_with_index_drops(job, &context, drops)?
            }
            outcome => outcome?,
        };
        // A table of a flush that stands in for a failed log (N2) is seen before `mark` is moved.
        let installed = || inner.versions.recovered_mark().map_or(0, |mark| mark.m);
        debug_assert!(
            outcome.needs_durable() <= self.durable().max(installed()),
            "D1 holds by the choice of now"
        );
        inner.versions.apply(&outcome.edit)?;
        self.publish_tables(|_| {});
        self.note_undo(&outcome.edit);
        inner.figures.compactions.fetch_add(1, Ordering::Relaxed);
        inner.graveyard.deadline.has_traces.store(true, Ordering::Release);
        if job.inputs.first().is_some_and(|(level, _)| *level == 0) {
            inner.upkeep.rest.note_level_0_merged();
        }
        let is_move = inner.versions.is_mere_move(job);
        inner.figures.work.moves.fetch_add(u64::from(is_move), Ordering::Relaxed);
        let (read, written) = outcome.bytes_in_out;
        inner.figures.work.compaction_read_bytes.fetch_add(read, Ordering::Relaxed);
        inner.figures.work.compaction_written_bytes.fetch_add(written, Ordering::Relaxed);
        self.adjust_pace();
        if job.dead_through > 0 {
            let tables = job.tables().count() as u64;
            inner.figures.tables_dropped_dead.fetch_add(tables, Ordering::Relaxed);
        }
        self.forget_dead_ids();
        inner.graveyard.burial_wanted.store(true, Ordering::Release);
        Ok(())
    }

    /// Writes everything that is in memtables to tables: what was written before is durable when this returns,
    /// whatever the sync policy (N2); what is written meanwhile may be among it or not. Waits for the device. No
    /// latch may be held.
    ///
    /// # Errors
    /// A failing medium; everything is still there then, and the background tries again.
    pub fn flush(&self) -> Result<(), EngineError> {
        self.flush_now()
    }

    /// Flushes memtables, syncs log and manifest, stops the background threads. Loads that no thread
    /// has begun are answered with an error.
    pub fn close(&self) -> Result<(), EngineError> {
        let inner = self.inner();
        if inner.upkeep.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let flushed = self.flush_now();
        self.stop_threads();
        self.close_log()?;
        if let Some(wbl) = inner.write.wbl.get() {
            wbl.pool().close()?;
        }
        *inner.upkeep.dir_lock.lock() = None;
        flushed
    }

    /// Writes and syncs what the log has, and ends it.
    pub(in crate::store) fn close_log(&self) -> Result<(), EngineError> {
        let Some(mut log) = self.inner().write.log.swap(None) else { return Ok(()) };
        // Others hold it for the length of a question at most.
        let log = loop {
            match Arc::try_unwrap(log) {
                Ok(log) => break log,
                Err(shared) => log = shared,
            }
            std::thread::yield_now();
        };
        Ok(log.close()?)
    }

    /// Ends the background threads and waits for them.
    pub(in crate::store) fn stop_threads(&self) {
        let inner = self.inner();
        let background = &inner.upkeep.background;
        background.stop.store(true, Ordering::Release);
        inner.cold.stop();
        inner.graveyard.places.wake();
        background.wake_compaction();
        background.ended.notify_all();
        for thread in std::mem::take(&mut *background.threads.lock()) {
            // A thread that panicked has poisoned the store already.
            let _ = thread.join();
        }
        self.refuse_queued_loads();
    }
}

#[cfg(test)]
impl Engine {
    /// Stops without a last flush, as a killed process would; what the log has synced stays.
    pub(crate) fn abandon(&self) {
        let inner = self.inner();
        inner.upkeep.closed.store(true, Ordering::Release);
        self.stop_threads();
        let panicked = inner.upkeep.poison.get().filter(|reason| reason.contains("panicked"));
        assert_eq!(panicked, None, "background threads do not panic");
        inner.write.log.store(None);
        *inner.upkeep.dir_lock.lock() = None;
    }
}

//! Flushing a frozen memtable: one table, one cemetery checkpoint, one manifest edit (N1).

use crate::key::{EngineKey, Meta, Seq};
use crate::memtable::Run;
use crate::store::engine::{Engine, EngineError};
use crate::store::flush::frozen::FlushJob;
use crate::store::options::SyncPolicy;
use crate::store::read::view::ReaderGraves;
use crate::store::upkeep::events::Fault;
use crate::table::Table;
use crate::tree::{self, Fate, KeepRule, MarkEdit, TableWriter, UndoRun, UndoWriter, VersionEdit};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Engine {
    /// Writes and installs the oldest frozen memtable, whose overwrites are settled. On an error nothing is
    /// installed and the memtable stays readable; the caller tries again or stops writes.
    pub(in crate::store) fn flush_job(&self, job: &FlushJob) -> Result<(), EngineError> {
        let inner = self.inner();
        let m = job.m();
        let run = self.sorted_run(job);
        let syncs_tables = inner.flusher.syncs_tables.read();
        let snapshots = self.snapshots_through(m);
        let separates = snapshots.len() > 1 && self.separates();
        let written = self.write_table(run, &snapshots, *syncs_tables, separates);
        // An undo device that fails must not keep what is new from the tree.
        let (table, undo) = match written {
            Err(_) if separates => self.write_table(run, &snapshots, *syncs_tables, false)?,
            written => written?,
        };
        self.wait_durable(m)?;
        let spilled = self.write_spill(m, *syncs_tables)?;
        let checkpoint = self.write_checkpoint(m, !spilled.is_empty())?;
        let mark = MarkEdit {
            m,
            checkpoint: checkpoint.clone(),
            namespaces: job.namespaces.clone(),
            counts: job.counts(),
            dead: self
                .dead_ids_in_files(m, table.iter().chain(undo.as_ref().map(|run| &run.table))),
        };
        let mut edit = VersionEdit::mark(mark);
        if let Some(table) = &table {
            edit.add(0, Arc::clone(table));
        }
        if let Some(run) = undo {
            edit.add_undo(run);
        }
        spilled.iter().for_each(|file| edit.add_graves(file.clone()));
        inner.versions.apply(&edit)?;
        self.publish_tables(|superversion| superversion.frozen.retain(|frozen| frozen.m != m));
        // Before it leaves the queue: the last mark is that of the youngest there, or this one.
        inner.flusher.mark.store(m, Ordering::Release);
        inner.upkeep.cold_due.lock().note_installed();
        self.end_spill(&spilled, m);
        inner.graveyard.spill.note_flush(job.graves_bytes);
        inner.flusher.frozen.pop(m);
        let memtable = &job.frozen().memtable;
        if let Some(pooled) = memtable.pooled() {
            self.retire(pooled, m);
        }
        self.note_undo(&edit);
        inner.figures.flushes.fetch_add(1, Ordering::Relaxed);
        let filled = memtable.used_bytes();
        inner.figures.work.memtable_bytes.fetch_add(filled, Ordering::Relaxed);
        let written = table.as_ref().map_or(0, |table| table.file_bytes());
        inner.figures.work.flushed_bytes.fetch_add(written, Ordering::Relaxed);
        self.adjust_pace();
        // Most of what died in the memtable's own time lies nowhere.
        self.forget_dead_ids();
        self.remove_old_checkpoints(&checkpoint);
        if let Some(log) = inner.write.log.load().as_ref() {
            // The flush stands; segments that stay do no harm, and the next flush retires them too.
            let _ = log.retire_through(m);
        }
        self.durable_moved();
        inner.upkeep.background.wake_compaction();
        Ok(())
    }

    /// The live versions of a run as a table of level 0, and those that only older readers need as an undo
    /// run (N6). None when there are none.
    fn write_table(
        &self,
        run: &Arc<Run>,
        snapshots: &[Seq],
        sync: bool,
        separates: bool,
    ) -> Result<(Option<Arc<Table>>, Option<UndoRun>), EngineError> {
        let inner = self.inner();
        let graves = ReaderGraves::new(self, self.has_graves());
        // What died in the memtable's own time must not lie below a claim of m, under which its id is
        // forgotten (N7).
        let dead = self.dead_ids_through(snapshots.last().copied().unwrap_or(0));
        let mut rule = KeepRule::new(snapshots, &graves).with_dead_ids(&dead).separating(separates);
        let mut builder: Option<TableWriter> = None;
        let mut undo = UndoWriter::new(&inner.versions);
        let mut expiring: Vec<(u64, usize)> = Vec::new();
        // What comes in order of keys overlaps nothing: no merge will compress it.
        let moved_to = run.key_range().and_then(|(min, max)| {
            let version = inner.versions.current();
            tree::level_moved_to(&version, &inner.compaction_options(), min, max)
        });
        // With no reader but those to come, only the newest version of a key can be needed (C2).
        let newest_only = snapshots.len() == 1;
        let mut next = 0;
        while next < run.len() {
            let index = next;
            run.prefetch_behind(index);
            next = if newest_only { run.skip_older_versions(index) } else { index + 1 };
            let record = run.record(index);
            match rule.fate(record.key, record.seq)? {
                Fate::Tree => {}
                Fate::Undo(through) => {
                    undo.add(record.key, record.seq, record.meta, record.value(), through)?;
                    continue;
                }
                Fate::Gone => continue,
            }
            let builder = match &mut builder {
                Some(builder) => builder,
                None => builder.insert(inner.versions.new_table_to_move(moved_to.unwrap_or(0))?),
            };
            builder.add(record.key, record.seq, record.meta, record.value())?;
            let due_ms = record.meta.due_ms(record.value());
            if due_ms != 0 {
                expiring.push((due_ms, index));
            }
        }
        let undo = undo.finish(rule.oldest_reader())?;
        let Some(mut builder) = builder else { return Ok((None, undo)) };
        self.add_expiry_records(&mut builder, run, expiring)?;
        Ok((Some(builder.finish(rule.buried_through(), sync)?), undo))
    }

    /// Index records `T | time | root key`, for the keys that still carry that expiry (N11).
    fn add_expiry_records(
        &self,
        builder: &mut TableWriter,
        run: &Run,
        mut expiring: Vec<(u64, usize)>,
    ) -> Result<(), EngineError> {
        expiring.sort_unstable();
        if let Some((first_ms, _)) = expiring.first() {
            self.inner().upkeep.cold_due.lock().note_written(*first_ms);
        }
        let mut key = Vec::new();
        for (at_ms, index) in expiring {
            let record = run.record(index);
            EngineKey::Expiry { due_ms: at_ms, root: record.key }.encode_into(&mut key);
            builder.add(&key, record.seq, Meta::default(), b"")?;
        }
        Ok(())
    }

    /// Rule D1: nothing is installed before the log up to its newest sequence is durable. Without a log the
    /// flush itself makes it so: table and checkpoint come in one edit (N2).
    fn wait_durable(&self, m: Seq) -> Result<(), EngineError> {
        if self.inner().policy() == SyncPolicy::Off {
            return Ok(());
        }
        match self.inner().write.log.load().as_ref() {
            // N2: the flush is self-contained: with table and checkpoint installed in one edit,
            // everything up to m is durable without the log.
            Some(log) if log.failure().is_some() => Ok(()),
            Some(log) => match log.sync_through(m) {
                Err(_) if log.failure().is_some() => Ok(()),
                result => Ok(result?),
            },
            // Replay: what is replayed was read from the device.
            None => Ok(()),
        }
    }

    pub(in crate::store) fn log_has_failed(&self) -> bool {
        self.inner().write.log.load().as_ref().is_some_and(|log| log.failure().is_some())
    }

    /// After a failure of the log, with everything it had taken by then in files (the memtable was
    /// frozen after the failure): it goes on in a fresh segment (N2).
    pub(in crate::store) fn heal_log(&self) -> Result<(), EngineError> {
        let inner = self.inner();
        if let Some(log) = inner.write.log.load().as_ref() {
            let resumed = log.resume_on_fresh_segment(inner.flusher.mark.load(Ordering::Acquire));
            match resumed {
                Ok(()) => inner.upkeep.health.works(Fault::Log),
                Err(error) => {
                    inner.upkeep.health.fails(Fault::Log, || error.to_string());
                    return Err(error.into());
                }
            }
            self.durable_moved();
        }
        Ok(())
    }

    pub(in crate::store) fn remove_old_checkpoints(&self, current: &Option<String>) {
        let inner = self.inner();
        let mut held = inner.flusher.checkpoint_file.lock();
        let old = std::mem::replace(&mut *held, current.clone());
        if let Some(old) = old.filter(|old| Some(old) != current.as_ref()) {
            // A file that cannot be removed now is removed at the next open.
            let _ = inner.options.storage.remove(&inner.tree_dir().join(old));
        }
    }
}

/// File name of a cemetery checkpoint.
pub(in crate::store) fn checkpoint_name(number: u64) -> String {
    format!("{number:06}.graves")
}

impl crate::store::engine::Inner {
    pub(in crate::store) fn tree_dir(&self) -> PathBuf {
        self.options.dir.join("tree")
    }
}

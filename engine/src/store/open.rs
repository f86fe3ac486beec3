//! Opening a store: manifest, checkpoint, replay, and only then the first new write.

use super::checkpoint;
use super::engine::{Engine, EngineError, Inner, Parts};
use super::graveyard::deadline::recycled_segments_max;
use super::latch::Latch;
use super::namespace::{FIRST_SEQ, Namespaces, SLOTS};
use super::options::{EngineOptions, SyncPolicy};
use super::pages::ShardPages;
use super::paper::dead_table::DeadTable;
use super::paper::{skiplist, tombstones};
use super::read::load::Loads;
use super::read::reads::ShardReads;
use super::read::superversion::SuperVersion;
use super::read::undo::UNDO_DIR;
use super::set_aside;
use super::shard::{Count, SHARDS, Shard, ShardState, shard_of};
use super::upkeep::events::Fault;
use super::upkeep::shares::log_buffer_bytes;
use super::upkeep::table_bound::RoomTurns;
use super::write::commit::CommitState;
use crate::cemetery::{Checkpoint, CheckpointError, Graves};
use crate::dram;
use crate::key::{EngineKey, Seq};
use crate::memtable::{ChunkPool, MemtableKind};
use crate::store::namespace;
use crate::tree::{MarkEdit, VersionEdit, VersionSet};
use sexton_persistence::aof::{
    Log, LogBuffer, LogError, LogLocation, LogOptions, LogSource, LogTail, Sealed, SealedBuffers,
    TailCut,
};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

/// One group of logged commands to be run again (N1).
#[derive(Clone, Copy, Debug)]
pub struct ReplayGroup<'a> {
    /// RESP arrays, one after the other.
    pub commands: &'a [u8],
    /// Bytes of the log read so far, and in all.
    pub progress: (u64, u64),
}

/// Runs the commands of a group again, through ordinary transactions; the text of an error refuses
/// the start.
pub type Replay<'r> = &'r mut dyn FnMut(&Engine, ReplayGroup<'_>) -> Result<(), String>;

/// What was found at the start, for the log.
#[derive(Clone, Debug, Default)]
pub struct OpenReport {
    /// The recovery mark of the manifest.
    pub mark: Seq,
    /// Last sequence recovered.
    pub recovered_seq: Seq,
    /// Groups replayed.
    pub groups: u64,
    /// Bytes of a torn tail that were cut off, with its file.
    pub torn: Option<(String, u64)>,
    /// Tables that were carried to the places of their levels.
    pub carried_tables: u64,
}

/// A store whose files are open and whose log is not replayed yet.
pub struct Opening {
    engine: Engine,
    mark: Seq,
    carried_tables: u64,
}

impl Opening {
    /// The store as it is so far: for figures and settings, while [`finish`](Self::finish) brings back its keys.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Replays the log, and starts the background threads.
    ///
    /// # Errors
    /// As [`Engine::open`].
    pub fn finish(self, replay: Replay<'_>) -> Result<(Engine, OpenReport), EngineError> {
        let Self { engine, mark, carried_tables } = self;
        if engine.inner().options.background {
            engine.start_cold_reads();
        }
        let report = engine.recover(mark, replay).inspect_err(|_| engine.stop_threads())?;
        engine.adjust_memory_bound();
        if engine.inner().options.background {
            engine.start_background();
        }
        Ok((engine, OpenReport { carried_tables, ..report }))
    }
}

impl From<LogError> for EngineError {
    fn from(error: LogError) -> Self {
        Self::Storage(error.to_string())
    }
}

impl From<CheckpointError> for EngineError {
    fn from(error: CheckpointError) -> Self {
        Self::Corrupt(error.to_string())
    }
}

/// Hands the log thread what was appended.
struct Source(Weak<Inner>);

impl LogSource for Source {
    fn take(&self, spare: SealedBuffers) -> Option<Sealed> {
        self.0.upgrade().and_then(|inner| inner.write.commit.lock().log.take(spare))
    }
}

impl Engine {
    /// Opens the store in `options.dir`, replaying the log behind the recovery mark.
    ///
    /// With [`SyncPolicy::Off`] the tree of an earlier run without a log is overflow only and is wiped;
    /// a store with a log waits beside it until it is opened with one again (N3).
    ///
    /// # Errors
    /// A failing medium, a damaged file, a lock held by another process, or a log that does not fit
    /// the state it is replayed on. Nothing was changed then, except that a torn tail may be cut.
    pub fn open(
        options: EngineOptions,
        replay: Replay<'_>,
    ) -> Result<(Self, OpenReport), EngineError> {
        Self::begin_open(options)?.finish(replay)
    }

    /// The first half of [`open`](Self::open): takes the directory and reads what tables and graves there are.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn begin_open(mut options: EngineOptions) -> Result<Opening, EngineError> {
        if options.write_behind {
            if options.memtable == MemtableKind::SkipList {
                let reason = "memtable skiplist needs a log: persistence-mode wbl has none";
                return Err(EngineError::Refused(reason.into()));
            }
            options.sync_policy = SyncPolicy::Always;
        }
        let storage = Arc::clone(&options.storage);
        let tree_dir = options.dir.join("tree");
        storage.create_dir_all(&options.dir)?;
        let lock = storage.lock_dir(&options.dir)?;
        checkpoint::clear_partial(&*storage, &options.dir)?;
        remove_new_manifest(&options)?;
        let logged = options.sync_policy != SyncPolicy::Off;
        set_aside::prepare_data_dir(
            &*storage,
            &options.dir,
            options.log_dir_name.as_ref(),
            logged,
        )?;
        storage.create_dir_all(&tree_dir)?;
        let places = options.level_places.clone();
        let versions = VersionSet::open_placed(
            Arc::clone(&storage),
            &tree_dir,
            options.tree_options(),
            places,
        )?;
        let carried_tables = versions.carried();
        fix_deletes(&options, &versions)?;
        if options.undo_runs {
            let dir = options.undo_dir.clone().unwrap_or_else(|| options.dir.join(UNDO_DIR));
            let undo_storage = options.undo_storage.as_ref().unwrap_or(&options.storage);
            versions.set_undo_place(Arc::clone(undo_storage), &dir)?;
        }
        let state = versions.recovered_mark();
        let mark = state.as_ref().map_or(FIRST_SEQ - 1, |state| state.m);
        let engine = Self::assemble(options, versions, mark);
        *engine.inner().upkeep.dir_lock.lock() = Some(lock);
        engine.restore(state.as_ref())?;
        let begins = |key: &[u8]| key.first() == Some(&crate::key::KIND_ELEMENT);
        if engine.inner().versions.current().tables().any(|(_, t)| begins(&t.properties().min_key))
        {
            engine.inner().graveyard.collections.note();
        }
        Ok(Opening { engine, mark, carried_tables })
    }

    /// A store on simulated storage without a log, for tests of the layers above.
    ///
    /// # Errors
    /// None that a working process could see.
    pub fn in_memory(databases: usize) -> Result<Self, EngineError> {
        let storage = Arc::new(sexton_persistence::device::sim::SimStorage::new());
        let options = EngineOptions {
            sync_policy: SyncPolicy::Off,
            databases,
            ..EngineOptions::new(storage, "data".into())
        };
        Ok(Self::open(options, &mut |_, _| Ok(()))?.0)
    }

    fn assemble(options: EngineOptions, versions: VersionSet, mark: Seq) -> Self {
        let pages = dram::PagePool::new();
        let due_alarm = Arc::<dram::DueAlarm>::default();
        let shards = (0..SHARDS).map(|number| {
            let mut table = dram::Table::new(Arc::clone(&pages));
            table.set_due_alarm(Arc::clone(&due_alarm));
            let graves = Graves::default();
            Shard {
                hint: table.hint(),
                graves: AtomicUsize::new(0),
                grave_filter: graves.filter(),
                latch: Latch::new(ShardState {
                    number,
                    room_turns: RoomTurns::default(),
                    table,
                    noted_bytes: 0,
                    noted_mapped_bytes: 0,
                    noted_data_bytes: 0,
                    graves,
                    unsorted_dead: DeadTable::default(),
                    complete: false,
                    loads: Loads::default(),
                    pages: ShardPages::default(),
                    page_loads: Loads::default(),
                    counts: Box::new([Count::default(); SLOTS]),
                    unresolved: Vec::new(),
                    reads: ShardReads::default(),
                }),
            }
        });
        let memtable_bytes = options.memtable_bytes as usize;
        let pool = ChunkPool::new(memtable_bytes, options.memory_bound_bytes != 0);
        let dead_keys = tombstones::chosen(options.deletes);
        let order = skiplist::chosen(options.memtable);
        let active = order.new_memtable(Arc::clone(&pool), 1, mark + 1);
        let superversion = SuperVersion {
            number: 1,
            active: Arc::clone(&active),
            frozen: Vec::new(),
            version: versions.current(),
        };
        let mut log = LogBuffer::new(mark);
        log.set_routes(options.log_routes.iter().map(|route| route.least_bytes).collect());
        let commit = CommitState::new(mark + 1, log, active);
        let shards = shards.collect();
        let namespaces = Namespaces::new(options.databases);
        let parts = Parts {
            options,
            dead_keys,
            order,
            shards,
            pages,
            commit,
            namespaces,
            superversion,
            versions,
            pool,
            due_alarm,
        };
        let inner = Inner::new(parts);
        inner.flusher.mark.store(mark, Ordering::Release);
        Self(Arc::new(inner))
    }

    /// State of the recovery mark: namespaces, counts, dead ids, graves.
    fn restore(&self, state: Option<&MarkEdit>) -> Result<(), EngineError> {
        let inner = self.inner();
        let grave_files = inner.versions.grave_files();
        let mut any_grave = !grave_files.is_empty();
        inner.graveyard.spill.runs.change(&grave_files, &[], 0);
        if let Some(state) = state {
            refuse_fewer_databases(&inner.options, state)?;
            inner.namespaces.restore(&state.namespaces);
            for (db, &(keys, expires)) in
                state.counts.iter().enumerate().take(inner.namespaces.databases())
            {
                let mut shard = inner.shards[0].latch();
                let slot = inner.namespaces.slot_of(db);
                *shard.count_mut(slot) = Count { keys: keys as i64, expires: expires as i64 };
            }
            *inner.graveyard.dead.lock() = state.dead.iter().copied().collect();
            if let Some(name) = &state.checkpoint {
                let path = inner.tree_dir().join(name);
                let checkpoint = Checkpoint::read(&*inner.options.storage, &path)?;
                if checkpoint.c != state.m {
                    return Err(EngineError::Corrupt(format!(
                        "cemetery checkpoint {} is of sequence {}, expected {}",
                        path.display(),
                        checkpoint.c,
                        state.m
                    )));
                }
                any_grave |= !checkpoint.graves.is_empty();
                for (key, d) in checkpoint.graves {
                    if EngineKey::is_element(&key) {
                        inner.graveyard.elements.open(&key, d);
                        continue;
                    }
                    let user = namespace::split(&key).map_or(key.as_ref(), |(_, user)| user);
                    let hash = inner.hash(user);
                    let shard = &inner.shards[shard_of(hash)];
                    if shard.latch().graves.open(hash, key.clone(), d) {
                        inner.graveyard.places.note(&key);
                    }
                    shard.graves.fetch_add(1, Ordering::AcqRel);
                }
                for run in checkpoint.dead_runs {
                    inner.graveyard.dead_runs.add(run);
                }
                *inner.flusher.checkpoint_file.lock() = Some(name.clone());
            }
        }
        let empty = inner.versions.current().is_empty() && !any_grave;
        for shard in &inner.shards {
            shard.latch().complete = empty;
        }
        Ok(())
    }

    /// Replays the log and opens it for writing.
    pub(super) fn recover_log(
        &self,
        mark: Seq,
        replay: Replay<'_>,
    ) -> Result<OpenReport, EngineError> {
        let (tail, report) = self.replay_log(mark, replay)?;
        let after_seq = self.inner().write.commit.lock().next_seq - 1;
        self.start_log(tail, after_seq, self.inner().policy())?;
        self.inner().write.commit.lock().log_on = true;
        Ok(report)
    }

    /// Replays the log, and answers where it ends.
    pub(super) fn replay_log(
        &self,
        mark: Seq,
        replay: Replay<'_>,
    ) -> Result<(LogTail, OpenReport), EngineError> {
        let inner = self.inner();
        let location = self.log_location();
        let storage = Arc::clone(&inner.options.storage);
        storage.create_dir_all(&location.dir)?;
        let mut recovery = sexton_persistence::aof::recover(&storage, &location, mark, mark)?;
        let mut groups = 0;
        loop {
            let progress = recovery.progress();
            let Some(group) = recovery.next_group()? else { break };
            let before = inner.write.commit.lock().next_seq;
            let place = || format!("{} at byte {}", group.file.display(), group.offset);
            if group.first_seq != before {
                return Err(EngineError::Replay(format!(
                    "{}: group starts at sequence {}, expected {before}",
                    place(),
                    group.first_seq
                )));
            }
            replay(self, ReplayGroup { commands: group.commands, progress })
                .map_err(|text| EngineError::Replay(format!("{}: {text}", place())))?;
            let after = inner.write.commit.lock().next_seq;
            if after - before != group.count {
                return Err(EngineError::Replay(format!(
                    "{}: {} operations, the log says {}",
                    place(),
                    after - before,
                    group.count
                )));
            }
            groups += 1;
            if self.memtable_is_full() || inner.graveyard.spill.is_overfull() {
                self.flush_now()?;
            }
        }
        let torn_tail = recovery.torn_tail().filter(|_| !inner.options.log_load_truncated);
        if let Some(cut) = torn_tail {
            return Err(EngineError::Refused(refuse_torn(&cut)));
        }
        let tail = recovery.finish()?;
        let torn = tail.cut.as_ref().map(|cut| (cut.file.display().to_string(), cut.lost_bytes));
        let recovered_seq = tail.last_seq;
        let mut commit = inner.write.commit.lock();
        let after_seq = commit.next_seq - 1;
        commit.log = commit.log.successor(after_seq);
        Ok((tail, OpenReport { mark, recovered_seq, groups, torn, ..OpenReport::default() }))
    }

    pub(super) fn log_location(&self) -> LogLocation {
        let options = &self.inner().options;
        let dir = options.dir.join(&options.log_dir_name);
        LogLocation { dir, file_name: options.log_file_name.clone() }
    }

    /// Opens the log behind `after_seq`, where its buffer begins.
    pub(super) fn start_log(
        &self,
        tail: LogTail,
        after_seq: Seq,
        policy: SyncPolicy,
    ) -> Result<(), EngineError> {
        let inner = self.inner();
        let mut options = LogOptions::new(self.log_location());
        // Not what the store was opened with: the log may begin later, under another bound.
        let bound_bytes = inner.memory.shares.bound_bytes();
        options.buffer_limit_bytes =
            log_buffer_bytes(bound_bytes, inner.options.log_buffer_bytes as u64);
        options.segment_bytes = inner.options.log_segment_bytes;
        options.archive_dir.clone_from(&inner.options.log_archive_dir);
        options.routes.clone_from(&inner.options.log_routes);
        options.threads = inner.options.background;
        options.recycled_segments_max = recycled_segments_max(inner.graveyard.deadline.limit_ms());
        if let Some(policy) = policy.of_log() {
            options.policy = policy;
        }
        let source = Arc::new(Source(Arc::downgrade(&self.0)));
        let gauge = inner.write.commit.lock().log.gauge();
        let storage = Arc::clone(&inner.options.storage);
        let log = Log::open(storage, options, tail, after_seq, source, gauge)?;
        let weak = Arc::downgrade(&self.0);
        log.on_durable(Box::new(move |_| {
            if let Some(inner) = weak.upgrade() {
                Self(inner).durable_moved();
            }
        }));
        let weak = Arc::downgrade(&self.0);
        log.on_failure(Box::new(move |reason| {
            if let Some(inner) = weak.upgrade() {
                inner.upkeep.health.fails(Fault::Log, || reason.to_owned());
                inner.upkeep.background.freeze_early();
            }
        }));
        inner.write.log.store(Some(Arc::new(log)));
        Ok(())
    }

    /// Tells all waiters that `durable()` may have advanced.
    pub(super) fn durable_moved(&self) {
        let durable = self.durable();
        for callback in self.inner().write.durable_callbacks.lock().iter() {
            callback(durable);
        }
    }
}

/// What `aof-load-truncated no` says of a torn end, as Redis does, with our own tool.
fn refuse_torn(cut: &TailCut) -> String {
    format!(
        "Unexpected end of file reading the append only file {} at byte {}: {} bytes behind it \
         are no whole group. You can: 1) Make a backup of your AOF files, then use sexton-check \
         --truncate-log on the data directory. 2) Alternatively you can set the 'aof-load-truncated' configuration option to yes and \
         restart the server.",
        cut.file.display(),
        cut.offset,
        cut.lost_bytes
    )
}

/// A list of log segments that a crash has left unfinished: without a log nobody would make the next one in its place.
fn remove_new_manifest(options: &EngineOptions) -> Result<(), EngineError> {
    let dir = options.dir.join(&options.log_dir_name);
    let path = LogLocation { dir, file_name: options.log_file_name.clone() }.new_manifest_path();
    if options.storage.exists(&path)? {
        options.storage.remove(&path)?;
    }
    Ok(())
}

/// The databases behind the last one in use must be empty: their keys could not be reached, and would not be lost.
fn refuse_fewer_databases(options: &EngineOptions, state: &MarkEdit) -> Result<(), EngineError> {
    let is_used = |counts: &(u64, u64)| counts.0 > 0;
    let used = state.counts.iter().rposition(is_used).map_or(0, |last| last + 1);
    if used <= options.databases {
        return Ok(());
    }
    let keys = state.counts[used - 1].0;
    Err(EngineError::Refused(format!(
        "database {} of the store in {} has {keys} keys, and there are {} databases now: start with databases \
         {used} or more, and empty it first",
        used - 1,
        options.dir.display(),
        options.databases
    )))
}

/// A new store notes how it keeps deletes; an old one is opened only as what it is, because neither
/// way reads what the other has written.
fn fix_deletes(options: &EngineOptions, versions: &VersionSet) -> Result<(), EngineError> {
    let wanted = options.deletes;
    match versions.deletes() {
        Some(found) if found == wanted => Ok(()),
        Some(found) => Err(EngineError::Refused(format!(
            "the store in {} keeps deletes as \"{found}\" and was opened with deletes = {wanted}: \
             this is fixed when a store is made",
            options.dir.display()
        ))),
        None => {
            let mut edit = VersionEdit::new();
            edit.set_deletes(wanted);
            versions.apply(&edit)?;
            Ok(())
        }
    }
}

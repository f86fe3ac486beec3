//! Graves beyond `cemetery-max-memory`: spilled to grave runs by the flush that seals them, merged, and
//! forgotten by F2.
//!
//! A spill is part of a flush: the graves at or below its mark m go to a run that the manifest edit of m
//! names, and the checkpoint of m leaves them out (N1, D2). Only what the mark has passed is in a run, so
//! whatever uses it is durable (D1). Deleting faster than flushes spill is paced, never refused.

use super::engine::{Engine, EngineError};
use super::superversion::SuperVersion;
use super::sweep;
use crate::cemetery::{Grave, GraveRuns, RunList, memory_of_grave};
use crate::key::{Meta, Seq};
use crate::table::{ReadMode, Table, TableError, TableResult};
use crate::tree::{
    DeadCounts, GraveFile, KeepRule, LevelIter, MergeIter, NoGraves, Source, TableWriter,
    VersionEdit, VersionSet,
};
use parking_lot::Mutex;
use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A flush spills when graves take more than one part of so many of the bound.
const SPILL_SHARE: u64 = 8;

/// New graves of one part of so many of the bound freeze the memtable, whatever it holds: burial and
/// spilling wait for the mark.
const FREEZE_SHARE: u64 = 5;

/// The same without a bound, in bytes.
const FREEZE_BYTES_MAX: u64 = 24 << 20;

/// Parts of the bound, in percent, from which on new graves wait for the flush. What is sealed then, its
/// copy while it is sorted, and what is opened meanwhile stay below the bound together.
const WAIT_PERCENT: u64 = 30;

/// Graves between two looks at the stop flag.
const CHECK_GRAVES: u64 = 4096;

/// The bound of the cemetery's memory, and what lies beyond it.
pub(super) struct Spill {
    /// `cemetery-max-memory`; 0 for none.
    max_bytes: u64,
    pub(super) runs: GraveRuns,
    /// Memory of the graves opened since a memtable was last frozen, estimated.
    unmarked_bytes: AtomicU64,
    /// Bytes of grave runs written since the start: spilled, and merged.
    pub(super) spilled_bytes: AtomicU64,
    pub(super) merged_bytes: AtomicU64,
    /// The deadline wants runs rewritten without what is buried (N17).
    pub(super) scrub_wanted: AtomicBool,
    /// Dead versions of tables by the graves of runs (N5).
    pub(super) counts: Mutex<DeadCounts>,
    /// Held while runs are retired or merged.
    tending: Mutex<()>,
}

impl Spill {
    pub(super) fn new(max_bytes: u64) -> Self {
        Self {
            max_bytes,
            runs: GraveRuns::default(),
            unmarked_bytes: AtomicU64::new(0),
            spilled_bytes: AtomicU64::new(0),
            merged_bytes: AtomicU64::new(0),
            scrub_wanted: AtomicBool::new(false),
            counts: Mutex::default(),
            tending: Mutex::new(()),
        }
    }

    /// Notes a grave that was opened; true when it is time to freeze.
    pub(super) fn note_grave(&self, key_bytes: usize) -> bool {
        let bytes = memory_of_grave(key_bytes) as u64;
        let before = self.unmarked_bytes.fetch_add(bytes, Ordering::Relaxed);
        let limit = match self.max_bytes {
            0 => FREEZE_BYTES_MAX,
            max => FREEZE_BYTES_MAX.min(max / FREEZE_SHARE).max(1),
        };
        before / limit != (before + bytes) / limit
    }

    /// All graves there are belong to a frozen memtable now.
    pub(super) fn note_freeze(&self) {
        self.unmarked_bytes.store(0, Ordering::Relaxed);
    }

    /// True when graves were opened since the last freeze.
    pub(super) fn has_unmarked(&self) -> bool {
        self.unmarked_bytes.load(Ordering::Relaxed) > 0
    }

    /// True when deletes must wait for a flush.
    pub(super) fn is_overfull(&self) -> bool {
        let limit = self.max_bytes / 100 * WAIT_PERCENT;
        self.max_bytes != 0 && self.unmarked_bytes.load(Ordering::Relaxed) > limit
    }

    /// True when graves that take `bytes` of memory are to be spilled with the next mark.
    fn is_wanted(&self, bytes: u64) -> bool {
        self.max_bytes != 0 && bytes > self.max_bytes / SPILL_SHARE
    }
}

/// Writes one run, cut into files.
struct RunWriter<'a> {
    versions: &'a VersionSet,
    filter_bits: u8,
    file_bytes: u64,
    sync: bool,
    writer: Option<TableWriter>,
    tables: Vec<Arc<Table>>,
    last_key: Vec<u8>,
    graves: u64,
}

impl<'a> RunWriter<'a> {
    fn new(engine: &'a Engine, sync: bool) -> Self {
        let inner = engine.inner();
        Self {
            versions: &inner.versions,
            filter_bits: inner.options.filter_bits_per_key,
            file_bytes: inner.compaction_options().output_bytes,
            sync,
            writer: None,
            tables: Vec::new(),
            last_key: Vec::new(),
            graves: 0,
        }
    }

    /// Adds a grave: keys ascending, the graves of a key newest first.
    fn add(&mut self, key: &[u8], d: Seq) -> TableResult<()> {
        let full = self.writer.as_ref().is_some_and(|w| w.data_bytes() >= self.file_bytes);
        if full && self.last_key != key {
            self.close()?;
        }
        let writer = match &mut self.writer {
            Some(writer) => writer,
            None => self.writer.insert(self.versions.new_graves(self.filter_bits)?),
        };
        writer.add(key, d, Meta::tombstone(), b"")?;
        self.graves += 1;
        if writer.data_bytes() >= self.file_bytes {
            self.last_key.clear();
            self.last_key.extend_from_slice(key);
        }
        Ok(())
    }

    fn close(&mut self) -> TableResult<()> {
        if let Some(writer) = self.writer.take() {
            self.tables.push(writer.finish(0, self.sync)?);
        }
        Ok(())
    }

    /// The files, named after the first of them.
    fn finish(mut self) -> TableResult<Vec<GraveFile>> {
        self.close()?;
        let run = self.tables.first().map_or(0, |table| table.number());
        Ok(self.tables.into_iter().map(|table| GraveFile { run, table }).collect())
    }
}

fn bytes_of(files: &[GraveFile]) -> u64 {
    files.iter().map(|file| file.table.file_bytes()).sum()
}

/// The store as a sweep sees it. The superversion comes first: a reader that is not among the pins yet
/// gets this one or a later (F3).
pub(super) struct SweepLook {
    pub(super) superversion: Arc<SuperVersion>,
    pub(super) snapshots: Vec<Seq>,
    pub(super) oldest_reader: u64,
    /// No memtable has a version below.
    pub(super) memtables_from: Seq,
    /// Graves at or below pass F2(b).
    all_buried_through: Seq,
    has_deadline: bool,
}

impl SweepLook {
    pub(super) fn new(engine: &Engine) -> Self {
        let inner = engine.inner();
        let superversion = inner.superversion.load_full();
        let snapshots = inner.pins.sequences();
        let oldest_reader = inner.pins.oldest_superversion();
        let memtables_from = superversion
            .frozen
            .iter()
            .map(|frozen| frozen.memtable.first_seq)
            .fold(superversion.active.first_seq, Seq::min);
        Self {
            snapshots,
            oldest_reader,
            memtables_from,
            all_buried_through: superversion.version.min_buried_through(),
            has_deadline: inner.deadline.is_set(),
            superversion,
        }
    }

    /// F2 but for its part (b), which is `files`. With a deadline expiry index records, which name
    /// keys, count like versions (N17).
    fn is_past(&self, d: Seq, files: impl FnOnce() -> bool) -> bool {
        let version = &self.superversion.version;
        self.memtables_from > d
            && files()
            && (!self.has_deadline || version.expiry_index_before(d).next().is_none())
    }

    /// Rule F2 for one grave.
    pub(super) fn is_buried(&self, key: &[u8], d: Seq) -> bool {
        let version = &self.superversion.version;
        self.is_past(d, || d <= self.all_buried_through || sweep::is_buried(version, key, d))
    }

    /// Rule F2 for all graves of a file at once.
    fn is_past_all_of(&self, graves: &Table) -> bool {
        let (p, version) = (graves.properties(), &self.superversion.version);
        let undo = version.undo_runs().iter().map(|run| &run.table);
        let mut files = version.tables().map(|(_, table)| table).chain(undo);
        self.is_past(p.max_seq, || {
            files.all(|table| {
                let of = table.properties();
                let apart = *of.max_key < *p.min_key || *p.max_key < *of.min_key;
                apart || of.min_seq > p.max_seq || of.buried_through >= p.max_seq
            })
        })
    }
}

impl Engine {
    /// With the flush of the mark `m`: the graves at or below it as a run, when there is need. Those that
    /// F1 lets go at m, and those in limbo (F3), need no run.
    pub(super) fn write_spill(&self, m: Seq, sync: bool) -> Result<Vec<GraveFile>, EngineError> {
        let inner = self.inner();
        if inner.has_tombstones() || !inner.spill.is_wanted(self.cemetery_bytes()) {
            return Ok(Vec::new());
        }
        let snapshots = self.snapshots_through(m);
        // With a deadline closed graves stay, too, until what they killed is gone (N17).
        let has_deadline = inner.deadline.is_set();
        let is_needed = |grave: &&Grave| has_deadline || !grave.may_go_closed(m, m, &snapshots);
        let mut graves = Vec::new();
        for shard in &inner.shards {
            if shard.graves.load(Ordering::Acquire) > 0 {
                let state = shard.state.lock();
                let sealed = state.graves.sealed_through(m).filter(is_needed);
                graves.extend(sealed.map(|grave| (grave.key.clone(), Reverse(grave.d))));
            }
        }
        graves.sort_unstable();
        let mut run = RunWriter::new(self, sync);
        for (key, Reverse(d)) in &graves {
            run.add(key, *d)?;
        }
        let files = run.finish()?;
        inner.spill.spilled_bytes.fetch_add(bytes_of(&files), Ordering::Relaxed);
        Ok(files)
    }

    /// The manifest names the run of mark `m`: readers find it, and then its graves leave memory. One
    /// that was not written goes by F1, which holds as it did then: who reads since is above m.
    pub(super) fn end_spill(&self, files: &[GraveFile], m: Seq) {
        let inner = self.inner();
        if files.is_empty() {
            return;
        }
        inner.spill.runs.change(files, &[], 0);
        for shard in &inner.shards {
            if shard.graves.load(Ordering::Acquire) > 0 {
                let mut state = shard.state.lock();
                state.graves.retain(|_, grave| !grave.is_sealed_through(m));
                shard.graves.store(state.graves.len(), Ordering::Release);
            }
        }
    }

    /// Retires files of runs whose graves are all buried, and merges runs; true when something was done.
    pub(super) fn tend_grave_runs(&self) -> Result<bool, EngineError> {
        let inner = self.inner();
        let runs = &inner.spill.runs;
        if runs.is_empty() {
            return Ok(false);
        }
        let Some(_tending) = inner.spill.tending.try_lock() else { return Ok(false) };
        let look = SweepLook::new(self);
        runs.end_limbo(look.oldest_reader);
        let list = runs.load();
        let past: Vec<u64> = list
            .in_use()
            .filter(|file| look.is_past_all_of(&file.table))
            .map(|file| file.table.number())
            .collect();
        if !past.is_empty() {
            self.replace_graves(&look, &past, &[])?;
            return Ok(true);
        }
        let inputs = list.pick_merge();
        if !inputs.is_empty() {
            self.merge_graves(&look, &inputs)?;
            return Ok(true);
        }
        if inner.spill.scrub_wanted.swap(false, Ordering::AcqRel) {
            return self.scrub_grave_runs(&look, &list);
        }
        Ok(false)
    }

    /// Takes files of runs out of the manifest, and adds others. Everything that made them unnecessary
    /// is in the manifest already (D4).
    fn replace_graves(
        &self,
        look: &SweepLook,
        gone: &[u64],
        added: &[GraveFile],
    ) -> Result<(), EngineError> {
        let inner = self.inner();
        let mut edit = VersionEdit::new();
        gone.iter().for_each(|&number| edit.delete_graves(number));
        added.iter().for_each(|file| edit.add_graves(file.clone()));
        inner.versions.apply(&edit)?;
        inner.spill.runs.change(added, gone, look.superversion.number);
        inner.deadline.has_traces.store(true, Ordering::Release);
        Ok(())
    }

    /// Merges files of runs into a run without the graves that are buried (F2), those that no member of
    /// S has for its D (F4), and those of dead namespaces (N7). Answers whether there were such.
    ///
    /// F4 is C2 for graves: d is kept exactly if it is the newest at or below some s. All are at or
    /// below the mark, which is a member of S.
    fn merge_graves(&self, look: &SweepLook, inputs: &[GraveFile]) -> Result<bool, EngineError> {
        let inner = self.inner();
        let now = inner.mark.load(Ordering::Acquire);
        let snapshots = self.snapshots_through(now);
        let dead = self.droppable_ids(now);
        let mut rule = KeepRule::new(&snapshots, &NoGraves).with_dead_ids(&dead);
        let sources = inputs
            .iter()
            .map(|file| LevelIter::new(Arc::from([Arc::clone(&file.table)]), ReadMode::Sequential));
        let mut input = MergeIter::new(sources.collect());
        let syncs_tables = inner.syncs_tables.read();
        let mut output = RunWriter::new(self, *syncs_tables);
        let mut read = 0u64;
        input.seek(b"")?;
        while input.valid() {
            read += 1;
            if read.is_multiple_of(CHECK_GRAVES)
                && inner.background.stop_flag().load(Ordering::Relaxed)
            {
                return Err(TableError::Cancelled.into());
            }
            let (key, d) = (input.key(), input.seq());
            if rule.keeps(key, d)? && !look.is_buried(key, d) {
                output.add(key, d)?;
            }
            input.next()?;
        }
        let dropped = output.graves < read;
        // A single file that nothing leaves is as good as before.
        if dropped || inputs.len() > 1 {
            let files = output.finish()?;
            inner.spill.merged_bytes.fetch_add(bytes_of(&files), Ordering::Relaxed);
            let gone: Vec<u64> = inputs.iter().map(|file| file.table.number()).collect();
            self.replace_graves(look, &gone, &files)?;
        }
        Ok(dropped)
    }

    /// Rewrites the files of runs that name deletes older than the deadline allows, without what is
    /// buried (N17).
    fn scrub_grave_runs(&self, look: &SweepLook, list: &RunList) -> Result<bool, EngineError> {
        let overdue = self.inner().deadline.overdue();
        let mut any = false;
        for file in list.in_use().filter(|file| file.table.properties().min_seq <= overdue) {
            any |= self.merge_graves(look, std::slice::from_ref(file))?;
        }
        Ok(any)
    }

    /// True when burial should free graves although few are to be had: some had to be spilled, or memory
    /// for them is half used.
    pub(super) fn cemetery_is_pressed(&self) -> bool {
        let spill = &self.inner().spill;
        spill.max_bytes != 0
            && (!spill.runs.is_empty() || self.cemetery_bytes() > spill.max_bytes / 2)
    }

    /// Memory of the graves that are not spilled.
    pub(super) fn cemetery_bytes(&self) -> u64 {
        let shards = self.inner().shards.iter();
        shards.map(|shard| shard.state.lock().graves.bytes() as u64).sum()
    }
}

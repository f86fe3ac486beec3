//! Graves beyond `cemetery-max-memory`: spilled to grave runs by the flush that seals them.
//!
//! A spill is part of a flush: the graves at or below its mark m go to a run that the manifest edit of m
//! names, and the checkpoint of m leaves them out (N1, D2). Only what the mark has passed is in a run, so
//! whatever uses it is durable (D1). Deleting faster than flushes spill is paced, never refused.

mod run_writer;
mod tend;

use crate::cemetery::{Grave, GraveRuns, memory_of_grave};
use crate::key::Seq;
use crate::store::engine::{Engine, EngineError};
use crate::tree::{DeadCounts, GraveFile};
use parking_lot::Mutex;
use run_writer::RunWriter;
use std::cmp::Reverse;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A flush spills when graves take more than one part of so many of the bound.
const SPILL_SHARE: u64 = 8;

/// New graves of one part of so many of the bound freeze the memtable, whatever it holds: burial and
/// spilling wait for the mark.
const FREEZE_SHARE: u64 = 5;

/// The same without a bound, in bytes.
const FREEZE_BYTES_MAX: u64 = 24 << 20;

/// New graves of so many bytes freeze the memtable, too, once no other has come for [`REST_MS`]: what they cover would
/// stay on the disk, and in the way of scans, until somebody writes again.
const REST_BYTES_MIN: u64 = 256 << 10;

/// How long deletes must have been over for that.
const REST_MS: u64 = 2000;

/// Parts of the bound, in percent, from which on new graves wait for the flush; together with those that wait for it
/// already, twice as much. What is sealed then, its copy while it is sorted, and what is opened meanwhile
/// stay below the bound.
const WAIT_PERCENT: u64 = 30;

/// Graves have one part of this many of the bound of the process, whatever `cemetery-max-memory` says.
const MEMORY_SHARE: u64 = 16;

/// The bound of the cemetery's memory, and what lies beyond it.
pub(in crate::store) struct Spill {
    /// `cemetery-max-memory`; 0 for none.
    max_bytes: AtomicU64,
    /// The bound of the process; 0 for none.
    memory_bound_bytes: AtomicU64,
    pub(in crate::store) runs: GraveRuns,
    /// Memory of the graves opened since a memtable was last frozen, estimated.
    unmarked_bytes: AtomicU64,
    /// The same for those that wait for the flush of a frozen memtable.
    sealed_bytes: AtomicU64,
    /// `unmarked_bytes` when it was last seen to change, and that time in ms.
    seen: Mutex<(u64, u64)>,
    /// Bytes of grave runs written since the start: spilled, and merged.
    pub(in crate::store) spilled_bytes: AtomicU64,
    pub(in crate::store) merged_bytes: AtomicU64,
    /// The deadline wants runs rewritten without what is buried (N17).
    pub(in crate::store) scrub_wanted: AtomicBool,
    /// Dead versions of tables by the graves of runs (N5).
    pub(in crate::store) counts: Mutex<DeadCounts>,
    /// Held while runs are retired or merged.
    tending: Mutex<()>,
}

impl Spill {
    pub(in crate::store) fn new(max_bytes: u64, memory_bound_bytes: u64) -> Self {
        Self {
            max_bytes: AtomicU64::new(max_bytes),
            memory_bound_bytes: AtomicU64::new(memory_bound_bytes),
            runs: GraveRuns::default(),
            unmarked_bytes: AtomicU64::new(0),
            sealed_bytes: AtomicU64::new(0),
            seen: Mutex::default(),
            spilled_bytes: AtomicU64::new(0),
            merged_bytes: AtomicU64::new(0),
            scrub_wanted: AtomicBool::new(false),
            counts: Mutex::default(),
            tending: Mutex::new(()),
        }
    }

    /// `cemetery-max-memory`; 0 for none.
    pub(in crate::store) fn configured_max_bytes(&self) -> u64 {
        self.max_bytes.load(Ordering::Relaxed)
    }

    fn max_bytes(&self) -> u64 {
        let max = self.max_bytes.load(Ordering::Relaxed);
        match self.memory_bound_bytes.load(Ordering::Relaxed) / MEMORY_SHARE {
            0 => max,
            share if max == 0 => share,
            share => max.min(share),
        }
    }

    /// The bound of the process has changed.
    pub(in crate::store) fn set_memory_bound(&self, bytes: u64) {
        self.memory_bound_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Notes a grave that was opened; true when it is time to freeze.
    pub(in crate::store) fn note_grave(&self, key_bytes: usize) -> bool {
        let bytes = memory_of_grave(key_bytes) as u64;
        let before = self.unmarked_bytes.fetch_add(bytes, Ordering::Relaxed);
        let limit = match self.max_bytes() {
            0 => FREEZE_BYTES_MAX,
            max => FREEZE_BYTES_MAX.min(max / FREEZE_SHARE).max(1),
        };
        before / limit != (before + bytes) / limit
    }

    /// All graves there are belong to a frozen memtable now; answers the bytes of those that did not before.
    pub(in crate::store) fn note_freeze(&self) -> u64 {
        let bytes = self.unmarked_bytes.swap(0, Ordering::Relaxed);
        self.sealed_bytes.fetch_add(bytes, Ordering::Relaxed);
        bytes
    }

    /// A flush has installed a memtable, at whose freeze there were so many bytes of new graves.
    pub(in crate::store) fn note_flush(&self, bytes: u64) {
        self.sealed_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// True when many graves wait for a mark, and deletes have been over for a while.
    pub(in crate::store) fn is_at_rest(&self, now_ms: u64) -> bool {
        let unmarked = self.unmarked_bytes.load(Ordering::Relaxed);
        let mut seen = self.seen.lock();
        if seen.0 != unmarked {
            *seen = (unmarked, now_ms);
        }
        unmarked >= REST_BYTES_MIN && now_ms >= seen.1 + REST_MS
    }

    /// True when graves were opened since the last freeze.
    pub(in crate::store) fn has_unmarked(&self) -> bool {
        self.unmarked_bytes.load(Ordering::Relaxed) > 0
    }

    /// Bytes of new graves from which on they wait for the flush; 0 for no bound.
    fn wait_bytes(&self) -> u64 {
        self.max_bytes() / 100 * WAIT_PERCENT
    }

    /// True when deletes must wait for a flush.
    pub(in crate::store) fn is_overfull(&self) -> bool {
        let limit = self.wait_bytes();
        let unmarked = self.unmarked_bytes.load(Ordering::Relaxed);
        let both = unmarked + self.sealed_bytes.load(Ordering::Relaxed);
        limit != 0 && unmarked > 0 && (unmarked > limit || both > 2 * limit)
    }

    /// True when a flush that begins later would come too late for deletes that go on: graves that it takes out of
    /// memory have become many.
    pub(in crate::store) fn flush_is_due(&self) -> bool {
        let limit = self.wait_bytes();
        limit != 0 && self.sealed_bytes.load(Ordering::Relaxed) > limit / 2
    }

    /// True when graves that take `bytes` of memory are to be spilled with the next mark.
    fn is_wanted(&self, bytes: u64) -> bool {
        let max = self.max_bytes();
        max != 0 && bytes > max / SPILL_SHARE
    }
}

fn bytes_of(files: &[GraveFile]) -> u64 {
    files.iter().map(|file| file.table.file_bytes()).sum()
}

impl Engine {
    /// Changes the bound of the graves in memory (`CONFIG SET cemetery-max-memory`), in bytes; 0 for none. What is above
    /// it is spilled by the next flush, which this asks for if there is anything to flush.
    pub fn set_cemetery_bound(&self, bytes: u64) {
        let inner = self.inner();
        if inner.graveyard.spill.max_bytes.swap(bytes, Ordering::Relaxed) != bytes {
            inner.upkeep.background.freeze_early();
        }
    }

    /// With the flush of the mark `m`: the graves at or below it as a run, when there is need. Those that
    /// F1 lets go at m, and those in limbo (F3), need no run.
    pub(in crate::store) fn write_spill(
        &self,
        m: Seq,
        sync: bool,
    ) -> Result<Vec<GraveFile>, EngineError> {
        let inner = self.inner();
        if inner.has_tombstones() || !inner.graveyard.spill.is_wanted(self.cemetery_bytes()) {
            return Ok(Vec::new());
        }
        let snapshots = self.snapshots_through(m);
        // With a deadline closed graves stay, too, until what they killed is gone (N17).
        let has_deadline = inner.graveyard.deadline.is_set();
        let is_needed = |grave: &&Grave| has_deadline || !grave.may_go_closed(m, m, &snapshots);
        let mut graves = Vec::new();
        for shard in &inner.shards {
            if shard.graves.load(Ordering::Acquire) > 0 {
                let state = shard.latch();
                let sealed = state.graves.sealed_through(m).filter(is_needed);
                graves.extend(sealed.map(|grave| (grave.key.clone(), Reverse(grave.d))));
            }
        }
        let of_elements = inner
            .graveyard
            .elements
            .copies(|grave| grave.is_sealed_through(m) && is_needed(&grave));
        graves.extend(of_elements.into_iter().map(|(key, d)| (key, Reverse(d))));
        graves.sort_unstable();
        let mut run = RunWriter::new(self, sync);
        for (key, Reverse(d)) in &graves {
            run.add(key, *d)?;
        }
        let files = run.finish()?;
        inner.graveyard.spill.spilled_bytes.fetch_add(bytes_of(&files), Ordering::Relaxed);
        Ok(files)
    }

    /// The manifest names the run of mark `m`: readers find it, and then its graves leave memory. One
    /// that was not written goes by F1, which holds as it did then: who reads since is above m.
    pub(in crate::store) fn end_spill(&self, files: &[GraveFile], m: Seq) {
        let inner = self.inner();
        if files.is_empty() {
            return;
        }
        inner.graveyard.spill.runs.change(files, &[], 0);
        inner.graveyard.elements.retain(|grave| !grave.is_sealed_through(m));
        for shard in &inner.shards {
            if shard.graves.load(Ordering::Acquire) > 0 {
                let mut state = shard.latch();
                state.graves.retain(|_, grave| !grave.is_sealed_through(m));
                shard.graves.store(state.graves.len(), Ordering::Release);
            }
        }
    }

    /// True when burial should free graves although few are to be had: filters and indexes of runs, which no spill
    /// makes smaller, take half of the bound.
    pub(in crate::store) fn cemetery_is_pressed(&self) -> bool {
        let spill = &self.inner().graveyard.spill;
        let max = spill.max_bytes();
        max != 0 && spill.runs.load().figures().memory_bytes > max / 2
    }

    /// Memory of the graves that are not spilled.
    pub(in crate::store) fn cemetery_bytes(&self) -> u64 {
        let inner = self.inner();
        let shards = inner.shards.iter().map(|shard| shard.latch().graves.bytes());
        (shards.sum::<usize>() + inner.graveyard.elements.bytes()) as u64
    }
}

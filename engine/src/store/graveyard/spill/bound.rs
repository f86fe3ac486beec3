//! The memory bound of the graves: when they spill, and when deletes wait.

use crate::cemetery::{GraveRuns, memory_of_grave};
use crate::tree::DeadCounts;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A flush spills when graves take more than the bound divided by this.
const SPILL_SHARE: u64 = 8;

/// New graves of the bound divided by this freeze the memtable, whatever it holds: burial and
/// spilling wait for the mark.
const FREEZE_SHARE: u64 = 5;

/// Limit on new graves in bytes before a freeze, without a bound or with a large one.
const FREEZE_BYTES_MAX: u64 = 24 << 20;

/// At least this many bytes of new graves freeze the memtable, too, when no other has been opened for [`REST_MS`]. What
/// they cover would otherwise stay on the disk, and in the way of scans, until the next write.
const REST_BYTES_MIN: u64 = 256 << 10;

/// Deletes go on when there are new graves of so many bytes, or of those that freeze the memtable divided by this.
const GO_ON_SHARE: u64 = 4;

/// How long deletes must have been over for that.
const REST_MS: u64 = 2000;

/// Parts of the bound, in percent, from which on new graves wait for the flush; together with those that wait for it
/// already, twice as much. What is sealed then, its copy while it is sorted, and what is opened meanwhile
/// stay below the bound.
const WAIT_PERCENT: u64 = 30;

/// Graves get the bound of the process divided by this at most, whatever `cemetery-max-memory` says.
const MEMORY_SHARE: u64 = 16;

/// The bound of the cemetery's memory, and the graves beyond it.
pub(in crate::store) struct Spill {
    /// `cemetery-max-memory`; 0 for none.
    pub(super) max_bytes: AtomicU64,
    /// The bound of the process; 0 for none.
    memory_bound_bytes: AtomicU64,
    pub(in crate::store) runs: GraveRuns,
    /// Memory of the graves opened since a memtable was last frozen, estimated.
    unmarked_bytes: AtomicU64,
    /// Memory of the graves that wait for the flush of a frozen memtable.
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
    pub(super) tending: Mutex<()>,
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

    pub(super) fn max_bytes(&self) -> u64 {
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
        let limit = self.freeze_bytes();
        before / limit != (before + bytes) / limit
    }

    /// Bytes of new graves that freeze the memtable.
    fn freeze_bytes(&self) -> u64 {
        match self.max_bytes() {
            0 => FREEZE_BYTES_MAX,
            max => FREEZE_BYTES_MAX.min(max / FREEZE_SHARE).max(1),
        }
    }

    /// True when so many graves were opened since the last freeze that more are to be expected.
    pub(in crate::store) fn deletes_go_on(&self) -> bool {
        let many = REST_BYTES_MIN.min(self.freeze_bytes() / GO_ON_SHARE);
        self.unmarked_bytes.load(Ordering::Relaxed) >= many
    }

    /// All graves there are belong to a frozen memtable now; answers the bytes of those that did not before.
    pub(in crate::store) fn note_freeze(&self) -> u64 {
        let bytes = self.unmarked_bytes.swap(0, Ordering::Relaxed);
        self.sealed_bytes.fetch_add(bytes, Ordering::Relaxed);
        bytes
    }

    /// Notes that a flush installed a memtable whose freeze sealed `bytes` of new graves.
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
    pub(super) fn is_wanted(&self, bytes: u64) -> bool {
        let max = self.max_bytes();
        max != 0 && bytes > max / SPILL_SHARE
    }
}

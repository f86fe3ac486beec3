//! Who uses the disk of the tree: a log on it first, since the age of its unsynced bytes is a promise (N14) and what
//! waits for a flush is safe in it; then a dump, which is written once and in order. Two that write in turn cost a disk
//! most of what it can do. Without a log tables keep nothing over the end of the process, they only make room in memory:
//! while there is room, a burst of writes passes without them. That holds on any device for values that memtables share
//! with the DRAM table: they take no room of their own.

use super::engine::{Engine, Inner};
use crate::key::Seq;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// From this age of the oldest unsynced byte on, a flush under way pauses.
const LATE_MS: u64 = 500;

/// How often and how long, between two pieces of its table: long enough for the sync under way and the next one, which
/// wait for nothing that a flush does. A flush must end: writers may wait for it as well.
const PAUSES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(20);

/// Looks in a row, ten a second or more, at which there was little to write, after which a load counts as over.
/// Between two syncs of a busy log there is always a moment with little, and a memtable whose flush begins in it is
/// written whole.
pub(super) const CALM_LOOKS: u32 = 15;

/// Commits without a log between two looks that are a load.
pub(super) const BUSY_COMMITS: u64 = 500;

/// Frozen memtables that may wait when they consist of values that the DRAM table has anyway; below the number of
/// generations.
const FROZEN_WITH_VALUES_MAX: usize = 64;

/// Memtables' worth of values that were overwritten in the DRAM table and wait for a flush all the same.
const OVERWRITTEN_MEMTABLES: u64 = 4;

/// How long ago there was much to write, in looks.
#[derive(Debug)]
pub(super) struct WriteLooks {
    calm: AtomicU32,
    /// The last commit at the last look.
    seen: AtomicU64,
    shared_in_table_bytes: AtomicU64,
}

impl Default for WriteLooks {
    fn default() -> Self {
        Self {
            calm: AtomicU32::new(CALM_LOOKS),
            seen: AtomicU64::new(Seq::MAX),
            shared_in_table_bytes: AtomicU64::new(0),
        }
    }
}

impl WriteLooks {
    fn note(&self, is_busy: bool) {
        let calm = self.calm.load(Ordering::Relaxed);
        self.calm.store(if is_busy { 0 } else { (calm + 1).min(CALM_LOOKS) }, Ordering::Relaxed);
    }

    /// Whether there were many commits since the last look.
    fn many_until(&self, last_seq: Seq) -> bool {
        last_seq.saturating_sub(self.seen.swap(last_seq, Ordering::Relaxed)) >= BUSY_COMMITS
    }

    /// Bytes of shared values in the DRAM table at the last look.
    pub(super) fn shared_in_table_bytes(&self) -> u64 {
        self.shared_in_table_bytes.load(Ordering::Relaxed)
    }

    fn is_calm(&self) -> bool {
        self.calm.load(Ordering::Relaxed) == CALM_LOOKS
    }
}

/// The tree leaves its disk to whoever holds one of these ([`Engine::claim_disk`]).
#[must_use = "the tree waits no longer than it is held"]
pub struct DiskClaim(Engine);

impl Drop for DiskClaim {
    fn drop(&mut self) {
        self.0.inner().disk_claims.fetch_sub(1, Ordering::Relaxed);
        self.0.inner().background.wake_flush();
    }
}

impl Engine {
    /// Flushes and compactions that have not begun wait while the claim is held, and those under way pause where
    /// compactions do, as long as no writer waits for them, no deadline of deletes is set, and neither graves nor
    /// overwrites have become many. For who writes a whole file to the disk of level 0.
    pub fn claim_disk(&self) -> DiskClaim {
        self.inner().disk_claims.fetch_add(1, Ordering::Relaxed);
        DiskClaim(self.clone())
    }
}

impl Inner {
    /// A log on the same disk has much to write.
    fn log_wants_disk(&self) -> bool {
        self.options.yields_to_log && self.log.load().as_ref().is_some_and(|log| log.is_pressed())
    }

    /// Nothing keeps what is written.
    pub(super) fn is_volatile(&self) -> bool {
        self.wbl.get().is_none() && self.log.load().is_none()
    }

    /// There is room for more memtables because those that wait consist of values that the DRAM table has anyway.
    pub(super) fn may_hold_values(&self) -> bool {
        if self.options.unflushed_values_bytes == 0 || !self.is_volatile() {
            return false;
        }
        let memtable_bytes = self.options.memtable_bytes;
        let (own_bytes, shared_bytes) = self.frozen.bytes();
        let in_table_bytes = self.write_looks.shared_in_table_bytes();
        self.frozen.len() < FROZEN_WITH_VALUES_MAX
            && own_bytes < self.frozen_max() as u64 * memtable_bytes
            && shared_bytes < self.options.unflushed_values_bytes
            && shared_bytes < in_table_bytes + OVERWRITTEN_MEMTABLES * memtable_bytes
    }

    /// Bytes of values that the DRAM table shares with memtables, or did.
    fn shared_in_table_bytes(&self) -> u64 {
        self.shards.iter().map(|shard| shard.latch().table.shared_bytes() as u64).sum()
    }

    /// To be called at least ten times a second.
    pub(super) fn look_at_writes(&self) {
        let is_busy = if self.is_volatile() {
            let last_seq = self.commit.lock().next_seq - 1;
            if self.options.unflushed_values_bytes > 0 {
                let bytes = self.shared_in_table_bytes();
                self.write_looks.shared_in_table_bytes.store(bytes, Ordering::Relaxed);
            }
            self.write_looks.many_until(last_seq)
        } else {
            self.log_wants_disk()
        };
        self.write_looks.note(is_busy);
    }

    /// Nothing but the tree's order asks for its disk: no deadline of deletes (N17), no graves (they leave memory with a
    /// flush) and no overwrites (settled by one, N9) that have become many.
    fn tree_can_wait(&self) -> bool {
        !self.deadline.is_set()
            && !self.spill.flush_is_due()
            && !self.spill.is_overfull()
            && self.unresolved.load(Ordering::Relaxed) <= self.options.unresolved_max / 2
    }

    fn leaves_disk(&self) -> bool {
        self.tree_can_wait()
            && (self.disk_claims.load(Ordering::Relaxed) > 0
                || self.log_wants_disk()
                || (self.is_on_disk() && !self.write_looks.is_calm()))
    }

    fn is_on_disk(&self) -> bool {
        self.options.on_disk || self.options.yields_to_log
    }

    /// Frozen memtables wait, as long as there may be more of them.
    pub(super) fn flush_yields(&self) -> bool {
        self.may_freeze() && (self.leaves_disk() || self.leaves_cores())
    }

    /// A burst of values that stay in memory anyway: tables of them would only take the cores from it.
    fn leaves_cores(&self) -> bool {
        self.tree_can_wait() && !self.write_looks.is_calm() && self.may_hold_values()
    }

    /// A flush under way has written a piece of its table: when the log is late, it lets that sync first. Nobody looks
    /// at the log meanwhile, so what counts is how it is now.
    pub(super) fn pause_for_log(&self) {
        let is_late = || {
            let log = self.log.load();
            log.as_ref().is_some_and(|log| log.oldest_unsynced_age_ms() > LATE_MS)
        };
        for _ in 0..PAUSES {
            let stops = self.background.stop_flag().load(Ordering::Relaxed);
            if stops || !self.tree_can_wait() || !self.log_wants_disk() || !is_late() {
                return;
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// So do compactions, as long as their debt holds up no writer.
    pub(super) fn compaction_yields(&self) -> bool {
        self.pace.rate().is_none() && self.leaves_disk()
    }
}

//! Who uses a disk that the log shares with the tree: the log first, since the age of its unsynced bytes is a promise
//! (N14) and what waits for a flush is safe in it.

use super::engine::Inner;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// From this age of the oldest unsynced byte on, a flush under way pauses.
const LATE_MS: u64 = 500;

/// How often and how long, between two pieces of its table: long enough for the sync under way and the next one, which
/// wait for nothing that a flush does. A flush must end: writers may wait for it as well.
const PAUSES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(20);

/// Looks in a row, ten a second or more, at which the log had little to sync, after which its load counts as over.
/// Between two syncs of a busy log there is always a moment with little, and a memtable whose flush begins in it is
/// written whole.
pub(super) const CALM_LOOKS: u32 = 15;

/// How long ago the log had much to sync, in looks.
#[derive(Debug)]
pub(super) struct LogLooks(AtomicU32);

impl Default for LogLooks {
    fn default() -> Self {
        Self(AtomicU32::new(CALM_LOOKS))
    }
}

impl LogLooks {
    fn note(&self, is_pressed: bool) {
        let calm = self.0.load(Ordering::Relaxed);
        self.0.store(if is_pressed { 0 } else { (calm + 1).min(CALM_LOOKS) }, Ordering::Relaxed);
    }

    fn is_calm(&self) -> bool {
        self.0.load(Ordering::Relaxed) == CALM_LOOKS
    }
}

impl Inner {
    fn log_is_pressed(&self) -> bool {
        self.log.load().as_ref().is_some_and(|log| log.is_pressed())
    }

    /// To be called at least ten times a second.
    pub(super) fn look_at_log(&self) {
        self.log_looks.note(self.log_is_pressed());
    }

    /// The log shares the disk with the tree, and nothing but the tree's order asks for that disk: no deadline of deletes
    /// (N17), no graves (they leave memory with a flush) and no overwrites (settled by one, N9) that have become many.
    fn tree_can_wait(&self) -> bool {
        self.options.yields_to_log
            && !self.deadline.is_set()
            && !self.spill.is_overfull()
            && self.unresolved.load(Ordering::Relaxed) <= self.options.unresolved_max / 2
    }

    /// The tree waits as long as the log has, or just had, much to write.
    fn leaves_disk_to_log(&self) -> bool {
        self.tree_can_wait() && (self.log_is_pressed() || !self.log_looks.is_calm())
    }

    /// Frozen memtables wait for the log, as long as there may be more of them.
    pub(super) fn flush_yields(&self) -> bool {
        self.may_freeze() && self.leaves_disk_to_log()
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
            if stops || !self.tree_can_wait() || !self.log_is_pressed() || !is_late() {
                return;
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// So do compactions, as long as their debt holds up no writer.
    pub(super) fn compaction_yields(&self) -> bool {
        self.pace.rate().is_none() && self.leaves_disk_to_log()
    }
}

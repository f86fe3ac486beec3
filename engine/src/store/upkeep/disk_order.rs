//! Arbitrates the disk of the tree: background I/O of the tree yields while somebody holds a claim. A dump that is being
//! written to that disk holds one. So does a log on it that has much to sync: the age of its unsynced bytes is a
//! promise (N14), and what waits for a flush is safe in it. Interleaving two writers costs a disk most of its throughput.

use crate::store::engine::{Engine, Inner};
use std::sync::atomic::Ordering;

/// The tree leaves its disk to whoever holds one of these ([`Engine::claim_disk`]).
#[must_use = "the tree waits no longer than it is held"]
pub struct DiskClaim(Engine);

impl Drop for DiskClaim {
    fn drop(&mut self) {
        self.0.inner().upkeep.disk_claims.fetch_sub(1, Ordering::Relaxed);
        self.0.inner().upkeep.background.wake_flush();
    }
}

impl Engine {
    /// While the claim is held, flushes and compactions that have not begun wait, and running compactions pause
    /// between two pieces of their output, as long as no writer waits for them, no deadline of deletes is set, and
    /// neither graves nor overwrites have become many. For a caller that writes a whole file to the disk of level 0.
    pub fn claim_disk(&self) -> DiskClaim {
        self.inner().upkeep.disk_claims.fetch_add(1, Ordering::Relaxed);
        DiskClaim(self.clone())
    }
}

impl Inner {
    /// A log on that disk has much to sync, which counts as a claim.
    fn log_claims_disk(&self) -> bool {
        self.options.yields_to_log
            && self.write.log.load().as_ref().is_some_and(|log| log.is_pressed())
    }

    /// Nothing but the tree's order asks for its disk: no deadline of deletes (N17), no graves (they leave memory with a
    /// flush) and no overwrites (settled by one, N9) that have become many.
    fn tree_can_wait(&self) -> bool {
        !self.graveyard.deadline.is_set()
            && !self.graveyard.spill.flush_is_due()
            && !self.graveyard.spill.is_overfull()
            && self.flusher.unresolved.load(Ordering::Relaxed) <= self.options.unresolved_max / 2
    }

    fn leaves_disk(&self) -> bool {
        self.tree_can_wait()
            && (self.upkeep.disk_claims.load(Ordering::Relaxed) > 0 || self.log_claims_disk())
    }

    /// Frozen memtables wait, as long as there may be more of them.
    pub(in crate::store) fn flush_yields(&self) -> bool {
        self.may_freeze() && self.leaves_disk()
    }

    /// So do compactions, as long as their debt holds up no writer.
    pub(in crate::store) fn compaction_yields(&self) -> bool {
        self.write.pace.rate().is_none() && self.leaves_disk()
    }
}

//! What the store counts for INFO. Each figure is written where the thing happens and read without a lock.

use crate::store::read::reads::Reads;
use crate::store::write::pace::Work;
use std::sync::atomic::AtomicU64;

/// Counters since the start.
#[derive(Default)]
pub(in crate::store) struct Figures {
    /// Memtables flushed.
    pub(in crate::store) flushes: AtomicU64,
    pub(in crate::store) compactions: AtomicU64,
    /// Bytes that flushes and compactions read and wrote.
    pub(in crate::store) work: Work,
    /// Tables that left the tree unread, because all of them was proved dead (N5).
    pub(in crate::store) tables_dropped_dead: AtomicU64,
    /// Counts of what answered the reads that the DRAM table could not.
    pub(in crate::store) reads: Reads,
}

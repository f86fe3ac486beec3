//! What the store counts for INFO. Each figure is written where the thing happens and read without a lock.

use super::pace::Work;
use super::reads::Reads;
use std::sync::atomic::AtomicU64;

/// Counters since the start.
#[derive(Default)]
pub(super) struct Figures {
    /// Memtables flushed.
    pub(super) flushes: AtomicU64,
    pub(super) compactions: AtomicU64,
    /// Bytes that flushes and compactions read and wrote.
    pub(super) work: Work,
    /// Tables that left the tree unread, because all of them was proved dead (N5).
    pub(super) tables_dropped_dead: AtomicU64,
    /// Who answered the reads that the DRAM table could not.
    pub(super) reads: Reads,
}

//! Figures of the pool for INFO.

use crate::store::engine::Engine;
use sexton_persistence::pmem::{PmemFigures, RecoveryReport};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// What is known of the memtables in persistent memory.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WblStats {
    /// The pool's own figures.
    pub pool: PmemFigures,
    /// What was found when the store was opened, and how long that took.
    pub recovery: RecoveryReport,
    /// Time of all of it, and of building the index.
    pub recovery_time: Duration,
    /// Operations for which the pool had no room since the start: their replies waited for a flush.
    pub spilled: u64,
}

impl Engine {
    /// Figures of the memtables in persistent memory; `None` in log mode.
    #[must_use]
    pub fn wbl_stats(&self) -> Option<WblStats> {
        let wbl = self.inner().write.wbl.get()?;
        Some(WblStats {
            pool: wbl.pool.figures(),
            recovery: wbl.recovery.clone(),
            recovery_time: wbl.recovery_time,
            spilled: wbl.spilled.load(Ordering::Relaxed),
        })
    }

    /// True with `persistence-mode wbl`.
    #[must_use]
    pub fn is_write_behind(&self) -> bool {
        self.inner().write.wbl.get().is_some()
    }

    /// Bytes of persistent memory in the address space, all of them prefaulted.
    pub(in crate::store) fn mapped_bytes(&self) -> u64 {
        self.inner().write.wbl.get().map_or(0, |wbl| wbl.pool.figures().file_bytes)
    }
}

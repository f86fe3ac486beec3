//! Merges at rest: what reads have paid for, and what is to be done when nobody writes.
//!
//! Under load, level 0 is merged only when it has several tables, and a table with few dead keys is not rewritten: each
//! rewrite costs bandwidth that writers need. Once writers pause, only readers matter. Every seek looks into each table
//! of level 0, so seeks pay for its merge, as in LevelDB; and tables with fewer dead keys are worth a rewrite.

use crate::key::Seq;
use crate::tree::Job;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How long writers must have paused.
const REST_MS: u64 = 1000;

/// Most bytes written in that time, as a memtable's size divided by this,
const WRITTEN_SHARE: u64 = 256;

/// and most sequences taken.
const SEQS_MAX: u64 = 1024;

/// Bytes of merging that one look into a table of level 0 pays for. A look that finds nothing costs about as much as
/// merging 40 KB (LevelDB's `version_set.cc`); as there, less than half of that is spent.
const BYTES_A_LOOK: u64 = 16 << 10;

/// What was written at some time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Written {
    pub(super) at_ms: u64,
    pub(super) last_seq: Seq,
    pub(super) memtable_from: Seq,
    pub(super) memtable_bytes: u64,
}

/// What is known of rest.
#[derive(Debug, Default)]
pub(in crate::store) struct Rest {
    /// The last time at which more than a little had been written since the time before.
    seen: Mutex<Written>,
    /// Looks of seeks into tables of level 0 since it was last merged.
    looks: AtomicU64,
    /// Tables with few dead were not looked for since the last look that found none with many.
    burial_wanted: AtomicBool,
    /// Merges at rest since the start.
    pub(in crate::store) merges: AtomicU64,
}

impl Rest {
    /// Notes that a seek has looked into `tables` tables of level 0.
    #[inline]
    pub(in crate::store) fn note_looks(&self, tables: u64) {
        if tables > 0 {
            self.looks.fetch_add(tables, Ordering::Relaxed);
        }
    }

    /// A merge has taken level 0 away.
    pub(in crate::store) fn note_level_0_merged(&self) {
        self.looks.store(0, Ordering::Relaxed);
    }

    /// No table has enough dead keys for a rewrite under load.
    pub(in crate::store) fn want_burial(&self) {
        self.burial_wanted.store(true, Ordering::Release);
    }

    /// True when burial at rest was not looked for since the last [`Rest::want_burial`].
    pub(in crate::store) fn take_burial_wanted(&self) -> bool {
        self.burial_wanted.swap(false, Ordering::AcqRel)
    }

    pub(super) fn has_paid_for(&self, job: &Job) -> bool {
        self.looks.load(Ordering::Relaxed).saturating_mul(BYTES_A_LOOK) >= job.input_bytes()
    }

    /// True when nearly nothing was written for [`REST_MS`] before `now`.
    pub(super) fn is_over(&self, now: Written, memtable_max: u64) -> bool {
        let mut seen = self.seen.lock();
        let goes_on = now.memtable_from != seen.memtable_from
            || now.memtable_bytes > seen.memtable_bytes + memtable_max / WRITTEN_SHARE
            || now.last_seq > seen.last_seq + SEQS_MAX;
        if goes_on {
            *seen = now;
        }
        now.at_ms >= seen.at_ms + REST_MS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rest_begins_a_while_after_the_last_of_many_writes() {
        let rest = Rest::default();
        let at = |at_ms, last_seq, memtable_from, memtable_bytes| {
            let now = Written { at_ms, last_seq, memtable_from, memtable_bytes };
            rest.is_over(now, 256 * WRITTEN_SHARE)
        };
        assert!(!at(5000, 9000, 1, 100));
        assert!(!at(5999, 9000, 1, 100));
        assert!(at(6000, 9000, 1, 100));
        assert!(at(6001, 9000 + SEQS_MAX, 1, 356), "a trickle is no load");
        assert!(!at(6002, 9001 + SEQS_MAX, 1, 356), "many deletes are");
        assert!(!at(7001, 9001 + SEQS_MAX, 1, 356) && at(7002, 9001 + SEQS_MAX, 1, 356));
        assert!(!at(7003, 9001 + SEQS_MAX, 1, 613), "and large values");
        assert!(at(8003, 9001 + SEQS_MAX, 1, 613));
        assert!(!at(8004, 9001 + SEQS_MAX, 77, 0), "another memtable");
    }
}

//! Limits how often the whole cemetery is scanned. A sweep and a tally visit every grave, and each flush and each
//! compaction requests one: with millions of graves, which an old snapshot may keep, the store would do nothing else.

use crate::tree::{Job, Version};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// After a sweep of many graves the next one waits for this many times its duration.
const PAUSE: u32 = 8;

/// See the module comment.
#[derive(Debug, Default)]
pub(in crate::store) struct SweepTurn {
    /// Something has changed since the last sweep.
    pub(super) is_owed: AtomicBool,
    /// When the last sweep ended, and how long it took.
    pub(super) last: Mutex<Option<(Instant, Duration)>>,
    /// Rewrites that the last tally found besides the one that it was asked for, the most urgent last.
    burials: Mutex<Vec<Job>>,
}

impl SweepTurn {
    /// Flush, compaction or the end of a reader may have made graves unnecessary.
    pub(in crate::store) fn owe(&self) {
        self.is_owed.store(true, Ordering::Release);
    }

    pub(super) fn is_over(&self, now: Instant) -> bool {
        let last = *self.last.lock();
        last.is_none_or(|(ended, took)| now.saturating_duration_since(ended) >= took * PAUSE)
    }

    /// The next rewrite that an earlier tally found, if its table still is where it was.
    pub(in crate::store) fn take_burial(&self, version: &Version) -> Option<Job> {
        let mut burials = self.burials.lock();
        std::iter::from_fn(|| burials.pop()).find(|job| job.stands_in(version))
    }

    /// Keeps what a tally found, the most urgent first.
    pub(in crate::store) fn keep_burials(&self, jobs: impl DoubleEndedIterator<Item = Job>) {
        *self.burials.lock() = jobs.rev().collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_as_long_as_the_sweep_was_many_times() {
        let turn = SweepTurn::default();
        let start = Instant::now();
        assert!(turn.is_over(start), "the first one");
        *turn.last.lock() = Some((start, Duration::from_millis(10)));
        assert!(!turn.is_over(start + Duration::from_millis(79)));
        assert!(turn.is_over(start + Duration::from_millis(80)));
    }
}

//! What a delete deadline (N17) has to know: the limit, how old sequences are, and how far the work is.

use crate::key::Seq;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// Notes of the clock at most; with more every other one is forgotten, so old ages become coarser.
const NOTES_MAX: usize = 1024;

/// Shortest time between two notes, in milliseconds.
const NOTE_EVERY_MS: u64 = 50;

/// Which sequence had been handed out when.
#[derive(Debug, Default)]
pub(super) struct Clock(VecDeque<(u64, Seq)>);

impl Clock {
    pub(super) fn note(&mut self, now_ms: u64, last_seq: Seq) {
        if self.0.back().is_some_and(|&(at, seq)| seq == last_seq || now_ms < at + NOTE_EVERY_MS) {
            return;
        }
        if self.0.len() >= NOTES_MAX {
            let mut nth = 0;
            self.0.retain(|_| {
                nth += 1;
                nth % 2 == 0
            });
        }
        self.0.push_back((now_ms, last_seq));
    }

    /// Everything up to this sequence was handed out at or before `at_ms`.
    pub(super) fn through(&self, at_ms: u64) -> Seq {
        let after = self.0.partition_point(|&(at, _)| at <= at_ms);
        after.checked_sub(1).map_or(0, |last| self.0[last].1)
    }

    /// The sequence of the first note; 0 without any.
    pub(super) fn first(&self) -> Seq {
        self.0.front().map_or(0, |&(_, seq)| seq)
    }

    /// When `seq` had been handed out at the latest.
    fn time_of(&self, seq: Seq) -> Option<u64> {
        let at = self.0.partition_point(|&(_, last)| last < seq);
        self.0.get(at).map(|&(ms, _)| ms)
    }
}

/// The state of the deadline.
pub(in crate::store) struct Deadline {
    /// The limit in milliseconds; 0 for none.
    pub(super) limit_ms: AtomicU64,
    started: Instant,
    pub(super) clock: Mutex<Clock>,
    /// Deletes up to here are to be buried before other work.
    pub(super) overdue: AtomicU64,
    /// Names of dead keys may be in checkpoint or manifest.
    pub(in crate::store) has_traces: AtomicBool,
    pub(super) scrubbed_ms: AtomicU64,
    /// The oldest grave's sequence, as of the last sweep; 0 without any.
    pub(in crate::store) oldest_grave: AtomicU64,
    /// Estimated bytes of dead versions in tables, and bytes of tables that wait for burial.
    pub(in crate::store) dead_bytes: AtomicU64,
    pub(in crate::store) queue_bytes: AtomicU64,
}

impl Deadline {
    pub(in crate::store) fn new(limit_ms: u64) -> Self {
        Self {
            limit_ms: AtomicU64::new(limit_ms),
            started: Instant::now(),
            clock: Mutex::default(),
            overdue: AtomicU64::new(0),
            has_traces: AtomicBool::new(true),
            scrubbed_ms: AtomicU64::new(0),
            oldest_grave: AtomicU64::new(0),
            dead_bytes: AtomicU64::new(0),
            queue_bytes: AtomicU64::new(0),
        }
    }

    /// The limit in milliseconds; 0 for none.
    pub(in crate::store) fn limit_ms(&self) -> u64 {
        self.limit_ms.load(Ordering::Acquire)
    }

    /// True when there is one.
    pub(in crate::store) fn is_set(&self) -> bool {
        self.limit_ms() > 0
    }

    /// Deletes up to this sequence are to be buried before other work; 0 without a limit.
    pub(in crate::store) fn overdue(&self) -> Seq {
        self.overdue.load(Ordering::Acquire)
    }

    pub(in crate::store) fn now_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    /// Age of the oldest grave in milliseconds; 0 without any. One from before the start of the
    /// process counts from the start.
    pub(in crate::store) fn oldest_age_ms(&self) -> u64 {
        let oldest = self.oldest_grave.load(Ordering::Acquire);
        let now_ms = self.now_ms();
        let born_ms = self.clock.lock().time_of(oldest).unwrap_or(now_ms);
        if oldest == 0 { 0 } else { now_ms.saturating_sub(born_ms) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_answers_what_was_there_at_a_time() {
        let mut clock = Clock::default();
        for (at_ms, seq) in [(0, 5), (100, 8), (200, 8), (300, 20)] {
            clock.note(at_ms, seq);
        }
        assert_eq!(clock.through(99), 5);
        assert_eq!(clock.through(100), 8);
        assert_eq!(clock.through(1000), 20);
        assert_eq!(clock.time_of(6), Some(100));
        assert_eq!(clock.time_of(21), None);
    }

    #[test]
    fn a_long_history_is_kept_coarsely_and_never_early() {
        let mut clock = Clock::default();
        for tick in 0..10_000_u64 {
            clock.note(tick * 100, tick + 1);
        }
        assert!(clock.0.len() <= NOTES_MAX);
        for tick in (0..10_000).step_by(77) {
            assert!(clock.through(tick * 100) <= tick + 1, "younger ones are not called old");
        }
        assert!(clock.through(999_900) > 9_990);
    }
}

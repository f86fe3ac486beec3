//! Wakes whoever waits for the next due time when an earlier one is written.

use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// See the module comment. One thread sets it and sleeps; writers say what is due first in their tables.
///
/// [`DueAlarm::set`] comes before the look at the tables, each under its latch: a writer that has written before the
/// look is seen by it, and one that writes later sees that the alarm is set.
#[derive(Default)]
pub(crate) struct DueAlarm {
    /// Due times before this ring; 0 while nobody sleeps.
    rings_before_ms: AtomicU64,
    has_rung: Mutex<bool>,
    changed: Condvar,
}

impl DueAlarm {
    /// From now on due times before `before_ms` ring.
    pub(crate) fn set(&self, before_ms: u64) {
        let mut has_rung = self.has_rung.lock();
        *has_rung = false;
        self.rings_before_ms.store(before_ms, Ordering::SeqCst);
    }

    /// The sleeper wakes by itself at `before_ms`: later due times need not wake it.
    pub(crate) fn narrow(&self, before_ms: u64) {
        self.rings_before_ms.fetch_min(before_ms, Ordering::SeqCst);
    }

    /// Sleeps until it rings, no longer than `most`, and turns it off. True when it has rung.
    pub(crate) fn sleep(&self, most: Duration) -> bool {
        let mut has_rung = self.has_rung.lock();
        if !*has_rung {
            self.changed.wait_for(&mut has_rung, most);
        }
        self.rings_before_ms.store(0, Ordering::SeqCst);
        *has_rung
    }

    /// Something is due at `at_ms`, first of all in its table.
    #[inline]
    pub(crate) fn note(&self, at_ms: u64) {
        if at_ms < self.rings_before_ms.load(Ordering::Relaxed) {
            self.ring();
        }
    }

    /// Wakes the sleeper, whatever is due.
    #[cold]
    pub(crate) fn ring(&self) {
        let mut has_rung = self.has_rung.lock();
        if self.rings_before_ms.swap(0, Ordering::SeqCst) != 0 {
            *has_rung = true;
            self.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_earlier_due_time_rings_once_and_a_later_one_does_not() {
        let alarm = DueAlarm::default();
        alarm.note(1);
        alarm.set(100);
        assert!(!alarm.sleep(Duration::ZERO), "what came before it was set is seen by the look");
        alarm.set(100);
        alarm.note(100);
        assert!(!alarm.sleep(Duration::ZERO));
        alarm.set(100);
        alarm.narrow(50);
        alarm.note(70);
        assert!(!alarm.sleep(Duration::ZERO), "it wakes before that by itself");
        alarm.set(100);
        alarm.note(99);
        // For ever, would it not have rung.
        assert!(alarm.sleep(Duration::from_secs(3600)));
        alarm.set(100);
        assert!(!alarm.sleep(Duration::ZERO), "it rings once");
    }
}

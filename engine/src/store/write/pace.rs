//! Slows writers down when compaction falls behind, by bytes, and counts the cost of background work so far.
//!
//! Up to a soft debt (bytes above the levels' targets) writers are not limited. Between the soft and the hard debt
//! they get a share of their unlimited rate, which shrinks towards the hard one. The rate thus settles
//! where compaction keeps up, without stops. At the hard debt writers stop.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Debt at which writers are slowed down, in memtables.
const SOFT_DEBT_MEMTABLES: u64 = 16;

/// Debt at which writers stop, in memtables.
const HARD_DEBT_MEMTABLES: u64 = 48;

/// Writers never get less than this until they stop.
const RATE_MIN_BYTES: u64 = 256 << 10;

/// What they may write at once: this part of a second's bytes.
const BURST_SHARE: u64 = 100;

/// Rate of a pace that does not hold up, and of one that stops.
const FREE: u64 = u64::MAX;
const STOPPED: u64 = 0;

/// The pace of writers. Asking costs one load while they run freely.
pub(in crate::store) struct Pace {
    /// Bytes per second that writers may write now.
    rate: AtomicU64,
    /// Bytes written since `since`, while the pace holds up.
    written: AtomicU64,
    since: Mutex<Instant>,
    /// What writers wrote per second while they ran freely.
    free_rate: Mutex<Option<(Instant, u64)>>,
    /// Start of the current wait in microseconds since `start`, plus one; 0 while nobody waits.
    waiting_since_us: AtomicU64,
    waited_us: AtomicU64,
    waits: AtomicU64,
    start: Instant,
}

impl Default for Pace {
    fn default() -> Self {
        let start = Instant::now();
        Self {
            rate: AtomicU64::new(FREE),
            written: AtomicU64::new(0),
            since: Mutex::new(start),
            free_rate: Mutex::new(None),
            waiting_since_us: AtomicU64::new(0),
            waited_us: AtomicU64::new(0),
            waits: AtomicU64::new(0),
            start,
        }
    }
}

impl Pace {
    /// A writer has written `bytes`.
    #[inline]
    pub(in crate::store) fn note_written(&self, bytes: usize) {
        if self.rate.load(Ordering::Relaxed) != FREE {
            self.written.fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }

    /// True while writers are ahead of their pace.
    #[inline]
    pub(in crate::store) fn holds_up(&self) -> bool {
        match self.rate.load(Ordering::Relaxed) {
            FREE => false,
            STOPPED => true,
            rate => self.is_ahead_at(rate, Instant::now()),
        }
    }

    fn is_ahead_at(&self, rate: u64, now: Instant) -> bool {
        let elapsed = now.saturating_duration_since(*self.since.lock()).as_secs_f64();
        let allowed = (rate as f64 * elapsed) as u64 + rate / BURST_SHARE;
        self.written.load(Ordering::Relaxed) > allowed
    }

    /// A memtable was filled with `bytes` at `now`: as long as writers run freely, that is their rate.
    pub(in crate::store) fn note_filled(&self, bytes: u64, now: Instant) {
        let mut free_rate = self.free_rate.lock();
        let is_free = self.rate.load(Ordering::Relaxed) == FREE;
        *free_rate = match *free_rate {
            Some((before, rate)) if is_free => {
                let seconds = now.saturating_duration_since(before).as_secs_f64().max(0.001);
                let measured = (bytes as f64 / seconds) as u64;
                // A pause makes a slow one; the rate to come back to is that of the busy ones.
                Some((now, measured.max(rate - rate / 4)))
            }
            Some((_, rate)) => Some((now, rate)),
            None => Some((now, 0)),
        };
    }

    /// Sets the pace by the debt of compaction at `now`.
    pub(in crate::store) fn set(&self, debt_bytes: u64, memtable_bytes: u64, now: Instant) {
        let (soft, hard) =
            (SOFT_DEBT_MEMTABLES * memtable_bytes, HARD_DEBT_MEMTABLES * memtable_bytes);
        let rate = if debt_bytes <= soft {
            FREE
        } else if debt_bytes >= hard {
            STOPPED
        } else {
            let free = self.free_rate.lock().map_or(0, |(_, rate)| rate);
            let share = (hard - debt_bytes) as f64 / (hard - soft) as f64;
            ((free as f64 * share) as u64).max(RATE_MIN_BYTES)
        };
        let mut since = self.since.lock();
        let before = self.rate.swap(rate, Ordering::Relaxed);
        // What is ahead of the old pace is still owed at the new one.
        let elapsed = now.saturating_duration_since(*since).as_secs_f64();
        let paid = if before == FREE { u64::MAX } else { (before as f64 * elapsed) as u64 };
        let owed = self.written.load(Ordering::Relaxed).saturating_sub(paid);
        self.written.store(owed, Ordering::Relaxed);
        *since = now;
    }

    /// A writer has asked and must wait, or need not.
    #[inline]
    pub(in crate::store) fn note_wait(&self, waits: bool) {
        let since = self.waiting_since_us.load(Ordering::Relaxed);
        if waits == (since != 0) {
            return;
        }
        let now_us = self.start.elapsed().as_micros() as u64 + 1;
        let next = if waits { now_us } else { 0 };
        let order = Ordering::Relaxed;
        if self.waiting_since_us.compare_exchange(since, next, order, order).is_ok() {
            if waits {
                self.waits.fetch_add(1, order);
            } else {
                self.waited_us.fetch_add(now_us.saturating_sub(since), order);
            }
        }
    }

    /// Since when writers have had to wait, if they have to.
    pub(in crate::store) fn waiting_since(&self) -> Option<Instant> {
        let since_us = self.waiting_since_us.load(Ordering::Relaxed);
        (since_us != 0).then(|| self.start + Duration::from_micros(since_us - 1))
    }

    /// Bytes written since the pace was set, while it holds up.
    #[cfg(test)]
    pub(in crate::store) fn noted_bytes(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// How often writers began to wait.
    pub(in crate::store) fn waits(&self) -> u64 {
        self.waits.load(Ordering::Relaxed)
    }

    /// Bytes per second that writers may write now: `None` while they run freely.
    pub(in crate::store) fn rate(&self) -> Option<u64> {
        Some(self.rate.load(Ordering::Relaxed)).filter(|&rate| rate != FREE)
    }

    /// Time in which writers had to wait, in milliseconds.
    pub(in crate::store) fn waited_ms(&self) -> u64 {
        let since = self.waiting_since_us.load(Ordering::Relaxed);
        let now_us = self.start.elapsed().as_micros() as u64 + 1;
        let current = if since == 0 { 0 } else { now_us.saturating_sub(since) };
        (self.waited_us.load(Ordering::Relaxed) + current) / 1000
    }
}

/// Bytes that flushes and compactions have moved since the start.
#[derive(Default)]
pub(in crate::store) struct Work {
    /// Memtables, as writers filled them.
    pub(in crate::store) memtable_bytes: AtomicU64,
    /// Tables written by flushes.
    pub(in crate::store) flushed_bytes: AtomicU64,
    /// Tables read and written by compactions.
    pub(in crate::store) compaction_read_bytes: AtomicU64,
    pub(in crate::store) compaction_written_bytes: AtomicU64,
    /// Compactions that moved tables without reading them.
    pub(in crate::store) moves: AtomicU64,
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn writers_get_the_less_the_nearer_the_hard_debt_is() {
        let pace = Pace::default();
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        pace.note_filled(64 * MIB, at(0));
        pace.note_filled(64 * MIB, at(640));
        let rate = |debt: u64| {
            pace.set(debt * MIB, 64 * MIB, at(700));
            pace.rate().map(|rate| rate / MIB)
        };
        assert_eq!(rate(1024), None);
        assert_eq!(rate(1024 + 512), Some(75));
        assert_eq!(rate(2048), Some(50));
        assert_eq!(rate(3071), Some(RATE_MIN_BYTES / MIB));
        assert_eq!(rate(3072), Some(0));
        assert!(pace.holds_up());
        pace.note_filled(64 * MIB, at(100_000));
        assert_eq!(rate(2048), Some(50), "one filled under pace is no measure of the free rate");
        assert_eq!(rate(0), None);
        assert!(!pace.holds_up());
    }

    #[test]
    fn a_writer_ahead_of_its_pace_waits_until_time_has_caught_up() {
        let pace = Pace::default();
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        pace.note_written(1 << 30);
        pace.note_filled(64 * MIB, at(0));
        pace.note_filled(64 * MIB, at(640));
        pace.set(2048 * MIB, 64 * MIB, at(1000));
        let rate = pace.rate().unwrap();
        assert!(!pace.is_ahead_at(rate, at(1000)), "what was written freely is not owed");
        pace.note_written(10 * MIB as usize);
        assert!(pace.is_ahead_at(rate, at(1100)));
        assert!(!pace.is_ahead_at(rate, at(1200)));
        pace.note_written(10 * MIB as usize);
        pace.set(2048 * MIB, 64 * MIB, at(1200));
        assert!(pace.is_ahead_at(rate, at(1300)), "a change of pace forgives nothing");
        assert!(!pace.is_ahead_at(rate, at(1400)));
    }

    #[test]
    fn waits_are_counted_from_the_first_refusal_to_the_next_permission() {
        let pace = Pace::default();
        assert_eq!((pace.waited_ms(), pace.waits()), (0, 0));
        pace.note_wait(true);
        pace.note_wait(true);
        let before = Instant::now();
        while before.elapsed() < Duration::from_millis(3) {
            std::hint::spin_loop();
        }
        let during = pace.waited_ms();
        assert!(during >= 3);
        pace.note_wait(false);
        let after = pace.waited_ms();
        assert!(after >= during);
        assert_eq!(pace.waited_ms(), after, "the wait is over");
        assert_eq!(pace.waits(), 1, "however often it was asked");
    }
}

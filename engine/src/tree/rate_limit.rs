//! A bound on what compactions write per second: a token bucket.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Time whose worth of bytes may be written at once.
const BURST: Duration = Duration::from_millis(100);

/// Longest sleep between two looks at the stop flag.
const NAP: Duration = Duration::from_millis(50);

/// Shared by all compactions of a store. Flushes are not held up: writers wait for them.
#[derive(Debug)]
pub struct RateLimiter {
    bytes_per_s: AtomicU64,
    /// Nothing may be written for now.
    held: AtomicBool,
    /// When what was taken so far will have been paid for.
    paid_until: Mutex<Option<Instant>>,
}

impl RateLimiter {
    /// A bucket that lets `bytes_per_s` through; 0 for no bound.
    #[must_use]
    pub fn new(bytes_per_s: u64) -> Self {
        Self {
            bytes_per_s: AtomicU64::new(bytes_per_s),
            held: AtomicBool::new(false),
            paid_until: Mutex::new(None),
        }
    }

    /// Holds up every taker until it is called with false.
    pub fn set_held(&self, held: bool) {
        self.held.store(held, Ordering::Relaxed);
    }

    /// Changes the bound; 0 for none.
    pub fn set_rate(&self, bytes_per_s: u64) {
        self.bytes_per_s.store(bytes_per_s, Ordering::Relaxed);
    }

    /// Takes `bytes` at `now`; answers how long the taker must wait.
    fn take_at(&self, bytes: u64, now: Instant) -> Duration {
        let rate = self.bytes_per_s.load(Ordering::Relaxed);
        if rate == 0 {
            return Duration::ZERO;
        }
        let mut paid_until = self.paid_until.lock();
        // What was not used in the past is worth one burst.
        let earliest = now.checked_sub(BURST).unwrap_or(now);
        let from = paid_until.map_or(earliest, |at| at.max(earliest));
        let until = from + Duration::from_secs_f64(bytes as f64 / rate as f64);
        *paid_until = Some(until);
        until.saturating_duration_since(now)
    }

    /// Takes `bytes` and sleeps until they may be written, or until `stop` is set.
    pub fn take(&self, bytes: u64, stop: &AtomicBool) {
        let mut wait = self.take_at(bytes, Instant::now());
        while !wait.is_zero() && !stop.load(Ordering::Relaxed) {
            let nap = wait.min(NAP);
            std::thread::sleep(nap);
            wait -= nap;
        }
        while self.held.load(Ordering::Relaxed) && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(NAP);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_pass_at_the_rate_and_a_pause_is_worth_one_burst() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let limiter = RateLimiter::new(1000);
        let wait_ms = |bytes: u64, ms: u64| limiter.take_at(bytes, at(ms)).as_millis();
        assert_eq!(wait_ms(100, 1000), 0, "the burst");
        assert_eq!(wait_ms(50, 1000), 50);
        assert_eq!(wait_ms(50, 1000), 100, "those before wait, too");
        assert_eq!(wait_ms(100, 1100), 100);
        assert_eq!(wait_ms(200, 60_000), 100, "an hour's pause is worth no more than a burst");
        limiter.set_rate(0);
        assert_eq!(wait_ms(1 << 40, 60_000), 0);
    }

    #[test]
    fn a_stopped_taker_does_not_sleep() {
        let limiter = RateLimiter::new(1);
        limiter.take(1 << 30, &AtomicBool::new(true));
        assert!(limiter.take_at(0, Instant::now()) > Duration::from_secs(1000));
        let held = RateLimiter::new(0);
        held.set_held(true);
        held.take(1, &AtomicBool::new(true));
    }

    #[test]
    fn a_held_taker_goes_on_when_it_may() {
        let limiter = RateLimiter::new(0);
        limiter.set_held(true);
        let (took, is_through) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                took.store(true, Ordering::SeqCst);
                limiter.take(1, &AtomicBool::new(false));
                is_through.store(true, Ordering::SeqCst);
            });
            while !took.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            assert!(!is_through.load(Ordering::SeqCst), "held");
            limiter.set_held(false);
        });
        assert!(is_through.load(Ordering::SeqCst));
    }
}

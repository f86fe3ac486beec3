//! Time as emulated devices see it.

use std::fmt::Debug;
use std::time::{Duration, Instant};

/// A clock that can be waited for.
pub trait Clock: Send + Sync + Debug {
    /// Nanoseconds since some instant.
    fn now_ns(&self) -> u64;
    /// Returns when `now_ns` has reached `ns`.
    fn wait_until(&self, ns: u64);
}

/// The system's monotonic clock.
#[derive(Debug)]
pub struct SystemClock(Instant);

/// A sleeping thread wakes up to so much late, so the last stretch is spent awake.
const AWAKE: Duration = Duration::from_micros(60);

impl Default for SystemClock {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Clock for SystemClock {
    fn now_ns(&self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }

    fn wait_until(&self, ns: u64) {
        let left = Duration::from_nanos(ns.saturating_sub(self.now_ns()));
        if left > AWAKE {
            std::thread::sleep(left - AWAKE);
        }
        while self.now_ns() < ns {
            std::hint::spin_loop();
        }
    }
}

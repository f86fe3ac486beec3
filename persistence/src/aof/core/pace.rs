//! When writers wait for the log, so that neither memory nor the age of unsynced data grows without bound (N14).

use super::LogCore;
use crate::aof::SyncPolicy;
use crate::aof::unsynced::SYNC_BYTES;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// With at least this many bytes waiting for their sync, the log claims its device.
const PRESSED_BYTES: u64 = SYNC_BYTES / 2;

impl LogCore {
    /// Unwritten bytes at which writers wait.
    pub(in crate::aof) fn buffer_limit_bytes(&self) -> u64 {
        self.buffer_limit_bytes.load(Ordering::Relaxed)
    }

    pub(in crate::aof) fn set_buffer_limit(&self, bytes: u64) {
        self.buffer_limit_bytes.store(bytes, Ordering::Relaxed);
        self.progress.notify_all();
    }

    pub(in crate::aof) fn must_wait(&self) -> bool {
        let pending = self.gauge.pending_bytes();
        let wait = (pending > self.buffer_limit_bytes() || self.is_behind(pending))
            && self.failure().is_none();
        // Read first: writers ask before each batch, and the answer hardly ever changes.
        if wait != self.delayed.load(Ordering::Relaxed)
            && wait != self.delayed.swap(wait, Ordering::Relaxed)
            && wait
        {
            self.counters.delayed.fetch_add(1, Ordering::Relaxed);
        }
        wait
    }

    fn is_behind(&self, pending_bytes: u64) -> bool {
        let age_max = Duration::from_millis(self.options.unsynced_age_max_ms);
        let gathering_us = self.gauge.oldest_us();
        self.policy() == SyncPolicy::EverySec
            && self.state.lock().unsynced.is_behind(pending_bytes, gathering_us, age_max)
    }

    pub(in crate::aof) fn is_pressed(&self) -> bool {
        self.policy() == SyncPolicy::EverySec
            && self.gauge.pending_bytes() + self.state.lock().unsynced.outstanding_bytes()
                >= PRESSED_BYTES
            && self.failure().is_none()
    }

    pub(in crate::aof) fn wait_for_room(&self, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        while self.must_wait() {
            let mut state = self.state.lock();
            // Progress between the question and this lock costs one timeout at most, so it is
            // kept short: the condition also changes with time alone.
            let now = Instant::now();
            if now >= deadline {
                return false;
            }
            let pause = (deadline - now).min(Duration::from_millis(5));
            self.progress.wait_for(&mut state, pause);
        }
        true
    }
}

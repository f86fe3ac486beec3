//! What the appenders and the log thread tell each other without a lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// Microseconds since the first call in this process, never 0: 0 means "none" below.
pub(crate) fn monotonic_us() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_micros() as u64 + 1
}

/// Bytes and age of what waits in a [`LogBuffer`](super::LogBuffer). One appender at a time (the
/// engine's commit mutex) and one log thread write to it.
#[derive(Debug, Default)]
pub struct BufferGauge {
    appended_bytes: AtomicU64,
    drained_bytes: AtomicU64,
    oldest_us: AtomicU64,
}

impl BufferGauge {
    pub(crate) fn shared() -> Arc<Self> {
        Arc::default()
    }

    /// Called by the one appender: plain loads and stores, no locked instruction.
    pub(crate) fn appended(&self, bytes: usize) {
        let total = self.appended_bytes.load(Ordering::Relaxed) + bytes as u64;
        self.appended_bytes.store(total, Ordering::Relaxed);
    }

    /// The buffer was empty until now.
    pub(crate) fn began(&self) {
        self.oldest_us.store(monotonic_us(), Ordering::Relaxed);
    }

    /// The buffer was taken; answers when its oldest byte was appended (0: it was empty).
    pub(crate) fn taken(&self) -> u64 {
        let oldest_us = self.oldest_us.load(Ordering::Relaxed);
        self.oldest_us.store(0, Ordering::Relaxed);
        oldest_us
    }

    /// The log thread has written (or given up) this many of the bytes appended.
    pub(crate) fn drained(&self, bytes: usize) {
        self.drained_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Bytes of commands appended but not yet handed to the operating system.
    #[must_use]
    pub fn pending_bytes(&self) -> u64 {
        let drained = self.drained_bytes.load(Ordering::Relaxed);
        self.appended_bytes.load(Ordering::Relaxed).saturating_sub(drained)
    }

    /// When the oldest byte in the buffer was appended, in [`monotonic_us`]; 0 when empty.
    pub(crate) fn oldest_us(&self) -> u64 {
        self.oldest_us.load(Ordering::Relaxed)
    }
}

//! What flushes, merges and long scans hold in buffers of their own, kept ones included.

use std::sync::atomic::{AtomicUsize, Ordering};

static BYTES: AtomicUsize = AtomicUsize::new(0);

/// Memory of the buffers of all readers and writers of tables in the process, in bytes.
#[must_use]
pub fn work_bytes() -> u64 {
    BYTES.load(Ordering::Relaxed) as u64
}

/// What one holder has told; told back when it goes.
#[derive(Debug, Default)]
pub(super) struct Counted(usize);

impl Counted {
    /// Sets the holder's size to `bytes`.
    #[inline]
    pub(super) fn set(&mut self, bytes: usize) {
        if bytes != self.0 {
            // Two's complement: the sum is exact whatever the order.
            BYTES.fetch_add(bytes.wrapping_sub(self.0), Ordering::Relaxed);
            self.0 = bytes;
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.set(0);
    }
}

//! The keys that clients wait for to have something.

use super::marks::Marks;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of counters of [`Marks`].
const MARKS: usize = 1 << 12;

/// Known to every write: one of a key that nobody waits for must not pay for those who wait for others.
#[derive(Debug, Default)]
pub struct AwaitedKeys {
    /// Number of clients that wait.
    clients: AtomicUsize,
    marks: Marks<MARKS>,
}

impl AwaitedKeys {
    /// True while any client waits.
    #[inline]
    #[must_use]
    pub fn are_there(&self) -> bool {
        self.clients.load(Ordering::Relaxed) != 0
    }

    /// False if nobody waits for `key`, in whichever database. To be called under its latch.
    #[inline]
    #[must_use]
    pub fn may_have(&self, key: &[u8]) -> bool {
        self.are_there() && self.marks.may_have(key)
    }

    /// A client begins to wait, before its keys are added.
    pub fn begin(&self) {
        self.clients.fetch_add(1, Ordering::SeqCst);
    }

    /// One waits no longer.
    pub fn end(&self) {
        self.clients.fetch_sub(1, Ordering::SeqCst);
    }

    /// A client waits for `key`. To be called under its latch, by one thread at a time.
    pub fn add(&self, key: &[u8]) {
        self.marks.add(self.marks.hash(key));
    }

    /// One less. To be called by one thread at a time.
    pub fn remove(&self, key: &[u8]) {
        self.marks.remove(self.marks.hash(key));
    }
}

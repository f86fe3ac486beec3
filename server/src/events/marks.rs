//! How many of the keys that somebody has asked about have each hash: most keys that nobody asks about are known by it, without a
//! lock.

use std::sync::atomic::{AtomicU8, Ordering};

/// The counters. A counter that is full stays so.
#[derive(Debug)]
pub(super) struct Marks(Box<[AtomicU8]>);

impl Marks {
    /// With this number of counters. With as many keys, three in five of those that nobody asks about are not known as such.
    pub(super) fn new(counters: usize) -> Self {
        Self((0..counters).map(|_| AtomicU8::new(0)).collect())
    }

    /// False if there is no key with this hash. To be called under the key's latch.
    #[inline]
    pub(super) fn may_have(&self, hash: usize) -> bool {
        self.0[hash % self.0.len()].load(Ordering::Relaxed) != 0
    }

    /// A key with this hash more. Nobody else may change its counter meanwhile.
    pub(super) fn add(&self, hash: usize) {
        self.change(hash, |mark| mark + 1);
    }

    /// One less. Nobody else may change its counter meanwhile.
    pub(super) fn remove(&self, hash: usize) {
        self.change(hash, |mark| mark.saturating_sub(1));
    }

    fn change(&self, hash: usize, change: impl FnOnce(u8) -> u8) {
        let mark = &self.0[hash % self.0.len()];
        let before = mark.load(Ordering::Relaxed);
        if before != u8::MAX {
            mark.store(change(before), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_was_full_is_never_empty_again() {
        let marks = Marks::new(4);
        marks.add(1);
        (0..300).for_each(|_| marks.add(6));
        marks.remove(5);
        assert!(!marks.may_have(1) && marks.may_have(2) && !marks.may_have(3));
        (0..300).for_each(|_| marks.remove(2));
        assert!(marks.may_have(2), "nobody knows how many are left");
    }
}

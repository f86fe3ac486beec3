//! How many of the keys that somebody has asked about have each hash: most keys that nobody asks about are known by it, without a
//! lock.

use foldhash::quality::RandomState;
use std::hash::BuildHasher;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

/// `N` counters, which take memory once there was a key. With `N` keys, three in five of those that nobody asks about are not
/// known as such. A counter that is full stays so.
#[derive(Debug, Default)]
pub(super) struct Marks<const N: usize> {
    hasher: RandomState,
    counters: OnceLock<Box<[AtomicU8]>>,
}

impl<const N: usize> Marks<N> {
    /// The hash of a key.
    pub(super) fn hash(&self, key: &[u8]) -> usize {
        self.hasher.hash_one(key) as usize
    }

    /// False if `key` is not among the keys. To be called under its latch.
    #[inline]
    pub(super) fn may_have(&self, key: &[u8]) -> bool {
        let is_marked =
            |counters: &[AtomicU8]| counters[self.hash(key) % N].load(Ordering::Relaxed) != 0;
        self.counters.get().is_some_and(|counters| is_marked(counters))
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
        let counters = self.counters.get_or_init(|| (0..N).map(|_| AtomicU8::new(0)).collect());
        let mark = &counters[hash % N];
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
        let marks = Marks::<2>::default();
        let full: &[u8] = b"full";
        let hash = marks.hash(full);
        assert!(!marks.may_have(full));
        marks.add(hash + 1);
        assert!(!marks.may_have(full));
        (0..300).for_each(|_| marks.add(hash));
        marks.remove(hash + 1);
        assert!(marks.may_have(full));
        (0..300).for_each(|_| marks.remove(hash + 2));
        assert!(marks.may_have(full), "nobody knows how many are left");
    }
}

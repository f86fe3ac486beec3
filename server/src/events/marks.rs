//! How many of the keys that somebody has asked about have each hash: most keys that nobody asks about are known by it, without a
//! lock.

use foldhash::quality::RandomState;
use std::hash::BuildHasher;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

/// Counters that a key has all of its counters in: what one look into memory brings.
const LINE: usize = 64;

/// Counters of one key.
const OWN: usize = 2;

/// `N` counters, a multiple of [`LINE`], which take memory once there was a key. Of the keys that nobody asks about, one in
/// thirty is not known as such while there are `N / 10` of the others, one in six with `N / 4`. A counter that is full stays so.
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
        self.counters.get().is_some_and(|counters| {
            let own = Self::own(self.hash(key));
            own.into_iter().all(|at| counters[at].load(Ordering::Relaxed) != 0)
        })
    }

    /// The counters of a hash, which may be one twice. Keys whose hashes are equal modulo `N / LINE` share some.
    #[inline]
    fn own(hash: usize) -> [usize; OWN] {
        let line = hash % (N / LINE) * LINE;
        std::array::from_fn(|at| line + (hash >> (48 + 6 * at)) % LINE)
    }

    /// A key with this hash more. Nobody else may change the counters of its line meanwhile.
    pub(super) fn add(&self, hash: usize) {
        self.change(hash, |mark| mark + 1);
    }

    /// One less. Nobody else may change the counters of its line meanwhile.
    pub(super) fn remove(&self, hash: usize) {
        self.change(hash, |mark| mark.saturating_sub(1));
    }

    fn change(&self, hash: usize, change: impl Fn(u8) -> u8) {
        let counters = self.counters.get_or_init(|| (0..N).map(|_| AtomicU8::new(0)).collect());
        for mark in Self::own(hash).map(|at| &counters[at]) {
            let before = mark.load(Ordering::Relaxed);
            if before != u8::MAX {
                mark.store(change(before), Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_was_full_is_never_empty_again() {
        const COUNTERS: usize = 2 * LINE;
        let marks = Marks::<COUNTERS>::default();
        let has_two = |key: &[u8; 4]| {
            let [first, second] = Marks::<COUNTERS>::own(marks.hash(key));
            first != second
        };
        let full = (0_u32..).map(u32::to_be_bytes).find(has_two).expect("most have");
        let (full, hash) = (full.as_slice(), marks.hash(&full));
        assert!(!marks.may_have(full));
        marks.add(hash ^ 1);
        assert!(!marks.may_have(full), "another line");
        let half = hash & !(0x3f << 48) | (hash >> 54 & 0x3f) << 48;
        marks.add(half);
        assert!(!marks.may_have(full), "one of its counters");
        (0..300).for_each(|_| marks.add(hash));
        marks.remove(hash ^ 1);
        assert!(marks.may_have(full));
        (0..300).for_each(|_| marks.remove(hash + 2));
        assert!(marks.may_have(full), "nobody knows how many are left");
    }
}

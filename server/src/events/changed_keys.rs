//! The keys that have changed while a request runs that cannot name the keys that it reads beforehand.

use parking_lot::Mutex;
use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

/// More keys than that may change meanwhile: that any of those read is among them is likely then.
const KEYS_MAX: usize = 1 << 20;

/// Hashes of keys that have changed. A key may have the hash of another: it then counts as changed, too.
#[derive(Debug, Default)]
pub struct ChangedKeys {
    hasher: RandomState,
    changed: Mutex<Changed>,
}

#[derive(Debug, Default)]
struct Changed {
    hashes: HashSet<u64>,
    /// Any key may have changed; the hashes do not matter.
    is_any: bool,
}

impl Changed {
    fn note_any(&mut self) {
        *self = Self { hashes: HashSet::new(), is_any: true };
    }
}

impl ChangedKeys {
    /// What stands for a key.
    #[must_use]
    pub fn hash(&self, db: usize, key: &[u8]) -> u64 {
        self.hasher.hash_one((db, key))
    }

    /// A key has changed.
    pub(super) fn add(&self, db: usize, key: &[u8]) {
        let hash = self.hash(db, key);
        let mut changed = self.changed.lock();
        if !changed.is_any {
            changed.hashes.insert(hash);
            if changed.hashes.len() > KEYS_MAX {
                changed.note_any();
            }
        }
    }

    /// A whole database has changed.
    pub(super) fn add_all(&self) {
        self.changed.lock().note_any();
    }

    /// True if one of these keys, sorted by their hashes, has changed since this was asked before.
    #[must_use]
    pub fn take_any_of(&self, read: &[u64]) -> bool {
        let mut changed = self.changed.lock();
        let hashes = std::mem::take(&mut changed.hashes);
        changed.is_any || hashes.iter().any(|hash| read.binary_search(hash).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_have_changed_are_told_once() {
        let changed = ChangedKeys::default();
        let mut read = [changed.hash(0, b"a"), changed.hash(1, b"b")];
        read.sort_unstable();
        changed.add(0, b"b");
        assert!(!changed.take_any_of(&read));
        changed.add(1, b"b");
        assert!(changed.take_any_of(&read));
        assert!(!changed.take_any_of(&read));
        changed.add_all();
        assert!(changed.take_any_of(&read) && changed.take_any_of(&read));
    }

    #[test]
    fn too_many_are_any() {
        let changed = ChangedKeys::default();
        for number in 0..=KEYS_MAX {
            changed.add(0, &number.to_le_bytes());
        }
        assert!(changed.take_any_of(&[]));
    }
}

//! Keys that the newest record of an unsorted memtable marks dead (`deletes = tombstones`).
//!
//! The DRAM table is the index of the unsorted memtables and holds only live entries; this is the part of
//! the index for their tombstones. A sorted memtable is searched itself.

use crate::key::{Seq, hash_in_shard};
use hashbrown::HashTable;

struct Dead {
    hash: u64,
    seq: Seq,
    key: Box<[u8]>,
}

impl Dead {
    /// True when it is of this key, given as head and user's bytes.
    fn is_of(&self, key: (&[u8], &[u8])) -> bool {
        self.key.split_at_checked(key.0.len()).is_some_and(|parts| parts == key)
    }
}

/// The dead keys of one shard, at most one item a key. Guarded by the shard's latch.
#[derive(Default)]
pub(in crate::store) struct DeadTable(HashTable<Dead>);

impl DeadTable {
    /// True when nothing is dead here, as always with a cemetery.
    #[inline]
    pub(in crate::store) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Notes that `key` (an engine key) was deleted at `seq`.
    pub(in crate::store) fn insert(&mut self, hash: u64, key: &[u8], seq: Seq) {
        match self.0.find_mut(hash_in_shard(hash), |dead| *dead.key == *key) {
            Some(dead) => dead.seq = seq,
            None => {
                let dead = Dead { hash, seq, key: key.into() };
                self.0.insert_unique(hash_in_shard(hash), dead, |dead| hash_in_shard(dead.hash));
            }
        }
    }

    /// Notes that the key, given as head and user's bytes, has a value again.
    #[inline]
    pub(in crate::store) fn remove(&mut self, hash: u64, key: (&[u8], &[u8])) {
        if let Ok(found) = self.0.find_entry(hash_in_shard(hash), |dead| dead.is_of(key)) {
            found.remove();
        }
    }

    /// True when the newest record of `key` in an unsorted memtable is a tombstone. The key is given as
    /// head and user's bytes.
    pub(in crate::store) fn contains(&self, hash: u64, key: (&[u8], &[u8])) -> bool {
        !self.0.is_empty() && self.0.find(hash_in_shard(hash), |dead| dead.is_of(key)).is_some()
    }

    /// Forgets what the memtables up to `m`, now sorted, tell themselves.
    pub(in crate::store) fn forget_through(&mut self, m: Seq) {
        self.0.retain(|dead| dead.seq > m);
        if self.0.is_empty() {
            self.0 = HashTable::new();
        }
    }

    /// Memory held, keys estimated by their number.
    pub(in crate::store) fn bytes(&self) -> usize {
        self.0.capacity() * (size_of::<Dead>() + 1) + self.0.len() * KEY_BYTES
    }
}

/// What the key of one item is taken to hold.
const KEY_BYTES: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_operation_on_a_key_counts_until_its_memtable_is_sorted() {
        let mut dead = DeadTable::default();
        dead.insert(7, b"Rk", 5);
        assert!(dead.contains(7, (b"R", b"k")));
        assert!(!dead.contains(7, (b"R", b"other")));
        dead.remove(7, (b"R", b"k"));
        assert!(!dead.contains(7, (b"R", b"k")));
        dead.insert(7, b"Rk", 9);
        dead.insert(7, b"Rl", 10);
        dead.insert(7, b"Rl", 12);
        dead.forget_through(10);
        assert!(!dead.contains(7, (b"R", b"k")));
        assert!(dead.contains(7, (b"R", b"l")), "deleted again in a later memtable");
        assert!(dead.bytes() > 0);
        dead.forget_through(12);
        assert!(dead.is_empty() && dead.bytes() == 0);
    }
}

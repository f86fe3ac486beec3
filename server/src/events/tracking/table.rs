//! The table of keys and the connections that have read them and must be notified of changes.
//!
//! Keys are identified by name alone, as in Redis: a name that exists in two databases is one key here.

use crate::events::marks::Marks;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of shards of the table, each with its own lock.
const SHARDS: usize = 64;

/// Number of counters of [`Marks`]. Each line of them belongs to one shard, whose lock is held when they change.
const MARKS: usize = 1 << 19;

/// Overhead of a key besides its name: its node in the tree, and the allocations of name and readers.
const KEY_BYTES: usize = 96;

/// The numbers of connections, ascending.
pub(super) type Readers = Vec<u64>;

#[derive(Debug, Default)]
struct Shard {
    keys: BTreeMap<Box<[u8]>, Readers>,
    /// The key that was evicted last: the next victim is the one after it, so that all keys take turns.
    hand: Box<[u8]>,
}

/// Keys and their readers.
#[derive(Debug)]
pub(super) struct ReaderTable {
    shards: Box<[Mutex<Shard>]>,
    marks: Marks<MARKS>,
    keys: AtomicUsize,
    items: AtomicUsize,
    bytes: AtomicUsize,
    /// The shard that evicts a key next.
    turn: AtomicUsize,
}

impl Default for ReaderTable {
    fn default() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            marks: Marks::default(),
            keys: AtomicUsize::new(0),
            items: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            turn: AtomicUsize::new(0),
        }
    }
}

impl ReaderTable {
    fn shard(&self, hash: usize) -> &Mutex<Shard> {
        &self.shards[hash % SHARDS]
    }

    /// False if nobody has read `key`. To be called under its latch.
    #[inline]
    pub(super) fn may_have(&self, key: &[u8]) -> bool {
        self.marks.may_have(key)
    }

    /// Number of keys.
    pub(super) fn keys(&self) -> usize {
        self.keys.load(Ordering::Relaxed)
    }

    /// Number of pairs of a key and a reader.
    pub(super) fn items(&self) -> usize {
        self.items.load(Ordering::Relaxed)
    }

    /// Memory of all of it.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// `id` has read `key`; answers how many keys that are more.
    pub(super) fn add(&self, key: &[u8], id: u64) -> usize {
        let hash = self.marks.hash(key);
        let mut shard = self.shard(hash).lock();
        if let Some(readers) = shard.keys.get_mut(key) {
            if let Err(at) = readers.binary_search(&id) {
                readers.insert(at, id);
                self.items.fetch_add(1, Ordering::Relaxed);
                self.bytes.fetch_add(size_of::<u64>(), Ordering::Relaxed);
            }
            return 0;
        }
        shard.keys.insert(key.into(), vec![id]);
        self.marks.add(hash);
        self.keys.fetch_add(1, Ordering::Relaxed);
        self.items.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(held_bytes(key, 1), Ordering::Relaxed);
        1
    }

    /// True if `id` has read `key`.
    pub(super) fn has(&self, key: &[u8], id: u64) -> bool {
        let shard = self.shard(self.marks.hash(key)).lock();
        shard.keys.get(key).is_some_and(|readers| readers.binary_search(&id).is_ok())
    }

    /// Removes a key and returns its readers.
    pub(super) fn take(&self, key: &[u8]) -> Option<Readers> {
        let hash = self.marks.hash(key);
        let mut shard = self.shard(hash).lock();
        let readers = shard.keys.remove(key)?;
        self.marks.remove(hash);
        drop(shard);
        self.note_gone(1, readers.len(), held_bytes(key, readers.len()));
        Some(readers)
    }

    /// Takes any key out.
    pub(super) fn take_any(&self) -> Option<(Box<[u8]>, Readers)> {
        for _ in 0..SHARDS {
            let at = self.turn.fetch_add(1, Ordering::Relaxed) % SHARDS;
            let shard = &mut *self.shards[at].lock();
            let behind = (Bound::Excluded(&*shard.hand), Bound::Unbounded);
            let key = shard.keys.range::<[u8], _>(behind).next().or(shard.keys.iter().next());
            let Some(key) = key.map(|(key, _)| key.clone()) else { continue };
            shard.hand.clone_from(&key);
            let Some(readers) = shard.keys.remove(&key) else { continue };
            self.marks.remove(self.marks.hash(&key));
            self.note_gone(1, readers.len(), held_bytes(&key, readers.len()));
            return Some((key, readers));
        }
        None
    }

    /// Forgets all keys; answers how many there were.
    pub(super) fn clear(&self) -> usize {
        let mut gone = 0;
        for shard in &self.shards {
            let mut shard = shard.lock();
            let keys = std::mem::take(&mut *shard).keys;
            keys.keys().for_each(|key| self.marks.remove(self.marks.hash(key)));
            drop(shard);
            let items = keys.values().map(Vec::len).sum();
            let bytes = keys.iter().map(|(key, readers)| held_bytes(key, readers.len())).sum();
            self.note_gone(keys.len(), items, bytes);
            gone += keys.len();
        }
        gone
    }

    fn note_gone(&self, keys: usize, items: usize, bytes: usize) {
        self.keys.fetch_sub(keys, Ordering::Relaxed);
        self.items.fetch_sub(items, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Memory of a key with this number of readers.
fn held_bytes(key: &[u8], readers: usize) -> usize {
    key.len() + readers * size_of::<u64>() + KEY_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_taken_once_with_all_its_readers() {
        let table = ReaderTable::default();
        for (key, id) in [(b"k", 7), (b"k", 3), (b"k", 7), (b"x", 3)] {
            let _ = table.add(key, id);
        }
        assert_eq!((table.keys(), table.items()), (2, 3));
        assert_eq!(table.take(b"k"), Some(vec![3, 7]));
        assert_eq!(table.take(b"k"), None);
        assert_eq!((table.keys(), table.items()), (1, 1));
        assert_eq!(table.clear(), 1);
        assert_eq!((table.keys(), table.items(), table.take(b"x")), (0, 0, None));
        assert_eq!(table.bytes(), 0);
    }

    #[test]
    fn a_key_that_was_read_is_never_passed_over_and_few_others_are_looked_up() {
        let table = ReaderTable::default();
        let name = |number: u32| number.to_be_bytes();
        assert!(!table.may_have(&name(0)));
        assert_eq!((0..1000).map(|number| table.add(&name(number), 1)).sum::<usize>(), 1000);
        (0..500).for_each(|number| drop(table.take(&name(number))));
        assert!((500..1000).all(|number| table.may_have(&name(number))));
        assert!((1000..2000).filter(|&number| table.may_have(&name(number))).count() < 50);
        while table.take_any().is_some() {}
        assert!((0..1000).all(|number| !table.may_have(&name(number))));
        assert_eq!((0..1000).map(|number| table.add(&name(number), 1)).sum::<usize>(), 1000);
        assert_eq!(table.clear(), 1000);
        assert!((0..1000).all(|number| !table.may_have(&name(number))));
    }

    #[test]
    fn every_key_is_given_up_in_its_turn() {
        let table = ReaderTable::default();
        let added: usize = (0..1000_u32).map(|number| table.add(&number.to_be_bytes(), 1)).sum();
        assert_eq!(added, 1000);
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..1000 {
            // A key that is added repeatedly does not block the others.
            let (key, readers) = table.take_any().expect("there are more");
            assert_eq!(readers, [1]);
            assert!(seen.insert(key));
        }
        assert_eq!((table.take_any(), table.keys(), table.items()), (None, 0, 0));
        assert_eq!(table.bytes(), 0);
    }
}

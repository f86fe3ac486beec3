//! WATCH: the connections that are notified when a key changes.
//!
//! While no connection watches, a write pays one relaxed load. Keys are registered and signalled under
//! their latch, which orders the two.

use super::changed_keys::ChangedKeys;
use super::marks::Marks;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

type Watchers = Vec<Arc<AtomicBool>>;

/// A table shrinks when its capacity is more than this many times its number of keys and exceeds [`ROOM_KEPT`].
const SHRINK_AT: usize = 8;
const ROOM_KEPT: usize = 64;

/// Number of counters of [`Marks`].
const MARKS: usize = 1 << 12;

/// All watched keys.
#[derive(Debug, Default)]
pub struct WatchRegistry {
    /// Registrations, records among them.
    watched: AtomicUsize,
    /// Number of records.
    recording: AtomicUsize,
    /// The registrations of keys.
    marks: Marks<MARKS>,
    all: Mutex<Watches>,
}

#[derive(Debug, Default)]
struct Watches {
    /// By database, then by key.
    keys: HashMap<usize, HashMap<Vec<u8>, Watchers>>,
    /// Records of all changes.
    records: Vec<Arc<ChangedKeys>>,
}

impl WatchRegistry {
    /// True when a write must be signalled.
    #[must_use]
    pub fn is_used(&self) -> bool {
        self.watched.load(Ordering::Relaxed) != 0
    }

    /// Sets `dirty` at the next change of `key`; false if it is already registered. To be called under the key's latch.
    #[must_use]
    pub fn watch(&self, db: usize, key: &[u8], dirty: &Arc<AtomicBool>) -> bool {
        let mut all = self.all.lock();
        let watchers = all.keys.entry(db).or_default().entry(key.to_vec()).or_default();
        if watchers.iter().any(|other| Arc::ptr_eq(other, dirty)) {
            return false;
        }
        watchers.push(Arc::clone(dirty));
        self.marks.add(self.marks.hash(key));
        self.watched.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Takes one registration back.
    pub fn unwatch(&self, db: usize, key: &[u8], dirty: &Arc<AtomicBool>) {
        let keys = &mut self.all.lock().keys;
        let Some(of_db) = keys.get_mut(&db) else { return };
        let Some(watchers) = of_db.get_mut(key) else { return };
        if let Some(at) = watchers.iter().position(|other| Arc::ptr_eq(other, dirty)) {
            watchers.swap_remove(at);
            self.marks.remove(self.marks.hash(key));
            self.watched.fetch_sub(1, Ordering::Relaxed);
        }
        if watchers.is_empty() {
            of_db.remove(key);
            let room = of_db.capacity();
            if of_db.is_empty() {
                keys.remove(&db);
            } else if room > ROOM_KEPT && room > SHRINK_AT * of_db.len() {
                of_db.shrink_to(2 * of_db.len());
            }
        }
    }

    /// From now on every change is recorded. A transaction that has begun before may not know of it: who has held all latches
    /// since knows that there is none.
    #[must_use]
    pub fn record(&self) -> Arc<ChangedKeys> {
        let changed = Arc::default();
        self.all.lock().records.push(Arc::clone(&changed));
        self.recording.fetch_add(1, Ordering::Relaxed);
        self.watched.fetch_add(1, Ordering::Relaxed);
        changed
    }

    /// Nobody asks for this record any more.
    pub fn stop_record(&self, changed: &Arc<ChangedKeys>) {
        let records = &mut self.all.lock().records;
        if let Some(at) = records.iter().position(|other| Arc::ptr_eq(other, changed)) {
            records.swap_remove(at);
            self.recording.fetch_sub(1, Ordering::Relaxed);
            self.watched.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// A whole database is emptied, or exchanged: those who watch single keys are told by [`touch`](Self::touch).
    pub fn touch_all(&self) {
        self.all.lock().records.iter().for_each(|record| record.add_all());
    }

    /// False if nobody is told of changes of `key`, in whichever database. To be called under its latch.
    #[inline]
    pub(super) fn may_be_told_of(&self, key: &[u8]) -> bool {
        self.recording.load(Ordering::Relaxed) != 0 || self.marks.may_have(key)
    }

    /// `key` was changed.
    pub fn touch(&self, db: usize, key: &[u8]) {
        let all = self.all.lock();
        all.records.iter().for_each(|record| record.add(db, key));
        if let Some(watchers) = all.keys.get(&db).and_then(|of_db| of_db.get(key)) {
            watchers.iter().for_each(|dirty| dirty.store(true, Ordering::Release));
        }
    }

    /// The watched keys of a database.
    #[must_use]
    pub fn keys_of(&self, db: usize) -> Vec<Vec<u8>> {
        self.all.lock().keys.get(&db).map_or_else(Vec::new, |of_db| of_db.keys().cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_watchers_of_the_key_are_told() {
        let registry = WatchRegistry::default();
        let (a, b) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        assert!(registry.watch(0, b"k", &a) && registry.watch(1, b"k", &b));
        assert!(!registry.watch(0, b"k", &a), "it does so anyhow");
        assert!(registry.is_used());
        registry.touch(0, b"other");
        registry.touch(1, b"k");
        assert!(!a.load(Ordering::Acquire));
        assert!(b.load(Ordering::Acquire));
        assert_eq!(registry.keys_of(0), [b"k".to_vec()]);
        assert!(registry.keys_of(2).is_empty());
        registry.touch(0, b"k");
        assert!(a.load(Ordering::Acquire));
        registry.unwatch(0, b"k", &a);
        registry.unwatch(1, b"k", &b);
        assert!(!registry.is_used());
        assert!(registry.all.lock().keys.is_empty());
    }

    #[test]
    fn the_room_of_keys_that_nobody_watches_any_more_goes_back() {
        let (registry, dirty) = (WatchRegistry::default(), Arc::new(AtomicBool::new(false)));
        let numbers = 0..50_000_u32;
        assert!(numbers.clone().all(|number| registry.watch(0, &number.to_le_bytes(), &dirty)));
        // One stays.
        numbers.skip(1).for_each(|number| registry.unwatch(0, &number.to_le_bytes(), &dirty));
        assert_eq!(registry.keys_of(0), [0_u32.to_le_bytes()]);
        let room = registry.all.lock().keys.get(&0).map(HashMap::capacity);
        assert!(room.is_some_and(|room| room <= ROOM_KEPT), "{room:?}");
    }
}

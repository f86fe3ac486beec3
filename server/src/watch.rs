//! WATCH: which connections want to know that a key changed.
//!
//! While nobody watches, a write pays one relaxed load. Keys are registered and signalled under
//! their latch, which is what orders the two.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

type Watchers = Vec<Arc<AtomicBool>>;

/// All watched keys.
#[derive(Debug, Default)]
pub struct WatchRegistry {
    watched: AtomicUsize,
    /// By database, then by key.
    keys: Mutex<HashMap<usize, HashMap<Vec<u8>, Watchers>>>,
}

impl WatchRegistry {
    /// True when a write must be signalled.
    #[must_use]
    pub fn is_used(&self) -> bool {
        self.watched.load(Ordering::Relaxed) != 0
    }

    /// Sets `dirty` at the next change of `key`. To be called under the key's latch.
    pub fn watch(&self, db: usize, key: &[u8], dirty: &Arc<AtomicBool>) {
        let mut keys = self.keys.lock();
        self.watched.fetch_add(1, Ordering::Relaxed);
        keys.entry(db).or_default().entry(key.to_vec()).or_default().push(Arc::clone(dirty));
    }

    /// Takes one registration back.
    pub fn unwatch(&self, db: usize, key: &[u8], dirty: &Arc<AtomicBool>) {
        let mut keys = self.keys.lock();
        let Some(of_db) = keys.get_mut(&db) else { return };
        let Some(watchers) = of_db.get_mut(key) else { return };
        if let Some(at) = watchers.iter().position(|other| Arc::ptr_eq(other, dirty)) {
            watchers.swap_remove(at);
            self.watched.fetch_sub(1, Ordering::Relaxed);
        }
        if watchers.is_empty() {
            of_db.remove(key);
        }
    }

    /// `key` was changed.
    pub fn touch(&self, db: usize, key: &[u8]) {
        if let Some(watchers) = self.keys.lock().get(&db).and_then(|of_db| of_db.get(key)) {
            watchers.iter().for_each(|dirty| dirty.store(true, Ordering::Release));
        }
    }

    /// The watched keys of a database.
    #[must_use]
    pub fn keys_of(&self, db: usize) -> Vec<Vec<u8>> {
        self.keys.lock().get(&db).map_or_else(Vec::new, |of_db| of_db.keys().cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_watchers_of_the_key_are_told() {
        let registry = WatchRegistry::default();
        let (a, b) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        registry.watch(0, b"k", &a);
        registry.watch(1, b"k", &b);
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
    }
}

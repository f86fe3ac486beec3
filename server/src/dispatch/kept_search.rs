//! A search through a list, kept from one run of its request to the next ([`ListSearch`]).
//!
//! It is valid while the list is as it was. From the first run that misses a page on, its key is therefore watched as WATCH does: by
//! a mark that every change of the key sets, under its latch. It ends with its request, however that ends.

use crate::keyspace::paged::{ListSearch, Paged};
use crate::server::Server;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A search, and where it searches.
#[derive(Debug)]
pub struct KeptSearch {
    /// What it has found.
    pub search: ListSearch,
    db: usize,
    key: Vec<u8>,
    /// Set by a change of the key; `None`: it is not watched yet.
    changed: Option<Arc<AtomicBool>>,
}

impl KeptSearch {
    /// A search of this key, which is not watched.
    #[must_use]
    pub fn new(search: ListSearch, db: usize, key: &[u8]) -> Self {
        Self { search, db, key: key.to_vec(), changed: None }
    }

    /// Bytes that it takes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        // The registry of watched keys has a second copy of the name.
        size_of::<Self>() + self.search.found_bytes() + 2 * self.key.len()
    }

    /// False when what it has found may be wrong.
    #[must_use]
    pub fn is_valid(&self, paged: &Paged) -> bool {
        let changed = self.changed.as_ref();
        self.search.is_of(paged) && !changed.is_some_and(|changed| changed.load(Ordering::Acquire))
    }

    /// From now on it is known when the list changes. To be called under the key's latch.
    pub fn watch(&mut self, server: &Server) {
        if self.changed.is_none() {
            let changed = Arc::default();
            // A new mark is registered nowhere yet.
            let _ = server.events.watches.watch(self.db, &self.key, &changed);
            self.changed = Some(changed);
        }
    }

    /// It has ended.
    pub fn unwatch(&self, server: &Server) {
        if let Some(changed) = &self.changed {
            server.events.watches.unwatch(self.db, &self.key, changed);
        }
    }
}

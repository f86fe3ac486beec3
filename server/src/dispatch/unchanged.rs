//! Whether what a request has read of a snapshot is still so when it stores what it has made of it.

use crate::events::changed_keys::ChangedKeys;
use crate::server::Server;
use sexton_engine::{Latched, TxBuf};
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Which keys a request reads.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reads<'k> {
    /// These.
    Named(&'k [&'k [u8]]),
    /// Some that it does not name.
    Any,
}

/// Keys that are watched, as WATCH does, as long as this exists; all keys for a request that does not name those that it reads.
pub(super) struct WatchedKeys<'k> {
    pub(super) server: &'k Server,
    db: usize,
    keys: &'k [&'k [u8]],
    by: By,
}

enum By {
    Mark(Arc<AtomicBool>),
    Record(Arc<ChangedKeys>),
}

impl<'k> WatchedKeys<'k> {
    /// Watches what a request reads in a database. May block.
    pub(super) fn watch(server: &'k Server, db: usize, reads: Reads<'k>) -> Self {
        let watches = &server.events.watches;
        let mut buf = TxBuf::default();
        // What is changed by now is in a snapshot that is opened behind this.
        let Reads::Named(keys) = reads else {
            let changed = watches.record();
            server.engine.begin(Latched::All, &mut buf).commit();
            return Self { server, db, keys: &[], by: By::Record(changed) };
        };
        let changed = Arc::default();
        let hashes: Vec<u64> = keys.iter().map(|key| server.engine.hash(key)).collect();
        let tx = server.engine.begin(Latched::Hashes(&hashes), &mut buf);
        for key in keys {
            // One that is named twice is watched once.
            let _ = watches.watch(db, key, &changed);
        }
        tx.commit();
        Self { server, db, keys, by: By::Mark(changed) }
    }

    /// For one run of the request.
    pub(super) fn unchanged(&self) -> Unchanged {
        match &self.by {
            By::Mark(changed) => Unchanged::Named(Arc::clone(changed)),
            By::Record(changed) => {
                Unchanged::Read(ReadKeys { changed: Arc::clone(changed), read: RefCell::default() })
            }
        }
    }
}

impl Drop for WatchedKeys<'_> {
    fn drop(&mut self) {
        let watches = &self.server.events.watches;
        match &self.by {
            By::Mark(changed) => {
                self.keys.iter().for_each(|key| watches.unwatch(self.db, key, changed));
            }
            By::Record(changed) => watches.stop_record(changed),
        }
    }
}

/// What tells whether the keys that were read are as they were.
#[derive(Debug, Default)]
pub(super) enum Unchanged {
    /// Nobody asks.
    #[default]
    Unasked,
    /// Set by a change of one of the keys that the request names.
    Named(Arc<AtomicBool>),
    /// The request finds out which keys it reads.
    Read(ReadKeys),
}

/// The keys that were read, and those that have changed.
#[derive(Debug)]
pub(super) struct ReadKeys {
    changed: Arc<ChangedKeys>,
    read: RefCell<Hashes>,
}

/// Hashes of keys: a request may read as many keys as it has elements.
#[derive(Debug, Default)]
struct Hashes {
    all: Vec<u64>,
    is_sorted: bool,
}

impl Hashes {
    fn push(&mut self, hash: u64) {
        self.all.push(hash);
        self.is_sorted = false;
    }

    fn sorted(&mut self) -> &[u64] {
        if !self.is_sorted {
            self.all.sort_unstable();
            self.is_sorted = true;
        }
        &self.all
    }
}

impl Unchanged {
    /// This key is read.
    pub(super) fn note(&self, db: usize, key: &[u8]) {
        if let Self::Read(keys) = self {
            keys.read.borrow_mut().push(keys.changed.hash(db, key));
        }
    }

    /// False where one of the keys has changed since. Final under the latches of the keys alone.
    pub(super) fn holds(&self) -> bool {
        match self {
            Self::Unasked => true,
            Self::Named(changed) => !changed.load(Ordering::Acquire),
            Self::Read(keys) => !keys.changed.take_any_of(keys.read.borrow_mut().sorted()),
        }
    }
}

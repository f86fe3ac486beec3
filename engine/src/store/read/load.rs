//! Keys on their way from a device into memory (N10).
//!
//! A miss puts a load into its shard's map, under the latch. A write to the key in the meantime
//! marks it overtaken: the result of the cold read is then dropped. A write that is rolled back never happened, so it
//! restores the load's state. Loaded keys, and keys found to be absent, stay pinned until every waiter
//! has run.

use crate::error::EngineError;
use crate::key::{self, Key, Slot};
use crate::store::OwnedKey;
use crate::store::namespace::{self, HEAD_BYTES};
use crate::store::page_key::{self, PageKey, PageName};
use hashbrown::HashTable;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// What is to be brought into memory: a key, or a page.
#[derive(Clone, Debug)]
pub struct Want {
    /// The key; of a page its name in memory, with a hash that leads to the shard of its root.
    pub(in crate::store) key: OwnedKey,
    pub(in crate::store) page: Option<PageKey>,
}

impl Want {
    /// A key.
    #[must_use]
    pub fn key(key: OwnedKey) -> Self {
        Self { key, page: None }
    }

    /// A page of the collection `cid` of `root`.
    #[must_use]
    pub fn page_of(root: &OwnedKey, cid: u64, page: PageName) -> Self {
        Self::page(root, PageKey::new(root.slot, cid, page))
    }

    /// True for a page.
    #[must_use]
    pub fn is_page(&self) -> bool {
        self.page.is_some()
    }

    pub(in crate::store) fn page(root: &OwnedKey, page: PageKey) -> Self {
        let (slot, hash) = (root.slot, page.hash_beside(root.hash));
        Self { key: OwnedKey { slot, bytes: page.bytes().to_vec(), hash }, page: Some(page) }
    }

    /// What it is sorted by.
    pub(in crate::store) fn order(&self) -> (bool, Slot, &[u8]) {
        (self.page.is_some(), self.key.slot, &self.key.bytes)
    }

    /// Kind and namespace, before the key's bytes.
    pub(in crate::store) fn head(&self, namespace: u64) -> [u8; HEAD_BYTES] {
        if self.page.is_some() { page_key::head(namespace) } else { namespace::head(namespace) }
    }
}

impl PartialEq for Want {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

/// Gets the result, how many keys were asked for, and the bytes that were read.
type Done = Box<dyn FnOnce(Result<(), EngineError>, usize, u64) + Send>;

/// One call of [`Engine::load`](crate::Engine::load).
pub(in crate::store) struct Waiting {
    missing: AtomicUsize,
    /// How many keys were asked for.
    asked: AtomicUsize,
    /// Most bytes of values that may be read for it, beside the first one.
    pub(super) max_bytes: u64,
    /// Bytes of the values that were read for it.
    read_bytes: AtomicU64,
    failed: Mutex<Option<EngineError>>,
    done: Mutex<Option<Done>>,
}

/// A reference to a call that waits.
pub(in crate::store) type Waiter = Arc<Waiting>;

impl std::fmt::Debug for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Waiting").field("missing", &self.missing).finish_non_exhaustive()
    }
}

impl Waiting {
    /// Calls `done` at the end of `keys` loads and of one more step: that all of them have been requested.
    pub(super) fn new(keys: usize, max_bytes: u64, done: Done) -> Self {
        Self {
            missing: AtomicUsize::new(keys + 1),
            asked: AtomicUsize::new(0),
            max_bytes,
            read_bytes: AtomicU64::new(0),
            failed: Mutex::new(None),
            done: Mutex::new(Some(done)),
        }
    }

    /// A value of `bytes` bytes was read for it. False when it is over its limit, which the first one never is unless that is 0:
    /// the value is not to be kept for its sake.
    pub(super) fn takes(&self, bytes: usize) -> bool {
        let before = self.read_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        (before == 0 && self.max_bytes > 0) || before + bytes as u64 <= self.max_bytes
    }

    /// True when what was read for it is more than it may have.
    pub(super) fn has_enough(&self) -> bool {
        self.read_bytes.load(Ordering::Relaxed) > self.max_bytes
    }

    /// So many keys have a load that is pinned for it, or will have one before another step of it ends.
    pub(super) fn note_asked(&self, keys: usize) {
        self.asked.store(keys, Ordering::Release);
    }

    pub(super) fn one_done(&self, error: Option<EngineError>) {
        if let Some(error) = error {
            self.failed.lock().get_or_insert(error);
        }
        if self.missing.fetch_sub(1, Ordering::AcqRel) == 1
            && let Some(done) = self.done.lock().take()
        {
            let failed = self.failed.lock().take();
            let (asked, read_bytes) =
                (self.asked.load(Ordering::Acquire), self.read_bytes.load(Ordering::Relaxed));
            done(failed.map_or(Ok(()), Err), asked, read_bytes);
        }
    }
}

/// What is left of a request.
pub(super) struct Request {
    pub(super) keys: Arc<[Want]>,
    pub(super) from: usize,
    pub(super) waiting: Waiter,
}

impl Request {
    /// Nothing more is asked for.
    pub(super) fn refuse(&self, error: &EngineError) {
        // And the step that all were asked for.
        for _ in self.from..=self.keys.len() {
            self.waiting.one_done(Some(error.clone()));
        }
    }
}

/// How far a load is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum LoadState {
    /// The read is under way; its result counts only if the ticket is still this one.
    Reading {
        /// Ticket of the read.
        ticket: u64,
    },
    /// The value is in the DRAM table, pinned.
    Filled,
    /// The key has no value.
    Absent,
    /// A write came first; the DRAM table and the graves tell.
    Overtaken,
}

/// One key's load.
#[derive(Debug)]
pub(in crate::store) struct Load {
    pub(in crate::store) state: LoadState,
    /// Waiters that have not dropped their pin.
    pub(in crate::store) pins: usize,
    /// Waiters to be told when the read ends.
    pub(in crate::store) waiters: Vec<Waiter>,
}

impl Load {
    /// Takes out the waiters for which `is_over` is true.
    pub(in crate::store) fn dismiss(
        &mut self,
        mut is_over: impl FnMut(&Waiter) -> bool,
    ) -> Vec<Waiter> {
        self.waiters.extract_if(.., |waiter| is_over(waiter)).collect()
    }
}

/// Room for so many loads is kept when there are none.
const KEPT_LOADS: usize = 64;

/// The loads of one shard; almost always empty.
#[derive(Default)]
pub(in crate::store) struct Loads {
    /// By the hash of the key within its shard: eviction asks for each entry that it looks at.
    map: HashTable<OfKey>,
}

type OfKey = (Slot, Box<[u8]>, Load);

fn hash_of(key: &[u8]) -> u64 {
    key::hash_in_shard(key::hash(key))
}

/// Whether a load is that of this key.
fn is_of(slot: Slot, key: &[u8]) -> impl Fn(&OfKey) -> bool {
    move |(of, name, _)| *of == slot && **name == *key
}

impl Loads {
    #[inline]
    pub(in crate::store) fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// True when the key's value is in memory because a waiter missed it.
    pub(in crate::store) fn has_filled(&self, key: Key<'_>) -> bool {
        self.get(key.slot, key.bytes).is_some_and(|load| load.state == LoadState::Filled)
    }

    pub(in crate::store) fn get(&self, slot: Slot, key: &[u8]) -> Option<&Load> {
        if self.map.is_empty() {
            return None;
        }
        self.map.find(hash_of(key), is_of(slot, key)).map(|(_, _, load)| load)
    }

    pub(in crate::store) fn get_mut(&mut self, slot: Slot, key: &[u8]) -> Option<&mut Load> {
        if self.map.is_empty() {
            return None;
        }
        self.map.find_mut(hash_of(key), is_of(slot, key)).map(|(_, _, load)| load)
    }

    /// Notes a load of a key that has none.
    pub(in crate::store) fn insert(&mut self, key: &OwnedKey, load: Load) {
        debug_assert!(self.get(key.slot, &key.bytes).is_none(), "one load a key");
        let new = (key.slot, key.bytes.clone().into_boxed_slice(), load);
        self.map.insert_unique(hash_of(&key.bytes), new, |(_, name, _)| hash_of(name));
    }

    pub(in crate::store) fn remove(&mut self, slot: Slot, key: &[u8]) {
        if let Ok(found) = self.map.find_entry(hash_of(key), is_of(slot, key)) {
            found.remove();
        }
        if self.map.is_empty() && self.map.capacity() > KEPT_LOADS {
            self.map = HashTable::new();
        }
    }

    /// True when a key of such a slot is still loading or pinned.
    pub(in crate::store) fn holds_any(&self, is_meant: impl Fn(Slot) -> bool) -> bool {
        self.map.iter().any(|(slot, ..)| is_meant(*slot))
    }

    /// A write to `key` happened: a read under way must not bring back what was before it. Answers the state that a load
    /// had, for [`Loads::give_back`] where the write is taken back; `None` when an earlier write has overtaken it.
    #[inline]
    pub(in crate::store) fn overtake(&mut self, key: Key<'_>) -> Option<LoadState> {
        if self.is_empty() {
            return None;
        }
        let load = self.get_mut(key.slot, key.bytes)?;
        let before = std::mem::replace(&mut load.state, LoadState::Overtaken);
        (before != LoadState::Overtaken).then_some(before)
    }

    /// As [`Loads::overtake`], for all keys for which `is_meant` is true; their states are not given back.
    pub(in crate::store) fn overtake_where(&mut self, is_meant: impl Fn(&[u8]) -> bool) {
        for (_, key, load) in &mut self.map {
            if is_meant(key) {
                load.state = LoadState::Overtaken;
            }
        }
    }

    /// The write that took this state from the load of `key` is taken back, and the latch was held in between: nobody has
    /// written the key, asked for it, or brought what was read.
    pub(in crate::store) fn give_back(&mut self, key: Key<'_>, state: LoadState) {
        if let Some(load) = self.get_mut(key.slot, key.bytes) {
            load.state = state;
        }
    }
}

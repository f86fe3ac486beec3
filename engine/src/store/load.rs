//! Keys on their way from a device into memory (N10).
//!
//! A miss puts a load into its shard's map, under the latch. A write to the key in the meantime
//! marks it overtaken: what the cold read brings is then dropped. Loaded keys, and keys found to be
//! absent, stay pinned until every waiter has run.

use super::OwnedKey;
use crate::key::{Key, Slot};
use std::collections::HashMap;

/// How far a load is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoadState {
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
pub(super) struct Load {
    pub(super) state: LoadState,
    /// Waiters that have not dropped their pin.
    pub(super) pins: usize,
    /// Waiters to be told when the read ends.
    pub(super) waiters: Vec<super::cold::Waiter>,
}

/// The loads of one shard; almost always empty.
#[derive(Default)]
pub(super) struct Loads {
    map: HashMap<(Slot, Box<[u8]>), Load>,
}

impl Loads {
    pub(super) fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// True when the key's value is in memory because somebody who misses it is waiting for it.
    pub(super) fn has_filled(&self, key: Key<'_>) -> bool {
        self.get(key.slot, key.bytes).is_some_and(|load| load.state == LoadState::Filled)
    }

    pub(super) fn get(&self, slot: Slot, key: &[u8]) -> Option<&Load> {
        if self.map.is_empty() {
            return None;
        }
        self.map.get(&(slot, Box::from(key)))
    }

    pub(super) fn get_mut(&mut self, slot: Slot, key: &[u8]) -> Option<&mut Load> {
        if self.map.is_empty() {
            return None;
        }
        self.map.get_mut(&(slot, Box::from(key)))
    }

    pub(super) fn insert(&mut self, key: &OwnedKey, load: Load) {
        self.map.insert((key.slot, key.bytes.clone().into_boxed_slice()), load);
    }

    pub(super) fn remove(&mut self, slot: Slot, key: &[u8]) {
        self.map.remove(&(slot, Box::from(key)));
    }

    /// True when a key of one of these slots is still loading or pinned.
    pub(super) fn holds_any(&self, slots: &[bool; 256]) -> bool {
        self.map.keys().any(|(slot, _)| slots[usize::from(*slot)])
    }

    /// A write to `key` happened: a read under way must not bring back what was before it.
    pub(super) fn overtake(&mut self, key: Key<'_>) {
        if let Some(load) = self.get_mut(key.slot, key.bytes) {
            load.state = LoadState::Overtaken;
        }
    }
}

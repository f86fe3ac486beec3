//! Namespaces: maps logical databases to ids (N7).
//!
//! A slot is the one byte that DRAM entries carry; an id is permanent. Both maps change only while
//! all latches are held, so a holder of one latch reads a stable state.

use crate::key::{EngineKey, OWN_RECORDS, Seq, Slot};
pub(super) use crate::key::{HEAD_BYTES, KIND_ELEMENT, KIND_ROOT, root_head as head};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// Number of slots, and the upper bound of databases plus dead namespaces not swept yet.
pub(super) const SLOTS: usize = 256;

/// Ids below this belong to the databases of a new store; sequences start here.
pub(crate) const FIRST_SEQ: Seq = 1 << 20;

/// Id of the namespace of [`OWN_RECORDS`]: no database can have it, since theirs are below 256 or sequences.
pub(crate) const OWN_ID: u64 = FIRST_SEQ - 1;

/// The slot of [`OWN_RECORDS`], for ever.
const OWN_SLOT: Slot = Slot::MAX;

/// The id behind database `db` (or [`OWN_RECORDS`]) where `ids` are those of the databases; [`FREE`] for no database.
#[must_use]
pub(super) fn id_in(ids: &[u64], db: usize) -> u64 {
    if db == OWN_RECORDS { OWN_ID } else { ids.get(db).copied().unwrap_or(FREE) }
}

/// Namespace id and user key of a root record's engine key; `None` for other kinds.
#[inline]
#[must_use]
pub(super) fn split(key: &[u8]) -> Option<(u64, &[u8])> {
    EngineKey::parse_root(key)
}

/// Both maps.
pub(super) struct Namespaces {
    slot_of_db: Box<[AtomicU8]>,
    id_of_slot: Box<[AtomicU64]>,
    /// Ids of the databases behind those in use, which the store had when it was opened with more.
    beyond: OnceLock<Box<[u64]>>,
}

/// Stands in `id_of_slot` for a slot that is free.
pub(super) const FREE: u64 = u64::MAX;

impl Namespaces {
    /// The maps of a new store: database i in slot i with id i.
    pub(super) fn new(databases: usize) -> Self {
        let id = |slot: usize| {
            AtomicU64::new(match slot {
                slot if slot < databases => slot as u64,
                slot if slot == usize::from(OWN_SLOT) => OWN_ID,
                _ => FREE,
            })
        };
        Self {
            slot_of_db: (0..databases).map(|db| AtomicU8::new(db as u8)).collect(),
            id_of_slot: (0..SLOTS).map(id).collect(),
            beyond: OnceLock::new(),
        }
    }

    pub(super) fn databases(&self) -> usize {
        self.slot_of_db.len()
    }

    pub(super) fn slot_of(&self, db: usize) -> Slot {
        if db == OWN_RECORDS {
            return OWN_SLOT;
        }
        self.slot_of_db[db].load(Ordering::Acquire)
    }

    pub(super) fn id_of(&self, slot: Slot) -> u64 {
        self.id_of_slot[usize::from(slot)].load(Ordering::Acquire)
    }

    /// Database and slot that a live namespace id belongs to.
    pub(super) fn find_id(&self, id: u64) -> Option<(usize, Slot)> {
        (0..self.databases())
            .map(|db| (db, self.slot_of(db)))
            .find(|&(_, slot)| self.id_of(slot) == id)
    }

    /// The slot of a live namespace id, also of the one that is no database's.
    pub(super) fn slot_of_id(&self, id: u64) -> Option<Slot> {
        if id == OWN_ID { Some(OWN_SLOT) } else { self.find_id(id).map(|(_, slot)| slot) }
    }

    /// True when the slot belongs to a database now, or is that of [`OWN_RECORDS`]; stable while any latch is held.
    pub(super) fn is_live(&self, slot: Slot) -> bool {
        slot == OWN_SLOT || (0..self.databases()).any(|db| self.slot_of(db) == slot)
    }

    /// Ids by database, for the manifest: of those behind the databases in use, too. What was emptied or swapped
    /// there must not come back when there are more again.
    pub(super) fn ids(&self) -> Vec<u64> {
        let own = (0..self.databases()).map(|db| self.id_of(self.slot_of(db)));
        own.chain(self.beyond.get().into_iter().flatten().copied()).collect()
    }

    /// Sets what the manifest says, at open.
    pub(super) fn restore(&self, ids: &[u64]) {
        let (own, beyond) = ids.split_at(ids.len().min(self.databases()));
        for (slot, &id) in self.id_of_slot.iter().zip(own) {
            slot.store(id, Ordering::Release);
        }
        // Opened once.
        let _ = self.beyond.set(beyond.into());
    }

    /// True for the namespace of a database behind those in use.
    pub(super) fn is_beyond(&self, id: u64) -> bool {
        let is_first = (self.databases() as u64..SLOTS as u64).contains(&id);
        let is_listed = self.beyond.get().is_some_and(|beyond| beyond.contains(&id));
        (is_first || is_listed) && self.find_id(id).is_none()
    }

    pub(super) fn has_free_slot(&self) -> bool {
        (0..SLOTS).any(|slot| self.id_of(slot as u8) == FREE)
    }

    /// Gives database `db` the new namespace `id`. All latches are held. Returns the slot and id that
    /// died, or `None` (and nothing changed) when no slot is free.
    pub(super) fn replace(&self, db: usize, id: u64) -> Option<(Slot, u64)> {
        let free = (0..SLOTS).find(|&slot| self.id_of(slot as u8) == FREE)?;
        let old = self.slot_of(db);
        self.id_of_slot[free].store(id, Ordering::Release);
        self.slot_of_db[db].store(free as u8, Ordering::Release);
        Some((old, self.id_of(old)))
    }

    /// Swaps two databases. All latches are held.
    pub(super) fn swap(&self, a: usize, b: usize) {
        let (slot_a, slot_b) = (self.slot_of(a), self.slot_of(b));
        self.slot_of_db[a].store(slot_b, Ordering::Release);
        self.slot_of_db[b].store(slot_a, Ordering::Release);
    }

    /// A dead slot whose entries have all been swept may be used again.
    pub(super) fn release(&self, slot: Slot) {
        self.id_of_slot[usize::from(slot)].store(FREE, Ordering::Release);
    }
}

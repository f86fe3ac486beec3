//! Stand-in until the real table lands.
use crate::key::{Key, Meta, Slot};
use hashbrown::HashTable;
use std::sync::Arc;

#[derive(Default)]
pub struct PagePool;
impl PagePool {
    pub fn new() -> Arc<Self> {
        Arc::new(Self)
    }
}
pub struct Hint;
impl Hint {
    pub fn prefetch_bucket(&self, _hash: u64) {}
    pub fn prefetch_entry(&self, _hash: u64) {}
}
struct Item {
    hash: u64,
    slot: Slot,
    key: Box<[u8]>,
    meta: Meta,
    value: Vec<u8>,
    generation: u8,
    access: u32,
}
pub struct Table {
    map: HashTable<Item>,
    bytes: usize,
    hint: Arc<Hint>,
}
#[derive(Clone, Copy)]
pub struct EntryRef<'a>(&'a Item);
impl<'a> EntryRef<'a> {
    pub fn key(&self) -> &'a [u8] {
        &self.0.key
    }
    pub fn slot(&self) -> Slot {
        self.0.slot
    }
    pub fn meta(&self) -> Meta {
        self.0.meta
    }
    pub fn value(&self) -> &'a [u8] {
        &self.0.value
    }
    pub fn generation(&self) -> u8 {
        self.0.generation
    }
    pub fn access(&self) -> u32 {
        self.0.access
    }
}
pub struct Upsert {
    pub existed: bool,
    pub was_expiring: bool,
}
pub struct Removed {
    pub had_expiry: bool,
}
impl Table {
    pub fn new(_pool: Arc<PagePool>) -> Self {
        Self { map: HashTable::new(), bytes: 0, hint: Arc::new(Hint) }
    }
    pub fn hint(&self) -> Arc<Hint> {
        Arc::clone(&self.hint)
    }
    pub fn find(&self, key: Key<'_>) -> Option<EntryRef<'_>> {
        self.map.find(key.hash, |i| i.slot == key.slot && *i.key == *key.bytes).map(EntryRef)
    }
    pub fn upsert(
        &mut self,
        key: Key<'_>,
        meta: Meta,
        value: &[u8],
        generation: u8,
        access: u32,
    ) -> Upsert {
        if let Some(i) = self.map.find_mut(key.hash, |i| i.slot == key.slot && *i.key == *key.bytes)
        {
            let was_expiring = i.meta.expire_at_ms != 0;
            self.bytes += value.len();
            self.bytes -= i.value.len();
            i.meta = meta;
            i.value = value.to_vec();
            i.generation = generation;
            i.access = access;
            return Upsert { existed: true, was_expiring };
        }
        self.bytes += 100 + key.bytes.len() + value.len();
        let item = Item {
            hash: key.hash,
            slot: key.slot,
            key: key.bytes.into(),
            meta,
            value: value.to_vec(),
            generation,
            access,
        };
        self.map.insert_unique(key.hash, item, |i| i.hash);
        Upsert { existed: false, was_expiring: false }
    }
    pub fn set_meta(&mut self, key: Key<'_>, meta: Meta, generation: u8) -> bool {
        self.map
            .find_mut(key.hash, |i| i.slot == key.slot && *i.key == *key.bytes)
            .map(|i| {
                i.meta = meta;
                i.generation = generation;
            })
            .is_some()
    }
    pub fn remove(&mut self, key: Key<'_>) -> Option<Removed> {
        let found =
            self.map.find_entry(key.hash, |i| i.slot == key.slot && *i.key == *key.bytes).ok()?;
        let (item, _) = found.remove();
        self.bytes -= 100 + item.key.len() + item.value.len();
        Some(Removed { had_expiry: item.meta.expire_at_ms != 0 })
    }
    pub fn set_access(&mut self, key: Key<'_>, access: u32) {
        if let Some(i) = self.map.find_mut(key.hash, |i| i.slot == key.slot && *i.key == *key.bytes)
        {
            i.access = access;
        }
    }
    pub fn evict(&mut self, target: usize, may: &mut dyn FnMut(&EntryRef<'_>) -> bool) -> usize {
        let mut freed = 0;
        self.map.retain(|i| {
            if freed >= target || !may(&EntryRef(i)) {
                return true;
            }
            freed += 100 + i.key.len() + i.value.len();
            false
        });
        self.bytes -= freed;
        freed
    }
    pub fn sweep_slots(&mut self, dead: &[bool; 256], _buckets: usize) -> bool {
        let mut freed = 0;
        self.map.retain(|i| {
            if !dead[usize::from(i.slot)] {
                return true;
            }
            freed += 100 + i.key.len() + i.value.len();
            false
        });
        self.bytes -= freed;
        true
    }
    pub fn find_hash(&self, hash: u64, mut f: impl FnMut(&EntryRef<'_>)) {
        for i in self.map.iter_hash(hash) {
            if i.hash == hash {
                f(&EntryRef(i));
            }
        }
    }
    pub fn len(&self) -> usize {
        self.map.len()
    }
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

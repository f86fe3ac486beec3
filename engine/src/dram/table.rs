//! The table of one shard.
#![allow(unsafe_code)]

use super::buckets::{BucketArray, Hint, HintView, LANES, Place};
use super::displaced::Replaced;
use super::due::{Dues, UNQUEUED};
use super::entry::{Content, Entry, EntryRef};
use super::page_pool::PagePool;
use super::slab::{PageRef, Slab};
use crate::key::{self, Key, Meta, Slot};
use crate::shared_value::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What [`Table::upsert`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upsert {
    /// The key had an entry.
    pub existed: bool,
    /// And that had an expiry.
    pub was_expiring: bool,
    /// The table may hold more or fewer bytes than before, of which it keeps [`Table::bytes`] and [`Table::data_bytes`].
    pub moved: bool,
}

/// What [`Table::remove`] removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removed {
    /// The entry had an expiry.
    pub had_expiry: bool,
}

/// Position of an entry, while it [stands](Table::stands). What is there later is shown by [`Table::find_at`].
#[derive(Clone, Copy, Debug)]
pub struct Located {
    in_old: bool,
    place: Place,
    /// The [number](Table::number) of its table.
    table: u64,
    /// [`Table::moves`] when it was found.
    moves: u64,
}

/// For [`Table::number`].
static TABLES: AtomicU64 = AtomicU64::new(0);

/// The array that a resize is emptying.
pub(super) struct Emptying {
    pub(super) array: BucketArray,
    /// Buckets below are empty.
    pub(super) cursor: usize,
}

/// Hash table of live entries, for one thread at a time (the owner of the shard's latch).
///
/// Keys must carry `key::hash` of their bytes: entries are hashed again when they move.
pub struct Table {
    pub(super) current: BucketArray,
    pub(super) old: Option<Emptying>,
    pub(super) slab: Slab,
    pub(super) dues: Dues,
    pub(super) hint: Arc<Hint>,
    /// That of no other table of the process, before or after.
    number: u64,
    /// How often entries may have left their places.
    pub(super) moves: u64,
    /// Resizes begun so far: places are stable while it stands still and no resize runs.
    pub(super) resizes: u64,
    pub(super) eviction: super::evict::Hand,
    pub(super) sweep: super::sweep::Cursor,
    pub(super) scratch: Vec<(Entry, u64)>,
}

// SAFETY: a table owns its pages, blocks and arrays alone. The hint that others share touches
// arrays by atomics only. Handles in the fields point at the table's own entries.
unsafe impl Send for Table {}

impl Table {
    /// An empty table that takes its pages from `pool`.
    #[must_use]
    pub fn new(pool: Arc<PagePool>) -> Self {
        let current = BucketArray::new(0);
        let hint = Arc::new(Hint::default());
        hint.publish(&current, None);
        Self {
            current,
            old: None,
            slab: Slab::new(pool),
            dues: Dues::default(),
            hint,
            number: TABLES.fetch_add(1, Ordering::Relaxed),
            moves: 0,
            resizes: 0,
            eviction: Default::default(),
            sweep: Default::default(),
            scratch: Vec::new(),
        }
    }

    /// What other threads may use to bring this table's lines into the cache.
    #[must_use]
    pub fn hint(&self) -> Arc<Hint> {
        Arc::clone(&self.hint)
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.current.len + self.old.as_ref().map_or(0, |old| old.array.len)
    }

    /// True without entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of `bytes()` in values that memtables refer to, or did.
    #[cfg(test)]
    pub(crate) fn shared_bytes(&self) -> usize {
        self.slab.shared_bytes()
    }

    /// Bytes held: pages, buckets, large entries, shared values.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.slab.bytes()
            + self.current.bytes()
            + self.old.as_ref().map_or(0, |old| old.array.bytes())
    }

    /// Bytes of `bytes()` that come from the system and not from the allocator: pages and buckets.
    #[must_use]
    pub fn mapped_bytes(&self) -> usize {
        self.bytes() - self.slab.allocated_bytes()
    }

    /// Bytes of the data: entries, their due times and the buckets that lead to them. Each change of an entry moves
    /// it at once by what the entry takes or gives back.
    #[must_use]
    pub fn data_bytes(&self) -> usize {
        let old = self.old.as_ref().map_or(0, |old| old.array.bytes());
        self.slab.entry_bytes() + self.current.bytes() + old + self.dues.item_bytes()
    }

    /// What a change of an entry changes of `bytes()` and `data_bytes()` while no resize runs.
    #[inline]
    fn held_by_entries(&self) -> (usize, usize, usize) {
        (self.slab.bytes(), self.slab.entry_bytes(), self.dues.item_bytes())
    }

    /// Bytes of `bytes()` that new entries can take without the table growing.
    #[must_use]
    pub fn free_bytes(&self) -> usize {
        self.slab.free_bytes()
    }

    #[inline]
    fn probe(&self, hash: u64, mut wanted: impl FnMut(Entry) -> bool) -> Option<(Located, Entry)> {
        crate::work::note_look_up();
        if let Some((place, entry)) = self.current.probe(hash, &mut wanted) {
            return Some((self.located(false, place), entry));
        }
        let old = self.old.as_ref()?;
        let (place, entry) = old.array.probe(hash, wanted)?;
        Some((self.located(true, place), entry))
    }

    #[inline]
    fn located(&self, in_old: bool, place: Place) -> Located {
        Located { in_old, place, table: self.number, moves: self.moves }
    }

    /// Looks a key up and notes its use.
    #[inline]
    #[must_use]
    pub fn locate(&self, key: Key<'_>) -> Option<Located> {
        let (at, entry) = self.probe(key.hash, |entry| entry.is(key))?;
        entry.touch();
        Some(at)
    }

    /// True if this one was found in this table, and no entry has left its place since: it is there still.
    #[inline]
    #[must_use]
    pub fn stands(&self, at: Located) -> bool {
        (at.table, at.moves) == (self.number, self.moves)
    }

    /// The same place, which [`find_at`](Self::find_at) has just shown to be that of its key.
    #[inline]
    #[must_use]
    pub fn found_again(&self, at: Located) -> Located {
        self.located(at.in_old, at.place)
    }

    /// The entry at a place that [stands](Self::stands); notes its use.
    ///
    /// # Panics
    /// As [`entry`](Self::entry).
    #[inline]
    #[must_use]
    pub fn use_entry(&self, at: Located) -> EntryRef<'_> {
        let entry = self.found(at);
        entry.touch();
        EntryRef::new(entry)
    }

    /// The entry that `locate` found.
    ///
    /// # Panics
    /// When the table was changed since, and no entry is there any more.
    #[inline]
    #[must_use]
    pub fn entry(&self, at: Located) -> EntryRef<'_> {
        EntryRef::new(self.found(at))
    }

    #[inline]
    fn found(&self, at: Located) -> Entry {
        self.array(at).entry(at.place).expect("the table was changed after the look-up")
    }

    /// The entry at a place, if it is that of the key with these bytes; notes its use. The place may come from any table, and from any time.
    #[inline]
    #[must_use]
    pub fn find_at(&self, at: Located, slot: Slot, key: &[u8]) -> Option<EntryRef<'_>> {
        let entry = self.array(at).entry(at.place)?;
        if entry.slot() != slot || entry.key() != key {
            return None;
        }
        entry.touch();
        Some(EntryRef::new(entry))
    }

    /// Where a key is; its use is not noted.
    #[must_use]
    pub fn peek(&self, key: Key<'_>) -> Option<Located> {
        self.probe(key.hash, |entry| entry.is(key)).map(|(at, _)| at)
    }

    /// What may be asked for of this table, whatever becomes of it.
    #[inline]
    #[must_use]
    pub fn hint_view(&self) -> HintView {
        self.hint.view()
    }

    /// The entry of a key; notes its use.
    #[inline]
    #[must_use]
    pub fn find(&self, key: Key<'_>) -> Option<EntryRef<'_>> {
        let (_, entry) = self.probe(key.hash, |entry| entry.is(key))?;
        entry.touch();
        Some(EntryRef::new(entry))
    }

    /// Shows every entry that may have this hash; the caller compares.
    pub fn find_hash(&self, hash: u64, mut f: impl FnMut(&EntryRef<'_>)) {
        self.probe(hash, |entry| {
            f(&EntryRef::new(entry));
            false
        });
    }

    /// Shows about `count` entries from a place that `random` chooses.
    pub fn sample(&self, random: u64, count: usize, mut f: impl FnMut(&EntryRef<'_>)) {
        let mut missing = count;
        let old = self.old.as_ref().map(|old| &old.array);
        // The array is chosen by its share of the entries, by bits that do not choose the bucket.
        let pick = (random >> 32) as usize % self.len().max(1);
        let array = old.filter(|old| pick < old.len).unwrap_or(&self.current);
        for step in 0..array.buckets().min(4 * count + 64) {
            let bucket = array.home(random.wrapping_add(step as u64));
            for lane in 0..LANES {
                // Full buckets hold more than are wanted: none of their lanes must come first always.
                let lane = (lane + (random >> 29) as usize) % LANES;
                let Some(entry) = array.entry(Place { bucket, lane }) else { continue };
                if missing == 0 {
                    return;
                }
                missing -= 1;
                f(&EntryRef::new(entry));
            }
        }
    }

    fn array(&self, at: Located) -> &BucketArray {
        match (&self.old, at.in_old) {
            (Some(old), true) => &old.array,
            _ => &self.current,
        }
    }

    fn array_mut(&mut self, at: Located) -> &mut BucketArray {
        match (&mut self.old, at.in_old) {
            (Some(old), true) => &mut old.array,
            _ => &mut self.current,
        }
    }

    fn write_new(&mut self, content: &Content<'_>) -> Entry {
        let block = self.slab.allocate(content.encoded_len());
        // SAFETY: the block is that long, aligned to 8, and new.
        unsafe { self.slab.write(block, content) }
    }

    /// Writes an entry, new or over the key's old one (in place where the size allows).
    pub fn upsert(
        &mut self,
        key: Key<'_>,
        meta: Meta,
        value: &[u8],
        generation: u8,
        access: u32,
    ) -> Upsert {
        self.upsert_value(key, meta, Value::Copied(value), generation, access)
    }

    /// Like [`Table::upsert`], for a value that may be shared: the entry then refers to it.
    pub(crate) fn upsert_value(
        &mut self,
        key: Key<'_>,
        meta: Meta,
        value: Value<'_>,
        generation: u8,
        access: u32,
    ) -> Upsert {
        let key = (key, None);
        self.write_over(key, meta, value, (generation, access), None::<fn(Replaced<'_>)>)
    }

    /// Like [`Table::upsert_value`]; `keep` is shown the old content before it is replaced. `seen`: where the key was found,
    /// if it was.
    pub(crate) fn upsert_keeping(
        &mut self,
        (key, seen): (Key<'_>, Option<Located>),
        meta: Meta,
        value: Value<'_>,
        (generation, access): (u8, u32),
        keep: impl FnOnce(Replaced<'_>),
    ) -> Upsert {
        self.write_over((key, seen), meta, value, (generation, access), Some(keep))
    }

    /// The entry of a key that may have been found before.
    #[inline]
    fn probe_seen(&self, key: Key<'_>, seen: Option<Located>) -> Option<(Located, Entry)> {
        if let Some(at) = seen.filter(|&at| self.stands(at))
            && let Some(entry) = self.array(at).entry(at.place)
        {
            debug_assert!(entry.is(key), "another entry is in the place of a key");
            return Some((at, entry));
        }
        self.probe(key.hash, |entry| entry.is(key))
    }

    #[inline]
    fn write_over(
        &mut self,
        (key, seen): (Key<'_>, Option<Located>),
        meta: Meta,
        value: Value<'_>,
        (generation, access): (u8, u32),
        keep: Option<impl FnOnce(Replaced<'_>)>,
    ) -> Upsert {
        debug_assert_eq!(key.hash, key::hash(key.bytes));
        let is_resizing = self.old.is_some();
        self.step();
        let (slot, bytes) = (key.slot, key.bytes);
        let mut content = Content { slot, key: bytes, meta, value, generation, access, clock: 0 };
        let Some((at, entry)) = self.probe_seen(key, seen) else {
            self.make_room();
            let entry = self.write_new(&content);
            self.dues.written(UNQUEUED, entry);
            self.current.insert(key.hash, entry);
            if let Some(keep) = keep {
                keep(Replaced::Nothing);
            }
            return Upsert { existed: false, was_expiring: false, moved: true };
        };
        let was_expiring = entry.has_expiry();
        let held = self.held_by_entries();
        entry.touch();
        content.clock = entry.clock();
        match keep {
            // It gets another block: to hand the old one over costs less than to copy it.
            Some(keep) if Slab::may_detach(entry) => {
                self.redirect_to_new(at, entry, &content);
                // SAFETY: bucket and due time point at the new entry now, and `entry` ends here.
                keep(Replaced::Block(unsafe { self.slab.detach_large(entry, entry.len()) }));
            }
            keep => {
                if let Some(keep) = keep {
                    keep(Replaced::Entry(EntryRef::new(entry)));
                }
                self.replace(at, entry, &content);
            }
        }
        Upsert { existed: true, was_expiring, moved: is_resizing || held != self.held_by_entries() }
    }

    /// Writes `content` in place of `entry`; no part of it may be in the table.
    fn replace(&mut self, at: Located, entry: Entry, content: &Content<'_>) {
        if self.slab.fits_in_place(entry, entry.len(), content.encoded_len()) {
            let queued = entry.queued();
            // SAFETY: the slab says that the block is long enough; the sources are the caller's.
            unsafe { self.slab.overwrite(entry, content) };
            self.dues.written(queued, entry);
            return;
        }
        self.relocate(at, entry, content);
    }

    /// Bucket and due time of `entry` point at a new one with `content` afterwards; its own memory is untouched.
    fn redirect_to_new(&mut self, at: Located, entry: Entry, content: &Content<'_>) {
        let new = self.write_new(content);
        self.dues.written(entry.queued(), new);
        self.array_mut(at).redirect(at.place, new);
    }

    fn relocate(&mut self, at: Located, entry: Entry, content: &Content<'_>) {
        self.redirect_to_new(at, entry, content);
        // SAFETY: the bucket points at the new entry now, and `entry` ends here.
        unsafe { self.slab.free(entry) };
    }

    /// Changes flags and expiry and keeps the value; false without an entry. `seen`: where the key was found, if it was.
    pub(crate) fn set_meta(
        &mut self,
        (key, seen): (Key<'_>, Option<Located>),
        meta: Meta,
        generation: u8,
    ) -> bool {
        self.step();
        let Some((at, entry)) = self.probe_seen(key, seen) else { return false };
        if entry.takes_meta(meta) {
            entry.set_meta(meta, generation);
            self.dues.written(entry.queued(), entry);
            return true;
        }
        let (access, clock, shared) = (entry.access(), entry.clock(), entry.shared());
        let value = shared.as_ref().map_or(Value::Copied(entry.value()), Value::Shared);
        let (slot, key) = (key.slot, key.bytes);
        let content = Content { slot, key, meta, value, generation, access, clock };
        self.relocate(at, entry, &content);
        true
    }

    /// Gives all entries another generation.
    pub(crate) fn set_generation(&mut self, generation: u8) {
        self.finish_resize();
        for bucket in 0..self.current.buckets() {
            for lane in 0..LANES {
                if let Some(entry) = self.current.entry(Place { bucket, lane }) {
                    entry.set_meta(EntryRef::new(entry).meta(), generation);
                }
            }
        }
    }

    /// Sets the 24-bit access field.
    pub fn set_access(&mut self, key: Key<'_>, access: u32) {
        if let Some((_, entry)) = self.probe(key.hash, |entry| entry.is(key)) {
            entry.set_access(access);
        }
    }

    /// Removes a key's entry.
    pub fn remove(&mut self, key: Key<'_>) -> Option<Removed> {
        self.remove_keeping(key, |_| {})
    }

    /// Like [`Table::remove`]; `keep` is shown the old content before it is removed.
    pub(crate) fn remove_keeping(
        &mut self,
        key: Key<'_>,
        keep: impl FnOnce(Replaced<'_>),
    ) -> Option<Removed> {
        let at = self.locate_to_remove(key)?;
        Some(self.remove_located(key.hash, at, keep))
    }

    /// Position of the entry of a key, which [`remove_located`](Self::remove_located) may remove next.
    pub(crate) fn locate_to_remove(&mut self, key: Key<'_>) -> Option<Located> {
        self.step();
        self.probe(key.hash, |entry| entry.is(key)).map(|(at, _)| at)
    }

    /// Removes the entry that `locate_to_remove` has found: the table must not have been changed since. `keep` is shown
    /// what was there, before it goes.
    pub(crate) fn remove_located(
        &mut self,
        hash: u64,
        at: Located,
        keep: impl FnOnce(Replaced<'_>),
    ) -> Removed {
        let entry = self.array_mut(at).entry(at.place);
        let entry = entry.expect("the table was changed after the look-up");
        let (had_expiry, class) = (entry.has_expiry(), self.slab.class_of_page(entry));
        if Slab::may_detach(entry) {
            self.take_place(hash, at);
            self.dues.removed(entry);
            // SAFETY: neither bucket nor due time points at the entry any more, and its handles end here.
            keep(Replaced::Block(unsafe { self.slab.detach_large(entry, entry.len()) }));
        } else {
            keep(Replaced::Entry(EntryRef::new(entry)));
            self.remove_at(hash, at, entry);
        }
        if let Some(page) = class.and_then(|class| self.slab.sparse_page(class)) {
            self.evacuate(page);
        }
        self.shrink();
        Removed { had_expiry }
    }

    /// An entry leaves its place.
    fn take_place(&mut self, hash: u64, at: Located) {
        self.moves += 1;
        self.array_mut(at).remove(hash, at.place);
    }

    fn remove_at(&mut self, hash: u64, at: Located, entry: Entry) {
        self.take_place(hash, at);
        self.dues.removed(entry);
        // SAFETY: neither bucket nor due time points at the entry any more, and its handles end here.
        unsafe { self.slab.free(entry) };
    }

    /// Removes an entry that is in the table.
    pub(super) fn remove_entry(&mut self, hash: u64, entry: Entry) {
        if let Some((at, _)) = self.probe(hash, |found| found == entry) {
            self.remove_at(hash, at, entry);
        } else {
            debug_assert!(false, "an entry without a bucket");
        }
    }

    /// Moves the entries of a page elsewhere and gives the page back. There must be room in other
    /// pages of the class.
    pub(super) fn evacuate(&mut self, page: PageRef) {
        let mut moving = std::mem::take(&mut self.scratch);
        moving.clear();
        moving.extend(self.slab.entries(page).map(|entry| (entry, key::hash(entry.key()))));
        for &(_, hash) in &moving {
            self.prefetch(hash);
        }
        self.slab.evacuate(page);
        for &(entry, hash) in &moving {
            let copy = self.slab.copy(entry, page);
            self.dues.moved(copy);
            match self.probe(hash, |found| found == entry) {
                Some((at, _)) => self.array_mut(at).redirect(at.place, copy),
                None => debug_assert!(false, "an entry without a bucket"),
            }
        }
        moving.clear();
        self.scratch = moving;
        // SAFETY: every entry was copied, and buckets and due times point at the copies.
        unsafe { self.slab.evacuated(page) };
    }

    pub(super) fn prefetch(&self, hash: u64) {
        self.current.prefetch(hash);
        if let Some(old) = &self.old {
            old.array.prefetch(hash);
        }
    }
}

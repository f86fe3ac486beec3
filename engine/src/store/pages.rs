//! Pages of collections in memory: those of one shard, beside its table of keys.
//!
//! A page is in the shard of its root's key, under that key's latch, in a separate table. Walks over keys therefore meet no pages, and
//! a store without collections has no such table. A page is an ordinary entry: pinned while its memtable is not
//! sorted (N10), evicted when a table or a sorted memtable holds it, loaded again by a ticket.
//!
//! Small collections share one table. A large one has a table of its own, which goes from shard to shard as a whole when the collection gets
//! another key, and out of the way when it is gone, whatever its size.

use super::page_key::{NAME_BYTES, cid_of};
use crate::dram::{EntryRef, Evicted, PagePool, SweepPass, Table};
use crate::key::{self, Key, Meta, Slot};
use crate::page::Descriptor;
use crate::shared_value::{SharedValue, Value};
use std::sync::Arc;

/// Pages from which on a collection has a table of its own. Fewer take no time to speak of to be moved, and a table with few pages in
/// memory, as many cold collections would have, leaves much of its slab pages unused. Few where tests are to have such collections.
pub(super) const OWN_TABLE_PAGES: u64 = if cfg!(test) { 8 } else { 2048 };

/// Own tables up to which a shard keeps those without a page: their collections live, and get pages again when somebody asks for them.
const EMPTY_TABLES_MAX: usize = if cfg!(test) { 2 } else { 64 };

/// Tables that are asked, at most, for what a shard is to evict.
const EVICTED_FROM_MAX: usize = 8;

/// The pages of one shard.
#[derive(Default)]
pub(super) struct ShardPages {
    /// Of all collections that have no table of their own.
    common: Option<Box<Table>>,
    /// By rising cid. A collection that is here has no page in `common`.
    own: Vec<OwnTable>,
    /// Bytes of `own`, as of the last [`ShardPages::note_held`].
    own_held: Held,
    /// The collection whose own table was last lent out to be changed.
    lent: Option<u64>,
    /// Tables of collections that are gone.
    leaving: Vec<OwnTable>,
    /// Collections that are gone, and whose pages may still be in `common`.
    dead: Vec<u64>,
    pass: SweepPass,
    /// Chooses the table that gives up pages.
    random: u64,
}

/// The pages in memory of one large collection.
pub(super) struct OwnTable {
    cid: u64,
    slot: Slot,
    table: Box<Table>,
    /// What is in the sum over all.
    held: Held,
}

impl OwnTable {
    /// Of a collection that has just these pages, all of them shared blocks.
    pub(super) fn new((slot, cid): (Slot, u64), table: Table) -> Self {
        Self { cid, slot, table: Box::new(table), held: Held::default() }
    }

    /// Its pages are in the memtable of this generation (N10).
    pub(super) fn set_generation(&mut self, generation: u8) {
        self.table.set_generation(generation);
    }

    /// Its pages that are shared blocks, by their names in memory.
    pub(super) fn blocks(self) -> Vec<([u8; NAME_BYTES], SharedValue)> {
        let mut blocks = Vec::with_capacity(self.table.len());
        let mut table = self.table;
        table.remove_where(|entry| {
            let name = entry.key().try_into().ok();
            blocks.extend(name.zip(entry.shared()));
            true
        });
        blocks
    }
}

/// What tables hold, as the table has it in its figures of these names.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    bytes: usize,
    mapped_bytes: usize,
    data_bytes: usize,
}

impl Held {
    fn of(table: &Table) -> Self {
        Self {
            bytes: table.bytes(),
            mapped_bytes: table.mapped_bytes(),
            data_bytes: table.data_bytes(),
        }
    }

    fn replace(&mut self, before: Self, now: Self) {
        self.bytes = self.bytes + now.bytes - before.bytes;
        self.mapped_bytes = self.mapped_bytes + now.mapped_bytes - before.mapped_bytes;
        self.data_bytes = self.data_bytes + now.data_bytes - before.data_bytes;
    }
}

/// The pages in memory of a collection on their way into another shard.
pub(super) enum TakenPages {
    /// All of them, as they are.
    Table(OwnTable),
    /// Those of a small collection.
    Few(Vec<TakenPage>),
}

/// A page on its way from one table into another.
pub(super) struct TakenPage {
    slot: Slot,
    key: Box<[u8]>,
    meta: Meta,
    generation: u8,
    access: u32,
    value: Content,
}

enum Content {
    Copied(Box<[u8]>),
    Shared(SharedValue),
}

impl TakenPage {
    fn new(entry: &EntryRef<'_>) -> Self {
        let value = match entry.shared() {
            Some(block) => Content::Shared(block),
            None => Content::Copied(entry.value().into()),
        };
        Self {
            slot: entry.slot(),
            key: entry.key().into(),
            meta: entry.meta(),
            generation: entry.generation(),
            access: entry.access(),
            value,
        }
    }

    fn put_into(&self, table: &mut Table) {
        let key = Key { slot: self.slot, bytes: &self.key, hash: key::hash(&self.key) };
        let value = match &self.value {
            Content::Copied(bytes) => Value::Copied(bytes),
            Content::Shared(block) => Value::Shared(block),
        };
        table.upsert_value(key, self.meta, value, self.generation, self.access);
    }
}

/// Takes the entries of one collection out of a table.
fn take_from(table: Option<&mut Box<Table>>, cid: u64) -> Vec<TakenPage> {
    let mut taken = Vec::new();
    if let Some(table) = table {
        table.remove_where(|entry| {
            let is_own = cid_of(entry.key()) == Some(cid);
            taken.extend(is_own.then(|| TakenPage::new(entry)));
            is_own
        });
    }
    taken
}

impl ShardPages {
    fn place(&self, cid: u64) -> Result<usize, usize> {
        self.own.binary_search_by_key(&cid, |own| own.cid)
    }

    /// The table with the pages of a collection, if it may have any in memory.
    #[inline]
    pub(super) fn table_of(&self, cid: u64) -> Option<&Table> {
        if !self.own.is_empty()
            && let Ok(at) = self.place(cid)
        {
            return Some(&self.own[at].table);
        }
        self.common.as_deref()
    }

    /// Where the table of a collection is, if it has one of its own, until others come or go.
    #[inline]
    pub(super) fn own_place(&self, cid: u64) -> usize {
        if self.own.is_empty() { 0 } else { self.place(cid).unwrap_or(0) }
    }

    /// [`table_of`](Self::table_of), whose own table was [here](Self::own_place) lately.
    #[inline]
    pub(super) fn table_at(&self, place: usize, cid: u64) -> Option<&Table> {
        match self.own.get(place) {
            Some(own) if own.cid == cid => Some(&own.table),
            _ => self.table_of(cid),
        }
    }

    /// The same, to be changed.
    pub(super) fn table_of_mut(&mut self, cid: u64) -> Option<&mut Table> {
        if !self.own.is_empty()
            && let Ok(at) = self.place(cid)
        {
            return Some(self.lend(at));
        }
        self.common.as_deref_mut()
    }

    /// The same, which is made where there is none.
    pub(super) fn make_table_of(&mut self, cid: u64, pool: &Arc<PagePool>) -> &mut Table {
        if !self.own.is_empty()
            && let Ok(at) = self.place(cid)
        {
            return self.lend(at);
        }
        self.common.get_or_insert_with(|| Box::new(Table::new(Arc::clone(pool))))
    }

    fn lend(&mut self, at: usize) -> &mut Table {
        let cid = self.own[at].cid;
        if self.lent != Some(cid) {
            self.note_held();
            self.lent = Some(cid);
        }
        &mut self.own[at].table
    }

    /// Sees to it that a collection with a root of this value has a table of its own if it is large.
    #[inline]
    pub(super) fn part(&mut self, (slot, cid): (Slot, u64), root: &[u8], pool: &Arc<PagePool>) {
        if Descriptor::named_by(root)
            .is_some_and(|of| of.collection == cid && of.pages >= OWN_TABLE_PAGES)
        {
            self.give_own_table(slot, cid, pool);
        }
    }

    fn give_own_table(&mut self, slot: Slot, cid: u64, pool: &Arc<PagePool>) {
        let Err(at) = self.place(cid) else { return };
        let mut table = Box::new(Table::new(Arc::clone(pool)));
        take_from(self.common.as_mut(), cid).iter().for_each(|page| page.put_into(&mut table));
        self.own.insert(at, OwnTable { cid, slot, table, held: Held::default() });
        self.note_held_at(at);
    }

    /// Takes what is in memory of a collection out of this shard.
    pub(super) fn take(&mut self, cid: u64) -> TakenPages {
        match self.place(cid) {
            Ok(at) => TakenPages::Table(self.remove_own(at)),
            Err(_) => TakenPages::Few(take_from(self.common.as_mut(), cid)),
        }
    }

    /// Gives this shard what another had of a collection. What it has of it itself goes: that may be out of date.
    pub(super) fn give(&mut self, cid: u64, pages: TakenPages, pool: &Arc<PagePool>) {
        self.forget(cid);
        match pages {
            TakenPages::Table(own) => self.add(own),
            TakenPages::Few(pages) if pages.is_empty() => {}
            TakenPages::Few(pages) => {
                let table = self.make_table_of(cid, pool);
                pages.iter().for_each(|page| page.put_into(table));
            }
        }
    }

    /// Adds the table of a collection that has nothing in memory here.
    pub(super) fn add(&mut self, mut own: OwnTable) {
        own.held = Held::default();
        let at = self.place(own.cid).unwrap_or_else(|at| at);
        self.own.insert(at, own);
        self.note_held_at(at);
    }

    /// Drops what is in memory of a collection.
    pub(super) fn forget(&mut self, cid: u64) {
        if let Ok(at) = self.place(cid) {
            self.remove_own(at);
        } else if let Some(table) = &mut self.common {
            table.remove_where(|entry| cid_of(entry.key()) == Some(cid));
        }
    }

    fn remove_own(&mut self, at: usize) -> OwnTable {
        let own = self.own.remove(at);
        self.own_held.replace(own.held, Held::default());
        own
    }

    /// Brings the sum over all own tables up to date.
    pub(super) fn note_held(&mut self) {
        if let Some(cid) = self.lent.take()
            && let Ok(at) = self.place(cid)
        {
            self.note_held_at(at);
        }
    }

    fn note_held_at(&mut self, at: usize) {
        let own = &mut self.own[at];
        let now = Held::of(&own.table);
        self.own_held.replace(own.held, now);
        own.held = now;
    }

    fn held(&self, of: impl Fn(&Held) -> usize, now: impl Fn(&Table) -> usize) -> usize {
        let leaving: usize = self.leaving.iter().map(|own| now(&own.table)).sum();
        of(&self.own_held) + leaving + self.common.as_deref().map_or(0, now)
    }

    /// Bytes held, own tables as of the last [`ShardPages::note_held`].
    #[inline]
    pub(super) fn bytes(&self) -> usize {
        self.held(|held| held.bytes, Table::bytes)
    }

    /// Like [`Table::mapped_bytes`].
    #[inline]
    pub(super) fn mapped_bytes(&self) -> usize {
        self.held(|held| held.mapped_bytes, Table::mapped_bytes)
    }

    /// Like [`Table::data_bytes`].
    #[inline]
    pub(super) fn data_bytes(&self) -> usize {
        self.held(|held| held.data_bytes, Table::data_bytes)
    }

    /// Pages in memory.
    pub(super) fn len(&self) -> usize {
        let own = self.own.iter().chain(&self.leaving).map(|own| own.table.len());
        own.sum::<usize>() + self.common.as_deref().map_or(0, Table::len)
    }

    /// Collections that have a table of their own, by rising cid, with their pages in memory.
    #[cfg(test)]
    pub(super) fn own_tables(&self) -> Vec<(u64, usize)> {
        self.own.iter().map(|own| (own.cid, own.table.len())).collect()
    }

    /// Evicts pages that `may_go`: of `excess` bytes, which are too much of `held`, those that are the share of pages.
    ///
    /// What is of collections that are gone goes first. Then a table is chosen as often as its bytes say, as one clock over all of them
    /// would come by.
    pub(super) fn evict(
        &mut self,
        (excess, held): (usize, usize),
        may_go: &mut dyn FnMut(&EntryRef<'_>) -> bool,
    ) -> Evicted {
        self.note_held();
        let all = self.bytes();
        let share = (excess as u128 * all as u128).div_ceil(held.max(1) as u128) as usize;
        let (mut evicted, tables) = (Evicted::default(), self.own.len() + 1);
        while let Some(gone) = self.leaving.last_mut()
            && evicted.bytes < share
        {
            // Nobody looks for them, pinned or not; nor do they count as evicted.
            let of_table = gone.table.evict(share - evicted.bytes, &mut |_| true);
            evicted.bytes += of_table.bytes;
            if gone.table.is_empty() {
                self.leaving.pop();
            } else if of_table == Evicted::default() {
                break;
            }
        }
        let first = self.choose_table();
        for step in 0..tables.min(EVICTED_FROM_MAX) {
            let rest = share.saturating_sub(evicted.bytes);
            if rest == 0 {
                break;
            }
            let of_table = self.evict_from((first + step) % tables, rest, may_go);
            evicted.entries += of_table.entries;
            evicted.bytes += of_table.bytes;
        }
        if self.own.len() > EMPTY_TABLES_MAX {
            for own in self.own.extract_if(.., |own| own.table.is_empty()) {
                self.own_held.replace(own.held, Held::default());
            }
        }
        evicted
    }

    /// The table in which a byte lies that is chosen at random; the common one is the first.
    fn choose_table(&mut self) -> usize {
        if self.own.is_empty() {
            return 0;
        }
        self.random = self.random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        let common = self.common.as_deref().map_or(0, Table::bytes);
        let all = common + self.own_held.bytes;
        let mut at = ((u128::from(self.random) * all as u128) >> 64) as usize;
        let sizes = std::iter::once(common).chain(self.own.iter().map(|own| own.held.bytes));
        for (table, bytes) in sizes.enumerate() {
            match at.checked_sub(bytes) {
                Some(rest) => at = rest,
                None => return table,
            }
        }
        0
    }

    fn evict_from(
        &mut self,
        table: usize,
        bytes: usize,
        may_go: &mut dyn FnMut(&EntryRef<'_>) -> bool,
    ) -> Evicted {
        let Some(at) = table.checked_sub(1) else {
            let table = self.common.as_deref_mut();
            return table.map_or_else(Evicted::default, |table| table.evict(bytes, may_go));
        };
        let evicted = self.own[at].table.evict(bytes, may_go);
        self.note_held_at(at);
        evicted
    }

    /// The prefix of a collection was buried: its pages go, those in the common table step by step. Answers about how many bytes of data
    /// leave; `bytes` are those of all its pages.
    pub(super) fn note_dead(&mut self, prefix: &[u8], bytes: u64) -> usize {
        let Some(cid) = prefix.get(key::HEAD_BYTES..).and_then(cid_of) else { return 0 };
        let mut leave = self.common.as_deref().map_or(0, Table::data_bytes);
        leave = leave.min(usize::try_from(bytes).unwrap_or(usize::MAX));
        if let Ok(at) = self.place(cid) {
            let gone = self.remove_own(at);
            leave = gone.table.data_bytes();
            self.leaving.push(gone);
        }
        if self.common.is_some() {
            self.dead.push(cid);
            self.dead.sort_unstable();
            // What was passed may hold pages of this one.
            self.pass = SweepPass::default();
        }
        leave
    }

    /// The tables of collections that are gone, to be dropped without the latch.
    pub(super) fn take_leaving(&mut self) -> Vec<OwnTable> {
        std::mem::take(&mut self.leaving)
    }

    /// True when pages of collections that are gone may be left in the common table.
    pub(super) fn has_dead(&self) -> bool {
        !self.dead.is_empty()
    }

    /// Removes pages of collections that are gone from the common table, visiting at most `buckets` buckets; true when none is left.
    pub(super) fn sweep_dead(&mut self, buckets: usize) -> bool {
        let Some(table) = self.common.as_deref_mut() else { return true };
        let dead = &self.dead;
        let is_dead = |key: &[u8]| cid_of(key).is_some_and(|cid| dead.binary_search(&cid).is_ok());
        let is_over = table.sweep_entries(&mut self.pass, buckets, |entry| is_dead(entry.key()));
        if is_over {
            self.dead.clear();
        }
        is_over
    }

    /// Removes what is in memory of these slots, visiting at most `buckets` buckets; true when nothing is left.
    pub(super) fn sweep_slots(&mut self, slots: &[bool; 256], buckets: usize) -> bool {
        self.note_held();
        if let Some(at) = self.own.iter().position(|own| slots[usize::from(own.slot)]) {
            let is_over = self.own[at].table.sweep_slots(slots, buckets);
            self.note_held_at(at);
            if is_over {
                self.remove_own(at);
            }
            return false;
        }
        self.common.as_deref_mut().is_none_or(|table| table.sweep_slots(slots, buckets))
    }
}

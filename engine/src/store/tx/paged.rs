//! Changes of collections whose content is stored in pages (engine/DESIGN.md, "Paged collections").
//!
//! The pages that an operation changes are written with it: they share its sequence, and take none of their own. Pages and
//! descriptor are in blocks that the DRAM table shares with the memtable. The first change in an epoch makes the block and puts its record,
//! later ones change the block (E1, E3).

use super::Tx;
use super::buf::{Operation, Staged};
use super::edits::{Edits, Held, Latches};
use crate::key::{Key, Meta, Seq, element_head};
use crate::page::{Descriptor, Named};
use crate::shared_value::{OwnBlock, SharedValue, Value};
use crate::store::engine::{Engine, EngineError};
use crate::store::page_key::{self, PageKey, PageName};
use crate::store::read::cold::Beyond;

/// Answer of a look-up of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundPage<'a> {
    /// Its content.
    Live(&'a [u8]),
    /// There is no such page.
    Absent,
    /// It may be on a device: [`Engine::load_pages`] it, then look again.
    Cold,
}

impl Engine {
    /// A number for a new collection. It is never given out again.
    ///
    /// # Errors
    /// The store keeps no pages: with `deletes = tombstones`, and with `persistence-mode wbl`.
    pub fn new_collection(&self) -> Result<u64, EngineError> {
        self.check_takes_pages()?;
        let inner = self.inner();
        Ok(inner.graveyard.collections.next(|| inner.versions.new_file_number()))
    }

    /// False while no collection of this store has lain in pages.
    #[must_use]
    #[inline]
    pub fn has_pages(&self) -> bool {
        self.inner().graveyard.collections.are_there()
    }

    /// True when collections of this store may be in pages: [`Engine::new_collection`] names some.
    #[must_use]
    pub fn takes_pages(&self) -> bool {
        let inner = self.inner();
        inner.dead_keys.has_cemetery() && inner.write.wbl.get().is_none()
    }

    pub(super) fn check_takes_pages(&self) -> Result<(), EngineError> {
        if !self.takes_pages() {
            let reason = "collections lie in pages only in a store with a cemetery and a log";
            return Err(EngineError::Refused(reason.into()));
        }
        Ok(())
    }
}

impl Tx<'_> {
    /// The newest content of a page of the collection `cid` of `root`, which lives.
    pub fn find_page(&mut self, root: Key<'_>, cid: u64, page: PageName) -> FoundPage<'_> {
        let key = PageKey::new(root.slot, cid, page);
        let in_memory = |table: &crate::dram::Table| table.find(key.in_table()).is_some();
        if !self.guards.shard(root.hash).pages.table_of(cid).is_some_and(in_memory) {
            if self.has_removed(root, &key) {
                return FoundPage::Absent;
            }
            let engine = self.engine;
            engine.part_pages(self.guards.shard(root.hash), root, cid);
            match engine.look_beyond_pages(self.guards.shard(root.hash), &key) {
                Beyond::Filled => self.moved = true,
                Beyond::Absent => return FoundPage::Absent,
                Beyond::Cold => return FoundPage::Cold,
            }
        }
        let table = self.guards.shard(root.hash).pages.table_of(cid);
        let entry = table.and_then(|table| table.find(key.in_table()));
        entry.map_or(FoundPage::Absent, |entry| FoundPage::Live(entry.value()))
    }

    /// Brings a page into memory where the latch of its root is held, as [`Tx::bring_in`] does a key: the last resort. False when there
    /// is none.
    ///
    /// # Errors
    /// As for [`Tx::bring_in`].
    pub fn bring_in_page(
        &mut self,
        root: Key<'_>,
        cid: u64,
        page: PageName,
    ) -> Result<bool, EngineError> {
        match self.find_page(root, cid, page) {
            FoundPage::Live(_) => return Ok(true),
            FoundPage::Absent => return Ok(false),
            FoundPage::Cold => {}
        }
        let (engine, key) = (self.engine, PageKey::new(root.slot, cid, page));
        let engine_key = [&page_key::head(self.namespace_of(root))[..], key.bytes()].concat();
        let found = engine.read_newest(&engine_key, Seq::MAX)?;
        let buried = engine.inner().graveyard.elements.newest_at(&engine_key, Seq::MAX);
        let Some(newest) = found.filter(|newest| Some(newest.seq) > buried) else {
            return Ok(false);
        };
        engine.fill_page(self.shard(root.hash), key.in_table(), newest.meta, &newest.value);
        Ok(true)
    }

    /// The collection `cid`, which gets pages, has a table of its own if it is large.
    pub(super) fn part_pages(&mut self, (root, cid): (Key<'_>, u64), descriptor: &[u8]) {
        let pool = &self.engine.inner().memory.pages;
        self.guards.shard(root.hash).pages.part((root.slot, cid), descriptor, pool);
    }

    /// A page gets another block: the first change of an epoch, or one that has no room in the block before (E3).
    pub(super) fn put_page(&mut self, root: Key<'_>, key: &PageKey, block: SharedValue) {
        let engine = self.engine;
        let written = (self.generation, engine.inner().write.access_now());
        self.moved = true;
        // Operations that follow look pages up again: they know the block before.
        self.buf.changes.clear();
        let (shard, journal) = (self.guards.shard(root.hash), &mut self.buf.journal);
        let count = *shard.count_mut(root.slot);
        let table = shard.pages.make_table_of(key.cid(), &engine.inner().memory.pages);
        let (meta, value) = (Meta::default(), Value::Shared(&block));
        table.upsert_keeping((key.in_table(), None), meta, value, written, |replaced| {
            journal.note(root.slot, count, replaced);
        });
        journal.note_overtaken(shard.page_loads.overtake(key.in_table()));
        let head = page_key::head(self.namespace_of(root));
        let staged = self.buf.stage_shared((&head, key.bytes()), meta, block);
        self.push_page(root, key, staged);
    }

    /// The last step of an operation on pages: the root says what has become of the collection. `edits_before` were there before the
    /// operation. True where the block of the root was changed.
    pub(super) fn put_descriptor(
        &mut self,
        (root, cid): (Key<'_>, u64),
        meta: Meta,
        descriptor: &[u8],
        edits_before: usize,
    ) -> bool {
        let meta = Meta { flags: meta.flags & Meta::FLAGS_MASK, ..meta };
        let epoch = self.engine.epoch();
        let change = |edits: &mut Edits, latches: Latches<'_, '_>, block: Held| {
            let old = edits.block(block).bytes();
            Descriptor::collection_of(old) == Some(cid)
                && edits.splice(latches, (block, epoch), 0..old.len(), descriptor)
        };
        if self.edit_root((root, meta), edits_before, change) {
            return true;
        }
        self.bury_replaced(root, Some(cid));
        if self.buf.journal.edits.len() > edits_before {
            let count = *self.guards.shard(root.hash).count_mut(root.slot);
            self.buf.journal.note_edits(root.slot, count, edits_before);
            self.push_edited(root.hash, true);
        }
        let access = self.engine.inner().write.access_now();
        self.put_block(root, meta, OwnBlock::new(descriptor, epoch), access);
        false
    }

    pub(super) fn remove_page(&mut self, root: Key<'_>, key: &PageKey) {
        self.moved = true;
        self.buf.changes.clear();
        let (shard, journal) = (self.guards.shard(root.hash), &mut self.buf.journal);
        let count = *shard.count_mut(root.slot);
        let removed = shard.pages.table_of_mut(key.cid()).and_then(|table| {
            table.remove_keeping(key.in_table(), |replaced| {
                journal.note(root.slot, count, replaced);
            })
        });
        if removed.is_none() {
            // It was evicted since somebody looked at it.
            journal.note(root.slot, count, crate::dram::Replaced::Nothing);
        }
        journal.note_overtaken(shard.page_loads.overtake(key.in_table()));
        self.buf.deletes += 1;
        let at = self.buf.records.len();
        self.buf.records.extend_from_slice(&page_key::head(self.namespace_of(root)));
        self.buf.records.extend_from_slice(key.bytes());
        let len = self.buf.records.len() - at;
        self.push_page(root, key, Staged::Delete { at, len, record_len: 0, had_expiry: false });
    }

    /// The grave of the pages of what the next operation replaces, unless that is the collection `kept`. Where the root is cold, the
    /// settling of the overwrite buries them (N9).
    pub(super) fn bury_replaced(&mut self, root: Key<'_>, kept: Option<u64>) {
        if !self.buries_pages() {
            return;
        }
        if let Some(named) = self.paged_root(root).filter(|named| Some(named.collection) != kept) {
            self.bury(root, named);
        }
    }

    /// False where no collection is in pages, and where the pool has no word for it: what a start with a log has laid out
    /// stays until its database is emptied.
    pub(super) fn buries_pages(&self) -> bool {
        let inner = self.engine.inner();
        inner.write.wbl.get().is_none() && inner.graveyard.collections.are_there()
    }

    /// The collection that a root names; `None` for what is in none, or is cold.
    pub(in crate::store) fn paged_root(&mut self, root: Key<'_>) -> Option<Named> {
        if !self.engine.inner().graveyard.collections.are_there() {
            return None;
        }
        match self.find(root) {
            super::Found::Live(entry) if entry.meta().is_paged() => {
                Descriptor::named_by(entry.value())
            }
            _ => None,
        }
    }

    /// The grave of all pages of a collection (E4), with the operation that follows.
    pub(super) fn bury(&mut self, root: Key<'_>, named: Named) {
        let prefix = element_head(self.namespace_of(root), named.collection);
        let count = *self.shard(root.hash).count_mut(root.slot);
        self.buf.journal.note_nothing(root.slot, count);
        let at = self.buf.records.len();
        self.buf.records.extend_from_slice(&prefix);
        let staged = Staged::Bury { at, len: prefix.len(), pages: named.pages, bytes: named.bytes };
        self.buf.operations.push(Operation { hash: root.hash, staged, shares_seq: true });
        self.buf.sharing += 1;
    }

    fn push_page(&mut self, root: Key<'_>, key: &PageKey, staged: Staged) {
        let hash = key.hash_beside(root.hash);
        self.buf.operations.push(Operation { hash, staged, shares_seq: true });
        self.buf.sharing += 1;
    }

    /// True when this transaction has removed the page and not made it again since.
    fn has_removed(&mut self, root: Key<'_>, key: &PageKey) -> bool {
        if self.buf.deletes == 0 {
            return false;
        }
        let head = page_key::head(self.namespace_of(root));
        self.buf.is_deleted(key.hash_beside(root.hash), &head, key.bytes())
    }
}

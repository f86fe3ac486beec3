//! Changes of collections whose content lies in pages (engine/DESIGN.md, "Paged collections").
//!
//! The pages that an operation changes are written with it: they have its sequence, and take none of their own. Until there are
//! epochs (E1 to E3) each change of a page puts the whole page into the memtable.

use super::Tx;
use super::buf::{Operation, Staged};
use crate::key::{Key, Meta, Seq, element_head};
use crate::page::Descriptor;
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
    /// It may lie on a device: [`Engine::load_pages`] it, then look again.
    Cold,
}

/// What becomes of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageChange<'a> {
    /// It has this content from now on.
    Put(&'a [u8]),
    /// It goes. It was there.
    Remove,
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

    /// True when collections of this store may lie in pages: [`Engine::new_collection`] names some.
    #[must_use]
    pub fn takes_pages(&self) -> bool {
        self.check_takes_pages().is_ok()
    }

    fn check_takes_pages(&self) -> Result<(), EngineError> {
        let inner = self.inner();
        if inner.has_tombstones() || inner.write.wbl.get().is_some() {
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
        if !self.shard(root.hash).pages.table().is_some_and(in_memory) {
            if self.has_removed(root, &key) {
                return FoundPage::Absent;
            }
            let engine = self.engine;
            match engine.look_beyond_pages(self.shard(root.hash), &key) {
                Beyond::Filled => {}
                Beyond::Absent => return FoundPage::Absent,
                Beyond::Cold => return FoundPage::Cold,
            }
        }
        let table = self.shard(root.hash).pages.table();
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

    /// Writes the root of a collection and the pages that change with it, each named once: one operation. The collection
    /// is one that [`Engine::new_collection`] has named for this root.
    ///
    /// # Errors
    /// As [`Engine::new_collection`]; nothing is written then.
    pub fn put_paged(
        &mut self,
        root: Key<'_>,
        cid: u64,
        (meta, descriptor): (Meta, &[u8]),
        changes: &[(PageName, PageChange<'_>)],
    ) -> Result<(), EngineError> {
        self.engine.check_takes_pages()?;
        self.bury_replaced(root, Some(cid));
        for (page, change) in changes {
            let key = PageKey::new(root.slot, cid, *page);
            match change {
                PageChange::Put(content) => self.put_page(root, &key, content),
                PageChange::Remove => self.remove_page(root, &key),
            }
        }
        self.put_root(root, meta, descriptor);
        Ok(())
    }

    fn put_page(&mut self, root: Key<'_>, key: &PageKey, content: &[u8]) {
        let engine = self.engine;
        let (access, generation) = (engine.inner().write.access_now(), self.generation);
        let head = page_key::head(self.namespace_of(root));
        let again =
            self.buf.put_page_again(key.hash_beside(root.hash), (&head, key.bytes()), content);
        let (shard, journal) = (self.guards.shard(root.hash), &mut self.buf.journal);
        let count = *shard.count_mut(root.slot);
        if again {
            // What was before the first put is in the journal.
            let table = shard.pages.make_table(&engine.inner().memory.pages);
            table.upsert(key.in_table(), Meta::default(), content, generation, access);
            return;
        }
        let value = crate::shared_value::Value::Copied(content);
        let table = shard.pages.make_table(&engine.inner().memory.pages);
        let written = (generation, access);
        table.upsert_keeping(key.in_table(), Meta::default(), value, written, |replaced| {
            journal.note(root.slot, count, replaced);
        });
        journal.note_overtaken(shard.page_loads.overtake(key.in_table()));
        let (at, len, key_len) = self.stage_page(root, key, content);
        self.push_page(root, key, Staged::Put { at, len, key_len, room: len });
    }

    fn remove_page(&mut self, root: Key<'_>, key: &PageKey) {
        let (shard, journal) = (self.guards.shard(root.hash), &mut self.buf.journal);
        let count = *shard.count_mut(root.slot);
        let removed = shard.pages.table_mut().and_then(|table| {
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
        self.push_page(root, key, Staged::Delete { at, len, had_expiry: false });
    }

    /// The grave of the pages of what the next operation replaces, unless that is the collection `kept`. Where the root is cold, the
    /// settling of the overwrite buries them (N9).
    pub(super) fn bury_replaced(&mut self, root: Key<'_>, kept: Option<u64>) {
        if self.engine.inner().write.wbl.get().is_some() {
            // The pool has no word for it: what a start with a log has laid out stays until its database is emptied.
            return;
        }
        if let Some((cid, pages)) = self.paged_root(root).filter(|(cid, _)| Some(*cid) != kept) {
            self.bury(root, cid, pages);
        }
    }

    /// The collection that a root names, and how many pages it has; `None` for what lies in none, or is cold.
    pub(in crate::store) fn paged_root(&mut self, root: Key<'_>) -> Option<(u64, u64)> {
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
    fn bury(&mut self, root: Key<'_>, cid: u64, pages: u64) {
        let prefix = element_head(self.namespace_of(root), cid);
        let count = *self.shard(root.hash).count_mut(root.slot);
        self.buf.journal.note_nothing(root.slot, count);
        let at = self.buf.records.len();
        self.buf.records.extend_from_slice(&prefix);
        let staged = Staged::Bury { at, len: prefix.len(), pages };
        self.buf.operations.push(Operation { hash: root.hash, staged, shares_seq: true });
        self.buf.sharing += 1;
    }

    fn push_page(&mut self, root: Key<'_>, key: &PageKey, staged: Staged) {
        let hash = key.hash_beside(root.hash);
        self.buf.operations.push(Operation { hash, staged, shares_seq: true });
        self.buf.sharing += 1;
    }

    fn stage_page(
        &mut self,
        root: Key<'_>,
        key: &PageKey,
        content: &[u8],
    ) -> (usize, usize, usize) {
        let head = page_key::head(self.namespace_of(root));
        self.stage_record((&head, key.bytes()), Meta::default(), content)
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

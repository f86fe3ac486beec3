//! The pages of one collection within a transaction, as the structures of [`crate::page`] ask for them.

use super::Tx;
use super::changes::Change;
use super::edits::Edits;
use super::guards::Guards;
use super::paged::FoundPage;
use super::seen::Look;
use crate::dram::{EntryRef, Located, Table};
use crate::key::{Key, Meta};
use crate::page::long_string::is_full_page;
use crate::page::{Descriptor, PageEdit, PageError, PageId, Pages, PartKind};
use crate::shared_value::{Epoch, OwnBlock};
use crate::store::engine::EngineError;
use crate::store::page_key::{PageKey, PageName};
use std::ops::Range;

impl From<PageId> for PageName {
    fn from(id: PageId) -> Self {
        Self { part: id.part.letter(), number: id.number }
    }
}

/// The pages of a collection whose root lives, for one operation: what it changes is gathered here, so that each page is written once,
/// with the root. Dropped without [`TxPages::put`] it has changed nothing.
///
/// A page that has a block of the present epoch is changed in it (E1); of any other the first change makes a block (E3).
pub struct TxPages<'t, 'e, 'k> {
    tx: &'t mut Tx<'e>,
    root: Key<'k>,
    cid: u64,
    /// Where its table is, if it has one of its own.
    own_table: usize,
    epoch: Epoch,
    before: Before,
}

/// What a transaction had when an operation began.
#[derive(Clone, Copy)]
struct Before {
    edits: usize,
    /// Blocks that those hold.
    held: usize,
    /// Pages that they have changed, which this operation need not look up.
    pages: usize,
}

impl Before {
    /// An operation that is written: what is taken back from here on is the journal's.
    const WRITTEN: Self = Self { edits: usize::MAX, held: usize::MAX, pages: usize::MAX };
}

impl<'e> Tx<'e> {
    /// The pages of the collection `cid` of `root`, for one operation.
    pub fn pages<'t, 'k>(&'t mut self, root: Key<'k>, cid: u64) -> TxPages<'t, 'e, 'k> {
        let (epoch, buf) = (self.engine.epoch(), &mut *self.buf);
        buf.journal.edits.seal();
        if buf.seen.has_lost() {
            buf.changes.clear();
        }
        let follows = buf.changes.begin((cid, root.hash));
        buf.seen.begin(cid, follows);
        let edits = &buf.journal.edits;
        let before = Before { edits: edits.len(), held: edits.held(), pages: buf.changes.len() };
        let own_table = self.guards.get(root.hash).map_or(0, |shard| shard.pages.own_place(cid));
        TxPages { tx: self, root, cid, own_table, epoch, before }
    }
}

impl TxPages<'_, '_, '_> {
    /// Looks for a page that an operation has missed ([`PageError::Missing`]): true when it is in memory now, and the operation can
    /// run again; false when [`crate::Engine::load_pages`] must bring it first, without the latch.
    ///
    /// # Errors
    /// [`PageError::Absent`]: there is no such page.
    pub fn bring(&mut self, page: PageId) -> Result<bool, PageError> {
        match self.tx.find_page(self.root, self.cid, page.into()) {
            FoundPage::Live(_) => Ok(true),
            FoundPage::Cold => Ok(false),
            FoundPage::Absent => Err(PageError::Absent(page)),
        }
    }

    /// Writes the root and what has changed with it: one operation.
    ///
    /// # Errors
    /// As [`crate::Engine::new_collection`]; nothing is written then.
    pub fn put(mut self, meta: Meta, descriptor: &Descriptor) -> Result<(), EngineError> {
        debug_assert_eq!(descriptor.collection, self.cid, "the root of these pages");
        self.tx.engine.check_takes_pages()?;
        let encoded = descriptor.encoded();
        if !self.tx.buf.changes.are_in_place() {
            self.put_changed(&encoded);
        }
        let (root, edits_before) = ((self.root, self.cid), self.before.edits);
        if !self.tx.put_over(self.root, meta, (descriptor, &encoded))
            && self.tx.put_descriptor(root, meta, &encoded, edits_before)
        {
            self.tx.note_left(self.root, descriptor);
        }
        self.before = Before::WRITTEN;
        Ok(())
    }

    /// Writes the pages that have other blocks now, or none any more.
    fn put_changed(&mut self, descriptor: &[u8]) {
        let mut changes = std::mem::take(&mut self.tx.buf.changes);
        if changes.has_new() {
            self.tx.part_pages((self.root, self.cid), descriptor);
        }
        for (page, change) in changes.drain() {
            let key = PageKey::new(self.root.slot, self.cid, page.into());
            match change {
                Change::New(block) | Change::Changed(block) => {
                    self.tx.put_page(self.root, &key, block.into_shared());
                }
                Change::InPlace(_) | Change::Nothing => {}
                Change::Removed => self.tx.remove_page(self.root, &key),
            }
        }
        // Given back with its memory.
        self.tx.buf.changes = changes;
    }
}

impl Drop for TxPages<'_, '_, '_> {
    fn drop(&mut self) {
        let (latches, buf) = (&mut self.tx.guards, &mut *self.tx.buf);
        let (before, edits) = (self.before, &mut buf.journal.edits);
        let has_edited = edits.len() > before.edits;
        if has_edited {
            edits.take_back(latches, before.edits);
        }
        if edits.held() > before.held {
            edits.let_go(before.held);
        }
        if has_edited || buf.changes.len() > before.pages {
            buf.changes.clear();
        } else {
            buf.changes.end();
        }
    }
}

impl<'e> Pages for TxPages<'_, 'e, '_> {
    type Edit<'a>
        = TxEdit<'a, 'e>
    where
        Self: 'a;

    fn read(&self, page: PageId) -> Result<&[u8], PageError> {
        match self.look(page) {
            Look::Unchanged(at) => self.entry(page, at).map(|entry| entry.value()),
            Look::Changed(place) => {
                let buf = &self.tx.buf;
                let bytes = buf.changes.at(place).bytes(&buf.journal.edits);
                bytes.ok_or(PageError::Absent(page))
            }
        }
    }

    fn edit(&mut self, page: PageId) -> Result<TxEdit<'_, 'e>, PageError> {
        let place = match self.look(page) {
            Look::Changed(place) => place,
            Look::Unchanged(at) => {
                let entry = self.entry(page, at)?;
                let edits = &self.tx.buf.journal.edits;
                let change = match edits.held_of(&entry) {
                    Some(held) => Change::InPlace(held),
                    None => match entry.shared().filter(|block| block.is_of(self.epoch)) {
                        Some(block) => Change::InPlace(self.tx.buf.journal.edits.hold(block)),
                        None => Change::Changed(own_block(page, entry.value(), self.epoch)),
                    },
                };
                // What is in a table is not among the changes.
                let place = self.tx.buf.changes.push(page, change);
                self.tx.buf.seen.note_changed(page, place);
                place
            }
        };
        let (latches, buf) = (&mut self.tx.guards, &mut *self.tx.buf);
        match buf.changes.at_mut(place) {
            Change::Removed => Err(PageError::Absent(page)),
            change => Ok(TxEdit {
                change,
                latches,
                root_hash: self.root.hash,
                epoch: self.epoch,
                whole_bytes: 0,
                edits: &mut buf.journal.edits,
            }),
        }
    }

    fn add(&mut self, page: PageId, payload: &[u8]) {
        let block = self.tx.block_for(page, payload, self.epoch);
        let made = match self.tx.buf.changes.get(page) {
            Some(Change::New(_)) | None => Change::New(block),
            Some(_) => Change::Changed(block),
        };
        self.replace(page, made);
    }

    fn remove(&mut self, page: PageId) {
        let change = match self.tx.buf.changes.get(page) {
            // Of what was new nobody has heard: it needs no grave (X2).
            Some(Change::New(_)) => Change::Nothing,
            _ => Change::Removed,
        };
        self.replace(page, change);
    }
}

impl TxPages<'_, '_, '_> {
    /// Where the page is: among the changes, if this operation has changed it, or in a table.
    #[inline]
    fn look(&self, page: PageId) -> Look {
        match self.tx.buf.seen.look(page).unwrap_or_else(|| self.search(page)) {
            Look::Changed(place) if matches!(self.tx.buf.changes.at(place), Change::Nothing) => {
                Look::Unchanged(None)
            }
            look => look,
        }
    }

    /// The same of a page that must be searched for.
    #[cold]
    fn search(&self, page: PageId) -> Look {
        let seen = &self.tx.buf.seen;
        let Some(place) = self.tx.buf.changes.place(page) else {
            return Look::Unchanged(seen.in_table(page));
        };
        seen.note_changed(page, place);
        Look::Changed(place)
    }

    /// The table of pages that has this one, if it is in memory.
    fn table(&self, page: PageId) -> Result<&Table, PageError> {
        let shard = self.tx.guards.get(self.root.hash);
        let table = shard.and_then(|shard| shard.pages.table_at(self.own_table, self.cid));
        table.ok_or(PageError::Missing(page))
    }

    /// The page as it is in memory, without the changes of this operation. It was seen at the place `seen_at`.
    #[inline]
    fn entry(&self, page: PageId, seen_at: Option<Located>) -> Result<EntryRef<'_>, PageError> {
        let table = self.table(page)?;
        match seen_at {
            Some(at) if table.stands(at) => Ok(table.use_entry(at)),
            seen_at => self.find_entry(table, page, seen_at),
        }
    }

    /// The same of one that may have moved since it was seen.
    fn find_entry<'t>(
        &self,
        table: &'t Table,
        page: PageId,
        seen_at: Option<Located>,
    ) -> Result<EntryRef<'t>, PageError> {
        let seen = &self.tx.buf.seen;
        let key = PageKey::new(self.root.slot, self.cid, page.into());
        if let Some(at) = seen_at
            && let Some(entry) = key.find_at(table, at)
        {
            seen.note_in_table(page, table.found_again(at));
            return Ok(entry);
        }
        let at = table.locate(key.in_table()).ok_or(PageError::Missing(page))?;
        seen.note_in_table(page, at);
        Ok(table.entry(at))
    }

    /// Notes what becomes of a page; answers its place among the changes.
    fn replace(&mut self, page: PageId, change: Change) -> usize {
        let place = self.tx.buf.changes.replace(page, change);
        self.tx.buf.seen.note_changed(page, place);
        place
    }
}

/// A block for a page with these bytes, with room for a change or two, unless it cannot grow.
pub(super) fn own_block(page: PageId, payload: &[u8], epoch: Epoch) -> OwnBlock {
    if page.part == PartKind::Bytes && is_full_page(payload.len()) {
        OwnBlock::full(payload, epoch)
    } else {
        OwnBlock::new(payload, epoch)
    }
}

impl Change {
    /// `None` of what was removed.
    fn bytes<'b>(&'b self, edits: &'b Edits) -> Option<&'b [u8]> {
        match self {
            Self::New(block) | Self::Changed(block) => Some(block.bytes()),
            Self::InPlace(block) => Some(edits.block(*block).bytes()),
            Self::Removed | Self::Nothing => None,
        }
    }
}

/// A page that an operation changes.
pub struct TxEdit<'a, 'e> {
    change: &'a mut Change,
    latches: &'a mut Guards<'e>,
    root_hash: u64,
    epoch: Epoch,
    /// Bytes of a block in which it will be full, if it grows.
    whole_bytes: usize,
    edits: &'a mut Edits,
}

impl PageEdit for TxEdit<'_, '_> {
    fn several(&mut self) {
        if let Change::InPlace(block) = self.change {
            let latches = (&mut *self.latches, self.root_hash);
            self.edits.keep_all(latches, (*block, self.epoch));
        }
    }

    fn grows(&mut self, whole_bytes: usize) {
        self.whole_bytes = whole_bytes;
    }

    fn bytes(&self) -> &[u8] {
        self.change.bytes(self.edits).unwrap_or_default()
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        self.splice(at..at + bytes.len(), bytes);
    }

    fn splice(&mut self, range: Range<usize>, bytes: &[u8]) {
        match self.change {
            Change::New(block) | Change::Changed(block) => {
                block.splice(range, bytes, self.whole_bytes);
            }
            Change::Removed | Change::Nothing => {
                debug_assert!(false, "a page that is gone is not edited")
            }
            Change::InPlace(block) => {
                let (latches, placed) = (&mut *self.latches, (*block, self.epoch));
                if self.edits.splice((latches, self.root_hash), placed, range.clone(), bytes) {
                    return;
                }
                // It needs more room: another block, and a further record in this epoch. Nobody will read the old one as it is now:
                // that record is newer (E3), and if all is taken back, so are the edits.
                let change = (range, bytes);
                let old = self.edits.block(*block).bytes();
                let own = OwnBlock::outgrown(old, change, self.epoch, self.whole_bytes);
                *self.change = Change::Changed(own);
            }
        }
    }
}

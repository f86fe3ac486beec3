//! The pages of one collection within a transaction, as the structures of [`crate::page`] ask for them.

use super::paged::{FoundPage, PageChange};
use super::{Guards, Tx};
use crate::key::{Key, Meta};
use crate::page::{PageError, PageId, Pages};
use crate::store::engine::EngineError;
use crate::store::page_key::{PageKey, PageName};
use std::collections::BTreeMap;

impl From<PageId> for PageName {
    fn from(id: PageId) -> Self {
        Self { part: id.part.letter(), number: id.number }
    }
}

/// What an operation has made of a page.
enum Change {
    /// It was not there before.
    New(Vec<u8>),
    Changed(Vec<u8>),
    Removed,
}

impl Change {
    fn as_change(&self) -> PageChange<'_> {
        match self {
            Self::New(payload) | Self::Changed(payload) => PageChange::Put(payload),
            Self::Removed => PageChange::Remove,
        }
    }
}

/// The pages of a collection whose root lives, for one operation: what it changes is gathered here, so that each page is written once,
/// with the root. Dropped without [`TxPages::put`] it has changed nothing.
pub struct TxPages<'t, 'e, 'k> {
    tx: &'t mut Tx<'e>,
    root: Key<'k>,
    cid: u64,
    changes: BTreeMap<PageId, Change>,
}

impl<'e> Tx<'e> {
    /// The pages of the collection `cid` of `root`, for one operation.
    pub fn pages<'t, 'k>(&'t mut self, root: Key<'k>, cid: u64) -> TxPages<'t, 'e, 'k> {
        TxPages { tx: self, root, cid, changes: BTreeMap::new() }
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
    pub fn put(self, meta: Meta, descriptor: &[u8]) -> Result<(), EngineError> {
        let changes: Vec<(PageName, PageChange<'_>)> =
            self.changes.iter().map(|(page, made)| ((*page).into(), made.as_change())).collect();
        self.tx.put_paged(self.root, self.cid, (meta, descriptor), &changes)
    }
}

impl Pages for TxPages<'_, '_, '_> {
    type Edit<'a>
        = &'a mut Vec<u8>
    where
        Self: 'a;

    fn read(&self, page: PageId) -> Result<&[u8], PageError> {
        match self.changes.get(&page) {
            Some(Change::New(payload) | Change::Changed(payload)) => return Ok(payload),
            Some(Change::Removed) => return Err(PageError::Absent(page)),
            None => {}
        }
        let key = PageKey::new(self.root.slot, self.cid, page.into());
        let table = self.tx.guards.get(self.root.hash).and_then(|shard| shard.pages.table());
        let entry = table.and_then(|table| table.find(key.in_table()));
        entry.map(|entry| entry.value()).ok_or(PageError::Missing(page))
    }

    fn edit(&mut self, page: PageId) -> Result<&mut Vec<u8>, PageError> {
        if !self.changes.contains_key(&page) {
            let payload = self.read(page)?.to_vec();
            self.changes.insert(page, Change::Changed(payload));
        }
        match self.changes.get_mut(&page) {
            Some(Change::New(payload) | Change::Changed(payload)) => Ok(payload),
            _ => Err(PageError::Absent(page)),
        }
    }

    fn add(&mut self, page: PageId, payload: &[u8]) {
        let made = match self.changes.get(&page) {
            Some(Change::Removed | Change::Changed(_)) => Change::Changed(payload.to_vec()),
            Some(Change::New(_)) | None => Change::New(payload.to_vec()),
        };
        self.changes.insert(page, made);
    }

    fn remove(&mut self, page: PageId) {
        if let Some(Change::New(_)) = self.changes.get(&page) {
            // Nobody has heard of it: it needs no grave (X2).
            self.changes.remove(&page);
        } else {
            self.changes.insert(page, Change::Removed);
        }
    }
}

impl Guards<'_> {
    /// What the latch of this hash guards, if it is held.
    fn get(&self, hash: u64) -> Option<&crate::store::shard::ShardState> {
        let shard = crate::store::shard::shard_of(hash);
        match self {
            Guards::One(held, guard) => (*held == shard).then_some(&**guard),
            Guards::Many(guards) => {
                let at = guards.binary_search_by_key(&shard, |guard| guard.0).ok()?;
                Some(&guards[at].1)
            }
            Guards::None => None,
        }
    }
}

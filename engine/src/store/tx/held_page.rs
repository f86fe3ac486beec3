//! Pages that a reader keeps as they are, without a copy of them.

use super::Tx;
use super::paged::FoundPage;
use crate::key::Key;
use crate::shared_value::SharedValue;
use crate::store::engine::Engine;
use crate::store::page_key::{PageKey, PageName};

/// The content of a page, as it was when it was asked for. It stays in memory as long as this exists.
#[derive(Debug)]
pub struct HeldPage(pub(super) Held);

#[derive(Debug)]
pub(super) enum Held {
    Block(SharedValue),
    Copy(Vec<u8>),
}

impl HeldPage {
    /// A page that is to be written ([`Tx::put_pages`]), which keeps this block.
    #[must_use]
    pub fn new(content: &[u8]) -> Self {
        // As good as one of an earlier epoch: the first change makes another block (E3).
        Self(Held::Block(SharedValue::new(content)))
    }
}

impl From<Vec<u8>> for HeldPage {
    fn from(content: Vec<u8>) -> Self {
        Self(Held::Copy(content))
    }
}

impl std::ops::Deref for HeldPage {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Held::Block(block) => block.bytes(),
            Held::Copy(content) => content,
        }
    }
}

impl Engine {
    /// Ends the time in which pages are changed in place (E2): those written so far can be held without a copy. No latch may be held.
    pub fn settle_pages(&self) {
        self.inner().at_barrier(|_, _| ());
    }
}

impl Tx<'_> {
    /// The newest content of a page of the collection `cid` of `root`, which lives. `None` if it is not in memory.
    ///
    /// A block of an earlier epoch never changes (E1); one of the present epoch may, behind the latch: it is copied.
    pub fn hold_page(&mut self, root: Key<'_>, cid: u64, page: PageName) -> Option<HeldPage> {
        let (key, epoch) = (PageKey::new(root.slot, cid, page), self.engine.epoch());
        let in_memory = |table: &crate::dram::Table| table.locate(key.in_table());
        let located = self.guards.shard(root.hash).pages.table_of(cid).and_then(in_memory);
        if located.is_none() && !matches!(self.find_page(root, cid, page), FoundPage::Live(_)) {
            return None;
        }
        let table = self.guards.shard(root.hash).pages.table_of(cid)?;
        let entry = table.entry(located.or_else(|| in_memory(table))?);
        let settled = entry.shared().filter(|block| !block.is_of(epoch));
        let copied = || Held::Copy(entry.value().to_vec());
        Some(HeldPage(settled.map_or_else(copied, Held::Block)))
    }
}

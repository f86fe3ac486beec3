//! Pages that commands to come will look at, asked for before the first of these commands runs.
//!
//! A look at a page waits three times for memory: for its bucket, its entry and its block, each of which says where
//! the next one is. The commands of a batch that has arrived whole wait together instead: the buckets of all their pages are asked for,
//! then the entries, then the blocks. Nothing changes by it, and where another thread has the latch nothing is asked.

use super::buf::TxBuf;
use super::seen::SeenPages;
use crate::dram::{HintView, Located};
use crate::key::{Key, Meta, Slot};
use crate::page::PageId;
use crate::shared_value::ADDRESS_BYTES;
use crate::store::engine::Engine;
use crate::store::latch;
use crate::store::page_key::{NAME_BYTES, PageKey};
use crate::store::shard::shard_of;

/// Bytes of a page that are asked for: as many as a page of a hash has between two splits.
const ASKED_BYTES: usize = 512;

/// The collection of a page, and its name there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageOf {
    /// Namespace of the collection.
    pub slot: Slot,
    /// Hash of its key.
    pub root_hash: u64,
    /// Its number.
    pub collection: u64,
    /// The page.
    pub page: PageId,
}

/// A page whose bucket was asked for.
#[derive(Clone, Copy, Debug)]
pub struct AskedPage {
    of: PageOf,
    key_hash: u64,
    table: HintView,
}

/// A look ahead. It has the latch of the last key that it was asked for.
pub struct LookAhead<'e> {
    engine: &'e Engine,
    seen: &'e SeenPages,
    /// The shard of that latch, and the latch if nobody else had it.
    latch: Option<(usize, Option<latch::Latched<'e>>)>,
}

impl Engine {
    /// Begins to look ahead for transactions on these buffers.
    pub fn look_ahead<'e>(&'e self, buf: &'e TxBuf) -> LookAhead<'e> {
        LookAhead { engine: self, seen: &buf.seen, latch: None }
    }
}

impl LookAhead<'_> {
    /// Asks for the value of a key, and says where the key is; `None` where it is not in memory. It does not count as used.
    pub fn ask_root(&mut self, key: Key<'_>) -> Option<Located> {
        let table = &self.held(key.hash)?.table;
        let at = table.peek(key)?;
        table.entry(at).prefetch_value(Engine::SHORT_ENTRY_BYTES);
        Some(at)
    }

    /// Flags, expiry and value of a key with this hash that is there; `None` if entries have moved since.
    pub fn root(&mut self, hash: u64, at: Located) -> Option<(Meta, &[u8])> {
        let table = &self.held(hash)?.table;
        let entry = table.stands(at).then(|| table.entry(at))?;
        Some((entry.meta(), entry.value()))
    }

    /// Asks for the bucket that leads to the entry of a page.
    pub fn ask_bucket(&mut self, of: PageOf) -> Option<AskedPage> {
        let table = self.held(of.root_hash)?.pages.table_of(of.collection)?.hint_view();
        let key_hash = PageKey::new(of.slot, of.collection, of.page.into()).in_table().hash;
        table.prefetch_bucket(key_hash);
        Some(AskedPage { of, key_hash, table })
    }

    /// Asks for the block of a page whose bucket and entry were asked for.
    pub fn ask_block(&mut self, asked: &AskedPage) {
        let AskedPage { of, key_hash, .. } = *asked;
        let seen = self.seen;
        let table = self.held(of.root_hash).and_then(|shard| shard.pages.table_of(of.collection));
        let Some(table) = table else { return };
        let name = PageKey::new(of.slot, of.collection, of.page.into());
        if let Some(at) = table.locate(name.in_table_at(key_hash)) {
            table.entry(at).prefetch_value(ASKED_BYTES);
            seen.note_ahead(of.collection, of.page, at);
        }
    }

    /// What the latch of this hash guards, unless another thread has it.
    #[inline]
    fn held(&mut self, hash: u64) -> Option<&latch::Latched<'_>> {
        let shard = shard_of(hash);
        if self.latch.as_ref().is_none_or(|(held, _)| *held != shard) {
            // The one before is given back first: no order has to be kept.
            self.latch = None;
            self.latch = Some((shard, self.engine.inner().shards[shard].latch.try_take()));
        }
        self.latch.as_ref()?.1.as_ref()
    }
}

impl AskedPage {
    /// The hash of its name.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.key_hash
    }

    /// Asks for the entry that leads to its block.
    pub fn ask_entry(&self) {
        self.table.prefetch_entry(self.key_hash, NAME_BYTES + ADDRESS_BYTES);
    }
}

//! Pages of a collection that nobody can name yet, made ready for memory and memtable without a latch.

use super::Tx;
use super::buf::{Operation, Staged};
use super::held_page::{Held, HeldPage};
use super::pages::own_block;
use crate::dram::Table;
use crate::key::{HEAD_BYTES, Key, Meta, Slot};
use crate::memtable;
use crate::page::PageId;
use crate::shared_value::{ADDRESS_BYTES, SharedValue, Value};
use crate::store::engine::{Engine, EngineError};
use crate::store::page_key::{self, PageKey};
use crate::store::pages::{OWN_TABLE_PAGES, OwnTable};

/// The pages of a new collection. Dropped, it was never there.
pub struct NewPages {
    cid: u64,
    /// Where they belong: a database that is emptied gets another namespace.
    namespace: u64,
    slot: Slot,
    /// What the entries of the table say: the memtable that is to get the records (N10).
    generation: u8,
    table: OwnTable,
    /// One record a page, without its sequence, each of as many bytes.
    records: Vec<u8>,
    blocks: Vec<SharedValue>,
    block_bytes: usize,
}

impl std::fmt::Debug for NewPages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = f.debug_struct("NewPages");
        out.field("cid", &self.cid).field("pages", &self.blocks.len()).finish_non_exhaustive()
    }
}

impl NewPages {
    /// The collection that they are of.
    #[must_use]
    pub fn collection(&self) -> u64 {
        self.cid
    }
}

impl Engine {
    /// Makes pages ready that are to be those of a new collection in database `db`: [`Tx::put_new_pages`] takes a time then that does
    /// not depend on their number but for a copy of short records. Those that are few come back: [`Tx::put_pages`] does as well. May be
    /// called with or without latches.
    ///
    /// # Errors
    /// The pages, where they are few, or the memtables of this store want each record by itself.
    pub fn new_pages(
        &self,
        db: usize,
        pages: Vec<(PageId, HeldPage)>,
    ) -> Result<NewPages, Vec<(PageId, HeldPage)>> {
        let inner = self.inner();
        if (pages.len() as u64) < OWN_TABLE_PAGES || inner.order.linked(self).is_some() {
            return Err(pages);
        }
        let Ok(cid) = self.new_collection() else { return Err(pages) };
        let slot = self.slot_of(db);
        let namespace = inner.namespaces.id_of(slot);
        let (generation, access) = (inner.flusher.active_generation(), inner.write.access_now());
        let epoch = self.epoch();
        let mut table = Table::new(std::sync::Arc::clone(&inner.memory.pages));
        let (head, meta) = (page_key::head(namespace), Meta::default());
        let mut records = Vec::with_capacity(pages.len() * record_bytes());
        let (mut blocks, mut block_bytes) = (Vec::with_capacity(pages.len()), 0);
        for (page, content) in pages {
            let block = match content.0 {
                Held::Block(block) => block,
                Held::Copy(content) => own_block(page, &content, epoch).into_shared(),
            };
            let key = PageKey::new(slot, cid, page.into());
            table.upsert_value(key.in_table(), meta, Value::Shared(&block), generation, access);
            memtable::append_shared(&mut records, meta, (&head, key.bytes()), &block);
            block_bytes += block.held_bytes();
            blocks.push(block);
        }
        let table = OwnTable::new((slot, cid), table);
        Ok(NewPages { cid, namespace, slot, generation, table, records, blocks, block_bytes })
    }
}

/// Bytes of the record of a page.
fn record_bytes() -> usize {
    memtable::encoded_len(HEAD_BYTES + page_key::NAME_BYTES, ADDRESS_BYTES)
}

impl Tx<'_> {
    /// Gives `to` the collection with this descriptor, which names it, and these pages: one operation.
    ///
    /// # Errors
    /// As [`crate::Engine::new_collection`]; nothing is written then.
    pub fn put_new_pages(
        &mut self,
        to: Key<'_>,
        (meta, descriptor): (Meta, &[u8]),
        mut pages: NewPages,
    ) -> Result<(), EngineError> {
        self.engine.check_takes_pages()?;
        self.buf.journal.edits.seal();
        let (cid, edits_before) = (pages.cid, self.buf.journal.edits.len());
        let is_here = (pages.slot, pages.namespace) == (to.slot, self.namespace_of(to));
        if is_here {
            if pages.generation != self.generation {
                pages.table.set_generation(self.generation);
            }
            self.enter(to, pages);
        } else {
            // The database was emptied since.
            self.part_pages((to, cid), descriptor);
            for (name, block) in pages.table.blocks() {
                self.put_page(to, &PageKey::named(to.slot, name), block);
            }
        }
        self.put_descriptor((to, cid), meta, descriptor, edits_before);
        Ok(())
    }

    fn enter(&mut self, to: Key<'_>, pages: NewPages) {
        self.moved = true;
        let shard = self.guards.shard(to.hash);
        let count = *shard.count_mut(to.slot);
        shard.pages.add(pages.table);
        self.buf.journal.note_entered(to.slot, count, pages.cid);
        let (at, len) = (self.buf.records.len(), pages.records.len());
        if at == 0 {
            self.buf.records = pages.records;
        } else {
            self.buf.records.extend_from_slice(&pages.records);
        }
        let staged = Staged::Pages { at, len, record_len: record_bytes() };
        self.buf.operations.push(Operation { hash: to.hash, staged, shares_seq: true });
        self.buf.sharing += 1;
        self.buf.shared.extend(pages.blocks);
        self.buf.shared_bytes += pages.block_bytes;
    }
}

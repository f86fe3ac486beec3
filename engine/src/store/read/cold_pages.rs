//! Loads of pages that miss the DRAM table, by the tickets and threads that also load keys (N10).

use super::LoadPin;
use super::cold::{Beyond, CLEAN_GENERATION, join};
use super::load::{LoadState, Want};
use crate::key::{self, Key, Meta, Seq};
use crate::store::engine::{Engine, EngineError};
use crate::store::page_key::{self, PageKey, PageName};
use crate::store::shard::ShardState;
use crate::store::tx::OwnedKey;

impl Engine {
    /// [`Engine::look_beyond_table`] for a page. The latch of its root is held.
    pub(in crate::store) fn look_beyond_pages(
        &self,
        shard: &mut ShardState,
        key: &PageKey,
    ) -> Beyond {
        let page = key.in_table();
        let state = shard.page_loads.get(page.slot, page.bytes).map(|load| load.state);
        if shard.complete || state == Some(LoadState::Absent) {
            return Beyond::Absent;
        }
        let inner = self.inner();
        let namespace = inner.namespaces.id_of(page.slot);
        let engine_key = join(&page_key::head(namespace), page.bytes);
        let d = inner.graveyard.elements.newest_at(&engine_key, Seq::MAX);
        let below = self.below_table_of(engine_key, namespace);
        match below.sorted() {
            Some(record) if Some(record.seq) <= d => Beyond::Absent,
            Some(_) if below.is_spilled => Beyond::Cold,
            Some(record) => {
                self.fill_page(shard, page, record.meta, record.value());
                Beyond::Filled
            }
            None if below.may_be_in_tables() => Beyond::Cold,
            None => Beyond::Absent,
        }
    }

    /// The collection `cid` of `root`, pages of which come into memory, has a table of its own if it is large.
    pub(in crate::store) fn part_pages(&self, shard: &mut ShardState, root: Key<'_>, cid: u64) {
        if let Some(entry) = shard.table.find(root) {
            shard.pages.part((root.slot, cid), entry.value(), &self.inner().memory.pages);
        }
    }

    pub(in crate::store) fn fill_page(
        &self,
        shard: &mut ShardState,
        key: Key<'_>,
        meta: Meta,
        value: &[u8],
    ) {
        let access = self.inner().write.access_now();
        let Some(cid) = page_key::cid_of(key.bytes) else { return };
        let table = shard.pages.make_table_of(cid, &self.inner().memory.pages);
        let key = Key { hash: key::hash(key.bytes), ..key };
        table.upsert(key, meta, value, CLEAN_GENERATION, access);
    }

    /// As [`Engine::load`], for pages of the collection `cid` of `root`.
    pub fn load_pages(
        &self,
        root: &OwnedKey,
        cid: u64,
        pages: &[PageName],
        max_bytes: u64,
        done: impl FnOnce(Result<LoadPin, EngineError>) + Send + 'static,
    ) {
        let want = |page: &PageName| Want::page(root, PageKey::new(root.slot, cid, *page));
        self.load_wanted(pages.iter().map(want).collect(), max_bytes, done);
    }
}

//! `memtable = skiplist`: each record is linked into a skip list as it is written, and reads of single keys go to
//! memtables and tables alone.

use super::links::Linked;
use super::{RecordOrder, SortedLater};
use crate::key::Seq;
use crate::memtable::{ChunkPool, Mark, Memtable, MemtableKind};
use crate::shared_value::Epoch;
use crate::store::engine::{Engine, EngineError};
use crate::store::namespace;
use crate::store::read::view::View;
use crate::store::shard::shard_of;
use std::sync::Arc;

/// Records are in order as soon as they are written.
struct SkipLists;

/// What a store with such memtables is opened with.
pub(in crate::store) fn chosen(memtable: MemtableKind) -> &'static dyn RecordOrder {
    match memtable {
        MemtableKind::Hash => &SortedLater,
        MemtableKind::SkipList => &SkipLists,
    }
}

impl RecordOrder for SkipLists {
    fn new_memtable(&self, pool: Arc<ChunkPool>, generation: u8, first_seq: Seq) -> Arc<Memtable> {
        Memtable::new(pool, MemtableKind::SkipList, generation, first_seq)
    }

    /// It is copied behind its tower.
    fn encodes_in_place(&self) -> bool {
        false
    }

    /// Under a latch the active memtable stays the active one, so it is the one in which the room will be.
    fn linked(&self, engine: &Engine) -> Option<Linked> {
        let superversion = engine.inner().views.superversion.load();
        Some(Linked::new(Arc::clone(&superversion.active)))
    }

    /// Readers see each record at once, so no block changes.
    fn epoch(&self, _present: Epoch) -> Epoch {
        Epoch::NEVER
    }

    /// From skip lists and tables alone, as an ordinary LSM-tree reads: the DRAM table is neither asked nor filled.
    ///
    /// Under the latch the key has an open grave, in memory or in a run, or its newest version is alive, and
    /// the superversion has that version; what comes later to its active memtable is newer and alive, too.
    fn get_into(
        &self,
        engine: &Engine,
        db: usize,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<bool, EngineError> {
        let inner = engine.inner();
        let hash = engine.hash(key);
        let shard = inner.shards[shard_of(hash)].latch();
        let head = namespace::head(inner.namespaces.id_of(engine.slot_of(db)));
        if shard.graves.is_open(hash, (&head, key)) {
            return Ok(false);
        }
        let engine_key = [&head, key].concat();
        let runs = &inner.graveyard.spill.runs;
        let runs = if runs.is_empty() { None } else { Some(runs.load()) };
        let superversion = inner.views.superversion.load_full();
        drop(shard);
        let d = runs.map_or(Ok(None), |runs| runs.newest_at(&engine_key, Seq::MAX))?;
        let view = View { s: Seq::MAX, superversion, active: Some(Mark::default()) };
        let found = view.newest(&engine_key, |seq, meta, bytes| {
            let lives = !meta.is_tombstone() && Some(seq) > d;
            if lives {
                value.extend_from_slice(bytes);
            }
            lives
        })?;
        Ok(found.unwrap_or(false))
    }
}

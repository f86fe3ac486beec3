//! `deletes = tombstones`: an ordinary LSM-tree, in which a delete is a record without value.

use super::{Cemetery, DeadKeys};
use crate::key::{Meta, Seq};
use crate::memtable;
use crate::store::engine::{Engine, EngineError};
use crate::store::namespace::HEAD_BYTES;
use crate::store::shard::ShardState;
use crate::tree::{self, DeleteMode, Job, Version};

/// A tombstone covers older versions below it; there are no graves.
struct Tombstones;

/// What a store that keeps deletes like this is opened with.
pub(in crate::store) fn chosen(deletes: DeleteMode) -> &'static dyn DeadKeys {
    match deletes {
        DeleteMode::Cemetery => &Cemetery,
        DeleteMode::Tombstones => &Tombstones,
    }
}

impl DeadKeys for Tombstones {
    fn has_cemetery(&self) -> bool {
        false
    }

    fn stage(
        &self,
        records: &mut Vec<u8>,
        (head, key): (&[u8; HEAD_BYTES], &[u8]),
    ) -> (usize, usize) {
        let at = records.len();
        let len = memtable::append(records, Meta::tombstone(), (head, key), b"");
        (at + memtable::HEADER_BYTES, len)
    }

    fn publish(
        &self,
        _engine: &Engine,
        shard: &mut ShardState,
        (hash, key): (u64, &[u8]),
        seq: Seq,
    ) {
        shard.unsorted_dead.insert(hash, key, seq);
    }

    fn memtable_sorted(&self, engine: &Engine, m: Seq) {
        for shard in &engine.inner().shards {
            shard.latch().unsorted_dead.forget_through(m);
        }
    }

    fn pick_merge(
        &self,
        engine: &Engine,
        version: &Version,
        now: Seq,
    ) -> Result<Option<Job>, EngineError> {
        let min_reader = engine.snapshots_through(now)[0];
        let options = engine.inner().compaction_options();
        Ok(tree::pick_tombstones(version, min_reader, &options))
    }

    fn pick_at_rest(
        &self,
        _engine: &Engine,
        _version: &Version,
    ) -> Result<Option<Job>, EngineError> {
        Ok(None)
    }

    /// Dead runs are proved by graves.
    fn start_workers(&self, _engine: &Engine) {}
}

//! The two baselines of the paper's study, and the traits that select them.
//!
//! The product keeps deleted keys in a cemetery and finds the records of its memtables through the DRAM table. The study
//! compares that with what other stores do, within this engine, so that nothing else differs (engine/DESIGN.md, "Paper
//! mode"):
//!
//! | option | baseline | trait | product | baseline's code |
//! |---|---|---|---|---|
//! | `deletes = tombstones` | an ordinary LSM-tree: a delete is a record of the tree | [`DeadKeys`] | [`Cemetery`] | `tombstones.rs`, `dead_table.rs`, `tree/tombstone.rs` |
//! | `memtable = skiplist` | the usual memtable: in order as it grows, and read by itself | [`RecordOrder`] | [`SortedLater`] | `skiplist.rs`, `links.rs`, `memtable/skiplist.rs` |
//!
//! A trait has one method for each point where a baseline differs, and its default body is the product's behaviour. The
//! product's implementations are therefore empty, and the overrides of a baseline are all that it differs in.
//! An implementation is chosen once, when a store is opened, and has no state.
//!
//! Puts are not dispatched one by one. A commit asks once how its records are put ([`RecordOrder::linked`]) and runs
//! separate code for each answer, a commit of a single put reads a flag, and graves are closed without asking
//! ([`ShardState::close_dead`]). A delete asks when it is staged and when it is published.
//!
//! Parts of a format are outside the traits: the tombstone bit in records and tables, its kinds in persistent
//! memory (`wbl/batch.rs`), and the rule by which a merge drops tombstones, which finds none in a store with a cemetery.

pub(super) mod dead_table;
pub(super) mod links;
pub(super) mod skiplist;
pub(super) mod tombstones;

use super::engine::{Engine, EngineError};
use super::namespace::HEAD_BYTES;
use super::shard::ShardState;
use crate::key::Seq;
use crate::memtable::{ChunkPool, Memtable, MemtableKind};
use crate::shared_value::Epoch;
use crate::tree::{Job, Version};
use links::Linked;
use std::sync::Arc;

/// How the store remembers that a key is dead.
pub(super) trait DeadKeys: Send + Sync {
    /// True when deletes open graves. Only then may collections be stored in pages, graves be spilled, and merges put what only
    /// readers of the past need into undo runs.
    fn has_cemetery(&self) -> bool {
        true
    }

    /// Stages the delete of a key, given as head and user's bytes. Answers where its engine key is in `records`, and
    /// the length of the record around that: 0, since a grave needs none.
    fn stage(&self, records: &mut Vec<u8>, key: (&[u8; HEAD_BYTES], &[u8])) -> (usize, usize) {
        let at = records.len();
        records.extend_from_slice(key.0);
        records.extend_from_slice(key.1);
        (at, 0)
    }

    /// A delete has got its sequence, under the latch of its key, which is given with its hash: from here on the
    /// key is known to be dead.
    fn publish(&self, engine: &Engine, shard: &mut ShardState, key: (u64, &[u8]), seq: Seq) {
        engine.open_grave(shard, key, seq);
    }

    /// The memtable that ends with `m` is sorted, and so are all before it.
    fn memtable_sorted(&self, _engine: &Engine, _m: Seq) {}

    /// A merge for the sake of the dead alone: overdue ones first, then by density. `now` is as in C1.
    ///
    /// # Errors
    /// A grave run that cannot be read.
    fn pick_merge(
        &self,
        engine: &Engine,
        version: &Version,
        _now: Seq,
    ) -> Result<Option<Job>, EngineError> {
        engine.pick_burial(version)
    }

    /// Like [`DeadKeys::pick_merge`], for an idle store, which has time for a table with few dead.
    ///
    /// # Errors
    /// As for [`DeadKeys::pick_merge`].
    fn pick_at_rest(&self, engine: &Engine, version: &Version) -> Result<Option<Job>, EngineError> {
        engine.pick_burial_at_rest(version)
    }

    /// Starts the threads that only dead keys need.
    fn start_workers(&self, engine: &Engine) {
        engine.start_proofs();
    }
}

/// How the records of a memtable come into order.
pub(super) trait RecordOrder: Send + Sync {
    /// An empty memtable.
    fn new_memtable(&self, pool: Arc<ChunkPool>, generation: u8, first_seq: Seq) -> Arc<Memtable> {
        Memtable::new(pool, MemtableKind::Hash, generation, first_seq)
    }

    /// True when a put that commits by itself may encode its record where it stays. Asked when the store is opened only.
    fn encodes_in_place(&self) -> bool {
        true
    }

    /// What puts the records of one commit into the active memtable, where they do not just follow each other. The
    /// caller holds latches, and keeps them until it has put them.
    fn linked(&self, _engine: &Engine) -> Option<Linked> {
        None
    }

    /// The epoch in which blocks are changed in place (E2), of the present one.
    fn epoch(&self, present: Epoch) -> Epoch {
        present
    }

    /// As [`Engine::get_into`].
    ///
    /// # Errors
    /// As for [`Engine::get_into`].
    fn get_into(
        &self,
        engine: &Engine,
        db: usize,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<bool, EngineError> {
        engine.get_through_table(db, key, value)
    }
}

/// Deleted keys are in graves beside the tree (`deletes = cemetery`).
pub(super) struct Cemetery;

impl DeadKeys for Cemetery {}

/// The DRAM table is the index of what is not sorted, and a frozen memtable is sorted (`memtable = hash`).
pub(super) struct SortedLater;

impl RecordOrder for SortedLater {}

//! Taking up what a pool had when it was opened: records stay where they are, and what they say is applied to
//! DRAM table, counts and graves as it was when it was new.

use super::index::Indexer;
use super::{
    KIND_DELETE_EXPIRING, KIND_END, KIND_FLUSH_DATABASE, KIND_SWAP_DATABASES, KIND_TOMBSTONE,
    KIND_TOMBSTONE_EXPIRING,
};
use crate::key::{Key, Meta, Seq, Slot};
use crate::memtable::Memtable;
use crate::shared_value::Value;
use crate::store::engine::{Engine, EngineError};
use crate::store::namespace::{self, HEAD_BYTES};
use crate::store::shard::Unresolved;
use crate::store::tx::Tx;
use sexton_persistence::pmem::{KIND_DELETE, KIND_PUT, PmemPool, Record, Recovered};
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Engine {
    /// Makes a memtable on `pool` the active one, with the youngest of the arenas that were recovered in it and
    /// those before frozen, and goes on behind their sequences. Nothing may be in the active memtable. With
    /// `leaves_values` one that is half full is frozen, too, and values of what is frozen are read when they are asked
    /// for.
    pub(super) fn take_up(
        &self,
        pool: &Arc<PmemPool>,
        recovered: &Recovered,
        leaves_values: bool,
    ) -> Result<(), EngineError> {
        let inner = self.inner();
        {
            let _guards = inner.barrier();
            let mut commit = inner.write.commit.lock();
            let old = inner.views.superversion.load_full();
            let (generation, first_seq) = (old.active.generation, old.active.first_seq);
            let active = self.recovered_memtable(pool, recovered, 0, (generation, first_seq));
            commit.replace_empty(Arc::clone(&active));
            self.change_superversion(|superversion| superversion.active = active);
        }
        Indexer::new(self, pool, recovered, leaves_values).run()?;
        let mut commit = inner.write.commit.lock();
        commit.next_seq = commit.next_seq.max(recovered.next_seq);
        Ok(())
    }

    /// A memtable with the `nth` arena that was recovered, if there is one. What is written to it goes to an arena of
    /// its own: nothing is added to the old one.
    pub(super) fn recovered_memtable(
        &self,
        pool: &Arc<PmemPool>,
        recovered: &Recovered,
        nth: usize,
        (generation, first_seq): (u8, Seq),
    ) -> Arc<Memtable> {
        let found = recovered.arenas.get(nth).map(|found| Arc::clone(&found.arena));
        let arenas = (found.into_iter().collect(), pool.new_arena());
        Memtable::in_pool(Arc::clone(&self.inner().memory.pool), arenas, generation, first_seq)
    }
}

impl Tx<'_> {
    /// Applies a recovered operation on a key of a latched shard; nothing is staged. With `leaves_value` the key's
    /// entry has none, and must go before anybody reads it.
    pub(super) fn take_up(
        &mut self,
        record: &Record<'_>,
        hash: u64,
        leaves_value: bool,
    ) -> Result<(), EngineError> {
        let seq = record.seq;
        let (key, is_live) = self.recovered_key(record, hash)?;
        match record.kind {
            KIND_PUT => {
                if is_live {
                    let meta = Meta { flags: record.flags, expire_at_ms: record.aux };
                    let access = self.engine.inner().write.access_now();
                    let value = if leaves_value { b"" } else { record.value };
                    if let Some(item) = self.apply_put(key, meta, Value::Copied(value), access) {
                        self.shard(hash).unresolved.push(Unresolved { seq, ..item });
                        self.engine.inner().flusher.unresolved.fetch_add(1, Ordering::Relaxed);
                    }
                }
                self.close_graves(key, &record.key[..HEAD_BYTES], seq);
            }
            // Of the two ways a store writes only its own, which is fixed when it is made.
            KIND_DELETE..=KIND_TOMBSTONE_EXPIRING => {
                if is_live {
                    let expiring = [KIND_DELETE_EXPIRING, KIND_TOMBSTONE_EXPIRING];
                    self.take_up_delete(key, expiring.contains(&record.kind));
                }
                self.publish_delete(hash, record.key, seq);
            }
            kind => return Err(unusable(record, &format!("kind {kind} is not one of a key"))),
        }
        Ok(())
    }

    /// Applies a recovered operation on databases. Under all latches.
    pub(super) fn take_up_databases(&mut self, record: &Record<'_>) -> Result<(), EngineError> {
        if record.kind == KIND_SWAP_DATABASES {
            let a = self.recovered_database(record, record.aux & u64::from(u32::MAX))?;
            let b = self.recovered_database(record, record.aux >> 32)?;
            self.engine.inner().namespaces.swap(a, b);
            return Ok(());
        }
        let db = self.recovered_database(record, record.aux)?;
        let namespaces = &self.engine.inner().namespaces;
        if !namespaces.has_free_slot() {
            self.sweep_dead_slots();
        }
        let Some(dead) = namespaces.replace(db, record.seq) else {
            return Err(unusable(record, "too many databases were emptied"));
        };
        self.forget_namespace(db, dead, record.seq);
        Ok(())
    }

    fn take_up_delete(&mut self, key: Key<'_>, had_expiry: bool) {
        let shard = self.shard(key.hash);
        shard.table.remove(key);
        let count = shard.count_mut(key.slot);
        count.keys -= 1;
        count.expires -= i64::from(had_expiry);
    }

    /// The key of a record, and whether its namespace still is a database's. Where it is not, the slot means
    /// nothing.
    fn recovered_key<'r>(
        &self,
        record: &Record<'r>,
        hash: u64,
    ) -> Result<(Key<'r>, bool), EngineError> {
        let (id, bytes) = split_key(record)?;
        let found: Option<Slot> = self.engine.inner().namespaces.slot_of_id(id);
        if found.is_none() && self.engine.inner().namespaces.is_beyond(id) {
            return Err(unusable(record, "there are fewer databases now"));
        }
        Ok((Key { slot: found.unwrap_or(0), bytes, hash }, found.is_some()))
    }

    fn recovered_database(&self, record: &Record<'_>, db: u64) -> Result<usize, EngineError> {
        let db = usize::try_from(db).ok().filter(|db| *db < self.engine.databases());
        db.ok_or_else(|| unusable(record, "there are fewer databases now"))
    }
}

/// True for the version of a key, which belongs to the memtable.
pub(super) fn is_version(kind: u8) -> bool {
    matches!(kind, KIND_PUT | KIND_TOMBSTONE | KIND_TOMBSTONE_EXPIRING)
}

/// True for a record about whole databases.
pub(super) fn is_of_databases(kind: u8) -> bool {
    matches!(kind, KIND_FLUSH_DATABASE | KIND_SWAP_DATABASES)
}

/// The user's key of a record about a key; `None` when it is about nothing, but ends a commit.
pub(super) fn user_key<'r>(record: &Record<'r>) -> Result<Option<&'r [u8]>, EngineError> {
    match record.kind {
        KIND_END => Ok(None),
        KIND_PUT..=KIND_TOMBSTONE_EXPIRING => split_key(record).map(|(_, user)| Some(user)),
        kind => Err(unusable(record, &format!("kind {kind} is not known"))),
    }
}

/// Namespace and user's key of a record.
fn split_key<'r>(record: &Record<'r>) -> Result<(u64, &'r [u8]), EngineError> {
    let split = namespace::split(record.key);
    split.ok_or_else(|| unusable(record, "its key is not one of a command"))
}

fn unusable(record: &Record<'_>, reason: &str) -> EngineError {
    let seq: Seq = record.seq;
    EngineError::Corrupt(format!("persistent memory, sequence {seq}: {reason}"))
}

//! Taking up what a pool had when it was opened: records stay where they are, and what they say is applied to
//! DRAM table, counts and graves as it was when it was new.

use super::{
    KIND_DELETE_EXPIRING, KIND_END, KIND_FLUSH_DATABASE, KIND_SWAP_DATABASES, KIND_TOMBSTONE,
    KIND_TOMBSTONE_EXPIRING,
};
use crate::key::{Key, Meta, Seq, Slot};
use crate::memtable::Memtable;
use crate::store::engine::{Engine, EngineError};
use crate::store::namespace::{self, HEAD_BYTES};
use crate::store::shard::Unresolved;
use crate::store::tx::{Latched, Tx, TxBuf};
use sexton_persistence::pmem::{KIND_DELETE, KIND_PUT, PmemPool, Record, Recovered};
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Engine {
    /// Makes a memtable on `pool` the active one, with what was recovered in it, and goes on behind its
    /// sequences. Nothing may be in the active memtable. Answers the number of records.
    pub(super) fn take_up(
        &self,
        pool: &Arc<PmemPool>,
        recovered: &Recovered,
    ) -> Result<u64, EngineError> {
        let inner = self.inner();
        let active = {
            let _guards = inner.barrier();
            let mut commit = inner.commit.lock();
            let old = inner.superversion.load_full();
            let arenas = recovered.arenas.iter().map(|found| Arc::clone(&found.arena)).collect();
            let arenas = (arenas, pool.new_arena());
            let (generation, first_seq) = (old.active.generation, old.active.first_seq);
            let chunks = Arc::clone(&inner.pool);
            let active = Memtable::in_pool(chunks, arenas, generation, first_seq);
            commit.replace_empty(Arc::clone(&active));
            self.change_superversion(|superversion| superversion.active = Arc::clone(&active));
            active
        };
        let mut buf = TxBuf::default();
        let mut tx = self.begin(Latched::All, &mut buf);
        let mut records = 0;
        for found in &recovered.arenas {
            for record in found.in_order() {
                let is_version =
                    matches!(record.kind, KIND_PUT | KIND_TOMBSTONE | KIND_TOMBSTONE_EXPIRING);
                if let Some(pooled) = active.pooled().filter(|_| is_version) {
                    pooled.add(&[record.position()]);
                }
                tx.take_up(&record)?;
                records += 1;
            }
        }
        drop(tx);
        let mut commit = inner.commit.lock();
        commit.next_seq = commit.next_seq.max(recovered.next_seq);
        Ok(records)
    }
}

impl Tx<'_> {
    /// Applies one recovered operation. Under all latches; nothing is staged.
    fn take_up(&mut self, record: &Record<'_>) -> Result<(), EngineError> {
        let seq = record.seq;
        match record.kind {
            KIND_PUT => {
                let (key, is_live) = self.recovered_key(record)?;
                if is_live {
                    let meta = Meta { flags: record.flags, expire_at_ms: record.aux };
                    let access = self.engine.inner().access_now();
                    if let Some(item) = self.apply_put(key, meta, record.value, access) {
                        self.shard(key.hash).unresolved.push(Unresolved { seq, ..item });
                        self.engine.inner().unresolved.fetch_add(1, Ordering::Relaxed);
                    }
                }
                self.close_graves(key, &record.key[..HEAD_BYTES], seq);
            }
            KIND_DELETE | KIND_DELETE_EXPIRING => {
                let (key, is_live) = self.recovered_key(record)?;
                if is_live {
                    self.take_up_delete(key, record.kind == KIND_DELETE_EXPIRING);
                }
                self.open_grave(key.hash, record.key, seq);
            }
            KIND_TOMBSTONE | KIND_TOMBSTONE_EXPIRING => {
                let (key, is_live) = self.recovered_key(record)?;
                if is_live {
                    self.take_up_delete(key, record.kind == KIND_TOMBSTONE_EXPIRING);
                }
                self.shard(key.hash).tombstones.insert(key.hash, record.key, seq);
            }
            KIND_FLUSH_DATABASE => {
                let db = self.recovered_database(record, record.aux)?;
                let namespaces = &self.engine.inner().namespaces;
                if !namespaces.has_free_slot() {
                    self.sweep_dead_slots();
                }
                let Some(dead) = namespaces.replace(db, seq) else {
                    return Err(unusable(record, "too many databases were emptied"));
                };
                self.forget_namespace(db, dead, seq);
            }
            KIND_SWAP_DATABASES => {
                let a = self.recovered_database(record, record.aux & u64::from(u32::MAX))?;
                let b = self.recovered_database(record, record.aux >> 32)?;
                self.engine.inner().namespaces.swap(a, b);
            }
            KIND_END => {}
            kind => return Err(unusable(record, &format!("kind {kind} is not known"))),
        }
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
    fn recovered_key<'r>(&self, record: &Record<'r>) -> Result<(Key<'r>, bool), EngineError> {
        let Some((id, bytes)) = namespace::split(record.key) else {
            return Err(unusable(record, "its key is not one of a command"));
        };
        let found: Option<(usize, Slot)> = self.engine.inner().namespaces.find_id(id);
        let slot = found.map_or(0, |(_, slot)| slot);
        Ok((Key { slot, bytes, hash: self.engine.hash(bytes) }, found.is_some()))
    }

    fn recovered_database(&self, record: &Record<'_>, db: u64) -> Result<usize, EngineError> {
        let db = usize::try_from(db).ok().filter(|db| *db < self.engine.databases());
        db.ok_or_else(|| unusable(record, "there are fewer databases now"))
    }
}

fn unusable(record: &Record<'_>, reason: &str) -> EngineError {
    let seq: Seq = record.seq;
    EngineError::Corrupt(format!("persistent memory, sequence {seq}: {reason}"))
}

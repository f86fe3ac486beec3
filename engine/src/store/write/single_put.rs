//! A transaction of one put, which is what SET is: the steps of any other (engine/DESIGN.md, "A
//! write") without the staging that lets several operations share one commit.

use super::left_out::{Step, left_out};
use crate::key::{Key, Meta, Seq};
use crate::memtable;
use crate::shared_value::{SharedValue, Value};
use crate::store::namespace;
use crate::store::shard::Unresolved;
use crate::store::tx::{Commit, Tx};
use std::sync::atomic::Ordering;

impl Tx<'_> {
    /// Writes a value, logs `resp` for database `db` (as [`Tx::log`] would), and commits: one
    /// operation. With `access` the entry gets that access field instead of the engine's own.
    ///
    /// The record is encoded where it stays, and the log bytes are copied once. A long value is in memory once, too:
    /// the record and the DRAM table's entry refer to it.
    pub fn commit_put(
        mut self,
        key: Key<'_>,
        meta: Meta,
        value: &[u8],
        access: Option<u32>,
        (db, resp): (usize, &[u8]),
    ) -> Commit {
        let inner = self.engine.inner();
        let is_alone = self.operations() == 0 && inner.write.encodes_in_place;
        if !is_alone || self.paged_root(key).is_some() {
            self.put(key, meta, value);
            if let Some(access) = access {
                self.set_access(key, access);
            }
            self.log(db, resp);
            return self.commit();
        }
        let access = access.unwrap_or_else(|| inner.write.access_now());
        let shared = inner.shares_value(value.len()).then(|| SharedValue::new(value));
        let stored = shared.as_ref().map_or(Value::Copied(value), Value::Shared);
        let unresolved = self.apply_put(key, meta, stored, access);
        if let Some(wbl) = inner.write.wbl.get() {
            return self.commit_put_to_pool(wbl, key, meta, value, unresolved);
        }
        let head = namespace::head(inner.namespaces.id_of(key.slot));
        let len = memtable::encoded_len(head.len() + key.bytes.len(), stored.stored_len());

        let mut commit = inner.write.commit.lock();
        let seq = commit.next_seq;
        commit.next_seq += 1;
        if commit.log_on && commit.log.append(seq, 1, db as u32, &[resp]) {
            inner.write.log_wants_kick();
        }
        let mut room = commit.reserve(len);
        if let Some(value) = &shared {
            commit.keep(value.clone());
        }
        let full = commit.just_filled(inner.memory.shares.memtable_bytes());
        drop(commit);
        if !left_out(Step::Pacing) {
            inner.write.pace.note_written(len + shared.as_ref().map_or(0, |_| value.len()));
        }
        self.committed = true;

        match &shared {
            Some(value) => {
                memtable::encode_shared(room.bytes(), seq, meta, (&head, key.bytes), value);
            }
            None => memtable::encode(room.bytes(), seq, meta, (&head, key.bytes), value),
        }
        self.close_graves(key, &head, seq);
        if let Some(item) = unresolved {
            self.shard(key.hash).unresolved.push(Unresolved { seq, ..item });
            inner.flusher.unresolved.fetch_add(1, Ordering::Relaxed);
        }
        if !left_out(Step::LastWrite) {
            inner.write.note_write(key.hash, seq);
        }
        if full {
            inner.upkeep.background.wake_freeze();
        }
        Commit { last_seq: seq, operations: 1 }
    }

    /// A put closes what says that its key is dead (P1).
    #[inline]
    pub(in crate::store) fn close_graves(&mut self, key: Key<'_>, head: &[u8], seq: Seq) {
        self.latched(key.hash).close_dead(key.hash, (head, key.bytes), seq);
    }
}

//! Commits of a store whose memtables are in persistent memory (engine/DESIGN.md, "Write-behind logging").

use super::buf::Staged;
use super::{Commit, Tx, namespace};
use crate::key::{Key, Meta, Seq};
use crate::memtable;
use crate::store::shard::Unresolved;
use crate::store::wbl::{BatchBytes, KIND_END, PoolBatch, Wbl};
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Tx<'_> {
    /// As [`Tx::commit_staged`]: with `last` what is staged ends the commit. Apart from the lines of commits without a pool.
    #[inline(never)]
    pub(super) fn commit_to_pool(&mut self, wbl: &Arc<Wbl>, last: bool) {
        let inner = self.engine.inner();
        let count = self.buf.operations.len() as u64;
        if count == 0 {
            self.close_commit(wbl);
            return;
        }
        let mut bytes = BatchBytes::default();
        for operation in &self.buf.operations {
            match operation.staged {
                Staged::Delete { len, record_len: 0, .. } | Staged::Bury { len, .. } => {
                    bytes.graves += memtable::encoded_len(len, 0)
                }
                Staged::Put { .. } | Staged::Delete { .. } => {
                    bytes.versions += operation.staged.record().len()
                }
                // No page comes here: `Engine::new_collection`.
                Staged::Edited | Staged::Pages { .. } => {}
            }
        }
        let held = self.buf.writer.take();
        let mut batch = PoolBatch::prepare(held, (self.engine, wbl), bytes);
        let mut commit = inner.write.commit.lock();
        let first = commit.next_seq;
        commit.next_seq += count;
        batch.begin(&mut commit, first, first + count - 1);
        drop(commit);
        inner.write.pace.note_written(bytes.versions);
        self.took_sequences(first, count);
        let operations = std::mem::take(&mut self.buf.operations);
        let records = std::mem::take(&mut self.buf.records);
        for (i, operation) in operations.iter().enumerate() {
            let seq = first + i as u64;
            let more = !last || i as u64 + 1 < count;
            match operation.staged {
                Staged::Put { at, len, .. } => {
                    let record = memtable::decode(&records[at..at + len]).0;
                    batch.put(seq, record.meta, (record.key, b""), record.value(), more);
                }
                Staged::Delete { at, len, record_len: 0, had_expiry } => {
                    batch.delete(seq, &records[at..at + len], had_expiry, more);
                }
                Staged::Delete { at, len, had_expiry, .. } => {
                    batch.tombstone(seq, &records[at..at + len], had_expiry, more);
                }
                Staged::Bury { .. } | Staged::Edited | Staged::Pages { .. } => {}
            }
            self.publish(operation, &records, seq);
        }
        self.end_staged(operations, records, first);
        self.unclosed = !last;
        let fences = last && !self.buf.defers_fence;
        self.buf.writer = Some(batch.finish(self.engine, fences));
    }

    /// Ends a commit that has nothing staged any more.
    fn close_commit(&mut self, wbl: &Arc<Wbl>) {
        if self.unclosed {
            let taken = self.take_pool_sequence(wbl, (KIND_END, 0), |_| Some(()));
            debug_assert!(taken.is_some());
        }
        self.unclosed = false;
        if let Some(writer) = self.buf.writer.as_mut().filter(|_| !self.buf.defers_fence) {
            writer.fence(self.engine);
        }
    }

    /// As `take_sequence`.
    pub(super) fn take_pool_sequence<T>(
        &mut self,
        wbl: &Arc<Wbl>,
        (kind, aux): (u8, u64),
        change: impl FnOnce(Seq) -> Option<T>,
    ) -> Option<T> {
        let inner = self.engine.inner();
        let bytes = BatchBytes { versions: 0, graves: memtable::encoded_len(0, 0) };
        let held = self.buf.writer.take();
        let mut batch = PoolBatch::prepare(held, (self.engine, wbl), bytes);
        let mut commit = inner.write.commit.lock();
        let seq = commit.next_seq;
        let changed = change(seq);
        if changed.is_some() {
            commit.next_seq += 1;
            batch.begin(&mut commit, seq, seq);
        }
        drop(commit);
        if changed.is_some() {
            self.took_sequences(seq, 1);
            batch.grave(seq, kind, aux, b"", kind != KIND_END);
            self.unclosed = kind != KIND_END;
        }
        self.buf.writer = Some(batch.finish(self.engine, false));
        changed
    }

    /// A transaction of one put: as [`Tx::commit_put`], whose first part has happened.
    #[inline(never)]
    pub(in crate::store) fn commit_put_to_pool(
        mut self,
        wbl: &Arc<Wbl>,
        key: Key<'_>,
        meta: Meta,
        value: &[u8],
        unresolved: Option<Unresolved>,
    ) -> Commit {
        let inner = self.engine.inner();
        let head = namespace::head(inner.namespaces.id_of(key.slot));
        let versions = memtable::encoded_len(head.len() + key.bytes.len(), value.len());
        let held = self.buf.writer.take();
        let bytes = BatchBytes { versions, graves: 0 };
        let mut batch = PoolBatch::prepare(held, (self.engine, wbl), bytes);
        let mut commit = inner.write.commit.lock();
        let seq = commit.next_seq;
        commit.next_seq += 1;
        batch.begin(&mut commit, seq, seq);
        drop(commit);
        inner.write.pace.note_written(versions);
        self.committed = true;
        batch.put(seq, meta, (&head, key.bytes), value, false);
        self.close_graves(key, &head, seq);
        if let Some(item) = unresolved {
            self.shard(key.hash).unresolved.push(Unresolved { seq, ..item });
            inner.flusher.unresolved.fetch_add(1, Ordering::Relaxed);
        }
        inner.write.note_write(key.hash, seq);
        self.buf.writer = Some(batch.finish(self.engine, !self.buf.defers_fence));
        Commit { last_seq: seq, operations: 1 }
    }
}

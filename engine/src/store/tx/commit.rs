//! The commit of a transaction: sequences and log bytes in one critical section, then memtable and
//! cemetery, then the latches go (engine/DESIGN.md, "A write").

use super::Tx;
use super::buf::{Operation, Staged};
use super::filler::{Filler, Plain};
use super::prepared::Prepared;
use crate::key::Seq;
use crate::memtable;
use crate::store::engine::Engine;
use crate::store::namespace::HEAD_BYTES;
use crate::store::shard::{ShardState, shard_of};
use crate::work;
use sexton_persistence::aof::LogBuffer;
use std::sync::atomic::Ordering;

/// What a commit did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Commit {
    /// Sequence of the last operation; 0 when nothing was written.
    pub last_seq: Seq,
    /// Number of operations.
    pub operations: u32,
}

impl Tx<'_> {
    /// Takes the sequences of the staged operations, and publishes them to memtable and cemetery. With
    /// `last`, the log bytes enter the log in that critical section; without (only under all
    /// latches, where nobody else can commit) they follow at the end.
    pub(super) fn commit_staged(&mut self, last: bool) {
        debug_assert!(self.buf.operations.last().is_none_or(|last| !last.shares_seq));
        let inner = self.engine.inner();
        if self.buf.sequences() == 0 && !last {
            return;
        }
        if let Some(wbl) = inner.write.wbl.get() {
            self.commit_to_pool(wbl, last);
            return;
        }
        match inner.order.linked(self.engine) {
            None => self.commit_by(Plain, last),
            Some(linked) => self.commit_apart(linked, last),
        }
    }

    /// Not between the lines of the plain commit, which is in the instruction cache of every write.
    #[inline(never)]
    fn commit_apart(&mut self, filler: impl Filler, last: bool) {
        self.commit_by(filler, last);
    }

    /// Like `commit_staged`, with a given filler, which puts each record.
    fn commit_by(&mut self, mut filler: impl Filler, last: bool) {
        let inner = self.engine.inner();
        let count = self.buf.sequences() as u64;
        let lens = self.buf.operations.iter().map(|op| op.staged.record().len());
        let mut record_bytes = lens.clone().sum::<usize>();
        record_bytes += filler.bytes_beside(lens.map(|len| len > 0));
        let mut commit = inner.write.commit.lock();
        let first = commit.next_seq;
        commit.next_seq += count;
        if last && commit.log_on {
            let first = self.first_seq.unwrap_or(first);
            let db = self.buf.log_dbs.map_or(0, |(first_db, _)| first_db);
            if self.append_to(&mut commit.log, first, db) {
                inner.write.log_wants_kick();
            }
        }
        let mut room = (record_bytes > 0).then(|| commit.reserve(record_bytes));
        if self.buf.edits_in_place() || !self.buf.shared.is_empty() {
            commit.note_logged(self.log_bytes());
        }
        if !self.buf.shared.is_empty() {
            record_bytes += self.buf.shared_bytes;
            commit.keep_all(&mut self.buf.shared, self.buf.shared_bytes);
            self.buf.shared_bytes = 0;
        }
        let full = commit.just_filled(inner.memory.shares.memtable_bytes());
        drop(commit);
        inner.write.pace.note_written(record_bytes);
        if full {
            inner.upkeep.background.wake_freeze();
        }
        self.took_sequences(first, count);
        let operations = std::mem::take(&mut self.buf.operations);
        let mut records = std::mem::take(&mut self.buf.records);
        let mut next_seq = first;
        for (i, operation) in operations.iter().enumerate() {
            let seq = next_seq;
            next_seq += u64::from(!operation.shares_seq);
            if let Some(room) = &mut room
                && !operation.staged.record().is_empty()
            {
                let record = &mut records[operation.staged.record()];
                match operation.staged {
                    Staged::Pages { record_len, .. } => record
                        .chunks_exact_mut(record_len)
                        .for_each(|record| memtable::stamp(record, seq)),
                    _ => memtable::stamp(record, seq),
                }
                filler.fill(room, record, i);
            }
            self.publish(operation, &records, seq);
        }
        self.end_staged(operations, records, first);
    }

    /// Appends the log bytes. True where the log wants a kick.
    #[inline]
    fn append_to(&self, log: &mut LogBuffer, first: Seq, db: u32) -> bool {
        let (seqs, bytes) = ((first, self.operations), &self.buf.log);
        let prepared = self.prepared.and_then(Prepared::take_logged);
        let Some((at, argument, copied)) = prepared else {
            return log.append(seqs.0, seqs.1, db, &[bytes]);
        };
        let (before, behind) = bytes.split_at(at);
        match copied {
            Some(copied) => log.append_around(seqs, db, before, copied, behind),
            None => log.append(seqs.0, seqs.1, db, &[before, argument, behind]),
        }
    }

    /// The operations from `first` on have their sequences.
    pub(super) fn took_sequences(&mut self, first: Seq, count: u64) {
        self.first_seq.get_or_insert(first);
        self.end_seq = first + count;
    }

    /// Applies a written operation to the cemetery, and tells the waiters for its sequence.
    pub(super) fn publish(&mut self, operation: &Operation, records: &[u8], seq: Seq) {
        let inner = self.engine.inner();
        let hash = operation.hash;
        if operation.shares_seq {
            self.publish_page(operation, records, seq);
            return;
        }
        match operation.staged {
            Staged::Put { at, len, key_len, .. } => {
                let shard = self.latched(hash);
                let key = &records[at..at + len][memtable::HEADER_BYTES..][..key_len];
                shard.close_dead(hash, key.split_at(HEAD_BYTES), seq);
            }
            Staged::Delete { at, len, .. } => {
                self.publish_delete(hash, &records[at..at + len], seq)
            }
            // Its key lives, so no grave is open. And a collection's grave shares the sequence of another operation.
            Staged::Edited | Staged::Pages { .. } | Staged::Bury { .. } => {}
        }
        inner.write.note_write(hash, seq);
    }

    /// Like `publish`, for a page and for the grave of a collection (E4).
    fn publish_page(&mut self, operation: &Operation, records: &[u8], seq: Seq) {
        let inner = self.engine.inner();
        let graves = &inner.graveyard.elements;
        match operation.staged {
            Staged::Put { at, len, key_len, .. } => {
                graves.close(&records[at..at + len][memtable::HEADER_BYTES..][..key_len], seq);
            }
            Staged::Delete { at, len, .. } => {
                graves.open(&records[at..at + len], seq);
                inner.graveyard.note_grave(len, &inner.upkeep.background);
            }
            Staged::Bury { at, len, pages, bytes } => {
                let prefix = &records[at..at + len];
                graves.open(prefix, seq);
                let leave = self.shard(operation.hash).pages.note_dead(prefix, bytes);
                inner.graveyard.note_dead_pages(prefix, seq, (pages, leave));
                inner.graveyard.note_grave(len, &inner.upkeep.background);
            }
            // No grave is of a collection that was not there.
            Staged::Edited | Staged::Pages { .. } => {}
        }
    }

    /// The engine key `key` is dead from its sequence on (X1).
    pub(in crate::store) fn publish_delete(&mut self, hash: u64, key: &[u8], seq: Seq) {
        let engine = self.engine;
        engine.inner().dead_keys.publish(engine, self.shard(hash), (hash, key), seq);
    }

    /// Everything staged is written; its first operation has the sequence `first`.
    pub(super) fn end_staged(&mut self, operations: Vec<Operation>, records: Vec<u8>, first: Seq) {
        let inner = self.engine.inner();
        self.buf.operations = operations;
        self.buf.forget_operations();
        self.buf.records = records;
        self.buf.records.clear();
        for (index, mut item) in std::mem::take(&mut self.buf.unresolved) {
            item.seq = first + index as u64;
            self.shard(item.hash).unresolved.push(item);
            inner.flusher.unresolved.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Ends the transaction and releases the latches.
    pub fn commit(mut self) -> Commit {
        self.committed = true;
        if self.operations == 0 {
            return Commit::default();
        }
        if let Some((first, last)) = self.buf.log_dbs
            && first != last
        {
            self.log_select(first);
        }
        self.commit_staged(true);
        self.buf.forget_log();
        Commit { last_seq: self.end_seq - 1, operations: self.operations }
    }
}

impl Engine {
    /// Opens a grave (X1) in the shard of the engine key, which is given with its hash. Its latch is held.
    pub(in crate::store) fn open_grave(
        &self,
        shard: &mut ShardState,
        (hash, key): (u64, &[u8]),
        seq: Seq,
    ) {
        work::note_grave();
        let inner = self.inner();
        if shard.graves.open(hash, key.into(), seq) {
            inner.graveyard.places.note(key);
        }
        inner.graveyard.note_grave(key.len(), &inner.upkeep.background);
        inner.shards[shard_of(hash)].graves.fetch_add(1, Ordering::AcqRel);
    }
}

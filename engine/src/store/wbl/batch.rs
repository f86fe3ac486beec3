//! The records of one commit on their way into the pool.

use super::{KIND_DELETE_EXPIRING, KIND_TOMBSTONE, KIND_TOMBSTONE_EXPIRING, TxWriter, Wbl};
use crate::key::{Meta, Seq};
use crate::memtable::{self, Memtable, Position, Room};
use crate::store::engine::Engine;
use crate::store::write::commit::CommitState;
use sexton_persistence::pmem::{KIND_DELETE, KIND_PUT, List, NewRecord, PmemPosition};
use std::sync::Arc;

/// Bytes of a commit's records in each list.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::store) struct BatchBytes {
    pub(in crate::store) versions: usize,
    pub(in crate::store) graves: usize,
}

/// One commit, or a part of one. Its latches are held from the first step to the last.
pub(in crate::store) struct PoolBatch {
    writer: Box<TxWriter>,
    memtable: Arc<Memtable>,
    bytes: BatchBytes,
    /// The pool has no room: versions go to the memtable's own arena, and nothing is durable.
    spills: bool,
    room: Option<Room>,
    /// Its versions, which are contiguous: where, and how many bytes.
    placed: Option<(PmemPosition, usize)>,
    spilled: Option<(Position, usize)>,
}

impl PoolBatch {
    /// Sees to room in the pool.
    pub(in crate::store) fn prepare(
        held: Option<Box<TxWriter>>,
        (engine, wbl): (&Engine, &Arc<Wbl>),
        bytes: BatchBytes,
    ) -> Self {
        let mut writer = TxWriter::of(held, wbl);
        let memtable = writer.take_memtable(engine.inner());
        let prepared = match (memtable.pooled(), &mut writer.writer) {
            (Some(pooled), Some(writer)) => {
                let mut prepare = |list, bytes| {
                    bytes == 0 || writer.prepare(pooled.active(), list, bytes).is_ok()
                };
                prepare(List::Versions, bytes.versions) && prepare(List::Graves, bytes.graves)
            }
            _ => false,
        };
        let spills = !prepared || wbl.failure.get().is_some();
        Self { writer, memtable, bytes, spills, room: None, placed: None, spilled: None }
    }

    /// In the critical section: the batch has the sequences from `first` to `last`.
    pub(in crate::store) fn begin(&mut self, commit: &mut CommitState, first: Seq, last: Seq) {
        // Without c_d above it a sequence must not be found in the pool (M5).
        self.spills |= self.writer.wbl.pool.cover(last).is_err();
        match &mut self.writer.writer {
            Some(writer) if !self.spills => writer.begin(first, last),
            _ => {
                self.writer.wbl.note_spilled(first, last);
                self.room = (self.bytes.versions > 0).then(|| commit.reserve(self.bytes.versions));
            }
        }
    }

    /// Writes a version. With `more` the next sequence belongs to this commit, too.
    pub(in crate::store) fn put(
        &mut self,
        seq: Seq,
        meta: Meta,
        key: (&[u8], &[u8]),
        value: &[u8],
        more: bool,
    ) {
        self.version(seq, KIND_PUT, meta, key, value, more);
    }

    /// Writes a tombstone over a value that had an expiry, or none.
    pub(in crate::store) fn tombstone(
        &mut self,
        seq: Seq,
        key: &[u8],
        had_expiry: bool,
        more: bool,
    ) {
        let kind = if had_expiry { KIND_TOMBSTONE_EXPIRING } else { KIND_TOMBSTONE };
        self.version(seq, kind, Meta::tombstone(), (key, b""), b"", more);
    }

    fn version(
        &mut self,
        seq: Seq,
        kind: u8,
        meta: Meta,
        key: (&[u8], &[u8]),
        value: &[u8],
        more: bool,
    ) {
        if let Some(room) = &mut self.room {
            let len = memtable::encoded_len(key.0.len() + key.1.len(), value.len());
            let mut room = room.split_to(len);
            let (_, spilled_bytes) = self.spilled.get_or_insert((room.position(), 0));
            *spilled_bytes += len;
            memtable::encode(room.bytes(), seq, meta, key, value);
            return;
        }
        let (flags, aux) = (meta.flags, meta.expire_at_ms);
        let record = NewRecord { seq, kind, flags, aux, more, key, value };
        if let Some(writer) = &mut self.writer.writer {
            let at = writer.append(List::Versions, &record);
            let (_, placed_bytes) = self.placed.get_or_insert((at, 0));
            *placed_bytes += record.encoded_len();
        }
    }

    /// Writes a delete of a value that had an expiry, or none.
    pub(in crate::store) fn delete(&mut self, seq: Seq, key: &[u8], had_expiry: bool, more: bool) {
        let kind = if had_expiry { KIND_DELETE_EXPIRING } else { KIND_DELETE };
        self.grave(seq, kind, 0, key, more);
    }

    /// Writes something that only recovery reads. What spills needs no record: the flush that makes it durable
    /// writes a checkpoint, too.
    pub(in crate::store) fn grave(&mut self, seq: Seq, kind: u8, aux: u64, key: &[u8], more: bool) {
        if self.spills {
            return;
        }
        if let Some(writer) = &mut self.writer.writer {
            let key = (key, &b""[..]);
            let record = NewRecord { seq, kind, flags: 0, aux, more, key, value: b"" };
            writer.append(List::Graves, &record);
        }
    }

    /// The versions become part of the memtable, and with `fence` all of it durable. The background is told when the
    /// memtable is full. Answers the writer.
    pub(in crate::store) fn finish(mut self, engine: &Engine, fence: bool) -> Box<TxWriter> {
        if let Some(pooled) = self.memtable.pooled() {
            if let (Some((first, len)), Some(writer)) = (self.placed, &self.writer.writer) {
                pooled.add(writer.number(), first, len);
            }
            if let Some((first, len)) = self.spilled {
                pooled.add_spilled(first, len);
            }
        }
        if fence {
            self.writer.fence(engine);
        }
        let inner = engine.inner();
        let is_full = self.memtable.used_bytes() >= inner.memory.shares.memtable_bytes();
        if is_full && self.writer.wbl.tell_full(self.memtable.generation) {
            inner.upkeep.background.wake_freeze();
        }
        if !fence {
            self.writer.memtable = Some(self.memtable);
        }
        self.writer
    }
}

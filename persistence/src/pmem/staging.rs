//! What a writer has appended and not copied: its batch, gathered in DRAM (M9).
//!
//! A batch is copied once, as one stream of whole lines. With a copy per record, each locked instruction behind it would
//! wait until the copy has left the processor, and a line between two records would be written twice.

use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;

use super::chunk::Chunk;
use super::medium::{Lane, SETTLE_LANE};
use super::record::{List, NewRecord};
use crate::device::{LINE_BYTES, StorageError, StorageResult};

/// Piece size in which a batch is copied, in bytes, so that what is gathered stays in the nearest caches.
const PIECE_BYTES: usize = 16 << 10;

/// Values up to this many bytes are gathered, the rest of longer ones is copied from where it is.
const GATHER_BYTES: usize = 4096;

/// A stretch of a chunk's file that was copied and not fenced.
pub(super) type Dirty = (Arc<Chunk>, Range<u64>);

/// The batches of one writer. It has a cache line of its own: only at barriers anybody else comes here.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct Staging(Mutex<Staged>);

/// What its lock guards.
#[derive(Debug, Default)]
struct Staged {
    batches: [Batch; 2],
    /// Copied and not behind the writer's fence.
    dirty: Vec<Dirty>,
    /// What somebody else has copied may not be durable.
    failed: Option<StorageError>,
}

/// The batch of one list: its last records, those that are not copied.
#[derive(Debug, Default)]
struct Batch {
    /// Where it grows; `None` between two batches.
    chunk: Option<Arc<Chunk>>,
    /// Offset in the file of the first byte of `bytes`: the start of a line, unless somebody has read the batch.
    at: u64,
    bytes: Vec<u8>,
}

impl Staging {
    /// Adds a record to the batch of a list, which grows in `chunk`. `place` says where in it the record is, given
    /// whether it is the first of its batch. Answers that range.
    pub(super) fn append(
        &self,
        (lane, list): (Lane, List),
        chunk: &Arc<Chunk>,
        record: &NewRecord<'_>,
        place: impl FnOnce(bool) -> Range<u64>,
    ) -> Range<u64> {
        let mut staged = self.0.lock();
        let Staged { batches, dirty, .. } = &mut *staged;
        let batch = &mut batches[list.index()];
        let first = batch.chunk.is_none();
        let range = place(first);
        if first {
            batch.chunk = Some(Arc::clone(chunk));
            batch.at = chunk.offset() + range.start;
        }
        debug_assert_eq!(batch.end(), chunk.offset() + range.start);
        if record.value.len() <= GATHER_BYTES {
            record.encode(chunk.seed(), first, &mut batch.bytes);
        } else {
            batch.gather_long(lane, (chunk, first), record, dirty);
        }
        if batch.bytes.len() >= PIECE_BYTES {
            batch.copy_lines(lane, chunk, dirty);
        }
        range
    }

    /// Copies what is left of both batches, which end here. `dirty` gets what the writer's fence is for. To be
    /// called by the writer before it.
    ///
    /// # Errors
    ///
    /// What others have copied at a barrier may not be durable.
    pub(super) fn end_batches(&self, lane: Lane, dirty: &mut Vec<Dirty>) -> StorageResult<()> {
        let mut staged = self.0.lock();
        staged.copy_all(lane);
        dirty.append(&mut staged.dirty);
        staged.failed.take().map_or(Ok(()), Err)
    }

    /// Copies what is left of both batches: for readers of their arena, at a barrier. What this thread has copied has
    /// left its processor when this returns; the rest is the business of the writer's fence, so there is no I/O.
    ///
    /// The batches go on: behind one that has ended, and of which a part can still be lost, the next would look as if
    /// durable data were damaged. Nobody was told yet that the line at the end is durable (M2), and no byte of it is
    /// written twice.
    pub(super) fn copy_pending(&self) {
        let mut staged = self.0.lock();
        let Staged { batches, dirty, failed } = &mut *staged;
        for batch in batches {
            if let Some(chunk) = batch.chunk.clone().filter(|_| !batch.bytes.is_empty()) {
                batch.copy(SETTLE_LANE, &chunk, batch.bytes.len(), dirty);
                if let Err(error) = chunk.region().fence(SETTLE_LANE, &[]) {
                    *failed = Some(error);
                }
            }
        }
    }
}

impl Staged {
    fn copy_all(&mut self, lane: Lane) {
        for batch in &mut self.batches {
            if let Some(chunk) = batch.chunk.take() {
                // M1: the rest of the last line belongs to nobody, and is zero (M4). With it only whole lines are
                // written, none of which has to be read first.
                let rest = batch.end().next_multiple_of(LINE_BYTES) - batch.end();
                batch.bytes.resize(batch.bytes.len() + rest as usize, 0);
                batch.copy_lines(lane, &chunk, &mut self.dirty);
            }
        }
    }
}

impl Batch {
    /// Offset in the file behind what is gathered.
    fn end(&self) -> u64 {
        self.at + self.bytes.len() as u64
    }

    /// Copies what is gathered up to the start of the last line that is not full.
    fn copy_lines(&mut self, lane: Lane, chunk: &Arc<Chunk>, dirty: &mut Vec<Dirty>) {
        let end = self.end() / LINE_BYTES * LINE_BYTES;
        if end > self.at {
            self.copy(lane, chunk, (end - self.at) as usize, dirty);
        }
    }

    /// Copies the first `len` bytes of what is gathered.
    fn copy(&mut self, lane: Lane, chunk: &Arc<Chunk>, len: usize, dirty: &mut Vec<Dirty>) {
        chunk.region().copy(lane, self.at, &self.bytes[..len]);
        self.bytes.drain(..len);
        self.copied(chunk, len as u64, dirty);
    }

    /// Notes that `bytes` more bytes were copied.
    fn copied(&mut self, chunk: &Arc<Chunk>, bytes: u64, dirty: &mut Vec<Dirty>) {
        let range = self.at..self.at + bytes;
        self.at = range.end;
        match dirty.last_mut() {
            Some((last, before)) if before.end == range.start && Arc::ptr_eq(last, chunk) => {
                before.end = range.end;
            }
            _ => dirty.push((Arc::clone(chunk), range)),
        }
    }

    /// Adds a record with a long value: the lines in the middle of that are copied from where they are.
    fn gather_long(
        &mut self,
        lane: Lane,
        (chunk, first): (&Arc<Chunk>, bool),
        record: &NewRecord<'_>,
        dirty: &mut Vec<Dirty>,
    ) {
        let line = LINE_BYTES as usize;
        let end = self.end() + record.encoded_len() as u64;
        for part in [&record.header(chunk.seed(), first)[..], record.key.0, record.key.1] {
            self.bytes.extend_from_slice(part);
        }
        let head_len = self.end().next_multiple_of(LINE_BYTES) - self.end();
        let (head, rest) = record.value.split_at(head_len as usize);
        let (middle, tail) = rest.split_at(rest.len() / line * line);
        self.bytes.extend_from_slice(head);
        self.copy_lines(lane, chunk, dirty);
        chunk.region().copy(lane, self.at, middle);
        self.copied(chunk, middle.len() as u64, dirty);
        self.bytes.extend_from_slice(tail);
        self.bytes.resize((end - self.at) as usize, 0);
    }
}

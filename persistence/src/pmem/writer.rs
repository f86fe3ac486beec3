//! A thread's way into the pool: chunks of its own, batches, fences.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::arena::PmemArena;
use super::chunk::{CHUNK_HEADER_BYTES, Chunk, batch_start};
use super::error::{PmemError, PmemResult};
use super::medium::{Lane, MEDIA_LINE_BYTES};
use super::pool::PmemPool;
use super::position::PmemPosition;
use super::record::{List, NewRecord};
use super::rules::{Rule, kept};
use super::staging::Dirty;
use crate::device::StorageError;

/// The chunk to which a list of the writer is growing.
#[derive(Debug)]
struct Open {
    arena: u64,
    arena_used: Arc<AtomicU64>,
    chunk: Arc<Chunk>,
    /// Offset in the chunk behind the last record.
    at: u64,
    /// Bytes that the arena was not told of.
    untold: u64,
}

/// One writer, used by one thread at a time; its fence must come from the thread that has appended since the
/// last one. Given back to the pool when it is dropped.
#[derive(Debug)]
pub struct Writer {
    pool: Arc<PmemPool>,
    number: u16,
    lists: [Option<Open>; 2],
    /// Something was appended since the last fence.
    unfenced: bool,
    /// What the fence that is being made is for.
    dirty: Vec<Dirty>,
    last_begun: u64,
    /// A fence failed: nothing up to this sequence is durable before a flush has taken it over.
    failed: Option<(u64, StorageError)>,
}

impl Writer {
    pub(super) fn new(pool: Arc<PmemPool>, number: u16) -> Self {
        Self {
            pool,
            number,
            lists: [None, None],
            unfenced: false,
            dirty: Vec::new(),
            last_begun: 0,
            failed: None,
        }
    }

    /// Its number, below `writers_max`.
    #[must_use]
    pub fn number(&self) -> u16 {
        self.number
    }

    fn lane(&self) -> Lane {
        Lane::from(self.number)
    }

    /// Sees to it that records of `bytes` bytes in all (sum of [`encoded_len`](super::encoded_len)) can be
    /// appended to `list` of `arena`. Takes a new chunk if the one there is too small or belongs to another
    /// arena. To be called under the latch that keeps `arena` the active one, before the sequences are taken.
    ///
    /// # Errors
    ///
    /// The pool is full, or its medium failed. Nothing was taken, the next attempt may succeed
    /// after [`PmemPool::erase_retired`].
    pub fn prepare(&mut self, arena: &Arc<PmemArena>, list: List, bytes: usize) -> PmemResult<()> {
        // A batch may have to begin at the next media line.
        let needed = bytes as u64 + MEDIA_LINE_BYTES;
        if let Some(open) = &self.lists[list.index()]
            && open.arena == arena.number()
            && open.chunk.len() - open.at >= needed
        {
            return Ok(());
        }
        self.take_chunk(arena, list, needed)
    }

    #[cold]
    fn take_chunk(&mut self, arena: &Arc<PmemArena>, list: List, needed: u64) -> PmemResult<()> {
        let bytes = CHUNK_HEADER_BYTES + needed;
        let chunk = self.pool.take_chunk(arena.number(), self.number, list, bytes)?;
        // M8. The fence may pass over lines of the batch, so what follows is a new one (M2).
        let header = chunk.offset()..chunk.offset() + CHUNK_HEADER_BYTES;
        let region = chunk.region();
        region.copy(self.lane(), header.start, &chunk.header_bytes());
        let mut fenced = region.fence(self.lane(), std::slice::from_ref(&header));
        if fenced.is_ok() && self.has_unfenced() {
            fenced = self.fence_dirty();
        }
        if let Err(error) = fenced {
            // As after any fence that failed, nobody knows what of the batch is durable.
            self.failed = Some((self.last_begun, error.clone()));
            self.pool.take_back(vec![chunk]);
            return Err(error.into());
        }
        self.pool.counters(self.number).count_media(MEDIA_LINE_BYTES);
        arena.add_chunk(Arc::clone(&chunk));
        let open = Open {
            arena: arena.number(),
            arena_used: arena.used_counter(),
            chunk,
            at: CHUNK_HEADER_BYTES,
            untold: CHUNK_HEADER_BYTES,
        };
        if let Some(mut before) = self.lists[list.index()].replace(open) {
            before.tell_arena();
        }
        Ok(())
    }

    /// The sequences from `first` to `last` were handed out to this writer: until its next fence
    /// [`PmemPool::durable`] stays below `first`. To be called in the critical section that hands them out.
    pub fn begin(&mut self, first: u64, last: u64) {
        self.last_begun = last;
        self.pool.watermark().begin(self.number, first, last);
    }

    /// Adds a record to the chunk that was prepared. Answers where it is, once it is copied (M9).
    ///
    /// # Panics
    ///
    /// Without the room that [`prepare`](Self::prepare) takes: a caller's mistake.
    pub fn append(&mut self, list: List, record: &NewRecord<'_>) -> PmemPosition {
        let of = (self.lane(), list);
        let open = self.lists[list.index()].as_mut().expect("prepare comes before append");
        let len = record.encoded_len() as u64;
        let place = |first: bool| {
            let at = if first { batch_start(open.at, len) } else { open.at };
            assert!(at + len <= open.chunk.len(), "a record of {len} bytes was not prepared for");
            at..at + len
        };
        let range = self.pool.staging(self.number).append(of, &open.chunk, record, place);
        open.untold += range.end - open.at;
        open.at = range.end;
        open.chunk.set_filled(range.end);
        self.unfenced = true;
        self.pool.counters(self.number).count_record(len);
        let at = open.chunk.offset() + range.start;
        PmemPosition::new(open.chunk.region().address(at, len as usize))
    }

    /// Makes durable what was appended since the last fence, and only then lets [`PmemPool::durable`] pass it.
    /// Without anything appended it costs nothing.
    ///
    /// # Errors
    ///
    /// The medium failed (`msync` only: a store fence cannot). What was appended may or may not survive;
    /// `durable` stays below it, and every further fence returns that error, until a flush takes it over
    /// ([`PmemPool::installed`]).
    pub fn fence(&mut self) -> PmemResult<()> {
        if !self.unfenced && self.failed.is_none() {
            self.pool.watermark().fenced(self.number);
            return Ok(());
        }
        if !kept(Rule::PersistBeforePublish) {
            self.pool.watermark().fenced(self.number);
        }
        let fenced = self.fence_dirty();
        self.pool.counters(self.number).count_fence();
        if let Err(error) = fenced {
            self.failed = Some((self.last_begun, error));
        }
        if let Some((through, error)) = &self.failed {
            if *through > self.pool.watermark().floor() {
                return Err(PmemError::Storage(error.clone()));
            }
            self.failed = None;
        }
        self.pool.watermark().fenced(self.number);
        Ok(())
    }

    /// The fence itself, over all that is dirty. When it fails, nothing is added to the chunks concerned.
    fn fence_dirty(&mut self) -> Result<(), StorageError> {
        let lane = self.lane();
        for open in self.lists.iter_mut().flatten() {
            open.tell_arena();
        }
        self.unfenced = false;
        let device = self.pool.device().map(|device| (device, Instant::now()));
        let mut result = self.pool.staging(self.number).end_batches(lane, &mut self.dirty);
        let mut media_bytes = 0;
        for (chunk, range) in self.dirty.drain(..) {
            let lines = range.end.div_ceil(MEDIA_LINE_BYTES) - range.start / MEDIA_LINE_BYTES;
            media_bytes += lines * MEDIA_LINE_BYTES;
            if result.is_ok() && kept(Rule::Fence) {
                result = chunk.region().fence(lane, &[range]);
            }
        }
        self.pool.counters(self.number).count_media(media_bytes);
        if let Some((device, begun)) = device {
            device.note_mapped_write(media_bytes, begun);
        }
        if result.is_err() {
            self.lists = [None, None];
        }
        result
    }

    /// True when something was appended since the last fence.
    #[must_use]
    pub fn has_unfenced(&self) -> bool {
        self.unfenced
    }
}

impl Open {
    fn tell_arena(&mut self) {
        if self.untold > 0 {
            self.arena_used.fetch_add(std::mem::take(&mut self.untold), Ordering::Relaxed);
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // On an error `durable` stays where it is, as for every failed fence.
        let fenced = self.fence().is_ok();
        for open in self.lists.iter_mut().flatten() {
            open.tell_arena();
        }
        if fenced {
            self.pool.give_writer(self.number);
        }
    }
}

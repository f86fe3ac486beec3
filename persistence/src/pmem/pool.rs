//! The pool: files, slots, the pair (c_p, c_d), and what is durable.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::arena::PmemArena;
use super::chunk::{CHUNK_HEADER_BYTES, Chunk, ChunkHeader};
use super::control::{Control, SEQ_MAX};
use super::erase::Erase;
use super::error::{PmemError, PmemResult};
use super::figures::{PmemFigures, WriterCounters};
use super::medium::{PmemKind, Region};
use super::options::PmemOptions;
use super::record::List;
use super::rules::{Rule, kept};
use super::slots::{Row, Slots};
use super::staging::Staging;
use super::watermark::Watermark;
use super::writer::Writer;
use crate::device::Device;

/// Sequences by which c_d is raised at a time (D6, M5).
const RESERVE: u64 = 1 << 20;

/// A pool of persistent memory, open for writing. See the module for how it is used.
#[derive(Debug)]
pub struct PmemPool {
    options: PmemOptions,
    control: Mutex<Control>,
    pool_id: u64,
    slot_bytes: u64,
    /// c_d, as it is on the medium.
    reserved: AtomicU64,
    slots: Mutex<Slots>,
    /// How many files there are; held while one is made.
    growing: Mutex<usize>,
    watermark: Watermark,
    free_writers: Mutex<Vec<u16>>,
    counters: Box<[WriterCounters]>,
    stagings: Box<[Staging]>,
    next_use: AtomicU64,
    next_arena: AtomicU64,
    /// Bytes of the slots that are not zeros for certain.
    used_bytes: AtomicU64,
    retired: Mutex<Vec<Arc<Chunk>>>,
    retired_bytes: AtomicU64,
    erased_bytes: AtomicU64,
    bad_lines: u64,
    /// The last mark that was installed.
    mark: AtomicU64,
}

/// Name of the pool file of a number, from 1 on.
pub(super) fn file_name(number: usize) -> String {
    format!("pool-{number:04}.pmem")
}

impl PmemPool {
    /// A pool whose files were read back: `control` says how it was left, `slots` what is free.
    pub(super) fn assemble(
        options: PmemOptions,
        control: Control,
        slots: Slots,
        mark: u64,
        bad_lines: u64,
    ) -> Arc<Self> {
        let state = &control.state;
        let (reserved, first) = (state.reserved, u64::from(state.epoch) << 32);
        let writers = options.writers_max.min(usize::from(u16::MAX));
        Arc::new(Self {
            pool_id: state.pool_id,
            slot_bytes: state.slot_bytes,
            reserved: AtomicU64::new(reserved),
            growing: Mutex::new(slots.files()),
            used_bytes: AtomicU64::new(slots.file_bytes() - slots.free_bytes()),
            slots: Mutex::new(slots),
            watermark: Watermark::new(writers, reserved),
            free_writers: Mutex::new((0..writers as u16).rev().collect()),
            counters: (0..writers).map(|_| WriterCounters::default()).collect(),
            stagings: (0..writers).map(|_| Staging::default()).collect(),
            next_use: AtomicU64::new(first + 1),
            next_arena: AtomicU64::new(first + 1),
            retired: Mutex::default(),
            retired_bytes: AtomicU64::new(0),
            erased_bytes: AtomicU64::new(0),
            bad_lines,
            mark: AtomicU64::new(mark),
            control: Mutex::new(control),
            options,
        })
    }

    /// Kind of medium that it is on.
    #[must_use]
    pub fn kind(&self) -> PmemKind {
        self.options.medium.kind()
    }

    /// Its directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.options.dir
    }

    /// An empty arena, which becomes the active memtable's. Costs nothing until it is written to.
    #[must_use]
    pub fn new_arena(self: &Arc<Self>) -> Arc<PmemArena> {
        let number = self.next_arena.fetch_add(1, Ordering::Relaxed);
        PmemArena::new(Arc::clone(self), number, Vec::new())
    }

    /// A writer for a thread.
    ///
    /// # Errors
    ///
    /// There are `writers_max` already.
    pub fn writer(self: &Arc<Self>) -> PmemResult<Writer> {
        let writers_max = self.counters.len();
        let number = self.free_writers.lock().pop();
        let number = number.ok_or(PmemError::TooManyWriters { writers_max })?;
        self.watermark.enlist(number);
        Ok(Writer::new(Arc::clone(self), number))
    }

    pub(super) fn give_writer(&self, number: u16) {
        self.free_writers.lock().push(number);
    }

    /// The device that the pool is on, if it is a named one.
    pub(super) fn device(&self) -> Option<&Device> {
        self.options.device.as_deref()
    }

    pub(super) fn watermark(&self) -> &Watermark {
        &self.watermark
    }

    pub(super) fn counters(&self, writer: u16) -> &WriterCounters {
        &self.counters[usize::from(writer)]
    }

    pub(super) fn staging(&self, writer: u16) -> &Staging {
        &self.stagings[usize::from(writer)]
    }

    /// Copies everything that was appended (M9), for a caller that will read it. At a barrier: nobody appends meanwhile,
    /// although writers may fence. No I/O; their fences determine what becomes durable.
    pub fn copy_pending(&self) {
        self.stagings[..self.watermark.used()].iter().for_each(Staging::copy_pending);
    }

    /// Makes sure that c_d is durably at or above `seq` (M5). In the critical section, before `seq` is handed
    /// out; almost always a comparison, once in a million sequences a write of 4 KB.
    ///
    /// # Errors
    ///
    /// The medium failed: `seq` must not be handed out.
    pub fn cover(&self, seq: u64) -> PmemResult<()> {
        if seq <= self.reserved.load(Ordering::Acquire) || !kept(Rule::Reserve) {
            return Ok(());
        }
        let mut control = self.control.lock();
        let reserved = (seq + RESERVE).min(SEQ_MAX);
        control.update(|state| state.reserved = reserved)?;
        self.reserved.store(reserved, Ordering::Release);
        Ok(())
    }

    /// Highest sequence that survives a crash together with all before it: everything handed out, except what
    /// writers have begun and not fenced. Starts at [`next_seq - 1`](super::Recovered::next_seq).
    #[must_use]
    pub fn durable(&self) -> u64 {
        self.watermark.durable()
    }

    /// True when the fences of all writers but `except` have passed everything up to `m`. Before that an arena with
    /// such sequences must not be [retired](PmemArena::retire): copies that are on their way could arrive behind
    /// the zeros.
    #[must_use]
    pub fn is_fenced_through(&self, m: u64, except: &Writer) -> bool {
        self.watermark.is_fenced_through(m, except.number())
    }

    /// Writes c_p = `durable()` if that has moved. A few times a second, also after the last write: what is at or
    /// below c_p and missing at a start is known to be damage.
    ///
    /// # Errors
    ///
    /// The medium failed; c_p stays where it was.
    pub fn note_complete(&self) -> PmemResult<()> {
        let mut control = self.control.lock();
        let (durable, mark) = (self.durable(), self.mark.load(Ordering::Acquire));
        if durable <= control.state.complete {
            return Ok(());
        }
        control.update(|state| {
            state.complete = durable;
            state.voids.retain(|(_, last)| *last > mark);
        })
    }

    /// A self-contained flush at `m` is durable: `durable()` is at least `m` whatever became of fences that failed
    /// below it, and voids at or below it are forgotten in time.
    pub fn installed(&self, m: u64) {
        self.mark.fetch_max(m, Ordering::AcqRel);
        self.watermark.raise_floor(m);
    }

    /// Closes in good order: c_p = c_d = the last sequence, so that a start gives up none and finds any damage. All
    /// writers have fenced, and nobody writes any more.
    ///
    /// # Errors
    ///
    /// The medium failed; the next start recovers as after a crash.
    pub fn close(&self) -> PmemResult<()> {
        let mut control = self.control.lock();
        let last = self.watermark.last();
        if self.durable() < last {
            return Ok(());
        }
        control.update(|state| {
            state.complete = last;
            state.reserved = last;
        })?;
        self.reserved.store(last, Ordering::Release);
        Ok(())
    }

    /// Takes slots for at least `bytes` bytes, header included. The header is not written yet.
    pub(super) fn take_chunk(
        &self,
        arena: u64,
        writer: u16,
        list: List,
        bytes: u64,
    ) -> PmemResult<Arc<Chunk>> {
        let count = bytes.div_ceil(self.slot_bytes);
        let row = match self.take_slots(count) {
            Some(row) => row,
            None => self.grow_for(count)?,
        };
        let header = ChunkHeader {
            pool_id: self.pool_id,
            use_number: self.next_use.fetch_add(1, Ordering::Relaxed),
            arena,
            base: self.watermark.last(),
            slots: count as u32,
            writer,
            list,
        };
        Ok(Arc::new(Chunk::new(row, header, CHUNK_HEADER_BYTES)))
    }

    fn take_slots(&self, count: u64) -> Option<Row> {
        let row = self.slots.lock().take(count as usize)?;
        self.used_bytes.fetch_add(row.len, Ordering::Relaxed);
        Some(row)
    }

    /// Takes slots of a new file, unless there are free ones meanwhile.
    #[cold]
    fn grow_for(&self, count: u64) -> PmemResult<Row> {
        let mut files = self.growing.lock();
        if let Some(row) = self.take_slots(count) {
            return Ok(row);
        }
        let wanted_bytes = count * self.slot_bytes;
        let full = PmemError::Full { wanted_bytes, max_bytes: self.options.max_bytes };
        if !self.grow(&mut files, wanted_bytes)? {
            return Err(full);
        }
        self.take_slots(count).ok_or(full)
    }

    /// Adds a file with at least `bytes` in a row, while writers go on; `files` is how many there are. False when
    /// the pool may not grow by that much.
    fn grow(&self, files: &mut usize, bytes: u64) -> PmemResult<bool> {
        let room = self.options.max_bytes.saturating_sub(self.slots.lock().file_bytes());
        let wanted = bytes.max(self.options.file_bytes).next_multiple_of(self.slot_bytes);
        // The last file may be a smaller one.
        let len = wanted.min(room / self.slot_bytes * self.slot_bytes);
        if len < bytes {
            return Ok(false);
        }
        let number = *files + 1;
        let path = self.options.dir.join(file_name(number));
        let medium = &*self.options.medium;
        let region: Arc<dyn Region> = match medium.create(&path, len) {
            // Left behind by an attempt that failed further down.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                medium.remove(&path)?;
                medium.create(&path, len)?
            }
            created => created?,
        };
        region.prefault()?;
        medium.sync_dir(&self.options.dir)?;
        self.control.lock().update(|state| state.files = number as u32)?;
        *files = number;
        self.slots.lock().add_file(region);
        Ok(true)
    }

    /// Makes and prefaults files until `bytes` are free, as far as `max_bytes` allows. For a background thread, so that
    /// no writer has to wait for it.
    ///
    /// # Errors
    ///
    /// The medium failed, or has no room.
    pub fn make_room(&self, bytes: u64) -> PmemResult<()> {
        let mut files = self.growing.lock();
        while self.slots.lock().free_bytes() < bytes {
            if !self.grow(&mut files, self.slot_bytes)? {
                break;
            }
        }
        Ok(())
    }

    /// Chunks of an arena that nobody reads any more.
    pub(super) fn take_back(&self, chunks: Vec<Arc<Chunk>>) {
        let bytes = chunks.iter().map(|chunk| chunk.len()).sum();
        self.retired_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.retired.lock().extend(chunks);
    }

    /// Erases the slots of arenas that were retired and dropped, and frees them (M4, N17). For a background thread.
    /// Answers how many bytes became free.
    ///
    /// # Errors
    ///
    /// The medium failed; they stay for the next attempt.
    pub fn erase_retired(&self) -> PmemResult<u64> {
        let chunks = std::mem::take(&mut *self.retired.lock());
        let mut erase = Erase::default();
        for chunk in &chunks {
            erase.add_chunk(chunk.file(), chunk.region(), chunk.offset(), chunk.filled());
        }
        if let Err(error) = erase.run() {
            self.retired.lock().extend(chunks);
            return Err(error.into());
        }
        let freed: u64 = chunks.iter().map(|chunk| chunk.len()).sum();
        let mut slots = self.slots.lock();
        for chunk in &chunks {
            slots.give(chunk.file(), chunk.offset(), chunk.len());
        }
        drop(slots);
        self.used_bytes.fetch_sub(freed, Ordering::Relaxed);
        self.retired_bytes.fetch_sub(freed, Ordering::Relaxed);
        self.erased_bytes.fetch_add(erase.bytes(), Ordering::Relaxed);
        Ok(freed)
    }

    /// Bytes that it can still take, in files that are there or may be made; a device without room for those knows
    /// better.
    #[must_use]
    pub fn room_bytes(&self) -> u64 {
        self.options.max_bytes.saturating_sub(self.used_bytes.load(Ordering::Relaxed))
    }

    /// True while slots of retired arenas wait to be erased, which brings room.
    #[must_use]
    pub fn is_erasing(&self) -> bool {
        self.retired_bytes.load(Ordering::Relaxed) > 0
    }

    /// What it has done.
    #[must_use]
    pub fn figures(&self) -> PmemFigures {
        let (file_bytes, free_bytes) = {
            let slots = self.slots.lock();
            (slots.file_bytes(), slots.free_bytes())
        };
        let complete_seq = self.control.lock().state.complete;
        let mut figures = PmemFigures {
            kind: self.kind(),
            file_bytes,
            max_bytes: self.options.max_bytes,
            used_bytes: file_bytes - free_bytes,
            retired_bytes: self.retired_bytes.load(Ordering::Relaxed),
            records: 0,
            record_bytes: 0,
            fences: 0,
            media_bytes: 0,
            erased_bytes: self.erased_bytes.load(Ordering::Relaxed),
            bad_lines: self.bad_lines,
            complete_seq,
            reserved_seq: self.reserved.load(Ordering::Acquire),
            durable_seq: self.durable(),
        };
        for counters in &self.counters {
            counters.add_to(&mut figures);
        }
        figures
    }
}

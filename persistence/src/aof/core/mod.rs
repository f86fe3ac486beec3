//! The log without its threads: what is written when, and what is durable.

mod failure;
mod pace;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::Instant;

use parking_lot::{Condvar, Mutex, RwLock};

use crate::aof::buffer::{CHUNKS_AT_START, LogSource, SPARE_CHUNKS_MAX, SealedBuffers};
use crate::aof::gauge::BufferGauge;
use crate::aof::group::{GROUP_TARGET_BYTES, Group};
use crate::aof::route::Extent;
use crate::aof::segments::{Segment, Segments};
use crate::aof::unsynced::Unsynced;
use crate::aof::{
    HEADER_BYTES, LogError, LogOptions, LogStats, LogTail, SegmentHeader, SyncPolicy,
};
use crate::device::{File, Storage, StorageResult};

type DurableCallback = Arc<dyn Fn(u64) + Send + Sync>;
type FailureCallback = Arc<dyn Fn(&str) + Send + Sync>;

/// Everything only one thread at a time may do: taking groups and writing them.
struct Writer {
    segment: Segment,
    /// Last sequence of the last group written.
    logged_seq: u64,
    /// Taken from the source, not yet written; not empty between calls only after a failure.
    held: VecDeque<Group>,
    spare: SealedBuffers,
    /// Chunks the buffer had in stock when it was last asked.
    stocked: usize,
}

/// What writing and syncing tell each other.
#[derive(Default)]
struct State {
    failure: Option<String>,
    unsynced: Unsynced,
}

#[derive(Default)]
struct Counters {
    written_bytes: AtomicU64,
    groups: AtomicU64,
    syncs: AtomicU64,
    sync_time_us: AtomicU64,
    sync_time_max_us: AtomicU64,
    delayed: AtomicU64,
    segments_started: AtomicU64,
}

/// Threads that wait for something the core notices.
pub(in crate::aof) struct Helpers {
    pub(in crate::aof) syncer: Thread,
    pub(in crate::aof) preparer: Thread,
}

/// The log without its threads. Locks are taken in the order writer, sync turn, state.
pub(in crate::aof) struct LogCore {
    options: LogOptions,
    /// Unwritten bytes at which writers wait; it follows the memory bound.
    buffer_limit_bytes: AtomicU64,
    policy: RwLock<SyncPolicy>,
    epoch: u32,
    source: Arc<dyn LogSource>,
    gauge: Arc<BufferGauge>,
    pub(in crate::aof) segments: Segments,
    writer: Mutex<Writer>,
    sync_turn: Mutex<()>,
    state: Mutex<State>,
    progress: Condvar,
    durable: AtomicU64,
    written: AtomicU64,
    counters: Counters,
    durable_callbacks: RwLock<Vec<DurableCallback>>,
    failure_callbacks: RwLock<Vec<FailureCallback>>,
    helpers: OnceLock<Helpers>,
    /// Bytes in the active segment.
    active_bytes: AtomicU64,
    /// The last answer of [`must_wait`](Self::must_wait).
    delayed: AtomicBool,
    /// True while the state has a failure.
    has_failed: AtomicBool,
    /// The writing thread rests until it is woken.
    writer_idle: AtomicBool,
}

impl LogCore {
    pub(in crate::aof) fn open(
        storage: Arc<dyn Storage>,
        options: LogOptions,
        tail: &LogTail,
        after_seq: u64,
        source: Arc<dyn LogSource>,
        gauge: Arc<BufferGauge>,
    ) -> Result<Self, LogError> {
        assert!(after_seq >= tail.last_seq, "new sequences lie above everything recovered (D6)");
        let segments = Segments::open(storage, &options, tail)?;
        let mut segment = segments.next()?;
        // The number of a segment is never used again, so that of the first one names the
        // incarnation.
        let epoch = u32::try_from(segment.number).unwrap_or(u32::MAX);
        let durable = tail.last_seq.max(after_seq);
        let header = SegmentHeader {
            epoch,
            number: segment.number,
            previous_seq: tail.logged_seq,
            after_seq,
            synced_seq: tail.last_seq,
            filled_bytes: segment.file.len()?,
        };
        segment.file.write_all_at(&header.encode(), 0)?;
        segment.file.sync_data()?;
        segment.end = HEADER_BYTES as u64;
        segments.started(&header);
        Ok(Self {
            policy: RwLock::new(options.policy),
            buffer_limit_bytes: AtomicU64::new(options.buffer_limit_bytes),
            options,
            epoch,
            source,
            gauge,
            segments,
            writer: Mutex::new(Writer {
                segment,
                logged_seq: tail.logged_seq,
                held: VecDeque::new(),
                spare: SealedBuffers::default(),
                stocked: 0,
            }),
            sync_turn: Mutex::new(()),
            state: Mutex::default(),
            progress: Condvar::new(),
            durable: AtomicU64::new(durable),
            written: AtomicU64::new(after_seq),
            counters: Counters::default(),
            durable_callbacks: RwLock::default(),
            failure_callbacks: RwLock::default(),
            helpers: OnceLock::new(),
            active_bytes: AtomicU64::new(HEADER_BYTES as u64),
            delayed: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
            writer_idle: AtomicBool::new(true),
        })
    }

    pub(in crate::aof) fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    pub(in crate::aof) fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    pub(in crate::aof) fn policy(&self) -> SyncPolicy {
        *self.policy.read()
    }

    pub(in crate::aof) fn set_policy(&self, policy: SyncPolicy) {
        *self.policy.write() = policy;
        self.progress.notify_all();
    }

    pub(in crate::aof) fn set_helpers(&self, helpers: Helpers) {
        // Wakes once, for what happened before they were known.
        helpers.syncer.unpark();
        helpers.preparer.unpark();
        let _ = self.helpers.set(helpers);
    }

    pub(in crate::aof) fn is_dirty(&self) -> bool {
        self.state.lock().unsynced.is_dirty()
    }

    /// The writing thread is about to rest, or is back.
    pub(in crate::aof) fn set_writer_idle(&self, idle: bool) {
        self.writer_idle.store(idle, Ordering::SeqCst);
    }

    /// True when the writing thread would not look by itself soon enough.
    pub(in crate::aof) fn wants_kick(&self) -> bool {
        self.writer_idle.load(Ordering::SeqCst)
            || self.gauge.pending_bytes() >= GROUP_TARGET_BYTES as u64
    }

    pub(in crate::aof) fn active_bytes(&self) -> u64 {
        self.active_bytes.load(Ordering::Relaxed)
    }

    pub(in crate::aof) fn pending_bytes(&self) -> u64 {
        self.gauge.pending_bytes()
    }

    pub(in crate::aof) fn options(&self) -> &LogOptions {
        &self.options
    }

    pub(in crate::aof) fn add_durable_callback(&self, callback: Box<dyn Fn(u64) + Send + Sync>) {
        self.durable_callbacks.write().push(callback.into());
    }

    pub(in crate::aof) fn add_failure_callback(&self, callback: Box<dyn Fn(&str) + Send + Sync>) {
        self.failure_callbacks.write().push(callback.into());
    }

    /// Takes what has gathered and writes it. False: there was nothing.
    pub(in crate::aof) fn write_batch(&self) -> Result<bool, LogError> {
        let mut guard = self.writer.lock();
        let writer = &mut *guard;
        Self::check_failure(&self.state.lock())?;
        if writer.held.is_empty() {
            let Some(sealed) = self.source.take(std::mem::take(&mut writer.spare)) else {
                return Ok(false);
            };
            self.state.lock().unsynced.took(sealed.oldest_us);
            let mut groups = sealed.groups;
            writer.stocked = sealed.spare_count;
            let room = self.spare_chunks_max().saturating_sub(sealed.spare_count);
            writer.held.extend(groups.drain(..));
            // What the buffer has too little of is made here, outside the commit mutex.
            writer.spare.groups = groups;
            if sealed.spare_count == 0 {
                let wanted = writer.held.len().min(room);
                writer.spare.groups.extend((0..wanted).map(|_| Group::regular()));
            }
        }
        let result = self.write_held(writer);
        if let Err(error) = &result {
            self.fail(error);
        } else {
            self.state.lock().unsynced.wrote_all();
        }
        drop(guard);
        self.progress.notify_all();
        result.map(|()| true)
    }

    /// Chunks kept for reuse: as many as may wait, so a small buffer stays small.
    fn spare_chunks_max(&self) -> usize {
        let waiting = self.buffer_limit_bytes() / GROUP_TARGET_BYTES as u64;
        (waiting as usize).clamp(CHUNKS_AT_START, SPARE_CHUNKS_MAX)
    }

    fn write_held(&self, writer: &mut Writer) -> Result<(), LogError> {
        while let Some(group) = writer.held.front_mut() {
            if let Some(after_seq) = group.starts_segment_after() {
                self.switch(&mut writer.segment, writer.logged_seq, after_seq)?;
            }
            if !group.is_empty() {
                let bytes = group.sealed_bytes() as u64;
                let is_full = |end: u64, more: u64| end + more > self.options.segment_bytes;
                let parts = &writer.segment.parts;
                let full = is_full(writer.segment.end, bytes)
                    || group.routed().any(|(route, records)| {
                        // One alone that is too long for any part goes to an empty one.
                        parts[route].end > 0 && is_full(parts[route].end, records.len() as u64)
                    });
                if full && writer.segment.end > HEADER_BYTES as u64 {
                    self.switch(&mut writer.segment, writer.logged_seq, group.first_seq() - 1)?;
                }
                let segment = &mut writer.segment;
                let extents = self.write_routed(segment, group)?;
                let sealed =
                    group.seal(self.epoch, self.durable(), self.segments.secret(), &extents);
                segment.file.write_all_at(sealed, segment.end)?;
                self.wrote(segment, bytes, group.last_seq())?;
                writer.logged_seq = group.last_seq();
                self.counters.groups.fetch_add(1, Ordering::Relaxed);
                if self.policy() == SyncPolicy::EverySec {
                    self.write_ahead();
                }
            }
            if let Some(group) = writer.held.pop_front() {
                self.gauge.drained(group.command_bytes());
                let kept = writer.stocked + writer.spare.groups.len();
                if group.is_regular() && kept < self.spare_chunks_max() {
                    writer.spare.groups.push(group);
                }
            }
        }
        Ok(())
    }

    /// Writes the records of a group that go to other devices, and answers where they are.
    fn write_routed(&self, segment: &mut Segment, group: &Group) -> Result<Vec<Extent>, LogError> {
        let mut extents = Vec::new();
        for (route, records) in group.routed() {
            let (part, name) = (&mut segment.parts[route], &self.options.routes[route].name);
            let (offset, bytes) = (part.end, records.len() as u64);
            part.file.write_all_at(records, offset)?;
            part.end += bytes;
            self.book(&part.file, offset, bytes, 0)?;
            extents.push(Extent::of(route, name, offset, records, group.first_record_line()));
        }
        Ok(extents)
    }

    /// Books a finished write. It counts only if the log has not failed meanwhile: the failed
    /// segment is never synced again.
    fn wrote(&self, segment: &mut Segment, bytes: u64, last_seq: u64) -> Result<(), LogError> {
        let offset = segment.end;
        segment.end += bytes;
        let parts: u64 = segment.parts.iter().map(|part| part.end).sum();
        self.active_bytes.store(segment.end + parts, Ordering::Relaxed);
        self.book(&segment.file, offset, bytes, last_seq)
    }

    /// The part of [`wrote`](Self::wrote) that is common to all files.
    fn book(
        &self,
        file: &Arc<dyn File>,
        offset: u64,
        bytes: u64,
        last_seq: u64,
    ) -> Result<(), LogError> {
        self.counters.written_bytes.fetch_add(bytes, Ordering::Relaxed);
        let mut state = self.state.lock();
        Self::check_failure(&state)?;
        let wake = state.unsynced.wrote(file, offset, bytes);
        // Under the lock: a sync must never see this sequence without the file being dirty.
        self.written.fetch_max(last_seq, Ordering::AcqRel);
        drop(state);
        if let Some(helpers) = self.helpers.get().filter(|_| wake)
            && self.policy() == SyncPolicy::EverySec
        {
            helpers.syncer.unpark();
        }
        Ok(())
    }

    /// Starts the next segment, for sequences above `after_seq`.
    fn switch(
        &self,
        active: &mut Segment,
        previous_seq: u64,
        after_seq: u64,
    ) -> Result<(), LogError> {
        let mut segment = self.segments.next()?;
        let header = SegmentHeader {
            epoch: self.epoch,
            number: segment.number,
            previous_seq: previous_seq.min(after_seq),
            after_seq,
            synced_seq: self.durable(),
            filled_bytes: segment.file.len()?,
        };
        segment.file.write_all_at(&header.encode(), 0)?;
        self.wrote(&mut segment, HEADER_BYTES as u64, 0)?;
        self.note_start(active, &header);
        *active = segment;
        Ok(())
    }

    /// Books the change from `old` to the segment of `header`.
    fn note_start(&self, old: &Segment, header: &SegmentHeader) {
        self.segments.used(old);
        self.segments.started(header);
        self.counters.segments_started.fetch_add(1, Ordering::Relaxed);
        if let Some(helpers) = self.helpers.get() {
            helpers.preparer.unpark();
        }
    }

    /// True when enough was written since the last sync began that the next one is due.
    pub(in crate::aof) fn has_much_unsynced(&self) -> bool {
        self.state.lock().unsynced.is_much()
    }

    /// Lets the device begin with what the next sync will wait for. By the writer, so that it happens during
    /// a sync as well: the device is never without work while there is some.
    fn write_ahead(&self) {
        let ahead = self.state.lock().unsynced.take_ahead();
        for part in ahead {
            // A wish: the sync that follows reports what fails.
            let _ = part.file.start_writeback(part.offset, part.len);
        }
    }

    /// Syncs everything written so far and moves `durable` there.
    pub(in crate::aof) fn sync(&self) -> Result<(), LogError> {
        let turn = self.sync_turn.lock();
        let (files, target) = {
            let mut state = self.state.lock();
            Self::check_failure(&state)?;
            if !state.unsynced.is_dirty() {
                return Ok(());
            }
            (state.unsynced.begin_sync(), self.written())
        };
        let start = Instant::now();
        if let Err(error) = self.sync_files(&files) {
            let error = error.into();
            self.fail(&error);
            return Err(error);
        }
        let took = start.elapsed();
        let took_us = took.as_micros() as u64;
        self.counters.syncs.fetch_add(1, Ordering::Relaxed);
        self.counters.sync_time_us.fetch_add(took_us, Ordering::Relaxed);
        self.counters.sync_time_max_us.fetch_max(took_us, Ordering::Relaxed);
        {
            let mut state = self.state.lock();
            Self::check_failure(&state)?;
            state.unsynced.end_sync(took);
            self.durable.fetch_max(target, Ordering::AcqRel);
        }
        drop(turn);
        self.announce();
        Ok(())
    }

    fn announce(&self) {
        self.progress.notify_all();
        let durable = self.durable();
        // Cloned, so that a callback may register another one.
        let callbacks = self.durable_callbacks.read().clone();
        callbacks.iter().for_each(|callback| callback(durable));
    }

    /// Syncs files of several devices in parallel (R3).
    fn sync_files(&self, files: &[Arc<dyn File>]) -> StorageResult<()> {
        let [others @ .., last] = files else { return Ok(()) };
        if self.options.routes.is_empty() || !self.options.threads {
            return files.iter().try_for_each(|file| file.sync_data());
        }
        std::thread::scope(|scope| {
            let syncs: Vec<_> =
                others.iter().map(|file| scope.spawn(move || file.sync_data())).collect();
            let mut outcome = last.sync_data();
            for sync in syncs {
                // A panic in a sync goes on in the thread that waits for it.
                outcome = outcome.and(sync.join().unwrap_or_else(|p| std::panic::resume_unwind(p)));
            }
            outcome
        })
    }

    pub(in crate::aof) fn sync_through(&self, seq: u64) -> Result<(), LogError> {
        while self.durable() < seq {
            let wrote = self.written() < seq && self.write_batch()?;
            if !wrote && self.written() < seq {
                return Err(LogError::NeverAppended { seq, written_seq: self.written() });
            }
            if self.written() >= seq {
                self.sync()?;
            }
        }
        Ok(())
    }

    /// Writes and syncs everything, then leaves an empty group that says so: damage to what is
    /// before it can be told from a torn tail (N8).
    pub(in crate::aof) fn finish(&self) -> Result<(), LogError> {
        while self.write_batch()? {}
        self.sync()?;
        let mut guard = self.writer.lock();
        let writer = &mut *guard;
        let durable = self.durable();
        if writer.segment.end == HEADER_BYTES as u64 || durable != self.written() {
            return Ok(());
        }
        let mut closing = Group::closing(writer.logged_seq + 1);
        let sealed = closing.seal(self.epoch, durable, self.segments.secret(), &[]);
        let bytes = sealed.len() as u64;
        if let Err(error) = writer.segment.file.write_all_at(sealed, writer.segment.end) {
            let error = error.into();
            self.fail(&error);
            return Err(error);
        }
        self.wrote(&mut writer.segment, bytes, 0)?;
        drop(guard);
        self.sync()
    }

    pub(in crate::aof) fn oldest_age_us(&self) -> u64 {
        self.state.lock().unsynced.oldest_age_us(self.gauge.oldest_us())
    }

    pub(in crate::aof) fn largest_age_us(&self) -> u64 {
        self.state.lock().unsynced.largest_age_us(self.gauge.oldest_us())
    }

    pub(in crate::aof) fn reset_largest_age(&self) {
        self.state.lock().unsynced.reset_largest_age();
    }

    /// Whether a retired segment is worth being overwritten with filler (N4). For `always` it is: syncs then
    /// find length and space unchanged. Else it saves making pages anew, for which a device has time that the
    /// log itself does not keep busy.
    fn recycles(&self) -> bool {
        let is_bound = self.segments.is_on_disk() || self.state.lock().unsynced.is_device_bound();
        self.policy() == SyncPolicy::Always || !is_bound
    }

    pub(in crate::aof) fn retire_through(&self, mark: u64) -> Result<(), LogError> {
        self.segments.set_recycles(self.recycles());
        self.segments.retire_through(mark)
    }

    /// One step of what can be done beside writing; false when there is nothing to do.
    pub(in crate::aof) fn tidy(&self) -> Result<bool, LogError> {
        self.segments.prepare(self.policy())?;
        self.segments.set_recycles(self.recycles());
        self.segments.clean_spare()
    }

    pub(in crate::aof) fn stats(&self) -> LogStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.counters;
        let (listed_bytes, segments_retired) = self.segments.figures();
        LogStats {
            written_bytes: read(&counters.written_bytes),
            groups: read(&counters.groups),
            syncs: read(&counters.syncs),
            sync_time_us: read(&counters.sync_time_us),
            sync_time_max_us: read(&counters.sync_time_max_us),
            delayed: read(&counters.delayed),
            segments_started: read(&counters.segments_started),
            segments_retired,
            live_bytes: listed_bytes + read(&self.active_bytes),
        }
    }
}

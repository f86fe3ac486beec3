//! The log as the engine sees it.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::core::{Helpers, LogCore};
use super::{
    BufferGauge, GROUP_TARGET_BYTES, LogError, LogLocation, LogRoute, LogSource, LogStats, LogTail,
};
use crate::device::Storage;

/// Time between two syncs of `everysec`.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// When the log is synced (`appendfsync`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncPolicy {
    /// Whenever the operating system likes; the log only syncs in [`Log::sync_through`].
    No,
    /// Once a second, in the background.
    EverySec,
    /// Without pause: every write is followed by a sync, and commits that arrive meanwhile share
    /// the next one.
    Always,
}

/// Settings of the log.
#[derive(Debug, Clone)]
pub struct LogOptions {
    /// Directory and file names.
    pub location: LogLocation,
    /// `appendfsync`.
    pub policy: SyncPolicy,
    /// A segment that reaches this size is followed by the next one even without a cut.
    pub segment_bytes: u64,
    /// Bytes that may wait in memory before [`Log::must_wait`] holds (`aof-buffer-limit`).
    pub buffer_limit_bytes: u64,
    /// How long commits gather before they are written, for `everysec` and `no`.
    pub gather_ms: u64,
    /// Age that unsynced data should never reach, for `everysec` (N14). [`Log::must_wait`] holds from
    /// three quarters of it on: the sync that ends the wait takes its time too.
    pub unsynced_age_max_ms: u64,
    /// Retired segments kept for reuse, where that pays: overwriting cached pages is far cheaper than fresh
    /// ones, but a disk writes them twice.
    pub recycled_segments_max: usize,
    /// Where retired segments are kept instead (`aof-archive-dir`).
    pub archive_dir: Option<PathBuf>,
    /// Places for long records (`aof-route`), by rising length; at most
    /// [`ROUTES_MAX`](super::ROUTES_MAX). The buffer must have [equal ones](super::LogBuffer::set_routes).
    pub routes: Vec<LogRoute>,
    /// Write and sync on threads of the log. Without, [`Log::sync_through`] and
    /// [`Log::write_gathered`] do it all, and dropping the log writes nothing: for tests that
    /// repeat a history step by step.
    pub threads: bool,
}

impl LogOptions {
    /// The default of `recycled_segments_max`.
    pub const RECYCLED_SEGMENTS_MAX: usize = 4;

    /// The defaults for a log at `location`.
    #[must_use]
    pub fn new(location: LogLocation) -> Self {
        Self {
            location,
            policy: SyncPolicy::EverySec,
            segment_bytes: 64 << 20,
            buffer_limit_bytes: 64 << 20,
            gather_ms: 3,
            unsynced_age_max_ms: 2000,
            recycled_segments_max: Self::RECYCLED_SEGMENTS_MAX,
            archive_dir: None,
            routes: Vec::new(),
            threads: true,
        }
    }
}

/// The log: owns its directory and its threads. Dropping it closes it.
pub struct Log {
    core: Arc<LogCore>,
    threads: Vec<Worker>,
}

/// A thread of the log and the way to wake it.
struct Worker {
    handle: JoinHandle<()>,
    stop: Arc<AtomicBool>,
}

impl Worker {
    fn spawn(
        name: &str,
        core: &Arc<LogCore>,
        body: fn(&LogCore, &AtomicBool),
    ) -> Result<Self, LogError> {
        let stop = Arc::new(AtomicBool::new(false));
        let (core, stopped) = (Arc::clone(core), Arc::clone(&stop));
        let handle = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || body(&core, &stopped))
            .map_err(|error| LogError::Failed { reason: format!("thread {name}: {error}") })?;
        Ok(Self { handle, stop })
    }

    fn wake(&self) {
        self.handle.thread().unpark();
    }
}

const WRITER: usize = 0;
const SYNCER: usize = 1;
const PREPARER: usize = 2;

impl Log {
    /// Continues the log from where recovery left it, on a fresh segment of a new epoch.
    ///
    /// `after_seq` is the sequence below the first one that will be appended, as given to
    /// [`LogBuffer::new`](super::LogBuffer::new), and at least `tail.last_seq`. Everything in
    /// `tail` counts as durable.
    ///
    /// # Errors
    ///
    /// A failing device.
    ///
    /// # Panics
    ///
    /// When `after_seq` is below `tail.last_seq`.
    pub fn open(
        storage: Arc<dyn Storage>,
        options: LogOptions,
        tail: LogTail,
        after_seq: u64,
        source: Arc<dyn LogSource>,
        gauge: Arc<BufferGauge>,
    ) -> Result<Self, LogError> {
        let with_threads = options.threads;
        let core = Arc::new(LogCore::open(storage, options, &tail, after_seq, source, gauge)?);
        if !with_threads {
            return Ok(Self { core, threads: Vec::new() });
        }
        let threads = vec![
            Worker::spawn("aof-writer", &core, run_writer)?,
            Worker::spawn("aof-sync", &core, run_syncer)?,
            Worker::spawn("aof-prepare", &core, run_preparer)?,
        ];
        core.set_helpers(Helpers {
            syncer: threads[SYNCER].handle.thread().clone(),
            preparer: threads[PREPARER].handle.thread().clone(),
        });
        Ok(Self { core, threads })
    }

    /// Wakes the log thread. Call it when an append answered true. Cheap.
    pub fn kick(&self) {
        // A thread that gathers or writes looks again before it rests: no system call for it.
        if !self.core.wants_kick() {
            return;
        }
        self.wake(WRITER);
    }

    fn wake(&self, thread: usize) {
        if let Some(worker) = self.threads.get(thread) {
            worker.wake();
        }
    }

    /// Writes what commits have gathered, without a sync; false when there was nothing.
    ///
    /// # Errors
    ///
    /// A failing device: the log has failed then (N2).
    pub fn write_gathered(&self) -> Result<bool, LogError> {
        self.core.write_batch()
    }

    /// Everything up to this sequence survives a crash.
    #[must_use]
    pub fn durable(&self) -> u64 {
        self.core.durable()
    }

    /// Everything up to this sequence was handed to the operating system.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.core.written()
    }

    /// Calls `callback` with the new value whenever [`durable`](Self::durable) has moved. It runs
    /// on a thread of the log, or of a caller of [`sync_through`](Self::sync_through), without
    /// locks held, and must not block. The value may have been announced before.
    pub fn on_durable(&self, callback: Box<dyn Fn(u64) + Send + Sync>) {
        self.core.add_durable_callback(callback);
    }

    /// Calls `callback` with the reason when the log fails. It runs on a thread of the log, or of
    /// a caller of [`sync_through`](Self::sync_through), with the log's writer locked: it must
    /// call nothing of the log but `kick`, `durable`, `written` and `failure`.
    pub fn on_failure(&self, callback: Box<dyn Fn(&str) + Send + Sync>) {
        self.core.add_failure_callback(callback);
    }

    /// Blocks until everything up to `seq` is durable, whatever the policy (D1, N2).
    ///
    /// # Errors
    ///
    /// [`LogError::Failed`], or [`LogError::NeverAppended`] when the log does not reach `seq`.
    pub fn sync_through(&self, seq: u64) -> Result<(), LogError> {
        self.core.sync_through(seq)
    }

    /// Changes `appendfsync`.
    pub fn set_policy(&self, policy: SyncPolicy) {
        self.core.set_policy(policy);
        self.threads.iter().for_each(Worker::wake);
    }

    /// Changes the number of unwritten bytes at which writers wait.
    pub fn set_buffer_limit(&self, bytes: u64) {
        self.core.set_buffer_limit(bytes);
    }

    /// Unwritten bytes at which writers wait.
    #[must_use]
    pub fn buffer_limit_bytes(&self) -> u64 {
        self.core.buffer_limit_bytes()
    }

    /// The policy in force.
    #[must_use]
    pub fn policy(&self) -> SyncPolicy {
        self.core.policy()
    }

    /// Why the log has failed; `None` while it works (N2).
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.core.failure()
    }

    /// Ends a failure: a self-contained flush at `mark` is installed, so everything up to it is
    /// durable without the log, which goes on behind it in a fresh segment (N2). The freeze at
    /// `mark` must have come after the failure, and have [cut](super::LogBuffer::cut) the buffer.
    /// Does nothing when the log has not failed.
    ///
    /// # Errors
    ///
    /// The device still refuses; the log stays failed.
    pub fn resume_on_fresh_segment(&self, mark: u64) -> Result<(), LogError> {
        self.core.resume(mark)?;
        self.threads.iter().for_each(Worker::wake);
        Ok(())
    }

    /// Gives up the segments whose sequences are all up to `mark`. Call it when the engine's
    /// manifest edit for `mark` is durable (D3). Never touches the active segment.
    ///
    /// # Errors
    ///
    /// A failing device. The segments then stay, which does no harm.
    pub fn retire_through(&self, mark: u64) -> Result<(), LogError> {
        let result = self.core.retire_through(mark);
        self.wake(PREPARER);
        result
    }

    /// A base is going to be written (N4): until it is [installed](Self::install_base) or given up
    /// (`None`), segments with something above `seq` are not retired.
    pub fn hold_after(&self, seq: Option<u64>) {
        self.core.segments.hold_after(seq);
    }

    /// Makes the file at [`LogLocation::new_base_path`], durable by now, the base of the AOF manifest:
    /// it holds everything up to `through_seq`, where the log was [cut](super::LogBuffer::cut) and
    /// behind which segments were [held](Self::hold_after). The recovery mark must have passed
    /// `through_seq`. The base and all segments behind it stay until those hold more than
    /// `pinned_max_bytes`; then the manifest names a base that does not exist again.
    ///
    /// # Errors
    ///
    /// A failing device. The log goes on; the base may be lost.
    pub fn install_base(&self, through_seq: u64, pinned_max_bytes: u64) -> Result<(), LogError> {
        // The cut takes effect with the next take: behind this the segment is there.
        self.core.write_batch()?;
        let result = self.core.segments.install_base(through_seq, pinned_max_bytes);
        self.wake(PREPARER);
        result
    }

    /// Changes the bound given to [`install_base`](Self::install_base); a base that was there at the
    /// start has none until then.
    pub fn set_pinned_max(&self, bytes: u64) {
        self.core.segments.set_pinned_max(bytes);
    }

    /// Changes how many retired segments are kept for reuse; those above go.
    ///
    /// # Errors
    /// A failing medium; nothing refers to a spare, so the next start removes what stays.
    pub fn set_recycled_max(&self, max: usize) -> Result<(), LogError> {
        self.core.segments.set_spares_max(max)
    }

    /// Bytes of the base and of all segments behind it; `None` while there is no base.
    #[must_use]
    pub fn base_bytes(&self) -> Option<(u64, u64)> {
        let (base, used_up) = self.core.segments.base_bytes()?;
        Some((base, used_up + self.core.active_bytes()))
    }

    /// Writers must pause: too much waits in memory, or (with `everysec`) unsynced data is too old, or more
    /// than the device makes durable in time (N14). Reads the clock: ask once per batch. Never holds while the
    /// log has failed, because then writes are refused instead.
    #[must_use]
    pub fn must_wait(&self) -> bool {
        self.core.must_wait()
    }

    /// With `everysec`: true when enough bytes wait for their sync that other users of the device should leave it to the log
    /// for a while.
    #[must_use]
    pub fn is_pressed(&self) -> bool {
        self.core.is_pressed()
    }

    /// Blocks until writers need not wait or `timeout` is over; answers whether they may go on.
    #[must_use]
    pub fn wait_for_room(&self, timeout: Duration) -> bool {
        self.core.wait_for_room(timeout)
    }

    /// Bytes of commands that were appended and not yet written.
    #[must_use]
    pub fn pending_bytes(&self) -> u64 {
        self.core.pending_bytes()
    }

    /// Age of the oldest byte that is not durable; 0 when everything is.
    #[must_use]
    pub fn oldest_unsynced_age_ms(&self) -> u64 {
        self.core.oldest_age_us() / 1000
    }

    /// The largest age unsynced data has reached since
    /// [`reset_largest_age`](Self::reset_largest_age).
    #[must_use]
    pub fn largest_unsynced_age_ms(&self) -> u64 {
        self.core.largest_age_us() / 1000
    }

    /// Starts a new measurement of [`largest_unsynced_age_ms`](Self::largest_unsynced_age_ms).
    pub fn reset_largest_age(&self) {
        self.core.reset_largest_age();
    }

    /// Counters.
    #[must_use]
    pub fn stats(&self) -> LogStats {
        self.core.stats()
    }

    /// Writes and syncs everything and stops the threads.
    ///
    /// # Errors
    ///
    /// The last write or sync failed, or the log had failed before.
    pub fn close(mut self) -> Result<(), LogError> {
        self.stop()?;
        self.core.finish()
    }

    fn stop(&mut self) -> Result<(), LogError> {
        for worker in &self.threads {
            worker.stop.store(true, Ordering::Release);
            worker.wake();
        }
        let mut panicked = false;
        for worker in self.threads.drain(..) {
            panicked |= worker.handle.join().is_err();
        }
        if panicked {
            return Err(LogError::Failed { reason: "a thread of the log panicked".to_owned() });
        }
        Ok(())
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // Whoever wants to know calls `close`; a failure was reported by callback besides.
        if !self.threads.is_empty() && self.stop().is_ok() {
            let _ = self.core.finish();
        }
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log")
            .field("durable", &self.durable())
            .field("written", &self.written())
            .field("failure", &self.failure())
            .finish_non_exhaustive()
    }
}

/// Writes what has gathered; with `always` also syncs, again and again while there is more, so
/// that commits which arrive during a sync share the next one.
fn run_writer(core: &LogCore, stop: &AtomicBool) {
    while !stop.load(Ordering::Acquire) {
        let always = core.policy() == SyncPolicy::Always;
        if !always {
            gather(core, stop);
        }
        // A failure is recorded and announced by the core; until the engine resumes there is
        // nothing to write to.
        match core.write_batch() {
            Ok(true) if always => drop(core.sync()),
            Ok(true) => {}
            // Left over from a policy that syncs elsewhere.
            Ok(false) if always && core.is_dirty() && core.sync().is_ok() => {}
            // Gathering may have swallowed the wake-up that came with `stop`.
            Ok(false) | Err(_) if stop.load(Ordering::Acquire) => {}
            Ok(false) | Err(_) => {
                // Said first, looked once more second: an append in between is not lost.
                core.set_writer_idle(true);
                let wrote = matches!(core.write_batch(), Ok(true));
                // Gathering may have swallowed the wake-up that came with a change of the policy.
                let owes_sync = core.policy() == SyncPolicy::Always
                    && core.is_dirty()
                    && core.failure().is_none();
                if !wrote && !owes_sync {
                    thread::park();
                }
                core.set_writer_idle(false);
            }
        }
    }
}

/// Lets commits gather for a few milliseconds, or until a whole group is full.
fn gather(core: &LogCore, stop: &AtomicBool) {
    let deadline = Instant::now() + Duration::from_millis(core.options().gather_ms);
    loop {
        let now = Instant::now();
        let enough = core.pending_bytes() >= GROUP_TARGET_BYTES as u64;
        if enough || now >= deadline || stop.load(Ordering::Acquire) {
            return;
        }
        thread::park_timeout(deadline - now);
    }
}

/// With `everysec`: syncs once a second while there is something to sync, and as soon as much has
/// gathered. Writing goes on.
fn run_syncer(core: &LogCore, stop: &AtomicBool) {
    let mut last_sync: Option<Instant> = None;
    while !stop.load(Ordering::Acquire) {
        if core.policy() != SyncPolicy::EverySec || !core.is_dirty() {
            thread::park();
            continue;
        }
        let elapsed = last_sync.map_or(SYNC_INTERVAL, |last| last.elapsed());
        if elapsed < SYNC_INTERVAL && !core.has_much_unsynced() {
            thread::park_timeout(SYNC_INTERVAL - elapsed);
            continue;
        }
        last_sync = Some(Instant::now());
        // Recorded and announced by the core.
        let _ = core.sync();
    }
}

/// Has the next segment ready before it is needed, and overwrites retired ones.
fn run_preparer(core: &LogCore, stop: &AtomicBool) {
    while !stop.load(Ordering::Acquire) {
        // What fails here is tried again, and reported, when the segment is needed.
        if !matches!(core.tidy(), Ok(true)) {
            thread::park();
        }
    }
}

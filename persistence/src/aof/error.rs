//! What can go wrong with the log.

use std::fmt;
use std::path::PathBuf;

use crate::device::StorageError;

/// Why the log could not be opened, read or written.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum LogError {
    /// The medium refused; see the facts inside.
    Storage(StorageError),
    /// A write or a sync failed earlier; the segment it hit is never written again (N2).
    Failed {
        /// The first failure, as text.
        reason: String,
    },
    /// Acknowledged data is damaged: the group at `offset` is not valid, yet something written
    /// later says that sequence `expected_seq` had been synced (N8).
    Damaged {
        /// The segment.
        file: PathBuf,
        /// Where the first group that is not valid starts.
        offset: u64,
        /// The sequence that group should have held first.
        expected_seq: u64,
        /// The highest sequence known to have been synced.
        synced_seq: u64,
    },
    /// Two neighbouring groups or segments do not follow each other.
    SequenceGap {
        /// The segment.
        file: PathBuf,
        /// Offset of the group or header.
        offset: u64,
        /// The sequence that should come next.
        expected_seq: u64,
        /// The sequence found.
        got_seq: u64,
    },
    /// The oldest segment starts above the recovery mark: log between them is gone.
    StartsAboveMark {
        /// The oldest segment.
        file: PathBuf,
        /// The last sequence logged before that segment.
        previous_seq: u64,
        /// The recovery mark.
        mark: u64,
    },
    /// The AOF manifest lists a file that is not there.
    MissingSegment {
        /// The file.
        file: PathBuf,
    },
    /// There is a segment that the AOF manifest should list and does not.
    UnlistedSegment {
        /// The segment.
        file: PathBuf,
        /// The AOF manifest.
        manifest: PathBuf,
    },
    /// The directory holds an AOF that is not ours: something to import, not to recover (N3).
    Foreign {
        /// The file that shows it.
        file: PathBuf,
        /// The AOF manifest.
        manifest: PathBuf,
    },
    /// Behind the end of our log there are commands that another server has appended.
    ForeignWrites {
        /// The segment.
        file: PathBuf,
        /// Where they begin.
        offset: u64,
        /// The AOF manifest.
        manifest: PathBuf,
    },
    /// A log already exists where one is to be created.
    InTheWay {
        /// Its AOF manifest.
        file: PathBuf,
    },
    /// The AOF manifest cannot be read.
    BadManifest {
        /// The AOF manifest.
        file: PathBuf,
        /// Line number, from 1.
        line: usize,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A sync was asked for a sequence that was never appended.
    NeverAppended {
        /// The sequence asked for.
        seq: u64,
        /// The last sequence written.
        written_seq: u64,
    },
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Storage(error) => error.fmt(f),
            Self::Failed { reason } => write!(f, "the append-only log has failed: {reason}"),
            Self::Damaged { file, offset, expected_seq, synced_seq } => write!(
                f,
                "{} is damaged at byte {offset}: sequence {expected_seq} is not readable although \
                 everything up to {synced_seq} had been synced; run sexton-check",
                file.display()
            ),
            Self::SequenceGap { file, offset, expected_seq, got_seq } => write!(
                f,
                "{} at byte {offset}: expected sequence {expected_seq}, got {got_seq}; run \
                 sexton-check",
                file.display()
            ),
            Self::StartsAboveMark { file, previous_seq, mark } => write!(
                f,
                "the oldest log segment {} starts after sequence {previous_seq}, but the tables end \
                 at {mark}; run sexton-check",
                file.display()
            ),
            Self::MissingSegment { file } => {
                write!(f, "the AOF manifest lists {}, which does not exist", file.display())
            }
            Self::UnlistedSegment { file, manifest } => write!(
                f,
                "{} is not listed in {}, which is missing, damaged or old; run sexton-check",
                file.display(),
                manifest.display()
            ),
            Self::Foreign { file, manifest } => write!(
                f,
                "{} was not written by Sexton: a Redis server has put its own log here; start with \
                 --import {} to load that in place of the store's data, which is kept beside it",
                file.display(),
                manifest.display()
            ),
            Self::ForeignWrites { file, offset, manifest } => write!(
                f,
                "{} at byte {offset}: commands that a Redis server has appended to the log; start with \
                 --import {} to load the log with them in place of the store's data, which is kept \
                 beside it, or give them up with sexton-check --truncate-log",
                file.display(),
                manifest.display()
            ),
            Self::InTheWay { file } => {
                write!(f, "there is a log already: {}", file.display())
            }
            Self::BadManifest { file, line, reason } => {
                write!(f, "AOF manifest {} line {line}: {reason}", file.display())
            }
            Self::NeverAppended { seq, written_seq } => write!(
                f,
                "sequence {seq} was never appended to the log, which ends at {written_seq}"
            ),
        }
    }
}

impl std::error::Error for LogError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Storage(error) => Some(error),
            _ => None,
        }
    }
}

impl From<StorageError> for LogError {
    fn from(error: StorageError) -> Self {
        Self::Storage(error)
    }
}

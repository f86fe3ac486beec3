//! What can go wrong: with the engine as a whole, and with a table or a version edit.

use crate::key::{Seq, VALUE_MAX_BYTES, key_bytes_refused};
use sexton_persistence::device::StorageError;
use sexton_persistence::manifest::ManifestError;
use std::fmt;
use std::path::PathBuf;

/// Why the engine cannot do what was asked.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum EngineError {
    /// A medium failed; the text names operation, file and offset.
    Storage(String),
    /// A file is damaged; the text names file, offset, expected and found.
    Corrupt(String),
    /// A background worker panicked: writes are refused, reads go on.
    Poisoned(String),
    /// The log could not be replayed.
    Replay(String),
    /// The options do not fit the store.
    Refused(String),
    /// A key longer than [`KEY_MAX_BYTES`](crate::KEY_MAX_BYTES).
    KeyTooLong {
        /// Bytes of the key.
        bytes: usize,
    },
    /// A value longer than [`VALUE_MAX_BYTES`](crate::VALUE_MAX_BYTES).
    ValueTooLong {
        /// Bytes of the value.
        bytes: u64,
    },
    /// The values of the keys to be loaded are too large together.
    LoadTooLarge {
        /// Most bytes that they may have.
        max_bytes: u64,
    },
    /// As many snapshots are open as may be.
    SnapshotRefused {
        /// Open ones.
        open: usize,
        /// The bound.
        max: usize,
    },
    /// The undo runs have reached their bound, at which snapshots are refused.
    UndoFull {
        /// Bytes of the undo runs.
        bytes: u64,
        /// Their bound.
        max_bytes: u64,
    },
    /// The snapshot was ended because the undo runs had reached their bound.
    SnapshotExpired {
        /// Time since it was opened, in milliseconds.
        age_ms: u64,
        /// The bound of the undo runs in bytes.
        max_bytes: u64,
    },
    /// The snapshot has ended by itself.
    SnapshotEnded {
        /// Time since it was opened, in milliseconds.
        age_ms: u64,
        /// Its timeout in milliseconds.
        timeout_ms: u64,
    },
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Storage(text) | Self::Corrupt(text) | Self::Refused(text) => f.write_str(text),
            Self::Poisoned(text) => write!(f, "the store is poisoned: {text}"),
            Self::Replay(text) => write!(f, "the log cannot be replayed: {text}"),
            Self::KeyTooLong { bytes } => f.write_str(&key_bytes_refused(*bytes)),
            Self::ValueTooLong { bytes } => {
                write!(f, "value of {bytes} bytes, at most {VALUE_MAX_BYTES} allowed")
            }
            Self::LoadTooLarge { max_bytes } => {
                write!(f, "values of more than {max_bytes} bytes had to be loaded together")
            }
            Self::SnapshotRefused { open, max } => {
                write!(f, "{open} snapshots are open, at most {max} may be")
            }
            Self::UndoFull { bytes, max_bytes } => write!(
                f,
                "open snapshots need {bytes} bytes of undo runs, at most {max_bytes} may be"
            ),
            Self::SnapshotExpired { age_ms, max_bytes } => write!(
                f,
                "the snapshot was ended: opened {age_ms} ms ago, it was the oldest when undo runs \
                 reached {max_bytes} bytes"
            ),
            Self::SnapshotEnded { age_ms, timeout_ms } => write!(
                f,
                "the snapshot has ended: opened {age_ms} ms ago with a timeout of {timeout_ms} ms"
            ),
        }
    }
}

impl std::error::Error for EngineError {}

impl From<StorageError> for EngineError {
    fn from(error: StorageError) -> Self {
        Self::Storage(error.to_string())
    }
}

/// Why a table or the list of tables cannot be read or written.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum TableError {
    /// The medium failed.
    Storage(StorageError),
    /// The manifest failed or is damaged.
    Manifest(ManifestError),
    /// An edit that does not fit the tables it is applied to.
    Edit {
        /// The rule it breaks.
        reason: &'static str,
    },
    /// Bytes that cannot be what was written.
    Corrupt {
        /// The damaged file.
        file: PathBuf,
        /// Where the damaged part starts, in bytes.
        offset: u64,
        /// Which check failed.
        what: &'static str,
        /// What the check wanted (a checksum, a length, a limit).
        expected: u64,
        /// What it found.
        got: u64,
    },
    /// A file of another format version.
    Version {
        /// The file.
        file: PathBuf,
        /// Version in the file.
        got: u32,
        /// The version this build reads.
        supported: u32,
    },
    /// Something larger than a file of this format can hold.
    Limit {
        /// Which limit.
        what: &'static str,
        /// The limit.
        max: u64,
        /// What was asked for.
        got: u64,
    },
    /// A version that does not follow the one before it in the order of the tree.
    Unordered {
        /// Number of the table being written.
        number: u64,
        /// Sequence of the version.
        seq: Seq,
    },
    /// A background job was told to stop.
    Cancelled,
}

/// Result of an operation on tables.
pub type TableResult<T> = Result<T, TableError>;

impl From<StorageError> for TableError {
    fn from(error: StorageError) -> Self {
        Self::Storage(error)
    }
}

impl From<ManifestError> for TableError {
    fn from(error: ManifestError) -> Self {
        Self::Manifest(error)
    }
}

impl From<TableError> for EngineError {
    fn from(error: TableError) -> Self {
        match error {
            TableError::Corrupt { .. }
            | TableError::Version { .. }
            | TableError::Edit { .. }
            | TableError::Manifest(ManifestError::Damaged { .. }) => {
                Self::Corrupt(error.to_string())
            }
            _ => Self::Storage(error.to_string()),
        }
    }
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Storage(error) => error.fmt(f),
            Self::Manifest(error) => error.fmt(f),
            Self::Edit { reason } => f.write_str(reason),
            Self::Corrupt { file, offset, what, expected, got } => write!(
                f,
                "{} is damaged at byte {offset}: {what}, expected {expected:#x}, got {got:#x}",
                file.display()
            ),
            Self::Version { file, got, supported } if got > supported => write!(
                f,
                "{} has format version {got}: a newer Sexton wrote it, and this one reads {supported}",
                file.display()
            ),
            Self::Version { file, got, supported } => write!(
                f,
                "{} has format version {got}, this build reads {supported}",
                file.display()
            ),
            Self::Limit { what, max, got } => write!(f, "{what}: {got} is above the limit {max}"),
            Self::Unordered { number, seq } => {
                write!(f, "table {number}: version {seq} is out of order")
            }
            Self::Cancelled => f.write_str("the job was told to stop"),
        }
    }
}

impl std::error::Error for TableError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Storage(error) => Some(error),
            Self::Manifest(error) => Some(error),
            _ => None,
        }
    }
}

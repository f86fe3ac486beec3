//! What can go wrong with a pool.

use std::fmt;
use std::path::PathBuf;

use crate::device::StorageError;

/// Result of an operation on a pool.
pub type PmemResult<T> = Result<T, PmemError>;

/// A failed operation on a pool.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum PmemError {
    /// libpmem cannot be loaded, or lacks a function.
    Library {
        /// What the dynamic linker says.
        message: String,
    },
    /// The medium failed. After a failed fence nobody knows what is durable: this is final until the pool is
    /// opened again, as a failed sync of a log is (N2).
    Storage(StorageError),
    /// Data that was durable is missing or damaged (N8).
    Damaged {
        /// The file.
        path: PathBuf,
        /// First byte that is not as it should be.
        offset: u64,
        /// What is wrong.
        message: String,
    },
    /// The files of the pool are of another version, or do not belong together.
    Refused {
        /// The file.
        path: PathBuf,
        /// What was found and what was expected.
        message: String,
    },
    /// All slots are taken, and the pool may not grow.
    Full {
        /// Bytes that were asked for.
        wanted_bytes: u64,
        /// Bytes that the pool may have.
        max_bytes: u64,
    },
    /// More writers than the pool has places for.
    TooManyWriters {
        /// The bound.
        writers_max: usize,
    },
}

impl From<StorageError> for PmemError {
    fn from(error: StorageError) -> Self {
        Self::Storage(error)
    }
}

impl fmt::Display for PmemError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Library { message } => {
                write!(f, "persistent memory needs libpmem (Debian package libpmem1): {message}")
            }
            Self::Storage(error) => error.fmt(f),
            Self::Damaged { path, offset, message } => {
                write!(f, "{} is damaged at byte {offset}: {message}", path.display())
            }
            Self::Refused { path, message } => write!(f, "{}: {message}", path.display()),
            Self::Full { wanted_bytes, max_bytes } => {
                write!(f, "no room for {wanted_bytes} bytes in a pool of at most {max_bytes} bytes")
            }
            Self::TooManyWriters { writers_max } => {
                write!(f, "more than {writers_max} writers of a pool")
            }
        }
    }
}

impl std::error::Error for PmemError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Storage(error) => Some(error),
            _ => None,
        }
    }
}

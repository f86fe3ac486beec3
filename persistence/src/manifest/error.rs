//! What can go wrong with the manifest.

use std::fmt;
use std::path::PathBuf;

use super::RECORD_BYTES_MAX;
use crate::device::StorageError;

/// Why the manifest could not be read or written.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ManifestError {
    /// The medium refused.
    Storage(StorageError),
    /// Something that cannot be the effect of a crash.
    Damaged {
        /// The manifest file, or `CURRENT`.
        file: PathBuf,
        /// Where the bad bytes start.
        offset: u64,
        /// What is wrong with them.
        reason: &'static str,
    },
    /// A newer version of Sexton wrote it.
    Newer {
        /// The manifest file.
        file: PathBuf,
        /// Its format version.
        version: u8,
    },
    /// An earlier write or sync failed, so the end of the file is unknown. A rewrite ends this.
    Failed {
        /// The manifest file.
        file: PathBuf,
        /// The first failure.
        reason: String,
    },
    /// A record above [`RECORD_BYTES_MAX`].
    TooLarge {
        /// Its length.
        bytes: usize,
    },
}

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Storage(error) => error.fmt(f),
            Self::Damaged { file, offset, reason } => write!(
                f,
                "{} is damaged at byte {offset}: {reason}; run sexton-check",
                file.display()
            ),
            Self::Newer { file, version } => write!(
                f,
                "{} has format version {version}: a newer Sexton wrote it, and this one cannot read it",
                file.display()
            ),
            Self::Failed { file, reason } => {
                write!(f, "{} takes no more records: {reason}", file.display())
            }
            Self::TooLarge { bytes } => {
                write!(f, "manifest record of {bytes} bytes, at most {RECORD_BYTES_MAX} allowed")
            }
        }
    }
}

impl std::error::Error for ManifestError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Storage(error) => Some(error),
            _ => None,
        }
    }
}

impl From<StorageError> for ManifestError {
    fn from(error: StorageError) -> Self {
        Self::Storage(error)
    }
}

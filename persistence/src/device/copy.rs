//! A second copy, or a second name, of a file.

use std::io;
use std::path::Path;

use super::{Storage, StorageError, StorageResult};

/// Bytes copied at once.
const COPY_BYTES: usize = 1 << 20;

/// Copies a file and makes the copy's content durable; answers its length. The directory is the caller's to
/// sync.
///
/// # Errors
///
/// A failing medium.
pub fn copy_file(storage: &dyn Storage, from: &Path, to: &Path) -> StorageResult<u64> {
    let (source, target) = (storage.open(from)?, storage.create(to)?);
    let len = source.len()?;
    let mut buf = vec![0; COPY_BYTES.min(usize::try_from(len).unwrap_or(COPY_BYTES))];
    let mut at = 0;
    while at < len {
        let n = (buf.len() as u64).min(len - at) as usize;
        source.read_exact_at(&mut buf[..n], at)?;
        target.write_all_at(&buf[..n], at)?;
        at += n as u64;
    }
    target.sync_data()?;
    Ok(len)
}

/// Gives the file a second name, or copies it where the file systems differ; true when it was linked.
///
/// # Errors
///
/// A failing medium, or a name that is taken.
pub fn link_or_copy(storage: &dyn Storage, from: &Path, to: &Path) -> Result<bool, StorageError> {
    match storage.hard_link(from, to) {
        Ok(()) => Ok(true),
        Err(error) if is_for_copying(error.kind()) => copy_file(storage, from, to).map(|_| false),
        Err(error) => Err(error),
    }
}

/// Another file system, or one without links.
fn is_for_copying(kind: io::ErrorKind) -> bool {
    matches!(
        kind,
        io::ErrorKind::CrossesDevices
            | io::ErrorKind::Unsupported
            | io::ErrorKind::PermissionDenied
            | io::ErrorKind::TooManyLinks
    )
}

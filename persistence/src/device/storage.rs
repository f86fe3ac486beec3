//! The traits behind which every medium hides, and their error.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A failed operation on a medium, with the facts an operator needs.
#[derive(Debug, Clone)]
pub struct StorageError {
    /// What was tried: `open`, `write`, `fdatasync`...
    pub operation: &'static str,
    /// The file or directory concerned.
    pub path: PathBuf,
    /// Byte offset of the access, where there is one.
    pub offset: Option<u64>,
    /// The operating system's (or the simulation's) error.
    pub source: Arc<io::Error>,
}

/// Result of an operation on a medium.
pub type StorageResult<T> = Result<T, StorageError>;

impl StorageError {
    /// Wraps an I/O error with the operation and path it belongs to.
    pub fn new(operation: &'static str, path: &Path, source: io::Error) -> Self {
        Self { operation, path: path.to_path_buf(), offset: None, source: Arc::new(source) }
    }

    /// This error, at byte `offset`.
    #[must_use]
    pub fn at(mut self, offset: u64) -> Self {
        self.offset = Some(offset);
        self
    }

    /// The kind of the underlying error.
    #[must_use]
    pub fn kind(&self) -> io::ErrorKind {
        self.source.kind()
    }
}

impl fmt::Display for StorageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.operation, self.path.display())?;
        if let Some(offset) = self.offset {
            write!(f, " at byte {offset}")?;
        }
        write!(f, ": {}", self.source)
    }
}

impl std::error::Error for StorageError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.source)
    }
}

impl From<StorageError> for io::Error {
    fn from(error: StorageError) -> Self {
        Self::new(error.kind(), error)
    }
}

/// Memory, offset and length of a transfer past the page cache are multiples of this, in bytes.
pub const UNBUFFERED_ALIGNMENT: usize = 4096;

/// How a medium wants to be read and written by whoever has much to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IoStyle {
    /// Bytes of one transfer of a long sequential read or write that others come in between of.
    pub transfer_bytes: usize,
    /// Bytes that a long scan asks for ahead of what it reads: the medium does several reads at a time.
    pub ahead_bytes: u64,
}

impl IoStyle {
    /// Flash, or a medium of which nothing is known: short transfers cost little, several run at a time.
    pub const FLASH: Self = Self { transfer_bytes: 512 << 10, ahead_bytes: 1 << 20 };
    /// A disk: a transfer must be worth the positioning before it. 4 MiB take about twice as long as that.
    pub const DISK: Self = Self { transfer_bytes: 4 << 20, ahead_bytes: 0 };
}

/// An open file. Positions are explicit, so that readers and one writer share it without locks.
pub trait File: Send + Sync + fmt::Debug {
    /// Reads exactly `buf.len()` bytes at `offset`; a shorter file is an `UnexpectedEof` error.
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> StorageResult<()>;
    /// Writes all of `buf` at `offset`.
    fn write_all_at(&self, buf: &[u8], offset: u64) -> StorageResult<()>;
    /// Makes the data, and the length where it changed, durable (`fdatasync`).
    fn sync_data(&self) -> StorageResult<()>;
    /// Hint: `len` bytes from `offset` on will be synced soon, the medium may begin with them. Does not wait
    /// for it and makes nothing durable.
    fn start_writeback(&self, _offset: u64, _len: u64) -> StorageResult<()> {
        Ok(())
    }
    /// Hint: waits until what [`start_writeback`](Self::start_writeback) began is on the medium, where that is
    /// known. Makes nothing durable.
    fn finish_writeback(&self, _offset: u64, _len: u64) -> StorageResult<()> {
        Ok(())
    }
    /// Hint: `len` bytes from `offset` on will be read soon; a medium that can begins with them. Does not wait.
    fn prefetch(&self, _offset: u64, _len: u64) -> StorageResult<()> {
        Ok(())
    }
    /// Length in bytes.
    fn len(&self) -> StorageResult<u64>;
    /// True when the file has no bytes.
    fn is_empty(&self) -> StorageResult<bool> {
        Ok(self.len()? == 0)
    }
    /// Cuts or extends the file to `len` bytes.
    fn set_len(&self, len: u64) -> StorageResult<()>;
    /// Reserves space without changing the length; a medium that cannot does nothing.
    fn allocate(&self, offset: u64, len: u64) -> StorageResult<()>;
    /// How its medium wants to be used.
    fn style(&self) -> IoStyle {
        IoStyle::FLASH
    }
    /// The path it was opened under.
    fn path(&self) -> &Path;
}

/// A medium with directories and files.
pub trait Storage: Send + Sync + fmt::Debug {
    /// Creates a file, or truncates the one that is there; open for reading and writing.
    fn create(&self, path: &Path) -> StorageResult<Arc<dyn File>>;
    /// Opens an existing file for reading and writing.
    fn open(&self, path: &Path) -> StorageResult<Arc<dyn File>>;
    /// Opens an existing file for reading only.
    fn open_to_read(&self, path: &Path) -> StorageResult<Arc<dyn File>> {
        self.open(path)
    }
    /// As `create`, for large files: transfers whose memory, offset and length are all multiples of
    /// [`UNBUFFERED_ALIGNMENT`] go past the page cache where the medium can; all others as usual.
    fn create_unbuffered(&self, path: &Path) -> StorageResult<Arc<dyn File>> {
        self.create(path)
    }
    /// As `open`, with transfers as in `create_unbuffered`.
    fn open_unbuffered(&self, path: &Path) -> StorageResult<Arc<dyn File>> {
        self.open(path)
    }
    /// True where [`open_mapped`](Self::open_mapped) maps.
    fn maps(&self, _path: &Path) -> bool {
        false
    }
    /// As `open`; where [`maps`](Self::maps) says so, writes inside the file's present length go to a mapping. Every
    /// byte of it must have been written and synced before, or a store might find no space, which kills.
    fn open_mapped(&self, path: &Path) -> StorageResult<Arc<dyn File>> {
        self.open(path)
    }
    /// Names (not paths) of the entries of a directory, sorted.
    fn list(&self, dir: &Path) -> StorageResult<Vec<String>>;
    /// True when a file or directory is there.
    fn exists(&self, path: &Path) -> StorageResult<bool>;
    /// Creates a directory and its parents.
    fn create_dir_all(&self, dir: &Path) -> StorageResult<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> StorageResult<()>;
    /// Removes an empty directory; of a link to one, both.
    fn remove_dir(&self, dir: &Path) -> StorageResult<()>;
    /// Renames a file over another one, or a directory to a name that is free, atomically; durable only
    /// after `sync_dir` of the directory it is in.
    fn rename(&self, from: &Path, to: &Path) -> StorageResult<()>;
    /// Makes a second name for a file.
    fn hard_link(&self, from: &Path, to: &Path) -> StorageResult<()>;
    /// Makes creations, renames and removals in `dir` durable.
    fn sync_dir(&self, dir: &Path) -> StorageResult<()>;
    /// Takes the directory's lock file for as long as the returned guard lives.
    fn lock_dir(&self, dir: &Path) -> StorageResult<Box<dyn Send + Sync>>;
}

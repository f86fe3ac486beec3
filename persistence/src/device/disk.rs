//! Real files of the operating system.

use std::fs::{self, OpenOptions, TryLockError};
use std::io::{self, Seek, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{File, Storage, StorageError, StorageResult, UNBUFFERED_ALIGNMENT, system};

/// Name of the lock file in a data directory.
const LOCK_FILE: &str = "LOCK";

/// The file systems of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct DiskStorage;

impl DiskStorage {
    /// A storage ready to be shared.
    #[must_use]
    pub fn shared() -> Arc<dyn Storage> {
        Arc::new(Self)
    }
}

#[derive(Debug)]
struct DiskFile {
    file: fs::File,
    /// A handle to the file with `O_DIRECT`, if it was asked for and the file system has it.
    direct: Option<fs::File>,
    path: PathBuf,
}

impl DiskFile {
    /// Opens with `options`; the standard library sets `O_CLOEXEC`.
    fn open(
        operation: &'static str,
        path: &Path,
        options: &OpenOptions,
    ) -> StorageResult<Arc<dyn File>> {
        match options.open(path) {
            Ok(file) => Ok(Arc::new(Self { file, direct: None, path: path.to_path_buf() })),
            Err(error) => Err(StorageError::new(operation, path, error)),
        }
    }

    /// Opens a second descriptor beside `file`, for aligned transfers.
    fn with_direct(file: io::Result<fs::File>, path: &Path) -> io::Result<Arc<dyn File>> {
        let file = file?;
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(libc::O_DIRECT);
        Ok(Arc::new(Self { file, direct: options.open(path).ok(), path: path.to_path_buf() }))
    }

    /// The descriptor for a transfer past the page cache, if this one qualifies.
    fn direct_for(&self, buf: &[u8], offset: u64) -> Option<&fs::File> {
        let align = UNBUFFERED_ALIGNMENT;
        let aligned = buf.as_ptr().addr().is_multiple_of(align)
            && buf.len().is_multiple_of(align)
            && offset.is_multiple_of(align as u64);
        self.direct.as_ref().filter(|_| aligned && !buf.is_empty())
    }

    fn error(&self, operation: &'static str, source: io::Error) -> StorageError {
        StorageError::new(operation, &self.path, source)
    }
}

impl File for DiskFile {
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> StorageResult<()> {
        if let Some(direct) = self.direct_for(buf, offset)
            && direct.read_exact_at(buf, offset).is_ok()
        {
            return Ok(());
        }
        // Also after a refused direct transfer (a device with larger sectors): same bytes.
        self.file.read_exact_at(buf, offset).map_err(|error| self.error("read", error).at(offset))
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> StorageResult<()> {
        let direct = self.direct_for(buf, offset);
        let written = match direct.map(|direct| direct.write_all_at(buf, offset)) {
            Some(Ok(())) => Ok(()),
            // Refused for its alignment (a device with larger sectors), not failed.
            Some(Err(error)) if error.kind() != io::ErrorKind::InvalidInput => Err(error),
            _ => self.file.write_all_at(buf, offset),
        };
        written.map_err(|error| self.error("write", error).at(offset))
    }

    fn sync_data(&self) -> StorageResult<()> {
        self.file.sync_data().map_err(|error| self.error("fdatasync", error))
    }

    fn start_writeback(&self, offset: u64, len: u64) -> StorageResult<()> {
        system::start_writeback(&self.file, offset, len)
            .map_err(|error| self.error("sync_file_range", error).at(offset))
    }

    fn finish_writeback(&self, offset: u64, len: u64) -> StorageResult<()> {
        system::finish_writeback(&self.file, offset, len)
            .map_err(|error| self.error("sync_file_range", error).at(offset))
    }

    fn prefetch(&self, offset: u64, len: u64) -> StorageResult<()> {
        // Bytes that were not asked for in time are read when they are needed.
        system::will_need(&self.file, offset, len);
        Ok(())
    }

    fn len(&self) -> StorageResult<u64> {
        let metadata = self.file.metadata().map_err(|error| self.error("fstat", error))?;
        Ok(metadata.len())
    }

    fn set_len(&self, len: u64) -> StorageResult<()> {
        self.file.set_len(len).map_err(|error| self.error("ftruncate", error).at(len))
    }

    fn allocate(&self, offset: u64, len: u64) -> StorageResult<()> {
        match system::allocate_keeping_size(&self.file, offset, len) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(()),
            result => result.map_err(|error| self.error("fallocate", error).at(offset)),
        }
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

/// The lock of a directory, for as long as it lives. The kernel drops it with the process.
#[derive(Debug)]
struct DirLock {
    _file: fs::File,
}

impl Storage for DiskStorage {
    fn create(&self, path: &Path) -> StorageResult<Arc<dyn File>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true);
        DiskFile::open("create", path, &options)
    }

    fn open(&self, path: &Path) -> StorageResult<Arc<dyn File>> {
        DiskFile::open("open", path, OpenOptions::new().read(true).write(true))
    }

    fn open_to_read(&self, path: &Path) -> StorageResult<Arc<dyn File>> {
        DiskFile::open("open", path, OpenOptions::new().read(true))
    }

    fn create_unbuffered(&self, path: &Path) -> StorageResult<Arc<dyn File>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true);
        DiskFile::with_direct(options.open(path), path)
            .map_err(|error| StorageError::new("create", path, error))
    }

    fn open_unbuffered(&self, path: &Path) -> StorageResult<Arc<dyn File>> {
        DiskFile::with_direct(OpenOptions::new().read(true).write(true).open(path), path)
            .map_err(|error| StorageError::new("open", path, error))
    }

    fn list(&self, dir: &Path) -> StorageResult<Vec<String>> {
        let error = |error| StorageError::new("readdir", dir, error);
        let mut names = Vec::new();
        for entry in fs::read_dir(dir).map_err(error)? {
            // A name that is not UTF-8 is none of ours.
            if let Ok(name) = entry.map_err(error)?.file_name().into_string() {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn exists(&self, path: &Path) -> StorageResult<bool> {
        path.try_exists().map_err(|error| StorageError::new("stat", path, error))
    }

    fn create_dir_all(&self, dir: &Path) -> StorageResult<()> {
        fs::create_dir_all(dir).map_err(|error| StorageError::new("mkdir", dir, error))
    }

    fn remove(&self, path: &Path) -> StorageResult<()> {
        fs::remove_file(path).map_err(|error| StorageError::new("unlink", path, error))
    }

    fn remove_dir(&self, dir: &Path) -> StorageResult<()> {
        let remove = || match fs::read_link(dir) {
            Ok(_) if !dir.is_dir() => fs::remove_file(dir),
            Ok(target) => {
                if fs::read_dir(dir)?.next().is_some() {
                    return Err(io::ErrorKind::DirectoryNotEmpty.into());
                }
                // An empty directory that nothing leads to does no harm; a link to nothing would.
                fs::remove_file(dir)?;
                fs::remove_dir(dir.with_file_name(target))
            }
            Err(_) => fs::remove_dir(dir),
        };
        remove().map_err(|error| StorageError::new("rmdir", dir, error))
    }

    fn rename(&self, from: &Path, to: &Path) -> StorageResult<()> {
        fs::rename(from, to).map_err(|error| StorageError::new("rename", from, error))
    }

    fn hard_link(&self, from: &Path, to: &Path) -> StorageResult<()> {
        fs::hard_link(from, to).map_err(|error| StorageError::new("link", to, error))
    }

    fn sync_dir(&self, dir: &Path) -> StorageResult<()> {
        // The parent of a plain name.
        let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
        fs::File::open(dir)
            .and_then(|file| file.sync_all())
            .map_err(|error| StorageError::new("fsync directory", dir, error))
    }

    fn lock_dir(&self, dir: &Path) -> StorageResult<Box<dyn Send + Sync>> {
        let path = dir.join(LOCK_FILE);
        let error = |error| StorageError::new("lock", &path, error);
        // Not truncated before the lock is ours: the file names the process that holds it.
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(&path).map_err(error)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::Error(cause)) => return Err(error(cause)),
            Err(TryLockError::WouldBlock) => {
                let holder = fs::read_to_string(&path).unwrap_or_default();
                let message = format!("in use by process {}", holder.trim());
                return Err(error(io::Error::new(io::ErrorKind::WouldBlock, message)));
            }
        }
        file.set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "{}", std::process::id()))
            .map_err(error)?;
        Ok(Box::new(DirLock { _file: file }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::TempDir;

    #[test]
    fn files_keep_what_was_written_where_it_was_written() {
        let dir = TempDir::new("files");
        let path = dir.join("a");
        let file = DiskStorage.create(&path).expect("creates");
        file.allocate(0, 1 << 16).expect("reserves");
        assert!(file.is_empty().expect("a length"), "reserving keeps the length");
        file.write_all_at(b"world", 6).expect("writes");
        file.write_all_at(b"hello ", 0).expect("writes");
        file.sync_data().expect("syncs");
        DiskStorage.sync_dir(&dir).expect("syncs the directory");
        DiskStorage.rename(&path, &dir.join("b")).expect("renames");
        DiskStorage.hard_link(&dir.join("b"), &dir.join("c")).expect("links");
        assert_eq!(DiskStorage.list(&dir).expect("lists"), ["b", "c"]);
        let again = DiskStorage.open(&dir.join("c")).expect("opens");
        let mut bytes = [0; 11];
        again.read_exact_at(&mut bytes, 0).expect("reads");
        assert_eq!(&bytes, b"hello world");
        let error = again.read_exact_at(&mut bytes, 1).expect_err("one byte too many");
        assert_eq!((error.kind(), error.offset), (io::ErrorKind::UnexpectedEof, Some(1)));
        let error = DiskStorage.open(&path).expect_err("renamed away");
        assert_eq!((error.kind(), error.operation), (io::ErrorKind::NotFound, "open"));
    }

    #[test]
    fn a_directory_has_one_owner_and_the_lock_names_it() {
        let dir = TempDir::new("lock");
        let lock = DiskStorage.lock_dir(&dir).expect("locks");
        // Two descriptions of one file exclude each other within a process, too.
        let error = DiskStorage.lock_dir(&dir).err().expect("taken").to_string();
        assert!(error.contains(&format!("process {}", std::process::id())), "{error}");
        drop(lock);
        assert!(DiskStorage.lock_dir(&dir).is_ok());
    }
}

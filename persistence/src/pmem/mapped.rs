//! Files mapped by libpmem: real persistent memory, declared one, or any file system through `msync`.
#![allow(unsafe_code)]

use std::env;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::PmemResult;
use super::libpmem::{Libpmem, Mapping};
use super::medium::{Lane, Medium, PmemKind, Readable, Region, Writable};
use crate::device::{DiskStorage, Storage, StorageError, StorageResult};
use crate::random::random_u64;

/// Name of the file by which a directory is tried out.
const PROBE_FILE: &str = "probe.pmem";
const PROBE_BYTES: usize = 4096;
/// As libpmem reads it: every mapping counts as persistent memory.
const FORCE_VARIABLE: &str = "PMEM_IS_PMEM_FORCE";

/// The files below a directory, mapped by libpmem.
#[derive(Debug)]
pub struct MappedMedium {
    libpmem: &'static Libpmem,
    kind: PmemKind,
}

impl MappedMedium {
    /// Loads libpmem and finds out what medium `dir`, which is created if need be, is on. `emulated`: the caller knows
    /// that it stands for persistent memory (a device with `emulate`).
    ///
    /// # Errors
    ///
    /// No libpmem; a directory in which no file can be mapped.
    pub fn load(dir: &Path, emulated: bool) -> PmemResult<Arc<Self>> {
        let library = Libpmem::load()?;
        DiskStorage.create_dir_all(dir)?;
        let path = dir.join(PROBE_FILE);
        // One that a crash has left behind.
        if path.exists() {
            DiskStorage.remove(&path)?;
        }
        let found = library.create(&path, PROBE_BYTES);
        let mapping = found.map_err(|error| StorageError::new("map", &path, error))?;
        // SAFETY: made in the line above and known to nobody.
        unsafe { library.unmap(&mapping) };
        DiskStorage.remove(&path)?;
        let forced = env::var_os(FORCE_VARIABLE).is_some_and(|value| value == "1");
        let kind = match (mapping.is_pmem && !forced, emulated || forced) {
            (true, _) => PmemKind::Dax,
            (false, true) => PmemKind::Emulated,
            (false, false) => PmemKind::Msync,
        };
        Ok(Arc::new(Self { libpmem: library, kind }))
    }

    fn region(&self, path: &Path, mapping: io::Result<Mapping>) -> StorageResult<Arc<dyn Region>> {
        let mapping = mapping.map_err(|error| StorageError::new("map", path, error))?;
        let file = File::options().read(true).write(true).open(path);
        let region = MappedRegion {
            libpmem: self.libpmem,
            mapping,
            file: file.map_err(|error| StorageError::new("open", path, error))?,
            path: path.to_path_buf(),
            msync: self.kind == PmemKind::Msync,
        };
        Ok(Arc::new(region))
    }
}

impl Medium for MappedMedium {
    fn kind(&self) -> PmemKind {
        self.kind
    }

    fn create_dir_all(&self, dir: &Path) -> StorageResult<()> {
        DiskStorage.create_dir_all(dir)
    }

    fn list(&self, dir: &Path) -> StorageResult<Vec<String>> {
        DiskStorage.list(dir)
    }

    fn create(&self, path: &Path, len: u64) -> StorageResult<Arc<dyn Region>> {
        let region =
            self.region(path, self.libpmem.create(path, len as usize)).inspect_err(|_| {
                // Made and not allocated, for want of space.
                let _ = fs::remove_file(path);
            })?;
        // Length and allocation; a later msync is for the bytes.
        let synced = File::open(path).and_then(|file| file.sync_all());
        synced.map_err(|error| StorageError::new("fsync", path, error))?;
        Ok(region)
    }

    fn open(&self, path: &Path) -> StorageResult<Arc<dyn Region>> {
        self.region(path, self.libpmem.open(path))
    }

    fn remove(&self, path: &Path) -> StorageResult<()> {
        DiskStorage.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> StorageResult<()> {
        DiskStorage.sync_dir(dir)
    }

    fn random_id(&self) -> u64 {
        random_u64()
    }
}

/// A mapped file.
#[derive(Debug)]
struct MappedRegion {
    libpmem: &'static Libpmem,
    mapping: Mapping,
    /// For reads that may meet a media error.
    file: File,
    path: PathBuf,
    /// Nothing is durable without it.
    msync: bool,
}

// SAFETY: a mapping is memory of the process, good in every thread until `drop`; who reads and writes what
// is agreed on above (`Region`).
unsafe impl Send for MappedRegion {}
// SAFETY: as above.
unsafe impl Sync for MappedRegion {}

impl MappedRegion {
    /// Address of `len` bytes at `offset`.
    fn at(&self, offset: u64, len: usize) -> *mut u8 {
        let end = (offset as usize).checked_add(len);
        assert!(
            end.is_some_and(|end| end <= self.mapping.len),
            "{}: {len} bytes at {offset} of a mapping of {}",
            self.path.display(),
            self.mapping.len
        );
        self.mapping.address.wrapping_add(offset as usize)
    }
}

impl Readable for MappedRegion {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> u64 {
        self.mapping.len as u64
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> StorageResult<()> {
        let read = self.file.read_exact_at(buf, offset);
        read.map_err(|error| StorageError::new("read", &self.path, error).at(offset))
    }
}

impl Writable for MappedRegion {
    fn copy(&self, _lane: Lane, offset: u64, src: &[u8]) {
        let to = self.at(offset, src.len());
        if self.msync {
            // SAFETY: `at` has checked the range, which is the lane's alone; `src` is other memory.
            unsafe { std::ptr::copy_nonoverlapping(src.as_ptr(), to, src.len()) };
        } else {
            // SAFETY: as above.
            unsafe { self.libpmem.copy(to, src) };
        }
    }

    fn fence(&self, _lane: Lane, dirty: &[Range<u64>]) -> StorageResult<()> {
        if !self.msync {
            self.libpmem.drain();
            return Ok(());
        }
        for range in dirty {
            let len = (range.end - range.start) as usize;
            // SAFETY: `at` has checked that the range is mapped.
            let synced = unsafe { self.libpmem.msync(self.at(range.start, len), len) };
            synced
                .map_err(|error| StorageError::new("msync", &self.path, error).at(range.start))?;
        }
        Ok(())
    }

    fn prefault(&self) -> StorageResult<()> {
        // A page that is only read stays clean, and msync has nothing to write.
        let advice = if self.msync { libc::MADV_POPULATE_READ } else { libc::MADV_POPULATE_WRITE };
        // SAFETY: our own mapping; the call changes no byte of it.
        let result =
            unsafe { libc::madvise(self.mapping.address.cast(), self.mapping.len, advice) };
        let error = io::Error::last_os_error();
        // Kernels before 5.14 do not know it: the pages come with the first access then.
        if result == 0 || error.raw_os_error() == Some(libc::EINVAL) {
            return Ok(());
        }
        Err(StorageError::new("madvise", &self.path, error))
    }
}

impl Region for MappedRegion {
    fn rewrite_zeros(&self, offset: u64, len: u64) -> StorageResult<()> {
        let zeros = vec![0; len as usize];
        let written = self.file.write_all_at(&zeros, offset).and_then(|()| self.file.sync_data());
        written.map_err(|error| StorageError::new("write", &self.path, error).at(offset))
    }

    fn address(&self, offset: u64, len: usize) -> *const u8 {
        self.at(offset, len)
    }

    fn zero(&self, _lane: Lane, offset: u64, len: u64) {
        let to = self.at(offset, len as usize);
        if self.msync {
            // SAFETY: `at` has checked the range, which is the lane's alone.
            unsafe { std::ptr::write_bytes(to, 0, len as usize) };
        } else {
            // SAFETY: as above.
            unsafe { self.libpmem.zero(to, len as usize) };
        }
    }
}

impl Drop for MappedRegion {
    fn drop(&mut self) {
        // SAFETY: whoever reads the mapping borrows this region.
        unsafe { self.libpmem.unmap(&self.mapping) };
    }
}

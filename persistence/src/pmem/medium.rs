//! What a pool is stored on: memory-mapped files that a fence makes durable.

use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::device::StorageResult;

/// What the medium writes, and loses to a media error, in bytes (Intel Optane: 256 bytes).
pub const MEDIA_LINE_BYTES: u64 = 256;

/// How writes become durable, and what they survive. All kinds run one code path; INFO, log and
/// reports name the kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PmemKind {
    /// Persistent memory: a DAX mapping (MAP_SYNC), non-temporal copies, one store fence a batch. Survives
    /// power loss.
    Dax,
    /// Memory that is declared to be persistent (`PMEM_IS_PMEM_FORCE=1`, or a device with `emulate`), tmpfs
    /// for instance: the instructions of `Dax`. Survives the process, not the machine.
    Emulated,
    /// Any file system: copies into the page cache, `msync` of the batch's pages. Survives power loss, slowly.
    Msync,
    /// [`SimPmem`](super::SimPmem), for tests.
    Simulated,
}

impl PmemKind {
    /// The word for INFO and reports: `dax`, `emulated`, `msync`, `simulated`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Dax => "dax",
            Self::Emulated => "emulated",
            Self::Msync => "msync",
            Self::Simulated => "simulated",
        }
    }

    /// A sentence for the log.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Self::Dax => "persistent memory (DAX)",
            Self::Emulated => "emulated persistent memory, it does not survive a power failure",
            Self::Msync => "not persistent memory, every batch is made durable by msync",
            Self::Simulated => "simulated persistent memory",
        }
    }
}

impl fmt::Display for PmemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Identifies a writer: a fence applies only to the copies of its own lane, as a store fence does to those of its own
/// processor. Writers use their number; [`POOL_LANE`] is the pool's own.
pub type Lane = u32;

/// Lane of what the pool writes itself: control file, chunk headers at recovery, erasing.
pub const POOL_LANE: Lane = u32::MAX;

/// Lane of what others than their writer copy of a batch, at a barrier.
pub(super) const SETTLE_LANE: Lane = POOL_LANE - 1;

/// Where files for mapping are made. Implemented by [`MappedMedium`](super::MappedMedium) and
/// [`SimPmem`](super::SimPmem).
pub trait Medium: Send + Sync + fmt::Debug {
    /// What it is.
    fn kind(&self) -> PmemKind;
    /// Creates a directory and its parents.
    fn create_dir_all(&self, dir: &Path) -> StorageResult<()>;
    /// Names of the entries of a directory, sorted.
    fn list(&self, dir: &Path) -> StorageResult<Vec<String>>;
    /// Makes a file of `len` zeros, all of it allocated, and maps it. There must be none of that name.
    fn create(&self, path: &Path, len: u64) -> StorageResult<Arc<dyn Region>>;
    /// Maps a file that is there.
    fn open(&self, path: &Path) -> StorageResult<Arc<dyn Region>>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> StorageResult<()>;
    /// Makes creations and removals in `dir` durable.
    fn sync_dir(&self, dir: &Path) -> StorageResult<()>;
    /// A number that a client cannot guess: the id of a new pool.
    fn random_id(&self) -> u64;
}

/// A file on such a medium that can be read.
pub trait Readable: Send + Sync + fmt::Debug {
    /// The file.
    fn path(&self) -> &Path;
    /// Its bytes.
    fn len(&self) -> u64;
    /// True of no mapped file: they are never made empty.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Reads by way of the file system, which answers an error where the medium has one; through a mapping the
    /// process would be killed.
    fn read(&self, offset: u64, buf: &mut [u8]) -> StorageResult<()>;
}

/// A mapped file that can be written.
///
/// Its users coordinate writes: every byte belongs to one lane at a time.
pub trait Writable: Readable {
    /// Copies `src` to `offset`, past the caches where the medium is memory. Not durable until the lane's fence.
    fn copy(&self, lane: Lane, offset: u64, src: &[u8]);
    /// Makes durable what the lane has copied; `dirty` is where that was. To be called by the thread that
    /// copied. Without any `dirty` there is no I/O: where that is needed, nothing becomes durable.
    fn fence(&self, lane: Lane, dirty: &[Range<u64>]) -> StorageResult<()>;
    /// Has the kernel map all of it now rather than at the first access.
    fn prefault(&self) -> StorageResult<()>;
}

/// A mapped file of a pool.
pub trait Region: Writable {
    /// Writes zeros by way of the file system, which heals lines that the medium could not read, and syncs.
    fn rewrite_zeros(&self, offset: u64, len: u64) -> StorageResult<()>;
    /// Where the `len` bytes at `offset` are in memory, for as long as this region lives. Whoever reads there sees to
    /// it that nobody writes.
    fn address(&self, offset: u64, len: usize) -> *const u8;
    /// Fills with zeros; as [`copy`](Writable::copy).
    fn zero(&self, lane: Lane, offset: u64, len: u64);
}

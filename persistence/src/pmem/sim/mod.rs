//! Simulated persistent memory, for the crash and fault tests of all crates.
//!
//! It distinguishes what the program sees (the volatile image) from what the medium certainly holds. Copied bytes
//! are *dirty* until they are flushed, *flushed* until their lane's fence, and *durable* from then on. A
//! [`crash`](SimPmem::crash) decides by seed, line by line, what the medium has of the rest: all, nothing, or some
//! of the line's words of 8 bytes. Names become durable with `sync_dir` of their directory; a removal is durable at once.

mod craft;
mod files;
mod region;

#[cfg(test)]
mod tests;

pub use craft::CraftedPool;
pub use files::SimMapper;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::medium::{Medium, PmemKind, Region};
use crate::device::sim::{CrashOptions, SimRandom};
use crate::device::{StorageError, StorageResult};
use region::SimRegion;

/// How a copy becomes durable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SimMode {
    /// Persistent memory: copies go past the caches, so they are flushed when they are made; a fence is for its own
    /// lane.
    #[default]
    Pmem,
    /// A page cache: copies are dirty; a fence takes the pages of its ranges to the medium, whoever wrote.
    Msync,
}

/// What shall fail.
#[derive(Debug)]
pub(super) struct Power {
    /// Operations until the power is off: from then on nothing reaches the medium, and what can fail fails.
    left: AtomicU64,
    /// Fences until one fails, 1 for the next; 0 for never.
    fail_fence: AtomicU64,
}

impl Power {
    /// Counts an operation; false when the power is off.
    pub(super) fn is_on(&self) -> bool {
        let left = self.left.load(Ordering::Relaxed);
        if left != u64::MAX && left > 0 {
            self.left.store(left - 1, Ordering::Relaxed);
        }
        left > 0
    }

    pub(super) fn fence_fails(&self) -> bool {
        let left = self.fail_fence.load(Ordering::Relaxed);
        self.fail_fence.store(left.saturating_sub(1), Ordering::Relaxed);
        left == 1
    }
}

#[derive(Debug)]
struct World {
    mode: SimMode,
    regions: Mutex<BTreeMap<PathBuf, Arc<SimRegion>>>,
    /// Names that no `sync_dir` has made durable.
    unsynced: Mutex<BTreeSet<PathBuf>>,
    power: Arc<Power>,
    id: u64,
}

/// Simulated persistent memory with its files. Clones share it.
#[derive(Debug, Clone)]
pub struct SimPmem {
    world: Arc<World>,
}

impl Default for SimPmem {
    fn default() -> Self {
        Self::new(SimMode::default())
    }
}

impl SimPmem {
    /// An empty one.
    #[must_use]
    pub fn new(mode: SimMode) -> Self {
        Self::holding(mode, BTreeMap::new())
    }

    /// As a medium to open a pool on.
    #[must_use]
    pub fn medium(&self) -> Arc<dyn Medium> {
        Arc::new(self.clone())
    }

    fn holding(mode: SimMode, contents: BTreeMap<PathBuf, (Vec<u8>, BTreeSet<u64>)>) -> Self {
        let power =
            Arc::new(Power { left: AtomicU64::new(u64::MAX), fail_fence: AtomicU64::new(0) });
        let regions = contents.into_iter().map(|(path, (bytes, bad_lines))| {
            let region = SimRegion::new(&path, bytes, bad_lines, mode, Arc::clone(&power));
            (path, Arc::new(region))
        });
        let regions = Mutex::new(regions.collect());
        let world = World { mode, regions, unsynced: Mutex::default(), power, id: 0x5e_5e };
        Self { world: Arc::new(world) }
    }

    /// What a power failure at this instant leaves behind. This one stays as it is, so that one instant can be
    /// crashed in many ways.
    #[must_use]
    pub fn crash(&self, seed: u64, options: CrashOptions) -> Self {
        let mut random = SimRandom::new(seed);
        let unsynced = self.world.unsynced.lock();
        let mut contents = BTreeMap::new();
        for (path, region) in self.world.regions.lock().iter() {
            let named = !unsynced.contains(path) || random.percent(options.keep_percent);
            let content = region.crash(&mut random, options);
            if named {
                contents.insert(path.clone(), content);
            }
        }
        Self::holding(self.world.mode, contents)
    }

    /// Cuts the power after this many more copies, fences and changes of names: then nothing reaches the medium any more,
    /// and whatever can fail fails.
    pub fn power_off_after(&self, operations: u64) {
        self.world.power.left.store(operations, Ordering::Relaxed);
    }

    /// False once the power is off.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.world.power.left.load(Ordering::Relaxed) > 0
    }

    /// The n-th fence from now on fails, 1 for the next; what it should have made durable is lost (as a page cache
    /// does it, which takes such pages for clean).
    pub fn fail_fence(&self, nth: u64) {
        self.world.power.fail_fence.store(nth, Ordering::Relaxed);
    }

    /// The medium cannot read the media line at `offset` any more, until it is written by way of the file
    /// system.
    ///
    /// # Errors
    ///
    /// No such file.
    pub fn break_line(&self, path: &Path, offset: u64) -> StorageResult<()> {
        self.find("break", path)?.break_line(offset);
        Ok(())
    }

    /// Changes one bit, on the medium and as seen.
    ///
    /// # Errors
    ///
    /// No such file.
    pub fn flip_bit(&self, path: &Path, bit: u64) -> StorageResult<()> {
        self.find("flip", path)?.flip_bit(bit);
        Ok(())
    }

    /// Replaces the content of a file that is there or not: for tests that make up what they find.
    pub fn put(&self, path: &Path, bytes: Vec<u8>) {
        let power = Arc::clone(&self.world.power);
        let region = SimRegion::new(path, bytes, BTreeSet::new(), self.world.mode, power);
        self.world.regions.lock().insert(path.to_path_buf(), Arc::new(region));
    }

    /// What the medium holds for certain of a file.
    ///
    /// # Errors
    ///
    /// No such file.
    pub fn durable(&self, path: &Path) -> StorageResult<Vec<u8>> {
        Ok(self.find("read", path)?.durable())
    }

    /// True when some file's durable bytes contain `bytes`.
    #[must_use]
    pub fn holds(&self, bytes: &[u8]) -> bool {
        let regions = self.world.regions.lock();
        let mut contents = regions.values().map(|region| region.durable());
        contents.any(|content| content.windows(bytes.len()).any(|window| window == bytes))
    }

    fn find(&self, operation: &'static str, path: &Path) -> StorageResult<Arc<SimRegion>> {
        let found = self.world.regions.lock().get(path).cloned();
        found.ok_or_else(|| StorageError::new(operation, path, io::ErrorKind::NotFound.into()))
    }

    fn powered(&self, operation: &'static str, path: &Path) -> StorageResult<()> {
        if self.world.power.is_on() {
            return Ok(());
        }
        Err(StorageError::new(operation, path, io::Error::from_raw_os_error(libc::EIO)))
    }
}

impl Medium for SimPmem {
    fn kind(&self) -> PmemKind {
        PmemKind::Simulated
    }

    fn create_dir_all(&self, _dir: &Path) -> StorageResult<()> {
        Ok(())
    }

    fn list(&self, dir: &Path) -> StorageResult<Vec<String>> {
        let regions = self.world.regions.lock();
        let inside = regions.keys().filter(|path| path.parent() == Some(dir));
        let names = inside.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()));
        Ok(names.collect())
    }

    fn create(&self, path: &Path, len: u64) -> StorageResult<Arc<dyn Region>> {
        self.powered("map", path)?;
        if self.find("map", path).is_ok() {
            return Err(StorageError::new("map", path, io::ErrorKind::AlreadyExists.into()));
        }
        self.put(path, vec![0; len as usize]);
        self.world.unsynced.lock().insert(path.to_path_buf());
        self.open(path)
    }

    fn open(&self, path: &Path) -> StorageResult<Arc<dyn Region>> {
        let region = self.find("map", path)?;
        Ok(region)
    }

    fn remove(&self, path: &Path) -> StorageResult<()> {
        self.powered("unlink", path)?;
        self.find("unlink", path)?;
        self.world.regions.lock().remove(path);
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> StorageResult<()> {
        self.powered("fsync directory", dir)?;
        self.world.unsynced.lock().retain(|path| path.parent() != Some(dir));
        Ok(())
    }

    fn random_id(&self) -> u64 {
        self.world.id
    }
}

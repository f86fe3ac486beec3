//! A simulated file system in memory, for the crash and fault tests of all crates.
//!
//! It distinguishes what a program sees from what the medium holds: data becomes durable by
//! `sync_data`, names (creations, renames, removals) by `sync_dir` of their directory. A
//! [`crash`](SimStorage::crash) decides by seed which unsynced operations had already reached the
//! medium. Directories themselves are durable at once.

mod crash;
mod file;
mod mapping;
mod random;
mod stores;
mod world;

#[cfg(test)]
mod tests;

pub(crate) use crash::crash_lines;
pub use crash::{CrashOptions, SECTOR_BYTES};
pub(crate) use mapping::SimMapping;
pub use random::SimRandom;
pub use world::{PowerPoint, SimCounters, SimFaults};

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::{File, Storage, StorageError, StorageResult};
use file::SimFile;
use world::{NameOperation, World};

/// The simulated file system. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct SimStorage {
    world: Arc<Mutex<World>>,
}

impl SimStorage {
    /// An empty file system.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// What a power failure at this instant leaves behind, as a new file system: everything
    /// synced, and of the rest whatever `seed` and `options` say. This one stays as it is, so one
    /// instant can be crashed in many ways.
    #[must_use]
    pub fn crash(&self, seed: u64, options: CrashOptions) -> Self {
        let world = self.world.lock().crash(&mut SimRandom::new(seed), options);
        Self { world: Arc::new(Mutex::new(world)) }
    }

    /// Sets what shall fail from now on, counted from now.
    pub fn set_faults(&self, faults: SimFaults) {
        self.world.lock().faults = faults;
    }

    /// True once the power has gone.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.world.lock().faults.power_off_after == Some(0)
    }

    /// Counts of operations since the file system was made.
    #[must_use]
    pub fn counters(&self) -> SimCounters {
        self.world.lock().counters
    }

    /// Flips one bit of a file, both as seen and on the medium.
    ///
    /// # Errors
    ///
    /// The file does not exist or is not that long.
    pub fn flip_bit(&self, path: &Path, bit: u64) -> StorageResult<()> {
        let mut world = self.world.lock();
        let inode = world.find("flip", path)?;
        world.flip_bit(inode, bit).map_err(|error| StorageError::new("flip", path, error))
    }

    /// The content of a file as a program sees it.
    ///
    /// # Errors
    ///
    /// The file does not exist.
    pub fn read(&self, path: &Path) -> StorageResult<Vec<u8>> {
        let world = self.world.lock();
        let inode = world.find("read", path)?;
        Ok(world.content(inode).to_vec())
    }

    fn handle(&self, inode: u64, path: &Path) -> Arc<dyn File> {
        Arc::new(SimFile { world: Arc::clone(&self.world), inode, path: path.to_path_buf() })
    }
}

/// Gives the directory's lock back.
struct SimLock {
    world: Arc<Mutex<World>>,
    dir: PathBuf,
}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.world.lock().locked_dirs.remove(&self.dir);
    }
}

impl Storage for SimStorage {
    fn create(&self, path: &Path) -> StorageResult<Arc<dyn File>> {
        let mut world = self.world.lock();
        world.counters.creates += 1;
        world.powered_for("create", path)?;
        let inode = world.create(path)?;
        Ok(self.handle(inode, path))
    }

    fn open(&self, path: &Path) -> StorageResult<Arc<dyn File>> {
        let inode = self.world.lock().find("open", path)?;
        Ok(self.handle(inode, path))
    }

    fn list(&self, dir: &Path) -> StorageResult<Vec<String>> {
        self.world.lock().list(dir)
    }

    fn exists(&self, path: &Path) -> StorageResult<bool> {
        let world = self.world.lock();
        Ok(world.names.contains_key(path) || world.dirs.contains(path))
    }

    fn create_dir_all(&self, dir: &Path) -> StorageResult<()> {
        let mut world = self.world.lock();
        world.dirs.extend(dir.ancestors().map(Path::to_path_buf));
        Ok(())
    }

    fn remove(&self, path: &Path) -> StorageResult<()> {
        let mut world = self.world.lock();
        world.counters.removes += 1;
        world.powered_for("unlink", path)?;
        world.find("unlink", path)?;
        world.change_names(NameOperation::of(Some(path), None));
        Ok(())
    }

    fn remove_dir(&self, dir: &Path) -> StorageResult<()> {
        let mut world = self.world.lock();
        world.powered_for("rmdir", dir)?;
        if !world.list(dir)?.is_empty() {
            let error = io::Error::from(io::ErrorKind::DirectoryNotEmpty);
            return Err(StorageError::new("rmdir", dir, error));
        }
        world.dirs.remove(dir);
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> StorageResult<()> {
        let mut world = self.world.lock();
        world.counters.renames += 1;
        world.powered_for("rename", from)?;
        world.check_parent("rename", to)?;
        if world.dirs.contains(from) {
            if world.dirs.contains(to) {
                let error = io::Error::from(io::ErrorKind::DirectoryNotEmpty);
                return Err(StorageError::new("rename", from, error));
            }
            world.rename_dir(from, to);
            return Ok(());
        }
        let inode = world.find("rename", from)?;
        world.change_names(NameOperation::of(Some(from), Some((to, inode))));
        Ok(())
    }

    fn hard_link(&self, from: &Path, to: &Path) -> StorageResult<()> {
        let mut world = self.world.lock();
        world.powered_for("link", to)?;
        world.check_parent("link", to)?;
        if world.names.contains_key(to) {
            let error = io::Error::from(io::ErrorKind::AlreadyExists);
            return Err(StorageError::new("link", to, error));
        }
        let inode = world.find("link", from)?;
        world.change_names(NameOperation::of(None, Some((to, inode))));
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> StorageResult<()> {
        self.world.lock().sync_dir(dir)
    }

    fn lock_dir(&self, dir: &Path) -> StorageResult<Box<dyn Send + Sync>> {
        let mut world = self.world.lock();
        if !world.locked_dirs.insert(dir.to_path_buf()) {
            let error = io::Error::new(io::ErrorKind::WouldBlock, "in use by this process");
            return Err(StorageError::new("lock", dir, error));
        }
        Ok(Box::new(SimLock { world: Arc::clone(&self.world), dir: dir.to_path_buf() }))
    }
}

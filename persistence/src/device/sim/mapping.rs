//! Files of the simulation that are mapped: what is stored there is lost line by line, not write by write.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use parking_lot::Mutex;

use super::SimStorage;
use super::stores::Copied;
use super::world::{FileOperation, World, apply, count_down, input_output_error};
use crate::device::{StorageError, StorageResult};

impl World {
    fn copy(&mut self, (inode, path): (u64, &Path), data: &[u8], offset: u64) {
        self.counters.writes += 1;
        if self.powered(path).is_err() && !std::mem::take(&mut self.goes_off) {
            return;
        }
        self.counters.written_bytes += data.len() as u64;
        let copied = Copied { offset, data: data.to_vec(), thread: thread::current().id() };
        let operation = FileOperation::Copy(copied);
        let file = self.inodes.entry(inode).or_default();
        apply(&mut file.content, &operation, None);
        file.pending.push(operation);
    }

    /// Makes durable what the calling thread has stored, or the pages of ranges, whoever stored.
    fn fence(
        &mut self,
        (inode, path): (u64, &Path),
        pages: Option<&[Range<u64>]>,
    ) -> io::Result<()> {
        self.counters.fences += 1;
        self.powered(path)?;
        // A store fence cannot fail.
        let fails = pages.is_some() && count_down(&mut self.faults.fail_sync);
        let file = self.inodes.entry(inode).or_default();
        for operation in std::mem::take(&mut file.pending) {
            let FileOperation::Copy(copied) = operation else {
                file.pending.push(operation);
                continue;
            };
            let (synced, rest) = match pages {
                Some(ranges) => copied.split_by_pages(ranges),
                None if copied.thread == thread::current().id() => (vec![copied], Vec::new()),
                None => (Vec::new(), vec![copied]),
            };
            for copied in synced.into_iter().filter(|_| !fails) {
                apply(&mut file.durable, &FileOperation::Copy(copied), None);
            }
            file.pending.extend(rest.into_iter().map(FileOperation::Copy));
        }
        if fails { Err(input_output_error()) } else { Ok(()) }
    }
}

/// A file of the simulation, mapped. Reads go by way of the file.
#[derive(Debug)]
pub(crate) struct SimMapping {
    world: Arc<Mutex<World>>,
    inode: u64,
    path: PathBuf,
    len: u64,
}

impl SimStorage {
    /// Maps all of a file.
    ///
    /// # Errors
    ///
    /// The file does not exist.
    pub(crate) fn map(&self, path: &Path) -> StorageResult<SimMapping> {
        let world = self.world.lock();
        let inode = world.find("map", path)?;
        let (path, len) = (path.to_path_buf(), world.content(inode).len() as u64);
        Ok(SimMapping { world: Arc::clone(&self.world), inode, path, len })
    }
}

impl SimMapping {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    pub(crate) fn read(&self, offset: u64, buf: &mut [u8]) {
        let range = offset as usize..offset as usize + buf.len();
        buf.copy_from_slice(&self.world.lock().content(self.inode)[range]);
    }

    /// Stores `data`, which must be inside.
    pub(crate) fn copy(&self, data: &[u8], offset: u64) {
        assert!(offset + data.len() as u64 <= self.len, "a store outside of the mapping");
        self.world.lock().copy((self.inode, &self.path), data, offset);
    }

    /// A store fence, or with `pages` an `msync` of the pages of these ranges.
    pub(crate) fn fence(&self, pages: Option<&[Range<u64>]>) -> StorageResult<()> {
        let result = self.world.lock().fence((self.inode, &self.path), pages);
        result.map_err(|error| StorageError::new("msync", &self.path, error))
    }
}

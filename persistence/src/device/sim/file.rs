//! An open file of the simulation.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::world::World;
use crate::device::{File, StorageError, StorageResult};

#[derive(Debug)]
pub(super) struct SimFile {
    pub(super) world: Arc<Mutex<World>>,
    pub(super) inode: u64,
    pub(super) path: PathBuf,
}

impl SimFile {
    fn error(&self, operation: &'static str, source: io::Error) -> StorageError {
        StorageError::new(operation, &self.path, source)
    }
}

impl File for SimFile {
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> StorageResult<()> {
        let mut world = self.world.lock();
        world.counters.read_bytes += buf.len() as u64;
        let content = world.content(self.inode);
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let part = start.checked_add(buf.len()).and_then(|end| content.get(start..end));
        match part {
            Some(part) => {
                buf.copy_from_slice(part);
                Ok(())
            }
            None => Err(self.error("read", io::ErrorKind::UnexpectedEof.into()).at(offset)),
        }
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> StorageResult<()> {
        let result = self.world.lock().write((self.inode, &self.path), buf, offset as usize);
        result.map_err(|error| self.error("write", error).at(offset))
    }

    fn sync_data(&self) -> StorageResult<()> {
        let result = self.world.lock().sync((self.inode, &self.path));
        result.map_err(|error| self.error("fdatasync", error))
    }

    fn start_writeback(&self, _offset: u64, _len: u64) -> StorageResult<()> {
        self.world.lock().counters.writebacks += 1;
        Ok(())
    }

    fn len(&self) -> StorageResult<u64> {
        Ok(self.world.lock().content(self.inode).len() as u64)
    }

    fn set_len(&self, len: u64) -> StorageResult<()> {
        let result = self.world.lock().set_len((self.inode, &self.path), len as usize);
        result.map_err(|error| self.error("ftruncate", error).at(len))
    }

    fn allocate(&self, _offset: u64, _len: u64) -> StorageResult<()> {
        Ok(())
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

//! Mapped files of a simulated file system: the log on simulated persistent memory.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::SimMode;
use crate::device::sim::{SimMapping, SimStorage};
use crate::device::{File, Mapper, StorageResult};
use crate::pmem::files::MappedFile;
use crate::pmem::medium::{Lane, Readable, Writable};

/// Maps files of a [`SimStorage`], whose crashes then lose and tear what was stored there by lines and words.
#[derive(Debug)]
pub struct SimMapper {
    storage: SimStorage,
    mode: SimMode,
}

impl SimMapper {
    /// Files of `storage`, on which a copy becomes durable as `mode` says.
    #[must_use]
    pub fn new(storage: &SimStorage, mode: SimMode) -> Arc<Self> {
        Arc::new(Self { storage: storage.clone(), mode })
    }
}

impl Mapper for SimMapper {
    fn name(&self) -> &'static str {
        "simulated"
    }

    fn map(&self, file: Arc<dyn File>) -> StorageResult<Arc<dyn File>> {
        let mapping = SimWritable { mapping: self.storage.map(file.path())?, mode: self.mode };
        Ok(Arc::new(MappedFile::new(file, Arc::new(mapping), self.mode == SimMode::Msync)))
    }
}

#[derive(Debug)]
struct SimWritable {
    mapping: SimMapping,
    mode: SimMode,
}

impl Readable for SimWritable {
    fn path(&self) -> &Path {
        self.mapping.path()
    }

    fn len(&self) -> u64 {
        self.mapping.len()
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> StorageResult<()> {
        self.mapping.read(offset, buf);
        Ok(())
    }
}

impl Writable for SimWritable {
    fn copy(&self, _lane: Lane, offset: u64, src: &[u8]) {
        self.mapping.copy(src, offset);
    }

    fn fence(&self, _lane: Lane, dirty: &[Range<u64>]) -> StorageResult<()> {
        self.mapping.fence((self.mode == SimMode::Msync).then_some(dirty))
    }

    fn prefault(&self) -> StorageResult<()> {
        Ok(())
    }
}

//! Files of a device that are written by way of a mapping: the log's segments and parts (`FORMAT.md`, "Segments in
//! persistent memory").

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;

use super::medium::{Lane, Medium, PmemKind, Writable};
use crate::device::{File, IoStyle, Mapper, StorageError, StorageResult};

/// A file of the log has one writer at a time.
const LANE: Lane = 0;

/// Maps files of one device.
#[derive(Debug)]
pub struct MappedFiles {
    medium: Arc<dyn Medium>,
}

impl MappedFiles {
    /// Files on `medium`.
    #[must_use]
    pub fn new(medium: Arc<dyn Medium>) -> Arc<Self> {
        Arc::new(Self { medium })
    }
}

impl Mapper for MappedFiles {
    fn name(&self) -> &'static str {
        self.medium.kind().name()
    }

    fn map(&self, file: Arc<dyn File>) -> StorageResult<Arc<dyn File>> {
        let region = self.medium.open(file.path())?;
        region.prefault()?;
        Ok(Arc::new(MappedFile::new(file, region, self.medium.kind() == PmemKind::Msync)))
    }
}

/// What the next sync has to do.
#[derive(Debug, Default)]
struct Unsynced {
    /// Copied, where only `msync` makes it durable.
    copied: Option<Range<u64>>,
    /// Something was written by way of the file.
    written: bool,
}

/// A file and its mapping. Writes inside the mapping are copies; all others use the file, which shows the
/// bytes of the mapping, too.
#[derive(Debug)]
pub(super) struct MappedFile<M: ?Sized + Writable> {
    unsynced: Mutex<Unsynced>,
    /// Nothing copied is durable without it.
    by_msync: bool,
    file: Arc<dyn File>,
    mapping: Arc<M>,
}

impl<M: ?Sized + Writable> MappedFile<M> {
    pub(super) fn new(file: Arc<dyn File>, mapping: Arc<M>, by_msync: bool) -> Self {
        Self { unsynced: Mutex::default(), by_msync, file, mapping }
    }
}

impl<M: ?Sized + Writable> File for MappedFile<M> {
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> StorageResult<()> {
        // An error where the medium has one; through the mapping the process would be killed.
        self.file.read_exact_at(buf, offset)
    }

    fn write_all_at(&self, buf: &[u8], offset: u64) -> StorageResult<()> {
        let end = offset.saturating_add(buf.len() as u64);
        if end > self.mapping.len() {
            // One group that is longer than a segment, or the empty one that closes a full segment.
            self.file.write_all_at(buf, offset)?;
            self.unsynced.lock().written = true;
            return Ok(());
        }
        self.mapping.copy(LANE, offset, buf);
        if !self.by_msync {
            // Here and not in `sync_data`: a fence is for the copies of its own thread, and another one may sync.
            return self.mapping.fence(LANE, &[]);
        }
        let copied = &mut self.unsynced.lock().copied;
        *copied = Some(match copied.take() {
            Some(before) => before.start.min(offset)..before.end.max(end),
            None => offset..end,
        });
        Ok(())
    }

    fn sync_data(&self) -> StorageResult<()> {
        let Unsynced { copied, written } = std::mem::take(&mut *self.unsynced.lock());
        if written {
            // Takes dirty pages of the mapping, too.
            return self.file.sync_data();
        }
        copied.map_or(Ok(()), |copied| self.mapping.fence(LANE, &[copied]))
    }

    fn start_writeback(&self, offset: u64, len: u64) -> StorageResult<()> {
        if self.by_msync { self.file.start_writeback(offset, len) } else { Ok(()) }
    }

    fn len(&self) -> StorageResult<u64> {
        self.file.len()
    }

    fn set_len(&self, len: u64) -> StorageResult<()> {
        if len < self.mapping.len() {
            // A later store behind the new end would kill the process.
            let error = std::io::ErrorKind::ResourceBusy.into();
            return Err(StorageError::new("truncate mapped", self.path(), error).at(len));
        }
        self.file.set_len(len)
    }

    fn allocate(&self, offset: u64, len: u64) -> StorageResult<()> {
        self.file.allocate(offset, len)
    }

    fn style(&self) -> IoStyle {
        self.file.style()
    }

    fn path(&self) -> &Path {
        self.file.path()
    }
}

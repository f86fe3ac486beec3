//! Files of the simulation that are mapped: what is stored there is lost line by line, not write by write.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, ThreadId};

use parking_lot::Mutex;

use super::world::{FileOperation, World, apply, count_down, input_output_error, store};
use super::{CrashOptions, SimRandom, SimStorage};
use crate::device::{StorageError, StorageResult};
use crate::pmem::{LINE_BYTES, WORD_BYTES};

/// What `msync` takes to the medium as a whole.
pub(crate) const PAGE_BYTES: u64 = 4096;

/// Bytes stored to a mapping.
#[derive(Debug, Clone)]
pub(super) struct Copied {
    pub(super) offset: u64,
    pub(super) data: Vec<u8>,
    /// A store fence is for the stores of its own thread.
    thread: ThreadId,
}

impl Copied {
    fn stretch(&self) -> Range<u64> {
        self.offset..self.offset + self.data.len() as u64
    }

    fn bytes(&self, stretch: &Range<u64>) -> &[u8] {
        &self.data[(stretch.start - self.offset) as usize..(stretch.end - self.offset) as usize]
    }

    /// What of it a power failure leaves: each line, in part where it is torn, or not.
    pub(super) fn crash(
        &self,
        content: &mut Vec<u8>,
        random: &mut SimRandom,
        options: CrashOptions,
    ) {
        crash_lines(self.stretch(), random, options, |word| {
            store(content, word.start as usize, self.bytes(&word));
        });
    }

    /// Takes the pages of `ranges` out of it; answers those, and the rest.
    fn split_by_pages(&self, ranges: &[Range<u64>]) -> (Vec<Self>, Vec<Self>) {
        let is_synced = |page: &Range<u64>| {
            let touches = |range: &Range<u64>| {
                (range.start / PAGE_BYTES..range.end.div_ceil(PAGE_BYTES))
                    .contains(&(page.start / PAGE_BYTES))
            };
            ranges.iter().any(touches)
        };
        let part = |page: Range<u64>| Self {
            offset: page.start,
            data: self.bytes(&page).to_vec(),
            thread: self.thread,
        };
        let (synced, rest): (Vec<_>, Vec<_>) =
            split(self.stretch(), PAGE_BYTES).partition(is_synced);
        (synced.into_iter().map(part).collect(), rest.into_iter().map(part).collect())
    }
}

/// Calls `keep` with each word of a stretch of stores that a power failure leaves: those of whole lines, some of torn
/// ones.
pub(crate) fn crash_lines(
    stretch: Range<u64>,
    random: &mut SimRandom,
    options: CrashOptions,
    mut keep: impl FnMut(Range<u64>),
) {
    for line in split(stretch, LINE_BYTES) {
        if !random.percent(options.keep_percent) {
            continue;
        }
        let torn = random.percent(options.tear_percent);
        for word in split(line, WORD_BYTES) {
            if !torn || random.percent(50) {
                keep(word);
            }
        }
    }
}

/// Cuts a stretch at the multiples of `unit`.
pub(crate) fn split(stretch: Range<u64>, unit: u64) -> impl Iterator<Item = Range<u64>> {
    let mut at = stretch.start;
    std::iter::from_fn(move || {
        let end = stretch.end.min((at / unit + 1) * unit);
        let piece = at..end;
        at = end;
        (piece.start < piece.end).then_some(piece)
    })
}

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

    /// Stores `data`, which must lie inside.
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

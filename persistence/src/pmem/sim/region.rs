//! A file of the simulation.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::{Power, SimMode};
use crate::device::sim::{CrashOptions, SimRandom, crash_lines};
use crate::device::{PAGE_BYTES, StorageError, StorageResult, WORD_BYTES, split};
use crate::pmem::medium::{Lane, MEDIA_LINE_BYTES, Readable, Region, Writable};

/// A copy that is not durable.
#[derive(Debug, Clone)]
struct Copied {
    offset: u64,
    bytes: Vec<u8>,
    lane: Lane,
    /// Out of the processor's caches; only its fence is missing.
    flushed: bool,
}

#[derive(Debug)]
struct Media {
    durable: Vec<u8>,
    /// In the order in which they were made.
    pending: Vec<Copied>,
    bad_lines: BTreeSet<u64>,
}

/// Memory as programs see it.
#[derive(Debug)]
struct Image(Box<[UnsafeCell<u64>]>);

// SAFETY: plain memory; who reads and writes what is agreed on by the users of `Region`.
unsafe impl Send for Image {}
// SAFETY: as above.
unsafe impl Sync for Image {}

impl Image {
    fn new(bytes: &[u8]) -> Self {
        let words = bytes.chunks(WORD_BYTES as usize).map(|chunk| {
            let mut word = [0; WORD_BYTES as usize];
            word[..chunk.len()].copy_from_slice(chunk);
            UnsafeCell::new(u64::from_ne_bytes(word))
        });
        Self(words.collect())
    }

    /// Address of `len` bytes at `offset`.
    fn at(&self, offset: u64, len: usize) -> *mut u8 {
        let bytes = self.0.len() * WORD_BYTES as usize;
        let end = (offset as usize).checked_add(len);
        assert!(end.is_some_and(|end| end <= bytes), "{len} bytes at {offset} of {bytes}");
        self.0.as_ptr().cast::<u8>().wrapping_add(offset as usize).cast_mut()
    }

    fn store(&self, offset: u64, bytes: &[u8]) {
        let to = self.at(offset, bytes.len());
        // SAFETY: `at` has checked the range, the cells allow writing, and the range is the writer's alone.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    }
}

/// A file of the simulation.
#[derive(Debug)]
pub(super) struct SimRegion {
    path: PathBuf,
    len: u64,
    image: Image,
    media: Mutex<Media>,
    mode: SimMode,
    power: Arc<Power>,
}

impl SimRegion {
    pub(super) fn new(
        path: &Path,
        durable: Vec<u8>,
        bad_lines: BTreeSet<u64>,
        mode: SimMode,
        power: Arc<Power>,
    ) -> Self {
        let (len, image) = (durable.len() as u64, Image::new(&durable));
        let media = Mutex::new(Media { durable, pending: Vec::new(), bad_lines });
        Self { path: path.to_path_buf(), len, image, media, mode, power }
    }

    /// What is left after a power failure, with the lines that cannot be read.
    pub(super) fn crash(
        &self,
        random: &mut SimRandom,
        options: CrashOptions,
    ) -> (Vec<u8>, BTreeSet<u64>) {
        let media = self.media.lock();
        let mut content = media.durable.clone();
        for copied in &media.pending {
            crash_lines(copied.offset..copied.end(), random, options, |word| {
                copied.apply(&mut content, word);
            });
        }
        (content, media.bad_lines.clone())
    }

    pub(super) fn durable(&self) -> Vec<u8> {
        self.media.lock().durable.clone()
    }

    pub(super) fn break_line(&self, offset: u64) {
        self.media.lock().bad_lines.insert(offset / MEDIA_LINE_BYTES);
    }

    pub(super) fn flip_bit(&self, bit: u64) {
        let at = bit / 8 % self.len;
        let durable = &mut self.media.lock().durable[at as usize];
        *durable ^= 1 << (bit % 8);
        self.image.store(at, &[*durable]);
    }

    fn write(&self, lane: Lane, offset: u64, bytes: &[u8]) {
        self.image.store(offset, bytes);
        if self.power.is_on() {
            let flushed = self.mode == SimMode::Pmem;
            let copied = Copied { offset, bytes: bytes.to_vec(), lane, flushed };
            self.media.lock().pending.push(copied);
        }
    }

    fn error(&self, operation: &'static str, offset: u64) -> StorageError {
        let error = io::Error::from_raw_os_error(libc::EIO);
        StorageError::new(operation, &self.path, error).at(offset)
    }
}

impl Copied {
    fn end(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }

    /// Puts a stretch of it into `content`.
    fn apply(&self, content: &mut [u8], stretch: Range<u64>) {
        let from = (stretch.start - self.offset) as usize;
        let to = (stretch.end - self.offset) as usize;
        content[stretch.start as usize..stretch.end as usize]
            .copy_from_slice(&self.bytes[from..to]);
    }
}

impl Readable for SimRegion {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> StorageResult<()> {
        let end = offset + buf.len() as u64;
        if end > self.len {
            let error = io::ErrorKind::UnexpectedEof.into();
            return Err(StorageError::new("read", &self.path, error).at(offset));
        }
        let lines = offset / MEDIA_LINE_BYTES..end.div_ceil(MEDIA_LINE_BYTES);
        if let Some(line) = self.media.lock().bad_lines.range(lines).next() {
            return Err(self.error("read", line * MEDIA_LINE_BYTES));
        }
        let from = self.image.at(offset, buf.len());
        // SAFETY: `at` has checked the range; whoever reads a file sees to it that nobody writes there.
        unsafe { std::ptr::copy_nonoverlapping(from, buf.as_mut_ptr(), buf.len()) };
        Ok(())
    }
}

impl Writable for SimRegion {
    fn copy(&self, lane: Lane, offset: u64, src: &[u8]) {
        self.write(lane, offset, src);
    }

    fn fence(&self, lane: Lane, dirty: &[Range<u64>]) -> StorageResult<()> {
        if !self.power.is_on() {
            return Err(self.error("msync", 0));
        }
        let fails = self.power.fence_fails();
        let mut media = self.media.lock();
        let Media { durable, pending, .. } = &mut *media;
        pending.retain(|copied| match self.mode {
            SimMode::Pmem if copied.lane == lane && copied.flushed => {
                if !fails {
                    copied.apply(durable, copied.offset..copied.end());
                }
                false
            }
            SimMode::Pmem => true,
            SimMode::Msync => {
                let mut pages = split(copied.offset..copied.end(), PAGE_BYTES);
                let synced = |page: &Range<u64>| {
                    let of = |range: &Range<u64>| {
                        range.start / PAGE_BYTES..range.end.div_ceil(PAGE_BYTES)
                    };
                    dirty.iter().any(|range| of(range).contains(&(page.start / PAGE_BYTES)))
                };
                // A copy that is synced in part stays pending as a whole: it is applied again, to
                // the same end, or lost where nobody was told that it is durable.
                let (mut all, mut any) = (true, false);
                for page in pages.by_ref() {
                    if synced(&page) {
                        any = true;
                        if !fails {
                            copied.apply(durable, page);
                        }
                    } else {
                        all = false;
                    }
                }
                !(any && all)
            }
        });
        if fails { Err(self.error("msync", 0)) } else { Ok(()) }
    }

    fn prefault(&self) -> StorageResult<()> {
        Ok(())
    }
}

impl Region for SimRegion {
    fn rewrite_zeros(&self, offset: u64, len: u64) -> StorageResult<()> {
        if !self.power.is_on() {
            return Err(self.error("write", offset));
        }
        let mut media = self.media.lock();
        media.durable[offset as usize..(offset + len) as usize].fill(0);
        let lines = offset.div_ceil(MEDIA_LINE_BYTES)..(offset + len) / MEDIA_LINE_BYTES;
        media.bad_lines.retain(|line| !lines.contains(line));
        self.image.store(offset, &vec![0; len as usize]);
        Ok(())
    }

    fn address(&self, offset: u64, len: usize) -> *const u8 {
        self.image.at(offset, len)
    }

    fn zero(&self, lane: Lane, offset: u64, len: u64) {
        self.write(lane, offset, &vec![0; len as usize]);
    }
}

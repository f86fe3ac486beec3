//! Walking a table, forward and back.

use super::aligned::{AlignedBuf, align_down};
use super::block::{BackStack, Block, EntryHead, Layout, entry_at, extend_key, seek};
use super::format::{FRAME_RAW, decompress, open_frame};
use super::reader::Table;
use super::work_memory::Counted;
use crate::error::TableResult;
use crate::key::{Meta, Seq};
use crate::source::{BackSource, Source};
use sexton_persistence::device::UNBUFFERED_ALIGNMENT;
use std::ops::Range;
use std::sync::Arc;

/// How an iterator reads its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadMode {
    /// User scans. The first blocks after a seek go through the block cache; a walk that goes on
    /// reads ahead in growing pieces, through the page cache, and leaves the block cache as it is.
    Cached,
    /// In large pieces beside the block cache and past the page cache: compactions.
    Sequential,
}

/// Blocks walked one after the other from which a scan counts as a long one.
const LONG_SCAN_BLOCKS: u32 = 4;

/// First piece that a long scan reads ahead; each one is twice the one before.
const SCAN_AHEAD_BYTES_MIN: usize = 32 << 10;

/// Largest piece that a long scan reads ahead.
const SCAN_AHEAD_BYTES_MAX: usize = 256 << 10;

/// Entry number of a walk that did not enter its block from the front.
const UNCOUNTED: u32 = u32::MAX;

/// Where the bytes of the current block are.
#[derive(Debug)]
enum Current {
    Shared(Arc<Block>),
    /// A part of the read-ahead buffer.
    Ahead(Range<usize>),
    /// The buffer for decompressed blocks.
    Unpacked,
    /// Given up while its one entry waits: key and head are known, the value is read again when it is wanted.
    GivenUp,
    None,
}

impl Current {
    /// The bytes, beside which the iterator's key may change.
    #[inline]
    fn data<'a>(&'a self, ahead: &'a AlignedBuf, unpacked: &'a [u8]) -> &'a [u8] {
        match self {
            Self::Shared(block) => block.data(),
            Self::Ahead(range) => &ahead.bytes()[range.clone()],
            Self::Unpacked => unpacked,
            Self::GivenUp | Self::None => &[],
        }
    }
}

/// Which way a walk comes to a block, and so which blocks are read with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Forward,
    Back,
}

/// An iterator over the versions of a table, in the tree's order or against it.
#[derive(Debug)]
pub struct TableIter {
    table: Arc<Table>,
    mode: ReadMode,
    current: Current,
    layout: Layout,
    /// Number of the current block.
    block: usize,
    /// Blocks walked one after the other since the last seek.
    walked_blocks: u32,
    /// Size of the next piece that a long scan reads.
    scan_ahead_bytes: usize,
    /// Its bound; 0 for block by block.
    scan_ahead_bytes_max: usize,
    /// Bound of what a compaction reads at a time.
    transfer_bytes_max: usize,
    /// A larger block is given up until its value is asked for.
    held_block_bytes_max: usize,
    head: EntryHead,
    valid: bool,
    /// Number of the entry in its block, as far as the walk has counted from the block's front.
    nth: u32,
    key: Vec<u8>,
    /// The last key of the block before.
    last_key: Vec<u8>,
    /// Entries right before the current one, when the walk goes back.
    back: BackStack,
    /// A frame read in cached mode.
    frame: Vec<u8>,
    /// Frames of consecutive blocks, from file offset `ahead_at` on.
    ahead: AlignedBuf,
    ahead_at: u64,
    /// End of what the medium was asked for ahead of a long scan.
    asked_to: u64,
    unpacked: Vec<u8>,
    counted: Counted,
}

impl TableIter {
    pub(super) fn new(table: Arc<Table>, mode: ReadMode) -> Self {
        Self {
            table,
            mode,
            current: Current::None,
            layout: Layout::default(),
            block: 0,
            walked_blocks: 0,
            scan_ahead_bytes: SCAN_AHEAD_BYTES_MIN,
            scan_ahead_bytes_max: SCAN_AHEAD_BYTES_MAX,
            transfer_bytes_max: usize::MAX,
            held_block_bytes_max: usize::MAX,
            head: EntryHead::default(),
            valid: false,
            nth: UNCOUNTED,
            key: Vec::new(),
            last_key: Vec::new(),
            back: BackStack::default(),
            frame: Vec::new(),
            ahead: AlignedBuf::default(),
            ahead_at: 0,
            asked_to: 0,
            unpacked: Vec::new(),
            counted: Counted::default(),
        }
    }

    /// Limits the read-ahead of a long scan or a compaction to `bytes_max` bytes; with 0 a scan reads block by block.
    pub(crate) fn set_read_ahead(&mut self, bytes_max: usize) {
        self.transfer_bytes_max = bytes_max;
        self.scan_ahead_bytes_max = bytes_max;
    }

    /// A block of more bytes, before or after compression, is held only from [`Source::load_value`] to the next
    /// step. For walks forward.
    pub(crate) fn set_held_block(&mut self, bytes_max: usize) {
        self.held_block_bytes_max = bytes_max;
    }

    /// Drops the current block if it is a large one. Such a block has one entry, whose key is a copy: nothing but
    /// the value is lost. Many inputs of a merge can thus be at large values with only one of them in memory.
    fn give_up_large_block(&mut self) {
        let is_last = self.valid && self.head.end == self.layout.entries_end();
        if is_last && self.data().len() > self.held_block_bytes_max {
            self.current = Current::GivenUp;
            self.give_up_buffers();
        }
    }

    /// Gives back buffers that have grown for a large block.
    fn give_up_buffers(&mut self) {
        self.ahead.give_up_above(self.held_block_bytes_max);
        if self.unpacked.capacity() > self.held_block_bytes_max {
            self.unpacked = Vec::new();
            self.counted.set(0);
        }
    }

    /// Bytes of the buffers.
    #[cfg(test)]
    pub(super) fn held_bytes(&self) -> usize {
        self.ahead.held_bytes() + self.unpacked.capacity()
    }

    /// Goes on with another table, keeping the buffers.
    pub(crate) fn reset(&mut self, table: Arc<Table>) {
        self.table = table;
        self.valid = false;
        self.current = Current::None;
        self.ahead.resize(0);
        self.asked_to = 0;
    }

    /// Goes to the first version, as the continuation of a walk through the table before.
    pub(crate) fn enter_front(&mut self) -> TableResult<()> {
        self.enter_block(0, Way::Forward)
    }

    /// Goes to the last version, as the continuation of a walk back through the table behind.
    pub(crate) fn enter_back(&mut self) -> TableResult<()> {
        let last = self.table.index().len() - 1;
        self.enter_block(last, Way::Back)
    }

    /// The table walked.
    #[must_use]
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    #[inline]
    fn data(&self) -> &[u8] {
        self.current.data(&self.ahead, &self.unpacked)
    }

    fn load(&mut self, i: usize, way: Way) -> TableResult<()> {
        self.current = Current::None;
        self.give_up_buffers();
        self.back.clear();
        self.block = i;
        if self.mode == ReadMode::Sequential {
            let bytes = self.table.file().style().transfer_bytes.min(self.transfer_bytes_max);
            return self.load_ahead(i, way, bytes);
        }
        let block = if self.walked_blocks < LONG_SCAN_BLOCKS || self.scan_ahead_bytes_max == 0 {
            Some(self.table.block(i, &mut self.frame)?)
        } else {
            self.table.cached_block(i)
        };
        match block {
            Some(block) => {
                self.layout = block.layout();
                self.current = Current::Shared(block);
                Ok(())
            }
            None => {
                let bytes = self.scan_ahead_bytes.min(self.scan_ahead_bytes_max);
                self.load_ahead(i, way, bytes)
            }
        }
    }

    fn load_ahead(&mut self, i: usize, way: Way, bytes: usize) -> TableResult<()> {
        let table = &self.table;
        let (offset, len) = table.index().frame(i).ok_or_else(|| table.malformed(i))?;
        let held = self.ahead_at..self.ahead_at + self.ahead.len() as u64;
        if !held.contains(&offset) || offset + len as u64 > held.end {
            self.read_ahead(i, way, bytes)?;
        }
        let table = &self.table;
        let start = (offset - self.ahead_at) as usize;
        let path = table.file().path();
        let (payload, frame_type) =
            open_frame(&self.ahead.bytes()[start..start + len], path, offset)?;
        match frame_type {
            FRAME_RAW => self.current = Current::Ahead(start..start + payload.len()),
            packed => {
                decompress(packed, payload, &mut self.unpacked, path, offset)?;
                self.counted.set(self.unpacked.capacity());
                self.current = Current::Unpacked;
            }
        }
        self.layout = Layout::parse(self.data()).map_err(|_| self.table.malformed(i))?;
        Ok(())
    }

    /// Fills the read-ahead buffer with block `i` and those that the walk comes to next: as many whole
    /// frames as fit into `bytes`, at least the one asked for.
    fn read_ahead(&mut self, i: usize, way: Way, bytes: usize) -> TableResult<()> {
        let table = &self.table;
        let (offset, len) = table.index().frame(i).ok_or_else(|| table.malformed(i))?;
        let (mut from, mut to) = (offset, offset + len as u64);
        let mut more = i;
        loop {
            let neighbour = match way {
                Way::Forward => more.checked_add(1),
                Way::Back => more.checked_sub(1),
            };
            let Some(frame) = neighbour.and_then(|n| table.index().frame(n)) else { break };
            let (next_from, next_to) = (from.min(frame.0), to.max(frame.0 + frame.1 as u64));
            if next_to - next_from > bytes as u64 {
                break;
            }
            (from, to) = (next_from, next_to);
            more = neighbour.unwrap_or(more);
        }
        if self.mode == ReadMode::Sequential {
            // Whole pages around the frames, as far as the file goes: past the page cache.
            from = align_down(from);
            to = to.next_multiple_of(UNBUFFERED_ALIGNMENT as u64).min(table.file_bytes());
        } else if self.scan_ahead_bytes < self.scan_ahead_bytes_max {
            self.scan_ahead_bytes = (2 * self.scan_ahead_bytes).min(self.scan_ahead_bytes_max);
        } else if way == Way::Forward && self.scan_ahead_bytes_max >= SCAN_AHEAD_BYTES_MAX {
            // A scan of this length, which nobody bounds, goes on, most likely: the medium may read while
            // this piece is used.
            let end = table.file_bytes().min(to + table.file().style().ahead_bytes);
            let asked = self.asked_to.clamp(to, end.max(to));
            if end - asked >= SCAN_AHEAD_BYTES_MAX as u64 {
                table.file().prefetch(asked, end - asked)?;
                self.asked_to = end;
            }
        }
        self.ahead.resize((to - from) as usize);
        self.ahead_at = from;
        if let Err(error) = table.file().read_exact_at(self.ahead.bytes_mut(), from) {
            self.ahead.resize(0);
            return Err(error.into());
        }
        Ok(())
    }

    /// Steps to the entry that starts at `at` of the current block, or to a later block.
    #[inline]
    fn advance(&mut self, at: usize) -> TableResult<()> {
        let data = self.current.data(&self.ahead, &self.unpacked);
        match entry_at(data, self.layout, at) {
            Ok(Some(head)) if extend_key(data, &head, &mut self.key).is_ok() => {
                self.head = head;
                Ok(())
            }
            Ok(None) => self.enter_block(self.block + 1, Way::Forward),
            _ => self.spoiled(),
        }
    }

    /// Steps to the first entry of another key in the blocks behind the current one.
    #[cold]
    fn next_key_behind(&mut self) -> TableResult<()> {
        let mut last = std::mem::take(&mut self.last_key);
        last.clone_from(&self.key);
        let mut step = self.enter_block(self.block + 1, Way::Forward);
        while step.is_ok() && self.valid && self.key == last {
            self.nth = self.nth.saturating_add(1);
            step = self.advance(self.head.end);
        }
        self.last_key = last;
        step
    }

    /// Steps to the entry that ends at `end` of the current block, or to a block before.
    #[inline]
    fn retreat(&mut self, end: usize) -> TableResult<()> {
        self.nth = UNCOUNTED;
        let mut key = std::mem::take(&mut self.key);
        let mut popped = self.back.pop(&mut key);
        if popped.is_none() && end > 0 {
            let mut back = std::mem::take(&mut self.back);
            let filled = back.fill(self.data(), self.layout, end);
            self.back = back;
            if filled.is_ok() {
                popped = self.back.pop(&mut key);
            }
        }
        self.key = key;
        match popped {
            Some(head) => {
                self.head = head;
                Ok(())
            }
            None if end == 0 => match self.block.checked_sub(1) {
                Some(before) => self.enter_block(before, Way::Back),
                None => {
                    self.valid = false;
                    Ok(())
                }
            },
            None => self.spoiled(),
        }
    }

    #[cold]
    fn spoiled(&mut self) -> TableResult<()> {
        self.valid = false;
        Err(self.table.malformed(self.block))
    }

    /// Walks on into block `i`, if there is one, from its front or its back.
    #[cold]
    fn enter_block(&mut self, i: usize, way: Way) -> TableResult<()> {
        self.valid = false;
        if i >= self.table.index().len() {
            self.current = Current::None;
            self.give_up_buffers();
            return Ok(());
        }
        self.walked_blocks = self.walked_blocks.saturating_add(1);
        self.load(i, way)?;
        self.valid = true;
        self.key.clear();
        match way {
            Way::Forward => {
                self.nth = 0;
                self.advance(0)?;
                self.give_up_large_block();
                Ok(())
            }
            Way::Back => self.retreat(self.layout.entries_end()),
        }
    }

    /// Starts a new walk with the block that `key` belongs into; false when it is behind all.
    fn start(&mut self, key: &[u8], way: Way) -> TableResult<bool> {
        self.valid = false;
        self.nth = UNCOUNTED;
        self.walked_blocks = 0;
        self.scan_ahead_bytes = SCAN_AHEAD_BYTES_MIN;
        let i = self.table.index().find(key);
        if i >= self.table.index().len() {
            self.current = Current::None;
            return Ok(false);
        }
        self.load(i, way)?;
        Ok(true)
    }

    /// The first entry of the current block at or above `key`.
    fn seek_in_block(&mut self, key: &[u8]) -> TableResult<Option<EntryHead>> {
        let mut found = std::mem::take(&mut self.key);
        let step = seek(self.data(), self.layout, key, Seq::MAX, &mut found);
        self.key = found;
        step.map_err(|_| self.table.malformed(self.block))
    }
}

impl Source for TableIter {
    #[inline]
    fn valid(&self) -> bool {
        self.valid
    }

    #[inline]
    fn key(&self) -> &[u8] {
        &self.key
    }

    #[inline]
    fn seq(&self) -> Seq {
        self.head.seq
    }

    #[inline]
    fn meta(&self) -> Meta {
        self.head.meta
    }

    #[inline]
    fn value(&self) -> &[u8] {
        debug_assert!(!matches!(self.current, Current::GivenUp), "the value was not loaded");
        self.data().get(self.head.value..self.head.end).unwrap_or_default()
    }

    #[inline]
    fn load_value(&mut self) -> TableResult<()> {
        match self.current {
            Current::GivenUp => self.load(self.block, Way::Forward),
            _ => Ok(()),
        }
    }

    #[inline]
    fn next(&mut self) -> TableResult<()> {
        if !self.valid {
            return Ok(());
        }
        self.back.clear();
        self.nth = self.nth.saturating_add(1);
        self.advance(self.head.end)
    }

    #[inline]
    fn next_key(&mut self) -> TableResult<()> {
        if !self.valid {
            return Ok(());
        }
        self.back.clear();
        let data = self.current.data(&self.ahead, &self.unpacked);
        let mut at = self.head.end;
        loop {
            match entry_at(data, self.layout, at) {
                Ok(Some(head)) if head.repeats(data, &self.key) => {
                    self.nth = self.nth.saturating_add(1);
                    at = head.end;
                }
                Ok(Some(head)) if extend_key(data, &head, &mut self.key).is_ok() => {
                    self.nth = self.nth.saturating_add(1);
                    self.head = head;
                    return Ok(());
                }
                Ok(None) => return self.next_key_behind(),
                _ => return self.spoiled(),
            }
        }
    }

    #[inline]
    fn is_marked_dead(&self, s: Seq) -> bool {
        self.table.dead_marks().is_dead(self.block, self.nth, s)
    }

    fn mark_dead(&self, s: Seq) {
        self.table.dead_marks().mark(self.block, self.nth, s);
    }

    fn seek(&mut self, key: &[u8]) -> TableResult<()> {
        if !self.start(key, Way::Forward)? {
            return Ok(());
        }
        match self.seek_in_block(key)? {
            Some(head) => {
                self.head = head;
                self.valid = true;
                self.give_up_large_block();
                Ok(())
            }
            None => self.enter_block(self.block + 1, Way::Forward),
        }
    }
}

impl BackSource for TableIter {
    #[inline]
    fn prev(&mut self) -> TableResult<()> {
        if !self.valid {
            return Ok(());
        }
        self.retreat(self.head.at)
    }

    fn seek_back(&mut self, key: Option<&[u8]>) -> TableResult<()> {
        let end = match key {
            Some(key) if self.start(key, Way::Back)? => {
                let head = self.seek_in_block(key)?;
                head.map_or(self.layout.entries_end(), |head| head.at)
            }
            _ => {
                self.walked_blocks = 0;
                self.scan_ahead_bytes = SCAN_AHEAD_BYTES_MIN;
                return self.enter_back();
            }
        };
        self.valid = true;
        self.retreat(end)
    }
}

//! Walking a table forward.

use super::aligned::{AlignedBuf, align_down};
use super::block::{Block, EntryHead, Layout, entry_at, extend_key, seek};
use super::error::TableResult;
use super::format::{FRAME_LZ4, FRAME_RAW, corrupt, decompress, open_frame};
use super::reader::Table;
use crate::key::{Meta, Seq};
use crate::tree::Source;
use sexton_persistence::device::UNBUFFERED_ALIGNMENT;
use std::ops::Range;
use std::sync::Arc;

/// How an iterator reads its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadMode {
    /// Through the block cache, a block at a time: user scans.
    Cached,
    /// In large pieces beside the cache: compactions.
    Sequential,
}

/// Bytes read at once in sequential mode.
const READ_AHEAD_BYTES: usize = 512 << 10;

/// Where the bytes of the current block are.
#[derive(Debug)]
enum Current {
    Shared(Arc<Block>),
    /// A part of the read-ahead buffer.
    Ahead(Range<usize>),
    /// The buffer for decompressed blocks.
    Unpacked,
    None,
}

/// A forward iterator over the versions of a table, in the tree's order.
#[derive(Debug)]
pub struct TableIter {
    table: Arc<Table>,
    mode: ReadMode,
    current: Current,
    layout: Layout,
    /// Number of the block after the current one.
    next_block: usize,
    head: EntryHead,
    valid: bool,
    key: Vec<u8>,
    /// A frame read in cached mode.
    frame: Vec<u8>,
    /// Frames of consecutive blocks, from file offset `ahead_at` on.
    ahead: AlignedBuf,
    ahead_at: u64,
    unpacked: Vec<u8>,
}

impl TableIter {
    pub(super) fn new(table: Arc<Table>, mode: ReadMode) -> Self {
        Self {
            table,
            mode,
            current: Current::None,
            layout: Layout::default(),
            next_block: 0,
            head: EntryHead::default(),
            valid: false,
            key: Vec::new(),
            frame: Vec::new(),
            ahead: AlignedBuf::default(),
            ahead_at: 0,
            unpacked: Vec::new(),
        }
    }

    /// Goes on with another table, keeping the buffers.
    pub(crate) fn reset(&mut self, table: Arc<Table>) {
        self.table = table;
        self.valid = false;
        self.current = Current::None;
        self.ahead.resize(0);
    }

    /// The table walked.
    #[must_use]
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    #[inline]
    fn data(&self) -> &[u8] {
        match &self.current {
            Current::Shared(block) => block.data(),
            Current::Ahead(range) => &self.ahead.bytes()[range.clone()],
            Current::Unpacked => &self.unpacked,
            Current::None => &[],
        }
    }

    fn load(&mut self, i: usize) -> TableResult<()> {
        self.current = Current::None;
        self.next_block = i + 1;
        if self.mode == ReadMode::Cached {
            let block = self.table.block(i, &mut self.frame)?;
            self.layout = block.layout();
            self.current = Current::Shared(block);
            return Ok(());
        }
        let table = &self.table;
        let (offset, len) = table.index().frame(i).ok_or_else(|| table.malformed(i))?;
        let held = self.ahead_at..self.ahead_at + self.ahead.len() as u64;
        if !held.contains(&offset) || offset + len as u64 > held.end {
            // As many whole frames as fit, at least the one asked for.
            let mut end = offset + len as u64;
            let mut next = i + 1;
            while let Some((next_at, next_len)) = table.index().frame(next)
                && next_at + next_len as u64 - offset <= READ_AHEAD_BYTES as u64
            {
                end = next_at + next_len as u64;
                next += 1;
            }
            // Whole pages around the frames, as far as the file goes.
            let from = align_down(offset);
            let to = end.next_multiple_of(UNBUFFERED_ALIGNMENT as u64).min(table.file_bytes());
            self.ahead.resize((to - from) as usize);
            self.ahead_at = from;
            if let Err(error) = table.file().read_exact_at(self.ahead.bytes_mut(), from) {
                self.ahead.resize(0);
                return Err(error.into());
            }
        }
        let start = (offset - self.ahead_at) as usize;
        let path = table.file().path();
        let (payload, frame_type) =
            open_frame(&self.ahead.bytes()[start..start + len], path, offset)?;
        match frame_type {
            FRAME_RAW => self.current = Current::Ahead(start..start + payload.len()),
            FRAME_LZ4 => {
                decompress(payload, &mut self.unpacked, path, offset)?;
                self.current = Current::Unpacked;
            }
            other => return Err(corrupt(path, offset, "frame type", 1, other.into())),
        }
        self.layout = Layout::parse(self.data()).map_err(|_| self.table.malformed(i))?;
        Ok(())
    }

    /// Steps to the entry that starts at `at` of the current block, or to a later block.
    #[inline]
    fn advance(&mut self, at: usize) -> TableResult<()> {
        // `data()` borrows all of self; the key buffer is taken out for the call.
        let mut key = std::mem::take(&mut self.key);
        let step = entry_at(self.data(), self.layout, at).and_then(|head| {
            if let Some(head) = &head {
                extend_key(self.data(), head, &mut key)?;
            }
            Ok(head)
        });
        self.key = key;
        match step {
            Ok(Some(head)) => {
                self.head = head;
                Ok(())
            }
            Ok(None) => self.first_of_next_block(),
            Err(_) => {
                self.valid = false;
                Err(self.table.malformed(self.next_block.saturating_sub(1)))
            }
        }
    }

    #[cold]
    fn first_of_next_block(&mut self) -> TableResult<()> {
        self.valid = false;
        if self.next_block >= self.table.index().len() {
            self.current = Current::None;
            return Ok(());
        }
        self.load(self.next_block)?;
        self.valid = true;
        self.key.clear();
        self.advance(0)
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
        self.data().get(self.head.value..self.head.end).unwrap_or_default()
    }

    #[inline]
    fn next(&mut self) -> TableResult<()> {
        if !self.valid {
            return Ok(());
        }
        self.advance(self.head.end)
    }

    fn seek(&mut self, key: &[u8]) -> TableResult<()> {
        self.valid = false;
        let i = self.table.index().find(key);
        if i >= self.table.index().len() {
            self.current = Current::None;
            return Ok(());
        }
        self.load(i)?;
        let mut found = std::mem::take(&mut self.key);
        let step = seek(self.data(), self.layout, key, Seq::MAX, &mut found);
        self.key = found;
        match step {
            Ok(Some(head)) => {
                self.head = head;
                self.valid = true;
                Ok(())
            }
            Ok(None) => self.first_of_next_block(),
            Err(_) => Err(self.table.malformed(i)),
        }
    }
}

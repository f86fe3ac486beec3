//! A chunk: slots in a row with a header, filled front to back by one writer (`FORMAT.md`, "Pool file").

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::medium::{MEDIA_LINE_BYTES, Region};
use super::record::{self, Header, List};
use super::slots::Row;
use crate::checksum::crc32c;
use crate::device::LINE_BYTES;

/// Bytes before the first record: one media line.
pub(super) const CHUNK_HEADER_BYTES: u64 = MEDIA_LINE_BYTES;

const MAGIC: &[u8; 8] = b"SXWBCHK1";
/// Bytes of the header that the checksum covers; the checksum follows them.
const CRC_AT: usize = 48;

/// Contents of a chunk's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChunkHeader {
    pub(super) pool_id: u64,
    pub(super) use_number: u64,
    pub(super) arena: u64,
    /// Every record has a higher sequence.
    pub(super) base: u64,
    pub(super) slots: u32,
    pub(super) writer: u16,
    pub(super) list: List,
}

impl ChunkHeader {
    pub(super) fn encode(&self) -> [u8; CHUNK_HEADER_BYTES as usize] {
        let mut bytes = [0; CHUNK_HEADER_BYTES as usize];
        bytes[0..8].copy_from_slice(MAGIC);
        for (at, field) in
            [(8, self.pool_id), (16, self.use_number), (24, self.arena), (32, self.base)]
        {
            bytes[at..at + 8].copy_from_slice(&field.to_le_bytes());
        }
        bytes[40..44].copy_from_slice(&self.slots.to_le_bytes());
        bytes[44..46].copy_from_slice(&self.writer.to_le_bytes());
        bytes[46] = self.list.code();
        let crc = crc32c(&bytes[..CRC_AT]);
        bytes[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// What the checksums of its records start from.
    pub(super) fn seed(&self) -> u32 {
        record::seed(self.pool_id, self.use_number)
    }

    /// `None` when there is no valid header of this pool.
    pub(super) fn decode(bytes: &[u8], pool_id: u64) -> Option<Self> {
        let bytes = bytes.first_chunk::<{ CHUNK_HEADER_BYTES as usize }>()?;
        let u64_at =
            |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap_or_default());
        let u32_at =
            |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap_or_default());
        let header = Self {
            pool_id: u64_at(8),
            use_number: u64_at(16),
            arena: u64_at(24),
            base: u64_at(32),
            slots: u32_at(40),
            writer: u16::from_le_bytes([bytes[44], bytes[45]]),
            list: List::from_code(bytes[46])?,
        };
        // Every bit of the line is fixed or covered, so what encodes to the same is what was written.
        (header.pool_id == pool_id && header.slots > 0 && header.encode() == *bytes)
            .then_some(header)
    }
}

/// A chunk that is in use.
#[derive(Debug)]
pub(super) struct Chunk {
    row: Row,
    header: ChunkHeader,
    seed: u32,
    /// Offset in the chunk behind the last record.
    filled: AtomicU64,
}

impl Chunk {
    pub(super) fn new(row: Row, header: ChunkHeader, filled: u64) -> Self {
        Self { row, header, seed: header.seed(), filled: AtomicU64::new(filled) }
    }

    pub(super) fn region(&self) -> &Arc<dyn Region> {
        &self.row.region
    }

    pub(super) fn file(&self) -> usize {
        self.row.file
    }

    pub(super) fn offset(&self) -> u64 {
        self.row.offset
    }

    pub(super) fn len(&self) -> u64 {
        self.row.len
    }

    /// What its header line holds.
    pub(super) fn header_bytes(&self) -> [u8; CHUNK_HEADER_BYTES as usize] {
        self.header.encode()
    }

    pub(super) fn seed(&self) -> u32 {
        self.seed
    }

    pub(super) fn filled(&self) -> u64 {
        self.filled.load(Ordering::Acquire)
    }

    /// What is below `to` has its place; it is copied with its batch (M9).
    pub(super) fn set_filled(&self, to: u64) {
        self.filled.store(to, Ordering::Release);
    }
}

/// Offset in a chunk at which a batch begins whose first record is `len` bytes long (M1).
pub(super) fn batch_start(at: u64, len: u64) -> u64 {
    let line = at.next_multiple_of(LINE_BYTES);
    let touched = (line + len).div_ceil(MEDIA_LINE_BYTES) - line / MEDIA_LINE_BYTES;
    if touched > len.div_ceil(MEDIA_LINE_BYTES) {
        at.next_multiple_of(MEDIA_LINE_BYTES)
    } else {
        line
    }
}

/// Goes from record to record of a chunk.
#[derive(Debug)]
pub(super) struct Walk<'a> {
    /// The chunk, from its header on.
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Walk<'a> {
    pub(super) fn new(bytes: &'a [u8], from: u64) -> Self {
        Self { bytes, at: from as usize }
    }

    /// Offset behind the last record.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// The next record, of which `valid` has the last word; its bytes begin with it and go on to the end of the
    /// chunk. `None`, also again, when there is none.
    pub(super) fn next_if(
        &mut self,
        mut valid: impl FnMut(&Header, &'a [u8]) -> bool,
    ) -> Option<(&'a [u8], Header)> {
        let start = self.start_of_next()?;
        let rest = &self.bytes[start..];
        let header = Header::read(rest)?;
        // M1: a batch begins at a line, and only a batch leaves room before it.
        let at_line = start.is_multiple_of(LINE_BYTES as usize);
        let in_place = if header.first_of_batch { at_line } else { start == self.at };
        if !in_place || !valid(&header, rest) {
            return None;
        }
        self.at = start + header.len();
        Some((rest, header))
    }

    /// Like `next_if`, for records that were checked before or written by this process.
    pub(super) fn next_trusted(&mut self) -> Option<(&'a [u8], Header)> {
        self.next_if(|_, _| true)
    }

    /// Here, or behind zeros only at the next line or the next media line (M1). A record's first word, the
    /// sequence, is never zero.
    fn start_of_next(&self) -> Option<usize> {
        let here = self.bytes.get(self.at..)?;
        let line = self.at.next_multiple_of(LINE_BYTES as usize);
        let media_line = self.at.next_multiple_of(MEDIA_LINE_BYTES as usize);
        let is_zero = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
        for start in [self.at, line, media_line] {
            let word = self.bytes.get(start..start + 8)?;
            if !is_zero(word) {
                return is_zero(&here[..start - self.at]).then_some(start);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> ChunkHeader {
        ChunkHeader {
            pool_id: 7,
            use_number: (3 << 32) + 5,
            arena: 9,
            base: 1000,
            slots: 2,
            writer: 17,
            list: List::Graves,
        }
    }

    #[test]
    fn a_header_is_valid_only_as_it_was_written_and_in_its_own_pool() {
        let bytes = header().encode();
        assert_eq!(ChunkHeader::decode(&bytes, 7), Some(header()));
        assert_eq!(ChunkHeader::decode(&bytes, 8), None);
        assert_eq!(ChunkHeader::decode(&bytes[..255], 7), None);
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(ChunkHeader::decode(&damaged, 7), None, "bit {bit}");
        }
    }

    #[test]
    fn a_batch_begins_at_a_line_and_touches_no_media_line_more_than_it_needs() {
        for at in (256..1024).step_by(8) {
            for len in (32..1200).step_by(8) {
                let start = batch_start(at, len);
                assert!(start >= at && start.is_multiple_of(LINE_BYTES));
                let touched = (start + len).div_ceil(MEDIA_LINE_BYTES) - start / MEDIA_LINE_BYTES;
                assert_eq!(touched, len.div_ceil(MEDIA_LINE_BYTES), "{len} bytes at {at}");
                let wasted = start - at.next_multiple_of(LINE_BYTES);
                assert!(wasted < MEDIA_LINE_BYTES);
                assert!(wasted == 0 || start.is_multiple_of(MEDIA_LINE_BYTES));
            }
        }
    }
}

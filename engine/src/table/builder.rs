//! Writing a table.

use super::aligned::{AlignedBuf, align_down};
use super::block::{BlockBuilder, fits, shared_prefix};
use super::filter::{self, key_hash};
use super::format::{
    FOOTER_BYTES, FRAME_LZ4, FRAME_RAW, FRAME_ZSTD, TABLE_MAGIC, TABLE_VERSION, TRAILER_BYTES,
    close_frame, crc32c,
};
use super::index::{INDEX_KEY_BYTES_MAX, IndexBuilder, separator};
use super::properties::{Properties, TableMeta};
use super::work_memory::Counted;
use crate::error::{TableError, TableResult};
use crate::key::{Meta, Seq};
use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};
use sexton_persistence::device::File;
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// How the data blocks of a table are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// LZ4, block by block, where it saves an eighth or more.
    #[default]
    Lz4,
    /// zstd, likewise: smaller, and several times slower to write. For tables that stay.
    Zstd,
}

/// Level of zstd: its own default.
const ZSTD_LEVEL: i32 = 3;

/// Chunks that the buffer of a builder keeps room for from table to table.
const KEPT_CHUNKS: usize = 8;

/// Bytes that the buffer of compressed blocks keeps from block to block.
const PACKED_KEPT_BYTES: usize = 1 << 20;

/// What a builder is told.
#[derive(Clone, Copy, Debug)]
pub struct TableOptions {
    /// Size of a data block before compression, in bytes.
    pub block_bytes: usize,
    /// Compression of data blocks.
    pub compression: Compression,
    /// Bits of the filter for each distinct key; 10 give about one percent of false positives,
    /// 0 switches filters off.
    pub filter_bits_per_key: u8,
    /// Bytes collected before a write to the device.
    pub chunk_bytes: usize,
    /// Memory that the hashes of a table's keys may take until its filter is made, in bytes: see
    /// [`TableBuilder::is_full`].
    pub hashes_bytes_max: usize,
}

impl Default for TableOptions {
    fn default() -> Self {
        Self {
            block_bytes: 4 << 10,
            compression: Compression::Lz4,
            filter_bits_per_key: 10,
            chunk_bytes: 1 << 20,
            hashes_bytes_max: usize::MAX,
        }
    }
}

/// Memory of a builder, handed from one to the next: fresh pages are dear.
#[derive(Default)]
pub struct BuilderBuffers {
    out: Vec<u8>,
    /// What is given to the file passes through here, to be aligned.
    staging: AlignedBuf,
    packed: Vec<u8>,
    lz4: CompressTable,
    /// Made when it is first needed.
    zstd: Option<zstd::bulk::Compressor<'static>>,
    hashes: Vec<u64>,
    block: BlockBuilder,
    index: IndexBuilder,
    last_key: Vec<u8>,
    room: Vec<u8>,
    counted: Counted,
}

impl fmt::Debug for BuilderBuffers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BuilderBuffers").field("out", &self.out.capacity()).finish_non_exhaustive()
    }
}

impl BuilderBuffers {
    /// Clears them for the next table, with enough of `out` kept for chunks and what follows the blocks.
    fn clear(&mut self, options: &TableOptions) {
        self.out.clear();
        self.out.shrink_to(options.chunk_bytes.saturating_mul(KEPT_CHUNKS));
        self.hashes.clear();
        self.hashes.shrink_to(options.hashes_bytes_max / size_of::<u64>());
        self.block.clear();
        self.index.clear();
        self.last_key.clear();
        self.count();
    }

    /// Says what it holds, but for what is small.
    fn count(&mut self) {
        let hashes = self.hashes.capacity() * size_of::<u64>();
        let blocks = self.out.capacity() + self.packed.capacity() + self.block.held_bytes();
        self.counted.set(blocks + hashes);
    }
}

/// The first `len` bytes of a buffer that grows when it must.
fn room_of(buffer: &mut Vec<u8>, len: usize) -> &mut [u8] {
    if buffer.len() < len {
        buffer.resize(len, 0);
    }
    &mut buffer[..len]
}

/// Writes one table, sequentially. Dropped before [`TableBuilder::finish`] it leaves a file that
/// nobody refers to; the caller removes it.
#[derive(Debug)]
pub struct TableBuilder {
    file: Arc<dyn File>,
    number: u64,
    options: TableOptions,
    buffers: BuilderBuffers,
    properties: Properties,
    last_seq: Seq,
    /// Bytes already given to the file.
    written: u64,
}

impl TableBuilder {
    /// Starts table `number` in an empty file.
    #[must_use]
    pub fn new(
        file: Arc<dyn File>,
        number: u64,
        options: TableOptions,
        mut buffers: BuilderBuffers,
    ) -> Self {
        buffers.clear(&options);
        let properties = Properties::default();
        Self { file, number, options, buffers, properties, last_seq: 0, written: 0 }
    }

    /// Number of the table.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Versions added so far.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.properties.entries
    }

    /// Bytes of data blocks so far, the open block uncompressed.
    #[must_use]
    #[inline]
    pub fn data_bytes(&self) -> u64 {
        self.written + (self.buffers.out.len() + self.buffers.block.len()) as u64
    }

    /// Whether a table that should have about `bytes` bytes of data has them, or as many keys as memory allows.
    #[must_use]
    #[inline]
    pub fn is_full(&self, bytes: u64) -> bool {
        self.data_bytes() >= bytes
            || self.buffers.hashes.len() >= self.options.hashes_bytes_max / size_of::<u64>()
    }

    /// Adds a version. Keys ascend; the versions of one key come newest first.
    ///
    /// # Errors
    /// A key, value or sequence above the limits of the format, an order that is not the tree's, or a
    /// failed write. The table is useless afterwards.
    #[inline]
    pub fn add(&mut self, key: &[u8], seq: Seq, meta: Meta, value: &[u8]) -> TableResult<()> {
        if !fits(key, seq, value) {
            let got = key.len().max(value.len()) as u64;
            let max = super::format::ENTRY_PART_BYTES_MAX as u64;
            return Err(TableError::Limit {
                what: "key, value or sequence of a version",
                max,
                got,
            });
        }
        let first = self.properties.entries == 0;
        let last = &self.buffers.last_key;
        let shared = shared_prefix(last, key);
        let order = key.get(shared).cmp(&last.get(shared));
        let new_key = first || order == Ordering::Greater;
        if !new_key && (order == Ordering::Less || seq >= self.last_seq) {
            return Err(TableError::Unordered { number: self.number, seq });
        }
        let needed = self.buffers.block.len() + (key.len() - shared) + value.len() + 12;
        if needed > self.options.block_bytes && !self.buffers.block.is_empty() {
            self.close_block(Some(key))?;
        }
        if first {
            self.properties.min_key = key.into();
        }
        let buffers = &mut self.buffers;
        buffers.block.add(key, shared, seq, meta, value);
        if new_key {
            buffers.last_key.truncate(shared);
            buffers.last_key.extend_from_slice(&key[shared..]);
            buffers.hashes.push(key_hash(key));
        }
        self.properties.add(key, seq, meta, value.len());
        self.last_seq = seq;
        Ok(())
    }

    fn close_block(&mut self, next_key: Option<&[u8]>) -> TableResult<()> {
        let BuilderBuffers { out, packed, lz4, zstd, block, index, last_key, room, .. } =
            &mut self.buffers;
        let offset = self.written + out.len() as u64;
        let key = match next_key {
            Some(next) => separator(last_key, next, room),
            None => last_key,
        };
        let got = index.key_bytes() + key.len() as u64;
        if got > INDEX_KEY_BYTES_MAX {
            let max = INDEX_KEY_BYTES_MAX;
            return Err(TableError::Limit { what: "bytes of index keys", max, got });
        }
        index.add(key, offset);
        let raw = block.finish();
        let start = out.len();
        let mut frame_type = FRAME_RAW;
        let packed_len = match self.options.compression {
            Compression::None => None,
            Compression::Lz4 => {
                frame_type = FRAME_LZ4;
                let room = room_of(packed, get_maximum_output_size(raw.len()));
                compress_into_with_table(raw, room, lz4).ok()
            }
            Compression::Zstd => {
                frame_type = FRAME_ZSTD;
                let room = room_of(packed, zstd::zstd_safe::compress_bound(raw.len()));
                if zstd.is_none() {
                    // Without memory for it the block stays raw.
                    *zstd = zstd::bulk::Compressor::new(ZSTD_LEVEL).ok();
                }
                zstd.as_mut().and_then(|zstd| zstd.compress_to_buffer(raw, room).ok())
            }
        };
        let packed_len = packed_len.filter(|n| n + 4 <= raw.len() - raw.len() / 8);
        if raw.len() > self.options.chunk_bytes {
            // Room for this one, not twice as much.
            out.reserve_exact(4 + packed_len.unwrap_or(raw.len()) + TRAILER_BYTES);
        }
        match packed_len {
            Some(n) => {
                out.extend_from_slice(&(raw.len() as u32).to_le_bytes());
                out.extend_from_slice(&packed[..n]);
            }
            None => frame_type = FRAME_RAW,
        }
        if frame_type == FRAME_RAW {
            out.extend_from_slice(raw);
        }
        close_frame(out, start, frame_type);
        block.clear();
        if packed.len() > PACKED_KEPT_BYTES {
            *packed = Vec::new();
        }
        if out.len() >= self.options.chunk_bytes {
            self.write_out()?;
        }
        self.buffers.count();
        Ok(())
    }

    /// Writes the whole aligned pages of what was collected; the rest waits for the next chunk.
    fn write_out(&mut self) -> TableResult<()> {
        let BuilderBuffers { out, staging, .. } = &mut self.buffers;
        let whole = align_down(out.len() as u64) as usize;
        for chunk in out[..whole].chunks(self.options.chunk_bytes.next_multiple_of(4096)) {
            staging.resize(chunk.len());
            staging.bytes_mut().copy_from_slice(chunk);
            self.file.write_all_at(staging.bytes(), self.written)?;
            self.written += chunk.len() as u64;
        }
        out.copy_within(whole.., 0);
        out.truncate(out.len() - whole);
        // What a large value has brought.
        out.shrink_to(self.options.chunk_bytes.saturating_mul(KEPT_CHUNKS));
        Ok(())
    }

    /// Writes what is left and, with `sync`, makes the file durable; its name is durable after a sync
    /// of the directory. `buried_through` is the claim of rule C3: min(S) as collected when the
    /// merge started.
    ///
    /// # Errors
    /// A failed write or sync, or a table without versions.
    pub fn finish(
        mut self,
        buried_through: Seq,
        sync: bool,
    ) -> TableResult<(TableMeta, BuilderBuffers)> {
        if self.properties.entries == 0 {
            return Err(TableError::Limit { what: "versions of an empty table", max: 0, got: 0 });
        }
        self.close_block(None)?;
        let data_end = self.written + self.buffers.out.len() as u64;
        self.properties.buried_through = buried_through;
        self.properties.data_bytes = data_end;
        self.properties.distinct_keys = self.buffers.hashes.len() as u64;
        self.properties.max_key = self.buffers.last_key.as_slice().into();

        let BuilderBuffers { out, hashes, index, .. } = &mut self.buffers;
        let base = self.written;
        let start = out.len();
        filter::build(hashes, self.options.filter_bits_per_key, out);
        close_frame(out, start, FRAME_RAW);
        let index_start = out.len();
        index.encode(data_end, out);
        close_frame(out, index_start, FRAME_RAW);
        let properties_start = out.len();
        self.properties.encode(out);
        close_frame(out, properties_start, FRAME_RAW);
        let footer_start = out.len();
        let at = |start: usize| base + start as u64;
        for field in
            [data_end, at(index_start), at(properties_start), at(footer_start), self.number, 0]
        {
            out.extend_from_slice(&field.to_le_bytes());
        }
        out.extend_from_slice(&TABLE_VERSION.to_le_bytes());
        let crc = crc32c(&out[footer_start..]);
        out.extend_from_slice(&crc.to_le_bytes());
        out.extend_from_slice(&TABLE_MAGIC);
        debug_assert_eq!(out.len() - footer_start, FOOTER_BYTES);
        debug_assert!(index_start - start >= TRAILER_BYTES);
        self.write_out()?;
        self.file.write_all_at(&self.buffers.out, self.written)?;
        self.written += self.buffers.out.len() as u64;
        if sync {
            self.file.sync_data()?;
        }
        let meta = TableMeta {
            number: self.number,
            file_bytes: self.written,
            properties: Arc::new(self.properties),
        };
        Ok((meta, self.buffers))
    }
}

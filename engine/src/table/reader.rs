//! An open table: footer, index and filter in memory, blocks read when asked for.

use super::block::{Block, Look, PinnedValue, entry_at, extend_key, look_up};
use super::cache::BlockCache;
use super::filter::Filter;
use super::format::{
    FOOTER_BYTES, FRAME_RAW, TABLE_MAGIC, TABLE_VERSION, corrupt, crc32c, decompress, get_u32,
    get_u64, open_frame,
};
use super::index::Index;
use super::iter::{ReadMode, TableIter};
use super::marks::DeadMarks;
use super::properties::{Properties, TableMeta};
use crate::error::{TableError, TableResult};
use crate::key::{Meta, Seq};
use parking_lot::Mutex;
use sexton_persistence::device::{File, Storage};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Location of a table: the place of this name, or the tree's own directory.
pub type Place = Option<std::sync::Arc<str>>;

/// Reusable memory of look-ups, one a thread.
#[derive(Debug, Default)]
pub struct Scratch {
    frame: Vec<u8>,
}

/// A version found by a look-up.
#[derive(Clone, Debug)]
pub struct FoundVersion {
    /// Its sequence.
    pub seq: Seq,
    /// Its flags and expiry.
    pub meta: Meta,
    /// Its value, which keeps its block.
    pub value: PinnedValue,
}

/// An immutable table. The file goes when the last reference drops after
/// [`Table::remove_when_unused`].
#[derive(Debug)]
pub struct Table {
    file: Arc<dyn File>,
    meta: TableMeta,
    index: Index,
    filter: Filter,
    cache: Option<Arc<BlockCache>>,
    place: Place,
    dead_marks: DeadMarks,
    obsolete: AtomicBool,
    /// Where to remove the file from, once it is obsolete.
    storage: Mutex<Option<Arc<dyn Storage>>>,
}

impl Table {
    /// Opens table `number` and checks everything but the data blocks, which are checked when read.
    ///
    /// # Errors
    /// A failed read; a file that is damaged, of another version, or another table.
    pub fn open(
        file: Arc<dyn File>,
        number: u64,
        cache: Option<Arc<BlockCache>>,
    ) -> TableResult<Self> {
        let path = file.path().to_path_buf();
        let len = file.len()?;
        let Some(footer_at) = len.checked_sub(FOOTER_BYTES as u64) else {
            return Err(corrupt(&path, 0, "file too short", FOOTER_BYTES as u64, len));
        };
        let mut footer = [0; FOOTER_BYTES];
        file.read_exact_at(&mut footer, footer_at)?;
        let field = |i: usize| get_u64(&footer, i * 8).unwrap_or_default();
        let word = |at: usize| get_u32(&footer, at).unwrap_or_default();
        if footer[56..] != TABLE_MAGIC {
            let want = u64::from_le_bytes(TABLE_MAGIC);
            return Err(corrupt(&path, footer_at + 56, "magic", want, field(7)));
        }
        let (stored, computed) = (word(52), crc32c(&footer[..52]));
        if stored != computed {
            let (stored, computed) = (stored.into(), computed.into());
            return Err(corrupt(&path, footer_at, "footer checksum", stored, computed));
        }
        let version = word(48);
        if version != TABLE_VERSION {
            return Err(TableError::Version { file: path, got: version, supported: TABLE_VERSION });
        }
        let [filter_at, index_at, properties_at, footer_field, found, zero] =
            [field(0), field(1), field(2), field(3), field(4), field(5)];
        let in_order = filter_at < index_at && index_at < properties_at;
        if !in_order || properties_at >= footer_at || footer_field != footer_at || zero != 0 {
            return Err(corrupt(&path, footer_at, "footer offsets", footer_at, footer_field));
        }
        if found != number {
            return Err(corrupt(&path, footer_at + 32, "table number", number, found));
        }
        // Bounded by the length of the file, which holds all of it.
        let mut tail = vec![0; (footer_at - filter_at) as usize];
        file.read_exact_at(&mut tail, filter_at)?;
        let part = |from: u64, to: u64| {
            let frame = &tail[(from - filter_at) as usize..(to - filter_at) as usize];
            let (payload, frame_type) = open_frame(frame, &path, from)?;
            if frame_type != FRAME_RAW {
                return Err(corrupt(&path, from, "frame type", 0, frame_type.into()));
            }
            Ok(payload)
        };
        let filter = Filter::decode(part(filter_at, index_at)?, &path, filter_at)?;
        let index = Index::decode(part(index_at, properties_at)?, filter_at, &path, index_at)?;
        let encoded = part(properties_at, footer_at)?;
        let properties = Properties::decode(encoded)
            .ok_or_else(|| corrupt(&path, properties_at, "properties", 0, encoded.len() as u64))?;
        let meta = TableMeta { number, file_bytes: len, properties: Arc::new(properties) };
        let dead_marks = DeadMarks::new(index.len(), meta.properties.entries);
        Ok(Self {
            file,
            meta,
            index,
            filter,
            cache,
            place: None,
            dead_marks,
            obsolete: AtomicBool::new(false),
            storage: Mutex::new(None),
        })
    }

    /// Number, length and properties.
    #[must_use]
    pub fn meta(&self) -> &TableMeta {
        &self.meta
    }

    /// Sets the place in which the table was opened.
    pub(crate) fn at(mut self, place: Place) -> Self {
        self.place = place;
        self
    }

    /// Its place.
    #[must_use]
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Path of its file.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// File number.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.meta.number
    }

    /// Length of the file.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        self.meta.file_bytes
    }

    /// The table's properties.
    #[must_use]
    pub fn properties(&self) -> &Properties {
        &self.meta.properties
    }

    /// Bytes of index, filter and what is known of the dead, held in memory.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.index.bytes()
            + self.filter.bytes()
            + self.dead_marks.memory_bytes()
            + size_of::<Self>()
    }

    /// What walks found dead in it.
    #[inline]
    pub(super) fn dead_marks(&self) -> &DeadMarks {
        &self.dead_marks
    }

    /// False only when the table has no version of a key with this [`super::key_hash`]. No I/O.
    #[must_use]
    #[inline]
    pub fn may_contain(&self, hash: u64) -> bool {
        self.filter.may_contain(hash)
    }

    /// About `count` keys at even distances, each with the bytes of data between it and the one before.
    pub(crate) fn samples(&self, count: usize) -> impl Iterator<Item = (&[u8], u64)> {
        let blocks = self.index.len();
        let step = blocks.div_ceil(count.max(1)).max(1);
        let offset =
            |i: usize| self.index.frame(i).map_or(self.meta.properties.data_bytes, |f| f.0);
        (0..blocks).step_by(step).map(move |from| {
            let to = (from + step).min(blocks);
            (self.index.key(to - 1), offset(to) - offset(from))
        })
    }

    /// The newest version of `key` whose sequence is at most `bound`. Neither the filter nor the
    /// key range is looked at: the caller did.
    ///
    /// # Errors
    /// A failed read or a damaged block.
    pub fn get(
        &self,
        key: &[u8],
        bound: Seq,
        scratch: &mut Scratch,
    ) -> TableResult<Option<FoundVersion>> {
        for i in self.index.find(key)..self.index.len() {
            let block = self.block(i, &mut scratch.frame)?;
            let malformed = |_| self.malformed(i);
            match look_up(block.data(), block.layout(), key, bound).map_err(malformed)? {
                Look::Found(head) => {
                    let value = PinnedValue::new(block, head.value..head.end).map_err(malformed)?;
                    return Ok(Some(FoundVersion { seq: head.seq, meta: head.meta, value }));
                }
                Look::Absent => return Ok(None),
                Look::Behind => {}
            }
            // The versions of a key can straddle blocks.
        }
        Ok(None)
    }

    /// The block that would hold `key`, the first whose separator is not below it. It must not be before `at`.
    #[must_use]
    pub(crate) fn block_from(&self, at: usize, key: &[u8]) -> usize {
        self.index.find_from(at, key)
    }

    /// Number of data blocks.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.index.len()
    }

    /// The blocks that can hold keys from `from` to below `to`.
    #[must_use]
    pub fn blocks_between(&self, from: &[u8], to: &[u8]) -> Range<usize> {
        let properties = self.properties();
        if *properties.max_key < *from || *properties.min_key >= *to {
            return 0..0;
        }
        // A separator at or above `to` can close a block with smaller keys.
        self.index.find(from)..(self.index.find(to) + 1).min(self.index.len())
    }

    /// The key of a random entry of block `i`. `random` gives 64 random bits at each call.
    ///
    /// # Errors
    /// A failed read or a damaged block.
    pub fn random_key(
        &self,
        i: usize,
        random: &mut dyn FnMut() -> u64,
        scratch: &mut Scratch,
    ) -> TableResult<Vec<u8>> {
        let block = self.block(i, &mut scratch.frame)?;
        block.random_key(random).map_err(|_| self.malformed(i))
    }

    /// An iterator over all versions, not positioned yet: call `seek` first.
    #[must_use]
    pub fn iter(self: &Arc<Self>, mode: ReadMode) -> TableIter {
        TableIter::new(Arc::clone(self), mode)
    }

    /// Reads every block and checks checksums, order and counts: for `sexton-check` and tests.
    ///
    /// # Errors
    /// The first damage found, or a failed read.
    pub fn verify(&self) -> TableResult<()> {
        let mut frame = Vec::new();
        let (mut key, mut last) = (Vec::new(), (Vec::new(), 0));
        let mut entries = 0;
        for i in 0..self.index.len() {
            let block = self.read_block(i, &mut frame)?;
            let malformed = |_| self.malformed(i);
            let mut at = 0;
            while let Some(head) = entry_at(block.data(), block.layout(), at).map_err(malformed)? {
                extend_key(block.data(), &head, &mut key).map_err(malformed)?;
                if entries > 0 && super::block::compare(&last.0, last.1, &key, head.seq).is_ge() {
                    let offset = self.index.frame(i).map_or(0, |f| f.0);
                    return Err(corrupt(self.file.path(), offset, "order", last.1, head.seq));
                }
                last.0.clone_from(&key);
                last.1 = head.seq;
                at = head.end;
                entries += 1;
            }
        }
        let expected = self.properties().entries;
        if entries != expected {
            return Err(corrupt(self.file.path(), 0, "number of versions", expected, entries));
        }
        Ok(())
    }

    /// Marks the file for removal from `storage` when the last reference drops. A failed removal
    /// leaves a leftover, which the next start removes.
    pub fn remove_when_unused(&self, storage: Arc<dyn Storage>) {
        *self.storage.lock() = Some(storage);
        self.obsolete.store(true, Ordering::Release);
    }

    /// Takes [`Table::remove_when_unused`] back: the table is part of the tree now.
    pub(crate) fn keep(&self) {
        self.obsolete.store(false, Ordering::Release);
    }

    pub(super) fn file(&self) -> &dyn File {
        &*self.file
    }

    pub(super) fn index(&self) -> &Index {
        &self.index
    }

    #[cold]
    pub(super) fn malformed(&self, i: usize) -> TableError {
        let (offset, len) = self.index.frame(i).unwrap_or_default();
        corrupt(self.file.path(), offset, "entries of a block", len as u64, i as u64)
    }

    /// Block `i` from the cache, or from the file and then into the cache.
    pub(super) fn block(&self, i: usize, frame: &mut Vec<u8>) -> TableResult<Arc<Block>> {
        let Some(cache) = &self.cache else { return self.read_block(i, frame) };
        let offset = self.index.frame(i).map_or(0, |f| f.0);
        if let Some(block) = cache.get(self.meta.number, offset) {
            return Ok(block);
        }
        let block = self.read_block(i, frame)?;
        cache.insert(self.meta.number, offset, &block);
        Ok(block)
    }

    /// Block `i` if the cache has it. Does not count as a use: for scans.
    pub(super) fn cached_block(&self, i: usize) -> Option<Arc<Block>> {
        let offset = self.index.frame(i)?.0;
        self.cache.as_ref()?.peek(self.meta.number, offset)
    }

    fn read_block(&self, i: usize, frame: &mut Vec<u8>) -> TableResult<Arc<Block>> {
        let (offset, len) = self.index.frame(i).ok_or_else(|| self.malformed(i))?;
        frame.resize(len, 0);
        self.file.read_exact_at(frame, offset)?;
        let mut data = Vec::new();
        let (payload, frame_type) = open_frame(frame, self.file.path(), offset)?;
        match frame_type {
            FRAME_RAW => data.extend_from_slice(payload),
            packed => decompress(packed, payload, &mut data, self.file.path(), offset)?,
        }
        frame.shrink_to(1 << 20);
        Block::new(data).map(Arc::new).map_err(|_| self.malformed(i))
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        if self.obsolete.load(Ordering::Acquire)
            && let Some(storage) = self.storage.lock().take()
        {
            // Nothing depends on it: leftovers go at the next start.
            let _ = storage.remove(self.file.path());
        }
    }
}

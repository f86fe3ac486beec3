//! A group of the log on its way: commands, and room in front of them for its annotation.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::annotation::{ALIGNMENT_BYTES, ANNOTATION_MIN_BYTES, Annotation, annotation_bytes};
use super::route::{EXTENT_BYTES, Extent, ROUTES_MAX, link_record_line, write_record_line};
use super::stamp::{STAMP_MAX_BYTES, write_stamp};

/// A group is closed when another append would bring its commands above this size.
pub const GROUP_TARGET_BYTES: usize = 256 << 10;
/// Room in front of the commands, so that sealing copies nothing.
const HEAD_BYTES: usize = ANNOTATION_MIN_BYTES + ALIGNMENT_BYTES + ROUTES_MAX * EXTENT_BYTES;
const CHUNK_BYTES: usize = HEAD_BYTES + GROUP_TARGET_BYTES;
/// Room on either side of a large argument, for what belongs to it.
const SIDE_BYTES: usize = 1024;
/// Where a large argument is in its chunk.
const LARGE_AT: usize = HEAD_BYTES + LINES_MAX_BYTES + SIDE_BYTES;

/// Bytes of the chunks of all logs of the process, in use or kept for reuse.
static HELD_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Memory of the buffers of all logs of the process, in bytes.
#[must_use]
pub fn held_bytes() -> u64 {
    HELD_BYTES.load(Ordering::Relaxed) as u64
}

/// Memory that is counted.
#[derive(Debug)]
struct Chunk(Box<[u8]>);

impl Chunk {
    fn new(bytes: usize) -> Self {
        HELD_BYTES.fetch_add(bytes, Ordering::Relaxed);
        // Not zeroed lazily by the kernel: a fresh page costs microseconds, and the first one to
        // touch it would be a commit.
        Self(vec![b' '; bytes].into_boxed_slice())
    }

    /// One with these bytes from `at` on, and `behind` more bytes behind them.
    fn around(bytes: &[u8], at: usize, behind: usize) -> Self {
        let len = at + bytes.len() + behind;
        let mut chunk = Vec::with_capacity(len);
        chunk.resize(at, b' ');
        chunk.extend_from_slice(bytes);
        chunk.resize(len, b' ');
        HELD_BYTES.fetch_add(len, Ordering::Relaxed);
        Self(chunk.into_boxed_slice())
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        HELD_BYTES.fetch_sub(self.0.len(), Ordering::Relaxed);
    }
}

impl Deref for Chunk {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for Chunk {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

/// An argument of a command that is so large that it is copied before the command runs: to where the log will write it from, in a
/// group of its own.
#[derive(Debug)]
pub struct LargeArgument {
    chunk: Chunk,
    bytes: usize,
}

impl LargeArgument {
    /// Copies an argument.
    #[must_use]
    pub fn new(argument: &[u8]) -> Self {
        Self { chunk: Chunk::around(argument, LARGE_AT, SIDE_BYTES), bytes: argument.len() }
    }

    /// The argument.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.chunk[LARGE_AT..LARGE_AT + self.bytes]
    }

    /// True if there is room for what stands before it and behind it.
    pub(super) fn has_room_for(&self, before: &[u8], behind: &[u8]) -> bool {
        before.len().max(behind.len()) <= SIDE_BYTES
    }
}

/// Commands of consecutive sequences that become one group of the log.
#[derive(Debug)]
pub struct Group {
    /// Wholly initialised; commands are at `begin..end`, at `HEAD_BYTES` at the earliest.
    chunk: Chunk,
    begin: usize,
    end: usize,
    first_seq: u64,
    last_seq: u64,
    selected_db: Option<u32>,
    /// The second it is of, when the log has time annotations.
    time_s: Option<u64>,
    starts_segment_after: Option<u64>,
    /// Records that go to other devices, by route; as long as the last route used.
    routed: Vec<Vec<u8>>,
    /// Where the first and the last line that stand for them are, behind [`HEAD_BYTES`].
    record_lines: Option<(u32, u32)>,
}

impl Group {
    pub(super) fn new(command_bytes_max: usize) -> Self {
        Self::of(Chunk::new(HEAD_BYTES + command_bytes_max))
    }

    fn of(chunk: Chunk) -> Self {
        Self {
            chunk,
            begin: HEAD_BYTES,
            end: HEAD_BYTES,
            first_seq: 0,
            last_seq: 0,
            selected_db: None,
            time_s: None,
            starts_segment_after: None,
            routed: Vec::new(),
            record_lines: None,
        }
    }

    /// An empty group of the usual size.
    pub(crate) fn regular() -> Self {
        Self::new(GROUP_TARGET_BYTES)
    }

    /// A group without sequences, which only carries an annotation.
    pub(crate) fn closing(next_seq: u64) -> Self {
        Self { first_seq: next_seq, last_seq: next_seq - 1, ..Self::new(0) }
    }

    /// A segment that starts after `mark` exists already.
    pub(crate) fn forget_cut_at(&mut self, mark: u64) {
        if self.starts_segment_after == Some(mark) {
            self.starts_segment_after = None;
        }
    }

    /// Forgets what is in it, and its sequences.
    pub(super) fn reset(&mut self) {
        (self.begin, self.end) = (HEAD_BYTES, HEAD_BYTES);
        (self.first_seq, self.last_seq) = (0, 0);
        self.selected_db = None;
        self.time_s = None;
        self.starts_segment_after = None;
        self.record_lines = None;
        for records in &mut self.routed {
            records.clear();
            records.shrink_to(GROUP_TARGET_BYTES);
        }
    }

    /// Puts what a reader has to know before a command of this database: the second the group is of, in front of everything else, and
    /// a SELECT.
    #[inline]
    pub(super) fn announce(&mut self, time_s: Option<u64>, db: u32) {
        if self.selected_db != Some(db) || self.is_empty() {
            self.announce_anew(time_s, db);
        }
    }

    #[cold]
    fn announce_anew(&mut self, time_s: Option<u64>, db: u32) {
        if let Some(time_s) = time_s.filter(|_| self.is_empty()) {
            self.end += write_stamp(&mut self.chunk[self.end..], time_s);
            self.time_s = Some(time_s);
        }
        if self.selected_db != Some(db) {
            self.end += write_select(&mut self.chunk[self.end..], db);
            self.selected_db = Some(db);
        }
    }

    /// Puts commands behind the others.
    #[inline]
    pub(super) fn add(&mut self, parts: &[&[u8]]) {
        for part in parts {
            self.chunk[self.end..self.end + part.len()].copy_from_slice(part);
            self.end += part.len();
        }
    }

    /// A group of what was [announced](Self::announce) and a command with a large argument, which is `before`, that, and `behind`.
    pub(super) fn around(
        large: LargeArgument,
        (time_s, db): (Option<u64>, u32),
        before: &[u8],
        behind: &[u8],
    ) -> Self {
        debug_assert!(large.has_room_for(before, behind));
        let mut group = Self::of(large.chunk);
        group.announce(time_s, db);
        let begin = LARGE_AT - before.len() - (group.end - HEAD_BYTES);
        group.chunk.copy_within(HEAD_BYTES..group.end, begin);
        (group.begin, group.end) = (begin, LARGE_AT - before.len());
        group.add(&[before]);
        group.end += large.bytes;
        group.add(&[behind]);
        group
    }

    /// The commands of the sequences up to here were added.
    #[inline]
    pub(super) fn note(&mut self, first_seq: u64, last_seq: u64) {
        if self.is_empty() {
            self.first_seq = first_seq;
        }
        self.last_seq = last_seq;
    }

    /// True if so many bytes of commands can be added.
    #[inline]
    pub(super) fn has_room_for(&self, command_bytes: usize) -> bool {
        self.end + command_bytes + LINES_MAX_BYTES <= self.chunk.len()
    }

    /// The second it is of.
    pub(super) fn time_s(&self) -> Option<u64> {
        self.time_s
    }

    /// A segment starts in front of it.
    pub(super) fn cut_after(&mut self, mark: Option<u64>) {
        self.starts_segment_after = mark;
    }

    /// Worth keeping for reuse: neither grown nor shrunk.
    pub(crate) fn is_regular(&self) -> bool {
        self.chunk.len() == CHUNK_BYTES
    }

    /// The same, emptied, if it is worth keeping.
    pub(super) fn into_spare(mut self) -> Option<Self> {
        self.reset();
        Some(self).filter(Self::is_regular)
    }

    /// Its commands.
    #[cfg(test)]
    pub(super) fn commands(&self) -> &[u8] {
        &self.chunk[self.begin..self.end]
    }

    /// Length of the commands, SELECT included, with those that go to other devices.
    #[must_use]
    pub fn command_bytes(&self) -> usize {
        self.own_bytes() + self.routed_bytes()
    }

    /// Length of what is in the group itself.
    fn own_bytes(&self) -> usize {
        self.end - self.begin
    }

    /// Bytes of the records that go to other devices.
    pub(super) fn routed_bytes(&self) -> usize {
        self.routed.iter().map(Vec::len).sum()
    }

    /// The records that go to other devices, each with its route.
    pub(crate) fn routed(&self) -> impl Iterator<Item = (usize, &[u8])> {
        let routes = self.routed.iter().map(Vec::as_slice).enumerate();
        routes.filter(|(_, records)| !records.is_empty())
    }

    /// Where the line that stands for the first of them is.
    pub(super) fn first_record_line(&self) -> u32 {
        self.record_lines.map_or(0, |(first, _)| first)
    }

    /// Puts `parts` with the records of `route`, and the line that stands for them into the group.
    pub(super) fn add_routed(&mut self, route: usize, parts: &[&[u8]]) {
        if self.routed.len() <= route {
            self.routed.resize_with(route + 1, Vec::new);
        }
        let records = &mut self.routed[route];
        let before = records.len();
        parts.iter().for_each(|part| records.extend_from_slice(part));
        let bytes = records.len() - before;
        let at = u32::try_from(self.end - HEAD_BYTES).unwrap_or(u32::MAX);
        self.record_lines = match self.record_lines {
            None => Some((at, at)),
            Some((first, last)) => {
                link_record_line(&mut self.chunk[HEAD_BYTES + last as usize..], at);
                Some((first, at))
            }
        };
        self.end += write_record_line(&mut self.chunk[self.end..], route, bytes);
    }

    /// True when nothing was appended; such a group exists only to start a segment.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.last_seq < self.first_seq || self.first_seq == 0
    }

    /// First sequence.
    #[must_use]
    pub fn first_seq(&self) -> u64 {
        self.first_seq
    }

    /// Last sequence.
    #[must_use]
    pub fn last_seq(&self) -> u64 {
        self.last_seq
    }

    /// A memtable was frozen at this sequence right before the group: a new segment starts here.
    #[must_use]
    pub fn starts_segment_after(&self) -> Option<u64> {
        self.starts_segment_after
    }

    /// Length of the sealed group in its segment.
    #[must_use]
    pub fn sealed_bytes(&self) -> usize {
        let content = self.own_bytes() + self.routed().count() * EXTENT_BYTES;
        annotation_bytes(content) + content
    }

    /// Writes annotation and extents into the head room and answers the bytes to write: a multiple of 64.
    pub(super) fn seal(
        &mut self,
        epoch: u32,
        synced_seq: u64,
        secret: u64,
        extents: &[Extent],
    ) -> &[u8] {
        let content = self.begin - extents.len() * EXTENT_BYTES;
        let lines = self.chunk[content..self.begin].chunks_mut(EXTENT_BYTES);
        lines.zip(extents).for_each(|(line, extent)| extent.encode(line));
        let command_bytes = self.end - content;
        let start = content - annotation_bytes(command_bytes);
        let group = &mut self.chunk[start..self.end];
        let annotation = Annotation {
            epoch,
            first_seq: self.first_seq,
            count: self.last_seq + 1 - self.first_seq,
            command_bytes: command_bytes as u64,
            synced_seq,
        };
        annotation.encode(group, secret);
        group
    }
}

/// `*2 $6 SELECT $10 4294967295` and the line ends.
const SELECT_MAX_BYTES: usize = 4 + 4 + 8 + 5 + 10 + 2;

/// What an append may add to its commands.
pub(super) const LINES_MAX_BYTES: usize = SELECT_MAX_BYTES + STAMP_MAX_BYTES;

/// Writes `SELECT db` and answers its length.
fn write_select(out: &mut [u8], db: u32) -> usize {
    let mut digits = [0; 10];
    let mut start = digits.len();
    let mut rest = db;
    loop {
        start -= 1;
        digits[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    let digits = &digits[start..];
    let length: &[u8] = match digits.len() {
        10 => b"10",
        short => &[b'0' + short as u8],
    };
    let mut end = 0;
    for part in [b"*2\r\n$6\r\nSELECT\r\n$", length, b"\r\n", digits, b"\r\n"] {
        out[end..end + part.len()].copy_from_slice(part);
        end += part.len();
    }
    end
}

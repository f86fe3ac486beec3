//! Nodes: runs of adjacent entries, most of which share their field names with the first one.
//!
//! ```text
//! ID of the first entry | size u32 LE | entries u32 LE | deleted ones u32 LE | (names of fields, packed), packed
//! entries, packed: flags u8 | ms - first ms, varint | seq (- first seq, in the same ms), varint
//!                  | [number of fields, varint | names, packed] | values, packed
//! ```
//!
//! The boundaries of nodes decide what XTRIM with `~` removes, so sizes are computed as in Redis: the bytes of a
//! listpack of these entries, less those of its two counts.

use super::id::{ID_BYTES, push_id, read_id};
use crate::keyspace::collection::packed;
use crate::number::parse_i64;
use crate::value::thresholds::Thresholds;
use sexton_persistence::rdb::StreamId;
use std::ops::RangeInclusive;

const HEAD_BYTES: usize = ID_BYTES + 12;
const SIZE_AT: usize = ID_BYTES;
const ENTRIES_AT: usize = ID_BYTES + 4;
const DELETED_AT: usize = ID_BYTES + 8;

/// Maximum size of a node, regardless of `stream-node-max-bytes`.
const NODE_BYTES_MAX: u64 = 1 << 30;

const DELETED: u8 = 1;
const OTHER_FIELDS: u8 = 2;
/// Longest number of a varint, in bytes.
const VARINT_MAX: usize = 10;
/// Bytes of a listpack without elements.
const LISTPACK_BYTES: usize = 7;

fn push_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

#[inline]
fn split_varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    match bytes {
        [byte @ 0..0x80, rest @ ..] => Some((u64::from(*byte), rest)),
        _ => split_long_varint(bytes),
    }
}

fn split_long_varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0;
    for (at, &byte) in bytes.iter().take(VARINT_MAX).enumerate() {
        number |= u64::from(byte & 0x7f) << (7 * at);
        if byte < 0x80 {
            return Some((number, &bytes[at + 1..]));
        }
    }
    None
}

/// Bytes of an integer in a listpack.
fn int_bytes(number: i64) -> usize {
    1 + match number {
        0..=127 => 1,
        -4096..=4095 => 2,
        -32_768..=32_767 => 3,
        -8_388_608..=8_388_607 => 4,
        -2_147_483_648..=2_147_483_647 => 5,
        _ => 9,
    }
}

/// Entries and bytes of a node; entries of 0 mean no limit.
fn limits(thresholds: &Thresholds) -> (u64, u64) {
    let max_bytes = match thresholds.stream_node_bytes {
        0 => NODE_BYTES_MAX,
        bytes => bytes.min(NODE_BYTES_MAX),
    };
    (thresholds.stream_node_entries, max_bytes)
}

/// Bytes of a byte string in a listpack.
fn string_bytes(string: &[u8]) -> usize {
    if let Some(number) = parse_i64(string) {
        return int_bytes(number);
    }
    let bytes = string.len()
        + match string.len() {
            0..64 => 1,
            64..4096 => 2,
            _ => 5,
        };
    bytes
        + match bytes {
            0..=127 => 1,
            128..16_383 => 2,
            16_383..2_097_151 => 3,
            2_097_151..268_435_455 => 4,
            _ => 5,
        }
}

/// An entry that is to be written.
pub struct NewEntry<'a> {
    /// Its ID, above all others.
    pub id: StreamId,
    /// Names of its fields.
    pub names: Vec<&'a [u8]>,
    /// As many values.
    pub values: Vec<&'a [u8]>,
}

/// One entry of a node.
#[derive(Clone, Copy, Debug)]
pub struct EntryView<'v> {
    /// Its ID.
    pub id: StreamId,
    /// It was deleted.
    pub is_deleted: bool,
    /// Offset of its flags from the beginning of the node.
    pub flags_at: usize,
    names: &'v [u8],
    values: &'v [u8],
    fields: usize,
}

impl<'v> EntryView<'v> {
    /// Fields that it has.
    #[must_use]
    pub fn fields(&self) -> usize {
        self.fields
    }

    /// Fields with their values.
    pub fn pairs(&self) -> impl Iterator<Item = (&'v [u8], &'v [u8])> + use<'v> {
        packed::Items::new(self.names).take(self.fields).zip(packed::Items::new(self.values))
    }
}

/// A node.
#[derive(Clone, Copy, Debug)]
pub struct NodeView<'v> {
    bytes: &'v [u8],
    /// The ID that it begins with.
    pub first_id: StreamId,
}

impl<'v> NodeView<'v> {
    /// `None` for bytes that are too short.
    #[must_use]
    pub fn of(bytes: &'v [u8]) -> Option<Self> {
        let first_id = read_id(bytes)?;
        (bytes.len() >= HEAD_BYTES).then_some(Self { bytes, first_id })
    }

    fn u32_at(&self, at: usize) -> usize {
        self.bytes[at..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes) as usize)
    }

    /// Entries that are not deleted.
    #[must_use]
    pub fn live(&self) -> usize {
        self.u32_at(ENTRIES_AT)
    }

    fn deleted(&self) -> usize {
        self.u32_at(DELETED_AT)
    }

    /// All of its entries, deleted ones too, as it says.
    #[must_use]
    pub fn entries_all(&self) -> usize {
        self.live() + self.deleted()
    }

    /// Size in bytes of a listpack of these entries.
    fn size(&self) -> usize {
        let counts = int_bytes(self.live() as i64) + int_bytes(self.deleted() as i64);
        self.u32_at(SIZE_AT) + counts
    }

    /// Whether one more entry fits; limits of 0 mean no limit.
    #[must_use]
    pub fn has_room(&self, entry: &NewEntry<'_>, thresholds: &Thresholds) -> bool {
        let (max_entries, max_bytes) = limits(thresholds);
        let strings = entry.names.iter().chain(&entry.values);
        let new_bytes: usize = strings.map(|string| string.len()).sum();
        let entries = self.entries_all() as u64;
        ((self.size() + new_bytes) as u64) < max_bytes
            && (max_entries == 0 || entries < max_entries)
    }

    /// About how many bytes it will have when no entry fits any more, if they go on as they are.
    #[must_use]
    pub fn full_bytes(&self, thresholds: &Thresholds) -> u64 {
        let (max_entries, max_bytes) = limits(thresholds);
        if max_entries == 0 {
            return max_bytes;
        }
        let entries = self.entries_all().max(1) as u64;
        max_bytes.min(max_entries.saturating_mul(self.bytes.len() as u64 / entries))
    }

    fn names(&self) -> (&'v [u8], &'v [u8]) {
        packed::split(&self.bytes[HEAD_BYTES..]).unwrap_or_default()
    }

    /// All entries, deleted ones too.
    #[must_use]
    pub fn entries(&self) -> Entries<'v> {
        let (names, rest) = self.names();
        let fields = packed::Items::new(names).count();
        Entries { node: *self, names, fields, items: packed::Items::new(rest) }
    }

    /// The ID of its last entry that is not deleted.
    #[must_use]
    pub fn last_id(&self) -> Option<StreamId> {
        let mut entries = self.entries();
        // It has as many before it as are not deleted, at least.
        for _ in 1..self.live() {
            entries.items.next();
        }
        let mut last_id = None;
        while let Some(head) = entries.next_head() {
            if head.flags & DELETED == 0 {
                last_id = Some(head.id);
            }
        }
        last_id
    }

    /// Number of entries with these IDs, of deleted ones none; `most` if there are as many.
    #[must_use]
    pub fn count_within(&self, ids: RangeInclusive<StreamId>, most: usize) -> usize {
        let (mut entries, mut count) = (self.entries(), 0);
        while count < most
            && let Some(head) = entries.next_head()
            && head.id <= *ids.end()
        {
            count += usize::from(head.flags & DELETED == 0 && head.id >= *ids.start());
        }
        count
    }
}

/// The entries of a node from the first to the last.
#[derive(Clone, Debug)]
pub struct Entries<'v> {
    node: NodeView<'v>,
    /// Names of the fields that most entries have, and how many.
    names: &'v [u8],
    fields: usize,
    items: packed::Items<'v>,
}

/// What an entry begins with.
struct Head<'v> {
    id: StreamId,
    flags: u8,
    flags_at: usize,
    rest: &'v [u8],
}

impl<'v> Entries<'v> {
    #[inline]
    fn next_head(&mut self) -> Option<Head<'v>> {
        let item = self.items.next()?;
        let flags_at = self.node.bytes.len() - self.items.bytes_left() - item.len();
        let (&flags, rest) = item.split_first()?;
        let (ms, rest) = split_varint(rest)?;
        let (seq, rest) = split_varint(rest)?;
        let first = self.node.first_id;
        let seq = if ms == 0 { first.seq.wrapping_add(seq) } else { seq };
        Some(Head { id: StreamId { ms: first.ms.wrapping_add(ms), seq }, flags, flags_at, rest })
    }

    fn view(&self, head: Head<'v>) -> Option<EntryView<'v>> {
        let (mut fields, mut names, mut values) = (self.fields, self.names, head.rest);
        if head.flags & OTHER_FIELDS != 0 {
            let (count, behind) = split_varint(head.rest)?;
            (fields, names) = (count as usize, behind);
            let mut own = packed::Items::new(behind);
            for _ in 0..fields {
                own.next()?;
            }
            values = &behind[behind.len() - own.bytes_left()..];
        }
        let Head { id, flags, flags_at, .. } = head;
        Some(EntryView { id, is_deleted: flags & DELETED != 0, flags_at, names, values, fields })
    }

    /// The first of those that are left whose ID is `start` or above.
    pub fn next_from(&mut self, start: StreamId) -> Option<EntryView<'v>> {
        loop {
            let head = self.next_head()?;
            if head.id >= start {
                return self.view(head);
            }
        }
    }
}

impl<'v> Iterator for Entries<'v> {
    type Item = EntryView<'v>;

    fn next(&mut self) -> Option<EntryView<'v>> {
        let head = self.next_head()?;
        self.view(head)
    }
}

/// The bytes of a node with one entry.
#[must_use]
pub(in crate::keyspace) fn new_node(entry: &NewEntry<'_>) -> Vec<u8> {
    let mut names = Vec::new();
    entry.names.iter().for_each(|name| packed::push(&mut names, name));
    let (item, entry_bytes) = entry_item(entry, entry.id, &names);
    let of_names: usize = entry.names.iter().map(|name| string_bytes(name)).sum();
    let size = LISTPACK_BYTES + int_bytes(entry.names.len() as i64) + of_names + int_bytes(0);
    let mut node = Vec::new();
    push_id(&mut node, entry.id);
    for number in [size + entry_bytes, 1, 0] {
        node.extend_from_slice(&(number as u32).to_le_bytes());
    }
    packed::push(&mut node, &names);
    packed::push(&mut node, &item);
    node
}

/// The bytes of an entry in a node, and its size in a listpack.
fn entry_item(entry: &NewEntry<'_>, first: StreamId, shared_names: &[u8]) -> (Vec<u8>, usize) {
    let mut names = Vec::new();
    entry.names.iter().for_each(|name| packed::push(&mut names, name));
    let shares = names == shared_names;
    let fields = entry.names.len();
    let ms = entry.id.ms - first.ms;
    let seq = if ms == 0 { entry.id.seq - first.seq } else { entry.id.seq };
    let mut item = vec![if shares { 0 } else { OTHER_FIELDS }];
    push_varint(&mut item, ms);
    push_varint(&mut item, seq);
    // Redis writes the difference whatever the millisecond, and flags of two bits.
    let redis_seq = entry.id.seq.wrapping_sub(first.seq) as i64;
    let mut size = int_bytes(0) + int_bytes(ms as i64) + int_bytes(redis_seq);
    let elements = if shares { fields + 3 } else { 2 * fields + 4 };
    size += int_bytes(elements as i64);
    if !shares {
        push_varint(&mut item, fields as u64);
        item.extend_from_slice(&names);
        size += int_bytes(fields as i64);
        size += entry.names.iter().map(|name| string_bytes(name)).sum::<usize>();
    }
    entry.values.iter().for_each(|value| packed::push(&mut item, value));
    size += entry.values.iter().map(|value| string_bytes(value)).sum::<usize>();
    (item, size)
}

/// The bytes to append to a node for one more entry, and their size in a listpack.
#[must_use]
pub(in crate::keyspace) fn more(node: NodeView<'_>, entry: &NewEntry<'_>) -> (Vec<u8>, usize) {
    let (item, size) = entry_item(entry, node.first_id, node.names().0);
    let mut out = Vec::with_capacity(packed::packed_bytes(item.len()));
    packed::push(&mut out, &item);
    (out, size)
}

/// The counts to write into a node to which an entry of `size` bytes is appended, and their offset.
#[must_use]
pub(in crate::keyspace) fn counts_with(node: NodeView<'_>, size: usize) -> (usize, [u8; 8]) {
    (SIZE_AT, two(node.u32_at(SIZE_AT).saturating_add(size), node.live() + 1))
}

/// Like [`counts_with`], but after `count` entries of the node were marked as deleted.
#[must_use]
pub(in crate::keyspace) fn counts_without(node: NodeView<'_>, count: usize) -> (usize, [u8; 8]) {
    (ENTRIES_AT, two(node.live().saturating_sub(count), node.deleted() + count))
}

fn two(first: usize, second: usize) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&(first as u32).to_le_bytes());
    bytes[4..].copy_from_slice(&(second as u32).to_le_bytes());
    bytes
}

/// The flags of an entry that is deleted, whatever they were.
#[must_use]
pub(in crate::keyspace) const fn deleted_flags(flags: u8) -> u8 {
    flags | DELETED
}

#[cfg(test)]
mod tests {
    use super::super::StreamEdit;
    use super::*;
    use crate::keyspace::collection::tests_thresholds;

    #[test]
    fn the_last_entry_is_the_last_that_is_not_deleted() {
        let (mut stream, thresholds) = (StreamEdit::default(), tests_thresholds());
        let id = |seq| StreamId { ms: 7, seq };
        for seq in 1..=300 {
            stream.add(id(seq), [(&b"field"[..], &b"value"[..])].into_iter(), &thresholds);
            assert_eq!(stream.view().last_valid_id(), id(seq));
        }
        // Down to entries of the nodes before, and within a node.
        for seq in (50..=300).rev().chain([3]) {
            assert!(stream.delete(id(seq)));
            let last = if seq < 50 { 49 } else { seq - 1 };
            assert_eq!(stream.view().last_valid_id(), id(last));
        }
    }
}

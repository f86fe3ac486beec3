//! Streams: entries in listpacks of a common set of fields, then consumer groups.
//!
//! ```text
//! nodes, each: ID of its first entry (16 bytes, big-endian)   listpack
//! entries   last ID
//! [types 19, 21: first ID   highest deleted ID   entries ever added]
//! groups, each: name   last delivered ID   [19, 21: entries read]
//!               pending entries, each: ID (16)   delivery time (8)   deliveries
//!               consumers, each: name   seen time (8)   [21: active time (8)]
//!                                pending IDs (16 each)
//! ```
//!
//! A node's listpack begins with `count deleted n field... 0`; each entry is
//! `flags ms seq [n field value...] | [value...] size`, times relative to the node's ID.

use super::packed::{ListpackReader, ListpackWriter};
use super::value::code;
use super::{
    Input, RdbError, StringOptions, Strings, read_count, read_string, write_length, write_string,
};
use std::sync::Arc;

/// ID of a stream entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamId {
    /// Milliseconds since the epoch.
    pub ms: u64,
    /// Number within the millisecond.
    pub seq: u64,
}

/// One entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamEntry {
    /// Its ID.
    pub id: StreamId,
    /// Names of its fields; entries that follow each other mostly share them.
    pub fields: Arc<Strings>,
    /// One value for each field.
    pub values: Strings,
}

impl StreamEntry {
    /// Fields with their values.
    pub fn pairs(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.fields.iter().zip(self.values.iter())
    }
}

/// An entry that was delivered and not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// The entry.
    pub id: StreamId,
    /// When it was delivered last, in ms since the epoch.
    pub delivered_ms: u64,
    /// How often.
    pub deliveries: u64,
}

/// A consumer of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consumer {
    /// Its name.
    pub name: Vec<u8>,
    /// When it asked last, in ms since the epoch.
    pub seen_ms: u64,
    /// When it got something last; `None` in files of before Redis 7.2, or when it never did.
    pub active_ms: Option<u64>,
    /// Entries of the group's pending list that are its.
    pub pending: Vec<StreamId>,
}

/// A consumer group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its name.
    pub name: Vec<u8>,
    /// Last delivered.
    pub last_id: StreamId,
    /// Entries read; `None` when not known.
    pub entries_read: Option<u64>,
    /// Pending entries in order of their IDs.
    pub pending: Vec<Pending>,
    /// Its consumers.
    pub consumers: Vec<Consumer>,
}

/// A stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stream {
    /// Entries in order.
    pub entries: Vec<StreamEntry>,
    /// Highest ID ever.
    pub last_id: StreamId,
    /// Highest ID ever deleted; 0-0 when none was, or in files of before Redis 7.0.
    pub max_deleted_id: StreamId,
    /// Entries ever added.
    pub entries_added: u64,
    /// Consumer groups.
    pub groups: Vec<Group>,
}

const DELETED: i64 = 1;
const SAME_FIELDS: i64 = 2;

/// In Redis' words.
const STREAM_LISTPACK: &str = "Stream listpack";

const BAD_NODE: RdbError = RdbError::BadPacked { format: STREAM_LISTPACK, at: 0 };

fn raw_id(bytes: [u8; 16]) -> StreamId {
    let id = u128::from_be_bytes(bytes);
    StreamId { ms: (id >> 64) as u64, seq: id as u64 }
}

fn read_raw_id(input: &mut Input<'_>) -> Result<StreamId, RdbError> {
    Ok(raw_id(input.take_array()?))
}

fn read_id(input: &mut Input<'_>) -> Result<StreamId, RdbError> {
    Ok(StreamId { ms: read_count(input)?, seq: read_count(input)? })
}

/// Appends the entries of one node that are not deleted.
fn read_node(first: StreamId, bytes: &[u8], out: &mut Vec<StreamEntry>) -> Result<(), RdbError> {
    let mut node = ListpackReader::new(STREAM_LISTPACK, bytes)?;
    let (count, deleted) = (node.integer()?, node.integer()?);
    let mut fields = Strings::default();
    for _ in 0..node.integer()? {
        node.string(&mut fields)?;
    }
    let common = Arc::new(fields);
    if node.integer()? != 0 {
        return Err(BAD_NODE);
    }
    for _ in 0..count.checked_add(deleted).ok_or(BAD_NODE)? {
        let flags = node.integer()?;
        // Differences wrap: a later entry may have the lower sequence number.
        let id = StreamId {
            ms: first.ms.wrapping_add(node.integer()? as u64),
            seq: first.seq.wrapping_add(node.integer()? as u64),
        };
        let mut values = Strings::default();
        // To be read backwards: how many elements are between it and the start of the entry.
        let elements;
        let fields = if flags & SAME_FIELDS != 0 {
            for _ in 0..common.len() {
                node.string(&mut values)?;
            }
            elements = common.len() + 3;
            Arc::clone(&common)
        } else {
            let mut fields = Strings::default();
            for _ in 0..node.integer()? {
                node.string(&mut fields)?;
                node.string(&mut values)?;
            }
            elements = fields.len() * 2 + 4;
            Arc::new(fields)
        };
        if node.integer()? != elements as i64 {
            return Err(BAD_NODE);
        }
        if flags & DELETED == 0 {
            out.push(StreamEntry { id, fields, values });
        }
    }
    if node.next()?.is_some() {
        return Err(BAD_NODE);
    }
    Ok(())
}

/// Reads a stream of type 15, 19 or 21.
pub(super) fn read(input: &mut Input<'_>, found: u8) -> Result<Stream, RdbError> {
    let mut stream = Stream::default();
    for _ in 0..read_count(input)? {
        let first = read_string(input)?.try_into().map_err(|_| BAD_NODE)?;
        read_node(raw_id(first), &read_string(input)?, &mut stream.entries)?;
    }
    let length = read_count(input)?;
    if length != stream.entries.len() as u64 {
        return Err(RdbError::BadValue { reason: "a stream of another length than it says" });
    }
    stream.last_id = read_id(input)?;
    stream.entries_added = length;
    if found != code::STREAM {
        // The first ID is that of the first entry.
        read_id(input)?;
        stream.max_deleted_id = read_id(input)?;
        stream.entries_added = read_count(input)?;
    }
    for _ in 0..read_count(input)? {
        stream.groups.push(read_group(input, found)?);
    }
    if found == code::STREAM {
        let estimated: Vec<_> =
            stream.groups.iter().map(|group| stream.estimated_read(group)).collect();
        for (group, read) in stream.groups.iter_mut().zip(estimated) {
            group.entries_read = read;
        }
    }
    Ok(stream)
}

fn read_group(input: &mut Input<'_>, found: u8) -> Result<Group, RdbError> {
    let (name, last_id) = (read_string(input)?, read_id(input)?);
    let entries_read = match found {
        code::STREAM => None,
        // -1 says "not known".
        _ => Some(read_count(input)?).filter(|&read| read != u64::MAX),
    };
    let mut group =
        Group { name, last_id, entries_read, pending: Vec::new(), consumers: Vec::new() };
    for _ in 0..read_count(input)? {
        group.pending.push(Pending {
            id: read_raw_id(input)?,
            delivered_ms: u64::from_le_bytes(input.take_array()?),
            deliveries: read_count(input)?,
        });
    }
    for _ in 0..read_count(input)? {
        let (name, seen_ms) = (read_string(input)?, u64::from_le_bytes(input.take_array()?));
        let active_ms = match found {
            code::STREAM_3 => u64::try_from(i64::from_le_bytes(input.take_array()?)).ok(),
            _ => None,
        };
        let mut consumer = Consumer { name, seen_ms, active_ms, pending: Vec::new() };
        for _ in 0..read_count(input)? {
            consumer.pending.push(read_raw_id(input)?);
        }
        group.consumers.push(consumer);
    }
    let mut names: Vec<_> = group.consumers.iter().map(|consumer| &consumer.name).collect();
    names.sort_unstable();
    if !names.is_sorted_by(|a, b| a < b) {
        return Err(RdbError::BadValue { reason: "Duplicate stream consumer detected" });
    }
    Ok(group)
}

/// Size from which a new node is begun, in bytes: `stream-node-max-bytes` of Redis.
const NODE_BYTES: usize = 4096;
/// `stream-node-max-entries` of Redis.
const NODE_ENTRIES: usize = 100;

impl Stream {
    /// What a group has read, where it can be told without being written: nothing, one entry, or all. Files of before Redis
    /// 7.0 say no more.
    fn estimated_read(&self, group: &Group) -> Option<u64> {
        match self.entries.first().map(|entry| entry.id) {
            None => Some(0),
            Some(_) if group.last_id == self.last_id => Some(self.entries.len() as u64),
            Some(first) if group.last_id < first => Some(0),
            Some(first) if group.last_id == first => Some(1),
            Some(_) => None,
        }
    }

    /// Whether type 15, which every version since 5.0 reads, would lose something.
    pub(super) fn needs_type_19(&self) -> bool {
        self.entries_added != self.entries.len() as u64
            || self.max_deleted_id != StreamId::default()
            || self.groups.iter().any(|group| group.entries_read != self.estimated_read(group))
    }
}

/// Appends a stream as type 15 or 19.
pub(super) fn write(out: &mut Vec<u8>, stream: &Stream, found: u8, options: StringOptions) {
    let mut nodes = Vec::new();
    let mut rest = stream.entries.as_slice();
    while let Some(first) = rest.first() {
        let mut size = 0;
        let count = rest
            .iter()
            .take(NODE_ENTRIES)
            .take_while(|entry| {
                let fits = size < NODE_BYTES;
                size +=
                    entry.pairs().map(|(field, value)| field.len() + value.len()).sum::<usize>();
                fits
            })
            .count();
        nodes.push((first.id, write_node(&rest[..count])));
        rest = &rest[count..];
    }
    write_length(out, nodes.len() as u64);
    for (id, node) in nodes {
        write_string(out, &raw_bytes(id), options);
        write_string(out, &node, options);
    }
    write_length(out, stream.entries.len() as u64);
    write_id(out, stream.last_id);
    if found != code::STREAM {
        write_id(out, stream.entries.first().map_or(StreamId::default(), |entry| entry.id));
        write_id(out, stream.max_deleted_id);
        write_length(out, stream.entries_added);
    }
    write_length(out, stream.groups.len() as u64);
    for group in &stream.groups {
        write_string(out, &group.name, options);
        write_id(out, group.last_id);
        if found != code::STREAM {
            write_length(out, group.entries_read.unwrap_or(u64::MAX));
        }
        write_length(out, group.pending.len() as u64);
        for pending in &group.pending {
            out.extend_from_slice(&raw_bytes(pending.id));
            out.extend_from_slice(&pending.delivered_ms.to_le_bytes());
            write_length(out, pending.deliveries);
        }
        write_length(out, group.consumers.len() as u64);
        for consumer in &group.consumers {
            write_string(out, &consumer.name, options);
            out.extend_from_slice(&consumer.seen_ms.to_le_bytes());
            write_length(out, consumer.pending.len() as u64);
            for &id in &consumer.pending {
                out.extend_from_slice(&raw_bytes(id));
            }
        }
    }
}

fn raw_bytes(id: StreamId) -> [u8; 16] {
    (u128::from(id.ms) << 64 | u128::from(id.seq)).to_be_bytes()
}

fn write_id(out: &mut Vec<u8>, id: StreamId) {
    write_length(out, id.ms);
    write_length(out, id.seq);
}

/// A node of at least one entry; the fields of the first are the common ones.
fn write_node(entries: &[StreamEntry]) -> Vec<u8> {
    let mut node = ListpackWriter::new();
    let first = &entries[0];
    let common = &first.fields;
    node.integer(entries.len() as i64);
    node.integer(0);
    node.integer(common.len() as i64);
    common.iter().for_each(|field| node.string(field));
    node.integer(0);
    for entry in entries {
        let same = entry.fields == *common;
        node.integer(if same { SAME_FIELDS } else { 0 });
        node.integer(entry.id.ms.wrapping_sub(first.id.ms) as i64);
        node.integer(entry.id.seq.wrapping_sub(first.id.seq) as i64);
        let pairs = entry.fields.len() as i64;
        if same {
            entry.values.iter().for_each(|value| node.string(value));
            node.integer(pairs + 3);
        } else {
            node.integer(pairs);
            for (field, value) in entry.pairs() {
                node.string(field);
                node.string(value);
            }
            node.integer(pairs * 2 + 4);
        }
    }
    node.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(all: &[&str]) -> Strings {
        all.iter().map(|text| text.as_bytes()).collect()
    }

    fn sample() -> Stream {
        let fields = Arc::new(strings(&["a", "b"]));
        let mut entries: Vec<StreamEntry> = (0..250_u64)
            .map(|n| StreamEntry {
                id: StreamId { ms: 1000 + n / 3, seq: 7 - n % 3 },
                fields: Arc::clone(&fields),
                values: strings(&[&n.to_string(), "x"]),
            })
            .collect();
        entries[5].fields = Arc::new(strings(&["other"]));
        entries[5].values = strings(&["one"]);
        let (one, two) = (entries[0].id, entries[1].id);
        let pending = |id| Pending { id, delivered_ms: 77, deliveries: 3 };
        Stream {
            last_id: StreamId { ms: 5000, seq: 0 },
            max_deleted_id: StreamId { ms: 4000, seq: 1 },
            entries_added: 400,
            groups: vec![Group {
                name: b"group".to_vec(),
                last_id: two,
                entries_read: None,
                pending: vec![pending(one), pending(two)],
                consumers: vec![Consumer {
                    name: b"c".to_vec(),
                    seen_ms: 99,
                    active_ms: None,
                    pending: vec![one],
                }],
            }],
            entries,
        }
    }

    #[test]
    fn streams_come_back() {
        let stream = sample();
        let mut bytes = Vec::new();
        write(&mut bytes, &stream, code::STREAM_2, StringOptions { compress: true });
        let mut input = Input::new(&bytes);
        assert_eq!(read(&mut input, code::STREAM_2), Ok(stream));
        assert_eq!(input.left(), 0);
    }

    #[test]
    fn type_15_leaves_out_what_it_does_not_know() {
        let mut stream = sample();
        let mut bytes = Vec::new();
        write(&mut bytes, &stream, code::STREAM, StringOptions { compress: false });
        assert!(stream.needs_type_19());
        stream.entries_added = 250;
        stream.max_deleted_id = StreamId::default();
        assert!(stream.needs_type_19());
        // Its group stands before the first entry.
        stream.groups[0].entries_read = Some(0);
        assert!(!stream.needs_type_19());
        assert_eq!(read(&mut Input::new(&bytes), code::STREAM), Ok(stream));
    }

    #[test]
    fn an_entry_that_counts_its_elements_wrong_is_refused() {
        let node = |first: i64, second: i64| {
            let mut node = ListpackWriter::new();
            [2, 0, 1].into_iter().for_each(|number| node.integer(number));
            node.string(b"f");
            // The end of the common part, an entry with the same field, one with its own.
            [0, SAME_FIELDS, 0, 0].into_iter().for_each(|number| node.integer(number));
            node.string(b"v");
            node.integer(first);
            [0, 0, 1, 1].into_iter().for_each(|number| node.integer(number));
            node.string(b"g");
            node.string(b"w");
            node.integer(second);
            let mut entries = Vec::new();
            read_node(StreamId { ms: 1, seq: 1 }, &node.finish(), &mut entries)
                .map(|()| entries.len())
        };
        assert_eq!(node(4, 6), Ok(2));
        assert_eq!(node(3, 6), Err(BAD_NODE));
        assert_eq!(node(4, 5), Err(BAD_NODE));
    }

    #[test]
    fn two_consumers_of_one_name_are_refused() {
        let mut stream = sample();
        let twin = stream.groups[0].consumers[0].clone();
        stream.groups[0].consumers.push(Consumer { pending: Vec::new(), ..twin });
        let mut bytes = Vec::new();
        write(&mut bytes, &stream, code::STREAM_2, StringOptions { compress: false });
        let refused = read(&mut Input::new(&bytes), code::STREAM_2);
        assert!(matches!(refused, Err(RdbError::BadValue { .. })), "{refused:?}");
    }
}

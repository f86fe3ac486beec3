//! Streams that are being changed.

use super::node::{self, NewEntry};
use super::{
    ADDED_AT, GROUPS_AT, GROUPS_BYTES_AT, Group, LAST_ID_AT, LOWEST, MAX_DELETED_AT, NODES_AT,
    PLACE_BYTES, StreamView, group, id, u32_at,
};
use crate::keyspace::collection::{Edit, Encoding, Parts, Thresholds, empty, set_len, splice};
use crate::value::ValueType;
use sexton_persistence::rdb::{self, StreamId};
use std::ops::Range;

/// Largest node, whatever `stream-node-max-bytes` says.
const NODE_BYTES_MAX: u64 = 1 << 30;

/// What is to be left by a trim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrimTo {
    /// So many entries, the last ones.
    Entries(u64),
    /// Those from this ID on.
    From(StreamId),
}

/// How much is to be trimmed.
#[derive(Clone, Copy, Debug)]
pub struct Trim {
    /// What is to be left.
    pub to: TrimTo,
    /// Only whole nodes go.
    pub is_rough: bool,
    /// At most so many entries go; 0 for no limit.
    pub limit: u64,
}

/// A stream that is being changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamEdit {
    bytes: Vec<u8>,
    len: usize,
}

impl Default for StreamEdit {
    fn default() -> Self {
        let mut bytes = empty(Encoding::Stream);
        bytes.resize(GROUPS_AT, 0);
        Self { bytes, len: 0 }
    }
}

impl Edit for StreamEdit {
    const TYPE: ValueType = ValueType::Stream;

    fn len(&self) -> usize {
        self.len
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// A stream stays when its last entry goes.
    fn is_empty(&self) -> bool {
        false
    }
}

impl StreamEdit {
    pub(super) fn of_bytes(bytes: Vec<u8>, len: usize) -> Self {
        Self { bytes, len }
    }

    /// The same, to read from.
    #[must_use]
    pub fn view(&self) -> StreamView<'_> {
        let (bytes, directory_at) = (&self.bytes, self.directory_at());
        StreamView {
            parts: Parts {
                meta: Self::expiring_at(0),
                value: bytes,
                encoding: Encoding::Stream,
                len: self.len,
            },
            groups: &bytes[GROUPS_AT..self.nodes_at()],
            nodes: &bytes[self.nodes_at()..directory_at],
            directory: &bytes[directory_at..],
        }
    }

    fn nodes_at(&self) -> usize {
        GROUPS_AT + u32_at(&self.bytes, GROUPS_BYTES_AT)
    }

    fn directory_at(&self) -> usize {
        self.bytes.len() - u32_at(&self.bytes, NODES_AT) * PLACE_BYTES
    }

    fn set_u32(&mut self, at: usize, number: usize) {
        self.bytes[at..at + 4].copy_from_slice(&(number as u32).to_le_bytes());
    }

    fn set_len(&mut self, len: usize) {
        self.len = len;
        set_len(&mut self.bytes, len);
    }

    /// From now on this is the highest ID ever.
    pub fn set_last_id(&mut self, id: StreamId) {
        id::write_id(&mut self.bytes[LAST_ID_AT..], id);
    }

    /// From now on this is the highest ID that was deleted.
    pub fn set_max_deleted_id(&mut self, id: StreamId) {
        id::write_id(&mut self.bytes[MAX_DELETED_AT..], id);
    }

    /// From now on so many entries were ever added.
    pub fn set_entries_added(&mut self, added: u64) {
        self.bytes[ADDED_AT..ADDED_AT + 8].copy_from_slice(&added.to_le_bytes());
    }

    /// From now on it has these groups, which stand by name.
    pub fn set_groups(&mut self, groups: &[Group]) {
        let new = group::write_all(groups);
        let old = GROUPS_AT..self.nodes_at();
        splice(&mut self.bytes, old, &new);
        self.set_u32(GROUPS_BYTES_AT, new.len());
    }

    /// Appends an entry, whose ID is above all others. What was ever added and deleted stays as it is.
    fn push(&mut self, entry: &NewEntry<'_>, thresholds: &Thresholds) {
        let max_bytes = match thresholds.stream_node_bytes {
            0 => NODE_BYTES_MAX,
            bytes => bytes.min(NODE_BYTES_MAX),
        };
        let (view, nodes_at, end) = (self.view(), self.nodes_at(), self.directory_at());
        let last = view.nodes().checked_sub(1).and_then(|index| view.node(index));
        let fits = |node: &node::NodeView<'_>| {
            node.has_room(entry, max_bytes as usize, thresholds.stream_node_entries)
        };
        if let Some(node) = last.filter(fits) {
            let place = nodes_at + view.node_range(view.nodes() - 1).start;
            let (more, size) = node::more(node, entry);
            splice(&mut self.bytes, end..end, &more);
            node::count_more(&mut self.bytes[place..], size);
        } else {
            let count = view.nodes() + 1;
            splice(&mut self.bytes, end..end, &node::new_node(entry));
            self.bytes.extend_from_slice(&((end - nodes_at) as u32).to_le_bytes());
            self.set_u32(NODES_AT, count);
        }
        self.set_len(self.len + 1);
        self.set_last_id(entry.id);
    }

    /// Adds an entry, whose ID is above the last one.
    pub fn add<'a>(
        &mut self,
        id: StreamId,
        pairs: impl Iterator<Item = (&'a [u8], &'a [u8])>,
        thresholds: &Thresholds,
    ) {
        let (names, values) = pairs.unzip();
        self.push(&NewEntry { id, names, values }, thresholds);
        self.set_entries_added(self.view().entries_added() + 1);
    }

    /// Removes whole nodes.
    fn remove_nodes(&mut self, nodes: Range<usize>) {
        if nodes.is_empty() {
            return;
        }
        let view = self.view();
        let gone = view.node_range(nodes.start).start..view.node_range(nodes.end - 1).end;
        let starts = (0..view.nodes()).filter(|index| !nodes.contains(index)).map(|index| {
            let start = view.node_range(index).start;
            if index < nodes.start { start } else { start - gone.len() }
        });
        let directory: Vec<u8> = starts.flat_map(|start| (start as u32).to_le_bytes()).collect();
        let (nodes_at, directory_at) = (self.nodes_at(), self.directory_at());
        self.bytes.truncate(directory_at);
        splice(&mut self.bytes, nodes_at + gone.start..nodes_at + gone.end, b"");
        self.bytes.extend_from_slice(&directory);
        self.set_u32(NODES_AT, directory.len() / PLACE_BYTES);
    }

    /// Deletes an entry; false when there is none with this ID.
    pub fn delete(&mut self, id: StreamId) -> bool {
        let view = self.view();
        let Some(index) = view.node_of(id) else { return false };
        let Some(node) = view.node(index) else { return false };
        let Some(entry) = node.entries().find(|entry| entry.id == id && !entry.is_deleted) else {
            return false;
        };
        if node.live() == 1 {
            self.remove_nodes(index..index + 1);
        } else {
            let place = self.nodes_at() + view.node_range(index).start;
            let flags_at = entry.flags_at;
            node::delete(&mut self.bytes[place..], flags_at);
        }
        self.set_len(self.len - 1);
        if id > self.view().max_deleted_id() {
            self.set_max_deleted_id(id);
        }
        true
    }

    /// Removes entries from the front; how many those were.
    pub fn trim(&mut self, trim: Trim) -> u64 {
        let view = self.view();
        let (mut left, mut removed, mut whole) = (self.len as u64, 0, 0);
        let mut within = Vec::new();
        while let Some(node) = view.node(whole) {
            if matches!(trim.to, TrimTo::Entries(max) if left <= max) {
                break;
            }
            let live = node.live() as u64;
            if trim.limit != 0 && removed + live > trim.limit {
                break;
            }
            let goes = match trim.to {
                TrimTo::Entries(max) => left - live >= max,
                TrimTo::From(id) => node.entries().last().is_none_or(|last| last.id < id),
            };
            if goes {
                left -= live;
                removed += live;
                whole += 1;
                continue;
            }
            if !trim.is_rough {
                for entry in node.entries() {
                    let stops = match trim.to {
                        TrimTo::Entries(max) => left <= max,
                        TrimTo::From(id) => entry.id >= id,
                    };
                    if stops {
                        break;
                    }
                    if !entry.is_deleted {
                        within.push(entry.flags_at);
                        left -= 1;
                        removed += 1;
                    }
                }
            }
            break;
        }
        let place =
            self.nodes_at() + if within.is_empty() { 0 } else { view.node_range(whole).start };
        for flags_at in within {
            node::delete(&mut self.bytes[place..], flags_at);
        }
        self.remove_nodes(0..whole);
        self.set_len(left as usize);
        removed
    }

    /// From a dump; `None` when it contradicts itself.
    #[must_use]
    pub fn of_dumped(dumped: rdb::Stream, thresholds: &Thresholds) -> Option<Self> {
        let mut edit = Self::default();
        let mut last = LOWEST;
        for entry in &dumped.entries {
            if entry.id <= last || entry.values.is_empty() {
                return None;
            }
            last = entry.id;
            let (names, values) = entry.pairs().unzip();
            edit.push(&NewEntry { id: entry.id, names, values }, thresholds);
        }
        if dumped.last_id < last {
            return None;
        }
        edit.set_last_id(dumped.last_id);
        edit.set_max_deleted_id(dumped.max_deleted_id);
        edit.set_entries_added(dumped.entries_added);
        let mut groups: Vec<_> =
            dumped.groups.into_iter().map(Group::of_dumped).collect::<Option<_>>()?;
        groups.sort_by(|a, b| a.name.cmp(&b.name));
        if !groups.is_sorted_by(|a, b| a.name < b.name) {
            return None;
        }
        edit.set_groups(&groups);
        Some(edit)
    }
}

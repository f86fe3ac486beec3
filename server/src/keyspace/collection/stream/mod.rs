//! Streams.

mod edit;
mod excerpt;
mod group;
mod head;
mod id;
pub(in crate::keyspace) mod node;

pub use edit::{StreamEdit, Trim, TrimPlan, TrimTo};
pub use excerpt::{Excerpt, Rest, Span};
pub(in crate::keyspace) use group::write_all;
pub use group::{Consumer, Group, Pending, PendingTotals};
pub use head::Head;
pub use id::{HIGHEST, LOWEST, id_after, id_before, id_text};
pub(in crate::keyspace) use id::{number as id_number, of_number as id_of_number};
pub use node::{EntryView, NewEntry};

use super::{Encoding, HEAD_BYTES, Parts};
use crate::keyspace::Kind;
use crate::value::ValueType;
use id::{ID_BYTES, read_id};
use node::NodeView;
use sexton_engine::{Entry, Meta};
use sexton_persistence::rdb::{self, StreamEntry, StreamId, Strings};
use std::ops::Range;
use std::sync::Arc;

const LAST_ID_AT: usize = HEAD_BYTES;
const MAX_DELETED_AT: usize = LAST_ID_AT + ID_BYTES;
const ADDED_AT: usize = MAX_DELETED_AT + ID_BYTES;
const GROUPS_BYTES_AT: usize = ADDED_AT + 8;
const NODES_AT: usize = GROUPS_BYTES_AT + 4;
/// Where the groups begin.
const GROUPS_AT: usize = NODES_AT + 4;
/// Bytes of a node's place in the directory.
const PLACE_BYTES: usize = 4;

/// The type of streams, for a look-up.
#[derive(Clone, Copy, Debug)]
pub struct Streams;

impl Kind for Streams {
    const TYPE: ValueType = ValueType::Stream;
    type View<'v> = StreamView<'v>;

    fn view(entry: Entry<'_>) -> Option<StreamView<'_>> {
        StreamView::of(entry.meta(), entry.value())
    }
}

/// The stream that a key holds.
#[derive(Clone, Copy)]
pub struct StreamView<'v> {
    parts: Parts<'v>,
    groups: &'v [u8],
    nodes: &'v [u8],
    directory: &'v [u8],
    /// Of an excerpt: what the whole is.
    rest: Option<&'v Rest>,
}

fn u32_at(bytes: &[u8], at: usize) -> usize {
    let bytes = bytes.get(at..).and_then(<[u8]>::first_chunk);
    bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes) as usize)
}

/// Entries that room is made for at once, whatever a node says that it has.
const ROOM_AHEAD: usize = 1024;

impl<'v> StreamView<'v> {
    /// `None` for a value of another type.
    #[must_use]
    pub fn of(meta: Meta, value: &'v [u8]) -> Option<Self> {
        Self::of_parts(Parts::of(meta, value, ValueType::Stream)?)
    }

    fn of_parts(parts: Parts<'v>) -> Option<Self> {
        let value = parts.value;
        let (groups, rest) =
            value.get(GROUPS_AT..)?.split_at_checked(u32_at(value, GROUPS_BYTES_AT))?;
        let directory_bytes = u32_at(value, NODES_AT).checked_mul(PLACE_BYTES)?;
        let (nodes, directory) = rest.split_at_checked(rest.len().checked_sub(directory_bytes)?)?;
        Some(Self { parts, groups, nodes, directory, rest: None })
    }

    /// Entries.
    #[must_use]
    pub fn count(&self) -> usize {
        self.parts.len
    }

    /// When it expires, in milliseconds since the epoch; 0 for never.
    #[must_use]
    pub fn expire_at_ms(&self) -> u64 {
        self.parts.meta.expire_at_ms
    }

    /// What OBJECT ENCODING answers.
    #[must_use]
    pub fn encoding(&self) -> Encoding {
        self.parts.encoding
    }

    fn id_at(&self, at: usize) -> StreamId {
        read_id(&self.parts.value[at..]).unwrap_or_default()
    }

    /// Its header, without its entries and groups.
    #[must_use]
    pub fn head(&self) -> Head {
        Head {
            last_id: self.last_id(),
            max_deleted_id: self.max_deleted_id(),
            entries_added: self.entries_added(),
        }
    }

    /// The highest ID ever.
    #[must_use]
    pub fn last_id(&self) -> StreamId {
        self.id_at(LAST_ID_AT)
    }

    /// The highest ID that XDEL has deleted.
    #[must_use]
    pub fn max_deleted_id(&self) -> StreamId {
        self.id_at(MAX_DELETED_AT)
    }

    /// Entries ever added.
    #[must_use]
    pub fn entries_added(&self) -> u64 {
        self.parts.value[ADDED_AT..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }

    /// Number of nodes that contain the entries.
    fn nodes(&self) -> usize {
        self.directory.len() / PLACE_BYTES
    }

    fn node_range(&self, index: usize) -> Range<usize> {
        let place = |index: usize| u32_at(self.directory, index * PLACE_BYTES);
        let end = if index + 1 < self.nodes() { place(index + 1) } else { self.nodes.len() };
        place(index)..end
    }

    fn node(&self, index: usize) -> Option<NodeView<'v>> {
        if index >= self.nodes() {
            return None;
        }
        self.nodes.get(self.node_range(index)).and_then(NodeView::of)
    }

    /// The node that has `id`, if one has: the last that begins at it or before.
    fn node_of(&self, id: StreamId) -> Option<usize> {
        let (mut low, mut high) = (0, self.nodes());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.node(middle)?.first_id <= id { low = middle + 1 } else { high = middle }
        }
        low.checked_sub(1)
    }

    /// Entries from `start` to `end`, both included.
    pub fn range(
        &self,
        start: StreamId,
        end: StreamId,
    ) -> impl Iterator<Item = EntryView<'v>> + use<'v> {
        let view = *self;
        let first = self.node_of(start).unwrap_or(0);
        (first..self.nodes())
            .map_while(move |index| view.node(index))
            .take_while(move |node| node.first_id <= end)
            .flat_map(move |node| {
                let mut entries = node.entries();
                entries.next_from(start).into_iter().chain(entries)
            })
            .take_while(move |entry| entry.id <= end)
            .filter(|entry| !entry.is_deleted)
    }

    /// Like [`Self::range`], but from the last entry to the first.
    pub fn range_back(
        &self,
        start: StreamId,
        end: StreamId,
    ) -> impl Iterator<Item = EntryView<'v>> + use<'v> {
        let view = *self;
        let behind = self.node_of(end).map_or(0, |index| index + 1);
        (0..behind)
            .rev()
            .map_while(move |index| view.node(index))
            .flat_map(|node| {
                let mut entries = Vec::with_capacity(node.entries_all().min(ROOM_AHEAD));
                entries.extend(node.entries());
                entries.reverse();
                entries
            })
            .filter(move |entry| !entry.is_deleted && entry.id <= end)
            .take_while(move |entry| entry.id >= start)
    }

    /// The entry with this ID.
    #[must_use]
    pub fn entry(&self, id: StreamId) -> Option<EntryView<'v>> {
        self.range(id, id).next()
    }

    /// The first entry's ID; 0-0 without any.
    #[must_use]
    pub fn first_id(&self) -> StreamId {
        if let Some(rest) = self.rest {
            return rest.first_id;
        }
        self.range(LOWEST, HIGHEST).next().map_or(LOWEST, |entry| entry.id)
    }

    /// The last entry's ID; 0-0 without any. Of an excerpt that of the entries that it has.
    #[must_use]
    pub fn last_valid_id(&self) -> StreamId {
        let nodes = (0..self.nodes()).rev().map_while(|index| self.node(index));
        nodes.filter_map(|node| node.last_id()).next().unwrap_or(LOWEST)
    }

    /// True when an entry from `start` on may have been deleted out of the middle.
    #[must_use]
    pub fn has_deleted_from(&self, start: StreamId) -> bool {
        let deleted = self.max_deleted_id();
        self.count() > 0 && deleted != LOWEST && start <= deleted && self.first_id() <= deleted
    }

    /// Number of entries added up to this ID, if it is known.
    #[must_use]
    pub fn entries_up_to(&self, id: StreamId) -> Option<u64> {
        let (added, last) = (self.entries_added(), self.last_id());
        if added == 0 {
            return Some(0);
        }
        if self.count() == 0 && id <= last || id == last {
            return Some(added);
        }
        if id > last {
            return None;
        }
        let (first, deleted) = (self.first_id(), self.max_deleted_id());
        if deleted == LOWEST || deleted < first {
            let before = added.wrapping_sub(self.count() as u64);
            if id < first {
                return Some(before);
            }
            if id == first {
                return Some(before.wrapping_add(1));
            }
        }
        None
    }

    /// Number of entries that a group has not read; `None` if unknown.
    #[must_use]
    pub fn lag(&self, group: &Group) -> Option<i64> {
        let added = self.entries_added();
        if added == 0 {
            return Some(0);
        }
        let read = match group.entries_read {
            Some(read) if !self.has_deleted_from(group.last_id) => read,
            _ => self.entries_up_to(group.last_id)?,
        };
        Some(added.wrapping_sub(read) as i64)
    }

    /// Its groups, by name; of an excerpt those that were asked for.
    #[must_use]
    pub fn groups(&self) -> Vec<Group> {
        match self.rest {
            Some(rest) => rest.groups.clone(),
            None => group::read_all(self.groups),
        }
    }

    /// The last delivered ID of the group of this name; `None` without one.
    #[must_use]
    pub fn group_last_id(&self, name: &[u8]) -> Option<StreamId> {
        match self.rest {
            Some(rest) => {
                let mut groups = rest.groups.iter();
                groups.find(|group| group.name == name).map(|group| group.last_id)
            }
            None => group::find_last_id(self.groups, name),
        }
    }

    /// The bytes of its nodes, one after the other.
    pub(in crate::keyspace) fn node_bytes(&self) -> impl Iterator<Item = &'v [u8]> + use<'v> {
        let view = *self;
        (0..view.nodes()).map_while(move |index| view.nodes.get(view.node_range(index)))
    }

    /// A copy to change, with room for `more_bytes`.
    #[must_use]
    pub fn edit(&self, more_bytes: usize) -> StreamEdit {
        let mut bytes = Vec::with_capacity(self.parts.value.len() + more_bytes);
        bytes.extend_from_slice(self.parts.value);
        StreamEdit::of_bytes(bytes, self.parts.len)
    }

    /// As dumps have it.
    #[must_use]
    pub fn to_dumped(&self) -> rdb::Stream {
        let mut entries: Vec<StreamEntry> = Vec::with_capacity(self.count());
        for entry in self.range(LOWEST, HIGHEST) {
            let (mut names, mut values) = (Strings::default(), Strings::default());
            for (name, value) in entry.pairs() {
                names.push(name);
                values.push(value);
            }
            let fields = match entries.last() {
                Some(last) if *last.fields == names => Arc::clone(&last.fields),
                _ => Arc::new(names),
            };
            entries.push(StreamEntry { id: entry.id, fields, values });
        }
        rdb::Stream {
            entries,
            last_id: self.last_id(),
            max_deleted_id: self.max_deleted_id(),
            entries_added: self.entries_added(),
            groups: self.groups().iter().map(Group::to_dumped).collect(),
        }
    }
}

impl StreamView<'_> {
    /// The keys of Redis' radix tree of these nodes, and its nodes: runs of bytes, forks and ends.
    #[must_use]
    pub fn radix_tree(&self) -> (usize, usize) {
        let own = || (0..self.nodes()).filter_map(|index| self.node(index));
        let keys: Vec<[u8; ID_BYTES]> = match self.rest {
            Some(rest) => rest.node_ids.iter().map(|id| id.to_be_bytes()).collect(),
            None => own().map(|node| id::number(node.first_id).to_be_bytes()).collect(),
        };
        (keys.len(), if keys.is_empty() { 1 } else { radix_nodes(&keys, 0) })
    }
}

/// The number of radix-tree nodes of sorted keys that share the bytes before `depth`.
fn radix_nodes(keys: &[[u8; ID_BYTES]], depth: usize) -> usize {
    let (Some(first), Some(last)) = (keys.first(), keys.last()) else { return 0 };
    let common = (depth..ID_BYTES).take_while(|&at| first[at] == last[at]).count();
    let run = usize::from(common > 0);
    let fork = depth + common;
    if fork == ID_BYTES {
        return run + 1;
    }
    let branches = keys.chunk_by(|a, b| a[fork] == b[fork]);
    run + 1 + branches.map(|branch| radix_nodes(branch, fork + 1)).sum::<usize>()
}

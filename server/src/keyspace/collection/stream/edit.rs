//! Streams that are being changed.

use super::node::{self, NewEntry, NodeView};
use super::{
    ADDED_AT, GROUPS_AT, GROUPS_BYTES_AT, Group, Head, LAST_ID_AT, LOWEST, MAX_DELETED_AT,
    NODES_AT, PLACE_BYTES, StreamView, group, id, u32_at,
};
use crate::keyspace::collection::{Edit, Encoding, Parts, Thresholds, empty, set_len, splice};
use crate::value::ValueType;
use sexton_persistence::rdb::{self, StreamId};
use std::ops::Range;

/// What is to be left by a trim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrimTo {
    /// At most this many entries, the last ones.
    Entries(u64),
    /// Those from this ID on.
    From(StreamId),
}

/// How much is to be trimmed.
#[derive(Clone, Copy, Debug)]
pub struct Trim {
    /// What is to be left.
    pub to: TrimTo,
    /// Only whole nodes are removed.
    pub is_rough: bool,
    /// Maximum number of entries to remove; 0 for no limit.
    pub limit: u64,
    /// So many nodes it removes at once, at most, if they have entries.
    pub nodes_max: u64,
}

/// What a trim takes away.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrimPlan {
    /// Number of entries that are removed.
    pub removed: u64,
    /// Number of entries that remain.
    pub left: u64,
    /// Number of nodes that are removed, from the first on.
    pub whole: usize,
    /// Entries removed from the node after those, by the positions of their flags.
    pub within: Vec<usize>,
    /// It has ended at [`Trim::nodes_max`].
    pub is_cut: bool,
}

impl Trim {
    /// Plans the trim of a stream of `entries` entries. `node` returns the stream's nodes by their index.
    ///
    /// # Errors
    /// That of the node that cannot be shown.
    pub fn plan<'v, E>(
        self,
        entries: u64,
        mut node: impl FnMut(usize) -> Result<Option<NodeView<'v>>, E>,
    ) -> Result<TrimPlan, E> {
        let mut plan = TrimPlan { left: entries, ..TrimPlan::default() };
        let is_enough = |left: u64| matches!(self.to, TrimTo::Entries(max) if left <= max);
        while !is_enough(plan.left) {
            // Nodes without entries do not count alone.
            if plan.removed > 0 && plan.whole as u64 >= self.nodes_max {
                plan.is_cut = true;
                break;
            }
            let Some(node) = node(plan.whole)? else { break };
            let live = node.live() as u64;
            if self.limit != 0 && plan.removed + live > self.limit {
                break;
            }
            let goes = match self.to {
                TrimTo::Entries(max) => plan.left.saturating_sub(live) >= max,
                TrimTo::From(id) => node.entries().last().is_none_or(|last| last.id < id),
            };
            if goes {
                plan.left = plan.left.saturating_sub(live);
                plan.removed += live;
                plan.whole += 1;
                continue;
            }
            let stays = |left: u64, id: StreamId| match self.to {
                TrimTo::Entries(_) => is_enough(left),
                TrimTo::From(from) => id >= from,
            };
            for entry in node.entries().take_while(|_| !self.is_rough) {
                if stays(plan.left, entry.id) {
                    break;
                }
                if !entry.is_deleted {
                    plan.within.push(entry.flags_at);
                    plan.left = plan.left.saturating_sub(1);
                    plan.removed += 1;
                }
            }
            break;
        }
        Ok(plan)
    }
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

    /// A stream remains when its last entry is removed.
    fn is_empty(&self) -> bool {
        false
    }
}

impl StreamEdit {
    pub(super) fn of_bytes(bytes: Vec<u8>, len: usize) -> Self {
        Self { bytes, len }
    }

    /// A stream with this head, `len` entries and these groups, but without nodes yet.
    pub(in crate::keyspace) fn without_nodes(head: Head, len: usize, groups: &[u8]) -> Self {
        let mut edit = Self::default();
        edit.bytes[LAST_ID_AT..GROUPS_BYTES_AT].copy_from_slice(&head.to_bytes());
        edit.bytes.extend_from_slice(groups);
        edit.set_u32(GROUPS_BYTES_AT, groups.len());
        edit.set_len(len);
        edit
    }

    /// Lays nodes into a stream that has none yet.
    pub(in crate::keyspace) fn lay_in<'n>(
        &mut self,
        nodes: impl ExactSizeIterator<Item = &'n [u8]> + Clone,
    ) {
        let (nodes_at, directory_bytes) = (self.bytes.len(), nodes.len() * PLACE_BYTES);
        let nodes_bytes: usize = nodes.clone().map(<[u8]>::len).sum();
        self.bytes.reserve(nodes_bytes + directory_bytes);
        let mut directory = Vec::with_capacity(directory_bytes);
        for node in nodes {
            directory.extend_from_slice(&((self.bytes.len() - nodes_at) as u32).to_le_bytes());
            self.bytes.extend_from_slice(node);
        }
        self.bytes.extend_from_slice(&directory);
        self.set_u32(NODES_AT, directory.len() / PLACE_BYTES);
    }

    /// A read-only view of the edited stream.
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
            rest: None,
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

    /// Sets the number of entries that were ever added.
    pub fn set_entries_added(&mut self, added: u64) {
        self.bytes[ADDED_AT..ADDED_AT + 8].copy_from_slice(&added.to_le_bytes());
    }

    /// Replaces the groups by these, which are sorted by name.
    pub fn set_groups(&mut self, groups: &[Group]) {
        let new = group::write_all(groups);
        let old = GROUPS_AT..self.nodes_at();
        splice(&mut self.bytes, old, &new);
        self.set_u32(GROUPS_BYTES_AT, new.len());
    }

    /// Appends an entry, whose ID is above all others. What was ever added and deleted stays as it is.
    fn push(&mut self, entry: &NewEntry<'_>, thresholds: &Thresholds) {
        let (view, nodes_at, end) = (self.view(), self.nodes_at(), self.directory_at());
        let last = view.nodes().checked_sub(1).and_then(|index| view.node(index));
        if let Some(node) = last.filter(|node| node.has_room(entry, thresholds)) {
            let place = nodes_at + view.node_range(view.nodes() - 1).start;
            let (more, size) = node::more(node, entry);
            let (at, counts) = node::counts_with(node, size);
            self.bytes[place + at..place + at + counts.len()].copy_from_slice(&counts);
            splice(&mut self.bytes, end..end, &more);
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

    /// Marks entries of a node, which has others, as deleted.
    fn mark_deleted(&mut self, index: usize, flags_at: &[usize]) {
        let view = self.view();
        let Some(node) = view.node(index) else { return };
        let (at, counts) = node::counts_without(node, flags_at.len());
        let place = self.nodes_at() + view.node_range(index).start;
        self.bytes[place + at..place + at + counts.len()].copy_from_slice(&counts);
        for flags_at in flags_at {
            let flags = &mut self.bytes[place + flags_at];
            *flags = node::deleted_flags(*flags);
        }
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
            let flags_at = entry.flags_at;
            self.mark_deleted(index, &[flags_at]);
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
        let node = |index| Ok::<_, std::convert::Infallible>(view.node(index));
        let Ok(plan) = trim.plan(self.len as u64, node);
        if !plan.within.is_empty() {
            self.mark_deleted(plan.whole, &plan.within);
        }
        self.remove_nodes(0..plan.whole);
        self.set_len(plan.left as usize);
        plan.removed
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

//! Excerpt of a stream that is not stored in one record: the part that a command needs.

use super::head::Head;
use super::{Group, StreamEdit, StreamView};
use sexton_persistence::rdb::StreamId;

/// Requested entries: those from `start` to `end`, both included, and at most `most` of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// From this ID on.
    pub start: StreamId,
    /// Up to this one.
    pub end: StreamId,
    /// Maximum number of entries.
    pub most: usize,
    /// The last ones instead of the first.
    pub is_back: bool,
}

/// What an excerpt knows of the whole stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rest {
    /// The first entry's ID; 0-0 if it was not requested.
    pub first_id: StreamId,
    /// The groups that were asked for, by name.
    pub groups: Vec<Group>,
    /// The first IDs of its nodes; empty if they were not requested.
    pub node_ids: Vec<u128>,
}

/// A stream of which only some nodes are loaded: the requested entries and their neighbours.
#[derive(Clone, Debug)]
pub struct Excerpt {
    edit: StreamEdit,
    rest: Rest,
}

impl Excerpt {
    /// An excerpt without entries: they are to be [laid in](Self::lay_in).
    pub(in crate::keyspace) fn new(head: Head, entries: usize, rest: Rest) -> Self {
        Self { edit: StreamEdit::without_nodes(head, entries, &[]), rest }
    }

    /// The groups that were asked for, by name.
    #[must_use]
    pub fn groups(&self) -> &[Group] {
        &self.rest.groups
    }

    pub(in crate::keyspace) fn lay_in<'n>(
        &mut self,
        nodes: impl ExactSizeIterator<Item = &'n [u8]> + Clone,
    ) {
        self.edit.lay_in(nodes);
    }

    /// A view that is read like the stream. Entries that were not requested may be present or not.
    #[must_use]
    pub fn view(&self) -> StreamView<'_> {
        StreamView { rest: Some(&self.rest), ..self.edit.view() }
    }
}

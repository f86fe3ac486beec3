//! What a command needs of a stream that does not lie in one record.

use super::id::{ID_BYTES, push_id, read_id};
use super::{StreamEdit, StreamView};
use sexton_engine::page::descriptor::STREAM_TAIL_BYTES;
use sexton_persistence::rdb::StreamId;

/// What a stream says of itself, besides its entries and groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The highest ID ever.
    pub last_id: StreamId,
    /// The highest ID that XDEL has deleted.
    pub max_deleted_id: StreamId,
    /// Entries ever added.
    pub entries_added: u64,
}

impl Head {
    /// As it stands in a record: the IDs, u128 LE each, and the count, u64 LE.
    #[must_use]
    pub fn to_bytes(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(STREAM_TAIL_BYTES);
        push_id(&mut bytes, self.last_id);
        push_id(&mut bytes, self.max_deleted_id);
        bytes.extend_from_slice(&self.entries_added.to_le_bytes());
        bytes
    }

    /// `None` for too few bytes.
    #[must_use]
    pub fn of_bytes(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            last_id: read_id(bytes)?,
            max_deleted_id: read_id(bytes.get(ID_BYTES..)?)?,
            entries_added: u64::from_le_bytes(*bytes.get(2 * ID_BYTES..)?.first_chunk()?),
        })
    }
}

/// Entries that are asked for: those from `start` to `end`, both included, and no more than `most` of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// From this ID on.
    pub start: StreamId,
    /// Up to this one.
    pub end: StreamId,
    /// At most so many.
    pub most: usize,
    /// The last ones instead of the first.
    pub is_back: bool,
}

/// What an excerpt knows of the whole stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rest {
    /// The first entry's ID.
    pub first_id: StreamId,
    /// The last entry's ID.
    pub last_id: StreamId,
    /// The IDs that its nodes begin with; none where nobody has asked.
    pub node_ids: Vec<u128>,
}

/// A stream of which only some nodes are here: the entries that were asked for, and their neighbours.
#[derive(Clone, Debug)]
pub struct Excerpt {
    edit: StreamEdit,
    rest: Rest,
}

impl Excerpt {
    /// One without entries: they are to be [laid in](Self::lay_in).
    pub(in crate::keyspace) fn new(head: Head, entries: usize, groups: &[u8], rest: Rest) -> Self {
        Self { edit: StreamEdit::without_nodes(head, entries, groups), rest }
    }

    pub(in crate::keyspace) fn lay_in<'n>(&mut self, nodes: impl Iterator<Item = &'n [u8]>) {
        self.edit.lay_in(nodes);
    }

    /// It is read as the stream is. Entries that nobody has asked for may be there or not.
    #[must_use]
    pub fn view(&self) -> StreamView<'_> {
        StreamView { rest: Some(&self.rest), ..self.edit.view() }
    }
}

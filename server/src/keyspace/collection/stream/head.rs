//! The header of a stream, stored in its record or in the root of its pages.

use super::id::{ID_BYTES, push_id, read_id};
use sexton_engine::page::descriptor::STREAM_TAIL_BYTES;
use sexton_persistence::rdb::StreamId;

/// The header of a stream, without its entries and groups.
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
    /// The encoding in a record: the IDs, u128 LE each, and the count, u64 LE.
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

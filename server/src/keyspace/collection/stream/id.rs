//! IDs of entries.

use sexton_persistence::rdb::StreamId;

/// The lowest ID; no entry has it.
pub const LOWEST: StreamId = StreamId { ms: 0, seq: 0 };
/// The highest ID.
pub const HIGHEST: StreamId = StreamId { ms: u64::MAX, seq: u64::MAX };

/// Bytes of an ID in a record.
pub(super) const ID_BYTES: usize = 16;

/// `ms-seq`.
#[must_use]
pub fn id_text(id: StreamId) -> String {
    let (mut ms, mut seq) = (itoa::Buffer::new(), itoa::Buffer::new());
    [ms.format(id.ms), "-", seq.format(id.seq)].concat()
}

/// Both halves in one.
pub(in crate::keyspace) fn number(id: StreamId) -> u128 {
    u128::from(id.ms) << 64 | u128::from(id.seq)
}

/// The ID whose halves are in one.
pub(in crate::keyspace) fn of_number(number: u128) -> StreamId {
    StreamId { ms: (number >> 64) as u64, seq: number as u64 }
}

/// The ID after `id`; `None` after the highest.
#[must_use]
pub fn id_after(id: StreamId) -> Option<StreamId> {
    number(id).checked_add(1).map(of_number)
}

/// The ID before `id`; `None` before the lowest.
#[must_use]
pub fn id_before(id: StreamId) -> Option<StreamId> {
    number(id).checked_sub(1).map(of_number)
}

pub(super) fn push_id(out: &mut Vec<u8>, id: StreamId) {
    out.extend_from_slice(&number(id).to_le_bytes());
}

pub(super) fn write_id(out: &mut [u8], id: StreamId) {
    out[..ID_BYTES].copy_from_slice(&number(id).to_le_bytes());
}

pub(super) fn read_id(bytes: &[u8]) -> Option<StreamId> {
    bytes.first_chunk().map(|bytes| of_number(u128::from_le_bytes(*bytes)))
}

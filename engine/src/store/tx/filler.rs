//! How the staged records of a commit come into the active memtable.

use crate::memtable::Room;

/// Puts the records of one commit into the room that was reserved for them.
pub(in crate::store) trait Filler {
    /// Bytes of room that it needs beside the records. Is told of each staged operation whether it has one.
    fn bytes_beside(&mut self, _have_records: impl Iterator<Item = bool>) -> usize {
        0
    }

    /// Puts the record of an operation, by its number, at the start of `room`, which is what is left then.
    #[inline]
    fn fill(&self, room: &mut Room, record: &[u8], _operation: usize) {
        room.split_to(record.len()).bytes().copy_from_slice(record);
    }
}

/// They follow each other in the arena.
pub(super) struct Plain;

impl Filler for Plain {}

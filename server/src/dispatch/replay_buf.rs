//! What a replay of the log uses again and again.

use crate::resp::{Batch, Reply};

/// Buffers that one group of the log uses after the other.
#[derive(Default)]
pub(super) struct ReplayBuf {
    pub(super) group: Vec<u8>,
    pub(super) batch: Batch,
    /// Of its last command.
    pub(super) reply: Reply,
}

/// Buffers above this are given back after a group with large values.
pub(super) const KEEP_BYTES: usize = 1 << 20;

impl ReplayBuf {
    /// Empty, for the next group.
    pub(super) fn emptied(mut self) -> Self {
        self.group.clear();
        self.group.shrink_to(KEEP_BYTES);
        self.batch.clear();
        self
    }
}

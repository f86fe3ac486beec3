//! What a write takes out of the table, for a caller that may restore it.

use super::entry::{Entry, EntryRef};
use super::large::LargeBlock;
use crate::key::Meta;

/// What a write finds in a key's place and is about to replace or remove.
pub(crate) enum Replaced<'a> {
    /// The key had no entry.
    Nothing,
    /// An entry whose memory is reused: a caller that wants its value copies it now.
    Entry(EntryRef<'a>),
    /// A large entry, taken out with its memory.
    Block(Displaced),
}

/// A large entry that left its table with its memory.
pub(crate) struct Displaced {
    entry: Entry,
    _block: LargeBlock,
}

// SAFETY: no table points into its memory any more, of which it has a count.
#[allow(unsafe_code)]
unsafe impl Send for Displaced {}

impl Displaced {
    /// `block` is that of `entry`, which holds no count of a shared value; no other handle of it is used any more.
    pub(super) fn new(entry: Entry, block: LargeBlock) -> Self {
        Self { entry, _block: block }
    }

    /// The value's bytes.
    pub(crate) fn value(&self) -> &[u8] {
        self.entry.value()
    }

    /// Flags and expiry.
    pub(crate) fn meta(&self) -> Meta {
        self.entry.meta()
    }

    /// Generation of the memtable that holds its last change.
    pub(crate) fn generation(&self) -> u8 {
        self.entry.generation()
    }

    /// The 24-bit access field.
    pub(crate) fn access(&self) -> u32 {
        self.entry.access()
    }
}

//! What a write takes out of the table, for a caller that may restore it.
#![allow(unsafe_code)]

use super::entry::{Entry, EntryRef};
use crate::key::Meta;
use std::alloc::Layout;

/// What a write finds in a key's place and is about to replace or remove.
pub(crate) enum Replaced<'a> {
    /// The key had no entry.
    Nothing,
    /// An entry whose memory is reused: a caller that wants its value copies it now.
    Entry(EntryRef<'a>),
    /// A large entry, taken out with its memory.
    Block(Displaced),
}

/// A large entry that left its table with its memory, which is freed on drop.
pub(crate) struct Displaced {
    entry: Entry,
    start: std::ptr::NonNull<u8>,
    layout: Layout,
}

// SAFETY: it owns its memory alone; no table points into it any more.
unsafe impl Send for Displaced {}

impl Displaced {
    /// # Safety
    /// `start` was allocated with `layout` and holds `entry`, which holds no count of a shared value; no other handle of it is used
    /// any more.
    pub(super) unsafe fn new(entry: Entry, start: std::ptr::NonNull<u8>, layout: Layout) -> Self {
        Self { entry, start, layout }
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

impl Drop for Displaced {
    fn drop(&mut self) {
        // SAFETY: by the promise at `new`.
        unsafe { std::alloc::dealloc(self.start.as_ptr(), self.layout) };
    }
}

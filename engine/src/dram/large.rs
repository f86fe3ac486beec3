//! Blocks of large entries. One outlives its entry while somebody holds its value, or may bring the entry back.
#![allow(unsafe_code)]

use super::entry::Entry;
use crate::counts::Counts;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// What precedes an entry in its block.
#[repr(C, align(8))]
struct Head {
    /// Its index in the list of large entries.
    index: u32,
    counts: Counts,
}

/// Bytes of a block before the entry.
pub(super) const HEAD_BYTES: usize = size_of::<Head>();

/// One count of a block.
#[derive(Debug)]
pub(crate) struct LargeBlock {
    head: NonNull<Head>,
    bytes: usize,
}

// SAFETY: the counts are atomic; the index is read and written under the latch of the table alone, and the entry changes as the table
// says.
unsafe impl Send for LargeBlock {}

fn layout_of(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, align_of::<Head>()).expect("an entry stays below 16 GiB")
}

impl LargeBlock {
    /// A new block, with its first count.
    pub(super) fn allocate(bytes: usize, index: usize) -> Self {
        assert!(bytes >= HEAD_BYTES, "a block of {bytes} bytes");
        let layout = layout_of(bytes);
        // SAFETY: the layout has at least the head.
        let start = unsafe { alloc(layout) };
        let Some(head) = NonNull::new(start.cast::<Head>()) else { handle_alloc_error(layout) };
        // SAFETY: the block is new, aligned for a head, and has room for it.
        unsafe { head.write(Head { index: index as u32, counts: Counts::one() }) };
        Self { head, bytes }
    }

    /// The count of an entry.
    ///
    /// # Safety
    /// The entry is in a block of `bytes` that was [allocated](Self::allocate) here; that count is held by nobody else, or this one is
    /// never dropped.
    pub(super) unsafe fn of(entry: Entry, bytes: usize) -> Self {
        // SAFETY: the head precedes the entry.
        Self { head: unsafe { entry.block().sub(HEAD_BYTES).cast() }, bytes }
    }

    /// Where the entry is.
    pub(super) fn entry_place(&self) -> NonNull<u8> {
        // SAFETY: it follows the head in the same block.
        unsafe { self.head.cast::<u8>().add(HEAD_BYTES) }
    }

    fn counts(&self) -> &Counts {
        // SAFETY: a count keeps the block; nobody makes a reference to all of the head.
        unsafe { &(*self.head.as_ptr()).counts }
    }

    /// The index of the entry. Under the latch of its table.
    pub(super) fn index(&self) -> usize {
        // SAFETY: as above.
        unsafe { (*self.head.as_ptr()).index as usize }
    }

    /// Changes the index. Under the latch of its table.
    pub(super) fn set_index(&self, index: usize) {
        // SAFETY: as above.
        unsafe { (*self.head.as_ptr()).index = index as u32 };
    }

    /// True when there are other counts. Under the latch, where they are made; without, the block is as all others have left it.
    pub(super) fn is_held(&self) -> bool {
        !self.counts().is_one()
    }
}

impl Clone for LargeBlock {
    fn clone(&self) -> Self {
        self.counts().add();
        Self { head: self.head, bytes: self.bytes }
    }
}

impl Drop for LargeBlock {
    fn drop(&mut self) {
        if self.counts().give_up() {
            // SAFETY: it was allocated with this layout, and this was the last count.
            unsafe { dealloc(self.head.cast::<u8>().as_ptr(), layout_of(self.bytes)) };
        }
    }
}

/// The value of a large entry, which is not changed while this is there.
#[derive(Debug)]
pub(crate) struct LargeValue {
    value: NonNull<[u8]>,
    _block: LargeBlock,
}

// SAFETY: nobody changes the bytes, which the block keeps.
unsafe impl Send for LargeValue {}

impl LargeValue {
    /// # Safety
    /// `block` is that of the entry, whose value is in it.
    pub(super) unsafe fn new(entry: Entry, block: LargeBlock) -> Self {
        Self { value: NonNull::from(entry.value()), _block: block }
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: they are in the block, of which this has a count: the table overwrites no block that has others (`Slab::fits_in_place`).
        unsafe { self.value.as_ref() }
    }
}

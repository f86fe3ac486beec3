//! What a transaction changes in place, with what was there, so that it can be taken back.
#![allow(unsafe_code)]

use super::guards::Guards;
use crate::shared_value::{Epoch, SharedValue};
use std::ops::Range;

/// One change of a block.
struct Edit {
    block: SharedValue,
    at: usize,
    new_len: usize,
    /// Range in `Edits::bytes` of the previous bytes.
    old: Range<usize>,
}

/// The changes of blocks in place, in order.
#[derive(Default)]
pub(super) struct Edits {
    list: Vec<Edit>,
    bytes: Vec<u8>,
}

impl Edits {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// Forgets all; gives a buffer of more than `keep_bytes` back.
    pub(super) fn reset(&mut self, keep_bytes: usize) {
        self.list.clear();
        self.bytes.clear();
        if self.bytes.capacity() > keep_bytes {
            self.bytes = Vec::new();
        }
    }

    /// Replaces the bytes in `range` of a block by `new`, in its epoch (E1); the bytes behind move. False, without a change, if the
    /// block is not of the present epoch or has no room. Only holders of the latch of `root_hash` may read the block.
    ///
    /// # Panics
    /// Without that latch.
    pub(super) fn splice(
        &mut self,
        (latches, root_hash): (&mut Guards<'_>, u64),
        (block, epoch): (&SharedValue, Epoch),
        range: Range<usize>,
        new: &[u8],
    ) -> bool {
        // Whoever has it alone sees the block's bytes, and no look at them outlives this borrow of all that it holds.
        let _ = latches.shard(root_hash);
        if !block.is_of(epoch) {
            return false;
        }
        let at = self.bytes.len();
        self.bytes.extend_from_slice(&block.bytes()[range.clone()]);
        // SAFETY: the latch is held, and no memtable reader has seen the block: its epoch lasts (E2).
        if !unsafe { block.splice(range.clone(), new) } {
            self.bytes.truncate(at);
            return false;
        }
        let old = at..self.bytes.len();
        let block = block.clone();
        self.list.push(Edit { block, at: range.start, new_len: new.len(), old });
        true
    }

    /// Undoes those from the `from`th on, the last one first. The latch of what was changed is held since.
    pub(super) fn take_back(&mut self, _latches: &mut Guards<'_>, from: usize) {
        while self.list.len() > from
            && let Some(edit) = self.list.pop()
        {
            // SAFETY: as in `splice`: the latch and with it the epoch have lasted.
            let done = unsafe {
                edit.block.splice(edit.at..edit.at + edit.new_len, &self.bytes[edit.old.clone()])
            };
            debug_assert!(done, "what was there before had room");
            self.bytes.truncate(edit.old.start);
        }
    }
}

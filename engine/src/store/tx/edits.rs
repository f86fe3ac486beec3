//! What a transaction changes in place, with what was there, so that it can be taken back.
#![allow(unsafe_code)]

use super::guards::Guards;
use crate::shared_value::{Epoch, SharedValue};
use std::ops::Range;

/// Blocks above this size keep only what an edit replaces.
const KEPT_BLOCK_MAX_BYTES: usize = 4096;

/// With more bytes kept, further edits keep only what they replace: a long transaction must not copy a page a change.
const KEPT_MAX_BYTES: usize = 256 << 10;

/// One change of a block.
struct Edit {
    block: SharedValue,
    at: usize,
    new_len: usize,
    /// Range in `Edits::bytes` of the previous bytes.
    old: Range<usize>,
    /// What was there is the whole block, and further edits of it may be part of this one.
    keeps_all: bool,
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
        if self.keeps(block) {
            return self.splice_kept(range, new);
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
        let (at, new_len) = (range.start, new.len());
        self.list.push(Edit { block, at, new_len, old, keeps_all: false });
        true
    }

    /// Keeps all bytes of a small block, so that the edits of it that follow at once need not keep theirs.
    pub(super) fn keep_all(&mut self, block: &SharedValue) {
        let at = self.bytes.len();
        if self.keeps(block) || block.bytes().len() > KEPT_BLOCK_MAX_BYTES || at > KEPT_MAX_BYTES {
            return;
        }
        self.bytes.extend_from_slice(block.bytes());
        let (old, new_len) = (at..self.bytes.len(), block.bytes().len());
        self.list.push(Edit { block: block.clone(), at: 0, new_len, old, keeps_all: true });
    }

    /// True when the last edit keeps all of this block.
    fn keeps(&self, block: &SharedValue) -> bool {
        self.list.last().is_some_and(|last| last.keeps_all && last.block.is(block))
    }

    /// Changes the block of the last edit, which keeps all that was there. The latch is held, and the epoch is the block's.
    fn splice_kept(&mut self, range: Range<usize>, new: &[u8]) -> bool {
        let Some(last) = self.list.last_mut() else { return false };
        // SAFETY: as in `splice`, whose conditions hold.
        let done = unsafe { last.block.splice(range, new) };
        last.new_len = last.block.bytes().len();
        done
    }

    /// What keeps all of a block is complete: what changes it from here on belongs to another operation.
    pub(super) fn seal(&mut self) {
        if let Some(last) = self.list.last_mut() {
            last.keeps_all = false;
        }
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

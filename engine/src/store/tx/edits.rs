//! What a transaction changes in place, with what was there, so that it can be taken back.
#![allow(unsafe_code)]

use super::guards::Guards;
use crate::dram::EntryRef;
use crate::shared_value::{Epoch, SharedValue};
use std::ops::Range;

/// Blocks above this size keep only what an edit replaces.
const KEPT_BLOCK_MAX_BYTES: usize = 4096;

/// With more bytes kept, further edits keep only what they replace: a long transaction must not copy a page a change.
const KEPT_MAX_BYTES: usize = 256 << 10;

/// Bytes at the beginning of a value that change with any change of it: counts of elements.
const CHANGING_BYTES: usize = 16;

/// A block that is changed again is looked for among this many that are held.
const HELD_REACH: usize = 8;

/// The latches that are held, and the hash of the key whose latch guards a block.
pub(super) type Latches<'l, 'e> = (&'l mut Guards<'e>, u64);

/// A block that edits change: held once for those of a transaction, since counting holders costs as much as a small edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held(usize);

/// One change of a block.
struct Edit {
    block: Held,
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
    blocks: Vec<SharedValue>,
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
        self.blocks.clear();
        self.bytes.clear();
        if self.bytes.capacity() > keep_bytes {
            self.bytes = Vec::new();
        }
    }

    /// The block of an entry, if it is one of those that are held, among the last few: what follows an operation in its transaction
    /// mostly changes the same ones.
    #[inline]
    pub(super) fn held_of(&self, entry: &EntryRef<'_>) -> Option<Held> {
        let near = self.blocks.len().saturating_sub(HELD_REACH);
        entry.shared_among(&self.blocks[near..]).map(|at| Held(near + at))
    }

    /// Holds a block that is about to be changed.
    #[inline]
    pub(super) fn hold(&mut self, block: SharedValue) -> Held {
        self.blocks.push(block);
        Held(self.blocks.len() - 1)
    }

    /// How many blocks are held.
    #[inline]
    pub(super) fn held(&self) -> usize {
        self.blocks.len()
    }

    /// Lets go of the blocks that no edit names: all but the first `before`, which were there before it.
    #[inline]
    pub(super) fn let_go(&mut self, before: usize) {
        debug_assert!(self.list.iter().all(|edit| edit.block.0 < before));
        self.blocks.truncate(before);
    }

    /// A block that is held.
    #[inline]
    pub(super) fn block(&self, held: Held) -> &SharedValue {
        &self.blocks[held.0]
    }

    /// Replaces the bytes in `range` of a block by `new`, in its epoch (E1); the bytes behind move. False, without a change, if the
    /// block is not of the present epoch or has no room. Only holders of the latch of `root_hash` may read the block.
    ///
    /// # Panics
    /// Without that latch.
    pub(super) fn splice(
        &mut self,
        (latches, root_hash): Latches<'_, '_>,
        (held, epoch): (Held, Epoch),
        range: Range<usize>,
        new: &[u8],
    ) -> bool {
        if self.keeps(held) {
            return self.splice_kept(range, new);
        }
        // Whoever has it alone sees the block's bytes, and no look at them outlives this borrow of all that it holds.
        let _ = latches.shard(root_hash);
        let block = &self.blocks[held.0];
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
        let (at, new_len) = (range.start, new.len());
        self.list.push(Edit { block: held, at, new_len, old, keeps_all: false });
        true
    }

    /// As [`Self::splice`], for all bytes of a block: only those that differ are written, and kept.
    pub(super) fn replace(
        &mut self,
        (latches, root_hash): Latches<'_, '_>,
        (held, epoch): (Held, Epoch),
        new: &[u8],
    ) -> bool {
        let _ = latches.shard(root_hash);
        let block = &self.blocks[held.0];
        if !block.is_of(epoch) || new.len() > block.held_bytes() {
            return false;
        }
        let old = block.bytes();
        let head = CHANGING_BYTES.min(old.len()).min(new.len());
        let (first, second) =
            (differing(&old[..head], &new[..head]), differing(&old[head..], &new[head..]));
        let behind = |range: Range<usize>| range.start + head..range.end + head;
        let second = (behind(second.0), behind(second.1));
        if !first.0.is_empty() {
            self.splice((latches, root_hash), (held, epoch), first.0, &new[first.1]);
        }
        // Without a difference, too, an operation was logged, and counts (E3).
        self.splice((latches, root_hash), (held, epoch), second.0, &new[second.1])
    }

    /// Puts `new` in place of all bytes of a block, of which an edit keeps those that were there before. False, without a change, if it is
    /// not of the present epoch, or has not as many bytes.
    pub(super) fn write_over(
        &mut self,
        (latches, root_hash): Latches<'_, '_>,
        (held, epoch): (Held, Epoch),
        new: &[u8],
    ) -> bool {
        let _ = latches.shard(root_hash);
        let block = &self.blocks[held.0];
        // Whoever takes that edit back finds as many bytes as it has left.
        if !block.is_of(epoch) || block.bytes().len() != new.len() {
            return false;
        }
        // SAFETY: as in `splice`.
        unsafe { block.splice(0..new.len(), new) }
    }

    /// Keeps all bytes of a small block, so that the edits of it that follow at once need not keep theirs, nor ask again
    /// whether they may change it.
    ///
    /// # Panics
    /// As [`Self::splice`].
    pub(super) fn keep_all(
        &mut self,
        (latches, root_hash): Latches<'_, '_>,
        (held, epoch): (Held, Epoch),
    ) {
        let _ = latches.shard(root_hash);
        let (at, block) = (self.bytes.len(), &self.blocks[held.0]);
        if !block.is_of(epoch)
            || self.keeps(held)
            || block.bytes().len() > KEPT_BLOCK_MAX_BYTES
            || at > KEPT_MAX_BYTES
        {
            return;
        }
        self.bytes.extend_from_slice(block.bytes());
        let (old, new_len) = (at..self.bytes.len(), block.bytes().len());
        self.list.push(Edit { block: held, at: 0, new_len, old, keeps_all: true });
    }

    /// True when the last edit keeps all of this block.
    fn keeps(&self, block: Held) -> bool {
        self.list.last().is_some_and(|last| last.keeps_all && last.block == block)
    }

    /// Changes the block of the last edit, which keeps [all](Self::keep_all) that was there.
    fn splice_kept(&mut self, range: Range<usize>, new: &[u8]) -> bool {
        let Some(last) = self.list.last_mut() else { return false };
        let block = &self.blocks[last.block.0];
        // SAFETY: as in `splice`, whose conditions were checked when it was kept: the latch and with it the epoch have lasted.
        let done = unsafe { block.splice(range, new) };
        last.new_len = block.bytes().len();
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
                self.blocks[edit.block.0]
                    .splice(edit.at..edit.at + edit.new_len, &self.bytes[edit.old.clone()])
            };
            debug_assert!(done, "what was there before had room");
            self.bytes.truncate(edit.old.start);
        }
    }
}

/// Where `old` and `new` differ: behind what both begin with, and before what both end with.
fn differing(old: &[u8], new: &[u8]) -> (Range<usize>, Range<usize>) {
    let start = common_start(old, new);
    let end = common_end(&old[start..], &new[start..]);
    (start..old.len() - end, start..new.len() - end)
}

/// Bytes that are compared in one step.
const STEP: usize = 32;

/// Bytes that both begin with.
fn common_start(a: &[u8], b: &[u8]) -> usize {
    let steps = a.as_chunks::<STEP>().0.iter().zip(b.as_chunks::<STEP>().0);
    let at = steps.take_while(|(a, b)| a == b).count() * STEP;
    at + a[at..].iter().zip(&b[at..]).take_while(|(a, b)| a == b).count()
}

/// Bytes that both end with.
fn common_end(a: &[u8], b: &[u8]) -> usize {
    let steps = a.as_rchunks::<STEP>().1.iter().rev().zip(b.as_rchunks::<STEP>().1.iter().rev());
    let bytes = steps.take_while(|(a, b)| a == b).count() * STEP;
    let (a, b) = (&a[..a.len() - bytes], &b[..b.len() - bytes]);
    bytes + a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_between_what_is_common() {
        let old: Vec<u8> = (0..200).collect();
        for (range, new) in [(0..0, 3), (0..1, 0), (40..90, 7), (199..200, 1), (200..200, 90)] {
            let mut changed = old.clone();
            changed.splice(range.clone(), vec![255; new]);
            assert_eq!(differing(&old, &changed), (range.clone(), range.start..range.start + new));
        }
        assert_eq!(differing(&old, &old), (200..200, 200..200));
        assert_eq!(differing(b"", b"ab"), (0..0, 0..2));
        assert_eq!(differing(b"aaa", b"aa"), (2..3, 2..2), "what both begin with comes first");
    }
}

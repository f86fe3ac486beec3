//! The root of a collection in pages, as the last operation of a transaction has left it.
//!
//! Operations that follow one another on a collection each read its descriptor and write it anew. Here it stays decoded, and a block that
//! this transaction has changed already, whose previous bytes are kept, is written over: the operation gets no entry of its own among the
//! staged ones, and nothing to undo.

use super::Tx;
use super::edits::{Edits, Held};
use crate::key::{Key, Meta};
use crate::page::Descriptor;

/// A root whose block was changed in place by the operation that was staged last.
///
/// It is that of the key that was [found](super::buf::TxBuf::located) last.
pub(super) struct LeftRoot {
    meta: Meta,
    descriptor: Descriptor,
    block: Held,
    /// Operations that were staged then. With one more it may be another.
    staged: usize,
}

impl Tx<'_> {
    /// Flags and expiry of the root of a collection in pages, and what it says, if this transaction has just written it: a look-up would show
    /// the same. `None` says nothing.
    #[inline]
    pub fn left_root(&mut self, key: Key<'_>) -> Option<(Meta, &Descriptor)> {
        self.seen(key)?;
        let left = self.buf.left.as_ref()?;
        if left.staged != self.buf.operations.len() {
            return None;
        }
        // As a look-up counts.
        self.guards.shard(key.hash).reads.hits += 1;
        Some((left.meta, &left.descriptor))
    }

    /// Writes over a root that this transaction has just written: one operation. False, and nothing is written, of any other, and where pages
    /// were staged since.
    #[inline]
    pub(super) fn put_over(&mut self, root: Key<'_>, meta: Meta, descriptor: &Descriptor) -> bool {
        let (is_seen, epoch) = (self.seen(root).is_some(), self.engine.epoch());
        let meta = Meta { flags: meta.flags & Meta::FLAGS_MASK, ..meta };
        let buf = &mut *self.buf;
        let Some(left) = &mut buf.left else { return false };
        let is_left = is_seen
            && left.staged == buf.operations.len()
            && left.meta == meta
            && left.descriptor.collection == descriptor.collection;
        let (latches, block) = ((&mut self.guards, root.hash), (left.block, epoch));
        let edits = &mut buf.journal.edits;
        if !is_left || !edits.write_over(latches, block, &descriptor.encoded()) {
            return false;
        }
        left.descriptor.clone_from(descriptor);
        buf.merged += 1;
        self.operations += 1;
        true
    }

    /// The root has been changed in its block, by the operation that was staged last.
    #[inline]
    pub(super) fn note_left(&mut self, root: Key<'_>, descriptor: &Descriptor) {
        let Some(at) = self.seen(root) else { return };
        let entry = self.guards.shard(root.hash).table.entry(at);
        let edits: &Edits = &self.buf.journal.edits;
        let Some(block) = edits.held_of(&entry) else { return };
        let meta = entry.meta();
        let staged = self.buf.operations.len();
        let descriptor = descriptor.clone();
        self.buf.left = Some(LeftRoot { meta, descriptor, block, staged });
    }
}

//! Values of roots that change in place: descriptors, and what is written whole but differs little from what was there.
//!
//! Such a value is in a block that the DRAM table shares with the memtable. The first change in an epoch makes the block and puts its
//! record, later ones change the block (E1, E3).

use super::Tx;
use super::buf::{Operation, Staged};
use super::edits::{Edits, Held, Latches};
use super::left_root::LeftRoot;
use crate::dram::Located;
use crate::key::{Key, Meta};
use crate::page::Descriptor;
use crate::shared_value::{Epoch, OwnBlock, Value};
use crate::store::engine::Engine;
use crate::store::namespace;
use std::ops::Range;

/// Bytes of a value from which on it gets a block when it is edited. A shorter one is copied in less time than its block takes.
const EDITED_MIN_BYTES: usize = 512;

impl Engine {
    /// The epoch in which blocks are changed in place (E2).
    pub(super) fn epoch(&self) -> Epoch {
        let inner = self.inner();
        inner.order.epoch(inner.views.epoch())
    }
}

impl Tx<'_> {
    /// As [`Tx::put`], for a value of which most is what the key has already: a collection in one record, a string that is edited. Where it
    /// is long, only what differs is written.
    pub fn put_edited(&mut self, key: Key<'_>, meta: Meta, value: &[u8]) {
        let epoch = self.epoch_of_edits(meta, value.len());
        let Some((at, epoch)) = self.locate(key).zip(epoch) else {
            return self.put(key, meta, value);
        };
        let change = |edits: &mut Edits, latches: Latches<'_, '_>, block: Held| {
            edits.replace(latches, (block, epoch), value)
        };
        self.put_changed((key, at), meta, change, |old| {
            let block = if old.len() < value.len() { OwnBlock::new } else { OwnBlock::snug };
            block(value, epoch)
        });
    }

    /// As [`Tx::put_edited`], for a value of which this range alone changes. False, and nothing is written, where it must be put whole: it is
    /// short, or not in memory.
    ///
    /// # Panics
    /// Where the value ends before the range.
    pub fn put_part(
        &mut self,
        key: Key<'_>,
        meta: Meta,
        (range, new): (Range<usize>, &[u8]),
    ) -> bool {
        let Some(at) = self.locate(key) else { return false };
        let old_len = self.guards.shard(key.hash).table.entry(at).value().len();
        let len = old_len - range.len() + new.len();
        let Some(epoch) = self.epoch_of_edits(meta, len) else { return false };
        let change = |edits: &mut Edits, latches: Latches<'_, '_>, block: Held| {
            edits.splice(latches, (block, epoch), range.clone(), new)
        };
        self.put_changed((key, at), meta, change, |old| {
            if len > old_len {
                return OwnBlock::outgrown(old, (range.clone(), new), epoch, 0);
            }
            let mut block = OwnBlock::snug(old, epoch);
            block.splice(range.clone(), new, 0);
            block
        });
        true
    }

    /// One operation: `change` changes the block of a root, or `make` makes another one of its value.
    fn put_changed(
        &mut self,
        (root, at): (Key<'_>, Located),
        meta: Meta,
        change: impl FnOnce(&mut Edits, Latches<'_, '_>, Held) -> bool,
        make: impl FnOnce(&[u8]) -> OwnBlock,
    ) {
        let meta = Meta { flags: meta.flags & Meta::FLAGS_MASK, ..meta };
        self.buf.journal.edits.seal();
        let edits_before = self.buf.journal.edits.len();
        if self.edit_root((root, meta), edits_before, change) {
            return;
        }
        let block = make(self.guards.shard(root.hash).table.entry(at).value());
        self.bury_replaced(root, None);
        let access = self.engine.inner().write.access_now();
        self.put_block(root, meta, block, access);
    }

    /// The epoch in which a value of so many bytes that is edited may change in place: `None` where it is short, where its elements are
    /// due, and in a store that changes nothing in place.
    pub(super) fn epoch_of_edits(&self, meta: Meta, len: usize) -> Option<Epoch> {
        let may_change =
            len >= EDITED_MIN_BYTES && !meta.has_due_elements() && self.engine.takes_pages();
        may_change.then(|| self.engine.epoch()).filter(|epoch| *epoch != Epoch::NEVER)
    }

    /// Changes the value of a root in its block, if it has these flags and this expiry, and a block that `change` can change: one
    /// operation, without a record. All edits but the first `edits_before` belong to it.
    pub(super) fn edit_root(
        &mut self,
        (root, meta): (Key<'_>, Meta),
        edits_before: usize,
        change: impl FnOnce(&mut Edits, Latches<'_, '_>, Held) -> bool,
    ) -> bool {
        let Some(at) = self.locate(root) else { return false };
        let entry = self.guards.shard(root.hash).table.entry(at);
        // What is due of a value stands in a queue by what the value says: that is written anew.
        if entry.meta() != meta || meta.has_due_elements() {
            return false;
        }
        let edits = &mut self.buf.journal.edits;
        let held_before = edits.held();
        let held = match edits.held_of(&entry) {
            Some(held) => held,
            None => match entry.shared() {
                Some(block) => edits.hold(block),
                None => return false,
            },
        };
        if !change(edits, (&mut self.guards, root.hash), held) {
            edits.let_go(held_before);
            return false;
        }
        let shard = self.guards.shard(root.hash);
        let count = *shard.count_mut(root.slot);
        shard.table.entry(at).set_access(self.engine.inner().write.access_now());
        self.buf.journal.note_edits(root.slot, count, edits_before);
        self.buf.journal.note_overtaken(shard.loads.overtake(root));
        self.push_edited(root.hash, false);
        self.operations += 1;
        true
    }

    /// A root gets another block, and this access field: the first change of an epoch, or one that has no room in the block before (E3).
    pub(super) fn put_block(&mut self, root: Key<'_>, meta: Meta, block: OwnBlock, access: u32) {
        let block = block.into_shared();
        self.upsert_noted(root, meta, Value::Shared(&block), access);
        let head = namespace::head(self.namespace_of(root));
        let staged = self.buf.stage_shared((&head, root.bytes), meta, block);
        self.push_put(root.hash, staged);
    }

    /// Stands for changes in place among the operations.
    pub(super) fn push_edited(&mut self, hash: u64, shares_seq: bool) {
        self.buf.operations.push(Operation { hash, staged: Staged::Edited, shares_seq });
        self.buf.sharing += usize::from(shares_seq);
    }

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
    pub(super) fn put_over(
        &mut self,
        root: Key<'_>,
        meta: Meta,
        (descriptor, encoded): (&Descriptor, &[u8]),
    ) -> bool {
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
        if !is_left || !edits.write_over(latches, block, encoded) {
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
        let Some(block) = self.buf.journal.edits.held_of(&entry) else { return };
        let meta = entry.meta();
        let staged = self.buf.operations.len();
        let descriptor = descriptor.clone();
        self.buf.left = Some(LeftRoot { meta, descriptor, block, staged });
    }
}

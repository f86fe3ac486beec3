//! Another key for a collection in pages (E5).

use super::{Found, Tx};
use crate::key::Key;
use crate::page::Descriptor;
use crate::store::page_key::cid_of;
use crate::store::shard::shard_of;

impl Tx<'_> {
    /// True when [`Tx::rename_paged`] can give what lives at `from` the key `to`: it is a collection in pages, and stays in its
    /// database. Pages that this transaction has removed are known by the key that they had, so it must not have deleted anything.
    pub fn can_rename_paged(&mut self, from: Key<'_>, to: Key<'_>) -> bool {
        from.slot == to.slot
            && self.buf.deletes == 0
            && self.engine.takes_pages()
            && self.paged_root(from).is_some()
    }

    /// Gives a collection the key `to`, whose value goes: two operations, whatever its size. Its pages keep their names; those in
    /// memory move to the shard of `to`. [`Tx::can_rename_paged`] has said that it can be done.
    pub fn rename_paged(&mut self, from: Key<'_>, to: Key<'_>) {
        let Found::Live(entry) = self.find(from) else { return };
        let (meta, descriptor) = (entry.meta(), entry.value().to_vec());
        let Some(cid) = Descriptor::collection_of(&descriptor) else { return };
        let edits_before = self.buf.journal.edits.len();
        self.put_descriptor((to, cid), meta, &descriptor, edits_before);
        let count = *self.shard(to.hash).count_mut(to.slot);
        self.buf.journal.note_renamed(to.slot, count, (cid, from.hash));
        self.push_edited(to.hash, true);
        self.move_pages(cid, from.hash, to.hash);
        if let Some(at) = self.shard(from.hash).table.locate_to_remove(from) {
            self.remove_root(from, at);
        }
    }

    /// Moves the pages of a collection that are in memory from the shard of one hash to that of another. What the other had of
    /// it before goes, as it may be out of date, and so do loads under way.
    pub(super) fn move_pages(&mut self, cid: u64, from: u64, to: u64) {
        if shard_of(from) == shard_of(to) {
            return;
        }
        let source = self.shard(from);
        source.page_loads.overtake_where(|key| cid_of(key) == Some(cid));
        let (pages, was_complete) = (source.pages.take(cid), source.complete);
        let pool = &self.engine.inner().memory.pages;
        let target = self.guards.shard(to);
        target.page_loads.overtake_where(|key| cid_of(key) == Some(cid));
        target.complete &= was_complete;
        target.pages.give(cid, pages, pool);
    }
}

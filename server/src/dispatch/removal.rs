//! Removals in pieces, of more elements than one request may bring into memory.
//!
//! LTRIM, ZREMRANGEBYRANK and its like, XTRIM and the trim of XADD must read what they remove. Where that is more than one load may
//! read, the request takes a piece out, commits it, and runs again from its beginning, until all has gone that was to go when it
//! began. Each piece is an operation of its own, which the log has in a form that says what it removes. Other requests run between two
//! pieces, so they, and a start after a crash, may find a part of the elements gone. Transactions, scripts and replay remove all at once.

use super::Ctx;
use super::context::REPLAY_MS;
use super::kept_removal::{Removal, RemovedBefore};
use crate::client_memory::load_max_bytes;
use crate::keyspace::paged::Paged;

impl Ctx<'_, '_> {
    /// What earlier runs of this request have removed from `paged`.
    ///
    /// # Errors
    /// They have removed so many elements from a collection that this is not any more: nothing else is to go.
    pub fn removed_before(&self, paged: Option<&Paged>) -> Result<RemovedBefore, u64> {
        self.client.removal.map_or(Ok(RemovedBefore::default()), |removal| removal.before(paged))
    }

    /// The same of a command that answers how many elements it has removed; `None`: that was answered, and is all.
    pub fn removed_before_this(&mut self, paged: Option<&Paged>) -> Option<RemovedBefore> {
        self.removed_before(paged).inspect_err(|removed| self.out.int(*removed as i64)).ok()
    }

    /// Elements that this run may remove from a collection where it does not remove all. Who has more to remove calls
    /// [`removes_more`](Self::removes_more).
    pub fn removed_max(&mut self, paged: &Paged) -> u64 {
        let load_bytes = load_max_bytes(self.server);
        let is_bounded = load_bytes != u64::MAX && self.now_ms != REPLAY_MS;
        if self.client.may_hand_over || !self.client.may_miss || !is_bounded {
            return self.changes_max();
        }
        self.client.removal.get_or_insert_with(|| Removal::new(paged)).piece(paged, load_bytes)
    }

    /// So many elements have gone, which is logged, and more must: this run is committed, and the request runs again. `rest`: what is left
    /// for it, in the command's own terms. A worker has [handed it over](Self::hand_over_changes) before.
    pub fn removes_more(&mut self, elements: u64, rest: [u64; 2]) {
        if let Some(removal) = &mut self.client.removal {
            removal.note_piece(elements, rest);
            // What it was loaded for is gone.
            self.client.lets_go = true;
        }
    }
}

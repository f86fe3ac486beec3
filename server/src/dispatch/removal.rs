//! Removals in pieces, of more elements than one request may bring into memory.
//!
//! LTRIM, ZREMRANGEBYRANK and its like, XTRIM and the trim of XADD must read what they remove. Where that is more than one load may
//! read, the request takes a piece out, commits it, and runs again from its beginning, until all has gone that was to go when it
//! began. Each piece is an operation of its own, which the log has in a form that says what it removes. Other requests run between two pieces, so
//! they, and a start after a crash, may find a part of the elements gone. Transactions, scripts and replay remove all at once.

use super::Ctx;
use crate::client_memory::load_max_bytes;
use crate::keyspace::paged::Paged;
use std::time::Instant;

/// A piece may be this part of what one load may read: changes of other pages belong to it.
const LOAD_SHARE: u64 = 4;

/// So often a piece becomes smaller because it could not be loaded; each time by [`SHRINKS_BY`].
const SHRINKS_MAX: u32 = 5;
const SHRINKS_BY: u64 = 4;

/// Bytes that an element takes besides its own.
const ELEMENT_BYTES: u64 = 16;

/// A removal of which a piece has gone, or is about to.
#[derive(Clone, Copy, Debug)]
pub struct Removal {
    /// The collection that the first piece was of.
    collection: u64,
    /// Elements that have gone with earlier pieces.
    removed: u64,
    /// What is left to be removed, in the command's own terms; `None` before the first piece.
    rest: Option<[u64; 2]>,
    /// A piece has gone in this run.
    goes_on: bool,
    shrunk: u32,
    begun: Instant,
}

impl Removal {
    fn of(paged: &Paged) -> Self {
        let collection = paged.descriptor.collection;
        let begun = Instant::now();
        Self { collection, removed: 0, rest: None, goes_on: false, shrunk: 0, begun }
    }

    /// When its request began.
    pub(super) fn begun(&self) -> Instant {
        self.begun
    }

    /// True once behind each piece: the request is to run again.
    pub(super) fn take_goes_on(&mut self) -> bool {
        std::mem::take(&mut self.goes_on)
    }

    /// The last piece was too large to be loaded. False when smaller ones would not do either.
    pub(super) fn shrink(&mut self) -> bool {
        self.shrunk += 1;
        self.shrunk <= SHRINKS_MAX
    }
}

/// What earlier runs of a request have removed.
#[derive(Clone, Copy, Debug, Default)]
pub struct RemovedBefore {
    /// So many elements.
    pub elements: u64,
    /// What they have left for later ones; `None` in the first run.
    pub rest: Option<[u64; 2]>,
}

impl Ctx<'_, '_> {
    /// What earlier runs of this request have removed from `paged`; `Err` with the number of elements if that is not the collection any more that
    /// they have removed them from: then nothing else is to go.
    pub fn removed_before(&self, paged: Option<&Paged>) -> Result<RemovedBefore, u64> {
        let Some(removal) = self.client.removal.filter(|removal| removal.rest.is_some()) else {
            return Ok(RemovedBefore::default());
        };
        let is_same = paged.is_some_and(|paged| paged.descriptor.collection == removal.collection);
        let before = RemovedBefore { elements: removal.removed, rest: removal.rest };
        if is_same { Ok(before) } else { Err(removal.removed) }
    }

    /// Elements that this run may remove from a collection where it does not remove all. Who has more to remove calls
    /// [`removes_more`](Self::removes_more).
    pub fn removed_max(&mut self, paged: &Paged) -> u64 {
        let load_bytes = load_max_bytes(self.server);
        let is_bounded = load_bytes != u64::MAX && self.now_ms != super::REPLAY_MS;
        if self.client.may_hand_over || !self.client.may_miss || !is_bounded {
            return self.changes_max();
        }
        let removal = self.client.removal.get_or_insert_with(|| Removal::of(paged));
        let piece_bytes = load_bytes / LOAD_SHARE / SHRINKS_BY.pow(removal.shrunk.min(SHRINKS_MAX));
        let totals = paged.descriptor.totals;
        let each_bytes = totals.bytes / totals.elements.max(1) + ELEMENT_BYTES;
        (piece_bytes / each_bytes).max(1)
    }

    /// `removed` elements have gone, and more must: a worker's run ends here, and begins again on a helper thread; one of a helper thread is
    /// committed, and the request runs again. `rest`: what is left for it, in the command's own terms. The piece is logged.
    pub fn removes_more(&mut self, removed: u64, rest: [u64; 2]) {
        self.hand_over_changes(u64::MAX);
        if let Some(removal) = &mut self.client.removal {
            removal.removed += removed;
            removal.rest = Some(rest);
            removal.goes_on = true;
            // What it was loaded for is gone.
            self.client.lets_go = true;
        }
    }
}

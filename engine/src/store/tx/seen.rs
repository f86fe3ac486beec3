//! Where pages are that operations have looked at lately, so that those that follow need not look them up.
//!
//! An operation reads its few pages again and again, and the next one on the same collection mostly begins with the same: the nodes of a
//! tree, the page at an end. A place among the changes is good for one operation, or for those of a transaction that follow one another
//! and change pages in place. One in a table is where the page was: whoever goes there sees whether it still is.

use crate::dram::Located;
use crate::page::{PageId, PartKind};
use std::array;
use std::cell::Cell;

/// Bits of a place for a page. Each page has one here.
const PLACE_BITS: u32 = 6;

/// Places for the pages of one kind.
const PLACES: usize = 1 << PLACE_BITS;

/// Nodes, their counts, and all others, of which each operation looks at other ones: those must not take the places of the nodes that
/// lead to them.
const KINDS: usize = 3;

/// What is known of a page.
#[derive(Default)]
struct Seen {
    /// With its collection: a place that another one's page was at would be looked at in vain.
    page: Cell<Option<(u64, PageId)>>,
    in_table: Cell<Option<Located>>,
    /// Which operation has changed it last; 0 for none.
    operation: Cell<u64>,
    change: Cell<usize>,
}

/// What an operation knows of a page.
#[derive(Clone, Copy, Debug)]
pub(super) enum Look {
    /// The operation has changed it: its place among the changes.
    Changed(usize),
    /// It has not. Where a page of this name was in a table, if that was seen.
    Unchanged(Option<Located>),
}

/// The pages that were seen last.
pub(super) struct SeenPages {
    /// Apart from the other buffers of a transaction, which short commands want close together.
    seen: Box<[Seen; KINDS * PLACES]>,
    /// Collection of the present operation.
    cid: u64,
    /// Operations so far.
    operation: u64,
    /// The last operation of which a changed page has lost its place here to another page.
    lost: Cell<u64>,
}

impl Default for SeenPages {
    fn default() -> Self {
        let seen = Box::new(array::from_fn(|_| Seen::default()));
        Self { seen, cid: 0, operation: 0, lost: Cell::new(0) }
    }
}

impl SeenPages {
    /// An operation on this collection begins: no page has changed, unless it follows others, whose places among the changes are good
    /// still.
    #[inline]
    pub(super) fn begin(&mut self, cid: u64, follows: bool) {
        self.cid = cid;
        self.operation += u64::from(!follows);
    }

    /// True where a page that has changed must be searched for.
    #[inline]
    pub(super) fn has_lost(&self) -> bool {
        self.lost.get() == self.operation
    }

    #[inline]
    fn of(&self, page: PageId) -> &Seen {
        let kind = match page.part {
            PartKind::Nodes => 0,
            PartKind::Counts => 1,
            _ => 2,
        };
        // The numbers of nodes are as far apart as the pages that were made between them.
        let mixed = (page.number ^ page.part as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &self.seen[kind * PLACES + (mixed >> (u64::BITS - PLACE_BITS)) as usize]
    }

    /// What is known of the page, if anything is.
    #[inline]
    fn known(&self, page: PageId) -> Option<&Seen> {
        let seen = self.of(page);
        (seen.page.get() == Some((self.cid, page))).then_some(seen)
    }

    /// For a note on a page: of another one that had the place nothing is known any more.
    #[inline]
    fn for_note(&self, cid: u64, page: PageId) -> &Seen {
        let seen = self.of(page);
        let own = Some((cid, page));
        if seen.page.replace(own) != own {
            seen.in_table.set(None);
            if seen.operation.replace(0) == self.operation {
                self.lost.set(self.operation);
            }
        }
        seen
    }

    /// What is known of a page; `None` where the changes must be looked through for it.
    #[inline]
    pub(super) fn look(&self, page: PageId) -> Option<Look> {
        match self.known(page) {
            Some(seen) if seen.operation.get() == self.operation => {
                Some(Look::Changed(seen.change.get()))
            }
            _ if self.has_lost() => None,
            seen => Some(Look::Unchanged(seen.and_then(|seen| seen.in_table.get()))),
        }
    }

    /// Where a page of this name was in a table.
    #[inline]
    pub(super) fn in_table(&self, page: PageId) -> Option<Located> {
        self.known(page)?.in_table.get()
    }

    #[inline]
    pub(super) fn note_in_table(&self, page: PageId, at: Located) {
        self.note_ahead(self.cid, page, at);
    }

    /// The same for a page of any collection.
    #[inline]
    pub(super) fn note_ahead(&self, cid: u64, page: PageId, at: Located) {
        self.for_note(cid, page).in_table.set(Some(at));
    }

    /// Each page that an operation changes is noted with its place among the changes.
    #[inline]
    pub(super) fn note_changed(&self, page: PageId, place: usize) {
        let seen = self.for_note(self.cid, page);
        seen.operation.set(self.operation);
        seen.change.set(place);
    }
}

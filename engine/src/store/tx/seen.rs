//! Where pages are that operations have looked at lately, so that those that follow need not look them up.
//!
//! An operation reads its few pages again and again, and the next one on the same collection mostly begins with the same: the nodes of a
//! tree, the page at an end. A place in the table is good while the table's layout is the same, a place among the changes for one operation.

use crate::dram::{EntryRef, Layout, Located, Table};
use crate::page::PageId;
use std::array;
use std::cell::Cell;

/// Places for pages. Each page has one here.
const SEEN: usize = 64;

/// What is known of a page.
#[derive(Default)]
struct Seen {
    page: Cell<Option<PageId>>,
    /// In which term it was seen in the table; 0 for none.
    term: Cell<u64>,
    in_table: Cell<Option<Located>>,
    /// Which operation has changed it last; 0 for none.
    operation: Cell<u64>,
    change: Cell<usize>,
}

/// The pages of one collection that were seen last.
pub(super) struct SeenPages {
    seen: [Seen; SEEN],
    /// Collection and table of this term.
    of: Option<(u64, Layout)>,
    /// Collections and layouts so far.
    term: u64,
    /// Operations so far.
    operation: u64,
}

impl Default for SeenPages {
    fn default() -> Self {
        Self { seen: array::from_fn(|_| Seen::default()), of: None, term: 0, operation: 0 }
    }
}

impl SeenPages {
    /// An operation on a collection begins: no page has changed, and those that are in the table are where they were if it is as it was.
    #[inline]
    pub(super) fn begin(&mut self, cid: u64, table: Option<&Table>) {
        let of = table.map(|table| (cid, table.layout()));
        if of.is_none() || self.of != of {
            self.of = of;
            self.term += 1;
        }
        self.operation += 1;
    }

    /// Pages may have got other places in the table.
    pub(super) fn forget_places(&mut self) {
        self.of = None;
        self.term += 1;
    }

    #[inline]
    fn of(&self, page: PageId) -> &Seen {
        &self.seen[(page.number as usize ^ page.part as usize) % SEEN]
    }

    /// For a note on a page: of another one that had the place nothing is known any more.
    #[inline]
    fn for_note(&self, page: PageId) -> &Seen {
        let seen = self.of(page);
        if seen.page.replace(Some(page)) != Some(page) {
            seen.term.set(0);
            seen.operation.set(0);
        }
        seen
    }

    /// The page's entry, if it was seen in this table.
    #[inline]
    pub(super) fn in_table<'t>(&self, page: PageId, table: &'t Table) -> Option<EntryRef<'t>> {
        let seen = self.of(page);
        let is_known = seen.term.get() == self.term && seen.page.get() == Some(page);
        seen.in_table.get().filter(|_| is_known).map(|at| table.entry_again(at))
    }

    #[inline]
    pub(super) fn note_in_table(&self, page: PageId, at: Located) {
        let seen = self.for_note(page);
        seen.term.set(self.term);
        seen.in_table.set(Some(at));
    }

    /// Its place among the changes of this operation, if it was seen there.
    #[inline]
    pub(super) fn changed(&self, page: PageId) -> Option<usize> {
        let seen = self.of(page);
        let is_known = seen.operation.get() == self.operation && seen.page.get() == Some(page);
        is_known.then(|| seen.change.get())
    }

    #[inline]
    pub(super) fn note_changed(&self, page: PageId, place: usize) {
        let seen = self.for_note(page);
        seen.operation.set(self.operation);
        seen.change.set(place);
    }
}

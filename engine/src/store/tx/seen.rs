//! Where pages are that operations have looked at lately, so that those that follow need not look them up.
//!
//! An operation reads its few pages again and again, and the next one on the same collection mostly begins with the same: the nodes of a
//! tree, the page at an end. A place among the changes is good for one operation. One in a table is where the page was: whoever goes there
//! sees whether it still is.

use crate::dram::Located;
use crate::page::PageId;
use std::array;
use std::cell::Cell;

/// Places for pages. Each page has one here.
const SEEN: usize = 64;

/// What is known of a page.
#[derive(Default)]
struct Seen {
    page: Cell<Option<PageId>>,
    in_table: Cell<Option<Located>>,
    /// Which operation has changed it last; 0 for none.
    operation: Cell<u64>,
    change: Cell<usize>,
}

/// The pages that were seen last.
pub(super) struct SeenPages {
    /// Apart from the other buffers of a transaction, which short commands want close together.
    seen: Box<[Seen; SEEN]>,
    /// Operations so far.
    operation: u64,
}

impl Default for SeenPages {
    fn default() -> Self {
        Self { seen: Box::new(array::from_fn(|_| Seen::default())), operation: 0 }
    }
}

impl SeenPages {
    /// An operation begins: no page has changed.
    #[inline]
    pub(super) fn begin(&mut self) {
        self.operation += 1;
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
            seen.in_table.set(None);
            seen.operation.set(0);
        }
        seen
    }

    /// Where a page of this name was in a table.
    #[inline]
    pub(super) fn in_table(&self, page: PageId) -> Option<Located> {
        let seen = self.of(page);
        seen.in_table.get().filter(|_| seen.page.get() == Some(page))
    }

    #[inline]
    pub(super) fn note_in_table(&self, page: PageId, at: Located) {
        self.for_note(page).in_table.set(Some(at));
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

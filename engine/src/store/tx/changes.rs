//! What operations have made of the pages of a collection.
//!
//! A page whose block has changed where it is lies in that block still when the operation is over. The next one of the transaction on the
//! same collection finds it here, and does not look it up in a table.

use super::edits::Held;
use crate::page::PageId;
use crate::shared_value::OwnBlock;
use foldhash::fast::RandomState;
use std::collections::HashMap;

/// Most operations change so few pages that a linear search is the fastest.
const FEW: usize = 16;

/// With more pages than these an operation begins afresh: it looks through all of them when it ends.
const KEPT_MAX: usize = 12;

/// Memory for more changes than this is freed at once.
const MANY: usize = 1024;

/// What becomes of a page.
pub(super) enum Change {
    /// Nothing: it was new, and is gone again.
    Nothing,
    /// It was not there before.
    New(OwnBlock),
    /// It has this block from now on.
    Changed(OwnBlock),
    /// Its block was changed where it is.
    InPlace(Held),
    Removed,
}

/// The changes of an operation, each page once, and pages that those before it have changed in place.
#[derive(Default)]
pub(super) struct Changes {
    list: Vec<(PageId, Change)>,
    /// The collection, and the hash of its root.
    of: (u64, u64),
    /// Where in the list each page is, once there are more than a few.
    places: HashMap<PageId, usize, RandomState>,
}

impl Changes {
    /// Which of the changes is the page's.
    pub(super) fn place(&self, page: PageId) -> Option<usize> {
        if self.list.len() <= FEW {
            return self.list.iter().position(|(other, _)| *other == page);
        }
        self.places.get(&page).copied()
    }

    /// How many pages are here.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// An operation begins on a collection, whose root has this hash. True where pages are here of those before it.
    #[inline]
    pub(super) fn begin(&mut self, of: (u64, u64)) -> bool {
        if self.of != of || self.list.len() > KEPT_MAX {
            self.clear();
            self.of = of;
        }
        !self.list.is_empty()
    }

    /// An operation is written, or has changed nothing. What stays here has changed in place.
    #[inline]
    pub(super) fn end(&mut self) {
        if self.list.iter().any(|(_, change)| !matches!(change, Change::InPlace(_))) {
            self.clear();
        }
    }

    /// True when no page gets another block, and none comes or goes.
    #[inline]
    pub(super) fn are_in_place(&self) -> bool {
        self.list.iter().all(|(_, change)| matches!(change, Change::InPlace(_) | Change::Nothing))
    }

    /// True when the collection gets pages that it did not have.
    #[inline]
    pub(super) fn has_new(&self) -> bool {
        self.list.iter().any(|(_, change)| matches!(change, Change::New(_)))
    }

    /// The change of a page, if there is one.
    pub(super) fn get(&self, page: PageId) -> Option<&Change> {
        let change = &self.list[self.place(page)?].1;
        (!matches!(change, Change::Nothing)).then_some(change)
    }

    /// The change at a [`place`](Self::place).
    pub(super) fn at(&self, place: usize) -> &Change {
        &self.list[place].1
    }

    /// The change at a [`place`](Self::place), to be changed further.
    pub(super) fn at_mut(&mut self, place: usize) -> &mut Change {
        &mut self.list[place].1
    }

    /// Puts `change` in place of what there was of the page; answers its place.
    pub(super) fn replace(&mut self, page: PageId, change: Change) -> usize {
        if let Some(place) = self.place(page) {
            self.list[place].1 = change;
            return place;
        }
        self.push(page, change)
    }

    /// Adds the change of a page that is not here; answers its place.
    pub(super) fn push(&mut self, page: PageId, change: Change) -> usize {
        debug_assert!(self.place(page).is_none(), "{page} is here");
        self.list.push((page, change));
        if self.list.len() > FEW {
            let unknown = self.places.len()..self.list.len();
            self.places.extend(unknown.map(|place| (self.list[place].0, place)));
        }
        self.list.len() - 1
    }

    /// Gives its memory back after an operation on many pages.
    #[inline]
    pub(super) fn give_back(&mut self) {
        if self.list.capacity() > MANY {
            *self = Self::default();
        }
    }

    /// Forgets all, and keeps the memory.
    #[inline]
    pub(super) fn clear(&mut self) {
        if !self.list.is_empty() {
            drop(self.drain());
        }
    }

    /// Takes all out, and keeps the memory.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = (PageId, Change)> {
        self.places.clear();
        self.list.drain(..)
    }
}

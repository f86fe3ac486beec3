//! Lists in pages.

use super::{Failed, Paged, Stop, Structure, change, none_of};
use crate::blocking::{Pop, Side};
use crate::keyspace::pop::Popped;
use sexton_engine::page::{Descriptor, End, List, ListSizes, PageError, PageId, Pages, PartKind};
use sexton_engine::{Key, Tx, TxPages};
use std::ops::Range;

impl Structure for List {
    fn open(paged: &Paged) -> Result<Self, PageError> {
        let page = PageId { part: PartKind::List, number: 0 };
        Self::open(ListSizes::default(), &paged.descriptor)
            .map_err(|damage| PageError::Damaged { page, damage })
    }

    fn describe(&self, descriptor: &mut Descriptor) {
        descriptor.totals = self.totals;
        self.parts().iter().for_each(|&part| descriptor.set_part(part));
    }

    fn len(&self) -> u64 {
        List::len(self)
    }
}

/// The pages that a range of a list needs are all in memory.
///
/// # Errors
/// Those that are not.
pub fn needs<P: Pages>(list: &List, pages: &P, range: Range<u64>) -> Result<(), Stop> {
    none_of(list.missing(pages, range)?)
}

/// Shows the elements of a list with these indexes.
///
/// # Errors
/// The pages of theirs that are not in memory, before the first is shown.
pub fn each_of_list<P: Pages>(
    list: &List,
    pages: &P,
    range: Range<u64>,
    show: impl FnMut(&[u8]),
) -> Result<(), Stop> {
    needs(list, pages, range.clone())?;
    Ok(list.each(pages, range, show)?)
}

/// What a change of these elements of a list needs is in memory.
///
/// # Errors
/// What is not.
pub fn needs_to_change<P: Pages>(list: &List, pages: &P, indexes: &[u64]) -> Result<(), Stop> {
    none_of(list.missing_to_change(pages, indexes)?)
}

/// What a removal of these elements needs is in memory.
///
/// # Errors
/// What is not.
pub fn needs_to_remove<P: Pages>(list: &List, pages: &P, range: Range<u64>) -> Result<(), Stop> {
    none_of(list.missing_to_remove(pages, range)?)
}

/// Takes elements out of a list.
///
/// # Errors
/// [`Failed`]; nothing was changed.
pub(super) fn take(
    tx: &mut Tx<'_>,
    key: Key<'_>,
    paged: &Paged,
    pop: Pop,
    reads_here: bool,
) -> Result<Popped, Failed> {
    let len = paged.descriptor.totals.elements;
    let count = pop.count.map_or(1, |count| count.min(len));
    let range = if pop.side == Side::First { 0..count } else { len - count..len };
    let read = |pages: &TxPages<'_, '_, '_>, list: &List| {
        let mut elements = Vec::new();
        each_of_list(list, pages, range.clone(), |item| elements.push((item.to_vec(), None)))?;
        if pop.side == Side::Last {
            elements.reverse();
        }
        Ok::<_, Stop>(elements)
    };
    let end = if pop.side == Side::First { End::Front } else { End::Back };
    let (elements, left) = if count == 1 {
        let mut element = Vec::new();
        let taken = change(tx, key, paged, reads_here, |pages, list: &mut List| {
            Ok(list.pop(pages, end, &mut element)?.then_some(()))
        })?;
        taken.map_or((Vec::new(), len), |((), left)| (vec![(element, None)], left))
    } else if count == 0 {
        (Vec::new(), len)
    } else {
        let taken = change(tx, key, paged, reads_here, |pages, list: &mut List| {
            let elements = read(pages, list)?;
            list.remove(pages, range.clone())?;
            Ok(Some(elements))
        })?;
        taken.unwrap_or((Vec::new(), len))
    };
    Ok(Popped::of_pages(elements, left == 0, pop))
}

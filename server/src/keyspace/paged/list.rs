//! Lists in pages.

use super::{Failed, Paged, Stop, over};
use crate::blocking::{Pop, Side};
use crate::keyspace::pop::Popped;
use sexton_engine::page::{List, ListSizes, PageError, PageId};
use sexton_engine::{Key, Tx, TxPages};

/// The list that a root describes.
///
/// # Errors
/// The root contradicts itself.
pub fn list_of(paged: &Paged) -> Result<List, PageError> {
    List::open(ListSizes::default(), &paged.descriptor).map_err(|damage| {
        let part = sexton_engine::page::PartKind::List;
        PageError::Damaged { page: PageId { part, number: 0 }, damage }
    })
}

/// Changes a list, in one operation; answers what is left of it. One that has become empty is not written: its key must be deleted.
///
/// # Errors
/// [`Failed`]; nothing was changed.
pub fn change_list<T>(
    tx: &mut Tx<'_>,
    key: Key<'_>,
    paged: &Paged,
    reads_here: bool,
    mut change: impl FnMut(&mut TxPages<'_, '_, '_>, &mut List) -> Result<T, Stop>,
) -> Result<(T, u64), Failed> {
    over(tx, key, paged.descriptor.collection, reads_here, |mut pages| {
        let mut list = list_of(paged)?;
        let done = change(&mut pages, &mut list)?;
        if !list.is_empty() {
            let mut descriptor = paged.descriptor.clone();
            descriptor.totals = list.totals;
            list.parts().into_iter().for_each(|part| descriptor.set_part(part));
            let mut root = Vec::new();
            descriptor.encode_into(&mut root);
            // The store keeps pages: it has those of this list.
            pages.put(paged.meta, &root).map_err(|_| PageError::TooLong { bytes: root.len() })?;
        }
        Ok((done, list.len()))
    })
}

/// Takes elements out of a list, as [`take`](crate::keyspace::pop::take) does of one that lies whole in its root; but here they are
/// gone: one operation, unless nothing is wanted or the list is empty then, whose key must be deleted.
///
/// # Errors
/// [`Failed`]; nothing was changed.
pub fn take_of_list(
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
        let missing = list.missing(pages, range.clone())?;
        if !missing.is_empty() {
            return Err(Stop::Missing(missing));
        }
        let mut elements = Vec::new();
        for element in list.iter(pages, range.start)?.take(count as usize) {
            elements.push((element?.to_vec(), None));
        }
        if pop.side == Side::Last {
            elements.reverse();
        }
        Ok(elements)
    };
    let (elements, left) = if count == 0 {
        (Vec::new(), len)
    } else {
        change_list(tx, key, paged, reads_here, |pages, list| {
            let elements = read(pages, list)?;
            list.remove(pages, range.clone())?;
            Ok(elements)
        })?
    };
    Ok(Popped::of_pages(elements, left == 0, pop))
}

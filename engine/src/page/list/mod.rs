//! Lists: elements in list order, on pages with consecutive labels.
//!
//! An operation reads only the pages it works on. The descriptor has the labels of both ends and the number of elements on each
//! end's page; pages of part `c` have the counts of the pages between. A push or a pop therefore touches one page, and an index costs
//! a walk over counts, two bytes per page.
//!
//! Invariants: labels are between the two ends; the pages at the ends have elements, those between may have none; counts are correct;
//! there is a page of counts for each group of labels that has one between the ends; `totals` counts elements and their bytes; long
//! elements are as [`super::external`] says. How full pages are is no invariant.

mod cut;
mod each;
mod room;
mod search;

pub use self::search::Search;
use super::bytes::{self, ELEMENT_MAX_BYTES, HEAD_BYTES, PAGE_ELEMENTS_MAX};
use super::descriptor::{Descriptor, Part};
use super::external::{self, EXTERNAL_MIN_BYTES, Externals, Stored};
use super::list_page::{self, ListPage, entry_bytes};
use super::pieces::pieces;
use super::store::{Damage, PageEdit, PageError, PageId, Pages, PartKind, at_page};
use super::{Parts, Totals, fits};
use std::ops::Range;

/// Label of the first page of a list.
const FIRST_LABEL: u64 = 1 << 63;

/// Labels whose pages one page counts.
const GROUP: u64 = 256;

/// How full pages get, and which elements are left out of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListSizes {
    /// A push at an end starts a new page when this one would exceed this many bytes.
    pub page_bytes: usize,
    /// A page between others gets no longer: its elements are spread over its neighbours then.
    pub page_max_bytes: usize,
    /// Elements of at least this many bytes are stored in pages of their own.
    pub external_bytes: usize,
}

impl Default for ListSizes {
    fn default() -> Self {
        Self { page_bytes: 1024, page_max_bytes: 8192, external_bytes: EXTERNAL_MIN_BYTES }
    }
}

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The end with element 0.
    Front,
    /// The end with the last element.
    Back,
}

/// The pages at the ends, which are one where the labels are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ends {
    first: u64,
    last: u64,
    first_count: u32,
    last_count: u32,
}

impl Ends {
    /// The labels between.
    fn inner(&self) -> Range<u64> {
        let start = self.first.saturating_add(1);
        start..self.last.max(start)
    }

    /// The groups of the labels between.
    fn groups(&self) -> Range<u64> {
        let inner = self.inner();
        if inner.is_empty() { 0..0 } else { inner.start / GROUP..(inner.end - 1) / GROUP + 1 }
    }

    fn pages(&self) -> u64 {
        (self.last - self.first).saturating_add(1)
    }
}

/// A page, and its position.
#[derive(Clone, Copy, Debug)]
struct Spot {
    label: u64,
    count: u32,
    /// Elements of all pages before it.
    before: u64,
}

/// A list.
#[derive(Clone, Debug)]
pub struct List {
    /// Elements and their bytes.
    pub totals: Totals,
    /// Long elements.
    pub externals: Externals,
    ends: Option<Ends>,
    sizes: ListSizes,
}

fn page_id(label: u64) -> PageId {
    PageId { part: PartKind::List, number: label }
}

fn counts_id(group: u64) -> PageId {
    PageId { part: PartKind::Counts, number: group }
}

fn place_of(label: u64) -> usize {
    (label % GROUP) as usize * 2
}

impl List {
    /// A list without elements, which has no page.
    #[must_use]
    pub fn new(sizes: ListSizes) -> Self {
        let (totals, externals) = (Totals::default(), Externals::default());
        Self { totals, externals, ends: None, sizes }
    }

    /// A list of these elements: from an inline form, or from a load.
    pub fn build<'e, P: Pages>(
        pages: &mut P,
        sizes: ListSizes,
        elements: impl Iterator<Item = &'e [u8]>,
    ) -> Result<Self, PageError> {
        let mut list = Self::new(sizes);
        let mut stored = Vec::with_capacity(elements.size_hint().0);
        for element in elements {
            accept(element)?;
            let own = list.plan(element);
            list.added(pages, own, element);
            stored.push(own);
        }
        list.lay_out(pages, &stored);
        Ok(list)
    }

    /// The list that a descriptor describes. No page is read.
    pub fn open(sizes: ListSizes, descriptor: &Descriptor) -> Result<Self, Damage> {
        let (list, counts) = (descriptor.part(PartKind::List), descriptor.part(PartKind::Counts));
        let Some((list, counts)) = list.zip(counts) else {
            return bytes::damage(2, "pages of a list, and their counts");
        };
        let (first_count, last_count) = (counts.a as u32, (counts.a >> 32) as u32);
        let ends = Ends { first: list.a, last: list.b, first_count, last_count };
        let totals = descriptor.totals;
        let at_ends = match ends.pages() {
            1 => u64::from(first_count),
            _ => u64::from(first_count) + u64::from(last_count),
        };
        let is_one = ends.first == ends.last;
        let is_true = if is_one { at_ends == totals.elements } else { at_ends <= totals.elements };
        if !is_true
            || first_count == 0
            || last_count == 0
            || (is_one && first_count != last_count)
            || u64::from(list.pages) != ends.pages()
        {
            return bytes::damage(12, "counts of a list that fit its pages");
        }
        let externals = Externals::open(descriptor.part(PartKind::External));
        Ok(Self { totals, externals, ends: Some(ends), sizes })
    }

    /// Elements.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.totals.elements
    }

    /// True without elements: the list is to be deleted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the descriptor says of the pages; nothing without any.
    #[must_use]
    pub fn parts(&self) -> Parts {
        let Some(ends) = self.ends else { return Parts::default() };
        let (a, b) = (ends.first, ends.last);
        let pages = u32::try_from(ends.pages()).unwrap_or(u32::MAX);
        let list = Part { kind: PartKind::List, flags: 0, pages, a, b };
        let groups = ends.groups();
        let pages = (groups.end - groups.start) as u32;
        let a = u64::from(ends.first_count) | u64::from(ends.last_count) << 32;
        let counts = Part { kind: PartKind::Counts, flags: 0, pages, a, b: 0 };
        [list, counts].into_iter().chain(self.externals.part()).collect()
    }

    /// All pages of elements, from left to right, without those of long elements.
    pub fn page_ids(&self) -> impl Iterator<Item = PageId> + use<> {
        let ends = self.ends;
        ends.into_iter().flat_map(|ends| (ends.first..=ends.last).map(page_id))
    }

    /// The pages at the ends.
    pub fn end_ids(&self) -> impl Iterator<Item = PageId> + use<> {
        let ends = self.ends.map(|ends| [page_id(ends.first), page_id(ends.last)]);
        ends.into_iter().flatten()
    }

    /// The pages that are not in memory and that the elements whose numbers are in `range` need; those of long elements are
    /// known when the others are there.
    pub fn missing<P: Pages>(
        &self,
        pages: &P,
        range: Range<u64>,
    ) -> Result<Vec<PageId>, PageError> {
        self.missing_of(pages, range, self.externals.count > 0)
    }

    /// The same where these elements are to be removed: those of long elements go unread.
    pub fn missing_to_remove<P: Pages>(
        &self,
        pages: &P,
        range: Range<u64>,
    ) -> Result<Vec<PageId>, PageError> {
        self.missing_of(pages, range, false)
    }

    fn missing_of<P: Pages>(
        &self,
        pages: &P,
        range: Range<u64>,
        with_long: bool,
    ) -> Result<Vec<PageId>, PageError> {
        let range = range.start..range.end.min(self.len());
        let mut missing = Vec::new();
        if range.is_empty() {
            return Ok(missing);
        }
        if let Some(ends) = self.ends
            && range.start >= u64::from(ends.first_count)
        {
            missing.extend(ends.groups().map(counts_id).filter(|page| !pages.is_in_memory(*page)));
            if !missing.is_empty() {
                return Ok(missing);
            }
        }
        let labels = match (self.at(pages, range.start)?, self.at(pages, range.end - 1)) {
            (Some(first), Ok(Some(last))) => first.label..=last.label,
            (Some(_), Err(PageError::Missing(_))) => {
                let groups = self.ends.map_or(0..0, |ends| ends.groups()).map(counts_id);
                return Ok(groups.filter(|page| !pages.is_in_memory(*page)).collect());
            }
            (_, Err(error)) => return Err(error),
            _ => return Ok(missing),
        };
        for id in labels.map(page_id) {
            if !pages.is_in_memory(id) {
                missing.push(id);
                continue;
            }
            if !with_long {
                continue;
            }
            for element in ListPage::parse(pages.read(id)?).map_err(at_page(id))?.iter() {
                if let Some(reference) = element.map_err(at_page(id))?.external()
                    && !pages.is_in_memory(reference.page())
                {
                    missing.push(reference.page());
                }
            }
        }
        Ok(missing)
    }

    fn page<'p, P: Pages>(
        &self,
        pages: &'p P,
        label: u64,
        count: u32,
    ) -> Result<ListPage<'p>, PageError> {
        let id = page_id(label);
        let page = ListPage::parse(pages.read(id)?).map_err(at_page(id))?;
        if page.len() == count as usize {
            Ok(page)
        } else {
            Err(wrong(id, "as many elements as are counted"))
        }
    }

    fn counts<P: Pages>(pages: &P, group: u64) -> Result<&[u8], PageError> {
        let id = counts_id(group);
        let counts = pages.read(id)?;
        let is_whole = counts.len() == GROUP as usize * 2;
        if is_whole { Ok(counts) } else { Err(wrong(id, "a count for each page")) }
    }

    fn count_of<P: Pages>(&self, pages: &P, ends: &Ends, label: u64) -> Result<u32, PageError> {
        if label == ends.first {
            return Ok(ends.first_count);
        }
        if label == ends.last {
            return Ok(ends.last_count);
        }
        let group = label / GROUP;
        let count = bytes::u16_at(Self::counts(pages, group)?, place_of(label));
        count.map(u32::from).map_err(at_page(counts_id(group)))
    }

    /// Where element number `index` is; `None` behind the last.
    fn at<P: Pages>(&self, pages: &P, index: u64) -> Result<Option<Spot>, PageError> {
        let (Some(ends), len) = (self.ends, self.len()) else { return Ok(None) };
        if index >= len {
            return Ok(None);
        }
        if index < u64::from(ends.first_count) {
            return Ok(Some(Spot { label: ends.first, count: ends.first_count, before: 0 }));
        }
        let behind = len.saturating_sub(u64::from(ends.last_count));
        if index >= behind {
            return Ok(Some(Spot { label: ends.last, count: ends.last_count, before: behind }));
        }
        let inner = ends.inner();
        let from_front = index < len / 2;
        let mut edge = if from_front { u64::from(ends.first_count) } else { behind };
        let mut label = if from_front { inner.start } else { inner.end };
        while if from_front { label < inner.end } else { label > inner.start } {
            let group = if from_front { label / GROUP } else { (label - 1) / GROUP };
            let counts = Self::counts(pages, group)?;
            let count_at = |label: u64| {
                let at = place_of(label);
                u32::from(u16::from_le_bytes([counts[at], counts[at + 1]]))
            };
            if from_front {
                let end = inner.end.min((group + 1) * GROUP);
                for label in label..end {
                    let count = count_at(label);
                    if index < edge + u64::from(count) {
                        return Ok(Some(Spot { label, count, before: edge }));
                    }
                    edge += u64::from(count);
                }
                label = end;
            } else {
                let start = inner.start.max(group * GROUP);
                for label in (start..label).rev() {
                    let count = count_at(label);
                    edge = edge.saturating_sub(u64::from(count));
                    if index >= edge {
                        return Ok(Some(Spot { label, count, before: edge }));
                    }
                }
                label = start;
            }
        }
        Err(wrong(page_id(ends.first), "as many elements as the descriptor counts"))
    }

    /// Element number `index`.
    pub fn get<'p, P: Pages>(
        &self,
        pages: &'p P,
        index: u64,
    ) -> Result<Option<&'p [u8]>, PageError> {
        let Some(spot) = self.at(pages, index)? else { return Ok(None) };
        let page = self.page(pages, spot.label, spot.count)?;
        let element = page.get((index - spot.before) as usize);
        external::read(pages, element.map_err(at_page(page_id(spot.label)))?).map(Some)
    }

    /// How an element will be stored.
    fn plan<'e>(&self, element: &'e [u8]) -> Stored<'e> {
        self.externals.plan(element, self.sizes.external_bytes)
    }

    /// Counts an element that has come in.
    fn added<P: Pages>(&mut self, pages: &mut P, stored: Stored<'_>, element: &[u8]) {
        self.externals.add(pages, stored, element);
        self.totals.add(element.len());
    }

    /// Makes all pages, for these elements.
    fn lay_out<P: Pages>(&mut self, pages: &mut P, elements: &[Stored<'_>]) {
        let bytes: Vec<usize> = elements.iter().map(entry_bytes).collect();
        let counts = pieces(&bytes, HEAD_BYTES, self.sizes.page_bytes);
        let mut rest = elements;
        for (label, &count) in (FIRST_LABEL..).zip(&counts) {
            let (own, others) = rest.split_at(count);
            pages.add(page_id(label), &list_page::build(own));
            rest = others;
        }
        let Some((&first, &last)) = counts.first().zip(counts.last()) else {
            self.ends = None;
            return;
        };
        let ends = Ends {
            first: FIRST_LABEL,
            last: FIRST_LABEL + counts.len() as u64 - 1,
            first_count: first as u32,
            last_count: last as u32,
        };
        let inner = ends.inner();
        for group in ends.groups() {
            let mut payload = vec![0; GROUP as usize * 2];
            for label in group * GROUP..(group + 1) * GROUP {
                if inner.contains(&label) {
                    let count = counts[(label - FIRST_LABEL) as usize] as u16;
                    payload[place_of(label)..][..2].copy_from_slice(&count.to_le_bytes());
                }
            }
            pages.add(counts_id(group), &payload);
        }
        self.ends = Some(ends);
    }

    /// Adds an element at an end.
    pub fn push<P: Pages>(
        &mut self,
        pages: &mut P,
        end: End,
        element: &[u8],
    ) -> Result<(), PageError> {
        accept(element)?;
        let stored = self.plan(element);
        let Some(mut ends) = self.ends else {
            self.added(pages, stored, element);
            self.lay_out(pages, &[stored]);
            return Ok(());
        };
        let is_front = end == End::Front;
        let (label, count) =
            if is_front { (ends.first, ends.first_count) } else { (ends.last, ends.last_count) };
        let page = self.page(pages, label, count)?;
        let bytes = page.payload_bytes() + entry_bytes(&stored);
        if bytes <= self.sizes.page_bytes && page.len() < PAGE_ELEMENTS_MAX {
            let (id, index) = (page_id(label), if is_front { 0 } else { page.len() });
            let mut edit = pages.edit(id)?;
            edit.grows(self.sizes.page_bytes);
            list_page::insert(&mut edit, index, stored).map_err(at_page(id))?;
            self.set_end_count(label, count + 1);
        } else {
            if ends.first != ends.last {
                note_inner(pages, &ends, label, count)?;
            }
            let new = if is_front { label.checked_sub(1) } else { label.checked_add(1) };
            let Some(new) = new else { return Err(wrong(page_id(label), "a label beside it")) };
            pages.add(page_id(new), &list_page::build(&[stored]));
            if is_front {
                (ends.first, ends.first_count) = (new, 1);
            } else {
                (ends.last, ends.last_count) = (new, 1);
            }
            self.ends = Some(ends);
        }
        self.added(pages, stored, element);
        Ok(())
    }

    fn set_end_count(&mut self, label: u64, count: u32) {
        let Some(ends) = &mut self.ends else { return };
        if label == ends.first {
            ends.first_count = count;
        }
        if label == ends.last {
            ends.last_count = count;
        }
    }

    fn insert_into<P: Pages>(
        &self,
        pages: &mut P,
        label: u64,
        index: usize,
        stored: Stored<'_>,
    ) -> Result<(), PageError> {
        let id = page_id(label);
        list_page::insert(&mut pages.edit(id)?, index, stored).map_err(at_page(id))
    }

    /// Adds an element, which becomes number `index`; false if the list is shorter.
    pub fn insert<P: Pages>(
        &mut self,
        pages: &mut P,
        index: u64,
        element: &[u8],
    ) -> Result<bool, PageError> {
        accept(element)?;
        if index == 0 || index == self.len() {
            let end = if index == 0 { End::Front } else { End::Back };
            return self.push(pages, end, element).map(|()| true);
        }
        let (Some(spot), Some(ends)) = (self.at(pages, index)?, self.ends) else {
            return Ok(false);
        };
        let page = self.page(pages, spot.label, spot.count)?;
        let stored = self.plan(element);
        let bytes = page.payload_bytes() + entry_bytes(&stored);
        if bytes <= self.sizes.page_max_bytes && page.len() < PAGE_ELEMENTS_MAX {
            if ends.inner().contains(&spot.label) {
                Self::counts(pages, spot.label / GROUP)?;
            }
            self.insert_into(pages, spot.label, (index - spot.before) as usize, stored)?;
            self.set_count(pages, &ends, spot.label, spot.count + 1)?;
        } else {
            self.make_room(pages, spot, index..index, stored)?;
        }
        self.added(pages, stored, element);
        Ok(true)
    }

    /// Says how many elements a page has, whose counts were read.
    fn set_count<P: Pages>(
        &mut self,
        pages: &mut P,
        ends: &Ends,
        label: u64,
        count: u32,
    ) -> Result<(), PageError> {
        if ends.inner().contains(&label) {
            let count = count as u16;
            pages.edit(counts_id(label / GROUP))?.write(place_of(label), &count.to_le_bytes());
        } else {
            self.set_end_count(label, count);
        }
        Ok(())
    }

    /// Puts another element in the place of number `index`; false if the list is shorter.
    pub fn set<P: Pages>(
        &mut self,
        pages: &mut P,
        index: u64,
        element: &[u8],
    ) -> Result<bool, PageError> {
        accept(element)?;
        let Some(spot) = self.at(pages, index)? else { return Ok(false) };
        let page = self.page(pages, spot.label, spot.count)?;
        let at = (index - spot.before) as usize;
        let (id, stored) = (page_id(spot.label), self.plan(element));
        let old = page.get(at).map_err(at_page(id))?;
        let (old_bytes, external) = (old.len(), old.external());
        let bytes = page.payload_bytes() + entry_bytes(&stored);
        let bytes = bytes.saturating_sub(entry_bytes(&old));
        if bytes <= self.sizes.page_max_bytes || page.len() == 1 {
            list_page::set(&mut pages.edit(id)?, at, stored).map_err(at_page(id))?;
        } else {
            self.make_room(pages, spot, index..index + 1, stored)?;
        }
        self.totals.remove(old_bytes);
        self.added(pages, stored, element);
        self.externals.remove(pages, external);
        Ok(true)
    }

    /// Removes the element at an end, and puts it into `out` in place of what is there; false if there is none.
    pub fn pop<P: Pages>(
        &mut self,
        pages: &mut P,
        end: End,
        out: &mut Vec<u8>,
    ) -> Result<bool, PageError> {
        let Some(last) = self.len().checked_sub(1) else { return Ok(false) };
        let index = if end == End::Front { 0 } else { last };
        let Some(spot) = self.at(pages, index)? else { return Ok(false) };
        let (id, at) = (page_id(spot.label), (index - spot.before) as usize);
        let page = self.page(pages, spot.label, spot.count)?;
        let stored = page.get(at).map_err(at_page(id))?;
        let external = stored.external();
        out.clear();
        out.extend_from_slice(external::read(pages, stored)?);
        if spot.count == 1 {
            return self.remove(pages, index..index + 1).map(|()| true);
        }
        list_page::remove(&mut pages.edit(id)?, at..at + 1).map_err(at_page(id))?;
        self.set_end_count(spot.label, spot.count - 1);
        self.totals.remove(out.len());
        self.externals.remove(pages, external);
        Ok(true)
    }

    /// Looks at all pages, and whether the counts are true.
    pub fn check<P: Pages>(&self, pages: &P) -> Result<(), PageError> {
        let mut totals = Totals::default();
        let mut externals = Externals { next: self.externals.next, ..Externals::default() };
        let Some(ends) = self.ends else { return Ok(()) };
        for label in ends.first..=ends.last {
            let id = page_id(label);
            let page = self.page(pages, label, self.count_of(pages, &ends, label)?)?;
            page.check().map_err(at_page(id))?;
            if page.is_empty() && !ends.inner().contains(&label) {
                return Err(wrong(id, "elements"));
            }
            for element in page.iter() {
                let element = element.map_err(at_page(id))?;
                totals.add(external::read(pages, element)?.len());
                externals.note(element);
            }
        }
        if (totals, externals) == (self.totals, self.externals) {
            Ok(())
        } else {
            let expected = "as many elements and bytes as the descriptor counts";
            Err(wrong(page_id(ends.last), expected))
        }
    }
}

/// Counts the elements of a page at an end, which will be between others.
fn note_inner<P: Pages>(
    pages: &mut P,
    ends: &Ends,
    label: u64,
    count: u32,
) -> Result<(), PageError> {
    let (group, count) = (label / GROUP, (count as u16).to_le_bytes());
    let id = counts_id(group);
    if ends.groups().contains(&group) {
        List::counts(pages, group)?;
        pages.edit(id)?.write(place_of(label), &count);
    } else {
        let mut payload = vec![0; GROUP as usize * 2];
        payload[place_of(label)..][..2].copy_from_slice(&count);
        pages.add(id, &payload);
    }
    Ok(())
}

fn accept(element: &[u8]) -> Result<(), PageError> {
    if element.len() > ELEMENT_MAX_BYTES {
        return Err(PageError::TooLong { bytes: element.len() });
    }
    fits(0, element.len())
}

fn wrong(page: PageId, expected: &'static str) -> PageError {
    at_page(page)(Damage { at: 0, expected })
}

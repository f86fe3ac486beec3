//! Lists: elements in the order in which they stand, on pages in a sequence.
//!
//! Invariants: each page has elements, and at most `page_bytes` bytes if it has more than one; the directory has every
//! page with its true count; `totals` counts elements and their bytes; long elements are as [`super::external`]
//! says. How full pages are is no invariant.

use super::bytes::{ELEMENT_MAX_BYTES, HEAD_BYTES};
use super::descriptor::Part;
use super::directory::Spot;
use super::external::{self, EXTERNAL_MIN_BYTES, Externals, Stored};
use super::list_page::{self, ListPage, entry_bytes};
use super::sequence::{self, Sequence, SequenceSizes, Side};
use super::store::{Damage, PageEdit, PageError, PageId, Pages, PartKind, at_page};
use super::{Totals, fits};
use std::ops::Range;

/// How full pages get, and which elements are left out of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListSizes {
    /// Pages of elements.
    pub pages: SequenceSizes,
    /// Elements of so many bytes lie in pages of their own.
    pub external_bytes: usize,
}

impl Default for ListSizes {
    fn default() -> Self {
        Self { pages: SequenceSizes::of_pages(2048), external_bytes: EXTERNAL_MIN_BYTES }
    }
}

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Where element 0 stands.
    Front,
    /// Where the last one stands.
    Back,
}

/// A list.
#[derive(Clone, Debug)]
pub struct List {
    /// Elements and their bytes.
    pub totals: Totals,
    /// Long elements.
    pub externals: Externals,
    sequence: Sequence<()>,
    external_bytes: usize,
}

impl List {
    /// A list without elements, which has no page.
    #[must_use]
    pub fn new(sizes: ListSizes) -> Self {
        let sequence = Sequence::new(PartKind::List, sizes.pages);
        let (totals, externals) = (Totals::default(), Externals::default());
        Self { totals, externals, sequence, external_bytes: sizes.external_bytes }
    }

    /// A list of these elements: from an inline form, or from a load.
    pub fn build<P: Pages>(
        pages: &mut P,
        sizes: ListSizes,
        elements: &[&[u8]],
    ) -> Result<Self, PageError> {
        for element in elements {
            accept(element)?;
        }
        Ok(Self::of_elements(pages, sizes, elements))
    }

    fn of_elements<P: Pages>(pages: &mut P, sizes: ListSizes, elements: &[&[u8]]) -> Self {
        let mut list = Self::new(sizes);
        let mut stored = Vec::with_capacity(elements.len());
        for element in elements {
            let own = list.plan(element);
            list.externals.add(pages, own, element);
            list.totals.add(element.len());
            stored.push(own);
        }
        let mut label = Sequence::<()>::first_label();
        for own in pieces(&stored, sizes.pages.page_bytes) {
            list.sequence.add(pages, label, &list_page::build(own), own.len(), ());
            label += sizes.pages.label_gap;
        }
        list
    }

    /// A list of what one page holds.
    pub fn of_page<P: Pages>(pages: &mut P, sizes: ListSizes, page: &[u8]) -> Result<Self, Damage> {
        let mut elements = Vec::new();
        for element in ListPage::parse(page)?.iter() {
            match element? {
                Stored::Here(element) => elements.push(element),
                Stored::External(_) => {
                    return super::bytes::damage(0, "elements that lie in the page");
                }
            }
        }
        Ok(Self::of_elements(pages, sizes, &elements))
    }

    /// The list whose pages have these labels, ascending. The rest says its descriptor.
    pub fn open<P: Pages>(
        pages: &P,
        sizes: ListSizes,
        totals: Totals,
        externals: Option<&Part>,
        labels: impl IntoIterator<Item = u64>,
    ) -> Result<Self, PageError> {
        let externals = Externals::open(externals);
        let mut list = Self { totals, externals, ..Self::new(sizes) };
        let mut last = None;
        for label in labels {
            let page = list.sequence.id(label);
            let view = ListPage::parse(pages.read(page)?).map_err(at_page(page))?;
            if view.is_empty() || last >= Some(label) {
                return Err(wrong(page, "elements, and ascending labels"));
            }
            last = Some(label);
            list.sequence.directory.insert(label, view.len() as u32, ());
        }
        let count = list.sequence.directory.elements();
        match last {
            Some(last) if count != totals.elements => {
                Err(wrong(list.sequence.id(last), "as many elements as the descriptor counts"))
            }
            _ => Ok(list),
        }
    }

    /// Elements.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.sequence.directory.elements()
    }

    /// True without elements: the list is to be deleted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the descriptor says of the pages; `None` without any. [`Externals::part`] is the other part.
    #[must_use]
    pub fn part(&self) -> Option<Part> {
        self.sequence.part()
    }

    /// The pages that hold the elements whose numbers are in `range`.
    pub fn page_ids(&self, range: Range<u64>) -> impl Iterator<Item = PageId> + '_ {
        self.sequence.page_ids(range)
    }

    fn page<'p, P: Pages>(&self, pages: &'p P, spot: Spot) -> Result<ListPage<'p>, PageError> {
        let id = self.sequence.id(spot.label);
        let page = ListPage::parse(pages.read(id)?).map_err(at_page(id))?;
        if page.len() == spot.count as usize {
            Ok(page)
        } else {
            Err(wrong(id, "as many elements as the directory counts"))
        }
    }

    /// Element number `index`.
    pub fn get<'p, P: Pages>(
        &self,
        pages: &'p P,
        index: u64,
    ) -> Result<Option<&'p [u8]>, PageError> {
        let Some(spot) = self.sequence.directory.at(index) else { return Ok(None) };
        let page = self.page(pages, spot)?;
        let element = page.get((index - spot.before) as usize);
        let element = element.map_err(at_page(self.sequence.id(spot.label)))?;
        external::read(pages, element).map(Some)
    }

    /// How an element will be stored.
    fn plan<'e>(&self, element: &'e [u8]) -> Stored<'e> {
        self.externals.plan(element, self.external_bytes)
    }

    /// Counts an element that has come in.
    fn added<P: Pages>(&mut self, pages: &mut P, stored: Stored<'_>, element: &[u8]) {
        self.externals.add(pages, stored, element);
        self.totals.add(element.len());
    }

    /// The elements from number `from` on, to the right. Ends behind the first error.
    pub fn iter<'l, P: Pages>(&'l self, pages: &'l P, from: u64) -> Iter<'l, P> {
        let spot = self.sequence.directory.at(from);
        let skip = spot.map_or(0, |spot| (from - spot.before) as usize);
        Iter {
            list: self,
            pages,
            next: spot.map(|spot| spot.label),
            skip,
            page: None,
            is_forward: true,
        }
    }

    /// The elements from number `from` on, to the left.
    pub fn iter_back<'l, P: Pages>(&'l self, pages: &'l P, from: u64) -> Iter<'l, P> {
        let spot = self.sequence.directory.at(from);
        let skip = spot.map_or(0, |spot| (spot.before + u64::from(spot.count) - 1 - from) as usize);
        Iter {
            list: self,
            pages,
            next: spot.map(|spot| spot.label),
            skip,
            page: None,
            is_forward: false,
        }
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
        let directory = &self.sequence.directory;
        let (spot, side) = match end {
            End::Front => (directory.first(), Side::Before),
            End::Back => (directory.last(), Side::Behind),
        };
        let Some(spot) = spot else {
            let label = Sequence::<()>::first_label();
            self.sequence.add(pages, label, &list_page::build(&[stored]), 1, ());
            self.added(pages, stored, element);
            return Ok(());
        };
        let page = self.page(pages, spot)?;
        let bytes = page.payload_bytes() + entry_bytes(&stored);
        if bytes <= self.sequence.sizes.page_bytes {
            let index = if end == End::Front { 0 } else { page.len() };
            self.insert_into(pages, spot, index, stored)?;
        } else {
            let room = self.sequence.room(pages, spot.label, side, 1)?;
            for label in room.free {
                self.sequence.add(pages, label, &list_page::build(&[stored]), 1, ());
            }
        }
        self.added(pages, stored, element);
        Ok(())
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
        let Some(spot) = self.sequence.directory.at(index) else { return Ok(false) };
        let page = self.page(pages, spot)?;
        let at = (index - spot.before) as usize;
        let (id, stored) = (self.sequence.id(spot.label), self.plan(element));
        let bytes = page.payload_bytes() + entry_bytes(&stored);
        if bytes <= self.sequence.sizes.page_bytes {
            self.insert_into(pages, spot, at, stored)?;
        } else {
            let mut elements = page.iter().collect::<Result<Vec<_>, _>>().map_err(at_page(id))?;
            elements.insert(at, stored);
            let payloads = self.payloads(&elements);
            self.replace(pages, spot, &payloads)?;
        }
        self.added(pages, stored, element);
        Ok(true)
    }

    fn insert_into<P: Pages>(
        &mut self,
        pages: &mut P,
        spot: Spot,
        index: usize,
        stored: Stored<'_>,
    ) -> Result<(), PageError> {
        let id = self.sequence.id(spot.label);
        list_page::insert(&mut pages.edit(id)?, index, stored).map_err(at_page(id))?;
        self.sequence.directory.set_count(spot.label, spot.count + 1);
        Ok(())
    }

    /// Payloads and counts of pages for these elements.
    fn payloads(&self, elements: &[Stored<'_>]) -> Vec<(Vec<u8>, usize)> {
        let own = pieces(elements, self.sequence.sizes.page_bytes);
        own.map(|own| (list_page::build(own), own.len())).collect()
    }

    /// Puts pages in place of one that was read.
    fn replace<P: Pages>(
        &mut self,
        pages: &mut P,
        spot: Spot,
        payloads: &[(Vec<u8>, usize)],
    ) -> Result<(), PageError> {
        let Some(((first, count), others)) = payloads.split_first() else { return Ok(()) };
        let mut label = spot.label;
        if !others.is_empty() {
            let room = self.sequence.room(pages, label, Side::Behind, others.len())?;
            label = room.label;
            for (label, (payload, count)) in room.free.into_iter().zip(others) {
                self.sequence.add(pages, label, payload, *count, ());
            }
        }
        pages.edit(self.sequence.id(label))?.replace(first);
        self.sequence.directory.set_count(label, *count as u32);
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
        let Some(spot) = self.sequence.directory.at(index) else { return Ok(false) };
        let page = self.page(pages, spot)?;
        let at = (index - spot.before) as usize;
        let (id, stored) = (self.sequence.id(spot.label), self.plan(element));
        let old = page.get(at).map_err(at_page(id))?;
        let (old_bytes, external) = (old.len(), old.external());
        let bytes = page.payload_bytes() + entry_bytes(&stored);
        let bytes = bytes.saturating_sub(entry_bytes(&old));
        if bytes <= self.sequence.sizes.page_bytes || page.len() == 1 {
            list_page::set(&mut pages.edit(id)?, at, stored).map_err(at_page(id))?;
        } else {
            let mut elements = page.iter().collect::<Result<Vec<_>, _>>().map_err(at_page(id))?;
            if let Some(slot) = elements.get_mut(at) {
                *slot = stored;
            }
            let payloads = self.payloads(&elements);
            self.replace(pages, spot, &payloads)?;
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
        let directory = &self.sequence.directory;
        let spot = if end == End::Front { directory.first() } else { directory.last() };
        let Some(spot) = spot else { return Ok(false) };
        let page = self.page(pages, spot)?;
        let at = if end == End::Front { 0 } else { page.len().saturating_sub(1) };
        let id = self.sequence.id(spot.label);
        let stored = page.get(at).map_err(at_page(id))?;
        let external = stored.external();
        out.clear();
        out.extend_from_slice(external::read(pages, stored)?);
        self.remove_from(pages, spot, at..at + 1, out.len())?;
        self.externals.remove(pages, external);
        Ok(true)
    }

    /// Removes the elements of a page whose numbers in it are given, and all their bytes.
    fn remove_from<P: Pages>(
        &mut self,
        pages: &mut P,
        spot: Spot,
        range: Range<usize>,
        bytes: usize,
    ) -> Result<(), PageError> {
        let removed = range.len();
        if removed >= spot.count as usize {
            self.sequence.remove(pages, spot.label);
        } else {
            let id = self.sequence.id(spot.label);
            list_page::remove(&mut pages.edit(id)?, range).map_err(at_page(id))?;
            self.sequence.directory.set_count(spot.label, spot.count - removed as u32);
        }
        self.totals.elements = self.totals.elements.saturating_sub(removed as u64);
        self.totals.bytes = self.totals.bytes.saturating_sub(bytes as u64);
        Ok(())
    }

    /// Removes the elements whose numbers are in `range`; what lies behind the end is left out. All their pages are read
    /// before the first is changed.
    pub fn remove<P: Pages>(&mut self, pages: &mut P, range: Range<u64>) -> Result<(), PageError> {
        let range = range.start..range.end.min(self.len());
        let mut cuts: Vec<(Spot, Range<usize>, usize)> = Vec::new();
        let mut externals = Vec::new();
        let mut next =
            if range.is_empty() { None } else { self.sequence.directory.at(range.start) };
        while let Some(spot) = next.filter(|spot| spot.before < range.end) {
            let page = self.page(pages, spot)?;
            let start = range.start.saturating_sub(spot.before) as usize;
            let end = (range.end - spot.before).min(u64::from(spot.count)) as usize;
            let mut bytes = 0;
            for (at, element) in page.iter().enumerate().take(end) {
                let element = element.map_err(at_page(self.sequence.id(spot.label)))?;
                if at >= start {
                    bytes += element.len();
                    externals.push(element.external());
                }
            }
            page.check().map_err(at_page(self.sequence.id(spot.label)))?;
            cuts.push((spot, start..end, bytes));
            next = self.sequence.directory.next(spot.label);
        }
        for (spot, own, bytes) in &cuts {
            self.remove_from(pages, *spot, own.clone(), *bytes)?;
        }
        for external in externals {
            self.externals.remove(pages, external);
        }
        if let Some((spot, ..)) = cuts.first() {
            // The cuts' own pages, and their neighbours on the left.
            self.join(pages, range.start);
            if spot.before < range.start {
                self.join(pages, spot.before);
            }
        }
        Ok(())
    }

    /// Keeps the elements whose numbers are in `range` alone.
    pub fn trim<P: Pages>(&mut self, pages: &mut P, range: Range<u64>) -> Result<(), PageError> {
        let len = self.len();
        if range.is_empty() || range.start >= len {
            return self.remove(pages, 0..len);
        }
        // Both ends' pages are read before either is cut.
        for page in
            self.sequence.page_ids(0..range.start).chain(self.sequence.page_ids(range.end..len))
        {
            let view = ListPage::parse(pages.read(page)?).map_err(at_page(page))?;
            view.check().map_err(at_page(page))?;
        }
        self.remove(pages, range.end.min(len)..len)?;
        self.remove(pages, 0..range.start)
    }

    /// Joins the page of element number `index` with the one behind it, if it has become small, both are in memory and
    /// one page has room for both.
    fn join<P: Pages>(&mut self, pages: &mut P, index: u64) {
        let directory = &self.sequence.directory;
        let Some(left) = directory.at(index) else { return };
        let Some(right) = directory.next(left.label) else { return };
        let (left_id, right_id) = (self.sequence.id(left.label), self.sequence.id(right.label));
        if !pages.is_in_memory(left_id) || !pages.is_in_memory(right_id) {
            return;
        }
        let (Ok(own), Ok(behind)) = (pages.read(left_id), pages.read(right_id)) else { return };
        let page_bytes = self.sequence.sizes.page_bytes;
        let is_small = own.len().min(behind.len()) < page_bytes / 4;
        if !is_small || own.len() + behind.len() > page_bytes * 3 / 4 {
            return;
        }
        let count = left.count as usize + right.count as usize;
        if count > super::bytes::PAGE_ELEMENTS_MAX || behind.len() < HEAD_BYTES {
            return;
        }
        let (end, heap) = (own.len(), behind[HEAD_BYTES..].to_vec());
        let Ok(mut edit) = pages.edit(left_id) else { return };
        edit.splice(end..end, &heap);
        super::bytes::set_elements(&mut edit, count);
        drop(edit);
        self.sequence.remove(pages, right.label);
        self.sequence.directory.set_count(left.label, count as u32);
    }

    /// Looks at all pages, and whether the counts are true.
    pub fn check<P: Pages>(&self, pages: &P) -> Result<(), PageError> {
        let mut totals = Totals::default();
        let mut externals = Externals { next: self.externals.next, ..Externals::default() };
        let mut last = None;
        for spot in self.sequence.directory.iter() {
            let id = self.sequence.id(spot.label);
            let page = self.page(pages, spot)?;
            page.check().map_err(at_page(id))?;
            let is_long = page.payload_bytes() > self.sequence.sizes.page_bytes;
            if page.is_empty() || (is_long && page.len() > 1) {
                return Err(wrong(id, "elements within the bounds of a page"));
            }
            for element in page.iter() {
                let element = element.map_err(at_page(id))?;
                totals.add(external::read(pages, element)?.len());
                externals.note(element);
            }
            last = Some(id);
        }
        match last {
            Some(last) if (totals, externals) != (self.totals, self.externals) => {
                Err(wrong(last, "as many elements and bytes as the descriptor counts"))
            }
            _ => Ok(()),
        }
    }
}

/// Elements one after the other. What comes after an error is nothing.
pub struct Iter<'l, P> {
    list: &'l List,
    pages: &'l P,
    /// The page after the one that is walked.
    next: Option<u64>,
    /// Elements of the next page that are left out.
    skip: usize,
    /// The page, elements left in it, and where the next begins, or ends when walked to the left.
    page: Option<(ListPage<'l>, PageId, usize, usize)>,
    is_forward: bool,
}

impl<'l, P: Pages> Iter<'l, P> {
    fn step(&mut self) -> Result<Option<&'l [u8]>, PageError> {
        loop {
            if let Some((page, id, left, at)) = &mut self.page
                && *left > 0
            {
                *left -= 1;
                let item = if self.is_forward { page.item_at(*at) } else { page.item_before(*at) };
                let item = item.map_err(at_page(*id))?;
                *at = if self.is_forward { item.entry.end } else { item.entry.start };
                return external::read(self.pages, page.element(&item)).map(Some);
            }
            let Some(label) = self.next else { return Ok(None) };
            let directory = &self.list.sequence.directory;
            let Some(spot) = directory.of(label) else { return Ok(None) };
            let (page, id) = (self.list.page(self.pages, spot)?, self.list.sequence.id(label));
            let left = page.len() - std::mem::take(&mut self.skip).min(page.len());
            let index = if self.is_forward { page.len() - left } else { left };
            let at = page.start_of(index).map_err(at_page(id))?;
            self.page = Some((page, id, left, at));
            let next =
                if self.is_forward { directory.next(label) } else { directory.previous(label) };
            self.next = next.map(|spot| spot.label);
        }
    }
}

impl<'l, P: Pages> Iterator for Iter<'l, P> {
    type Item = Result<&'l [u8], PageError>;

    fn next(&mut self) -> Option<Self::Item> {
        let step = self.step();
        if step.is_err() {
            (self.next, self.page) = (None, None);
        }
        step.transpose()
    }
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

/// Cuts elements into pages of at most `page_bytes`.
fn pieces<'s, 'e>(
    elements: &'s [Stored<'e>],
    page_bytes: usize,
) -> impl Iterator<Item = &'s [Stored<'e>]> + use<'s, 'e> {
    let bytes: Vec<usize> = elements.iter().map(entry_bytes).collect();
    let mut rest = elements;
    sequence::pieces(&bytes, HEAD_BYTES, page_bytes).into_iter().map(move |count| {
        let (own, others) = rest.split_at(count);
        rest = others;
        own
    })
}

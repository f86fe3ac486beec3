//! A page of a list: elements in list order, each with its length on both sides, so that a page can be
//! walked and cut from both ends. Long elements have pages of their own: [`super::external`].

use super::bytes::{self, HEAD_BYTES, PAGE_ELEMENTS_MAX, damage, len_before};
use super::external::{
    EXTERNAL_END, EXTERNAL_ENTRY_BYTES, Length, Reference, Stored, is_external_before,
};
use super::store::{Damage, PageEdit};
use std::ops::Range;

/// A page's payload, being read.
#[derive(Clone, Copy, Debug)]
pub struct ListPage<'p> {
    payload: &'p [u8],
    len: usize,
}

/// Position of an element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    /// With its lengths.
    pub entry: Range<usize>,
    pub element: Range<usize>,
    pub external: Option<Reference>,
}

impl<'p> ListPage<'p> {
    /// Parses the head. Whether elements are within the payload is checked when they are read.
    pub fn parse(payload: &'p [u8]) -> Result<Self, Damage> {
        let (len, _) = bytes::head(payload, 0)?;
        Ok(Self { payload, len })
    }

    /// Elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True without elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of the payload.
    pub(super) fn payload_bytes(&self) -> usize {
        self.payload.len()
    }

    /// Element number `index`.
    pub fn get(&self, index: usize) -> Result<Stored<'p>, Damage> {
        Ok(self.element(&self.item(index)?))
    }

    /// All elements, from left to right, up to the first damaged one.
    pub fn iter(&self) -> impl Iterator<Item = Result<Stored<'p>, Damage>> + use<'p> {
        let page = *self;
        let (mut at, mut left) = (HEAD_BYTES, page.len);
        std::iter::from_fn(move || {
            left = left.checked_sub(1)?;
            let stored = page.stored_at(at);
            match &stored {
                Ok((_, behind)) => at = *behind,
                Err(_) => left = 0,
            }
            Some(stored.map(|(stored, _)| stored))
        })
    }

    /// All elements, from right to left, up to the first damaged one.
    pub fn iter_back(&self) -> impl Iterator<Item = Result<Stored<'p>, Damage>> + use<'p> {
        let page = *self;
        let (mut end, mut left) = (page.payload.len(), page.len);
        std::iter::from_fn(move || {
            left = left.checked_sub(1)?;
            let item = page.item_before(end);
            match &item {
                Ok(item) => end = item.entry.start,
                Err(_) => left = 0,
            }
            Some(item.map(|item| page.element(&item)))
        })
    }

    /// The first of `left` elements that is `wanted`, or has a page of its own and is as long: how many are before it, the place
    /// behind it, and the name of its page. They follow the place `at` to the right, or, with `BACK`, to the left.
    pub(super) fn find<const BACK: bool>(
        &self,
        mut at: usize,
        left: usize,
        wanted: &[u8],
    ) -> Result<Option<(usize, usize, Option<Reference>)>, Damage> {
        for passed in 0..left {
            // Nearly all elements are short.
            if let Some((element, behind)) = self.short_item::<BACK>(at) {
                at = behind;
                if element == wanted {
                    return Ok(Some((passed, at, None)));
                }
                continue;
            }
            let item = if BACK { self.item_before(at)? } else { self.item_at(at)? };
            at = if BACK { item.entry.start } else { item.entry.end };
            let may_be_it = match item.external {
                Some(reference) => reference.bytes as usize == wanted.len(),
                None => self.payload[item.element] == *wanted,
            };
            if may_be_it {
                return Ok(Some((passed, at, item.external)));
            }
        }
        Ok(None)
    }

    /// An element whose lengths are a byte each, and the place behind it.
    #[inline]
    fn short_item<const BACK: bool>(&self, at: usize) -> Option<(&'p [u8], usize)> {
        let (start, end) = if BACK {
            let len = bytes::short_len(*self.payload.get(at.checked_sub(1)?)?)?;
            (at.checked_sub(len + 2).filter(|start| *start >= HEAD_BYTES)?, at)
        } else {
            (at, at + 2 + bytes::short_len(*self.payload.get(at)?)?)
        };
        let [_, element @ .., _] = self.payload.get(start..end)? else { return None };
        Some((element, if BACK { start } else { end }))
    }

    /// Looks at every byte.
    pub fn check(&self) -> Result<(), Damage> {
        let mut at = HEAD_BYTES;
        for _ in 0..self.len {
            let item = self.item_at(at)?;
            if self.item_before(item.entry.end)? != item {
                return damage(item.entry.end, "the same length on both sides");
            }
            at = item.entry.end;
        }
        if at == self.payload.len() { Ok(()) } else { damage(at, "end of the page") }
    }

    /// The element of an item of this page.
    pub(super) fn element(&self, item: &Item) -> Stored<'p> {
        match item.external {
            Some(reference) => Stored::External(reference),
            None => Stored::Here(&self.payload[item.element.clone()]),
        }
    }

    /// The element that begins at `at`, and the place behind it.
    #[inline]
    pub(super) fn stored_at(&self, at: usize) -> Result<(Stored<'p>, usize), Damage> {
        // Nearly all elements are short.
        if let Some((element, behind)) = self.short_item::<false>(at) {
            return Ok((Stored::Here(element), behind));
        }
        let item = self.item_at(at)?;
        Ok((self.element(&item), item.entry.end))
    }

    /// The element that begins at `at`.
    pub(super) fn item_at(&self, at: usize) -> Result<Item, Damage> {
        let Length { here, taken, external } = Length::at(self.payload, at)?;
        let behind = if external.is_some() { 1 } else { taken };
        let whole = bytes::range(self.payload, at + taken, here + behind)?;
        Ok(Item { entry: at..whole.end, element: whole.start..whole.end - behind, external })
    }

    /// The element that ends before `end`.
    pub(super) fn item_before(&self, end: usize) -> Result<Item, Damage> {
        if is_external_before(self.payload, end) {
            let Some(start) = end.checked_sub(EXTERNAL_ENTRY_BYTES) else {
                return damage(end, "name of a page");
            };
            let item = self.item_at(start)?;
            let is_whole = item.external.is_some() && start >= HEAD_BYTES;
            return if is_whole { Ok(item) } else { damage(start, "name of a page") };
        }
        let (len, taken) = len_before(self.payload, end)?;
        match end.checked_sub(len + 2 * taken) {
            Some(start) if start >= HEAD_BYTES => {
                let element = start + taken..end - taken;
                Ok(Item { entry: start..end, element, external: None })
            }
            _ => damage(end, "bytes of an element"),
        }
    }

    /// Element number `index`, found from the nearer end.
    pub(super) fn item(&self, index: usize) -> Result<Item, Damage> {
        if index >= self.len {
            return damage(0, "more elements");
        }
        if index <= self.len / 2 {
            let mut at = HEAD_BYTES;
            for _ in 0..index {
                at = self.item_at(at)?.entry.end;
            }
            return self.item_at(at);
        }
        let mut end = self.payload.len();
        for _ in index + 1..self.len {
            end = self.item_before(end)?.entry.start;
        }
        self.item_before(end)
    }

    /// Where element number `index` begins; the end of the payload for the one behind the last.
    pub(super) fn start_of(&self, index: usize) -> Result<usize, Damage> {
        if index == self.len { Ok(self.payload.len()) } else { Ok(self.item(index)?.entry.start) }
    }
}

/// Bytes that an element takes.
pub(super) fn entry_bytes(element: &Stored<'_>) -> usize {
    match element {
        Stored::Here(element) => element.len() + 2 * bytes::len_bytes(element.len()),
        Stored::External(_) => EXTERNAL_ENTRY_BYTES,
    }
}

fn put_entry(out: &mut Vec<u8>, element: &Stored<'_>) {
    element.put_len(out);
    match element {
        Stored::Here(element) => {
            out.extend_from_slice(element);
            bytes::put_len_backwards(out, element.len());
        }
        Stored::External(_) => out.push(EXTERNAL_END),
    }
}

/// A page of these elements, at most 65,535.
#[must_use]
pub fn build(elements: &[Stored<'_>]) -> Vec<u8> {
    let mut payload = bytes::new_payload(elements.len(), 0, elements.iter().map(entry_bytes).sum());
    for element in elements {
        put_entry(&mut payload, element);
    }
    payload
}

/// Adds an element, which becomes number `index`.
pub fn insert(page: &mut impl PageEdit, index: usize, element: Stored<'_>) -> Result<(), Damage> {
    let view = ListPage::parse(page.bytes())?;
    let len = view.len;
    if len >= PAGE_ELEMENTS_MAX || index > len {
        return damage(0, "room for one more element");
    }
    let at = if index == 0 { HEAD_BYTES } else { view.start_of(index)? };
    let mut entry = Vec::with_capacity(entry_bytes(&element));
    put_entry(&mut entry, &element);
    page.splice(at..at, &entry);
    bytes::set_elements(page, len + 1);
    Ok(())
}

/// Puts another element in the place of number `index`.
pub fn set(page: &mut impl PageEdit, index: usize, element: Stored<'_>) -> Result<(), Damage> {
    let item = ListPage::parse(page.bytes())?.item(index)?;
    let mut entry = Vec::with_capacity(entry_bytes(&element));
    put_entry(&mut entry, &element);
    if item.entry.len() == entry.len() {
        page.write(item.entry.start, &entry);
    } else {
        page.splice(item.entry, &entry);
    }
    Ok(())
}

/// Removes the elements whose numbers are in `range`.
pub fn remove(page: &mut impl PageEdit, range: Range<usize>) -> Result<(), Damage> {
    let view = ListPage::parse(page.bytes())?;
    let len = view.len;
    if range.end > len || range.is_empty() {
        return if range.is_empty() { Ok(()) } else { damage(0, "more elements") };
    }
    let (start, end) = (view.start_of(range.start)?, view.start_of(range.end)?);
    if start >= end {
        return damage(start, "elements in their order");
    }
    page.splice(start..end, &[]);
    bytes::set_elements(page, len - range.len());
    Ok(())
}

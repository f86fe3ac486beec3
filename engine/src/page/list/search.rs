//! The search for elements equal to one, from an end of a list to the other. It reads the pages in their order and no counts, so
//! that it needs one page at a time, and goes on from where it was when a page was missing. It speaks of the list that it began
//! with: once that has changed it must begin again.

use super::{End, List, counts_id, page_id, wrong};
use crate::page::external::{self, Stored};
use crate::page::list_page::ListPage;
use crate::page::store::{PageError, PageId, Pages, at_page};

/// How far a search has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Search {
    from: End,
    /// Pages that it has passed.
    pages: u64,
    /// Elements that it has compared,
    compared: u64,
    /// and how many of them are on the page that it is at.
    within: usize,
}

impl Search {
    /// One that has not begun.
    #[must_use]
    pub fn new(from: End) -> Self {
        Self { from, pages: 0, compared: 0, within: 0 }
    }

    /// Elements that it has compared.
    #[must_use]
    pub fn compared(&self) -> u64 {
        self.compared
    }

    /// Compares the elements of the page that it is at, and goes to the next; false if there is none, or at the end of `most`
    /// compared elements, or when `found` wants no more: it hears how many elements are before each one that is equal, on the side
    /// that the search came from. Long elements are read only if they have the length of `wanted`.
    ///
    /// # Errors
    /// [`PageError`]; what was compared before is not compared again.
    pub fn step<P: Pages>(
        &mut self,
        (list, pages): (&List, &P),
        (wanted, most): (&[u8], u64),
        mut found: impl FnMut(u64) -> bool,
    ) -> Result<bool, PageError> {
        let Some(id) = self.ahead(list).next().filter(|_| self.compared < most) else {
            return Ok(false);
        };
        let page = ListPage::parse(pages.read(id)?).map_err(at_page(id))?;
        let len = page.len();
        let most = usize::try_from(most - self.compared).unwrap_or(usize::MAX);
        let end = len.min(self.within.saturating_add(most));
        let within = self.within.min(len);
        let at = if self.from == End::Front { within } else { len - within };
        let mut at = page.start_of(at).map_err(at_page(id))?;
        while self.within < end {
            let left = end - self.within;
            let next = match self.from {
                End::Front => page.find::<false>(at, left, wanted),
                End::Back => page.find::<true>(at, left, wanted),
            };
            let Some((passed, behind, external)) = next.map_err(at_page(id))? else {
                self.pass(left);
                break;
            };
            self.pass(passed);
            let is_equal = match external {
                None => true,
                Some(reference) => external::read(pages, Stored::External(reference))? == wanted,
            };
            let before = self.compared;
            self.pass(1);
            if is_equal && !found(before) {
                return Ok(false);
            }
            at = behind;
        }
        if end < len {
            return Ok(false);
        }
        (self.pages, self.within) = (self.pages + 1, 0);
        let is_last = list.ends.is_none_or(|ends| self.pages == ends.pages());
        if self.compared > list.len() || (is_last && self.compared != list.len()) {
            return Err(wrong(id, "as many elements as the descriptor counts"));
        }
        Ok(!is_last)
    }

    /// So many elements of the page have been compared.
    fn pass(&mut self, elements: usize) {
        self.within += elements;
        self.compared += elements as u64;
    }

    /// The pages that it comes to, in their order.
    pub fn ahead(&self, list: &List) -> impl Iterator<Item = PageId> + use<> {
        let (passed, from) = (self.pages, self.from);
        let ends = list.ends.filter(|ends| passed < ends.pages());
        ends.into_iter().flat_map(move |ends| {
            (passed..ends.pages()).map(move |nth| match from {
                End::Front => page_id(ends.first + nth),
                End::Back => page_id(ends.last - nth),
            })
        })
    }

    /// The pages of long elements that it will read of the page that it is at, where `wanted` is as long as they are.
    ///
    /// # Errors
    /// [`PageError`].
    pub fn long_ahead<P: Pages>(
        &self,
        (list, pages): (&List, &P),
        wanted: &[u8],
    ) -> Result<Vec<PageId>, PageError> {
        let Some(id) = self.ahead(list).next() else { return Ok(Vec::new()) };
        let page = ListPage::parse(pages.read(id)?).map_err(at_page(id))?;
        let elements: &mut dyn Iterator<Item = _> = match self.from {
            End::Front => &mut page.iter(),
            End::Back => &mut page.iter_back(),
        };
        let mut long = Vec::new();
        for element in elements.skip(self.within) {
            let reference = element.map_err(at_page(id))?.external();
            long.extend(reference.filter(|found| found.bytes as usize == wanted.len()));
        }
        Ok(long.into_iter().map(|reference| reference.page()).collect())
    }
}

impl List {
    /// The pages that are not in memory and that a change of these elements needs: the counts, or else the pages of the elements,
    /// which must ascend.
    ///
    /// # Errors
    /// [`PageError`].
    pub fn missing_to_change<P: Pages>(
        &self,
        pages: &P,
        indexes: &[u64],
    ) -> Result<Vec<PageId>, PageError> {
        let Some(ends) = self.ends else { return Ok(Vec::new()) };
        let counts = ends.groups().map(counts_id);
        let missing: Vec<PageId> = counts.filter(|page| !pages.is_in_memory(*page)).collect();
        if !missing.is_empty() {
            return Ok(missing);
        }
        let (mut missing, mut indexes, mut end) = (Vec::new(), indexes.iter().peekable(), 0);
        for label in ends.first..=ends.last {
            if indexes.peek().is_none() {
                break;
            }
            end += u64::from(self.count_of(pages, &ends, label)?);
            let mut is_needed = false;
            while indexes.next_if(|index| **index < end).is_some() {
                is_needed = true;
            }
            if is_needed && !pages.is_in_memory(page_id(label)) {
                missing.push(page_id(label));
            }
        }
        Ok(missing)
    }
}

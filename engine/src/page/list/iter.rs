//! Elements from left to right.

use super::page_id;
use crate::page::external;
use crate::page::list_page::ListPage;
use crate::page::store::{PageError, PageId, Pages, at_page};
use std::ops::Range;

/// Elements from left to right. Ends behind the first error.
pub(super) struct Iter<'l, P> {
    pages: &'l P,
    /// Where the next element is: its page, the offset there, and how many elements of the page come from there on.
    page: Option<(PageId, ListPage<'l>)>,
    at: usize,
    left: usize,
    /// Labels of the pages that follow.
    labels: Range<u64>,
    /// Elements of the first page that are passed over.
    skip: usize,
}

impl<'l, P: Pages> Iter<'l, P> {
    /// Those of the pages with these labels, without the first `skip`.
    pub(super) fn new(pages: &'l P, labels: Range<u64>, skip: usize) -> Self {
        Self { pages, page: None, at: 0, left: 0, labels, skip }
    }

    fn step(&mut self) -> Result<Option<&'l [u8]>, PageError> {
        while self.left == 0 {
            let Some(label) = self.labels.next() else { return Ok(None) };
            let id = page_id(label);
            let page = ListPage::parse(self.pages.read(id)?).map_err(at_page(id))?;
            let skip = std::mem::take(&mut self.skip);
            self.at = page.start_of(skip.min(page.len())).map_err(at_page(id))?;
            self.left = page.len().saturating_sub(skip);
            self.page = Some((id, page));
        }
        let Some((id, page)) = self.page else { return Ok(None) };
        let item = page.item_at(self.at).map_err(at_page(id))?;
        (self.at, self.left) = (item.entry.end, self.left - 1);
        external::read(self.pages, page.element(&item)).map(Some)
    }
}

impl<'l, P: Pages> Iterator for Iter<'l, P> {
    type Item = Result<&'l [u8], PageError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let step = self.step();
        if step.is_err() {
            (self.left, self.labels) = (0, 0..0);
        }
        step.transpose()
    }
}

//! Elements from left to right.

use super::{List, page_id};
use crate::page::external;
use crate::page::list_page::ListPage;
use crate::page::store::{PageError, Pages, at_page};
use std::ops::Range;

impl List {
    /// Shows the elements with these numbers, as far as there are any, from left to right; up to the first one that cannot be read.
    pub fn each<'l, P: Pages>(
        &self,
        pages: &'l P,
        range: Range<u64>,
        mut show: impl FnMut(&'l [u8]),
    ) -> Result<(), PageError> {
        let Some((spot, ends)) = self.at(pages, range.start)?.zip(self.ends) else { return Ok(()) };
        let mut skip = (range.start - spot.before) as usize;
        let mut left = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        for label in spot.label..=ends.last {
            if left == 0 {
                break;
            }
            let id = page_id(label);
            let page = ListPage::parse(pages.read(id)?).map_err(at_page(id))?;
            let mut at = page.start_of(skip.min(page.len())).map_err(at_page(id))?;
            let count = page.len().saturating_sub(skip).min(left);
            for _ in 0..count {
                let (stored, behind) = page.stored_at(at).map_err(at_page(id))?;
                at = behind;
                show(external::read(pages, stored)?);
            }
            (skip, left) = (0, left - count);
        }
        Ok(())
    }
}

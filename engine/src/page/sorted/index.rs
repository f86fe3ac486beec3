//! The member index of a sorted set: its pages come and go by linear hashing.

use super::{Sorted, index_id};
use crate::page::bytes::PAGE_ELEMENTS_MAX;
use crate::page::index_page::{self, IndexPage};
use crate::page::linear;
use crate::page::store::{PageEdit, PageError, PageId, Pages, at_page};

impl Sorted {
    /// Index pages whose splits are overdue, as [`Hash::overdue_splits`](crate::page::Hash::overdue_splits) says.
    pub fn overdue_splits(&self, most: usize) -> impl Iterator<Item = PageId> + use<> {
        let wanted = self.totals.elements / self.sizes.index_split.max(1);
        let overdue = wanted.saturating_sub(u64::from(self.index_pages));
        linear::buddies_of(self.index_pages, overdue.min(most as u64)).map(index_id)
    }

    /// Splits or merges one index page, if that is due and the pages are in memory.
    pub(super) fn step<P: Pages>(&mut self, pages: &mut P) {
        let (count, members) = (u64::from(self.index_pages), self.totals.elements);
        // A page that is damaged or away is left as it is: a later request for its members reports that.
        if members > count * self.sizes.index_split && self.index_pages < u32::MAX {
            let _ = self.split_index(pages);
        } else if count > 1 && members < count * self.sizes.index_merge {
            let _ = self.merge_index(pages);
        }
    }

    fn split_index<P: Pages>(&mut self, pages: &mut P) -> Result<(), PageError> {
        let (from, to) = (index_id(linear::buddy_of(self.index_pages)), index_id(self.index_pages));
        if !pages.is_in_memory(from) {
            return Err(PageError::Missing(from));
        }
        let (mut kept, mut moved) = (Vec::new(), Vec::new());
        for entry in IndexPage::parse(pages.read(from)?).map_err(at_page(from))?.entries() {
            let entry = entry.map_err(at_page(from))?;
            let page = linear::page_of(u64::from(entry.0), self.index_pages + 1);
            if page == self.index_pages { moved.push(entry) } else { kept.push(entry) }
        }
        pages.edit(from)?.replace(&index_page::build(&kept));
        pages.add(to, &index_page::build(&moved));
        self.index_pages += 1;
        Ok(())
    }

    fn merge_index<P: Pages>(&mut self, pages: &mut P) -> Result<(), PageError> {
        let last = self.index_pages - 1;
        let (from, to) = (index_id(last), index_id(linear::buddy_of(last)));
        if !pages.is_in_memory(from) || !pages.is_in_memory(to) {
            return Err(PageError::Missing(from));
        }
        let mut entries = Vec::new();
        for id in [to, from] {
            for entry in IndexPage::parse(pages.read(id)?).map_err(at_page(id))?.entries() {
                entries.push(entry.map_err(at_page(id))?);
            }
        }
        if entries.len() > PAGE_ELEMENTS_MAX {
            return Ok(());
        }
        pages.edit(to)?.replace(&index_page::build(&entries));
        pages.remove(from);
        self.index_pages -= 1;
        Ok(())
    }
}

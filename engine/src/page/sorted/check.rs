//! Whether a sorted set is whole.

use super::{Sorted, counted, index_id, page_id, wrong};
use crate::page::Totals;
use crate::page::index_page::IndexPage;
use crate::page::linear;
use crate::page::scores_page::{Cut, Scored, compare};
use crate::page::store::{PageError, Pages, at_page};

impl Sorted {
    /// Looks at all pages: whether order and index agree, and the counts are true.
    pub fn check<P: Pages>(
        &self,
        pages: &P,
        hash_of: &impl Fn(&[u8]) -> u64,
    ) -> Result<(), PageError> {
        let mut totals = Totals::default();
        let mut last: Option<Scored<'_>> = None;
        for (number, count) in self.tree.all(pages)? {
            let id = page_id(number);
            let page = self.page(pages, number)?;
            if count.is_some_and(|count| count as usize != page.len()) {
                return Err(wrong(id, "as many members as the node above counts"));
            }
            page.check().map_err(at_page(id))?;
            if page.is_empty() || (page.len() > 1 && pages.read(id)?.len() > self.sizes.page_bytes)
            {
                return Err(wrong(id, "members within the bounds of a page"));
            }
            for scored in page.iter() {
                let scored = scored.map_err(at_page(id))?;
                let (score, member) = scored;
                if last.is_some_and(|last| compare(last, scored).is_ge()) {
                    return Err(wrong(id, "members behind those of the page before"));
                }
                let found = self.tree.find(pages, &Cut::Behind(score, member))?;
                if found.is_none_or(|path| path.page != number) {
                    return Err(wrong(id, "members that the nodes lead to"));
                }
                if self.score(pages, member, hash_of(member))? != Some(score) {
                    return Err(wrong(id, "members that the index knows"));
                }
                totals.add(counted(member));
                last = Some(scored);
            }
        }
        let mut entries = 0;
        for page in 0..self.index_pages {
            let id = index_id(page);
            for entry in IndexPage::parse(pages.read(id)?).map_err(at_page(id))?.entries() {
                let (fingerprint, _) = entry.map_err(at_page(id))?;
                entries += 1;
                if linear::page_of(u64::from(fingerprint), self.index_pages) != page {
                    return Err(wrong(id, "members whose fingerprint names this page"));
                }
            }
        }
        if totals != self.totals || entries != totals.elements {
            return Err(wrong(index_id(0), "as many members and bytes as the descriptor counts"));
        }
        Ok(())
    }
}

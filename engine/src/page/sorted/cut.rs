//! The removal of a range of ranks: page by page, in the order and in the index.

use super::{Sorted, counted, page_id, wrong};
use crate::page::index_page::{self, IndexPage, fingerprint_of};
use crate::page::score::Score;
use crate::page::scores_page;
use crate::page::store::{PageEdit, PageError, PageId, Pages, at_page};
use std::ops::Range;

/// A member's entry in the index, and its page. The index does not tell members of one fingerprint and score from each other.
type Entry = (PageId, u32, Score);

fn place((page, fingerprint, score): &Entry) -> (PageId, u32, u64) {
    (*page, *fingerprint, score.bits())
}

impl Sorted {
    /// Removes the members whose ranks are in `range`; answers how many. All their pages are read before the first is changed.
    pub fn remove_range<P: Pages>(
        &mut self,
        pages: &mut P,
        range: Range<u64>,
        hash_of: &impl Fn(&[u8]) -> u64,
    ) -> Result<u64, PageError> {
        let end = range.end.min(self.len());
        let count = end.saturating_sub(range.start);
        let (mut entries, mut totals) = (Vec::new(), self.totals);
        for scored in
            self.iter(pages, range.start).take(usize::try_from(count).unwrap_or(usize::MAX))
        {
            let (score, member) = scored?;
            let hash = hash_of(member);
            entries.push((self.index_page_of(hash), fingerprint_of(hash), score));
            totals.remove(counted(member));
        }
        entries.sort_unstable_by_key(place);
        let mut index = Vec::new();
        for gone in entries.chunk_by(|one, other| one.0 == other.0) {
            index.push((gone[0].0, index_without(pages, gone)?));
        }
        self.hold_ranks(pages, range.start..end)?;
        for (page, payload) in index {
            pages.edit(page)?.replace(&payload);
        }
        self.take_out_ranks(pages, range.start, count)?;
        self.totals = totals;
        for _ in 0..count {
            let before = self.index_pages;
            self.step(pages);
            if self.index_pages == before {
                break;
            }
        }
        Ok(count)
    }

    /// Reads what a removal of these ranks changes in the tree.
    fn hold_ranks<P: Pages>(&self, pages: &P, mut ranks: Range<u64>) -> Result<(), PageError> {
        while !ranks.is_empty() {
            let (path, before) = self.tree.at(pages, ranks.start)?;
            self.tree.hold(pages, &path)?;
            ranks.start = before + self.page(pages, path.page)?.len() as u64;
        }
        Ok(())
    }

    /// Removes so many members from a rank on from the order.
    fn take_out_ranks<P: Pages>(
        &mut self,
        pages: &mut P,
        rank: u64,
        mut count: u64,
    ) -> Result<(), PageError> {
        while count > 0 {
            let (path, before) = self.tree.at(pages, rank)?;
            let (id, page) = (page_id(path.page), self.page(pages, path.page)?);
            let at = (rank - before) as usize;
            let gone =
                at..page.len().min(at.saturating_add(usize::try_from(count).unwrap_or(usize::MAX)));
            count -= gone.len() as u64;
            if gone.len() == 1 {
                self.take_out_at(pages, path, at)?;
            } else if gone.len() == page.len() {
                self.tree.remove(pages, &path)?;
            } else {
                let kept = page.iter().enumerate().filter(|(number, _)| !gone.contains(number));
                let kept = kept.map(|(_, scored)| scored).collect::<Result<Vec<_>, _>>();
                let kept = kept.map_err(at_page(id))?;
                let (left, payload) = (kept.len() as u32, scores_page::build(&kept));
                pages.edit(id)?.replace(&payload);
                self.tree.set_count(pages, &path.steps, left)?;
                self.join(pages, path, payload.len())?;
            }
        }
        Ok(())
    }
}

/// An index page without these entries, all of which it must have; they are in order.
fn index_without<P: Pages>(pages: &P, gone: &[Entry]) -> Result<Vec<u8>, PageError> {
    let id = gone[0].0;
    let (mut is_gone, mut kept) = (vec![false; gone.len()], Vec::new());
    for entry in IndexPage::parse(pages.read(id)?).map_err(at_page(id))?.entries() {
        let (fingerprint, score) = entry.map_err(at_page(id))?;
        let own = (id, fingerprint, score);
        let first = gone.partition_point(|other| place(other) < place(&own));
        let same = gone[first..].iter().take_while(|other| **other == own).count();
        match (first..first + same).find(|&at| !is_gone[at]) {
            Some(at) => is_gone[at] = true,
            None => kept.push((fingerprint, score)),
        }
    }
    if is_gone.contains(&false) {
        return Err(wrong(id, "member of the order"));
    }
    Ok(index_page::build(&kept))
}

//! What goes out of a list: a range of its elements, with the pages that it leaves empty at the ends.

use super::{GROUP, List, counts_id, page_id};
use crate::page::external::Reference;
use crate::page::list_page;
use crate::page::store::{PageError, Pages, at_page};
use std::ops::Range;

/// What an operation takes out of one page.
struct Cut {
    label: u64,
    count: u32,
    range: Range<usize>,
    bytes: usize,
}

impl List {
    /// Removes the elements whose numbers are in `range`; what is behind the end is left out. All their pages are read
    /// before the first is changed. A list without elements keeps its pages.
    pub fn remove<P: Pages>(&mut self, pages: &mut P, range: Range<u64>) -> Result<(), PageError> {
        let range = range.start..range.end.min(self.len());
        let (false, Some(mut ends)) = (range.is_empty(), self.ends) else { return Ok(()) };
        if range == (0..self.len()) {
            *self = Self { externals: self.externals, ..Self::new(self.sizes) };
            return Ok(());
        }
        let old = ends;
        let (cuts, externals) = self.cuts(pages, range)?;
        let left_of = |pages: &P, label: u64| match cuts.iter().find(|cut| cut.label == label) {
            Some(cut) => Ok(cut.count - cut.range.len() as u32),
            None => self.count_of(pages, &old, label),
        };
        ends.first_count = left_of(pages, ends.first)?;
        while ends.first_count == 0 && ends.first < ends.last {
            pages.read(page_id(ends.first))?;
            ends.first += 1;
            ends.first_count = left_of(pages, ends.first)?;
        }
        ends.last_count = left_of(pages, ends.last)?;
        while ends.last_count == 0 && ends.first < ends.last {
            pages.read(page_id(ends.last))?;
            ends.last -= 1;
            ends.last_count = left_of(pages, ends.last)?;
        }
        let (groups, inner) = (ends.groups(), ends.inner());
        for group in old.groups().filter(|group| !groups.contains(group)) {
            Self::counts(pages, group)?;
        }
        for cut in cuts.iter().filter(|cut| inner.contains(&cut.label)) {
            Self::counts(pages, cut.label / GROUP)?;
        }
        let gone = (old.first..ends.first).chain(ends.last + 1..old.last.saturating_add(1));
        gone.for_each(|label| pages.remove(page_id(label)));
        let groups_gone = old.groups().filter(|group| !groups.contains(group));
        groups_gone.for_each(|group| pages.remove(counts_id(group)));
        self.ends = Some(ends);
        for cut in cuts {
            if (ends.first..=ends.last).contains(&cut.label) {
                let (id, left) = (page_id(cut.label), cut.count - cut.range.len() as u32);
                list_page::remove(&mut pages.edit(id)?, cut.range.clone()).map_err(at_page(id))?;
                self.set_count(pages, &ends, cut.label, left)?;
            }
            self.totals.elements = self.totals.elements.saturating_sub(cut.range.len() as u64);
            self.totals.bytes = self.totals.bytes.saturating_sub(cut.bytes as u64);
        }
        externals.into_iter().for_each(|external| self.externals.remove(pages, Some(external)));
        Ok(())
    }

    /// What has to go from each page, and the names of long elements in it.
    fn cuts<P: Pages>(
        &self,
        pages: &P,
        range: Range<u64>,
    ) -> Result<(Vec<Cut>, Vec<Reference>), PageError> {
        let (mut cuts, mut externals) = (Vec::new(), Vec::new());
        let (Some(spot), Some(ends)) = (self.at(pages, range.start)?, self.ends) else {
            return Ok((cuts, externals));
        };
        let mut before = spot.before;
        for label in spot.label..=ends.last {
            if before >= range.end {
                break;
            }
            let id = page_id(label);
            let count = self.count_of(pages, &ends, label)?;
            let page = self.page(pages, label, count)?;
            page.check().map_err(at_page(id))?;
            let start = range.start.saturating_sub(before).min(u64::from(count)) as usize;
            let end = (range.end - before).min(u64::from(count)) as usize;
            let mut bytes = 0;
            for element in page.iter().take(end).skip(start) {
                let element = element.map_err(at_page(id))?;
                bytes += element.len();
                externals.extend(element.external());
            }
            if start < end {
                cuts.push(Cut { label, count, range: start..end, bytes });
            }
            before += u64::from(count);
        }
        Ok((cuts, externals))
    }

    /// Keeps the elements whose numbers are in `range` alone.
    pub fn trim<P: Pages>(&mut self, pages: &mut P, range: Range<u64>) -> Result<(), PageError> {
        let len = self.len();
        if range.is_empty() || range.start >= len {
            return self.remove(pages, 0..len);
        }
        // Both ends' pages are read before either is cut.
        let behind = range.end.min(len)..len;
        for part in [0..range.start, behind.clone()] {
            self.cuts(pages, part)?;
        }
        let Some(ends) = self.ends else { return Ok(()) };
        for group in ends.groups() {
            Self::counts(pages, group)?;
        }
        // Pages without elements beside what stays go, too.
        if let Some(first) = self.at(pages, range.start)? {
            for label in (ends.first..first.label).rev() {
                if self.count_of(pages, &ends, label)? != 0 {
                    break;
                }
                pages.read(page_id(label))?;
            }
        }
        if let Some(last) = self.at(pages, behind.start - 1)? {
            for label in last.label + 1..ends.last {
                if self.count_of(pages, &ends, label)? != 0 {
                    break;
                }
                pages.read(page_id(label))?;
            }
        }
        self.remove(pages, behind)?;
        self.remove(pages, 0..range.start)
    }
}

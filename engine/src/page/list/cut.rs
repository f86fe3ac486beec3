//! What goes out of a list: a range of its elements, with the pages that it leaves empty at the ends.

use super::{GROUP, List, counts_id, page_id};
use crate::page::external::Reference;
use crate::page::list_page;
use crate::page::store::{PageError, Pages, at_page};
use std::ops::Range;
use std::slice::from_ref;

/// What an operation takes out of one page.
struct Cut {
    label: u64,
    /// Elements of the page, and how many of them go.
    count: u32,
    gone: u32,
    /// Ascending, and apart.
    ranges: Vec<Range<usize>>,
    bytes: usize,
}

/// What an operation takes out of a list.
#[derive(Default)]
struct Cuts {
    /// By label.
    of_pages: Vec<Cut>,
    externals: Vec<Reference>,
}

impl Cuts {
    fn of(&self, label: u64) -> Option<&Cut> {
        let found = self.of_pages.binary_search_by_key(&label, |cut| cut.label);
        found.ok().map(|place| &self.of_pages[place])
    }
}

impl List {
    /// Removes the elements whose numbers are in `range`; what is behind the end is left out. All their pages are read
    /// before the first is changed. A list without elements keeps its pages.
    pub fn remove<P: Pages>(&mut self, pages: &mut P, range: Range<u64>) -> Result<(), PageError> {
        self.remove_ranges(pages, from_ref(&(range.start..range.end.min(self.len()))))
    }

    /// Removes the elements with these numbers, which ascend, as [`remove`](Self::remove) does.
    pub fn remove_each<P: Pages>(
        &mut self,
        pages: &mut P,
        indexes: &[u64],
    ) -> Result<(), PageError> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for &index in indexes.iter().filter(|index| **index < self.len()) {
            match ranges.last_mut() {
                Some(range) if range.end == index => range.end += 1,
                _ => ranges.push(index..index + 1),
            }
        }
        self.remove_ranges(pages, &ranges)
    }

    /// Ranges that ascend and are apart.
    fn remove_ranges<P: Pages>(
        &mut self,
        pages: &mut P,
        ranges: &[Range<u64>],
    ) -> Result<(), PageError> {
        let is_empty = ranges.iter().all(Range::is_empty);
        let (false, Some(mut ends)) = (is_empty, self.ends) else { return Ok(()) };
        if matches!(ranges, [all] if *all == (0..self.len())) {
            *self = Self { externals: self.externals, ..Self::new(self.sizes) };
            return Ok(());
        }
        let old = ends;
        let cuts = self.cuts(pages, ranges)?;
        let left_of = |pages: &P, label: u64| match cuts.of(label) {
            Some(cut) => Ok(cut.count - cut.gone),
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
        for cut in cuts.of_pages.iter().filter(|cut| inner.contains(&cut.label)) {
            Self::counts(pages, cut.label / GROUP)?;
        }
        let gone = (old.first..ends.first).chain(ends.last + 1..old.last.saturating_add(1));
        gone.for_each(|label| pages.remove(page_id(label)));
        let groups_gone = old.groups().filter(|group| !groups.contains(group));
        groups_gone.for_each(|group| pages.remove(counts_id(group)));
        self.ends = Some(ends);
        for cut in cuts.of_pages {
            if (ends.first..=ends.last).contains(&cut.label) {
                let (id, left) = (page_id(cut.label), cut.count - cut.gone);
                let mut page = pages.edit(id)?;
                for range in cut.ranges.into_iter().rev() {
                    list_page::remove(&mut page, range).map_err(at_page(id))?;
                }
                drop(page);
                self.set_count(pages, &ends, cut.label, left)?;
            }
            self.totals.elements = self.totals.elements.saturating_sub(u64::from(cut.gone));
            self.totals.bytes = self.totals.bytes.saturating_sub(cut.bytes as u64);
        }
        let externals = cuts.externals.into_iter();
        externals.for_each(|external| self.externals.remove(pages, Some(external)));
        Ok(())
    }

    /// What has to go from each page, and the names of long elements in it.
    fn cuts<P: Pages>(&self, pages: &P, ranges: &[Range<u64>]) -> Result<Cuts, PageError> {
        let mut cuts = Cuts::default();
        let mut ranges = ranges.iter().filter(|range| !range.is_empty()).cloned();
        let mut range = ranges.next();
        let first = range.as_ref().map_or(u64::MAX, |range| range.start);
        let (Some(spot), Some(ends)) = (self.at(pages, first)?, self.ends) else {
            return Ok(cuts);
        };
        let (mut before, mut goes_on) = (spot.before, false);
        for label in spot.label..=ends.last {
            let count = self.count_of(pages, &ends, label)?;
            let end = before + u64::from(count);
            let mut cut = Cut { label, count, gone: 0, ranges: Vec::new(), bytes: 0 };
            while let Some(next) = range.as_mut().filter(|range| range.start < end) {
                let last = next.end.min(end);
                cut.ranges.push((next.start - before) as usize..(last - before) as usize);
                cut.gone += (last - next.start) as u32;
                next.start = last;
                goes_on = !next.is_empty();
                if !goes_on {
                    range = ranges.next();
                }
            }
            if cut.gone > 0 {
                self.look_at(pages, &mut cut, &mut cuts.externals)?;
                cuts.of_pages.push(cut);
            } else if goes_on {
                // A page without elements, which goes if those around it do.
                self.page(pages, label, count)?;
            }
            before = end;
            if range.is_none() {
                break;
            }
        }
        Ok(cuts)
    }

    /// Adds up the bytes that go from a page, and names the long elements among them.
    fn look_at<P: Pages>(
        &self,
        pages: &P,
        cut: &mut Cut,
        externals: &mut Vec<Reference>,
    ) -> Result<(), PageError> {
        let id = page_id(cut.label);
        let page = self.page(pages, cut.label, cut.count)?;
        page.check().map_err(at_page(id))?;
        let mut ranges = cut.ranges.iter();
        let mut range = ranges.next();
        for (index, element) in page.iter().enumerate() {
            while range.is_some_and(|range| index >= range.end) {
                range = ranges.next();
            }
            let Some(range) = range else { break };
            if range.contains(&index) {
                let element = element.map_err(at_page(id))?;
                cut.bytes += element.len();
                externals.extend(element.external());
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
        let behind = range.end.min(len)..len;
        for part in [0..range.start, behind.clone()] {
            self.cuts(pages, from_ref(&part))?;
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

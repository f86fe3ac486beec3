//! Room for an element where the page that it belongs on is full: the elements around are spread evenly over their pages, or the whole
//! list is cut anew.
//!
//! The stretch of pages that are spread over grows until they are at most half full on average. So each of them has room for many
//! more elements afterwards, and an insertion costs a few pages, whatever the length of the list.

use super::{Ends, GROUP, List, Spot, counts_id, page_id, wrong};
use crate::page::bytes::{HEAD_BYTES, PAGE_ELEMENTS_MAX};
use crate::page::external::Stored;
use crate::page::list_page::{self, ListPage, entry_bytes};
use crate::page::store::{PageEdit, PageError, PageId, Pages, at_page};
use std::ops::{Range, RangeInclusive};

/// Pages on either side that are spread over, at most.
const BESIDE_MAX: u64 = 256;

/// What a page becomes.
struct Laid {
    payload: Vec<u8>,
    count: u32,
}

impl List {
    /// Puts an element in the place of those in `range`, which are on the page of `spot`, or in front of element number
    /// `range.start` of it. All pages are read before the first is changed.
    pub(super) fn make_room<P: Pages>(
        &mut self,
        pages: &mut P,
        spot: Spot,
        range: Range<u64>,
        stored: Stored<'_>,
    ) -> Result<(), PageError> {
        let Some(ends) = self.ends else { return Ok(()) };
        let mut beside = 1;
        while beside <= BESIDE_MAX {
            let first = spot.label.saturating_sub(beside).max(ends.first);
            let labels = first..=spot.label.saturating_add(beside).min(ends.last);
            if let Some(spread) = self.spread(pages, &labels, spot, &range, stored)? {
                return self.lay_over(pages, &ends, labels, &spread);
            }
            if labels == (ends.first..=ends.last) {
                break;
            }
            beside *= 2;
        }
        self.cut_anew(pages, range, stored)
    }

    /// What these pages become, with the element; `None` where they are too full.
    fn spread<P: Pages>(
        &self,
        pages: &P,
        labels: &RangeInclusive<u64>,
        spot: Spot,
        range: &Range<u64>,
        stored: Stored<'_>,
    ) -> Result<Option<Vec<Laid>>, PageError> {
        let Some(ends) = self.ends else { return Ok(None) };
        let mut elements = Vec::new();
        for label in labels.clone() {
            let page = self.page(pages, label, self.count_of(pages, &ends, label)?)?;
            if label == spot.label {
                let start = elements.len() + (range.start - spot.before) as usize;
                elements.extend(
                    page.iter().collect::<Result<Vec<_>, _>>().map_err(at_page(page_id(label)))?,
                );
                let end = start + (range.end - range.start) as usize;
                elements.splice(start..end, [stored]);
            } else {
                for element in page.iter() {
                    elements.push(element.map_err(at_page(page_id(label)))?);
                }
            }
        }
        let number = (labels.end() - labels.start() + 1) as usize;
        let bytes: usize = elements.iter().map(entry_bytes).sum();
        if elements.len() < 2 || HEAD_BYTES + bytes / number > self.sizes.page_max_bytes / 2 {
            return Ok(None);
        }
        // The pages at both ends of the stretch get an element at least: they may be those of the list.
        let (mut laid, mut from, mut before) = (Vec::with_capacity(number), 0, 0);
        for nth in 1..=number {
            let mut to = from;
            while to < elements.len() && (before < bytes * nth / number || (nth == 1 && to == 0)) {
                before += entry_bytes(&elements[to]);
                to += 1;
            }
            if nth == number {
                to = elements.len();
            } else if to == elements.len() {
                to -= 1;
                before -= entry_bytes(&elements[to]);
            }
            let own = &elements[from..to];
            if own.len() > PAGE_ELEMENTS_MAX {
                return Ok(None);
            }
            let payload = list_page::build(own);
            if payload.len() > self.sizes.page_max_bytes {
                return Ok(None);
            }
            laid.push(Laid { payload, count: own.len() as u32 });
            from = to;
        }
        Ok(Some(laid))
    }

    /// Gives these pages other contents.
    fn lay_over<P: Pages>(
        &mut self,
        pages: &mut P,
        ends: &Ends,
        labels: RangeInclusive<u64>,
        laid: &[Laid],
    ) -> Result<(), PageError> {
        for label in labels.clone().filter(|label| ends.inner().contains(label)) {
            Self::counts(pages, label / GROUP)?;
        }
        for (label, own) in labels.zip(laid) {
            pages.edit(page_id(label))?.replace(&own.payload);
            self.set_count(pages, ends, label, own.count)?;
        }
        Ok(())
    }

    /// Cuts all elements into pages again, with another one in the place of those in `range`. All pages are read before the
    /// first goes.
    fn cut_anew<P: Pages>(
        &mut self,
        pages: &mut P,
        range: Range<u64>,
        stored: Stored<'_>,
    ) -> Result<(), PageError> {
        let payloads = self.page_ids().map(|id| Ok((id, pages.read(id)?.to_vec())));
        let payloads: Vec<(PageId, Vec<u8>)> = payloads.collect::<Result<_, PageError>>()?;
        let groups = self.ends.map_or(0..0, |ends| ends.groups());
        for group in groups.clone() {
            Self::counts(pages, group)?;
        }
        let mut elements = Vec::with_capacity(self.len() as usize + 1);
        for (id, payload) in &payloads {
            for element in ListPage::parse(payload).map_err(at_page(*id))?.iter() {
                elements.push(element.map_err(at_page(*id))?);
            }
        }
        if elements.len() as u64 != self.len() {
            return Err(wrong(page_id(0), "as many elements as the descriptor counts"));
        }
        elements.splice(range.start as usize..range.end as usize, [stored]);
        payloads.iter().for_each(|(id, _)| pages.remove(*id));
        groups.for_each(|group| pages.remove(counts_id(group)));
        self.lay_out(pages, &elements);
        Ok(())
    }
}

//! Strings in pages: byte `n` is on page `n / B`, where `B` is the size of the string's pages.
//!
//! An operation reads the pages of the bytes that it works on, and no others. Small pages are written again in less time when a few bytes
//! of them change, large ones are fewer where all are written, read or moved.
//!
//! Invariants: there are as many pages as the bytes need, numbered from 0; a page has at most `B` bytes. The bytes that a page
//! lacks are zeros: a string that grows by zeros takes no room for them.

use super::Totals;
use super::bytes::damage;
use super::descriptor::{Descriptor, Part};
use super::store::{Damage, PageEdit, PageError, PageId, Pages, PartKind, at_page};
use std::ops::Range;

/// Bytes of memory that a page takes beside its payload.
pub(crate) const BLOCK_HEAD_BYTES: usize = 24;

/// Size of the pages of a string that is edited, in bytes. A full one fills what the allocator gives for it, and so it does
/// of the other size.
pub const EDITED_PAGE_BYTES: usize = 8192 - BLOCK_HEAD_BYTES;

/// The same of one that was written whole.
pub const WRITTEN_PAGE_BYTES: usize = 14_336 - BLOCK_HEAD_BYTES;

/// True if a page of so many bytes is mostly a full one.
pub(crate) fn is_full_page(bytes: usize) -> bool {
    matches!(bytes, EDITED_PAGE_BYTES | WRITTEN_PAGE_BYTES)
}

/// What a descriptor that does not say so means.
const FIRST_PAGE_BYTES: usize = 8192;

/// The largest that a descriptor may say.
pub(super) const PAGE_BYTES_MAX: usize = 1 << 16;

static ZEROS: [u8; PAGE_BYTES_MAX] = [0; PAGE_BYTES_MAX];

fn page_id(number: u64) -> PageId {
    PageId { part: PartKind::Bytes, number }
}

/// A string that is not empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LongString {
    bytes: u64,
    page_bytes: u32,
}

impl LongString {
    /// One of these bytes, in pages of this size, which is not 0.
    pub fn build<P: Pages>(pages: &mut P, content: &[u8], page_bytes: usize) -> Self {
        for (number, page) in (0..).zip(content.chunks(page_bytes)) {
            pages.add(page_id(number), page);
        }
        Self { bytes: content.len() as u64, page_bytes: page_bytes as u32 }
    }

    /// The string that a descriptor describes. No page is read.
    pub fn open(descriptor: &Descriptor) -> Result<Self, Damage> {
        let bytes = descriptor.totals.bytes;
        let Some(part) = descriptor.part(PartKind::Bytes).filter(|_| bytes > 0) else {
            return damage(20, "bytes, and pages of a string");
        };
        let page_bytes = if part.a == 0 { FIRST_PAGE_BYTES as u64 } else { part.a };
        let page_bytes = u32::try_from(page_bytes).unwrap_or(u32::MAX);
        let string = Self { bytes, page_bytes };
        if u64::from(part.pages) != string.pages() {
            return damage(20, "as many bytes as the pages of a string have");
        }
        Ok(string)
    }

    /// What the descriptor says of it: it is one element.
    #[must_use]
    pub fn totals(&self) -> Totals {
        Totals { elements: 1, bytes: self.bytes }
    }

    /// What the descriptor says of its pages.
    #[must_use]
    pub fn part(&self) -> Part {
        let pages = u32::try_from(self.pages()).unwrap_or(u32::MAX);
        Part { kind: PartKind::Bytes, flags: 0, pages, a: self.page_bytes.into(), b: 0 }
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Its pages.
    #[must_use]
    pub fn pages(&self) -> u64 {
        self.bytes.div_ceil(self.page_bytes.into())
    }

    /// The bytes on pages with these numbers.
    #[must_use]
    pub fn bytes_of(&self, numbers: Range<u64>) -> Range<u64> {
        let at = |number: u64| number.saturating_mul(self.page_bytes.into()).min(self.bytes);
        at(numbers.start)..at(numbers.end)
    }

    /// Its pages, in order.
    pub fn page_ids(&self) -> impl Iterator<Item = PageId> + use<> {
        (0..self.pages()).map(page_id)
    }

    /// The numbers of the pages that these bytes are on.
    #[must_use]
    pub fn numbers(&self, bytes: &Range<u64>) -> Range<u64> {
        let page_bytes = u64::from(self.page_bytes);
        if bytes.is_empty() {
            0..0
        } else {
            bytes.start / page_bytes..bytes.end.div_ceil(page_bytes)
        }
    }

    /// What of these bytes is on the page with this number: where it begins there, and where it ends.
    fn on_page(&self, bytes: &Range<u64>, number: u64) -> Range<usize> {
        let page_bytes = u64::from(self.page_bytes);
        let first = number * page_bytes;
        let within = |at: u64| at.saturating_sub(first).min(page_bytes) as usize;
        within(bytes.start)..within(bytes.end)
    }

    /// The pages of these bytes that there are and that are not in memory.
    pub fn missing<P: Pages>(&self, pages: &P, bytes: Range<u64>) -> Vec<PageId> {
        let there = bytes.start..bytes.end.min(self.bytes);
        self.numbers(&there).map(page_id).filter(|page| !pages.is_in_memory(*page)).collect()
    }

    /// The payload of a page.
    fn page<'p, P: Pages>(&self, pages: &'p P, number: u64) -> Result<&'p [u8], PageError> {
        let id = page_id(number);
        let payload = pages.read(id)?;
        if payload.len() > self.page_bytes as usize {
            let damage =
                Damage { at: self.page_bytes as usize, expected: "the end of a page of a string" };
            return Err(at_page(id)(damage));
        }
        Ok(payload)
    }

    /// Shows the bytes of the range, those behind the end of the string left out, in order and in pieces that no two pages share.
    pub fn each<P: Pages>(
        &self,
        pages: &P,
        bytes: Range<u64>,
        mut show: impl FnMut(&[u8]),
    ) -> Result<(), PageError> {
        let bytes = bytes.start..bytes.end.min(self.bytes);
        for number in self.numbers(&bytes) {
            let (payload, wanted) = (self.page(pages, number)?, self.on_page(&bytes, number));
            let there = wanted.start.min(payload.len())..wanted.end.min(payload.len());
            let (lacking, there) = (wanted.len() - there.len(), &payload[there]);
            if !there.is_empty() {
                show(there);
            }
            if lacking > 0 {
                show(&ZEROS[..lacking]);
            }
        }
        Ok(())
    }

    /// Puts `content` at a place, which may be behind the end: zeros are between them then. Where there is nothing to put,
    /// the string stays as it is.
    pub fn write<P: Pages>(
        &mut self,
        pages: &mut P,
        at: u64,
        content: &[u8],
    ) -> Result<(), PageError> {
        let bytes = at..at + content.len() as u64;
        if bytes.is_empty() {
            return Ok(());
        }
        let (touched, old_pages) = (self.numbers(&bytes), self.pages());
        for number in touched.start..touched.end.min(old_pages) {
            self.page(pages, number)?;
        }
        let mut rest = content;
        for number in touched.clone() {
            let place = self.on_page(&bytes, number);
            let (own, behind) = rest.split_at(place.len());
            rest = behind;
            if number >= old_pages {
                pages.add(page_id(number), &[&ZEROS[..place.start], own].concat());
                continue;
            }
            let mut page = pages.edit(page_id(number))?;
            let len = page.bytes().len();
            if place.end <= len {
                page.write(place.start, own);
            } else if place.start <= len {
                page.splice(place.start..len, own);
            } else {
                page.splice(len..len, &[&ZEROS[len..place.start], own].concat());
            }
        }
        for number in old_pages..touched.start {
            pages.add(page_id(number), &[]);
        }
        self.bytes = self.bytes.max(bytes.end);
        Ok(())
    }
}

//! Replies with elements of one collection, so that they can be written in pieces, and how large a piece may be.

use super::{Keyed, Paged, Stop, Structure};
use crate::resp::Reply;
use sexton_engine::page::{Pages, PartKind};
use std::ops::Range;

/// Approximate bytes of what is read together.
const STEP_BYTES: u64 = 64 << 10;

/// Positions that are read together where some elements have pages of their own, and may be megabytes long.
const STEP_WITH_LONG_ELEMENTS: u64 = 4;

/// What surrounds an element in a reply, approximately.
const FRAME_BYTES: u64 = 8;

/// A reply with elements of one collection that can be written in pieces. Its elements have positions: ranks, or pages.
pub trait InPieces<S: Structure> {
    /// The positions whose elements must be [counted](Self::count) before any is written; none where that is known without.
    ///
    /// # Errors
    /// [`Stop`].
    fn uncounted<P: Pages>(&self, _: &S, _: &P) -> Result<Range<u64>, Stop> {
        Ok(0..0)
    }

    /// How many elements of the reply are at some of these positions.
    ///
    /// # Errors
    /// [`Stop`].
    fn count<P: Pages>(&self, _: &S, _: &P, _: Range<u64>) -> Result<u64, Stop> {
        Ok(0)
    }

    /// Writes what precedes the elements, of which so many were counted; returns the positions to be written.
    ///
    /// # Errors
    /// [`Stop`]; what was written is dropped.
    fn begin<P: Pages>(
        &self,
        structure: &S,
        pages: &P,
        counted: u64,
        out: &mut Reply,
    ) -> Result<Range<u64>, Stop>;

    /// Writes the elements of some of these positions.
    ///
    /// # Errors
    /// [`Stop`]; what was written is dropped.
    fn write<P: Pages>(
        &self,
        structure: &S,
        pages: &P,
        part: Range<u64>,
        out: &mut Reply,
    ) -> Result<(), Stop>;

    /// Number of positions that the collection has.
    fn positions(&self, structure: &S) -> u64 {
        structure.len()
    }

    /// True if the last position comes first.
    fn is_descending(&self) -> bool {
        false
    }
}

/// The size of a whole collection.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    bytes: u64,
    positions: u64,
    has_long_elements: bool,
}

impl Extent {
    /// That of a collection with so many positions.
    #[must_use]
    pub fn of(paged: &Paged, positions: u64) -> Self {
        let totals = paged.descriptor.totals;
        let bytes = totals.elements.saturating_mul(FRAME_BYTES).saturating_add(totals.bytes);
        let has_long_elements = paged.descriptor.part(PartKind::External).is_some();
        Self { bytes: bytes.max(1), positions: positions.max(1), has_long_elements }
    }

    /// Approximate bytes of so many positions.
    #[must_use]
    pub fn bytes_of(&self, positions: u64) -> u64 {
        let bytes = u128::from(self.bytes) * u128::from(positions) / u128::from(self.positions);
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// Number of positions that are read together. Their elements are in memory together, and may be the longest ones.
    #[must_use]
    pub fn step(&self) -> u64 {
        self.step_of(STEP_BYTES)
    }

    /// The same where about so many bytes are to be read together.
    #[must_use]
    pub fn step_of(&self, bytes: u64) -> u64 {
        if self.has_long_elements {
            return STEP_WITH_LONG_ELEMENTS;
        }
        let positions = u128::from(bytes) * u128::from(self.positions) / u128::from(self.bytes);
        u64::try_from(positions).unwrap_or(u64::MAX).max(1)
    }
}

/// A reply with all fields of a hash, or all members of a set; a position is a page.
pub struct AllFields<H, E> {
    /// Writes what precedes so many of them.
    pub head: H,
    /// Writes a field and its value.
    pub each: E,
}

impl<H, E> InPieces<Keyed> for AllFields<H, E>
where
    H: Fn(&mut Reply, usize),
    E: Fn(&[u8], &[u8], &mut Reply),
{
    fn begin<P: Pages>(
        &self,
        all: &Keyed,
        _: &P,
        _: u64,
        out: &mut Reply,
    ) -> Result<Range<u64>, Stop> {
        (self.head)(out, all.len() as usize);
        Ok(0..self.positions(all))
    }

    fn write<P: Pages>(
        &self,
        all: &Keyed,
        pages: &P,
        part: Range<u64>,
        out: &mut Reply,
    ) -> Result<(), Stop> {
        // Both are at most the number of pages.
        let numbers = part.start as u32..part.end as u32;
        all.each_field(pages, numbers, |field| (self.each)(field.name, field.value, out))
    }

    fn positions(&self, all: &Keyed) -> u64 {
        u64::from(all.hash.pages)
    }
}

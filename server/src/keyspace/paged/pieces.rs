//! Replies with elements of one collection, so that they can be written in pieces.

use super::{Keyed, Stop, Structure};
use crate::resp::Reply;
use sexton_engine::page::Pages;
use std::ops::Range;

/// A reply with elements of one collection that can be written in pieces. Its elements have positions: ranks, or pages.
pub trait InPieces<S: Structure> {
    /// Writes what precedes the elements; returns the positions to be written.
    ///
    /// # Errors
    /// [`Stop`]; what was written is dropped.
    fn begin<P: Pages>(
        &self,
        structure: &S,
        pages: &P,
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
    fn begin<P: Pages>(&self, all: &Keyed, _: &P, out: &mut Reply) -> Result<Range<u64>, Stop> {
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
        all.needs_pages(pages, numbers.clone())?;
        all.each_field_of(pages, numbers, |field| (self.each)(field.name, field.value, out))?;
        Ok(())
    }

    fn positions(&self, all: &Keyed) -> u64 {
        u64::from(all.hash.pages)
    }
}

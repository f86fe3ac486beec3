//! Strings, for commands that do not care where they lie.

use super::{Paged, Stop, Structure, damaged, none_of};
use crate::resp::Reply;
use sexton_engine::page::{Descriptor, LongString, PageError, PageId, Pages, PartKind};
use sexton_engine::{EngineError, Key, Tx};
use std::ops::{Deref, Range};

impl Structure for LongString {
    fn open(paged: &Paged) -> Result<Self, PageError> {
        let page = PageId { part: PartKind::Bytes, number: 0 };
        Self::open(&paged.descriptor).map_err(|damage| PageError::Damaged { page, damage })
    }

    fn describe(&self, descriptor: &mut Descriptor) {
        descriptor.totals = self.totals();
        descriptor.set_part(self.part());
    }

    fn len(&self) -> u64 {
        self.totals().elements
    }
}

/// The bytes of a string.
pub trait StringBytes {
    /// How many there are.
    fn len_bytes(&self) -> u64;

    /// Shows those of a range, cut to the string, in order and in pieces, none of which is empty.
    ///
    /// # Errors
    /// What is not in memory, before the first is shown.
    fn each(&self, range: Range<u64>, show: &mut dyn FnMut(&[u8])) -> Result<(), Stop>;
}

/// A few bytes of a string from `at` on, zeros behind its end.
///
/// # Errors
/// What is not in memory.
pub fn window<const N: usize>(string: &dyn StringBytes, at: u64) -> Result<[u8; N], Stop> {
    let (mut window, mut filled) = ([0; N], 0);
    string.each(at..at.saturating_add(N as u64), &mut |piece| {
        window[filled..filled + piece.len()].copy_from_slice(piece);
        filled += piece.len();
    })?;
    Ok(window)
}

/// A string that is being changed.
pub trait StringEdit: StringBytes {
    /// True if the key has had it before.
    fn is_there(&self) -> bool;

    /// Bytes that are in memory together where it has `len` bytes.
    fn bytes_held(&self, len: u64) -> u64;

    /// What writes at these places need is in memory: to be asked before the first of several.
    ///
    /// # Errors
    /// What is not.
    fn needs(&self, places: &mut dyn Iterator<Item = Range<u64>>) -> Result<(), Stop>;

    /// Puts `content` at a place; zeros are between them and the end of what is there.
    ///
    /// # Errors
    /// What is not in memory; nothing was changed.
    fn write(&mut self, at: u64, content: &[u8]) -> Result<(), Stop>;
}

impl StringBytes for &[u8] {
    fn len_bytes(&self) -> u64 {
        self.len() as u64
    }

    fn each(&self, range: Range<u64>, show: &mut dyn FnMut(&[u8])) -> Result<(), Stop> {
        let end = range.end.min(StringBytes::len_bytes(self));
        let piece = self.get(range.start as usize..end as usize).unwrap_or_default();
        if !piece.is_empty() {
            show(piece);
        }
        Ok(())
    }
}

/// A string in pages, by references that may change both or not.
pub struct PagedString<S, P> {
    /// The string.
    pub string: S,
    /// Its pages.
    pub pages: P,
}

fn needs<P: Pages>(string: &LongString, pages: &P, range: Range<u64>) -> Result<(), Stop> {
    none_of(string.missing(pages, range))
}

/// Shows the bytes of a range as [`StringBytes::each`].
pub(super) fn each_of_string<P: Pages>(
    string: &LongString,
    pages: &P,
    range: Range<u64>,
    show: impl FnMut(&[u8]),
) -> Result<(), Stop> {
    needs(string, pages, range.clone())?;
    Ok(string.each(pages, range, show)?)
}

impl<S, P> StringBytes for PagedString<S, P>
where
    S: Deref<Target = LongString>,
    P: Deref,
    P::Target: Pages + Sized,
{
    fn len_bytes(&self) -> u64 {
        self.string.bytes()
    }

    fn each(&self, range: Range<u64>, show: &mut dyn FnMut(&[u8])) -> Result<(), Stop> {
        each_of_string(&self.string, &*self.pages, range, show)
    }
}

impl<P: Pages> StringEdit for PagedString<&mut LongString, &mut P> {
    fn is_there(&self) -> bool {
        true
    }

    fn bytes_held(&self, len: u64) -> u64 {
        len.saturating_sub(self.string.bytes())
    }

    fn needs(&self, places: &mut dyn Iterator<Item = Range<u64>>) -> Result<(), Stop> {
        let mut missing: Vec<_> =
            places.flat_map(|place| self.string.missing(self.pages, place)).collect();
        missing.sort_unstable();
        missing.dedup();
        none_of(missing)
    }

    fn write(&mut self, at: u64, content: &[u8]) -> Result<(), Stop> {
        needs(self.string, self.pages, at..at.saturating_add(content.len() as u64))?;
        Ok(self.string.write(self.pages, at, content)?)
    }
}

/// The bytes of a string in pages, as a bulk string. A position is a page.
pub struct Slice(pub Range<u64>);

impl super::InPieces<LongString> for Slice {
    fn begin<P: Pages>(
        &self,
        string: &LongString,
        _: &P,
        _: u64,
        out: &mut Reply,
    ) -> Result<Range<u64>, Stop> {
        out.bulk_head(self.0.end - self.0.start);
        Ok(string.numbers(&self.0))
    }

    fn write<P: Pages>(
        &self,
        string: &LongString,
        pages: &P,
        part: Range<u64>,
        out: &mut Reply,
    ) -> Result<(), Stop> {
        let is_last = part.end == string.numbers(&self.0).end;
        let own = string.bytes_of(part);
        let own = own.start.max(self.0.start)..own.end.min(self.0.end);
        each_of_string(string, pages, own, |piece| out.bulk_piece(piece))?;
        if is_last {
            out.bulk_end();
        }
        Ok(())
    }

    fn positions(&self, string: &LongString) -> u64 {
        string.pages()
    }
}

/// All of a string is in memory.
///
/// # Errors
/// What is not.
pub fn needs_string<P: Pages>(string: &LongString, pages: &P) -> Result<(), Stop> {
    needs(string, pages, 0..string.bytes())
}

/// Gives the key `to` a string of its own with the pages of that of `from`, all of which are in memory: one operation.
///
/// # Errors
/// The store keeps no pages, or not all are in memory.
pub fn copy_string(
    tx: &mut Tx<'_>,
    from: (Key<'_>, u64),
    to: Key<'_>,
    paged: &Paged,
) -> Result<(), EngineError> {
    let string = <LongString as Structure>::open(paged).map_err(damaged)?;
    let collection = tx.engine().new_collection()?;
    let root = Descriptor { collection, ..paged.descriptor.clone() }.encoded();
    let copied = tx.copy_pages(from, (to, collection), (paged.meta, &root), string.page_ids())?;
    let away = || EngineError::Refused("a page of a string to be copied is not in memory".into());
    copied.then_some(()).ok_or_else(away)
}

/// The value that a string would have in one record.
pub(super) fn whole<P: Pages>(string: &LongString, pages: &P) -> Result<Vec<u8>, Stop> {
    let mut bytes = Vec::with_capacity(string.bytes() as usize);
    each_of_string(string, pages, 0..string.bytes(), |piece| bytes.extend_from_slice(piece))?;
    Ok(bytes)
}

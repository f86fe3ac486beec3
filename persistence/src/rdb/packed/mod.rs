//! The packed forms in which Redis keeps small collections, each stored in its files as one string.
//!
//! They are read element by element into [`Strings`](super::Strings). Every length is checked
//! against the remaining bytes, and what a form says twice (counts, tails, lengths of the entry before) must agree:
//! Redis refuses the same with `sanitize-dump-payload yes`.

mod intset;
mod listpack;
mod ziplist;
mod zipmap;

pub(super) use intset::read_intset;
pub(super) use listpack::{ListpackReader, ListpackWriter, read_listpack};
pub(super) use ziplist::read_ziplist;
pub(super) use zipmap::read_zipmap;

use super::RdbError;

/// The count in the header of a ziplist or listpack that holds more than the field can say.
const COUNT_UNKNOWN: usize = 0xffff;

/// Whether a header that announces `announced` elements fits to `seen` ones.
fn is_count(announced: usize, seen: usize) -> bool {
    announced == COUNT_UNKNOWN || announced == seen
}

/// A position in one of the forms.
#[derive(Clone, Copy, Debug)]
struct Cursor<'a> {
    format: &'static str,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn new(format: &'static str, bytes: &'a [u8]) -> Self {
        Self { format, bytes, at: 0 }
    }

    fn bad(&self) -> RdbError {
        RdbError::BadPacked { format: self.format, at: self.at }
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], RdbError> {
        let end = self.at.checked_add(count).filter(|&end| end <= self.bytes.len());
        let end = end.ok_or(self.bad())?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], RdbError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    fn byte(&mut self) -> Result<u8, RdbError> {
        self.array().map(|[byte]| byte)
    }

    fn is_at_end(&self) -> bool {
        self.at == self.bytes.len()
    }
}

/// A signed number of three bytes, little-endian.
fn i24(bytes: [u8; 3]) -> i64 {
    let [low, middle, high] = bytes;
    i64::from(i32::from_le_bytes([0, low, middle, high]) >> 8)
}

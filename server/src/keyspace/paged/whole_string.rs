//! A string that lies whole in its record, while a command edits it.

use super::{Stop, StringBytes, StringEdit};
use std::ops::Range;

/// A string that lies whole in its record. One write is kept as the part that it changes; with more of them, and with one behind the end,
/// the string is copied.
pub struct WholeString<'v> {
    old: Option<&'v [u8]>,
    /// What is in place of a range of it.
    part: Option<(Range<usize>, Vec<u8>)>,
    new: Option<Vec<u8>>,
}

/// What a command has made of a string.
#[derive(Debug)]
pub enum EditedString {
    /// These bytes are in place of those in a range of it.
    Part(Range<usize>, Vec<u8>),
    /// It is this one.
    Whole(Vec<u8>),
}

impl<'v> WholeString<'v> {
    /// The string of a key that has this one, or none.
    #[must_use]
    pub fn new(old: Option<&'v [u8]>) -> Self {
        Self { old, part: None, new: None }
    }

    /// Its pieces, in order.
    fn pieces(&self) -> [&[u8]; 3] {
        let old = self.old.unwrap_or_default();
        match (&self.new, &self.part) {
            (Some(new), _) => [new, &[], &[]],
            (None, None) => [old, &[], &[]],
            (None, Some((range, part))) => [&old[..range.start], part, &old[range.end..]],
        }
    }

    /// A copy of it, with room for as many bytes as `len`.
    fn copied(&mut self, len: usize) -> &mut Vec<u8> {
        if self.new.is_none() {
            let pieces = self.pieces();
            let mut new =
                Vec::with_capacity(pieces.iter().map(|piece| piece.len()).sum::<usize>().max(len));
            pieces.iter().for_each(|piece| new.extend_from_slice(piece));
            self.new = Some(new);
        }
        self.new.get_or_insert_default()
    }

    /// What it has become.
    #[must_use]
    pub fn into_edited(self) -> EditedString {
        match self {
            Self { new: None, part: Some((range, part)), .. } => EditedString::Part(range, part),
            whole => whole.into_whole(),
        }
    }

    /// The same, whole: of a string that lies in pages, but was read as if it did not.
    #[must_use]
    pub fn into_whole(mut self) -> EditedString {
        EditedString::Whole(std::mem::take(self.copied(0)))
    }
}

impl StringBytes for WholeString<'_> {
    fn len_bytes(&self) -> u64 {
        self.pieces().iter().map(|piece| piece.len() as u64).sum()
    }

    fn each(&self, range: Range<u64>, show: &mut dyn FnMut(&[u8])) -> Result<(), Stop> {
        let mut before = 0;
        for piece in self.pieces() {
            let own = range.start.saturating_sub(before)..range.end.saturating_sub(before);
            piece.each(own, show)?;
            before += piece.len() as u64;
        }
        Ok(())
    }
}

impl StringEdit for WholeString<'_> {
    fn is_there(&self) -> bool {
        self.old.is_some()
    }

    fn bytes_held(&self, len: u64) -> u64 {
        len
    }

    fn needs(&self, _: &mut dyn Iterator<Item = Range<u64>>) -> Result<(), Stop> {
        Ok(())
    }

    fn write(&mut self, at: u64, content: &[u8]) -> Result<(), Stop> {
        let (start, end) = (at as usize, at as usize + content.len());
        let is_first = self.part.is_none() && self.new.is_none();
        if let Some(old) = self.old.filter(|old| is_first && start <= old.len()) {
            self.part = Some((start..end.min(old.len()), content.to_vec()));
            return Ok(());
        }
        let new = self.copied(end);
        if content.is_empty() {
            return Ok(());
        }
        if start == new.len() {
            new.extend_from_slice(content);
            return Ok(());
        }
        if new.len() < end {
            new.resize(end, 0);
        }
        new[start..end].copy_from_slice(content);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(string: &WholeString<'_>, range: Range<u64>) -> Vec<u8> {
        let mut bytes = Vec::new();
        string
            .each(range, &mut |piece| bytes.extend_from_slice(piece))
            .expect("nothing is missing");
        bytes
    }

    #[test]
    fn what_is_written_is_read_before_and_behind_the_copy() {
        let old: Vec<u8> = (b'a'..b'k').collect();
        for (at, content) in [(0, &b"XY"[..]), (4, b"XYZ"), (8, b"XYZ"), (10, b"XY"), (3, b"")] {
            let mut string = WholeString::new(Some(&old));
            let mut wanted = old.clone();
            string.write(at as u64, content).unwrap();
            wanted.resize(old.len().max(at + content.len()), 0);
            wanted[at..at + content.len()].copy_from_slice(content);
            assert_eq!(string.len_bytes(), wanted.len() as u64);
            for from in 0..wanted.len() {
                for to in from..=wanted.len() + 1 {
                    let wanted = &wanted[from..to.min(wanted.len())];
                    assert_eq!(bytes(&string, from as u64..to as u64), wanted);
                }
            }
            string.write(1, b"__").unwrap();
            string.write(20, b"end").unwrap();
            wanted.splice(1..3, *b"__");
            wanted.resize(20, 0);
            wanted.extend_from_slice(b"end");
            assert_eq!(bytes(&string, 0..100), wanted);
            let EditedString::Whole(whole) = string.into_edited() else { panic!("two writes") };
            assert_eq!(whole, wanted);
        }
    }

    #[test]
    fn one_write_within_the_string_or_at_its_end_is_a_part() {
        let edited = |old: Option<&'static [u8]>, at| {
            let mut string = WholeString::new(old);
            string.write(at, b"XY").unwrap();
            match string.into_edited() {
                EditedString::Part(range, part) => (Some(range), part),
                EditedString::Whole(whole) => (None, whole),
            }
        };
        assert_eq!(edited(Some(b"abc"), 0), (Some(0..2), b"XY".to_vec()));
        assert_eq!(edited(Some(b"abc"), 2), (Some(2..3), b"XY".to_vec()));
        assert_eq!(edited(Some(b"abc"), 3), (Some(3..3), b"XY".to_vec()));
        assert_eq!(edited(Some(b"abc"), 4), (None, b"abc\0XY".to_vec()));
        assert_eq!(edited(None, 0), (None, b"XY".to_vec()));
    }
}

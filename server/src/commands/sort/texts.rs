//! Many byte strings in one buffer.

use std::ops::Range;

/// Concatenated byte strings, accessed by index.
#[derive(Debug, Default)]
pub(super) struct Texts {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Texts {
    /// Copies all texts of the iterator.
    pub(super) fn of<T: AsRef<[u8]>>(texts: impl Iterator<Item = T>) -> Self {
        let mut all = Self::default();
        texts.for_each(|text| all.push(text.as_ref()));
        all
    }

    pub(super) fn push(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
        self.ends.push(self.bytes.len());
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn get(&self, number: usize) -> &[u8] {
        &self.bytes[self.range(number)]
    }

    fn range(&self, number: usize) -> Range<usize> {
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        start..self.ends[number]
    }
}

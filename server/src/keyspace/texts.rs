//! Many byte strings in one buffer.

use std::ops::Range;

/// Concatenated byte strings, accessed by index.
#[derive(Clone, Debug, Default)]
pub struct Texts {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Texts {
    /// Copies all texts of the iterator.
    pub fn of<T: AsRef<[u8]>>(texts: impl Iterator<Item = T>) -> Self {
        let mut all = Self::default();
        texts.for_each(|text| all.push(text.as_ref()));
        all
    }

    /// Adds one at the end.
    pub fn push(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
        self.ends.push(self.bytes.len());
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// True without texts.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The text with a number, which exists.
    #[must_use]
    pub fn get(&self, number: usize) -> &[u8] {
        &self.bytes[self.range(number)]
    }

    /// Without those behind the first `len`.
    pub fn truncate(&mut self, len: usize) {
        self.ends.truncate(len);
        self.bytes.truncate(self.ends.last().copied().unwrap_or(0));
    }

    /// Memory in use.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.bytes.len() + size_of_val(self.ends.as_slice())
    }

    fn range(&self, number: usize) -> Range<usize> {
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        start..self.ends[number]
    }
}

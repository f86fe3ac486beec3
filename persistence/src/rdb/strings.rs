//! Many byte strings in one allocation.

/// A list of byte strings, kept one behind the other: a member of two bytes does not cost an
/// allocation of its own, so that memory stays in proportion to the file it came from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Strings {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Strings {
    /// Appends one.
    pub fn push(&mut self, string: &[u8]) {
        self.bytes.extend_from_slice(string);
        self.ends.push(self.bytes.len());
    }

    /// Appends the decimal text of a number.
    pub fn push_integer(&mut self, number: i64) {
        let mut digits = itoa::Buffer::new();
        self.push(digits.format(number).as_bytes());
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// True when there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// String number `index`.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        let end = *self.ends.get(index)?;
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        Some(&self.bytes[start..end])
    }

    /// All of them in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> + Clone {
        let mut start = 0;
        self.ends.iter().map(move |&end| &self.bytes[std::mem::replace(&mut start, end)..end])
    }

    /// All of them two by two; a last one without a partner is left out.
    pub fn pairs(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut strings = self.iter();
        std::iter::from_fn(move || Some((strings.next()?, strings.next()?)))
    }
}

impl<'a> FromIterator<&'a [u8]> for Strings {
    fn from_iter<I: IntoIterator<Item = &'a [u8]>>(strings: I) -> Self {
        let mut all = Self::default();
        strings.into_iter().for_each(|string| all.push(string));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_come_back_in_order() {
        let mut strings: Strings = [&b"a"[..], b"", b"bcd"].into_iter().collect();
        strings.push_integer(-12);
        let all: Vec<&[u8]> = strings.iter().collect();
        assert_eq!(all, [&b"a"[..], b"", b"bcd", b"-12"]);
        assert_eq!((strings.get(1), strings.get(2)), (Some(&b""[..]), Some(&b"bcd"[..])));
        assert_eq!(strings.get(4), None);
        let pairs: Vec<_> = strings.pairs().collect();
        assert_eq!(pairs, [(&b"a"[..], &b""[..]), (b"bcd", b"-12")]);
    }
}

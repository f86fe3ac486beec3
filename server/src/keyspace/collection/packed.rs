//! Concatenated byte strings, the format of a collection in one record: `length | bytes`, no index.
//!
//! A length takes one byte up to 240; 241 announces two bytes, 242 four, little endian.

/// Largest length of one byte.
const SHORT_MAX: usize = 240;
const TWO_BYTES: u8 = 241;
const FOUR_BYTES: u8 = 242;

/// Appends one byte string.
pub fn push(out: &mut Vec<u8>, item: &[u8]) {
    let len = item.len();
    if len <= SHORT_MAX {
        out.push(len as u8);
    } else if let Ok(len) = u16::try_from(len) {
        out.push(TWO_BYTES);
        out.extend_from_slice(&len.to_le_bytes());
    } else {
        // No value is longer than the engine's bound, which is below 4 GiB.
        out.push(FOUR_BYTES);
        out.extend_from_slice(&(len as u32).to_le_bytes());
    }
    out.extend_from_slice(item);
}

/// Bytes that [`push`] appends for an item of `len` bytes.
#[must_use]
pub fn packed_bytes(len: usize) -> usize {
    len + match len {
        0..=SHORT_MAX => 1,
        _ if len <= usize::from(u16::MAX) => 3,
        _ => 5,
    }
}

/// The byte string that `bytes` begins with, and what follows it; `None` where `bytes` is cut off.
#[inline]
#[must_use]
pub fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&first, rest) = bytes.split_first()?;
    let (len, rest) = match first {
        0..=240 => (usize::from(first), rest),
        TWO_BYTES => {
            let (len, rest) = rest.split_first_chunk::<2>()?;
            (usize::from(u16::from_le_bytes(*len)), rest)
        }
        FOUR_BYTES => {
            let (len, rest) = rest.split_first_chunk::<4>()?;
            (u32::from_le_bytes(*len) as usize, rest)
        }
        _ => return None,
    };
    rest.split_at_checked(len)
}

/// Walks packed byte strings from the first to the last.
#[derive(Clone, Copy, Debug)]
pub struct Items<'v> {
    rest: &'v [u8],
}

impl<'v> Items<'v> {
    /// A walk of `bytes`, which [`push`] has written.
    #[must_use]
    pub fn new(bytes: &'v [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Number of bytes that the iterator has not visited, from which its position in the record follows.
    #[must_use]
    pub fn bytes_left(&self) -> usize {
        self.rest.len()
    }
}

impl<'v> Iterator for Items<'v> {
    type Item = &'v [u8];

    #[inline]
    fn next(&mut self) -> Option<&'v [u8]> {
        let (item, rest) = split(self.rest)?;
        self.rest = rest;
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_of_every_length_come_back() {
        let mut bytes = Vec::new();
        let items: Vec<Vec<u8>> =
            [0, 1, 240, 241, 255, 65_535, 65_536].iter().map(|&len| vec![7; len]).collect();
        for item in &items {
            let before = bytes.len();
            push(&mut bytes, item);
            assert_eq!(bytes.len() - before, packed_bytes(item.len()));
        }
        assert!(Items::new(&bytes).eq(items.iter().map(Vec::as_slice)));
        let cut = &bytes[..bytes.len() - 1];
        assert_eq!(Items::new(cut).count(), items.len() - 1, "a cut item is none");
    }
}

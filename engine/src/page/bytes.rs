//! The small change of payloads: head, lengths, numbers. Nothing here trusts what it reads.

use super::store::{Damage, PageEdit};
use std::ops::Range;

/// Bytes of a payload's head: elements u16 | flags u8 | chain u8.
pub(super) const HEAD_BYTES: usize = 4;

/// Longest element, in bytes.
pub(super) const ELEMENT_MAX_BYTES: usize = 512 << 20;

/// Most elements of a page: what its head can count.
pub(super) const PAGE_ELEMENTS_MAX: usize = u16::MAX as usize;

/// The page of a set holds integers instead of their texts.
pub(super) const FLAG_INTEGERS: u8 = 1;
/// Entries have due times.
pub(super) const FLAG_TIMES: u8 = 2;
/// Offsets have four bytes instead of two.
pub(super) const FLAG_WIDE: u8 = 4;
/// Neither tags nor offsets: entries are walked.
pub(super) const FLAG_BARE: u8 = 8;
/// One score stands for all.
pub(super) const FLAG_EQUAL: u8 = 16;
/// Entries have values.
pub(super) const FLAG_PAIRS: u8 = 32;

pub(super) const fn damage<T>(at: usize, expected: &'static str) -> Result<T, Damage> {
    Err(Damage { at, expected })
}

/// Elements and flags; flags outside of `known` are refused.
pub(super) fn head(payload: &[u8], known: u8) -> Result<(usize, u8), Damage> {
    let Some((&[low, high, flags, _chain], _)) = payload.split_first_chunk::<HEAD_BYTES>() else {
        return damage(payload.len(), "head of a page");
    };
    if flags & !known != 0 {
        return damage(2, "known flags");
    }
    Ok((u16::from_le_bytes([low, high]) as usize, flags))
}

/// A payload with nothing but its head, and with room for `more_bytes`.
pub(super) fn new_payload(elements: usize, flags: u8, more_bytes: usize) -> Vec<u8> {
    debug_assert!(elements <= PAGE_ELEMENTS_MAX, "{elements} elements");
    let [low, high] = (elements as u16).to_le_bytes();
    let mut payload = Vec::with_capacity(HEAD_BYTES + more_bytes);
    payload.extend_from_slice(&[low, high, flags, 0]);
    payload
}

pub(super) fn set_elements(page: &mut impl PageEdit, elements: usize) {
    debug_assert!(elements <= PAGE_ELEMENTS_MAX, "{elements} elements");
    page.write(0, &(elements as u16).to_le_bytes());
}

fn array<const N: usize>(payload: &[u8], at: usize) -> Result<[u8; N], Damage> {
    match payload.get(at..).and_then(|rest| rest.first_chunk::<N>()) {
        Some(bytes) => Ok(*bytes),
        None => damage(at, "number"),
    }
}

pub(super) fn u16_at(payload: &[u8], at: usize) -> Result<u16, Damage> {
    array(payload, at).map(u16::from_le_bytes)
}

pub(super) fn u32_at(payload: &[u8], at: usize) -> Result<u32, Damage> {
    array(payload, at).map(u32::from_le_bytes)
}

pub(super) fn u64_at(payload: &[u8], at: usize) -> Result<u64, Damage> {
    array(payload, at).map(u64::from_le_bytes)
}

/// `len` bytes from `at` on, if the payload has them.
pub(super) fn range(payload: &[u8], at: usize, len: usize) -> Result<Range<usize>, Damage> {
    match at.checked_add(len) {
        Some(end) if end <= payload.len() => Ok(at..end),
        _ => damage(at, "bytes of an element"),
    }
}

/// Highest length of one byte.
const SHORT_MAX: usize = 240;
const SHORT_END: usize = SHORT_MAX + 1;
const MARK_U16: u8 = 241;
const MARK_U32: u8 = 242;

/// Bytes that a length takes.
pub(super) const fn len_bytes(len: usize) -> usize {
    match len {
        0..=SHORT_MAX => 1,
        SHORT_END..=0xffff => 3,
        _ => 5,
    }
}

/// A length as it is written, in the first [`len_bytes`] of the array.
pub(super) fn encode_len(len: usize) -> ([u8; 5], usize) {
    let mut bytes = [0; 5];
    match len {
        0..=SHORT_MAX => bytes[0] = len as u8,
        SHORT_END..=0xffff => {
            bytes[0] = MARK_U16;
            bytes[1..3].copy_from_slice(&(len as u16).to_le_bytes());
        }
        _ => {
            debug_assert!(len <= ELEMENT_MAX_BYTES, "{len} bytes");
            bytes[0] = MARK_U32;
            bytes[1..].copy_from_slice(&(len as u32).to_le_bytes());
        }
    }
    (bytes, len_bytes(len))
}

pub(super) fn put_len(out: &mut Vec<u8>, len: usize) {
    let (bytes, count) = encode_len(len);
    out.extend_from_slice(&bytes[..count]);
}

/// The length in the mirror: its mark comes last, so that it can be read from behind.
pub(super) fn put_len_backwards(out: &mut Vec<u8>, len: usize) {
    let (mut bytes, count) = encode_len(len);
    bytes[..count].rotate_left(1);
    out.extend_from_slice(&bytes[..count]);
}

fn decode_len(
    mark: u8,
    number: impl Fn(usize) -> Result<usize, Damage>,
    at: usize,
) -> Result<(usize, usize), Damage> {
    let (len, bytes) = match mark {
        0..=240 => (mark as usize, 1),
        MARK_U16 => (number(2)?, 3),
        MARK_U32 => (number(4)?, 5),
        _ => return damage(at, "length"),
    };
    if len_bytes(len) != bytes || len > ELEMENT_MAX_BYTES {
        return damage(at, "length");
    }
    Ok((len, bytes))
}

/// The number of `bytes` bytes, 2 or 4, at `at`.
fn number_at(payload: &[u8], at: usize, bytes: usize) -> Result<usize, Damage> {
    match bytes {
        2 => Ok(u16_at(payload, at)? as usize),
        _ => Ok(u32_at(payload, at)? as usize),
    }
}

/// The length that a byte says alone.
#[inline]
pub(super) fn short_len(mark: u8) -> Option<usize> {
    let len = usize::from(mark);
    (len <= SHORT_MAX).then_some(len)
}

/// The length at `at`, and the bytes that it takes.
pub(super) fn len_at(payload: &[u8], at: usize) -> Result<(usize, usize), Damage> {
    let Some(&mark) = payload.get(at) else { return damage(at, "length") };
    decode_len(mark, |bytes| number_at(payload, at + 1, bytes), at)
}

/// The mirrored length that ends before `end`, and the bytes that it takes.
pub(super) fn len_before(payload: &[u8], end: usize) -> Result<(usize, usize), Damage> {
    let Some(&mark) = end.checked_sub(1).and_then(|at| payload.get(at)) else {
        return damage(end, "length");
    };
    let number = |bytes| match (end - 1).checked_sub(bytes) {
        Some(at) => number_at(payload, at, bytes),
        None => damage(end, "length"),
    };
    decode_len(mark, number, end - 1)
}

/// An array of offsets, ascending, of where entries begin behind `heap`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offsets {
    /// Offset of the array.
    pub at: usize,
    /// How many.
    pub len: usize,
    pub wide: bool,
}

impl Offsets {
    pub(super) const fn width(self) -> usize {
        if self.wide { 4 } else { 2 }
    }

    /// Where the array ends, and the entries begin.
    pub(super) const fn heap(self) -> usize {
        self.at + self.len * self.width()
    }

    /// Where entry `index` begins; where the payload ends for the one behind the last.
    pub(super) fn start(self, payload: &[u8], index: usize) -> Result<usize, Damage> {
        if index == self.len {
            return Ok(payload.len());
        }
        let offset = number_at(payload, self.at + index * self.width(), self.width())?;
        match self.heap().checked_add(offset) {
            Some(start) if start < payload.len() => Ok(start),
            _ => damage(self.at + index * self.width(), "offset of an entry"),
        }
    }

    /// True if the entries from `index` on could begin `grown` bytes later and still be named.
    pub(super) fn can_shift(self, payload: &[u8], index: usize, grown: usize) -> bool {
        if self.wide || index >= self.len {
            return true;
        }
        let last = u16_at(payload, self.at + (self.len - 1) * 2).map_or(usize::MAX, usize::from);
        last.saturating_add(grown) <= u16::MAX as usize
    }

    /// Says that the entries from `index` on begin `by` bytes later.
    pub(super) fn shift(self, page: &mut impl PageEdit, index: usize, by: isize) {
        if index >= self.len || by == 0 {
            return;
        }
        let from = self.at + index * self.width();
        let mut moved = page.bytes()[from..self.heap()].to_vec();
        if self.wide {
            for word in moved.as_chunks_mut::<4>().0 {
                *word = u32::from_le_bytes(*word).wrapping_add_signed(by as i32).to_le_bytes();
            }
        } else {
            for word in moved.as_chunks_mut::<2>().0 {
                *word = u16::from_le_bytes(*word).wrapping_add_signed(by as i16).to_le_bytes();
            }
        }
        page.write(from, &moved);
    }

    /// Makes room for an offset at `index`, and fills it.
    pub(super) fn insert(self, page: &mut impl PageEdit, index: usize, offset: usize) {
        let at = self.at + index * self.width();
        page.splice(at..at, &(offset as u32).to_le_bytes()[..self.width()]);
    }

    pub(super) fn remove(self, page: &mut impl PageEdit, index: usize) {
        let at = self.at + index * self.width();
        page.splice(at..at + self.width(), &[]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_read_from_both_sides() {
        for len in [0, 1, 240, 241, 255, 256, 65_535, 65_536, ELEMENT_MAX_BYTES] {
            let mut bytes = vec![7];
            put_len(&mut bytes, len);
            assert_eq!(len_at(&bytes, 1), Ok((len, bytes.len() - 1)));
            let mut bytes = vec![7];
            put_len_backwards(&mut bytes, len);
            assert_eq!(len_before(&bytes, bytes.len()), Ok((len, bytes.len() - 1)));
        }
    }

    #[test]
    fn lengths_that_nobody_writes_are_damage() {
        for bytes in [
            &[][..],
            &[241],
            &[241, 5, 0],
            &[242, 0, 1, 0],
            &[242, 1, 0, 0, 0],
            &[255],
            &[242, 255, 255, 255, 255],
        ] {
            assert!(len_at(bytes, 0).is_err(), "{bytes:?}");
        }
        for bytes in [&[][..], &[241], &[5, 0, 241], &[0, 1, 0, 242], &[255]] {
            assert!(len_before(bytes, bytes.len()).is_err(), "{bytes:?}");
        }
    }
}

//! Listpacks (Redis 7.0 and, in streams, 5.0).
//!
//! ```text
//! bytes (4)   count (2)   entries   0xff
//! entry: encoding   data   length of both, 7 bits a byte, to be read backwards
//!
//! 0NNNNNNN                 0 to 127
//! 10LLLLLL                 string of up to 63 bytes
//! 110NNNNN NNNNNNNN        integer of 13 bits, big-endian
//! 1110LLLL LLLLLLLL        string of up to 4095 bytes, big-endian
//! 0xf0 + 4 bytes           string, little-endian length
//! 0xf1 / f2 / f3 / f4      integer of 2 / 3 / 4 / 8 bytes, little-endian
//! ```

use super::{COUNT_UNKNOWN, Cursor, i24, is_count};
use crate::rdb::{RdbError, Strings};

const END: u8 = 0xff;
const HEADER_BYTES: usize = 6;

/// One element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::rdb) enum Element<'a> {
    Integer(i64),
    String(&'a [u8]),
}

/// The backward length of an entry: the last byte has the lowest bits, all but the first have the top bit set.
struct BackLength {
    bytes: [u8; 5],
    len: usize,
}

impl BackLength {
    fn of(entry: usize) -> Self {
        let len = match entry {
            0..=127 => 1,
            128..=16_382 => 2,
            16_383..=2_097_150 => 3,
            2_097_151..=268_435_454 => 4,
            _ => 5,
        };
        let mut bytes = [0; 5];
        for (nth, byte) in bytes[..len].iter_mut().enumerate() {
            let bits = (entry >> (7 * (len - 1 - nth))) as u8 & 0x7f;
            *byte = if nth == 0 { bits } else { bits | 0x80 };
        }
        Self { bytes, len }
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Reads element after element.
#[derive(Debug)]
pub(in crate::rdb) struct ListpackReader<'a> {
    cursor: Cursor<'a>,
    /// Elements that the header announces.
    announced: usize,
    seen: usize,
}

impl<'a> ListpackReader<'a> {
    /// `form` is what an error says is damaged.
    pub(in crate::rdb) fn new(form: &'static str, bytes: &'a [u8]) -> Result<Self, RdbError> {
        let mut cursor = Cursor::new(form, bytes);
        if u32::from_le_bytes(cursor.array()?) as usize != bytes.len() {
            return Err(cursor.bad());
        }
        let announced = u16::from_le_bytes(cursor.array()?).into();
        Ok(Self { cursor, announced, seen: 0 })
    }

    /// The next element; `None` at the end.
    pub(in crate::rdb) fn next(&mut self) -> Result<Option<Element<'a>>, RdbError> {
        let cursor = &mut self.cursor;
        let start = cursor.at;
        let first = cursor.byte()?;
        let element = match first {
            0x00..=0x7f => Element::Integer(first.into()),
            0x80..=0xbf => Element::String(cursor.take((first & 0x3f).into())?),
            0xc0..=0xdf => {
                let bits = u16::from_be_bytes([first & 0x1f, cursor.byte()?]);
                Element::Integer(i64::from((bits << 3) as i16 >> 3))
            }
            0xe0..=0xef => {
                let len = u16::from_be_bytes([first & 0x0f, cursor.byte()?]);
                Element::String(cursor.take(len.into())?)
            }
            0xf0 => {
                let len = u32::from_le_bytes(cursor.array()?);
                Element::String(cursor.take(len as usize)?)
            }
            0xf1 => Element::Integer(i16::from_le_bytes(cursor.array()?).into()),
            0xf2 => Element::Integer(i24(cursor.array()?)),
            0xf3 => Element::Integer(i32::from_le_bytes(cursor.array()?).into()),
            0xf4 => Element::Integer(i64::from_le_bytes(cursor.array()?)),
            END if cursor.is_at_end() && is_count(self.announced, self.seen) => return Ok(None),
            _ => return Err(cursor.bad()),
        };
        let entry = cursor.at - start;
        let back = BackLength::of(entry);
        if cursor.take(back.bytes().len())? != back.bytes() {
            return Err(cursor.bad());
        }
        self.seen += 1;
        Ok(Some(element))
    }

    /// The next element, which must be there.
    pub(in crate::rdb) fn expect(&mut self) -> Result<Element<'a>, RdbError> {
        self.next()?.ok_or(self.cursor.bad())
    }

    /// The next element, which must be an integer.
    pub(in crate::rdb) fn integer(&mut self) -> Result<i64, RdbError> {
        match self.expect()? {
            Element::Integer(number) => Ok(number),
            Element::String(_) => Err(self.cursor.bad()),
        }
    }

    /// Appends the next element to `out`.
    pub(in crate::rdb) fn string(&mut self, out: &mut Strings) -> Result<(), RdbError> {
        self.expect()?.push_to(out);
        Ok(())
    }
}

impl Element<'_> {
    pub(in crate::rdb) fn push_to(self, out: &mut Strings) {
        match self {
            Self::Integer(number) => out.push_integer(number),
            Self::String(string) => out.push(string),
        }
    }
}

/// Appends the elements of a listpack; `form` is what an error says is damaged.
pub(in crate::rdb) fn read_listpack(
    form: &'static str,
    bytes: &[u8],
    out: &mut Strings,
) -> Result<(), RdbError> {
    let mut reader = ListpackReader::new(form, bytes)?;
    while let Some(element) = reader.next()? {
        element.push_to(out);
    }
    Ok(())
}

/// Builds a listpack. Strings are stored as they are, also where they look like numbers.
#[derive(Debug)]
pub(in crate::rdb) struct ListpackWriter {
    bytes: Vec<u8>,
    count: usize,
}

impl ListpackWriter {
    pub(in crate::rdb) fn new() -> Self {
        Self { bytes: vec![0; HEADER_BYTES], count: 0 }
    }

    pub(in crate::rdb) fn integer(&mut self, number: i64) {
        let start = self.bytes.len();
        let little = number.to_le_bytes();
        match number {
            0..=127 => self.bytes.push(number as u8),
            -4096..=4095 => {
                let bits = (number as u16) & 0x1fff;
                self.bytes.extend_from_slice(&(0xc000 | bits).to_be_bytes());
            }
            -0x8000..=0x7fff => self.encoded(0xf1, &little[..2]),
            -0x80_0000..=0x7f_ffff => self.encoded(0xf2, &little[..3]),
            -0x8000_0000..=0x7fff_ffff => self.encoded(0xf3, &little[..4]),
            _ => self.encoded(0xf4, &little),
        }
        self.end_entry(start);
    }

    fn encoded(&mut self, encoding: u8, data: &[u8]) {
        self.bytes.push(encoding);
        self.bytes.extend_from_slice(data);
    }

    pub(in crate::rdb) fn string(&mut self, string: &[u8]) {
        let start = self.bytes.len();
        match string.len() {
            len @ 0..=63 => self.bytes.push(0x80 | len as u8),
            len @ 64..=4095 => {
                self.bytes.extend_from_slice(&(0xe000 | len as u16).to_be_bytes());
            }
            // Strings end at 512 MiB.
            len => self.encoded(0xf0, &(len as u32).to_le_bytes()),
        }
        self.bytes.extend_from_slice(string);
        self.end_entry(start);
    }

    /// Appends the backward length.
    fn end_entry(&mut self, start: usize) {
        let back = BackLength::of(self.bytes.len() - start);
        self.bytes.extend_from_slice(back.bytes());
        self.count += 1;
    }

    /// The whole listpack.
    pub(in crate::rdb) fn finish(mut self) -> Vec<u8> {
        self.bytes.push(END);
        let len = self.bytes.len() as u32;
        self.bytes[..4].copy_from_slice(&len.to_le_bytes());
        let count = self.count.min(COUNT_UNKNOWN) as u16;
        self.bytes[4..HEADER_BYTES].copy_from_slice(&count.to_le_bytes());
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_encoding_comes_back() {
        let long = [vec![b'a'; 64], vec![b'b'; 4095], vec![b'c'; 4096], vec![b'd'; 2_200_000]];
        let numbers =
            [0, 127, 128, -1, -4096, 4095, 4096, -32_768, 32_768, 8_388_607, -8_388_609, i64::MIN];
        let mut writer = ListpackWriter::new();
        numbers.iter().for_each(|&number| writer.integer(number));
        long.iter().for_each(|string| writer.string(string));
        writer.string(b"");
        let bytes = writer.finish();
        let mut reader = ListpackReader::new("Listpack", &bytes).unwrap();
        for number in numbers {
            assert_eq!(reader.next(), Ok(Some(Element::Integer(number))));
        }
        for string in &long {
            assert_eq!(reader.next(), Ok(Some(Element::String(string))));
        }
        assert_eq!(reader.next(), Ok(Some(Element::String(b""))));
        assert_eq!(reader.next(), Ok(None));
    }

    #[test]
    fn what_is_said_twice_must_agree() {
        let mut writer = ListpackWriter::new();
        writer.string(b"hello");
        writer.integer(7);
        let bytes = writer.finish();
        let read = |bytes: &[u8]| read_listpack("Listpack", bytes, &mut Strings::default());
        assert_eq!(read(&bytes), Ok(()));
        // The count, and the length of the first entry behind it.
        for at in [4, HEADER_BYTES + 6] {
            let mut damaged = bytes.clone();
            damaged[at] += 1;
            assert!(matches!(read(&damaged), Err(RdbError::BadPacked { .. })), "{at}");
        }
        let mut many = bytes.clone();
        many[4..HEADER_BYTES].copy_from_slice(&[0xff, 0xff]);
        assert_eq!(read(&many), Ok(()));
    }

    #[test]
    fn cut_ones_are_refused() {
        let mut writer = ListpackWriter::new();
        writer.string(b"hello");
        writer.integer(1_000_000);
        let bytes = writer.finish();
        for cut in 0..bytes.len() {
            let mut short = bytes[..cut].to_vec();
            if cut >= 4 {
                short[..4].copy_from_slice(&(cut as u32).to_le_bytes());
            }
            assert!(read_listpack("Listpack", &short, &mut Strings::default()).is_err(), "{cut}");
        }
    }
}

//! Ziplists (Redis 2.4 to 6.2).
//!
//! ```text
//! bytes (4)   tail (4)   count (2)   entries   0xff
//! entry: length of the one before (1 byte, or 0xfe and 4)   encoding   data
//!
//! 00LLLLLL                 string of up to 63 bytes
//! 01LLLLLL LLLLLLLL        string of up to 16383 bytes, big-endian
//! 10______ + 4 bytes       string, big-endian length
//! 0xc0 / 0xd0 / 0xe0       integer of 2 / 4 / 8 bytes, little-endian
//! 0xf0 / 0xfe              integer of 3 / 1 bytes
//! 0xf1 to 0xfd             0 to 12
//! ```

use super::{Cursor, i24, is_count};
use crate::rdb::{RdbError, Strings};

const END: u8 = 0xff;
const LONG_PREVIOUS: u8 = 0xfe;

/// Appends the elements of a ziplist; `form` is what an error says is damaged.
pub(in crate::rdb) fn read_ziplist(
    form: &'static str,
    bytes: &[u8],
    out: &mut Strings,
) -> Result<(), RdbError> {
    let mut cursor = Cursor::new(form, bytes);
    if u32::from_le_bytes(cursor.array()?) as usize != bytes.len() {
        return Err(cursor.bad());
    }
    let tail = u32::from_le_bytes(cursor.array()?) as usize;
    let announced = usize::from(u16::from_le_bytes(cursor.array()?));
    // Where the last entry starts; an empty one has its end there.
    let (mut last, mut seen) = (cursor.at, 0);
    loop {
        let start = cursor.at;
        let previous = match cursor.byte()? {
            END if cursor.is_at_end() && tail == last && is_count(announced, seen) => return Ok(()),
            END => return Err(cursor.bad()),
            LONG_PREVIOUS => u32::from_le_bytes(cursor.array()?) as usize,
            short => short.into(),
        };
        if previous != start - last {
            return Err(cursor.bad());
        }
        (last, seen) = (start, seen + 1);
        read_entry(&mut cursor, out)?;
    }
}

/// Appends one element, whose encoding comes next.
fn read_entry(cursor: &mut Cursor<'_>, out: &mut Strings) -> Result<(), RdbError> {
    let encoding = cursor.byte()?;
    let number = match encoding {
        0x00..=0x3f => {
            out.push(cursor.take(encoding.into())?);
            return Ok(());
        }
        0x40..=0x7f => {
            let len = u16::from_be_bytes([encoding & 0x3f, cursor.byte()?]);
            out.push(cursor.take(len.into())?);
            return Ok(());
        }
        0x80..=0xbf => {
            let len = u32::from_be_bytes(cursor.array()?);
            out.push(cursor.take(len as usize)?);
            return Ok(());
        }
        0xc0 => i16::from_le_bytes(cursor.array()?).into(),
        0xd0 => i32::from_le_bytes(cursor.array()?).into(),
        0xe0 => i64::from_le_bytes(cursor.array()?),
        0xf0 => i24(cursor.array()?),
        0xfe => i8::from_le_bytes(cursor.array()?).into(),
        0xf1..=0xfd => i64::from(encoding & 0x0f) - 1,
        _ => return Err(cursor.bad()),
    };
    out.push_integer(number);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `a`, 1000 and 5: bytes, tail, count, entries.
    const THREE: [u8; 20] =
        [20, 0, 0, 0, 17, 0, 0, 0, 3, 0, 0, 1, b'a', 3, 0xc0, 0xe8, 3, 4, 0xf6, 0xff];

    fn read(bytes: &[u8]) -> Result<Strings, RdbError> {
        let mut out = Strings::default();
        read_ziplist("Ziplist", bytes, &mut out).map(|()| out)
    }

    #[test]
    fn what_is_said_twice_must_agree() {
        assert_eq!(read(&THREE), Ok([&b"a"[..], b"1000", b"5"].into_iter().collect()));
        for (what, at, value) in [
            ("bytes", 0, 21),
            ("tail", 4, 13),
            ("count", 8, 2),
            ("length of none", 10, 1),
            ("length of the one before", 13, 2),
            ("length of the one before the last", 17, 5),
        ] {
            let mut damaged = THREE;
            damaged[at] = value;
            assert!(matches!(read(&damaged), Err(RdbError::BadPacked { .. })), "{what}");
        }
        // A count that the field cannot say is not compared.
        let mut many = THREE;
        many[8..10].copy_from_slice(&[0xff, 0xff]);
        assert!(read(&many).is_ok());
        let empty = [11, 0, 0, 0, 10, 0, 0, 0, 0, 0, 0xff];
        assert_eq!(read(&empty), Ok(Strings::default()));
    }
}

//! Zipmaps: small hashes of Redis before 2.6.
//!
//! ```text
//! count (1)   entries   0xff
//! entry: length   field   length   free (1 byte)   value   `free` unused bytes
//! length: 1 byte up to 253, or 0xfe and 4 bytes, little-endian
//! ```

use super::Cursor;
use crate::rdb::{RdbError, Strings};

const END: u8 = 0xff;
const LONG: u8 = 0xfe;
/// The count of a zipmap that holds more than the field can say.
const COUNT_UNKNOWN: u8 = 0xfe;

fn length(cursor: &mut Cursor<'_>, first: u8) -> Result<usize, RdbError> {
    match first {
        END => Err(cursor.bad()),
        LONG => {
            let long = u32::from_le_bytes(cursor.array()?);
            // A length that fits a byte is written as one.
            if long < u32::from(LONG) { Err(cursor.bad()) } else { Ok(long as usize) }
        }
        short => Ok(short.into()),
    }
}

/// Appends field, value, field, value...
pub(in crate::rdb) fn read_zipmap(bytes: &[u8], out: &mut Strings) -> Result<(), RdbError> {
    let mut cursor = Cursor::new("Zipmap", bytes);
    let announced = cursor.byte()?;
    let mut pairs = 0;
    loop {
        let first = cursor.byte()?;
        if first == END {
            let is_told = announced >= COUNT_UNKNOWN || usize::from(announced) == pairs;
            return if cursor.is_at_end() && is_told && pairs > 0 {
                Ok(())
            } else {
                Err(cursor.bad())
            };
        }
        pairs += 1;
        let field_len = length(&mut cursor, first)?;
        out.push(cursor.take(field_len)?);
        let first = cursor.byte()?;
        let value_len = length(&mut cursor, first)?;
        let free = cursor.byte()?;
        out.push(cursor.take(value_len)?);
        cursor.take(free.into())?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_values_and_unused_bytes() {
        let long = [b'v'; 300];
        let mut bytes = vec![2, 3, b'f', b'o', b'o', 2, 1, b'h', b'i', 0xee, 1, b'k', 0xfe];
        bytes.extend_from_slice(&[0x2c, 1, 0, 0, 0]);
        bytes.extend_from_slice(&long);
        bytes.push(0xff);
        let mut out = Strings::default();
        read_zipmap(&bytes, &mut out).unwrap();
        let all: Vec<&[u8]> = out.iter().collect();
        assert_eq!(all, [&b"foo"[..], b"hi", b"k", &long]);
        for cut in 0..bytes.len() {
            assert!(read_zipmap(&bytes[..cut], &mut Strings::default()).is_err(), "{cut}");
        }
    }

    #[test]
    fn another_count_and_no_field_are_refused() {
        let one = |count| [count, 1, b'f', 1, 0, b'v', 0xff];
        assert_eq!(read_zipmap(&one(1), &mut Strings::default()), Ok(()));
        assert_eq!(read_zipmap(&one(254), &mut Strings::default()), Ok(()));
        assert!(read_zipmap(&one(2), &mut Strings::default()).is_err());
        assert!(read_zipmap(&[0, 0xff], &mut Strings::default()).is_err());
        let overlong = [1, 0xfe, 1, 0, 0, 0, b'f', 1, 0, b'v', 0xff];
        assert!(read_zipmap(&overlong, &mut Strings::default()).is_err());
    }
}

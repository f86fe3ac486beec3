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

use super::{Cursor, i24};
use crate::rdb::{RdbError, Strings};

const END: u8 = 0xff;
const LONG_PREVIOUS: u8 = 0xfe;

/// Appends the elements of a ziplist.
pub(in crate::rdb) fn read_ziplist(bytes: &[u8], out: &mut Strings) -> Result<(), RdbError> {
    let mut cursor = Cursor::new("ziplist", bytes);
    if u32::from_le_bytes(cursor.array()?) as usize != bytes.len() {
        return Err(cursor.bad());
    }
    cursor.take(6)?;
    loop {
        match cursor.byte()? {
            END if cursor.is_at_end() => return Ok(()),
            END => return Err(cursor.bad()),
            LONG_PREVIOUS => {
                cursor.take(4)?;
            }
            _ => {}
        }
        let encoding = cursor.byte()?;
        let number = match encoding {
            0x00..=0x3f => {
                out.push(cursor.take(encoding.into())?);
                continue;
            }
            0x40..=0x7f => {
                let len = u16::from_be_bytes([encoding & 0x3f, cursor.byte()?]);
                out.push(cursor.take(len.into())?);
                continue;
            }
            0x80..=0xbf => {
                let len = u32::from_be_bytes(cursor.array()?);
                out.push(cursor.take(len as usize)?);
                continue;
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
    }
}

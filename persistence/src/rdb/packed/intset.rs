//! Intsets: integers of one width.
//!
//! ```text
//! width (4 bytes: 2, 4 or 8)   count (4 bytes)   count x width bytes, all little-endian, ascending
//! ```

use super::Cursor;
use crate::rdb::{RdbError, Strings};

/// Appends the decimal texts of an intset's members.
pub(in crate::rdb) fn read_intset(bytes: &[u8], out: &mut Strings) -> Result<(), RdbError> {
    let mut cursor = Cursor::new("Intset", bytes);
    let width = u32::from_le_bytes(cursor.array()?);
    let count = u32::from_le_bytes(cursor.array()?);
    if !matches!(width, 2 | 4 | 8) || bytes.len() as u64 != 8 + u64::from(width) * u64::from(count)
    {
        return Err(cursor.bad());
    }
    while !cursor.is_at_end() {
        out.push_integer(match width {
            2 => i16::from_le_bytes(cursor.array()?).into(),
            4 => i32::from_le_bytes(cursor.array()?).into(),
            _ => i64::from_le_bytes(cursor.array()?),
        });
    }
    Ok(())
}

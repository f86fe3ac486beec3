//! DUMP payloads: type byte, value, version (2 bytes), CRC-64 (8 bytes), both little-endian.

use super::{Input, RDB_VERSION, RDB_VERSION_MAX, RdbError};
use crate::checksum::Crc64;

const FOOTER_BYTES: usize = 2 + 8;

/// Type bytes of values that DUMP can write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum DumpType {
    /// A string.
    String = 0,
}

impl DumpType {
    /// Reads the type byte at the start of a payload.
    ///
    /// # Errors
    /// The input is empty, or the type is unknown.
    pub fn read(input: &mut Input<'_>) -> Result<Self, RdbError> {
        let [found] = input.take_array()?;
        match found {
            0 => Ok(Self::String),
            _ => Err(RdbError::UnknownType { found }),
        }
    }
}

fn crc64(bytes: &[u8]) -> u64 {
    let mut crc = Crc64::new();
    crc.update(bytes);
    crc.finish()
}

/// Appends version and checksum to type byte and value.
pub fn finish_payload(payload: &mut Vec<u8>) {
    payload.extend_from_slice(&RDB_VERSION.to_le_bytes());
    let crc = crc64(payload);
    payload.extend_from_slice(&crc.to_le_bytes());
}

/// Checks version and checksum; gives type byte and value.
///
/// # Errors
/// Too short, a version that is newer than ours, or damaged.
pub fn check_payload(payload: &[u8]) -> Result<&[u8], RdbError> {
    let footer_at = payload.len().checked_sub(FOOTER_BYTES).ok_or(RdbError::Truncated {
        at: 0,
        wanted: FOOTER_BYTES,
        left: payload.len(),
    })?;
    let mut footer = Input::new(&payload[footer_at..]);
    let version = u16::from_le_bytes(footer.take_array()?);
    if version > RDB_VERSION_MAX {
        return Err(RdbError::Version { found: version });
    }
    let announced = u64::from_le_bytes(footer.take_array()?);
    let computed = crc64(&payload[..footer_at + 2]);
    if announced != computed {
        return Err(RdbError::Checksum { announced, computed });
    }
    Ok(&payload[..footer_at])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `SET a 0; DUMP a` of redis-server 7.0.15.
    const ZERO: [u8; 13] = [0, 0xc0, 0, 10, 0, 0x98, 0x40, 0xa7, 0x78, 0xf8, 0x50, 0x03, 0x08];

    #[test]
    fn footer_equals_that_of_redis() {
        let mut payload = vec![0, 0xc0, 0];
        finish_payload(&mut payload);
        assert_eq!(payload, ZERO);
        assert_eq!(check_payload(&ZERO), Ok(&ZERO[..3]));
    }

    #[test]
    fn any_changed_byte_is_noticed() {
        for at in 0..ZERO.len() {
            let mut damaged = ZERO;
            damaged[at] ^= 1;
            assert!(check_payload(&damaged).is_err(), "byte {at}");
        }
        assert!(check_payload(&ZERO[..9]).is_err());
    }
}

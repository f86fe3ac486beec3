//! DUMP payloads: type byte, value, version (2 bytes), CRC-64 (8 bytes), both little-endian.

use super::encode::write_value;
use super::reader::opcode;
use super::{
    DUMP_VERSION, DUMP_VERSION_MAX, Dialect, Input, RdbError, StringOptions, Value, read_string,
    read_value, write_string,
};
use crate::checksum::crc64;

const FOOTER_BYTES: usize = 2 + 8;
/// First version of Valkey's own numbering.
const VALKEY_SINCE: u16 = 80;
/// Newest version of Valkey's that is understood.
const VALKEY_VERSION_MAX: u16 = 80;

/// The payload of a value, as Redis 7.0 makes it for a string; `None` for a module's value.
#[must_use]
pub fn dump(value: &Value) -> Option<Vec<u8>> {
    let version = value.version_needed()?.max(DUMP_VERSION);
    let mut payload = vec![value.code()];
    write_value(&mut payload, value, StringOptions { compress: true });
    payload.extend_from_slice(&version.to_le_bytes());
    let crc = crc64(&payload);
    payload.extend_from_slice(&crc.to_le_bytes());
    Some(payload)
}

/// The payload of function libraries: each as in a file, then the footer.
#[must_use]
pub fn dump_functions<'t>(texts: impl Iterator<Item = &'t [u8]>) -> Vec<u8> {
    let mut payload = Vec::new();
    for text in texts {
        payload.push(opcode::FUNCTION);
        write_string(&mut payload, text, StringOptions { compress: true });
    }
    payload.extend_from_slice(&DUMP_VERSION.to_le_bytes());
    let crc = crc64(&payload);
    payload.extend_from_slice(&crc.to_le_bytes());
    payload
}

/// The texts of the libraries of what [`check_payload`] gave, if its compressed strings announce at most
/// `unpacked_max_bytes`.
///
/// # Errors
/// As for [`read_payload`], or something that is no library.
pub fn read_functions(body: &[u8], unpacked_max_bytes: u64) -> Result<Vec<Vec<u8>>, RdbError> {
    let mut input = Input::new(body).unpacking_at_most(unpacked_max_bytes);
    let mut texts = Vec::new();
    while input.left() > 0 {
        let [found] = input.take_array()?;
        texts.push(match found {
            opcode::FUNCTION => read_string(&mut input)?,
            opcode::FUNCTION_PRE_GA => {
                return Err(RdbError::Unsupported { name: "a function of before Redis 7.0" });
            }
            _ => return Err(RdbError::NoFunction { found }),
        });
    }
    Ok(texts)
}

/// A payload with the checksum that it should have, whatever it had. One that is too short stays as it is.
#[must_use]
pub fn with_checksum(payload: &[u8]) -> Vec<u8> {
    let mut sealed = payload.to_vec();
    if let Some((body, checksum)) = sealed.split_last_chunk_mut() {
        *checksum = crc64(body).to_le_bytes();
    }
    sealed
}

/// Checks version and checksum of a payload; gives type byte and value, and whose types they are.
///
/// # Errors
/// Too short, a version that is newer than ours, or damaged.
pub fn check_payload(payload: &[u8]) -> Result<(&[u8], Dialect), RdbError> {
    let footer_at = payload.len().checked_sub(FOOTER_BYTES).ok_or(RdbError::Truncated {
        at: 0,
        wanted: FOOTER_BYTES as u64,
        left: payload.len() as u64,
    })?;
    let mut footer = Input::new(&payload[footer_at..]);
    let version = u16::from_le_bytes(footer.take_array()?);
    let dialect = match version {
        VALKEY_SINCE..=VALKEY_VERSION_MAX => Dialect::Valkey,
        0..=DUMP_VERSION_MAX => Dialect::Redis,
        found => return Err(RdbError::Version { found }),
    };
    let announced = u64::from_le_bytes(footer.take_array()?);
    let computed = crc64(&payload[..footer_at + 2]);
    if announced != computed {
        return Err(RdbError::Checksum { announced, computed });
    }
    Ok((&payload[..footer_at], dialect))
}

/// Decodes what [`check_payload`] gave, if its compressed strings announce at most `unpacked_max_bytes`.
///
/// # Errors
/// [`RdbError::TooLarge`], before anything of that size is made; damaged, of a type that cannot be read, or with bytes left over.
pub fn read_payload(
    body: &[u8],
    dialect: Dialect,
    unpacked_max_bytes: u64,
) -> Result<Value, RdbError> {
    let mut input = Input::new(body).unpacking_at_most(unpacked_max_bytes);
    let [found] = input.take_array()?;
    let value = read_value(&mut input, found, dialect)?;
    if input.left() > 0 {
        return Err(RdbError::BadValue { reason: "bytes behind the value" });
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `SET a 0; DUMP a` of redis-server 7.0.15.
    const ZERO: [u8; 13] = [0, 0xc0, 0, 10, 0, 0x98, 0x40, 0xa7, 0x78, 0xf8, 0x50, 0x03, 0x08];

    #[test]
    fn libraries_come_back_from_their_payload() {
        let texts = [&b"#!lua name=a\nx"[..], &[b'y'; 100]];
        let payload = dump_functions(texts.into_iter());
        let (body, _) = check_payload(&payload).unwrap();
        assert_eq!(read_functions(body, 1000).unwrap(), texts);
        assert!(matches!(read_functions(body, 50), Err(RdbError::TooLarge { .. })));
        let value = read_functions(&[0, 0xc0, 0], 1000);
        assert!(matches!(value, Err(RdbError::NoFunction { found: 0 })), "{value:?}");
        let old = read_functions(&[246, 0], 1000);
        assert!(matches!(old, Err(RdbError::Unsupported { .. })), "{old:?}");
        // `FUNCTION DUMP` of redis-server 7.0.15 without a library.
        let empty = [10, 0, 0x5d, 0x9b, 0x5c, 0x40, 0x0f, 0x7f, 0xa2, 0xda];
        assert_eq!(dump_functions(std::iter::empty()), empty);
    }

    #[test]
    fn payload_equals_that_of_redis() {
        let value = Value::String(b"0".to_vec());
        assert_eq!(dump(&value).unwrap(), ZERO);
        let (body, dialect) = check_payload(&ZERO).unwrap();
        assert_eq!(read_payload(body, dialect, 0), Ok(value));
        assert_eq!(dump(&Value::Module("ReJSON-RL".into())), None);
    }

    #[test]
    fn a_hash_with_times_equals_that_of_valkey() {
        // `HSET t a 1; HPEXPIREAT t 1795615298315 FIELDS 1 a; DUMP t` of valkey-server 9.1.2.
        let value = Value::Hash([&b"a"[..], b"1"].into_iter().collect(), vec![1_795_615_298_315]);
        let payload = dump(&value).unwrap();
        let valkeys =
            b"\x16\x01\x01a\xc0\x01\x0b\x13\x03\x13\xa2\x01\x00\x00P\x00\xab\xa9Bnw\x94\n*";
        assert_eq!(payload, valkeys);
        let (body, dialect) = check_payload(&payload).unwrap();
        assert_eq!(read_payload(body, dialect, 1000), Ok(value));
    }

    #[test]
    fn what_unpacks_to_more_than_is_allowed_is_refused_before_it_is_unpacked() {
        let value = Value::String(vec![b'x'; 100_000]);
        let payload = dump(&value).unwrap();
        assert!(payload.len() < 2000);
        let (body, dialect) = check_payload(&payload).unwrap();
        let refused = read_payload(body, dialect, 99_999);
        assert!(matches!(refused, Err(RdbError::TooLarge { bytes: 100_000, .. })), "{refused:?}");
        assert_eq!(read_payload(body, dialect, 100_000), Ok(value));
        // A quicklist of two nodes that fit alone, and a length that lies: it is not asked for the bytes.
        let mut two = vec![1, 2];
        two.extend_from_slice(&body[1..]);
        two.extend_from_slice(&body[1..]);
        let refused = read_payload(&two, dialect, 150_000);
        assert!(matches!(refused, Err(RdbError::TooLarge { .. })), "{refused:?}");
        let lie = [0, 0xc3, 3, 0x80, 0x1f, 0xff, 0xff, 0xff, 1, b'x', 0];
        let refused = read_payload(&lie, dialect, 1 << 20);
        assert!(
            matches!(refused, Err(RdbError::TooLarge { bytes: 0x1fff_ffff, .. })),
            "{refused:?}"
        );
    }

    #[test]
    fn any_changed_byte_is_noticed() {
        for at in 0..ZERO.len() {
            let mut damaged = ZERO;
            damaged[at] ^= 1;
            assert!(check_payload(&damaged).is_err(), "byte {at}");
        }
        assert!(check_payload(&ZERO[..9]).is_err());
        assert!(read_payload(&[0, 0xc0, 0, 0], Dialect::Redis, 0).is_err(), "a byte too many");
    }
}

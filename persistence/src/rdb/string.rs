//! Strings: plain, as a small integer, or compressed.

use super::{Input, Length, RdbError, lzf, read_length, write_length};

const ENCODED: u8 = 0xc0;
const INT_8: u8 = 0;
const INT_16: u8 = 1;
const INT_32: u8 = 2;
const LZF: u8 = 3;

/// Longest text that can be one of the integer encodings, in bytes.
const INTEGER_TEXT_MAX_BYTES: usize = 11;
/// Strings up to this size are not compressed.
pub(super) const UNCOMPRESSED_MAX_BYTES: usize = 20;
/// Longest string that is accepted, in bytes: that of Redis.
const STRING_MAX_BYTES: u64 = 512 << 20;

/// How strings are written.
#[derive(Clone, Copy, Debug)]
pub struct StringOptions {
    /// `rdbcompression`.
    pub compress: bool,
}

/// Appends a string in the encoding that Redis 7.0 chooses for it.
pub fn write_string(out: &mut Vec<u8>, bytes: &[u8], options: StringOptions) {
    if bytes.len() <= INTEGER_TEXT_MAX_BYTES
        && let Some(number) = canonical_i32(bytes)
    {
        write_integer(out, number);
        return;
    }
    if options.compress && bytes.len() > UNCOMPRESSED_MAX_BYTES {
        // It must save four bytes; beyond 4 GiB positions would not fit, but strings end at 512 MiB.
        if let Some(packed) = lzf::compress(bytes, bytes.len() - 4) {
            out.push(ENCODED | LZF);
            write_length(out, packed.len() as u64);
            write_length(out, bytes.len() as u64);
            out.extend_from_slice(&packed);
            return;
        }
    }
    write_length(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// The number that `bytes` is the one canonical text of.
fn canonical_i32(bytes: &[u8]) -> Option<i32> {
    if !matches!(bytes.first(), Some(b'-' | b'0'..=b'9')) {
        return None;
    }
    let number: i32 = std::str::from_utf8(bytes).ok()?.parse().ok()?;
    (number.to_string().as_bytes() == bytes).then_some(number)
}

fn write_integer(out: &mut Vec<u8>, number: i32) {
    if let Ok(number) = i8::try_from(number) {
        out.push(ENCODED | INT_8);
        out.extend_from_slice(&number.to_le_bytes());
    } else if let Ok(number) = i16::try_from(number) {
        out.push(ENCODED | INT_16);
        out.extend_from_slice(&number.to_le_bytes());
    } else {
        out.push(ENCODED | INT_32);
        out.extend_from_slice(&number.to_le_bytes());
    }
}

/// Reads a string in any of the encodings.
///
/// # Errors
/// Damaged or truncated input, or a string above 512 MiB.
pub fn read_string(input: &mut Input<'_>) -> Result<Vec<u8>, RdbError> {
    let at = input.offset();
    let number: i32 = match read_length(input)? {
        Length::Plain(length) => return input.take(length),
        Length::Encoded(INT_8) => i8::from_le_bytes(input.take_array()?).into(),
        Length::Encoded(INT_16) => i16::from_le_bytes(input.take_array()?).into(),
        Length::Encoded(INT_32) => i32::from_le_bytes(input.take_array()?),
        Length::Encoded(LZF) => return read_compressed(input),
        Length::Encoded(other) => {
            return Err(RdbError::BadLength { at, found: ENCODED | other });
        }
    };
    Ok(number.to_string().into_bytes())
}

fn read_compressed(input: &mut Input<'_>) -> Result<Vec<u8>, RdbError> {
    let plain_length = |input: &mut Input<'_>| {
        let at = input.offset();
        match read_length(input)? {
            Length::Plain(length) if length <= STRING_MAX_BYTES => Ok(length),
            Length::Plain(_) => Err(RdbError::BadLength { at, found: 0x81 }),
            Length::Encoded(found) => Err(RdbError::BadLength { at, found: ENCODED | found }),
        }
    };
    let packed_len = plain_length(input)?;
    let len = plain_length(input)?;
    input.unpack(len)?;
    let at = input.offset();
    let packed = input.take(packed_len)?;
    // At most 512 MiB, as checked above.
    lzf::decompress(&packed, len as usize).ok_or(RdbError::BadLzf { at })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        write_string(&mut out, bytes, StringOptions { compress: true });
        out
    }

    #[test]
    fn integers_take_one_two_or_four_bytes() {
        assert_eq!(written(b"-128"), [0xc0, 0x80]);
        assert_eq!(written(b"128"), [0xc1, 0x80, 0]);
        assert_eq!(written(b"40000"), [0xc2, 0x40, 0x9c, 0, 0]);
        assert_eq!(written(b"2147483648")[0], 10);
        assert_eq!(written(b"+1"), [2, b'+', b'1']);
        assert_eq!(written(b"-0"), [2, b'-', b'0']);
    }

    #[test]
    fn strings_come_back() {
        let cases: [&[u8]; 9] =
            [b"", b"0", b"-1", b"300", b"-70000", b"x", &[b'y'; 21], &[b'z'; 70_000], b"\0\xff"];
        for bytes in cases {
            let packed = written(bytes);
            let mut input = Input::new(&packed);
            assert_eq!(read_string(&mut input).unwrap(), bytes);
            assert_eq!(input.left(), 0);
        }
    }

    #[test]
    fn lies_about_lengths_are_refused() {
        assert!(matches!(
            read_string(&mut Input::new(&[0x81, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff])),
            Err(RdbError::Truncated { .. })
        ));
        assert!(matches!(
            read_string(&mut Input::new(&[0xc3, 1, 0x80, 0x7f, 0xff, 0xff, 0xff, 0])),
            Err(RdbError::BadLength { .. })
        ));
        assert_eq!(
            read_string(&mut Input::new(&[0xc4])),
            Err(RdbError::BadLength { at: 0, found: 0xc4 })
        );
    }
}

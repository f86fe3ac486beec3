//! Lengths: 6, 14, 32 or 64 bits, or the mark of a string with an encoding of its own.

use super::{Input, RdbError};

const MARK_32_BITS: u8 = 0x80;
const MARK_64_BITS: u8 = 0x81;

/// What is found where a length is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// A length or count.
    Plain(u64),
    /// The number of a special string encoding (0 to 63).
    Encoded(u8),
}

/// Appends a length in its shortest form.
pub fn write_length(out: &mut Vec<u8>, length: u64) {
    if length < 1 << 6 {
        out.push(length as u8);
    } else if length < 1 << 14 {
        out.extend_from_slice(&(0x4000 | length as u16).to_be_bytes());
    } else if let Ok(length) = u32::try_from(length) {
        out.push(MARK_32_BITS);
        out.extend_from_slice(&length.to_be_bytes());
    } else {
        out.push(MARK_64_BITS);
        out.extend_from_slice(&length.to_be_bytes());
    }
}

/// Reads a length or an encoding mark.
///
/// # Errors
/// The input ends, or the first byte is none that exists.
pub fn read_length(input: &mut Input<'_>) -> Result<Length, RdbError> {
    let at = input.offset();
    let [first] = input.take_array()?;
    Ok(match (first >> 6, first) {
        (0b00, _) => Length::Plain(u64::from(first)),
        (0b01, _) => {
            let [second] = input.take_array()?;
            Length::Plain(u64::from(u16::from_be_bytes([first & 0x3f, second])))
        }
        (0b11, _) => Length::Encoded(first & 0x3f),
        (_, MARK_32_BITS) => Length::Plain(u64::from(u32::from_be_bytes(input.take_array()?))),
        (_, MARK_64_BITS) => Length::Plain(u64::from_be_bytes(input.take_array()?)),
        _ => return Err(RdbError::BadLength { at, found: first }),
    })
}

/// Reads a length or count that is no encoding mark.
///
/// # Errors
/// The input ends, or something else is found.
pub fn read_count(input: &mut Input<'_>) -> Result<u64, RdbError> {
    let at = input.offset();
    match read_length(input)? {
        Length::Plain(count) => Ok(count),
        Length::Encoded(found) => Err(RdbError::BadLength { at, found: 0xc0 | found }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_take_the_shortest_form_and_come_back() {
        for (length, size) in
            [(0, 1), (63, 1), (64, 2), (16_383, 2), (16_384, 5), (u64::from(u32::MAX), 5)]
        {
            let mut bytes = Vec::new();
            write_length(&mut bytes, length);
            assert_eq!(bytes.len(), size, "{length}");
            assert_eq!(read_length(&mut Input::new(&bytes)), Ok(Length::Plain(length)));
        }
        let mut bytes = Vec::new();
        write_length(&mut bytes, 1 << 32);
        assert_eq!(bytes, [0x81, 0, 0, 0, 1, 0, 0, 0, 0]);
        assert_eq!(read_length(&mut Input::new(&bytes)), Ok(Length::Plain(1 << 32)));
    }

    #[test]
    fn unknown_marks_and_short_input_are_errors() {
        assert_eq!(
            read_length(&mut Input::new(&[0x82])),
            Err(RdbError::BadLength { at: 0, found: 0x82 })
        );
        assert_eq!(
            read_length(&mut Input::new(&[0x80, 1])),
            Err(RdbError::Truncated { at: 1, wanted: 4, left: 1 })
        );
    }
}

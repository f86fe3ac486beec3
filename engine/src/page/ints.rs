//! Integers as the texts that stand for them.

/// Longest text: the sign and 19 digits.
const TEXT_MAX_BYTES: usize = 20;

/// Room for the text of an integer.
#[derive(Clone, Copy, Debug, Default)]
pub struct IntegerText([u8; TEXT_MAX_BYTES]);

impl IntegerText {
    /// The integer's text.
    pub fn of(&mut self, integer: i64) -> &[u8] {
        let mut at = TEXT_MAX_BYTES;
        let mut rest = integer.unsigned_abs();
        loop {
            at -= 1;
            self.0[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        if integer < 0 {
            at -= 1;
            self.0[at] = b'-';
        }
        &self.0[at..]
    }
}

/// The integer that the text stands for, if [`IntegerText::of`] gives that text back.
#[must_use]
pub(super) fn integer_of(text: &[u8]) -> Option<i64> {
    if text.is_empty() || text.len() > TEXT_MAX_BYTES {
        return None;
    }
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [b'0'] if !negative => return Some(0),
        [b'1'..=b'9', ..] => {}
        _ => return None,
    }
    let mut integer: i64 = 0;
    for digit in digits {
        let digit = i64::from(digit.checked_sub(b'0').filter(|digit| *digit < 10)?);
        let tens = integer.checked_mul(10)?;
        integer = if negative { tens.checked_sub(digit)? } else { tens.checked_add(digit)? };
    }
    Some(integer)
}

/// Bytes of the narrowest width that holds the integer: 2, 4 or 8.
#[must_use]
pub(super) fn width_of(integer: i64) -> usize {
    if i16::try_from(integer).is_ok() {
        2
    } else if i32::try_from(integer).is_ok() {
        4
    } else {
        8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_an_integer_if_it_is_the_integers_text() {
        for integer in [0, 1, -1, 9, 10, -10, i64::MAX, i64::MIN, 32_767, 32_768] {
            let mut text = IntegerText::default();
            assert_eq!(text.of(integer), integer.to_string().as_bytes());
            assert_eq!(integer_of(text.of(integer)), Some(integer));
        }
        for text in [
            "",
            "-",
            "-0",
            "00",
            "01",
            "+1",
            " 1",
            "1a",
            "9223372036854775808",
            "-9223372036854775809",
            "999999999999999999999",
        ] {
            assert_eq!(integer_of(text.as_bytes()), None, "{text}");
        }
        assert_eq!([width_of(-32_768), width_of(32_768), width_of(1 << 31)], [2, 4, 8]);
    }
}

//! Numbers as C writes and reads them: printf's `%.Ng`, and strtod.

/// Digits of an integer that is read and written as one: with more, not each double is the integer that its digits say.
const INTEGER_DIGITS: usize = 15;

/// `number` as `%.{digits}g`.
#[must_use]
pub fn general(number: f64, digits: usize) -> String {
    if number.is_nan() {
        return if number.is_sign_negative() { "-nan" } else { "nan" }.to_owned();
    }
    if number.is_infinite() {
        return if number < 0.0 { "-inf" } else { "inf" }.to_owned();
    }
    let digits = digits.max(1);
    // Most scores are integers, whose digits need no search; the sign of -0 is lost in one.
    let integer = number as i64;
    let has_few_digits = integer.unsigned_abs() < 10_u64.pow(digits.min(INTEGER_DIGITS) as u32);
    if has_few_digits && integer as f64 == number && (integer != 0 || number.is_sign_positive()) {
        return itoa::Buffer::new().format(integer).to_owned();
    }
    let scientific = format!("{number:.*e}", digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trim = |text: &str| {
        let text = if text.contains('.') { text.trim_end_matches('0') } else { text };
        text.trim_end_matches('.').to_owned()
    };
    if exponent < -4 || exponent >= digits as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trim(mantissa), exponent.abs());
    }
    let decimals = (digits as i32 - 1 - exponent).max(0) as usize;
    trim(&format!("{number:.decimals$}"))
}

/// The number at the start of the text as strtod reads it, and how many bytes it takes.
#[must_use]
pub fn parse_prefix(text: &[u8]) -> Option<(f64, usize)> {
    let blanks = text.iter().take_while(|b| matches!(b, b' ' | 9..=13)).count();
    let signed = &text[blanks..];
    let sign = usize::from(matches!(signed.first(), Some(b'+' | b'-')));
    let negative = signed.first() == Some(&b'-');
    let body = &signed[sign..];
    let (number, used) = parse_body(body)?;
    Some((if negative { -number } else { number }, blanks + sign + used))
}

/// A double as commands take it (Redis' `string2d`): the whole text, no blank in front, no NaN, neither too large nor too
/// small.
#[must_use]
pub fn parse_double(text: &[u8]) -> Option<f64> {
    if let Some(number) = parse_few_digits(text) {
        return Some(number);
    }
    if matches!(text.first(), Some(b' ' | 9..=13)) {
        return None;
    }
    let (number, used) = parse_prefix(text)?;
    let is_whole = used == text.len() && !number.is_nan();
    let is_lost = if number.is_infinite() {
        text.iter().any(u8::is_ascii_digit)
    } else {
        number == 0.0 && has_nonzero_digit(text)
    };
    (is_whole && !is_lost).then_some(number)
}

/// The number that nothing but a few digits say, as most scores are written: a double has each such integer.
fn parse_few_digits(text: &[u8]) -> Option<f64> {
    if !(1..=INTEGER_DIGITS).contains(&text.len()) {
        return None;
    }
    let digit = |byte: &u8| byte.is_ascii_digit().then(|| i64::from(byte - b'0'));
    let number = text.iter().try_fold(0, |number, byte| Some(number * 10 + digit(byte)?))?;
    Some(number as f64)
}

/// True when the digits of the number, without those of its exponent, are not all 0.
#[must_use]
pub fn has_nonzero_digit(text: &[u8]) -> bool {
    let is_hex = text.iter().any(|byte| matches!(byte, b'x' | b'X'));
    let ends = |byte: &u8| match byte {
        b'e' | b'E' => !is_hex,
        b'p' | b'P' => true,
        _ => false,
    };
    let digits = text.split(ends).next().unwrap_or_default();
    digits.iter().any(|digit| matches!(digit, b'1'..=b'9' | b'a'..=b'f' | b'A'..=b'F'))
}

fn parse_body(body: &[u8]) -> Option<(f64, usize)> {
    let starts =
        |word: &[u8]| body.len() >= word.len() && body[..word.len()].eq_ignore_ascii_case(word);
    if starts(b"infinity") {
        return Some((f64::INFINITY, 8));
    }
    if starts(b"inf") {
        return Some((f64::INFINITY, 3));
    }
    if starts(b"nan") {
        return Some((f64::NAN, 3));
    }
    if starts(b"0x")
        && let Some(found) = parse_hex(&body[2..])
    {
        return Some((found.0, found.1 + 2));
    }
    let digits = |from: usize| body[from..].iter().take_while(|b| b.is_ascii_digit()).count();
    let whole = digits(0);
    let mut end = whole;
    let mut any = whole > 0;
    if body.get(end) == Some(&b'.') {
        let fraction = digits(end + 1);
        if any || fraction > 0 {
            any = true;
            end += 1 + fraction;
        }
    }
    if !any {
        return None;
    }
    if matches!(body.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(body.get(end + 1), Some(b'+' | b'-')));
        let from = (end + 1 + sign).min(body.len());
        let exponent = digits(from);
        if exponent > 0 {
            end = from + exponent;
        }
    }
    let text = std::str::from_utf8(&body[..end]).ok()?;
    Some((text.parse().ok()?, end))
}

/// Hexadecimal digits with a fraction and a binary exponent. Exact up to 53 bits; longer ones are rounded digit by digit.
fn parse_hex(body: &[u8]) -> Option<(f64, usize)> {
    let (mut number, mut at, mut any, mut scale) = (0.0_f64, 0, false, 0_i32);
    let mut in_fraction = false;
    while let Some(&byte) = body.get(at) {
        if let Some(digit) = (byte as char).to_digit(16) {
            number = number * 16.0 + f64::from(digit);
            any = true;
            scale -= if in_fraction { 4 } else { 0 };
        } else if byte == b'.' && !in_fraction {
            in_fraction = true;
        } else {
            break;
        }
        at += 1;
    }
    if !any {
        return None;
    }
    if matches!(body.get(at), Some(b'p' | b'P')) {
        let sign = usize::from(matches!(body.get(at + 1), Some(b'+' | b'-')));
        let from = (at + 1 + sign).min(body.len());
        let len = body[from..].iter().take_while(|b| b.is_ascii_digit()).count();
        if len > 0 {
            let text = std::str::from_utf8(&body[at + 1..from + len]).ok()?;
            scale = scale.saturating_add(text.parse().unwrap_or(0));
            at = from + len;
        }
    }
    Some((number * 2.0_f64.powi(scale), at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_printf_does() {
        for (number, digits, text) in [
            (0.1, 14, "0.1"),
            (1e15, 14, "1e+15"),
            (1e20, 17, "1e+20"),
            (1.0 / 3.0, 14, "0.33333333333333"),
            (123_456.0, 14, "123456"),
            (99_999_999_999_999.9, 14, "1e+14"),
            (0.0001, 14, "0.0001"),
            (0.00001, 14, "1e-05"),
            (-0.0, 14, "-0"),
            (0.1, 17, "0.10000000000000001"),
            (5e-324, 17, "4.9406564584124654e-324"),
            (100.0, 1, "1e+02"),
            (0.0, 17, "0"),
            (9.0, 1, "9"),
            (10.0, 1, "1e+01"),
            (-20_480.0, 17, "-20480"),
            (999_999_999_999_999.0, 17, "999999999999999"),
            (1e15, 17, "1000000000000000"),
            (12_345_678_901_234_568.0, 17, "12345678901234568"),
            (-99_999_999_999_999_984.0, 17, "-99999999999999984"),
            (-1e17, 17, "-1e+17"),
            (-9_223_372_036_854_775_808.0, 17, "-9.2233720368547758e+18"),
        ] {
            assert_eq!(general(number, digits), text);
        }
    }

    #[test]
    fn integers_of_few_digits_are_read_as_all_others() {
        let zeros = ["", "0", "000", "00000000000000"];
        let texts =
            ["1", "9", "123456789012345", "999999999999999", "9999999999999999", "12a", "-7"];
        for text in zeros.iter().flat_map(|zeros| texts.map(|text| format!("{zeros}{text}"))) {
            let found = parse_prefix(text.as_bytes()).filter(|(_, used)| *used == text.len());
            assert_eq!(parse_double(text.as_bytes()), found.map(|(number, _)| number), "{text}");
        }
        assert_eq!(parse_double(b""), None);
    }

    #[test]
    fn numbers_are_read_as_strtod_does() {
        for (text, number, used) in [
            ("1.5x", 1.5, 3),
            ("  -2e3,", -2000.0, 6),
            ("1e", 1.0, 1),
            ("1.", 1.0, 2),
            (".5", 0.5, 2),
            ("0x10", 16.0, 4),
            ("0x1.8p1", 3.0, 7),
            ("0xg", 0.0, 1),
            ("-inf", f64::NEG_INFINITY, 4),
        ] {
            assert_eq!(parse_prefix(text.as_bytes()), Some((number, used)), "{text}");
        }
        assert_eq!(parse_prefix(b"x"), None);
        assert_eq!(parse_prefix(b"."), None);
        assert_eq!(parse_prefix(b"-"), None);
    }

    #[test]
    fn a_double_of_a_command_is_the_whole_text_and_no_number_that_is_lost() {
        for (text, number) in [
            (b"1.5".as_slice(), Some(1.5)),
            (b"-inf", Some(f64::NEG_INFINITY)),
            (b"0x1p", None),
            (b"0x10", Some(16.0)),
            (b"0e-400", Some(0.0)),
            (b"1e-400", None),
            (b"0xep-2000", None),
            (b"1e-320", Some(1e-320)),
            (b"1e400", None),
            (b"nan", None),
            (b"", None),
            (b" 1", None),
            (b"1 ", None),
        ] {
            assert_eq!(parse_double(text), number, "{}", String::from_utf8_lossy(text));
        }
    }
}

//! Numbers as redis.conf writes them: integers, memory sizes, octal modes.

/// A strict decimal integer (Redis: `string2ll`): no blanks, no plus, no leading zeros.
pub fn parse_integer(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let strict =
        digits == b"0" && digits.len() == text.len() || matches!(digits.first(), Some(b'1'..=b'9'));
    if !strict || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// A lenient decimal integer that must be used up (C: `strtoll`). The empty text is 0.
pub fn parse_lenient(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    if text.is_empty() {
        return Some(0);
    }
    text.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '\x0b').parse().ok()
}

/// A memory size in bytes: `k`=1000, `kb`=1024 and so on, in any case (Redis: `memtoull`). The
/// empty text is 0, as in Redis. Sizes that do not fit 64 bits are refused (Redis wraps around).
pub fn parse_memory(text: &[u8]) -> Option<u64> {
    let unit_at = text.iter().position(|b| !b.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(unit_at);
    let factor: u64 = match unit.to_ascii_lowercase().as_slice() {
        b"" | b"b" => 1,
        b"k" => 1_000,
        b"kb" => 1 << 10,
        b"m" => 1_000_000,
        b"mb" => 1 << 20,
        b"g" => 1_000_000_000,
        b"gb" => 1 << 30,
        _ => return None,
    };
    if digits.is_empty() {
        return Some(0);
    }
    std::str::from_utf8(digits).ok()?.parse::<u64>().ok()?.checked_mul(factor)
}

/// An octal number that must be used up; the empty text is 0 (C: `strtoll` with base 8).
pub fn parse_octal(text: &[u8]) -> Option<i64> {
    if text.is_empty() {
        return Some(0);
    }
    i64::from_str_radix(std::str::from_utf8(text).ok()?, 8).ok()
}

/// Writes bytes with the largest binary unit that divides them (as CONFIG REWRITE does).
pub fn format_memory(bytes: i128) -> String {
    for (shift, unit) in [(30, "gb"), (20, "mb"), (10, "kb")] {
        if bytes != 0 && bytes % (1 << shift) == 0 {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    bytes.to_string()
}

/// Writes a percentile with at most six decimals and no trailing zeros.
pub fn format_percentile(value: f64) -> String {
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_strict() {
        for (text, value) in [("0", 0), ("-1", -1), ("7000", 7000), ("-90", -90)] {
            assert_eq!(parse_integer(text.as_bytes()), Some(value));
        }
        for text in ["", " 5", "5 ", "+5", "010", "-0", "-", "1x", "9223372036854775808"] {
            assert_eq!(parse_integer(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn memory_units() {
        for (text, bytes) in [
            ("10", 10),
            ("10b", 10),
            ("1k", 1000),
            ("1KB", 1024),
            ("2m", 2_000_000),
            ("2Mb", 2 << 20),
            ("3g", 3_000_000_000),
            ("3gB", 3 << 30),
            ("", 0),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(parse_memory(text.as_bytes()), Some(bytes), "{text}");
        }
        for text in ["-1", "10x", "1 kb", "kbb", "18446744073709551616", "18446744073709551615kb"] {
            assert_eq!(parse_memory(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn octal_and_lenient() {
        assert_eq!(parse_octal(b"777"), Some(0o777));
        assert_eq!(parse_octal(b"8"), None);
        assert_eq!(parse_lenient(b" 5"), Some(5));
        assert_eq!(parse_lenient(b""), Some(0));
        assert_eq!(parse_lenient(b"5 "), None);
    }

    #[test]
    fn memory_is_written_with_the_largest_unit() {
        for (bytes, text) in [(0, "0"), (1000, "1000"), (1024, "1kb"), (3 << 30, "3gb")] {
            assert_eq!(format_memory(bytes), text);
        }
        assert_eq!(format_percentile(99.9), "99.9");
        assert_eq!(format_percentile(100.0), "100");
        assert_eq!(format_percentile(0.000_000_01), "0");
    }
}

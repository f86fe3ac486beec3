//! Numbers as Redis reads and writes them.

/// A signed 64-bit integer in canonical form: no `+`, no leading zeros, no blanks
/// (Redis' `string2ll`).
#[must_use]
pub fn parse_i64(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let canonical = match digits {
        [] => false,
        [b'0'] => digits.len() == text.len(),
        [b'1'..=b'9', rest @ ..] => digits.len() <= 19 && rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    if !canonical {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

//! IDs as clients write them.

use crate::dispatch::CommandError;
use crate::keyspace::collection::stream::{HIGHEST, LOWEST, id_after, id_before};
use sexton_persistence::rdb::StreamId;

/// Longest text of an ID, in bytes.
const TEXT_MAX: usize = 127;

const INVALID: CommandError =
    CommandError::text("ERR Invalid stream ID specified as stream command argument");

/// Parses an unsigned number as Redis does, that is as C's `strtoull` if it is not in canonical form.
fn number(text: &[u8]) -> Option<u64> {
    // C's text ends at a NUL.
    let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
    if crate::number::parse_i64(text).is_some_and(|number| number < 0) {
        return None;
    }
    let blanks = text.iter().take_while(|&&byte| byte == b' ' || (9..=13).contains(&byte)).count();
    let (negative, digits) = match &text[blanks..] {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some(if negative { number.wrapping_neg() } else { number })
}

/// The ID `ms` or `ms-seq`, and whether its second part is to be generated (`ms-*`). A missing part is `missing_seq`.
fn parse_parts(text: &[u8], missing_seq: u64) -> Result<(StreamId, bool), CommandError> {
    if text.len() > TEXT_MAX {
        return Err(INVALID);
    }
    let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
    let mut parts = text.splitn(2, |&byte| byte == b'-');
    let ms = parts.next().and_then(number).ok_or(INVALID)?;
    match parts.next() {
        None => Ok((StreamId { ms, seq: missing_seq }, false)),
        Some(b"*") => Ok((StreamId { ms, seq: 0 }, true)),
        Some(seq) => Ok((StreamId { ms, seq: number(seq).ok_or(INVALID)? }, false)),
    }
}

/// The ID of XADD, and whether its second part is to be made up.
pub(super) fn parse_new(text: &[u8]) -> Result<(StreamId, bool), CommandError> {
    parse_parts(text, 0)
}

/// An ID that names an entry: not `-` or `+`.
pub(super) fn parse_strict(text: &[u8], missing_seq: u64) -> Result<StreamId, CommandError> {
    match parse_parts(text, missing_seq)? {
        (id, false) => Ok(id),
        (_, true) => Err(INVALID),
    }
}

/// An ID, where `-` is the lowest and `+` the highest.
pub(super) fn parse(text: &[u8], missing_seq: u64) -> Result<StreamId, CommandError> {
    match text {
        b"-" => Ok(LOWEST),
        b"+" => Ok(HIGHEST),
        _ => parse_strict(text, missing_seq),
    }
}

/// The beginning of an interval; `(` excludes it.
pub(super) fn parse_start(text: &[u8]) -> Result<StreamId, CommandError> {
    match text {
        [b'(', id @ ..] if !id.is_empty() => id_after(parse_strict(id, 0)?)
            .ok_or(CommandError::text("ERR invalid start ID for the interval")),
        _ => parse(text, 0),
    }
}

/// The end of an interval; `(` excludes it.
pub(super) fn parse_end(text: &[u8]) -> Result<StreamId, CommandError> {
    match text {
        [b'(', id @ ..] if !id.is_empty() => id_before(parse_strict(id, u64::MAX)?)
            .ok_or(CommandError::text("ERR invalid end ID for the interval")),
        _ => parse(text, u64::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_redis_reads_them() {
        let id = |ms, seq| Ok(StreamId { ms, seq });
        assert_eq!(parse(b"5", 7), id(5, 7));
        assert_eq!(parse(b"5-3", 7), id(5, 3));
        assert_eq!(parse(b"05- +03", 7), id(5, 3));
        assert_eq!(parse(b"18446744073709551615-0", 7), id(u64::MAX, 0));
        assert_eq!(parse(b"1-\x003", 0), Err(INVALID));
        assert_eq!(parse(b"1-3\x003", 0), id(1, 3));
        for invalid in
            [&b""[..], b"a", b"1-", b"-1", b"1--1", b"1-*", b"18446744073709551616", b"$"]
        {
            assert_eq!(parse(invalid, 0), Err(INVALID), "{}", String::from_utf8_lossy(invalid));
        }
        assert_eq!(parse_new(b"9-*"), Ok((StreamId { ms: 9, seq: 0 }, true)));
        assert_eq!(parse_strict(b"-", 0), Err(INVALID));
        assert_eq!(parse_start(b"(5"), id(5, 1));
        assert_eq!(parse_end(b"(5-0"), id(4, u64::MAX));
        assert!(parse_end(b"(0-0").is_err());
    }
}

//! The line syntax of redis.conf: words, quotes, escapes.
//!
//! The rules are those of Redis' `sdssplitargs` and `sdscatrepr`. They are also the rules of
//! inline commands, so the server may use [`split_words`] for those.

pub mod glob;
pub mod number;

/// Most words a line may have. A line with more is refused instead of growing without bound.
pub const WORDS_MAX: usize = 4096;

/// Why a line could not be split into words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SplitError {
    /// A quote is not closed, or a closing quote is not followed by a blank.
    UnbalancedQuotes,
    /// The line has more than [`WORDS_MAX`] words.
    TooManyWords,
}

impl SplitError {
    /// Redis' text for the fatal configuration error, where Redis has one.
    pub fn text(self) -> &'static str {
        match self {
            SplitError::UnbalancedQuotes => "Unbalanced quotes in configuration line",
            SplitError::TooManyWords => "Too many words in configuration line",
        }
    }
}

/// Strips blanks, tabs, carriage returns and newlines from both ends.
pub fn trim(line: &[u8]) -> &[u8] {
    let blank = |b: &u8| matches!(b, b' ' | b'\t' | b'\r' | b'\n');
    let start = line.iter().position(|b| !blank(b)).unwrap_or(line.len());
    let end = line.iter().rposition(|b| !blank(b)).map_or(start, |last| last + 1);
    &line[start..end]
}

/// Splits a line into words. `"..."` knows `\xHH \n \r \t \b \a` and `\` before any other byte;
/// `'...'` knows only `\'`. A NUL outside quotes ends the line, as in Redis.
pub fn split_words(line: &[u8]) -> Result<Vec<Vec<u8>>, SplitError> {
    let mut words = Vec::new();
    let mut at = 0;
    loop {
        while line.get(at).is_some_and(|b| b.is_ascii_whitespace() || *b == 0x0b) {
            at += 1;
        }
        if at >= line.len() || line[at] == 0 {
            return Ok(words);
        }
        if words.len() == WORDS_MAX {
            return Err(SplitError::TooManyWords);
        }
        let mut word = Vec::new();
        loop {
            match line.get(at) {
                None | Some(b' ' | b'\n' | b'\r' | b'\t' | 0) => break,
                Some(b'"') => {
                    at = double_quoted(line, at + 1, &mut word)?;
                    break;
                }
                Some(b'\'') => {
                    at = single_quoted(line, at + 1, &mut word)?;
                    break;
                }
                Some(byte) => {
                    word.push(*byte);
                    at += 1;
                }
            }
        }
        words.push(word);
    }
}

/// Reads up to the closing quote; returns the position after it.
fn double_quoted(line: &[u8], mut at: usize, word: &mut Vec<u8>) -> Result<usize, SplitError> {
    loop {
        match (line.get(at), line.get(at + 1)) {
            (None | Some(0), _) => return Err(SplitError::UnbalancedQuotes),
            (Some(b'\\'), Some(escape)) if *escape != 0 => {
                let hex = line.get(at + 2..at + 4).and_then(hex_byte);
                if let (b'x', Some(byte)) = (*escape, hex) {
                    word.push(byte);
                    at += 4;
                    continue;
                }
                word.push(match escape {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 0x08,
                    b'a' => 0x07,
                    other => *other,
                });
                at += 2;
            }
            (Some(b'"'), next) => return close_quote(at, next),
            (Some(byte), _) => {
                word.push(*byte);
                at += 1;
            }
        }
    }
}

fn single_quoted(line: &[u8], mut at: usize, word: &mut Vec<u8>) -> Result<usize, SplitError> {
    loop {
        match (line.get(at), line.get(at + 1)) {
            (None | Some(0), _) => return Err(SplitError::UnbalancedQuotes),
            (Some(b'\\'), Some(b'\'')) => {
                word.push(b'\'');
                at += 2;
            }
            (Some(b'\''), next) => return close_quote(at, next),
            (Some(byte), _) => {
                word.push(*byte);
                at += 1;
            }
        }
    }
}

fn close_quote(at: usize, next: Option<&u8>) -> Result<usize, SplitError> {
    match next {
        Some(byte) if *byte != 0 && !byte.is_ascii_whitespace() && *byte != 0x0b => {
            Err(SplitError::UnbalancedQuotes)
        }
        _ => Ok(at + 1),
    }
}

fn hex_byte(digits: &[u8]) -> Option<u8> {
    let digit = |b: u8| (b as char).to_digit(16);
    let (high, low) = (digit(*digits.first()?)?, digit(*digits.get(1)?)?);
    u8::try_from(high * 16 + low).ok()
}

/// Writes a word in double quotes so that [`split_words`] reads it back (Redis: `sdscatrepr`).
pub fn quote(word: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(word.len() + 2);
    out.push(b'"');
    for &byte in word {
        match byte {
            b'\\' | b'"' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x07 => out.extend_from_slice(b"\\a"),
            0x08 => out.extend_from_slice(b"\\b"),
            b' '..=b'~' => out.push(byte),
            other => out.extend_from_slice(format!("\\x{other:02x}").as_bytes()),
        }
    }
    out.push(b'"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        let words = split_words(line.as_bytes()).unwrap();
        words.into_iter().map(|word| String::from_utf8(word).unwrap()).collect()
    }

    #[test]
    fn words_and_quotes() {
        assert_eq!(words("port  7000\t x"), ["port", "7000", "x"]);
        assert_eq!(words(r#"a "b c" 'd e' "" ''"#), ["a", "b c", "d e", "", ""]);
        assert_eq!(words(r#""7\x30" "\n\r\t\q\"" '\'\n'"#), ["70", "\n\r\tq\"", "'\\n"]);
        assert_eq!(words(r#"foo"bar baz" x"#), ["foobar baz", "x"]);
        assert!(words("  ").is_empty());
    }

    #[test]
    fn incomplete_hex_escape_is_a_plain_x() {
        assert_eq!(words(r#""\xg1""#), ["xg1"]);
        assert_eq!(words(r#""\x1""#), ["x1"]);
    }

    #[test]
    fn unbalanced_quotes() {
        for line in ["save \"a", "a 'b", "\"a\"b", "'a'b", "\"a\\\"", "\""] {
            assert_eq!(split_words(line.as_bytes()), Err(SplitError::UnbalancedQuotes), "{line}");
        }
    }

    #[test]
    fn number_of_words_is_bounded() {
        assert_eq!(split_words(&b"a ".repeat(WORDS_MAX + 1)), Err(SplitError::TooManyWords));
        assert_eq!(split_words(&b"a ".repeat(WORDS_MAX)).unwrap().len(), WORDS_MAX);
    }

    #[test]
    fn quote_is_read_back() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(split_words(&quote(&all)).unwrap(), [all]);
        assert_eq!(quote(b"a\"\x01"), b"\"a\\\"\\x01\"");
    }

    #[test]
    fn trim_is_redis_trim() {
        assert_eq!(trim(b" \t\r\n a b \r"), b"a b");
        assert_eq!(trim(b" \n"), b"");
        assert_eq!(trim(b"\x0ba"), b"\x0ba");
    }
}

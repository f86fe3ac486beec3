//! Glob patterns as KEYS, SCAN and PSUBSCRIBE understand them: `*`, `?`, `[a-z]`, `[^a]`, `\x`,
//! over bytes, with the corner cases of Redis' `stringmatchlen`.

/// True when the whole of `text` matches `pattern`.
///
/// If the rest of the pattern after a `*` cannot match, no earlier `*` can succeed either, so a match takes at
/// most length of pattern times length of text steps, however many stars there are.
#[must_use]
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    if text.is_empty() {
        // Redis' matcher finds an empty text with no pattern but the empty one; KEYS and SCAN do not
        // ask it about a lone star.
        return matches!(pattern, b"" | b"*");
    }
    // Position to fall back to: pattern behind the last star, and the text it was tried at. Only
    // the last star ever needs another try, which is the guard against exponential patterns.
    let mut retry: Option<(usize, usize)> = None;
    let (mut p, mut t) = (0, 0);
    loop {
        if p < pattern.len() && pattern[p] == b'*' {
            p += 1;
            if p == pattern.len() {
                return true;
            }
            retry = Some((p, t));
            continue;
        }
        if t == text.len() {
            return p == pattern.len();
        }
        match match_one(pattern, p, text[t]) {
            Some(next) => {
                p = next;
                t += 1;
            }
            None => match retry {
                Some((behind_star, tried)) => {
                    p = behind_star;
                    t = tried + 1;
                    retry = Some((p, t));
                }
                None => return false,
            },
        }
    }
}

/// Matches one byte against the pattern element at `at`; returns the position after that element if it matches.
fn match_one(pattern: &[u8], at: usize, byte: u8) -> Option<usize> {
    match *pattern.get(at)? {
        b'?' => Some(at + 1),
        b'[' => match_class(pattern, at + 1, byte),
        b'\\' if at + 1 < pattern.len() => (pattern[at + 1] == byte).then_some(at + 2),
        literal => (literal == byte).then_some(at + 1),
    }
}

/// Matches a class whose content starts at `at`. An unclosed class ends with the pattern.
fn match_class(pattern: &[u8], mut at: usize, byte: u8) -> Option<usize> {
    let negated = pattern.get(at) == Some(&b'^');
    at += usize::from(negated);
    let mut found = false;
    while at < pattern.len() && pattern[at] != b']' {
        if pattern[at] == b'\\' && at + 1 < pattern.len() {
            found |= pattern[at + 1] == byte;
            at += 2;
        } else if at + 2 < pattern.len() && pattern[at + 1] == b'-' {
            let (low, high) = (pattern[at].min(pattern[at + 2]), pattern[at].max(pattern[at + 2]));
            found |= (low..=high).contains(&byte);
            at += 3;
        } else {
            found |= pattern[at] == byte;
            at += 1;
        }
    }
    (found != negated).then_some((at + 1).min(pattern.len()))
}

/// The literal prefix of every match; a scan needs to examine no other keys.
#[must_use]
pub fn literal_prefix(pattern: &[u8]) -> Vec<u8> {
    let mut prefix = Vec::new();
    let mut at = 0;
    while at < pattern.len() {
        match pattern[at] {
            b'*' | b'?' | b'[' => break,
            b'\\' if at + 1 < pattern.len() => {
                prefix.push(pattern[at + 1]);
                at += 2;
            }
            literal => {
                prefix.push(literal);
                at += 1;
            }
        }
    }
    prefix
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_what_redis_answers() {
        // (pattern, text, KEYS of redis-server 7.0.15 finds it)
        let cases: &[(&[u8], &[u8], bool)] = &[
            (b"*", b"", true),
            (b"", b"", true),
            (b"**", b"", false),
            (b"h?llo", b"hello", true),
            (b"h?llo", b"hllo", false),
            (b"h*llo", b"heeello", true),
            (b"h[ae]llo", b"hallo", true),
            (b"h[ae]llo", b"hillo", false),
            (b"h[^e]llo", b"hallo", true),
            (b"h[^e]llo", b"hello", false),
            (b"h[b-a]llo", b"hallo", true),
            (b"a\\*b", b"a*b", true),
            (b"a\\*b", b"axb", false),
            (b"a\\", b"a\\", true),
            (b"[abc", b"c", true),
            (b"[abc", b"d", false),
            (b"a*b*c", b"aXbYbZc", true),
            (b"a*b*c", b"aXbYbZ", false),
            (b"**a**", b"xax", true),
            (b"[\\]]", b"]", true),
            (b"[a-", b"-", true),
        ];
        for &(pattern, text, expected) in cases {
            let shown = String::from_utf8_lossy(pattern);
            assert_eq!(matches(pattern, text), expected, "{shown} on {text:?}");
        }
    }

    #[test]
    fn many_stars_stay_cheap() {
        let pattern = b"a*".repeat(200);
        let text = vec![b'a'; 50_000];
        assert!(matches(&pattern, &text));
        assert!(!matches(&[&pattern[..], b"b"].concat(), &text));
    }

    #[test]
    fn prefix_ends_at_the_first_wildcard() {
        assert_eq!(literal_prefix(b"user:1*"), b"user:1");
        assert_eq!(literal_prefix(b"a\\*b?"), b"a*b");
        assert_eq!(literal_prefix(b"*"), b"");
    }
}

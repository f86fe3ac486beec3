//! Glob patterns of CONFIG GET and of `include` (Redis: `stringmatch`).

/// Whether the text has a character that makes CONFIG GET treat it as a pattern.
pub fn is_pattern(text: &[u8]) -> bool {
    text.iter().any(|b| matches!(b, b'*' | b'?' | b'['))
}

/// Matches `text` against a glob with `*`, `?`, `[a-z]`, `[^a]` and `\` escapes, ASCII case
/// ignored when `ignore_case`. At most pattern length times text length steps.
pub fn matches(pattern: &[u8], text: &[u8], ignore_case: bool) -> bool {
    let same = |a: u8, b: u8| if ignore_case { a.eq_ignore_ascii_case(&b) } else { a == b };
    let (mut p, mut t) = (0, 0);
    // Where to go on when the last star has to swallow one byte more.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        let step = match (pattern.get(p), text.get(t)) {
            (Some(b'*'), _) => {
                retry = Some((p + 1, t));
                p += 1;
                continue;
            }
            (None, None) => return true,
            (_, None) => return false,
            (None, Some(_)) => None,
            (Some(b'?'), Some(_)) => Some(p + 1),
            (Some(b'['), Some(byte)) => {
                let (matched, next) = match_class(pattern, p + 1, *byte, ignore_case);
                matched.then_some(next)
            }
            (Some(b'\\'), Some(byte)) if p + 1 < pattern.len() => {
                same(pattern[p + 1], *byte).then_some(p + 2)
            }
            (Some(literal), Some(byte)) => same(*literal, *byte).then_some(p + 1),
        };
        match (step, retry) {
            (Some(next), _) => {
                p = next;
                t += 1;
            }
            (None, Some((star_next, star_text))) => {
                p = star_next;
                t = star_text + 1;
                retry = Some((star_next, star_text + 1));
            }
            (None, None) => return false,
        }
    }
}

/// Matches one byte against the class that starts after `[`; also returns the position after `]`. An unterminated class
/// extends to the end of the pattern, as in Redis.
fn match_class(pattern: &[u8], mut p: usize, byte: u8, ignore_case: bool) -> (bool, usize) {
    let fold = |b: u8| if ignore_case { b.to_ascii_lowercase() } else { b };
    let byte = fold(byte);
    let negated = pattern.get(p) == Some(&b'^');
    if negated {
        p += 1;
    }
    let mut found = false;
    loop {
        match pattern.get(p..).unwrap_or_default() {
            [] => return (found != negated, p),
            [b']', ..] => return (found != negated, p + 1),
            [b'\\', escaped, ..] => {
                found |= fold(*escaped) == byte;
                p += 2;
            }
            [from, b'-', to, ..] => {
                let (from, to) = (fold(*from.min(to)), fold(*from.max(to)));
                found |= (from..=to).contains(&byte);
                p += 3;
            }
            [single, ..] => {
                found |= fold(*single) == byte;
                p += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_classes_escapes() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("max*", "maxmemory", true),
            ("*mem*y", "maxmemory", true),
            ("max?emory", "maxmemory", true),
            ("max", "maxmemory", false),
            ("[a-b]ind", "bind", true),
            ("[b-a]ind", "bind", true),
            ("[^b]ind", "bind", false),
            ("[\\b]ind", "bind", true),
            ("bin[d", "bind", true),
            ("b\\*nd", "b*nd", true),
            ("b\\*nd", "bind", false),
            ("*a*b*c", "xaybzbc", true),
            ("a", "", false),
            ("", "a", false),
            ("a**", "a", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes(), true), expected, "{pattern}");
        }
        assert!(matches(b"MAX*", b"maxmemory", true));
        assert!(!matches(b"MAX*", b"maxmemory", false));
    }

    #[test]
    fn many_stars_end_soon() {
        let pattern = b"a*".repeat(200);
        assert!(!matches(&[&pattern[..], b"b"].concat(), &b"a".repeat(2000), true));
    }
}

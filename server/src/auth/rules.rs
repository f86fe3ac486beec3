//! Errors of access rules, and how the words of a selector are joined.

/// Why a rule is refused; [`RuleError::text`] is Redis' text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleError {
    /// No such command or category.
    Unknown,
    /// Not a rule.
    Syntax,
    /// A key pattern after `allkeys`.
    AllKeys,
    /// A channel pattern after `allchannels`.
    AllChannels,
    /// A password to be removed that is not there.
    NoPassword,
    /// Not the digest of a password.
    Digest,
    /// A second line about a user.
    Duplicate,
    /// `+container|sub|argument`.
    ArgumentOfSubcommand,
    /// The number of a database that none can have.
    Database,
}

impl RuleError {
    /// Redis' text.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Unknown => "Unknown command or category name in ACL",
            Self::Syntax => "Syntax error",
            Self::AllKeys => {
                "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any \
                 effect. Try 'resetkeys' to start with an empty list of patterns"
            }
            Self::AllChannels => {
                "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any \
                 effect. Try 'resetchannels' to start with an empty list of channels"
            }
            Self::NoPassword => {
                "The password you are trying to remove from the user does not exist"
            }
            Self::Digest => {
                "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
            }
            Self::Duplicate => {
                "Duplicate user found. A user can only be defined once in config files"
            }
            Self::ArgumentOfSubcommand => "Allowing first-arg of a subcommand is not supported",
            Self::Database => "The provided database ID is out of range",
        }
    }
}

/// A rule as C compares it: not beyond a NUL.
pub(super) fn word(rule: &[u8]) -> &[u8] {
    &rule[..rule.iter().position(|&byte| byte == 0).unwrap_or(rule.len())]
}

/// True of what no name of a user and no pattern may have.
#[must_use]
pub fn has_blanks(text: &[u8]) -> bool {
    text.iter().any(|&byte| byte == 0 || byte.is_ascii_whitespace() || byte == 0x0b)
}

/// Joins the words of each selector (`(+get`, `~a)`) into one rule.
///
/// # Errors
/// The index of the word that opens an unclosed selector.
pub fn merge_selectors(words: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, usize> {
    let mut rules = Vec::new();
    let mut open: Option<(usize, Vec<u8>)> = None;
    for (at, text) in words.iter().enumerate() {
        let closes = text.last() == Some(&b')');
        if text.first() == Some(&b'(') && !closes {
            open = Some((at, text.clone()));
            continue;
        }
        match open.take() {
            None => rules.push(text.clone()),
            Some((start, mut rule)) => {
                rule.push(b' ');
                rule.extend_from_slice(word(text));
                if closes {
                    rules.push(rule);
                } else {
                    open = Some((start, rule));
                }
            }
        }
    }
    match open {
        None => Ok(rules),
        Some((start, _)) => Err(start),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_selector_become_one_rule() {
        let merged = |text: &str| {
            let words: Vec<Vec<u8>> =
                text.split(' ').map(|word| word.as_bytes().to_vec()).collect();
            merge_selectors(&words).map(|rules| {
                rules
                    .iter()
                    .map(|rule| String::from_utf8_lossy(rule).into_owned())
                    .collect::<Vec<_>>()
            })
        };
        assert_eq!(merged("on (+get ~a) (x) off").unwrap(), ["on", "(+get ~a)", "(x)", "off"]);
        assert_eq!(merged("on (+get ~a"), Err(1));
        assert_eq!(merged("(a (b c)").unwrap(), ["(b c)"]);
        assert_eq!(merged(") ("), Err(1));
    }
}

//! One user: name, passwords, rights.

use super::catalog::Catalog;
use super::rules::{RuleError, word};
use super::selector::Selector;
use crate::digest::{hex, sha256};
use sexton_config::syntax::split_words;

/// SHA-256 of a password: nothing else is kept of it.
pub(super) type PasswordDigest = [u8; 32];

/// Whether RESTORE validates the user's payloads; kept for tools that read it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Sanitizing {
    #[default]
    Unsaid,
    Skipped,
    Done,
}

/// A user. Changes are made on a copy, which then takes its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    name: Vec<u8>,
    enabled: bool,
    /// Any password is right.
    no_password: bool,
    sanitizing: Sanitizing,
    passwords: Vec<PasswordDigest>,
    /// Rights; those of `all[0]` are what rules outside of parentheses speak of.
    selectors: Vec<Selector>,
}

impl User {
    /// A user as ACL SETUSER makes it: off, without rights.
    #[must_use]
    pub fn new(name: &[u8], all_channels: bool) -> Self {
        Self {
            name: name.to_vec(),
            enabled: false,
            no_password: false,
            sanitizing: Sanitizing::Unsaid,
            passwords: Vec::new(),
            selectors: vec![Selector::new(all_channels)],
        }
    }

    /// An unrestricted user without a password.
    #[must_use]
    pub fn unrestricted(name: &[u8]) -> Self {
        Self {
            enabled: true,
            no_password: true,
            selectors: vec![Selector::unrestricted()],
            ..Self::new(name, true)
        }
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// True when connections may be made as this user.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// True when no password is asked for.
    #[must_use]
    pub fn needs_no_password(&self) -> bool {
        self.no_password
    }

    /// Digests of the passwords.
    #[must_use]
    pub fn passwords(&self) -> &[[u8; 32]] {
        &self.passwords
    }

    /// The sets of rights; the first one is that of rules outside of parentheses.
    #[must_use]
    pub fn selectors(&self) -> &[Selector] {
        &self.selectors
    }

    /// True if none of the user's actions need to be checked.
    #[must_use]
    pub fn is_unrestricted(&self) -> bool {
        self.selectors.iter().any(Selector::is_unrestricted)
    }

    /// The words for its state, in Redis' order.
    #[must_use]
    pub fn flags(&self) -> Vec<&'static str> {
        let mut flags = vec![if self.enabled { "on" } else { "off" }];
        if self.no_password {
            flags.push("nopass");
        }
        match self.sanitizing {
            Sanitizing::Unsaid => {}
            Sanitizing::Skipped => flags.push("skip-sanitize-payload"),
            Sanitizing::Done => flags.push("sanitize-payload"),
        }
        flags
    }

    /// The user as a line: `user NAME flags passwords rules`.
    #[must_use]
    pub fn line(&self, catalog: &Catalog) -> Vec<u8> {
        let mut line = [b"user ", self.name.as_slice()].concat();
        for flag in self.flags() {
            line.extend_from_slice(format!(" {flag}").as_bytes());
        }
        for digest in &self.passwords {
            line.extend_from_slice(format!(" #{}", hex(digest)).as_bytes());
        }
        for (nth, selector) in self.selectors.iter().enumerate() {
            line.extend_from_slice(if nth == 0 { b" " } else { b" (" });
            line.extend_from_slice(&selector.rules(catalog));
            line.extend_from_slice(if nth == 0 { b"" } else { b")" });
        }
        line
    }

    /// `requirepass`: this password and no other; without one, any.
    #[must_use]
    pub fn with_password(&self, password: &[u8]) -> Self {
        let passwords = if password.is_empty() { Vec::new() } else { vec![sha256(password)] };
        Self { no_password: password.is_empty(), passwords, ..self.clone() }
    }

    /// True for a correct password. All digests are compared completely, so that the time reveals nothing.
    #[must_use]
    pub fn accepts(&self, password: &[u8]) -> bool {
        if !self.enabled {
            return false;
        }
        let given = sha256(password);
        let mut found = false;
        for known in &self.passwords {
            found |= is_same(known, &given);
        }
        self.no_password || found
    }

    /// Removes all rights from the user but keeps its name, as `reset` does.
    pub(super) fn reset(&mut self, all_channels: bool) {
        *self = Self {
            sanitizing: Sanitizing::Done,
            ..Self::new(&std::mem::take(&mut self.name), all_channels)
        };
    }

    /// Applies one rule. `all_channels`: whether a new set of rights includes all channels.
    ///
    /// # Errors
    /// Why the rule is invalid; nothing has changed then.
    pub fn apply(
        &mut self,
        catalog: &Catalog,
        all_channels: bool,
        rule: &[u8],
    ) -> Result<(), RuleError> {
        match word(rule).to_ascii_lowercase().as_slice() {
            _ if rule.is_empty() => {}
            b"on" => self.enabled = true,
            b"off" => self.enabled = false,
            b"nopass" => {
                self.no_password = true;
                self.passwords.clear();
            }
            b"resetpass" => {
                self.no_password = false;
                self.passwords.clear();
            }
            b"skip-sanitize-payload" => self.sanitizing = Sanitizing::Skipped,
            b"sanitize-payload" => self.sanitizing = Sanitizing::Done,
            b"clearselectors" => self.selectors.truncate(1),
            b"reset" => self.reset(all_channels),
            [b'>' | b'#', ..] => {
                let digest = digest_of(rule)?;
                if !self.passwords.contains(&digest) {
                    self.passwords.push(digest);
                }
                self.no_password = false;
            }
            [b'<' | b'!', ..] => {
                let digest = digest_of(rule)?;
                let known = self.passwords.iter().position(|known| *known == digest);
                self.passwords.remove(known.ok_or(RuleError::NoPassword)?);
            }
            [b'(', ..] if rule.len() > 1 && rule.last() == Some(&b')') => {
                let mut selector = Selector::new(all_channels);
                // Unbalanced quotes make a selector without rules, as in Redis.
                for rule in split_words(&rule[1..rule.len() - 1]).unwrap_or_default() {
                    selector.apply(catalog, &rule)?;
                }
                self.selectors.push(selector);
            }
            _ => self.selectors[0].apply(catalog, rule)?,
        }
        Ok(())
    }
}

/// The digest named by a rule: that of a password (`>`, `<`), or the given one (`#`, `!`).
fn digest_of(rule: &[u8]) -> Result<PasswordDigest, RuleError> {
    let text = &rule[1..];
    if matches!(rule[0], b'>' | b'<') {
        return Ok(sha256(text));
    }
    let mut digest = [0; 32];
    let is_whole = text.len() == 2 * digest.len();
    if !is_whole || !text.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        return Err(RuleError::Digest);
    }
    let value = |byte: u8| if byte <= b'9' { byte - b'0' } else { byte - b'a' + 10 };
    for (to, pair) in digest.iter_mut().zip(text.chunks_exact(2)) {
        *to = 16 * value(pair[0]) + value(pair[1]);
    }
    Ok(digest)
}

/// Compares all bytes, whatever the first ones are.
fn is_same(a: &PasswordDigest, b: &PasswordDigest) -> bool {
    let different = a.iter().zip(b).fold(0, |different, (a, b)| different | (a ^ b));
    std::hint::black_box(different) == 0
}

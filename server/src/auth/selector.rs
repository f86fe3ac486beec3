//! One set of rights of a user: commands, key patterns, channels and databases.

use super::catalog::{COMMANDS_MAX, Catalog, category};
use super::rules::{RuleError, has_blanks, word};
use crate::interop::glob;
use crate::log;
use crate::number::parse_i64;
use std::collections::BTreeMap;

/// What may be done with a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyRights(u8);

impl KeyRights {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// Its value may be read.
    pub const READ: Self = Self(1);
    /// It may be changed, or deleted.
    pub const WRITE: Self = Self(2);
    /// Both.
    pub const ALL: Self = Self(3);

    /// Those of both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// True when all of `other` are among them.
    #[must_use]
    pub const fn include(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// A pattern of keys, and what may be done with them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeyPattern {
    pub(super) rights: KeyRights,
    pub(super) pattern: Vec<u8>,
    /// It is a prefix and a star, as most of them are.
    is_prefix: bool,
}

impl KeyPattern {
    fn new(rights: KeyRights, pattern: &[u8]) -> Self {
        let is_literal = |bytes: &[u8]| !bytes.iter().any(|byte| b"*?[\\".contains(byte));
        let is_prefix = pattern.strip_suffix(b"*").is_some_and(is_literal);
        Self { rights, pattern: pattern.to_vec(), is_prefix }
    }

    /// True if it is a pattern of `key`.
    #[inline]
    pub(super) fn is_of(&self, key: &[u8]) -> bool {
        if self.is_prefix && !key.is_empty() {
            return key.starts_with(&self.pattern[..self.pattern.len() - 1]);
        }
        matches(&self.pattern, key)
    }
}

/// No star finds an empty name, as in Redis.
pub(super) fn matches(pattern: &[u8], name: &[u8]) -> bool {
    if name.is_empty() { pattern.is_empty() } else { glob::matches(pattern, name) }
}

/// Which commands are allowed, by their numbers in the catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bits([u64; COMMANDS_MAX / 64]);

impl Bits {
    pub(super) const NONE: Self = Self([0; COMMANDS_MAX / 64]);
    const ALL: Self = Self([u64::MAX; COMMANDS_MAX / 64]);

    #[inline]
    pub(super) fn has(&self, id: usize) -> bool {
        self.0[id / 64] & (1 << (id % 64)) != 0
    }

    fn put(&mut self, id: usize, allowed: bool) {
        if allowed {
            self.0[id / 64] |= 1 << (id % 64);
        } else {
            self.0[id / 64] &= !(1 << (id % 64));
        }
    }
}

/// One set of rights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    /// Every command, including future ones.
    pub(super) all_commands: bool,
    pub(super) all_keys: bool,
    pub(super) all_channels: bool,
    pub(super) commands: Bits,
    /// First arguments with which commands are allowed that are not allowed otherwise.
    pub(super) first_args: BTreeMap<usize, Vec<Vec<u8>>>,
    pub(super) keys: Vec<KeyPattern>,
    pub(super) channels: Vec<Vec<u8>>,
    /// The only databases, in order; `None` for all (a rule of Valkey 9.1).
    pub(super) databases: Option<Vec<u32>>,
}

impl Selector {
    /// No rights, except those to all channels if `acl-pubsub-default` grants them.
    #[must_use]
    pub fn new(all_channels: bool) -> Self {
        Self {
            all_commands: false,
            all_keys: false,
            all_channels,
            commands: Bits::NONE,
            first_args: BTreeMap::new(),
            keys: Vec::new(),
            channels: Vec::new(),
            databases: None,
        }
    }

    /// All rights.
    #[must_use]
    pub fn unrestricted() -> Self {
        let mut selector = Self::new(true);
        selector.all_keys = true;
        selector.allow_all_commands(true);
        selector
    }

    /// True if nothing needs to be checked.
    #[must_use]
    pub fn is_unrestricted(&self) -> bool {
        self.all_commands && self.all_keys && self.all_channels && self.databases.is_none()
    }

    pub(super) fn allow_all_commands(&mut self, allowed: bool) {
        self.all_commands = allowed;
        self.commands = if allowed { Bits::ALL } else { Bits::NONE };
        self.first_args.clear();
    }

    /// Allows or forbids a command with its subcommands.
    pub(super) fn allow(&mut self, catalog: &Catalog, id: usize, allowed: bool) {
        self.all_commands &= allowed;
        self.commands.put(id, allowed);
        self.first_args.remove(&id);
        for &sub in &catalog.get(id).subcommands {
            self.commands.put(sub, allowed);
        }
    }

    pub(super) fn allow_category(&mut self, catalog: &Catalog, nth: usize, allowed: bool) {
        for (id, listed) in catalog.all() {
            if listed.categories & (1 << nth) != 0 {
                self.allow(catalog, id, allowed);
            }
        }
    }

    /// All keys, or none.
    pub(super) fn allow_all_keys(&mut self, allowed: bool) {
        self.all_keys = allowed;
        self.keys.clear();
    }

    /// All channels, or none.
    pub(super) fn allow_all_channels(&mut self, allowed: bool) {
        self.all_channels = allowed;
        self.channels.clear();
    }

    /// Applies one rule.
    ///
    /// # Errors
    /// Why it cannot be; nothing has changed then.
    pub fn apply(&mut self, catalog: &Catalog, rule: &[u8]) -> Result<(), RuleError> {
        match word(rule).to_ascii_lowercase().as_slice() {
            b"allkeys" | b"~*" => self.allow_all_keys(true),
            b"resetkeys" => self.allow_all_keys(false),
            b"allchannels" | b"&*" => self.allow_all_channels(true),
            b"resetchannels" => self.allow_all_channels(false),
            b"allcommands" | b"+@all" => self.allow_all_commands(true),
            b"nocommands" | b"-@all" => self.allow_all_commands(false),
            b"alldbs" => self.databases = None,
            b"resetdbs" => self.databases = Some(Vec::new()),
            [b'd', b'b', b'=', list @ ..] => self.databases = Some(databases_of(list)?),
            [b'~' | b'%', ..] => self.add_keys(rule)?,
            [b'&', ..] => self.add_channels(&rule[1..])?,
            [sign @ (b'+' | b'-'), b'@', name @ ..] => {
                let nth = category(name).ok_or(RuleError::Unknown)?;
                self.allow_category(catalog, nth, *sign == b'+');
            }
            // Not in lower case: first arguments are shown as they were written.
            [b'+', ..] => self.add_command(catalog, &word(rule)[1..])?,
            [b'-', name @ ..] => {
                let id = catalog.find(name).ok_or(RuleError::Unknown)?;
                self.allow(catalog, id, false);
            }
            _ => return Err(RuleError::Syntax),
        }
        Ok(())
    }

    /// `~pattern`, `%R~pattern`, `%W~pattern`, `%RW~pattern`.
    fn add_keys(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        if self.all_keys {
            return Err(RuleError::AllKeys);
        }
        let (mut rights, mut at) = (KeyRights::ALL, 1);
        if rule[0] == b'%' {
            rights = KeyRights::NONE;
            while at < rule.len() {
                let more = match rule[at].to_ascii_uppercase() {
                    b'R' => KeyRights::READ,
                    b'W' => KeyRights::WRITE,
                    b'~' if rights != KeyRights::NONE => {
                        at += 1;
                        break;
                    }
                    _ => return Err(RuleError::Syntax),
                };
                if rights.include(more) {
                    return Err(RuleError::Syntax);
                }
                rights = rights.and(more);
                at += 1;
            }
            if rights == KeyRights::NONE {
                return Err(RuleError::Syntax);
            }
        }
        let pattern = &rule[at..];
        if has_blanks(pattern) {
            return Err(RuleError::Syntax);
        }
        match self.keys.iter_mut().find(|known| known.pattern == pattern) {
            Some(known) => known.rights = known.rights.and(rights),
            None => self.keys.push(KeyPattern::new(rights, pattern)),
        }
        Ok(())
    }

    fn add_channels(&mut self, pattern: &[u8]) -> Result<(), RuleError> {
        if self.all_channels {
            return Err(RuleError::AllChannels);
        }
        if has_blanks(pattern) {
            return Err(RuleError::Syntax);
        }
        if !self.channels.iter().any(|known| known == pattern) {
            self.channels.push(pattern.to_vec());
        }
        Ok(())
    }

    /// `+command`, `+container|sub`, `+command|first-argument`.
    fn add_command(&mut self, catalog: &Catalog, name: &[u8]) -> Result<(), RuleError> {
        let Some(bar) = name.iter().rposition(|&byte| byte == b'|') else {
            let id = catalog.find(name).ok_or(RuleError::Unknown)?;
            self.allow(catalog, id, true);
            return Ok(());
        };
        let (command, argument) = (&name[..bar], &name[bar + 1..]);
        let id = catalog.find(command).ok_or(RuleError::Unknown)?;
        if command.contains(&b'|') {
            return Err(RuleError::ArgumentOfSubcommand);
        }
        if argument.is_empty() {
            return Err(RuleError::Syntax);
        }
        if !catalog.get(id).subcommands.is_empty() {
            let id = catalog.find(name).ok_or(RuleError::Unknown)?;
            self.allow(catalog, id, true);
            return Ok(());
        }
        log::warning(&format!(
            "Deprecation warning: Allowing a first arg of an otherwise blocked command is a misuse of ACL and may get \
             disabled in the future (offender: +{})",
            String::from_utf8_lossy(name)
        ));
        let known = self.first_args.entry(id).or_default();
        if !known.iter().any(|known| known.eq_ignore_ascii_case(argument)) {
            known.push(argument.to_vec());
        }
        Ok(())
    }
}

/// The databases of `db=0,3`.
fn databases_of(list: &[u8]) -> Result<Vec<u32>, RuleError> {
    let number = |text: &[u8]| {
        let number = parse_i64(text).ok_or(RuleError::Syntax)?;
        u32::try_from(number).ok().filter(|&db| db <= i32::MAX as u32).ok_or(RuleError::Database)
    };
    let mut databases =
        list.split(|&byte| byte == b',').map(number).collect::<Result<Vec<_>, _>>()?;
    databases.sort_unstable();
    databases.dedup();
    Ok(databases)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_and_a_star_mean_what_the_pattern_means() {
        let patterns: [&[u8]; 9] =
            [b"", b"*", b"k:*", b"k\\*", b"k\\:*", b"k?*", b"k[*", b"k**", b"k:"];
        let keys: [&[u8]; 9] = [b"", b"*", b"k", b"k:", b"k:1", b"k*", b"k\\", b"k\\:", b"k[*"];
        let found = patterns.map(|pattern| KeyPattern::new(KeyRights::ALL, pattern));
        assert_eq!(found.iter().filter(|pattern| pattern.is_prefix).count(), 2);
        for pattern in found {
            for key in keys {
                assert_eq!(
                    pattern.is_of(key),
                    matches(&pattern.pattern, key),
                    "{pattern:?} {key:?}"
                );
            }
        }
    }
}

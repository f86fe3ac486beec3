//! Users in files: the lines of an `aclfile` and of the configuration.

use super::catalog::Catalog;
use super::rules::{RuleError, has_blanks, merge_selectors};
use super::user::User;
use super::{Auth, DEFAULT_USER, Users};
use sexton_config::system_text;
use std::sync::Arc;

impl Auth {
    /// Replaces all users by those of an `aclfile`; returns the names of the previous ones.
    ///
    /// # Errors
    /// The error in the file, in Redis' words; nothing has changed then.
    pub fn load_file(&self, catalog: &Catalog, path: &str) -> Result<Vec<Vec<u8>>, String> {
        let text = std::fs::read(path).map_err(|error| {
            format!("Error loading ACLs, opening file '{path}': {}", system_text(&error))
        })?;
        Ok(self.replace_users(parse(catalog, self.all_channels(), path, &text)?))
    }
}

/// Parses the text of an `aclfile` into users by name, including the default user.
///
/// # Errors
/// Redis' text, which names every invalid line.
pub(super) fn parse(
    catalog: &Catalog,
    all_channels: bool,
    path: &str,
    text: &[u8],
) -> Result<Users, String> {
    let mut users = Users::new();
    let mut errors = String::new();
    for (index, line) in text.split(|&byte| byte == b'\n').enumerate() {
        let line = trim(line, b" \t\r\n");
        if line.is_empty() {
            continue;
        }
        let number = index + 1;
        let words: Vec<Vec<u8>> = line.split(|&byte| byte == b' ').map(<[u8]>::to_vec).collect();
        let (Some(b"user"), Some(name)) = (words.first().map(Vec::as_slice), words.get(1)) else {
            errors.push_str(&format!(
                "{path}:{number} should start with user keyword followed by the username. "
            ));
            continue;
        };
        let shown = String::from_utf8_lossy(name);
        if has_blanks(name) {
            errors.push_str(&format!(
                "'{path}:{number}: username '{shown}' contains invalid characters. "
            ));
            continue;
        }
        if users.contains_key(name) {
            errors.push_str(&format!("WARNING: Duplicate user '{shown}' found on line {number}. "));
            continue;
        }
        let mut user = User::new(name, all_channels);
        match merge_selectors(&words[2..]) {
            Ok(rules) => {
                let told = apply_all(catalog, all_channels, &mut user, &rules);
                told.iter().for_each(|text| errors.push_str(&format!("{path}:{number}: {text}. ")));
            }
            Err(_) => errors.push_str(&format!(
                "{path}:{number}: Unmatched parenthesis in selector definition."
            )),
        }
        users.insert(name.clone(), Arc::new(user));
    }
    if !errors.is_empty() {
        errors.push_str(
            "WARNING: ACL errors detected, no change to the previously active ACL rules was performed",
        );
        return Err(errors);
    }
    let unrestricted = || Arc::new(User::unrestricted(DEFAULT_USER));
    users.entry(DEFAULT_USER.to_vec()).or_insert_with(unrestricted);
    Ok(users)
}

/// Applies the rules of a line; returns the errors. All unknown commands are named, of other errors only the first, and
/// without the rule: it may contain a password.
fn apply_all(
    catalog: &Catalog,
    all_channels: bool,
    user: &mut User,
    rules: &[Vec<u8>],
) -> Vec<String> {
    let mut told = Vec::new();
    let mut has_other = false;
    for rule in rules {
        let rule = trim(rule, b"\t\r\n");
        match user.apply(catalog, all_channels, rule) {
            Ok(()) => {}
            Err(error @ RuleError::Unknown) => told.push(format!(
                "Error in applying operation '{}': {}",
                String::from_utf8_lossy(rule),
                error.text()
            )),
            Err(error) => {
                if !has_other {
                    told.push(error.text().to_owned());
                }
                has_other = true;
            }
        }
    }
    told
}

fn trim<'a>(text: &'a [u8], blanks: &[u8]) -> &'a [u8] {
    let start = text.iter().position(|byte| !blanks.contains(byte)).unwrap_or(text.len());
    let end = text.iter().rposition(|byte| !blanks.contains(byte)).map_or(start, |last| last + 1);
    &text[start..end]
}

/// Checks whether the words of a `user NAME rules...` line of the configuration are rules. Unknown commands are checked
/// at the start, as in Redis.
///
/// # Errors
/// Why it is none, and the place of the word that Redis names: it counts rules there and words from `user` on here, and
/// has no reason of its own for a parenthesis that is not closed.
pub fn check_line(catalog: &Catalog, words: &[Vec<u8>]) -> Result<(), (usize, RuleError)> {
    let rules = merge_selectors(&words[1..]).map_err(|at| (at, RuleError::Unknown))?;
    let mut user = User::new(&words[0], false);
    for (nth, rule) in rules.iter().enumerate() {
        match user.apply(catalog, false, rule) {
            Ok(()) | Err(RuleError::Unknown) => {}
            Err(error) => return Err((nth, error)),
        }
    }
    Ok(())
}

/// Creates a user from the words of a `user` line of the configuration.
///
/// # Errors
/// Redis' text for the log.
pub fn user_of_line(
    catalog: &Catalog,
    all_channels: bool,
    words: &[Vec<u8>],
) -> Result<User, String> {
    let name = &words[0];
    if has_blanks(name) {
        return Err("Spaces not allowed in ACL usernames".to_owned());
    }
    let mut user = User::new(name, all_channels);
    if name == DEFAULT_USER {
        user.reset(all_channels);
    }
    for rule in merge_selectors(&words[1..]).unwrap_or_default() {
        user.apply(catalog, all_channels, &rule).map_err(|error| {
            format!(
                "Error loading ACL rule '{}' for the user named '{}': {}",
                String::from_utf8_lossy(&rule),
                String::from_utf8_lossy(name),
                error.text()
            )
        })?;
    }
    Ok(user)
}

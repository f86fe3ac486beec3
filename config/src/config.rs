//! The configuration in effect: one value per row of the directive table.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::directive::Directive;
use crate::load::ExtraLine;
use crate::options::Options;
use crate::syntax::{glob, split_words};
use crate::table;
use crate::value::Value;

/// The configuration in effect.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// By position in the table.
    pub(crate) values: Vec<Value>,
    pub(crate) options: Options,
    pub(crate) path: Option<PathBuf>,
    pub(crate) users: Vec<ExtraLine>,
    pub(crate) renamed_commands: Vec<ExtraLine>,
}

/// The table's defaults.
pub(crate) fn default_values() -> Vec<Value> {
    table::all().map(default_value).collect()
}

/// The default of one directive. Its text is part of the program, and a test reads every one, so
/// the fallback is never taken.
pub(crate) fn default_value(directive: &Directive) -> Value {
    let none = Value::Text(None);
    let words = match directive.default {
        "" => vec![Vec::new()],
        text if directive.takes_many_words() => split_words(text.as_bytes()).unwrap_or_default(),
        text => vec![text.trim_matches('"').as_bytes().to_vec()],
    };
    directive.kind.parse(&words, &none, false).unwrap_or(none)
}

impl Default for Config {
    /// Every directive at its default, `dir` at the working directory.
    fn default() -> Config {
        Config::from_values(default_values())
    }
}

impl Config {
    pub(crate) fn from_values(mut values: Vec<Value>) -> Config {
        make_dir_absolute(&mut values);
        let options = Options::of(&values);
        Config { values, options, path: None, users: Vec::new(), renamed_commands: Vec::new() }
    }

    /// The typed view.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Absolute path of the configuration file; `None` without one (then CONFIG REWRITE fails).
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// The `user` lines in order, for the access control lists of the server.
    pub fn users(&self) -> &[ExtraLine] {
        &self.users
    }

    /// The `rename-command OLD NEW` lines in order; an empty new name removes the command.
    pub fn renamed_commands(&self) -> &[ExtraLine] {
        &self.renamed_commands
    }

    /// Directives that were set away from their default although they have no effect here, each with the
    /// reason; the server logs them.
    pub fn without_effect(&self) -> Vec<(&'static str, &'static str)> {
        let rows = table::all().zip(&self.values);
        rows.filter(|(row, value)| **value != default_value(row))
            .filter_map(|(row, _)| Some((row.name, row.no_effect_reason()?)))
            .collect()
    }

    /// CONFIG GET: the names that match any of the patterns and their texts, each once. A pattern
    /// without `*`, `?` or `[` is a name; it is answered as typed and finds hidden ones too.
    pub fn get(&self, patterns: &[&[u8]]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut seen = HashSet::new();
        let mut found = Vec::new();
        let mut add = |name: &'static str, shown: &[u8], position: usize, row: &Directive| {
            if let (true, Some(value)) = (seen.insert(name), self.values.get(position)) {
                found.push((shown.to_vec(), value.get_text(&row.kind)));
            }
        };
        for &pattern in patterns {
            if !glob::is_pattern(pattern) {
                if let Some((position, row)) = table::find_row(pattern) {
                    add(row.name_like(pattern), pattern, position, row);
                }
                continue;
            }
            for (position, row) in table::all().enumerate().filter(|(_, row)| !row.hidden) {
                for name in [Some(row.name), row.alias].into_iter().flatten() {
                    if glob::matches(pattern, name.as_bytes(), true) {
                        add(name, name.as_bytes(), position, row);
                    }
                }
            }
        }
        found
    }

    /// The CONFIG GET text of one directive; `None` if there is no such name.
    pub fn text(&self, name: &str) -> Option<Vec<u8>> {
        let (position, row) = table::find_row(name.as_bytes())?;
        Some(self.values.get(position)?.get_text(&row.kind))
    }
}

/// Redis shows `dir` as the path it works in; so do we, without changing the working directory.
pub(crate) fn make_dir_absolute(values: &mut [Value]) {
    use std::ffi::OsStr;
    use std::os::unix::ffi::{OsStrExt, OsStringExt};

    let dir = table::position(b"dir").and_then(|position| values.get_mut(position));
    if let Some(Value::Text(Some(dir))) = dir
        && let Ok(absolute) = std::path::absolute(OsStr::from_bytes(dir))
    {
        *dir = absolute.into_os_string().into_vec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directive::Class;

    #[test]
    fn every_default_is_a_value() {
        for row in table::all() {
            let words = match row.default {
                "" => vec![Vec::new()],
                text => split_words(text.as_bytes()).unwrap(),
            };
            let words = if row.takes_many_words() { words } else { vec![words.join(&b' ')] };
            let value = row.kind.parse(&words, &Value::Text(None), false);
            assert_eq!(value.as_ref(), Ok(&default_value(row)), "{}", row.name);
        }
    }

    /// The texts of `CONFIG GET *` on redis-server 7.0.15 started with `--port 6379` alone.
    #[test]
    fn defaults_read_as_in_redis() {
        const WANTED_DIFFERENCES: [(&str, &str); 1] = [("appendonly", "yes")];
        let config = Config::default();
        let captured = include_str!("../testdata/config-get-7.0.15.txt");
        let mut compared = 0;
        for line in captured.lines() {
            let (name, text) = line.split_once('|').unwrap();
            let wanted = WANTED_DIFFERENCES.iter().find(|(other, _)| *other == name);
            let expected = wanted.map_or(text, |(_, ours)| ours);
            assert_ne!(wanted.map(|(_, ours)| *ours), Some(text), "{name} is no difference");
            let got = config.text(name).unwrap_or_else(|| panic!("no directive {name}"));
            assert_eq!(String::from_utf8_lossy(&got), expected, "{name}");
            compared += 1;
        }
        assert!(compared > 180);
    }

    /// The texts of `CONFIG GET *` on valkey-server 9.1.2 started with `--port 6379` alone: a file with any of them starts the server.
    #[test]
    fn directives_of_valkey_are_known_and_their_defaults_accepted() {
        let captured = include_str!("../testdata/config-get-valkey-9.1.2.txt");
        let mut checked = 0;
        for line in captured.lines() {
            let (name, text) = line.split_once('|').unwrap();
            let row = table::find(name.as_bytes()).unwrap_or_else(|| panic!("no directive {name}"));
            // A file says it in two words, and CONFIG GET in none.
            if row.name == "replicaof" {
                continue;
            }
            let one_word = text.is_empty() || !row.takes_many_words();
            let file =
                if one_word { format!("{name} \"{text}\"") } else { format!("{name} {text}") };
            let config = Config::from_text(file.as_bytes());
            assert!(
                config.is_ok(),
                "{file}: {}",
                config.err().map(|e| e.to_string()).unwrap_or_default()
            );
            checked += 1;
        }
        assert!(checked > 230);
    }

    #[test]
    fn commented_default_file_changes_three_directives_only() {
        let config = Config::from_text(include_bytes!("../sexton.conf")).unwrap();
        let defaults = Config::default();
        let differs = |row: &&'static Directive| config.text(row.name) != defaults.text(row.name);
        let names: Vec<&str> = table::all().filter(differs).map(|row| row.name).collect();
        assert_eq!(names, ["bind", "dir", "save"]);
        for name in include_str!("../sexton.conf").lines().filter_map(|line| line.split(' ').next())
        {
            if let Some(row) = table::find(name.as_bytes()) {
                assert_eq!(row.class, Class::Effective, "{name} is shown but does not act");
            }
        }
        assert!(config.options().dir.ends_with("data"));
        assert!(config.without_effect().is_empty());
    }

    #[test]
    fn get_answers_names_as_typed_and_each_once() {
        let config = Config::default();
        let names = |patterns: &[&[u8]]| -> Vec<String> {
            let found = config.get(patterns);
            found.into_iter().map(|(name, _)| String::from_utf8(name).unwrap()).collect()
        };
        assert_eq!(names(&[b"MaxMemory", b"maxmemory"]), ["MaxMemory"]);
        assert_eq!(names(&[b"maxmemory", b"maxmem*"]).len(), 5);
        assert_eq!(names(&[b"slaveof", b"no such"]), ["slaveof"]);
        assert_eq!(names(&[b"use-exit-on-panic"]), ["use-exit-on-panic"]);
        assert!(names(&[b"use-exit*"]).is_empty());
        assert!(names(&[b"*"]).contains(&"hash-max-ziplist-value".to_owned()));
    }
}

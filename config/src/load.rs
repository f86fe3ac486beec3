//! Loading: file, standard input and command line, read as one text (Redis: `loadServerConfig`).

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::arguments::Arguments;
use crate::config::{Config, default_value, default_values};
use crate::directive::{Class, Directive};
use crate::error::ConfigError;
use crate::include;
use crate::syntax::{split_words, trim};
use crate::table;
use crate::value::Value;

/// Deepest nesting of `include`; Redis has no bound and overflows its stack.
pub(crate) const INCLUDE_DEPTH_MAX: usize = 16;
/// Most files one configuration may include.
pub(crate) const INCLUDE_FILES_MAX: usize = 1024;
/// Most bytes of one file or of standard input.
pub(crate) const FILE_BYTES_MAX: u64 = 64 << 20;

const BAD_DIRECTIVE: &str = "Bad directive or wrong number of arguments";

/// A line that the server interprets: `user` and `rename-command`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtraLine {
    /// Included file of the line, if it was not the main one.
    pub included: Option<PathBuf>,
    /// Line number from 1.
    pub line: usize,
    /// The line without blanks around it.
    pub text: Vec<u8>,
    /// The words that follow the directive's name.
    pub words: Vec<Vec<u8>>,
}

impl ExtraLine {
    /// The error of a line the server cannot use (an unknown command, a bad access rule).
    pub fn refuse(&self, reason: impl Into<String>) -> ConfigError {
        ConfigError::Line {
            included: self.included.clone(),
            line: self.line,
            text: self.text.clone(),
            reason: reason.into(),
        }
    }
}

impl Config {
    /// Loads the configuration that the command line names. Relative `include` paths are resolved against the working
    /// directory, as in Redis.
    pub fn load(arguments: &Arguments) -> Result<Config, ConfigError> {
        let mut text = Vec::new();
        if let Some(file) = &arguments.file {
            text = read_bounded(file)?;
        }
        if arguments.stdin {
            let input = &mut std::io::stdin().lock();
            take_bounded(input, &mut text).map_err(|e| open_error(Path::new("-"), &e))?;
        }
        if let Some(lines) = &arguments.lines {
            text.push(b'\n');
            text.extend_from_slice(lines);
        }
        let mut config = Config::from_text(&text)?;
        config.path = match &arguments.file {
            Some(file) => Some(std::path::absolute(file).map_err(|e| open_error(file, &e))?),
            None => None,
        };
        Ok(config)
    }

    /// Loads a configuration text that has no file.
    pub fn from_text(text: &[u8]) -> Result<Config, ConfigError> {
        let mut loader = Loader::new();
        loader.read_lines(text, None, 0)?;
        loader.finish()
    }
}

struct Loader {
    values: Vec<Value>,
    /// Rows that a line has set: the first `save` replaces the default, the others add to it.
    set: Vec<bool>,
    users: Vec<ExtraLine>,
    renamed_commands: Vec<ExtraLine>,
    included_files: usize,
}

impl Loader {
    fn new() -> Loader {
        let values = default_values();
        Loader {
            set: vec![false; values.len()],
            values,
            users: Vec::new(),
            renamed_commands: Vec::new(),
            included_files: 0,
        }
    }

    fn read_lines(
        &mut self,
        text: &[u8],
        included: Option<&Path>,
        depth: usize,
    ) -> Result<(), ConfigError> {
        for (index, line) in text.split(|b| *b == b'\n').enumerate() {
            let line = trim(line);
            if line.is_empty() || line[0] == b'#' {
                continue;
            }
            let mut here = ExtraLine {
                included: included.map(Path::to_owned),
                line: index + 1,
                text: line.to_vec(),
                words: Vec::new(),
            };
            let mut words = split_words(line).map_err(|e| here.refuse(e.text()))?.into_iter();
            let Some(name) = words.next() else { continue };
            here.words = words.collect();
            self.read_directive(&name.to_ascii_lowercase(), here, depth)?;
        }
        Ok(())
    }

    fn read_directive(
        &mut self,
        name: &[u8],
        here: ExtraLine,
        depth: usize,
    ) -> Result<(), ConfigError> {
        if let Some((position, row)) = table::find_row(name) {
            return self.set_row(position, row, &here.words).map_err(|e| here.refuse(e));
        }
        let deprecated = table::DEPRECATED.iter().any(|known| known.as_bytes() == name);
        match (name, here.words.as_slice()) {
            (_, [_]) if deprecated => Ok(()),
            (b"include", [path]) => {
                let path = path.clone();
                self.include(&path, &here, depth)
            }
            (b"rename-command", [_, _]) => {
                self.renamed_commands.push(here);
                Ok(())
            }
            (b"user", [_, ..]) => {
                self.users.push(here);
                Ok(())
            }
            (b"loadmodule", [_, ..]) => Err(here.refuse("the modules API is not built")),
            (b"sentinel", _) => Err(here.refuse("sentinel directive while not in sentinel mode")),
            _ => Err(here.refuse(BAD_DIRECTIVE)),
        }
    }

    fn set_row(
        &mut self,
        position: usize,
        row: &'static Directive,
        words: &[Vec<u8>],
    ) -> Result<(), String> {
        let old = &self.values[position];
        let append = self.set[position] && row.adds_up();
        let value = match words {
            // `save "900 1"`: Redis splits a single argument of these once more.
            [single] if row.takes_many_words() && !single.is_empty() => {
                let words: Vec<_> = single.split(|b| *b == b' ').map(<[u8]>::to_vec).collect();
                row.kind.parse(&words, old, append)
            }
            words => row.kind.parse(words, old, append),
        }?;
        let value = row.bounded(value);
        check_class(row, &value)?;
        self.values[position] = value;
        self.set[position] = true;
        Ok(())
    }

    fn include(&mut self, path: &[u8], here: &ExtraLine, depth: usize) -> Result<(), ConfigError> {
        if depth == INCLUDE_DEPTH_MAX {
            return Err(here.refuse(format!("include is nested more than {depth} deep")));
        }
        for file in include::expand(path) {
            self.included_files += 1;
            if self.included_files > INCLUDE_FILES_MAX {
                return Err(here.refuse(format!("more than {INCLUDE_FILES_MAX} included files")));
            }
            let text = read_bounded(&file)?;
            self.read_lines(&text, Some(&file), depth + 1)?;
        }
        Ok(())
    }

    fn finish(self) -> Result<Config, ConfigError> {
        let mut config = Config::from_values(self.values);
        config.users = self.users;
        config.renamed_commands = self.renamed_commands;
        Ok(config)
    }
}

/// A refused directive may only be set to what it is anyway.
pub(crate) fn check_class(row: &Directive, value: &Value) -> Result<(), String> {
    match row.class {
        Class::Refused(reason) if *value != default_value(row) => Err(reason.into()),
        _ => Ok(()),
    }
}

fn open_error(path: &Path, error: &std::io::Error) -> ConfigError {
    ConfigError::Open { path: path.to_owned(), reason: system_text(error) }
}

/// A system error in the words of the C library, which Redis prints: without Rust's ` (os error 2)`.
#[must_use]
pub fn system_text(error: &std::io::Error) -> String {
    error.to_string().split(" (os error").next().unwrap_or_default().to_owned()
}

fn read_bounded(path: &Path) -> Result<Vec<u8>, ConfigError> {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let read = || {
        let mut text = Vec::new();
        take_bounded(&mut fs::File::open(path)?, &mut text)?;
        Ok(text)
    };
    read().map_err(|e| open_error(&absolute, &e))
}

fn take_bounded(input: &mut impl Read, text: &mut Vec<u8>) -> std::io::Result<()> {
    let read = input.take(FILE_BYTES_MAX + 1).read_to_end(text)?;
    if read as u64 > FILE_BYTES_MAX {
        let reason = format!("more than {FILE_BYTES_MAX} bytes");
        return Err(std::io::Error::new(std::io::ErrorKind::FileTooLarge, reason));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without the banner.
    fn error(text: &str) -> String {
        let error = Config::from_text(text.as_bytes()).unwrap_err().to_string();
        let banner = concat!(
            "\n*** FATAL CONFIG FILE ERROR (Sexton ",
            env!("CARGO_PKG_VERSION"),
            ") ***\nReading the configuration file, at line "
        );
        error.strip_prefix(banner).unwrap_or_else(|| panic!("banner of {error}")).to_owned()
    }

    /// Texts of redis-server 7.0.15, but for what is not built.
    #[test]
    fn errors_name_line_text_and_reason() {
        const BAD: &str = "Bad directive or wrong number of arguments";
        const NO_INT: &str = "argument couldn't be parsed into an integer";
        for (text, line, shown, reason) in [
            ("port 1\n\nfoo bar\n", 3, "foo bar", BAD),
            ("save \"a", 1, "save \"a", "Unbalanced quotes in configuration line"),
            ("port 1 2", 1, "port 1 2", "wrong number of arguments"),
            ("port", 1, "port", "wrong number of arguments"),
            ("save 1", 1, "save 1", "Invalid save parameters"),
            ("save \"1 2\" 3", 1, "save \"1 2\" 3", "Invalid save parameters"),
            ("save \"1 2\"\n\nport \"a b\"", 3, "port \"a b\"", NO_INT),
            (" # x\n\t port\t7000x  ", 2, "port\t7000x", NO_INT),
            ("PORT 0x", 1, "PORT 0x", NO_INT),
            ("rename-command GET", 1, "rename-command GET", BAD),
            ("user", 1, "user", BAD),
            ("include", 1, "include", BAD),
            ("list-max-ziplist-entries 3 4", 1, "list-max-ziplist-entries 3 4", BAD),
            ("sentinel x", 1, "sentinel x", "sentinel directive while not in sentinel mode"),
            ("loadmodule /x.so", 1, "loadmodule /x.so", "the modules API is not built"),
            ("replicaof a 99999", 1, "replicaof a 99999", "Invalid master port"),
            ("replicaof a 1", 1, "replicaof a 1", "replication is not built yet"),
            ("dbfilename a/b", 1, "dbfilename a/b", "dbfilename can't be a path, just a filename"),
            (
                "unixsocketperm 1000",
                1,
                "unixsocketperm 1000",
                "argument must be between 0 and 777 inclusive",
            ),
        ] {
            assert_eq!(error(text), format!("{line}\n>>> '{shown}'\n{reason}"), "{text}");
        }
    }

    #[test]
    fn lines_that_are_values() {
        for (text, name, shown) in [
            ("port 7000\n\"port\" \"7\\x30\"", "port", "70"),
            ("save \"1 2\"", "save", "1 2"),
            ("save 1 2\nsave 3 4", "save", "1 2 3 4"),
            ("save 1 2\nsave \"\"\nsave 3 4", "save", "3 4"),
            ("save", "save", ""),
            ("bind", "bind", ""),
            ("slaveof no one", "replicaof", ""),
            ("lua-replicate-commands yes\nhz 3", "hz", "3"),
            ("repl-timeout 60", "repl-timeout", "60"),
        ] {
            let config = Config::from_text(text.as_bytes()).unwrap();
            assert_eq!(config.text(name).unwrap(), shown.as_bytes(), "{text}");
        }
    }

    /// Directives of what is not built are taken, unless data or protection were lost without it.
    #[test]
    fn settings_of_what_is_not_built_are_named_or_refused() {
        let text = b"repl-diskless-sync-delay 0\nslave-serve-stale-data yes\nreplica-read-only no\n\
            tls-dh-params-file a.dh\ntls-cluster yes\nenable-module-command yes\ndaemonize yes\nsupervised systemd\n";
        let config = Config::from_text(text).unwrap();
        let mut named: Vec<&str> = config.without_effect().iter().map(|(name, _)| *name).collect();
        named.sort_unstable();
        assert_eq!(
            named,
            [
                "enable-module-command",
                "repl-diskless-sync-delay",
                "replica-read-only",
                "tls-cluster",
                "tls-dh-params-file"
            ]
        );
        for text in ["replicaof a 1", "min-replicas-to-write 1"] {
            assert!(Config::from_text(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn lines_of_the_server_are_kept() {
        let text = b"rename-command FLUSHALL \"\"\nhz 5\nuser ann on >x ~*\n";
        let config = Config::from_text(text).unwrap();
        assert_eq!(config.renamed_commands()[0].words, [b"FLUSHALL".to_vec(), Vec::new()]);
        let user = &config.users()[0];
        assert_eq!((user.line, user.words.len()), (3, 4));
        let refused = user.refuse("no such rule").to_string();
        assert!(refused.ends_with("at line 3\n>>> 'user ann on >x ~*'\nno such rule"));
    }
}

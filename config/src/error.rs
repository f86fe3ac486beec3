//! Errors of loading and of CONFIG SET, with Redis' texts.

use std::fmt;
use std::path::PathBuf;

/// Why the configuration cannot be used; the process ends with status 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigError {
    /// A line is wrong.
    Line {
        /// File of the line when it was included by another one.
        included: Option<PathBuf>,
        /// Line number, from 1. Command-line arguments are numbered after the file's lines, as in Redis.
        line: usize,
        /// The line without blanks around it.
        text: Vec<u8>,
        /// What is wrong.
        reason: String,
    },
    /// The lines contradict each other.
    Whole {
        /// What is wrong.
        reason: String,
    },
    /// A file cannot be read.
    Open {
        /// The file.
        path: PathBuf,
        /// The system's text.
        reason: String,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const HEAD: &str =
            concat!("\n*** FATAL CONFIG FILE ERROR (Sexton ", env!("CARGO_PKG_VERSION"), ") ***\n");
        match self {
            ConfigError::Line { included, line, text, reason } => {
                write!(f, "{HEAD}Reading the configuration file")?;
                if let Some(path) = included {
                    write!(f, " '{}'", path.display())?;
                }
                let text = String::from_utf8_lossy(text);
                write!(f, ", at line {line}\n>>> '{text}'\n{reason}")
            }
            ConfigError::Whole { reason } => write!(f, "{HEAD}{reason}"),
            ConfigError::Open { path, reason } => {
                write!(f, "Fatal error, can't open config file '{}': {reason}", path.display())
            }
        }
    }
}

impl std::error::Error for ConfigError {}

/// Why CONFIG SET changed nothing. `Display` is the reply with its prefix (`ERR ...`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SetError {
    /// No such directive.
    Unknown(Vec<u8>),
    /// A directive that cannot change while a data set is loaded.
    Loading,
    /// A value is wrong, or the directive cannot be changed.
    Failed {
        /// The directive.
        name: String,
        /// Redis' reason.
        reason: String,
    },
}

impl SetError {
    /// The error of a side effect that failed after the values were set (a port in use).
    pub fn apply(name: &str, reason: impl Into<String>) -> SetError {
        SetError::Failed { name: name.to_owned(), reason: reason.into() }
    }
}

impl fmt::Display for SetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SetError::Unknown(name) => {
                let name = String::from_utf8_lossy(name);
                write!(f, "ERR Unknown option or number of arguments for CONFIG SET - '{name}'")
            }
            SetError::Loading => write!(f, "LOADING Redis is loading the dataset in memory"),
            SetError::Failed { name, reason } => write!(
                f,
                "ERR CONFIG SET failed (possibly related to argument '{name}') - {reason}"
            ),
        }
    }
}

impl std::error::Error for SetError {}

/// Why CONFIG REWRITE failed. `Display` is the reply with its prefix.
#[derive(Debug)]
pub enum RewriteError {
    /// The server runs without a configuration file.
    NoFile,
    /// The file could not be read, written, synced or renamed.
    Io {
        /// The configuration file.
        path: PathBuf,
        /// What failed.
        error: std::io::Error,
    },
}

impl fmt::Display for RewriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RewriteError::NoFile => write!(f, "ERR The server is running without a config file"),
            RewriteError::Io { path, error } => {
                write!(f, "ERR Rewriting config file {}: {error}", path.display())
            }
        }
    }
}

impl std::error::Error for RewriteError {}

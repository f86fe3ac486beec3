//! Error replies with Redis' own texts.

use std::borrow::Cow;
use std::fmt;

/// A command either wrote its reply, or failed with an error reply.
pub type CommandResult = Result<(), CommandError>;

/// An error reply; `Display` gives the text behind the `-`, prefix included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandError {
    /// The key holds another type.
    WrongType,
    /// `ERR syntax error`.
    Syntax,
    /// `ERR value is not an integer or out of range`.
    NotInteger,
    /// `ERR value is not a valid float`.
    NotFloat,
    /// `ERR increment or decrement would overflow`.
    Overflow,
    /// `ERR no such key`.
    NoSuchKey,
    /// `ERR index out of range`.
    IndexOutOfRange,
    /// `ERR invalid expire time in 'NAME' command`.
    InvalidExpire(&'static str),
    /// Any other text, with its prefix.
    Text(Cow<'static, str>),
}

impl CommandError {
    /// An error with a fixed text.
    #[must_use]
    pub const fn text(text: &'static str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl From<String> for CommandError {
    fn from(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WrongType => {
                f.write_str("WRONGTYPE Operation against a key holding the wrong kind of value")
            }
            Self::Syntax => f.write_str("ERR syntax error"),
            Self::NotInteger => f.write_str("ERR value is not an integer or out of range"),
            Self::NotFloat => f.write_str("ERR value is not a valid float"),
            Self::Overflow => f.write_str("ERR increment or decrement would overflow"),
            Self::NoSuchKey => f.write_str("ERR no such key"),
            Self::IndexOutOfRange => f.write_str("ERR index out of range"),
            Self::InvalidExpire(command) => {
                write!(f, "ERR invalid expire time in '{command}' command")
            }
            Self::Text(text) => f.write_str(text),
        }
    }
}

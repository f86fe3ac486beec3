//! Error replies with Redis' own texts.

use crate::keyspace::WrongType;
use std::borrow::Cow;
use std::fmt;

/// The error for a request that memory does not allow.
pub const OUT_OF_MEMORY: &str = "OOM command not allowed when used memory > 'maxmemory'.";

/// A command either wrote its reply, or failed with an error reply.
pub type CommandResult = Result<(), CommandError>;

/// An error reply; `Display` writes the text after the `-`, including the prefix.
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
    /// A text with an argument in it, which need not be UTF-8.
    Quoting(&'static str, Box<[u8]>, &'static str),
    /// Any other text, with its prefix.
    Text(Cow<'static, str>),
}

impl CommandError {
    /// An error with a fixed text.
    #[must_use]
    pub const fn text(text: &'static str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }

    /// A text that shows an argument as C's `%s` does: not beyond a NUL.
    #[must_use]
    pub fn quoting(before: &'static str, argument: &[u8], after: &'static str) -> Self {
        let end = argument.iter().position(|&byte| byte == 0).unwrap_or(argument.len());
        Self::Quoting(before, argument[..end].into(), after)
    }

    /// The text as it is sent.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Quoting(before, argument, after) => {
                [before.as_bytes(), argument, after.as_bytes()].concat()
            }
            other => other.to_string().into_bytes(),
        }
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
            Self::Quoting(before, argument, after) => {
                write!(f, "{before}{}{after}", String::from_utf8_lossy(argument))
            }
            Self::Text(text) => f.write_str(text),
        }
    }
}

impl From<WrongType> for CommandError {
    fn from(_: WrongType) -> Self {
        Self::WrongType
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_is_shown_byte_by_byte_up_to_a_nul() {
        let error = CommandError::quoting("ERR Unsupported option ", b"\xff\xfe\0rest", "!");
        assert_eq!(error.bytes(), b"ERR Unsupported option \xff\xfe!");
        assert_eq!(CommandError::Syntax.bytes(), b"ERR syntax error");
    }
}

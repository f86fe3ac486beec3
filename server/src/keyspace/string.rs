//! Strings: values of type string, and their stored form.

use super::lookup::Kind;
use crate::value::{self, FLOAT_STRING, PLAIN_STRING, RAW_STRING, ValueType};
use sexton_engine::{Entry, Meta};

/// The type of strings, for a look-up.
#[derive(Clone, Copy, Debug)]
pub struct Strings;

impl Kind for Strings {
    const TYPE: ValueType = ValueType::String;
    type View<'v> = StringView<'v>;

    fn view(entry: Entry<'_>) -> Option<StringView<'_>> {
        StringView::of(entry)
    }
}

/// The string that a key holds.
#[derive(Clone, Copy)]
pub struct StringView<'v>(Entry<'v>);

impl<'v> StringView<'v> {
    /// `None` for a value of another type, and for a string in pages.
    #[inline]
    #[must_use]
    pub fn of(entry: Entry<'v>) -> Option<Self> {
        value::is_whole_string(entry.meta().flags).then_some(Self(entry))
    }

    /// Its bytes.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> &'v [u8] {
        self.0.value()
    }

    /// When it expires, in milliseconds since the epoch; 0 for never.
    #[must_use]
    pub fn expire_at_ms(&self) -> u64 {
        self.0.meta().expire_at_ms
    }

    /// The record's flags and expiry.
    #[must_use]
    pub fn meta(&self) -> Meta {
        self.0.meta()
    }

    /// What OBJECT ENCODING answers.
    #[must_use]
    pub fn encoding(&self) -> &'static str {
        value::string_encoding(self.0.meta().flags, self.bytes())
    }

    /// True when it was written whole, and not edited or as the sum of floats since.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.0.meta().flags == PLAIN_STRING
    }
}

/// How a string was created, which OBJECT ENCODING shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// As a whole.
    Whole,
    /// By an edit of a part.
    Edited,
    /// As the sum of floats.
    Float,
}

impl Written {
    /// The record's flags and expiry (0: none).
    #[inline]
    #[must_use]
    pub const fn expiring_at(self, expire_at_ms: u64) -> Meta {
        let flags = match self {
            Self::Whole => PLAIN_STRING,
            Self::Edited => PLAIN_STRING | RAW_STRING,
            Self::Float => FLOAT_STRING,
        };
        Meta { flags, expire_at_ms }
    }
}

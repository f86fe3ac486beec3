//! Elements of collections, which are written one by one.

use super::value::code;
use super::{StringOptions, write_string};

/// The collections whose elements can be written one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectionKind {
    /// Of [`Element::Item`].
    List,
    /// Of [`Element::Item`].
    Set,
    /// Of [`Element::Scored`].
    SortedSet,
    /// Of [`Element::Field`].
    Hash,
    /// Of [`Element::Timed`]. Needs a file of [`FIELD_TIMES_VERSION`](super::FIELD_TIMES_VERSION).
    ExpiringHash,
}

impl CollectionKind {
    /// The type byte it is written with.
    pub(super) fn code(self) -> u8 {
        match self {
            Self::List => code::LIST,
            Self::Set => code::SET,
            Self::SortedSet => code::ZSET_2,
            Self::Hash => code::HASH,
            Self::ExpiringHash => code::HASH_TTL_22,
        }
    }
}

/// One element of a collection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Element<'e> {
    /// Of a list or a set.
    Item(&'e [u8]),
    /// A member of a sorted set and its score.
    Scored(&'e [u8], f64),
    /// A field of a hash and its value.
    Field(&'e [u8], &'e [u8]),
    /// A field of a hash of which some expire, its value, and when it expires, in ms since the epoch; 0 for never.
    Timed(&'e [u8], &'e [u8], u64),
}

/// The time of a field that does not expire.
const NEVER: i64 = -1;

impl Element<'_> {
    /// Appends its bytes.
    pub(super) fn write(&self, out: &mut Vec<u8>, options: StringOptions) {
        match *self {
            Self::Item(item) => write_string(out, item, options),
            Self::Scored(member, score) => {
                write_string(out, member, options);
                out.extend_from_slice(&score.to_le_bytes());
            }
            Self::Field(field, value) => {
                write_string(out, field, options);
                write_string(out, value, options);
            }
            Self::Timed(field, value, expire_at_ms) => {
                write_string(out, field, options);
                write_string(out, value, options);
                let time = if expire_at_ms == 0 { NEVER } else { expire_at_ms as i64 };
                out.extend_from_slice(&time.to_le_bytes());
            }
        }
    }
}

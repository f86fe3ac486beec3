//! The type of a value as the engine stores it: the five bits of `Meta::flags`.
//!
//! Bits 0 to 3 hold the type (strings have three numbers, hashes two). Bit 4 says that a string was edited in place, and of
//! everything else that it lies in pages. Only this file and the engine know these bits.

pub mod thresholds;

/// Longest string that Redis keeps in one allocation with its object (`embstr`), in bytes.
const EMBSTR_MAX_BYTES: usize = 44;

const TYPE_MASK: u8 = 0b0_1111;

/// Set on strings that were written by APPEND, SETRANGE or a bit command: OBJECT ENCODING answers
/// `raw` for them regardless of their content, as in Redis.
pub const RAW_STRING: u8 = 0b1_0000;

/// Flags of a plain string.
pub const PLAIN_STRING: u8 = ValueType::String as u8;

/// Flags of a string that INCRBYFLOAT wrote: Redis keeps it as text (`embstr`) even where it looks like
/// an integer, until the next write.
pub const FLOAT_STRING: u8 = 0b0_1111;

/// Type of a string that lies in pages, where bit 4 says so.
pub const PAGED_STRING: u8 = 6;

/// Flags of a hash with fields that expire: the engine knows them, too.
pub const EXPIRING_HASH: u8 = sexton_engine::Meta::DUE_ELEMENTS;

/// Type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ValueType {
    /// A byte string.
    String = 0,
    /// A list.
    List = 1,
    /// A set.
    Set = 2,
    /// A sorted set.
    SortedSet = 3,
    /// A hash.
    Hash = 4,
    /// A stream.
    Stream = 5,
}

impl ValueType {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::String, Self::List, Self::Set, Self::SortedSet, Self::Hash, Self::Stream];

    /// The type in `Meta::flags`; `None` for bits that no version of Sexton has written.
    #[must_use]
    pub fn of(flags: u8) -> Option<Self> {
        Some(match flags & TYPE_MASK {
            0 | PAGED_STRING | FLOAT_STRING => Self::String,
            1 => Self::List,
            2 => Self::Set,
            3 => Self::SortedSet,
            4 | EXPIRING_HASH => Self::Hash,
            5 => Self::Stream,
            _ => return None,
        })
    }

    /// The name that TYPE answers and SCAN's TYPE takes.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::List => "list",
            Self::Set => "set",
            Self::SortedSet => "zset",
            Self::Hash => "hash",
            Self::Stream => "stream",
        }
    }
}

/// True for the flags of a string that lies whole in its record.
#[inline]
#[must_use]
pub fn is_whole_string(flags: u8) -> bool {
    matches!(flags & TYPE_MASK, PLAIN_STRING | FLOAT_STRING)
}

/// What OBJECT ENCODING answers for a string.
#[must_use]
pub fn string_encoding(flags: u8, value: &[u8]) -> &'static str {
    if flags & RAW_STRING != 0 {
        "raw"
    } else if flags != FLOAT_STRING && crate::number::parse_i64(value).is_some() {
        "int"
    } else if value.len() <= EMBSTR_MAX_BYTES {
        "embstr"
    } else {
        "raw"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoding_follows_content_unless_edited() {
        assert_eq!(string_encoding(PLAIN_STRING, b"12"), "int");
        assert_eq!(string_encoding(PLAIN_STRING, b"012"), "embstr");
        assert_eq!(string_encoding(PLAIN_STRING, &[b'x'; 44]), "embstr");
        assert_eq!(string_encoding(PLAIN_STRING, &[b'x'; 45]), "raw");
        assert_eq!(string_encoding(RAW_STRING, b"12"), "raw");
        assert_eq!(string_encoding(FLOAT_STRING, b"12"), "embstr");
    }

    #[test]
    fn every_type_is_found_again_in_its_flags() {
        for flags in 0..6 {
            let value_type = ValueType::of(flags | RAW_STRING).unwrap();
            assert_eq!(value_type as u8, flags);
        }
        assert_eq!(ValueType::of(EXPIRING_HASH), Some(ValueType::Hash));
        assert_eq!(ValueType::of(PAGED_STRING), Some(ValueType::String));
        assert_eq!(ValueType::of(8), None);
    }
}

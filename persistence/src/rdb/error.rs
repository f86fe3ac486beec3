//! What can be wrong with RDB bytes.

use std::fmt;

/// Why RDB bytes cannot be decoded; offsets are in bytes from the start of the input.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RdbError {
    /// The input ends too early.
    Truncated {
        /// Where bytes were wanted.
        at: u64,
        /// How many.
        wanted: u64,
        /// How many there were.
        left: u64,
    },
    /// The source cannot be read.
    Read {
        /// Where.
        at: u64,
        /// What the system says.
        reason: String,
    },
    /// A length or an encoding byte that does not exist or does not belong here.
    BadLength {
        /// Its offset.
        at: u64,
        /// The first byte.
        found: u8,
    },
    /// LZF data that is damaged or does not have the announced size.
    BadLzf {
        /// Where the compressed bytes start.
        at: u64,
    },
    /// Compressed strings that unpack to more than the reader allows.
    TooLarge {
        /// Offset of the first one beyond the limit.
        at: u64,
        /// What it announces.
        bytes: u64,
    },
    /// A ziplist, listpack, intset or zipmap that is damaged.
    BadPacked {
        /// Which of them, in Redis' words.
        format: &'static str,
        /// Offset in it.
        at: usize,
    },
    /// A value whose parts are whole but do not fit together.
    BadValue {
        /// What does not fit.
        reason: &'static str,
    },
    /// Something else where a function library is wanted.
    NoFunction {
        /// Its first byte.
        found: u8,
    },
    /// The input does not start like an RDB file.
    NotRdb,
    /// A version that is newer than ours.
    Version {
        /// Its number.
        found: u16,
    },
    /// The CRC-64 is another than announced.
    Checksum {
        /// As written.
        announced: u64,
        /// As computed.
        computed: u64,
    },
    /// A type of value that cannot be decoded.
    UnknownType {
        /// The type byte.
        found: u8,
    },
    /// A type or opcode that is known and cannot be decoded.
    Unsupported {
        /// What it is called.
        name: &'static str,
    },
    /// A key's value cannot be decoded.
    InKey {
        /// The key.
        key: Vec<u8>,
        /// Where its value starts.
        at: u64,
        /// Why.
        error: Box<RdbError>,
    },
}

impl fmt::Display for RdbError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { at, wanted, left } => {
                write!(f, "at offset {at}: {wanted} bytes wanted, {left} left")
            }
            Self::Read { at, reason } => write!(f, "at offset {at}: {reason}"),
            Self::BadLength { at, found } => {
                write!(f, "at offset {at}: {found:#04x} is no length that fits here")
            }
            Self::BadLzf { at } => write!(f, "at offset {at}: damaged LZF data"),
            Self::TooLarge { at, bytes } => {
                write!(f, "at offset {at}: {bytes} bytes once unpacked, more than is allowed")
            }
            Self::BadPacked { format, at } => {
                write!(f, "{format} integrity check failed (its byte {at})")
            }
            Self::BadValue { reason } => f.write_str(reason),
            Self::NoFunction { found } => write!(f, "type {found} is not a function library"),
            Self::NotRdb => f.write_str("Wrong signature trying to load DB from file"),
            Self::Version { found } => write!(f, "Can't handle RDB format version {found}"),
            Self::Checksum { announced, computed } => {
                write!(
                    f,
                    "RDB CRC error: CRC-64 is {computed:#018x}, announced is {announced:#018x}"
                )
            }
            Self::UnknownType { found } => write!(f, "unknown type {found}"),
            Self::Unsupported { name } => write!(f, "{name} cannot be read"),
            Self::InKey { key, at, error } => {
                let key = key.escape_ascii();
                write!(f, "value of key '{key}' at offset {at}: {error}")
            }
        }
    }
}

impl std::error::Error for RdbError {}

//! What can be wrong with RDB bytes.

use std::fmt;

/// Why RDB bytes cannot be decoded; offsets are in bytes from the start of the input.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RdbError {
    /// The input ends too early.
    Truncated {
        /// Where bytes were wanted.
        at: usize,
        /// How many.
        wanted: usize,
        /// How many there were.
        left: usize,
    },
    /// A length or an encoding byte that does not exist or does not belong here.
    BadLength {
        /// Where it stands.
        at: usize,
        /// The first byte.
        found: u8,
    },
    /// LZF data that is damaged or does not have the announced size.
    BadLzf {
        /// Where the compressed bytes start.
        at: usize,
    },
    /// A DUMP payload of a newer version.
    Version {
        /// Its version.
        found: u16,
    },
    /// A DUMP payload whose CRC-64 is another than announced.
    Checksum {
        /// As written in the payload.
        announced: u64,
        /// As computed.
        computed: u64,
    },
    /// A type of value that cannot be decoded (yet).
    UnknownType {
        /// The type byte.
        found: u8,
    },
}

impl fmt::Display for RdbError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { at, wanted, left } => {
                write!(f, "at offset {at}: {wanted} bytes wanted, {left} left")
            }
            Self::BadLength { at, found } => {
                write!(f, "at offset {at}: {found:#04x} is no length that fits here")
            }
            Self::BadLzf { at } => write!(f, "at offset {at}: damaged LZF data"),
            Self::Version { found } => write!(f, "version {found} is newer than this server"),
            Self::Checksum { announced, computed } => {
                write!(f, "CRC-64 is {computed:#018x}, the payload says {announced:#018x}")
            }
            Self::UnknownType { found } => write!(f, "type {found} cannot be read"),
        }
    }
}

impl std::error::Error for RdbError {}

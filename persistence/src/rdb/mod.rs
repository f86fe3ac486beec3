//! Redis' RDB encoding: lengths, strings and DUMP payloads.
//!
//! Written as Redis 7.0 writes it (version 10), byte for byte, LZF included; read up to version 12
//! where the types allow it. Every length is checked against the bytes that are left before
//! anything is allocated.

mod dump;
mod error;
mod length;
pub mod lzf;
mod string;

pub use dump::{DumpType, check_payload, finish_payload};
pub use error::RdbError;
pub use length::{Length, read_length, write_length};
pub use string::{StringOptions, read_string, write_string};

/// Version that is written.
pub const RDB_VERSION: u16 = 10;

/// Newest version of Redis' own numbering that is understood.
pub const RDB_VERSION_MAX: u16 = 12;

/// Bytes being decoded, with the position for error messages.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Input<'a> {
    /// Starts at the first byte.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Offset of the next byte.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.at
    }

    /// Bytes that are left.
    #[must_use]
    pub fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Takes the next `count` bytes.
    ///
    /// # Errors
    /// Fewer are left.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], RdbError> {
        if count > self.left() {
            return Err(RdbError::Truncated { at: self.at, wanted: count, left: self.left() });
        }
        let taken = &self.bytes[self.at..self.at + count];
        self.at += count;
        Ok(taken)
    }

    /// Takes a fixed number of bytes.
    ///
    /// # Errors
    /// Fewer are left.
    pub fn take_array<const N: usize>(&mut self) -> Result<[u8; N], RdbError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }
}

//! Bytes being decoded, from memory or from a file, with position, checksum and a bound.

use super::RdbError;
use crate::checksum::Crc64;
use std::fmt;
use std::io::{self, Read};

/// Bytes read from the source at once.
const BUFFER_BYTES: usize = 64 << 10;

/// Memory grows by at most this much before the bytes for it have arrived: a length that lies costs
/// no more.
const STEP_BYTES: usize = 1 << 20;

/// A source of bytes. It never gives out more than the announced size, and nothing is allocated for bytes
/// that are not there.
pub struct Input<'a> {
    source: Box<dyn Read + 'a>,
    /// What was read from the source: filled up to `filled`, used up to `at`, summed up to `summed`.
    buffer: Vec<u8>,
    filled: usize,
    at: usize,
    summed: usize,
    /// Offset of `buffer[0]`.
    base: u64,
    size: u64,
    crc: Crc64,
    /// What compressed strings may still unpack to, in bytes.
    unpacked_left: u64,
}

impl fmt::Debug for Input<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Input").field("offset", &self.offset()).field("size", &self.size).finish()
    }
}

impl<'a> Input<'a> {
    /// Decodes bytes in memory.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self::stream(bytes, bytes.len() as u64)
    }

    /// Decodes at most `size` bytes of a source; `u64::MAX` when its length is not known.
    #[must_use]
    pub fn stream(source: impl Read + 'a, size: u64) -> Self {
        Self {
            source: Box::new(source),
            buffer: vec![0; BUFFER_BYTES.min(usize::try_from(size).unwrap_or(BUFFER_BYTES))],
            filled: 0,
            at: 0,
            summed: 0,
            base: 0,
            size,
            crc: Crc64::new(),
            unpacked_left: u64::MAX,
        }
    }

    /// Refuses compressed strings that announce more than `bytes` together, before they are unpacked.
    #[must_use]
    pub fn unpacking_at_most(self, bytes: u64) -> Self {
        Self { unpacked_left: bytes, ..self }
    }

    /// Accounts for a compressed string that is about to be unpacked to `bytes` bytes.
    pub(super) fn unpack(&mut self, bytes: u64) -> Result<(), RdbError> {
        let too_large = RdbError::TooLarge { at: self.offset(), bytes };
        self.unpacked_left = self.unpacked_left.checked_sub(bytes).ok_or(too_large)?;
        Ok(())
    }

    /// Offset of the next byte.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.base + self.at as u64
    }

    /// Bytes that are left, at most.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.size - self.offset()
    }

    /// Announced size, in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// CRC-64 of everything taken so far.
    pub fn crc64(&mut self) -> u64 {
        self.sum();
        self.crc.finish()
    }

    fn sum(&mut self) {
        self.crc.update(&self.buffer[self.summed..self.at]);
        self.summed = self.at;
    }

    fn truncated(&self, wanted: u64, left: u64) -> RdbError {
        RdbError::Truncated { at: self.offset(), wanted, left }
    }

    /// Reads on when the buffer is used up; false at the end of the source.
    fn refill(&mut self) -> Result<bool, RdbError> {
        self.sum();
        self.base += self.at as u64;
        (self.at, self.summed, self.filled) = (0, 0, 0);
        let want = self.buffer.len().min(usize::try_from(self.left()).unwrap_or(usize::MAX));
        let read = loop {
            match self.source.read(&mut self.buffer[..want]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        self.filled =
            read.map_err(|error| RdbError::Read { at: self.offset(), reason: error.to_string() })?;
        Ok(self.filled > 0)
    }

    /// Fills `out` with the next bytes.
    fn fill(&mut self, out: &mut [u8]) -> Result<(), RdbError> {
        let mut done = 0;
        while done < out.len() {
            if self.at == self.filled && !self.refill()? {
                let wanted = (out.len() - done) as u64;
                return Err(self.truncated(wanted, 0));
            }
            let part = (out.len() - done).min(self.filled - self.at);
            out[done..done + part].copy_from_slice(&self.buffer[self.at..self.at + part]);
            self.at += part;
            done += part;
        }
        Ok(())
    }

    /// Takes the next `count` bytes.
    ///
    /// # Errors
    /// Fewer are left, or the source fails.
    pub fn take(&mut self, count: u64) -> Result<Vec<u8>, RdbError> {
        if count > self.left() {
            return Err(self.truncated(count, self.left()));
        }
        let count = usize::try_from(count).map_err(|_| self.truncated(count, self.left()))?;
        let mut out = Vec::with_capacity(count.min(STEP_BYTES));
        while out.len() < count {
            let (from, step) = (out.len(), STEP_BYTES.min(count - out.len()));
            out.resize(from + step, 0);
            self.fill(&mut out[from..])?;
        }
        Ok(out)
    }

    /// Passes over `count` bytes.
    ///
    /// # Errors
    /// Fewer are left, or the source fails.
    pub fn skip(&mut self, mut count: u64) -> Result<(), RdbError> {
        while count > 0 {
            if self.at == self.filled && (count > self.left() || !self.refill()?) {
                return Err(self.truncated(count, self.left()));
            }
            let part = count.min((self.filled - self.at) as u64);
            self.at += part as usize;
            count -= part;
        }
        Ok(())
    }

    /// Takes a fixed number of bytes.
    ///
    /// # Errors
    /// Fewer are left, or the source fails.
    pub fn take_array<const N: usize>(&mut self) -> Result<[u8; N], RdbError> {
        if N as u64 > self.left() {
            return Err(self.truncated(N as u64, self.left()));
        }
        let mut array = [0; N];
        self.fill(&mut array)?;
        Ok(array)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives one byte at a time, as a slow socket would.
    struct Drip<'a>(&'a [u8]);

    impl Read for Drip<'_> {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            self.0.read(&mut buf[..1])
        }
    }

    #[test]
    fn pieces_are_put_together_and_summed() {
        let bytes: Vec<u8> = (0..=255).cycle().take(200_000).collect();
        let mut input = Input::new(&bytes);
        let mut drip = Input::stream(Drip(&bytes), bytes.len() as u64);
        for input in [&mut input, &mut drip] {
            assert_eq!(input.take_array(), Ok([0, 1, 2]));
            assert_eq!(input.take(1_000).unwrap(), bytes[3..1_003]);
            input.skip(500).unwrap();
            assert_eq!(input.crc64(), crate::checksum::crc64(&bytes[..1_503]));
            assert_eq!((input.offset(), input.left()), (1_503, 198_497));
        }
        assert_eq!(input.take(150_000).unwrap(), bytes[1_503..151_503]);
        assert_eq!(input.crc64(), crate::checksum::crc64(&bytes[..151_503]));
    }

    #[test]
    fn a_source_shorter_than_announced_is_no_reason_to_allocate() {
        let mut input = Input::stream(&b"abc"[..], u64::MAX);
        assert_eq!(
            input.take(1 << 40),
            Err(RdbError::Truncated { at: 3, wanted: (1 << 20) - 3, left: 0 })
        );
        let mut input = Input::new(b"abc");
        assert_eq!(input.take(4), Err(RdbError::Truncated { at: 0, wanted: 4, left: 3 }));
        assert_eq!(input.skip(4), Err(RdbError::Truncated { at: 0, wanted: 4, left: 3 }));
    }
}

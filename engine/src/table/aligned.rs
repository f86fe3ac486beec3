//! Memory whose start suits transfers past the page cache.

use super::work_memory::Counted;
use sexton_persistence::device::UNBUFFERED_ALIGNMENT;

/// A byte buffer that starts at a multiple of [`UNBUFFERED_ALIGNMENT`] in memory.
#[derive(Debug, Default)]
pub(super) struct AlignedBuf {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
    counted: Counted,
}

impl AlignedBuf {
    /// Sets the length. What it held may be lost; new bytes have any value.
    pub(super) fn resize(&mut self, len: usize) {
        let needed = len + UNBUFFERED_ALIGNMENT;
        if self.bytes.len() < needed {
            // The old one goes first: nobody wants its bytes, and there is never one beside the other.
            self.bytes = Vec::new();
            self.bytes = vec![0; needed];
            self.counted.set(self.bytes.capacity());
            let past = self.bytes.as_ptr().addr() % UNBUFFERED_ALIGNMENT;
            self.start = (UNBUFFERED_ALIGNMENT - past) % UNBUFFERED_ALIGNMENT;
        }
        self.len = len;
    }

    /// Gives the memory back when it is more than `bytes_max`; then nothing is left in it.
    pub(super) fn give_up_above(&mut self, bytes_max: usize) {
        if self.bytes.len() > bytes_max {
            *self = Self::default();
        }
    }

    /// Bytes of memory.
    #[cfg(test)]
    pub(super) fn held_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Length in bytes.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The bytes.
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.len]
    }

    /// The bytes, to be written.
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len]
    }
}

/// The largest aligned offset at or below `offset`.
pub(super) fn align_down(offset: u64) -> u64 {
    offset - offset % UNBUFFERED_ALIGNMENT as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_are_aligned_at_every_length() {
        let mut buf = AlignedBuf::default();
        for len in [0, 1, 4095, 4096, 100_000, 7, 1 << 20] {
            buf.resize(len);
            assert_eq!((buf.bytes().len(), buf.bytes_mut().len(), buf.len()), (len, len, len));
            assert_eq!(buf.bytes().as_ptr().addr() % UNBUFFERED_ALIGNMENT, 0);
        }
        assert_eq!((align_down(0), align_down(4095), align_down(8193)), (0, 0, 8192));
    }
}

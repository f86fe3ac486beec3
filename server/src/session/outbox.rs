//! Output that others have for this connection: lines of MONITOR, messages, a copy of the data.
//!
//! Filled from any thread, emptied by the connection's own. Each piece names the write it reports, and
//! is sent once that write is durable (N13), in the order of arrival.

use parking_lot::Mutex;
use sexton_engine::Seq;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Pieces on their way to one connection.
#[derive(Debug, Default)]
pub struct Outbox {
    /// Bytes in `waiting`, so that looking costs no lock.
    bytes: AtomicUsize,
    waiting: Mutex<Parcel>,
}

/// What was taken out of an [`Outbox`].
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Parcel {
    /// The pieces concatenated.
    pub bytes: Vec<u8>,
    /// (position in `bytes`, sequence): what starts there waits for the sequence. Ascending positions.
    pub marks: Vec<(usize, Seq)>,
    /// The connection ends when all of it has been sent.
    pub is_last: bool,
}

impl Outbox {
    /// Adds a piece that waits for `required` (0: for nothing). Returns false without adding it if the outbox would exceed
    /// `max_bytes`.
    #[must_use]
    pub fn push(&self, piece: &[u8], required: Seq, max_bytes: usize) -> bool {
        let mut waiting = self.waiting.lock();
        if waiting.bytes.len() + piece.len() > max_bytes {
            return false;
        }
        if waiting.marks.last().map_or(0, |&(_, last)| last) < required {
            let at = waiting.bytes.len();
            waiting.marks.push((at, required));
        }
        waiting.bytes.extend_from_slice(piece);
        self.bytes.store(waiting.bytes.len(), Ordering::Release);
        true
    }

    /// Adds the last piece before the connection is closed, whatever the size of the outbox.
    pub fn push_last(&self, piece: &[u8]) {
        let mut waiting = self.waiting.lock();
        waiting.bytes.extend_from_slice(piece);
        waiting.is_last = true;
        // Readers must see that there is something, even if the piece is empty.
        self.bytes.store(waiting.bytes.len().max(1), Ordering::Release);
    }

    /// Bytes that wait.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Acquire)
    }

    /// Everything that waits.
    #[must_use]
    pub fn take(&self) -> Parcel {
        let mut waiting = self.waiting.lock();
        self.bytes.store(0, Ordering::Release);
        std::mem::take(&mut *waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_come_out_in_order_with_what_they_wait_for() {
        let outbox = Outbox::default();
        assert!(outbox.push(b"a", 0, 10));
        assert!(outbox.push(b"bb", 7, 10));
        assert!(outbox.push(b"c", 5, 10), "waits for 7 behind the one before it");
        assert!(outbox.push(b"d", 9, 10));
        assert_eq!(outbox.bytes(), 5);
        let marks = vec![(1, 7), (4, 9)];
        let parcel = Parcel { bytes: b"abbcd".to_vec(), marks, is_last: false };
        assert_eq!(outbox.take(), parcel);
        assert_eq!((outbox.bytes(), outbox.take()), (0, Parcel::default()));
    }

    #[test]
    fn what_does_not_fit_is_left_out_whole() {
        let outbox = Outbox::default();
        assert!(outbox.push(b"12345", 0, 8));
        assert!(!outbox.push(b"6789", 0, 8));
        assert_eq!(outbox.take().bytes, b"12345");
    }

    #[test]
    fn the_last_piece_always_fits_and_says_that_it_is_the_last() {
        let outbox = Outbox::default();
        assert!(outbox.push(b"12345", 0, 5));
        outbox.push_last(b"6");
        let parcel = outbox.take();
        assert_eq!((parcel.bytes.as_slice(), parcel.is_last), (&b"123456"[..], true));
        outbox.push_last(b"");
        assert_ne!(outbox.bytes(), 0, "the end is something, too");
        assert!(outbox.take().is_last);
    }
}

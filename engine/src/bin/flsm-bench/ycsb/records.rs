//! Which records are there while threads insert more.

use std::sync::atomic::{AtomicU64, Ordering};

/// Nothing is being inserted.
const IDLE: u64 = u64::MAX;

/// Records are numbered from 0; those below [`Records::limit`] are all written.
#[derive(Debug)]
pub(crate) struct Records {
    next: AtomicU64,
    /// By thread: the record it is writing, or one before that.
    writing: Box<[AtomicU64]>,
}

impl Records {
    /// `count` records are there.
    pub(crate) fn new(count: u64, threads: usize) -> Self {
        Self {
            next: AtomicU64::new(count),
            writing: (0..threads).map(|_| AtomicU64::new(IDLE)).collect(),
        }
    }

    /// The number of a new record; to be written before [`Records::written`].
    pub(crate) fn begin(&self, thread: usize) -> u64 {
        // A bound first, so that no reader sees the counter moved on and nobody writing.
        self.writing[thread].store(self.next.load(Ordering::SeqCst), Ordering::SeqCst);
        let number = self.next.fetch_add(1, Ordering::SeqCst);
        self.writing[thread].store(number, Ordering::SeqCst);
        number
    }

    pub(crate) fn written(&self, thread: usize) {
        self.writing[thread].store(IDLE, Ordering::SeqCst);
    }

    /// All records below it can be read.
    pub(crate) fn limit(&self) -> u64 {
        // The counter before the threads: a record begun in between is not below it.
        let next = self.next.load(Ordering::SeqCst);
        let writing = self.writing.iter().map(|number| number.load(Ordering::SeqCst)).min();
        next.min(writing.unwrap_or(IDLE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_stays_below_what_is_being_written() {
        let records = Records::new(10, 2);
        assert_eq!(records.limit(), 10);
        assert_eq!((records.begin(0), records.begin(1)), (10, 11));
        records.written(1);
        assert_eq!(records.limit(), 10, "11 is written and 10 is not");
        records.written(0);
        assert_eq!(records.limit(), 12);
    }
}

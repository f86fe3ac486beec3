//! Determines the sequence up to which everything is durable (M6).

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// No sequence.
const NONE: u64 = u64::MAX;

/// What a writer has begun and not fenced. It has a cache line of its own: writers must not take it from each
/// other.
#[derive(Debug)]
#[repr(align(64))]
struct Place {
    /// The oldest such sequence that `durable` waits for.
    first: AtomicU64,
    /// The oldest such sequence, also of those that a flush has made durable meanwhile.
    unfenced: AtomicU64,
    /// The youngest sequence that it ever began.
    last: AtomicU64,
}

/// The oldest sequence of each writer that is not behind its fence, and the last one handed out.
///
/// A writer notes its own sequence before it makes that the last one, both in the critical section that hands
/// out sequences. Whoever reads the last one, and then the places, therefore finds in them every sequence up to
/// that one that is not durable, or a later one of its writer.
#[derive(Debug)]
pub(super) struct Watermark {
    places: Box<[Place]>,
    /// Places from here on were never used.
    used_places: AtomicUsize,
    last: AtomicU64,
    /// Durable by other means: a flush that was installed.
    floor: AtomicU64,
}

impl Watermark {
    /// All up to `last` is durable.
    pub(super) fn new(writers_max: usize, last: u64) -> Self {
        let place = || Place {
            first: AtomicU64::new(NONE),
            unfenced: AtomicU64::new(NONE),
            last: AtomicU64::new(0),
        };
        let places = (0..writers_max).map(|_| place()).collect();
        Self {
            places,
            used_places: AtomicUsize::new(0),
            last: AtomicU64::new(last),
            floor: AtomicU64::new(last),
        }
    }

    /// A writer is given out, before it begins anything: whoever sees what it began sees its place.
    pub(super) fn enlist(&self, writer: u16) {
        self.used_places.fetch_max(usize::from(writer) + 1, Ordering::AcqRel);
    }

    /// How many writers there ever were: those of higher numbers have begun nothing.
    pub(super) fn used(&self) -> usize {
        self.used_places.load(Ordering::Acquire)
    }

    fn used_places(&self) -> &[Place] {
        &self.places[..self.used()]
    }

    /// In the critical section that hands out sequences.
    pub(super) fn begin(&self, writer: u16, first: u64, last: u64) {
        let place = &self.places[usize::from(writer)];
        let oldest = place.first.load(Ordering::Relaxed);
        // What a flush has taken over is not waited for, although its fence failed.
        let settled = place.last.load(Ordering::Relaxed) <= self.floor.load(Ordering::Acquire);
        if oldest == NONE || settled {
            place.first.store(first, Ordering::Release);
        }
        if oldest == NONE {
            place.unfenced.store(first, Ordering::Release);
        }
        place.last.store(last, Ordering::Release);
        self.last.store(last, Ordering::Release);
    }

    /// Everything that the writer has begun is behind its fence.
    pub(super) fn fenced(&self, writer: u16) {
        let place = &self.places[usize::from(writer)];
        if place.first.load(Ordering::Relaxed) != NONE {
            place.unfenced.store(NONE, Ordering::Release);
            place.first.store(NONE, Ordering::Release);
        }
    }

    /// Everything up to `m` is durable by other means.
    pub(super) fn raise_floor(&self, m: u64) {
        self.floor.fetch_max(m, Ordering::AcqRel);
    }

    /// Everything up to here is durable by other means.
    pub(super) fn floor(&self) -> u64 {
        self.floor.load(Ordering::Acquire)
    }

    /// The last sequence handed out.
    pub(super) fn last(&self) -> u64 {
        self.last.load(Ordering::Acquire)
    }

    /// True when no writer but `except` has begun something at or below `m` that is not behind its fence, whatever
    /// else made that durable.
    pub(super) fn is_fenced_through(&self, m: u64, except: u16) -> bool {
        let others =
            self.used_places().iter().enumerate().filter(|(n, _)| *n != usize::from(except));
        others.map(|(_, place)| place.unfenced.load(Ordering::Acquire)).all(|first| first > m)
    }

    /// The last sequence that is durable with all before it.
    pub(super) fn durable(&self) -> u64 {
        let mut durable = self.last();
        let floor = self.floor.load(Ordering::Acquire);
        for place in self.used_places() {
            let first = place.first.load(Ordering::Acquire);
            if first != NONE && place.last.load(Ordering::Acquire) > floor {
                durable = durable.min(first - 1);
            }
        }
        durable.max(floor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With `writers` writers.
    fn watermark(writers: u16) -> Watermark {
        let watermark = Watermark::new(8, 10);
        (0..writers).for_each(|writer| watermark.enlist(writer));
        watermark
    }

    #[test]
    fn stays_below_the_oldest_sequence_that_is_not_fenced() {
        let watermark = watermark(3);
        assert_eq!(watermark.durable(), 10);
        watermark.begin(0, 11, 12);
        watermark.begin(2, 13, 13);
        watermark.begin(0, 14, 14);
        assert_eq!(watermark.durable(), 10);
        watermark.fenced(2);
        assert_eq!(watermark.durable(), 10);
        watermark.begin(2, 15, 15);
        watermark.fenced(0);
        assert_eq!((watermark.durable(), watermark.last()), (14, 15));
        watermark.fenced(2);
        assert_eq!(watermark.durable(), 15);
    }

    #[test]
    fn a_flush_covers_a_fence_that_failed() {
        let watermark = watermark(2);
        watermark.begin(0, 11, 11);
        watermark.begin(1, 12, 12);
        watermark.fenced(1);
        assert_eq!(watermark.durable(), 10);
        watermark.raise_floor(11);
        assert_eq!(watermark.durable(), 12);
        watermark.begin(0, 13, 13);
        assert_eq!(watermark.durable(), 12, "not taken for settled with the one before");
        watermark.fenced(0);
        assert_eq!(watermark.durable(), 13);
    }

    #[test]
    fn a_flush_makes_durable_and_does_not_fence() {
        let watermark = watermark(3);
        watermark.begin(0, 11, 11);
        watermark.begin(1, 12, 12);
        watermark.begin(2, 13, 13);
        watermark.raise_floor(12);
        assert!(!watermark.is_fenced_through(12, 1));
        watermark.begin(0, 14, 14);
        assert_eq!(watermark.durable(), 12, "what is settled is not waited for");
        assert!(!watermark.is_fenced_through(12, 1), "and was not fenced for all that");
        watermark.fenced(0);
        assert!(watermark.is_fenced_through(12, 1));
        assert!(!watermark.is_fenced_through(12, 0));
        assert!(!watermark.is_fenced_through(13, 1));
    }

    #[test]
    fn a_flush_in_the_middle_of_a_batch_covers_only_what_it_holds() {
        let watermark = watermark(1);
        watermark.begin(0, 11, 11);
        watermark.begin(0, 12, 12);
        watermark.raise_floor(11);
        assert_eq!(watermark.durable(), 11);
        watermark.begin(0, 13, 13);
        assert_eq!(watermark.durable(), 11);
        watermark.fenced(0);
        assert_eq!(watermark.durable(), 13);
    }
}

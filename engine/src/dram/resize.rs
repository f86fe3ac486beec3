//! Growing and shrinking: a table has two arrays of buckets meanwhile, and each change moves a few entries.

use super::buckets::{BucketArray, LANES, MIN_LOG2, Place};
use super::table::{Emptying, Table};
use crate::key;

/// Buckets are doubled when entries fill more than this share of the lanes.
const LOAD_MAX: (usize, usize) = (85, 100);
/// And made fewer below this share.
const LOAD_MIN: (usize, usize) = (20, 100);
/// Buckets with entries that a mutation moves while a resize runs, and empty ones it may pass.
const STEP_BUCKETS: usize = 2;
const STEP_EMPTY_BUCKETS: usize = 64;

impl Table {
    fn lanes(buckets: usize, (share, of): (usize, usize)) -> usize {
        buckets * LANES / of * share
    }

    /// Sees to it that one more entry fits.
    pub(super) fn make_room(&mut self) {
        if self.len() >= Self::lanes(self.current.buckets(), LOAD_MAX) {
            self.finish_resize();
            self.resize(self.current.log2() + 1);
        }
    }

    /// Begins a resize to fewer buckets when entries have become few.
    pub(super) fn shrink(&mut self) {
        if self.old.is_some()
            || self.current.log2() == MIN_LOG2
            || self.len() >= Self::lanes(self.current.buckets(), LOAD_MIN)
        {
            return;
        }
        let buckets = (2 * self.len()).div_ceil(LANES).max(1).next_power_of_two();
        self.resize(buckets.ilog2());
    }

    fn resize(&mut self, log2: u32) {
        let array = std::mem::replace(&mut self.current, BucketArray::new(log2));
        self.old = Some(Emptying { array, cursor: 0 });
        self.moves += 1;
        self.resizes += 1;
        self.publish();
    }

    fn publish(&self) {
        self.hint.publish(&self.current, self.old.as_ref().map(|old| &old.array));
    }

    /// A mutation's share of a running resize.
    pub(super) fn step(&mut self) {
        if self.old.is_some() {
            self.move_buckets(STEP_BUCKETS, STEP_EMPTY_BUCKETS);
        }
    }

    pub(super) fn finish_resize(&mut self) {
        self.move_buckets(usize::MAX, usize::MAX);
    }

    /// Empties some buckets of the old array into the current one.
    pub(super) fn move_buckets(&mut self, mut full: usize, mut empty: usize) {
        let Some(old) = &mut self.old else { return };
        self.moves += 1;
        while old.array.len > 0 && full > 0 && empty > 0 {
            let bucket = old.cursor;
            let before = old.array.len;
            for lane in 0..LANES {
                let place = Place { bucket, lane };
                if let Some(entry) = old.array.entry(place) {
                    let hash = key::hash(entry.key());
                    old.array.remove(hash, place);
                    self.current.insert(hash, entry);
                }
            }
            if before == old.array.len {
                empty -= 1;
            } else {
                full -= 1;
            }
            old.cursor += 1;
        }
        if old.array.len == 0 {
            let done = self.old.take();
            self.publish();
            drop(done);
        } else {
            // The entries are asked for now and hashed at the next step.
            let last = (old.cursor + STEP_BUCKETS).min(old.array.buckets());
            (old.cursor..last).for_each(|bucket| old.array.prefetch_entries(bucket));
        }
    }
}

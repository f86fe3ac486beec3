//! Histograms of times, with buckets whose width grows with the value.

use std::sync::atomic::{AtomicU64, Ordering};

/// Buckets of a histogram: eight to each power of two, up to a minute of microseconds and more.
pub const BUCKETS: usize = 8 * 32;

/// Counts of whole numbers, kept for ever or until they are reset.
#[derive(Debug)]
pub struct Histogram {
    counts: Box<[AtomicU64; BUCKETS]>,
    sum: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            counts: Box::new(std::array::from_fn(|_| AtomicU64::new(0))),
            sum: AtomicU64::new(0),
        }
    }
}

impl Histogram {
    /// One more of this value.
    pub fn record(&self, value: u64) {
        self.counts[bucket(value)].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    /// (upper bound, count) of the buckets, empty ones left out.
    #[must_use]
    pub fn counts(&self) -> Vec<(u64, u64)> {
        bounded(self.counts.iter().map(|count| count.load(Ordering::Relaxed)))
    }

    /// The sum of all values.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.sum.load(Ordering::Relaxed)
    }

    /// Forgets everything.
    pub fn reset(&self) {
        self.counts.iter().chain([&self.sum]).for_each(|count| count.store(0, Ordering::Relaxed));
    }
}

/// Each count with the upper bound of its bucket, empty ones left out.
pub fn bounded(counts: impl Iterator<Item = u64>) -> Vec<(u64, u64)> {
    let bounded = counts.enumerate().filter(|(_, count)| *count != 0);
    bounded.map(|(index, count)| (upper_bound(index), count)).collect()
}

/// Values below 16 have buckets of their own; above, each power of two has eight.
#[must_use]
pub fn bucket(time_us: u64) -> usize {
    let bits = u64::BITS - time_us.leading_zeros();
    if bits <= 4 {
        return time_us as usize;
    }
    let index = 8 * (bits as usize - 4) + (time_us >> (bits - 4)) as usize;
    index.min(BUCKETS - 1)
}

/// Highest value that falls into bucket `index`.
#[must_use]
pub fn upper_bound(index: usize) -> u64 {
    if index < 16 {
        return index as u64;
    }
    let shift = index / 8 - 1;
    let lowest = (8 + index as u64 % 8) << shift;
    lowest + (1 << shift) - 1
}

/// Upper bound of the bucket that contains the given percentile.
#[must_use]
pub fn percentile(histogram: &[(u64, u64)], percent: f64) -> u64 {
    let total: u64 = histogram.iter().map(|(_, count)| count).sum();
    let wanted = (total as f64 * percent / 100.0).ceil().max(1.0) as u64;
    let mut sum = 0;
    for (bound, count) in histogram {
        sum += count;
        if sum >= wanted {
            return *bound;
        }
    }
    histogram.last().map_or(0, |(bound, _)| *bound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_in_its_bucket() {
        let mut last = None;
        for value in 0..5_000u64 {
            let index = bucket(value);
            assert!(value <= upper_bound(index), "{value} in bucket {index}");
            if index > 0 {
                assert!(value > upper_bound(index - 1), "{value} in bucket {index}");
            }
            assert!(last.is_none_or(|last| index == last || index == last + 1));
            last = Some(index);
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn percentiles_are_bucket_bounds() {
        let histogram = [(1, 50), (2, 49), (1000, 1)];
        assert_eq!(percentile(&histogram, 50.0), 1);
        assert_eq!(percentile(&histogram, 99.0), 2);
        assert_eq!(percentile(&histogram, 99.9), 1000);
        assert_eq!(percentile(&[], 50.0), 0);
    }
}

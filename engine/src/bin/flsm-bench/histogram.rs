//! Times of single operations, printed as RocksDB prints its histograms.

use std::fmt;

/// Buckets rise by a tenth or less: a percentile is off by at most that much.
const BUCKETS_PER_DOUBLING: usize = 8;
const DOUBLINGS: usize = 44;

/// Counts of durations in buckets of nanoseconds. Its size does not depend on what is added.
#[derive(Clone)]
pub(crate) struct Histogram {
    buckets: Box<[u64]>,
    count: u64,
    sum_ns: u128,
    sum_squares: f64,
    min_ns: u64,
    max_ns: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        let buckets = vec![0; BUCKETS_PER_DOUBLING * DOUBLINGS].into();
        Self { buckets, count: 0, sum_ns: 0, sum_squares: 0.0, min_ns: u64::MAX, max_ns: 0 }
    }
}

/// Bucket of a duration: exponent of two and the three bits behind the leading one.
fn bucket_of(ns: u64) -> usize {
    let ns = ns.max(BUCKETS_PER_DOUBLING as u64);
    let exponent = ns.ilog2() as usize;
    let part = (ns >> (exponent - 3)) as usize & (BUCKETS_PER_DOUBLING - 1);
    ((exponent - 3) * BUCKETS_PER_DOUBLING + part).min(BUCKETS_PER_DOUBLING * DOUBLINGS - 1)
}

/// Where a bucket starts, in nanoseconds.
fn start_of(bucket: usize) -> f64 {
    let (exponent, part) = (bucket / BUCKETS_PER_DOUBLING, bucket % BUCKETS_PER_DOUBLING);
    (BUCKETS_PER_DOUBLING + part) as f64 * 2f64.powi(exponent as i32)
}

impl Histogram {
    #[inline]
    pub(crate) fn add(&mut self, ns: u64) {
        self.buckets[bucket_of(ns)] += 1;
        self.count += 1;
        self.sum_ns += u128::from(ns);
        self.sum_squares += (ns as f64) * (ns as f64);
        self.min_ns = self.min_ns.min(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (into, from) in self.buckets.iter_mut().zip(&other.buckets) {
            *into += from;
        }
        self.count += other.count;
        self.sum_ns += other.sum_ns;
        self.sum_squares += other.sum_squares;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn average_us(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum_ns as f64 / self.count as f64 / 1e3 }
    }

    pub(crate) fn max_us(&self) -> f64 {
        self.max_ns as f64 / 1e3
    }

    /// The duration that `percent` of the operations did not exceed, in microseconds.
    pub(crate) fn percentile_us(&self, percent: f64) -> f64 {
        let wanted = self.count as f64 * percent / 100.0;
        let mut below = 0.0;
        for (bucket, &n) in self.buckets.iter().enumerate().filter(|(_, n)| **n > 0) {
            if below + n as f64 >= wanted {
                let (from, to) = (start_of(bucket), start_of(bucket + 1));
                let ns = from + (to - from) * (wanted - below) / n as f64;
                return ns.clamp(self.min_ns as f64, self.max_ns as f64) / 1e3;
            }
            below += n as f64;
        }
        self.max_us()
    }

    fn deviation_us(&self) -> f64 {
        let mean = self.average_us() * 1e3;
        (self.sum_squares / self.count.max(1) as f64 - mean * mean).max(0.0).sqrt() / 1e3
    }
}

impl fmt::Display for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "Count: {} Average: {:.4}  StdDev: {:.2}",
            self.count,
            self.average_us(),
            self.deviation_us()
        )?;
        let min_us = if self.count == 0 { 0.0 } else { self.min_ns as f64 / 1e3 };
        let median = self.percentile_us(50.0);
        writeln!(f, "Min: {min_us:.2}  Median: {median:.4}  Max: {:.2}", self.max_us())?;
        write!(f, "Percentiles:")?;
        for percent in [50.0, 75.0, 99.0, 99.9, 99.99] {
            write!(f, " P{percent}: {:.2}", self.percentile_us(percent))?;
        }
        writeln!(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_off_by_a_bucket_at_most() {
        let mut histogram = Histogram::default();
        (1..=10_000).for_each(|us| histogram.add(us * 1000));
        for (percent, us) in [(50.0, 5_000.0), (99.0, 9_900.0), (99.9, 9_990.0)] {
            let got = histogram.percentile_us(percent);
            assert!((got - us).abs() < us / 8.0, "P{percent}: {got}");
        }
        assert!((histogram.average_us() - 5000.5).abs() < 1.0);
    }

    #[test]
    fn merged_histograms_are_that_of_all_operations() {
        let (mut a, mut b, mut all) =
            (Histogram::default(), Histogram::default(), Histogram::default());
        for ns in [3, 900, 70_000, 1 << 50] {
            a.add(ns);
            b.add(ns * 2);
            all.add(ns);
            all.add(ns * 2);
        }
        a.merge(&b);
        assert_eq!(a.to_string(), all.to_string());
    }

    #[test]
    fn every_duration_lies_in_its_bucket() {
        for ns in [8, 9, 15, 16, 17, 1000, 123_456_789] {
            let bucket = bucket_of(ns);
            let ns = ns as f64;
            assert!(start_of(bucket) <= ns && ns < start_of(bucket + 1), "{ns}");
        }
    }
}

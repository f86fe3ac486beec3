//! What a device has done, and how long it took.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Buckets of a doubling.
const STEPS: usize = 4;
const BUCKETS: usize = 40 * STEPS;

/// Latencies of one kind of operation, in buckets a quarter of a doubling wide.
#[derive(Debug)]
struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    max_ns: AtomicU64,
    total_ns: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        let buckets = std::array::from_fn(|_| AtomicU64::new(0));
        Self { buckets, max_ns: AtomicU64::new(0), total_ns: AtomicU64::new(0) }
    }
}

fn bucket_of(ns: u64) -> usize {
    let ns = ns.max(STEPS as u64);
    let doubling = ns.ilog2();
    let step = (ns >> (doubling - 2)) as usize & (STEPS - 1);
    ((doubling as usize - 2) * STEPS + step).min(BUCKETS - 1)
}

/// The largest latency of a bucket.
fn bound_ns(bucket: usize) -> u64 {
    let (doubling, step) = (bucket / STEPS + 2, bucket % STEPS);
    ((STEPS + step + 1) as u64) << (doubling - 2)
}

impl Histogram {
    fn note(&self, took: Duration) {
        let ns = took.as_nanos() as u64;
        self.buckets[bucket_of(ns)].fetch_add(1, Ordering::Relaxed);
        self.max_ns.fetch_max(ns, Ordering::Relaxed);
        self.total_ns.fetch_add(ns, Ordering::Relaxed);
    }

    fn latency(&self) -> Latency {
        let counts = self.buckets.each_ref().map(|count| count.load(Ordering::Relaxed));
        let operations: u64 = counts.iter().sum();
        let max_ns = self.max_ns.load(Ordering::Relaxed);
        let percentile = |per_mille: u64| {
            let wanted = (operations * per_mille).div_ceil(1000).max(1);
            let mut sum = 0;
            for (bucket, count) in counts.iter().enumerate() {
                sum += count;
                if sum >= wanted {
                    return bound_ns(bucket).min(max_ns);
                }
            }
            0
        };
        Latency {
            operations,
            total_us: self.total_ns.load(Ordering::Relaxed) / 1000,
            p50_ns: percentile(500),
            p99_ns: percentile(990),
            p999_ns: percentile(999),
            max_ns,
        }
    }
}

/// Latencies of one kind of operation. Percentiles are upper bounds, at most a quarter too high.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Latency {
    /// How many.
    pub operations: u64,
    /// Time spent in all of them.
    pub total_us: u64,
    /// Half took at most this.
    pub p50_ns: u64,
    /// 99 % took at most this.
    pub p99_ns: u64,
    /// 99.9 % took at most this.
    pub p999_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// Figures of one device since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeviceFigures {
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Reads.
    pub reads: Latency,
    /// Writes.
    pub writes: Latency,
    /// Syncs of files and directories.
    pub syncs: Latency,
    /// Operations that failed.
    pub errors: u64,
}

/// Counts what a device does.
#[derive(Debug, Default)]
pub(super) struct Meter {
    read_bytes: AtomicU64,
    written_bytes: AtomicU64,
    errors: AtomicU64,
    reads: Histogram,
    writes: Histogram,
    syncs: Histogram,
}

impl Meter {
    pub(super) fn read(&self, bytes: usize, took: Duration) {
        self.read_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.reads.note(took);
    }

    pub(super) fn wrote(&self, bytes: usize, took: Duration) {
        self.written_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.writes.note(took);
    }

    pub(super) fn synced(&self, took: Duration) {
        self.syncs.note(took);
    }

    pub(super) fn failed(&self) {
        self.errors.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn figures(&self) -> DeviceFigures {
        DeviceFigures {
            read_bytes: self.read_bytes.load(Ordering::Relaxed),
            written_bytes: self.written_bytes.load(Ordering::Relaxed),
            errors: self.errors.load(Ordering::Relaxed),
            reads: self.reads.latency(),
            writes: self.writes.latency(),
            syncs: self.syncs.latency(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_bounds_at_most_a_quarter_too_high() {
        for ns in [1, 4, 5, 7, 8, 100, 999, 1 << 20, (1 << 33) + 12_345] {
            let bound = bound_ns(bucket_of(ns));
            assert!(bound >= ns && bound <= (ns + ns / 4).max(5), "{ns}: {bound}");
        }
        let meter = Meter::default();
        for nth in 1..=1000_u64 {
            meter.wrote(10, Duration::from_micros(nth));
        }
        let figures = meter.figures();
        assert_eq!((figures.writes.operations, figures.written_bytes), (1000, 10_000));
        assert_eq!(figures.writes.total_us, 500_500);
        assert!((500_000..=625_000).contains(&figures.writes.p50_ns), "{figures:?}");
        assert!((990_000..=1_000_000).contains(&figures.writes.p99_ns), "{figures:?}");
        assert_eq!((figures.writes.max_ns, figures.reads), (1_000_000, Latency::default()));
    }
}

//! Calls and times of one command, written by all workers.

use crate::observe::{BUCKETS, bounded, bucket};
use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Each worker writes its own stripe, so that counting does not move cache lines between cores.
const STRIPES: usize = 8;

#[derive(Debug, Default)]
#[repr(align(64))]
struct Stripe {
    calls: AtomicU64,
    time_us: AtomicU64,
    rejected: AtomicU64,
    failed: AtomicU64,
    histogram: OnceLock<Box<[AtomicU64; BUCKETS]>>,
}

impl Stripe {
    fn buckets(&self) -> &[AtomicU64; BUCKETS] {
        self.histogram.get_or_init(|| Box::new(std::array::from_fn(|_| AtomicU64::new(0))))
    }
}

/// The figures of one command for INFO commandstats, INFO latencystats and LATENCY HISTOGRAM.
#[derive(Debug, Default)]
pub struct CommandStats {
    stripes: [Stripe; STRIPES],
}

/// Executions that do not count yet: those of a script, which may run again from its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    totals: Totals,
    /// Executions by bucket of the histogram: those of the bucket that was met last, and all others.
    last: (usize, u64),
    times: BTreeMap<usize, u64>,
}

impl Tally {
    /// One execution took `time_us` microseconds.
    pub fn record(&mut self, time_us: u64, failed: bool) {
        self.totals.calls += 1;
        self.totals.time_us += time_us;
        self.totals.failed += u64::from(failed);
        let bucket = bucket(time_us);
        if self.last.0 != bucket {
            let (before, count) = std::mem::replace(&mut self.last, (bucket, 0));
            if count != 0 {
                *self.times.entry(before).or_default() += count;
            }
        }
        self.last.1 += 1;
    }

    /// One request was refused before execution.
    pub fn reject(&mut self) {
        self.totals.rejected += 1;
    }
}

/// Sums over all stripes at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Executions.
    pub calls: u64,
    /// Time spent in them, in microseconds.
    pub time_us: u64,
    /// Requests refused before execution.
    pub rejected: u64,
    /// Executions that ended with an error reply.
    pub failed: u64,
}

impl CommandStats {
    /// Records one execution on `worker` that took `time_us` microseconds.
    pub fn record(&self, worker: usize, time_us: u64, failed: bool, with_histogram: bool) {
        let stripe = &self.stripes[worker % STRIPES];
        stripe.calls.fetch_add(1, Ordering::Relaxed);
        stripe.time_us.fetch_add(time_us, Ordering::Relaxed);
        if failed {
            stripe.failed.fetch_add(1, Ordering::Relaxed);
        }
        if with_histogram {
            stripe.buckets()[bucket(time_us)].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Records `calls` executions on `worker`, of which `failed` failed. They took `time_us` microseconds in total.
    pub fn record_many(
        &self,
        worker: usize,
        (calls, failed): (u64, u64),
        time_us: u64,
        with_histogram: bool,
    ) {
        let stripe = &self.stripes[worker % STRIPES];
        stripe.calls.fetch_add(calls, Ordering::Relaxed);
        stripe.time_us.fetch_add(time_us, Ordering::Relaxed);
        if failed != 0 {
            stripe.failed.fetch_add(failed, Ordering::Relaxed);
        }
        if with_histogram {
            stripe.buckets()[bucket(time_us / calls.max(1))].fetch_add(calls, Ordering::Relaxed);
        }
    }

    /// What a script has done on `worker` counts.
    pub fn record_tally(&self, worker: usize, tally: &Tally, with_histogram: bool) {
        let stripe = &self.stripes[worker % STRIPES];
        let Totals { calls, time_us, rejected, failed } = tally.totals;
        for (counter, more) in [
            (&stripe.calls, calls),
            (&stripe.time_us, time_us),
            (&stripe.rejected, rejected),
            (&stripe.failed, failed),
        ] {
            counter.fetch_add(more, Ordering::Relaxed);
        }
        if with_histogram {
            let buckets = stripe.buckets();
            let times = tally.times.iter().map(|(&bucket, &count)| (bucket, count));
            for (bucket, count) in times.chain([tally.last]) {
                buckets[bucket].fetch_add(count, Ordering::Relaxed);
            }
        }
    }

    /// One request was refused before execution (arity, authentication, memory, state).
    pub fn reject(&self, worker: usize) {
        self.stripes[worker % STRIPES].rejected.fetch_add(1, Ordering::Relaxed);
    }

    /// Sums of all workers.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.stripes.iter().fold(Totals::default(), |sum, stripe| Totals {
            calls: sum.calls + stripe.calls.load(Ordering::Relaxed),
            time_us: sum.time_us + stripe.time_us.load(Ordering::Relaxed),
            rejected: sum.rejected + stripe.rejected.load(Ordering::Relaxed),
            failed: sum.failed + stripe.failed.load(Ordering::Relaxed),
        })
    }

    /// Histogram of execution times: (upper bound in microseconds, count), empty buckets left out.
    #[must_use]
    pub fn histogram(&self) -> Vec<(u64, u64)> {
        let mut counts = [0; BUCKETS];
        for buckets in self.stripes.iter().filter_map(|stripe| stripe.histogram.get()) {
            for (sum, count) in counts.iter_mut().zip(buckets.iter()) {
                *sum += count.load(Ordering::Relaxed);
            }
        }
        bounded(counts.into_iter())
    }

    /// CONFIG RESETSTAT.
    pub fn reset(&self) {
        for stripe in &self.stripes {
            for counter in [&stripe.calls, &stripe.time_us, &stripe.rejected, &stripe.failed] {
                counter.store(0, Ordering::Relaxed);
            }
        }
        self.reset_histogram();
    }

    /// LATENCY RESET leaves the calls alone and forgets the times.
    pub fn reset_histogram(&self) {
        for buckets in self.stripes.iter().filter_map(|stripe| stripe.histogram.get()) {
            for count in buckets.iter() {
                count.store(0, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::upper_bound;

    #[test]
    fn stripes_add_up() {
        let stats = CommandStats::default();
        stats.record(0, 10, false, true);
        stats.record(1, 20, true, true);
        stats.record(9, 20, false, false);
        stats.reject(3);
        let totals = stats.totals();
        assert_eq!(totals, Totals { calls: 3, time_us: 50, rejected: 1, failed: 1 });
        assert_eq!(stats.histogram(), [(10, 1), (upper_bound(bucket(20)), 1)]);
        let mut tally = Tally::default();
        tally.record(10, false);
        tally.record(10, true);
        tally.reject();
        stats.record_tally(1, &tally, true);
        let totals = stats.totals();
        assert_eq!(totals, Totals { calls: 5, time_us: 70, rejected: 2, failed: 2 });
        assert_eq!(stats.histogram(), [(10, 3), (upper_bound(bucket(20)), 1)]);
        stats.reset();
        assert_eq!(stats.totals(), Totals::default());
        assert!(stats.histogram().is_empty());
    }
}

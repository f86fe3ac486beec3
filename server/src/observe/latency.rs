//! The latency monitor: for each kind of event the slowest case of each second, as Redis keeps it.

use crate::clock::now_ms;
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Samples kept of each event.
const SAMPLES_MAX: usize = 160;

/// One second with a slow event in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Seconds since the epoch.
    pub time_s: u64,
    /// The slowest case of that second, in milliseconds.
    pub latency_ms: u64,
}

/// All samples of one event.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// Oldest first.
    pub samples: VecDeque<Sample>,
    /// Slowest case ever, in milliseconds.
    pub max_ms: u64,
}

/// All events with samples.
#[derive(Debug, Default)]
pub struct LatencyMonitor {
    threshold_ms: AtomicU64,
    events: Mutex<BTreeMap<&'static str, Series>>,
}

impl LatencyMonitor {
    /// `latency-monitor-threshold`, in milliseconds; 0 turns the monitor off.
    pub fn set_threshold_ms(&self, threshold_ms: u64) {
        self.threshold_ms.store(threshold_ms, Ordering::Relaxed);
    }

    /// The threshold in milliseconds; 0 when the monitor is off.
    #[must_use]
    pub fn threshold_ms(&self) -> u64 {
        self.threshold_ms.load(Ordering::Relaxed)
    }

    /// `event` took `latency_ms`; kept when that reaches the threshold.
    pub fn record(&self, event: &'static str, time_s: u64, latency_ms: u64) {
        let threshold_ms = self.threshold_ms();
        if threshold_ms == 0 || latency_ms < threshold_ms {
            return;
        }
        let mut events = self.events.lock();
        let series = events.entry(event).or_default();
        series.max_ms = series.max_ms.max(latency_ms);
        match series.samples.back_mut() {
            Some(last) if last.time_s == time_s => {
                last.latency_ms = last.latency_ms.max(latency_ms)
            }
            _ => {
                if series.samples.len() == SAMPLES_MAX {
                    series.samples.pop_front();
                }
                series.samples.push_back(Sample { time_s, latency_ms });
            }
        }
    }

    /// Records that `event` has lasted since `begun`, if that reaches the threshold.
    pub fn record_since(&self, event: &'static str, begun: Instant) {
        let took_ms = begun.elapsed().as_millis() as u64;
        // Without a millisecond, the least threshold, the clock need not be asked.
        if took_ms > 0 && self.threshold_ms() > 0 {
            self.record(event, now_ms() / 1000, took_ms);
        }
    }

    /// Samples of one event (any case).
    #[must_use]
    pub fn series(&self, event: &[u8]) -> Option<(&'static str, Series)> {
        let events = self.events.lock();
        let found = events.iter().find(|(name, _)| name.as_bytes().eq_ignore_ascii_case(event));
        found.map(|(name, series)| (*name, series.clone()))
    }

    /// All events with their samples, by name.
    #[must_use]
    pub fn all(&self) -> Vec<(&'static str, Series)> {
        self.events.lock().iter().map(|(name, series)| (*name, series.clone())).collect()
    }

    /// Forgets one event (any case), or all; returns how many were forgotten.
    pub fn reset(&self, event: Option<&[u8]>) -> usize {
        let mut events = self.events.lock();
        let before = events.len();
        match event {
            None => events.clear(),
            Some(event) => events.retain(|name, _| !name.as_bytes().eq_ignore_ascii_case(event)),
        }
        before - events.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_worst_of_each_second() {
        let monitor = LatencyMonitor::default();
        monitor.record("command", 1, 50);
        assert!(monitor.all().is_empty(), "off by default");
        monitor.set_threshold_ms(10);
        for (time_s, latency_ms) in [(1, 9), (1, 20), (1, 30), (1, 25), (2, 11)] {
            monitor.record("command", time_s, latency_ms);
        }
        let (_, series) = monitor.series(b"COMMAND").unwrap();
        let samples: Vec<_> = series.samples.iter().map(|s| (s.time_s, s.latency_ms)).collect();
        assert_eq!(samples, [(1, 30), (2, 11)]);
        assert_eq!(series.max_ms, 30);
        assert_eq!(monitor.reset(Some(b"nothing")), 0);
        assert_eq!(monitor.reset(None), 1);
    }

    #[test]
    fn the_number_of_samples_is_bounded() {
        let monitor = LatencyMonitor::default();
        monitor.set_threshold_ms(1);
        for time_s in 0..500 {
            monitor.record("fork", time_s, 5);
        }
        let (_, series) = monitor.series(b"fork").unwrap();
        assert_eq!(series.samples.len(), SAMPLES_MAX);
        assert_eq!(series.samples[0].time_s, 340);
    }
}

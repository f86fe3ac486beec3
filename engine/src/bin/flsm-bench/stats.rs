//! What one run of a benchmark measured, and its line of output.

use crate::cpu;
use crate::histogram::Histogram;
use crate::ycsb::OPERATIONS;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Time between two lines of progress.
const PROGRESS: Duration = Duration::from_millis(500);
/// Operations between two looks at the clock for progress.
const PROGRESS_OPERATIONS: u64 = 1024;

/// The figures of one thread.
pub(crate) struct Stats {
    pub(crate) done: u64,
    pub(crate) bytes: u64,
    pub(crate) found: u64,
    /// Operations that could have found something; 0 when `found` means nothing.
    pub(crate) asked: u64,
    pub(crate) histogram: Histogram,
    /// Histograms by kind of operation, where a benchmark has several.
    kinds: Vec<Histogram>,
    times_each: bool,
    start: Instant,
    last: Instant,
    pub(crate) seconds: f64,
    end: Instant,
    /// Background work beside the benchmark: not in its figures.
    pub(crate) excluded: bool,
    progress: Option<Progress>,
}

impl Stats {
    pub(crate) fn new(times_each: bool, progress: Option<Progress>) -> Self {
        let now = Instant::now();
        Self {
            done: 0,
            bytes: 0,
            found: 0,
            asked: 0,
            histogram: Histogram::default(),
            kinds: Vec::new(),
            times_each,
            start: now,
            last: now,
            seconds: 0.0,
            end: now,
            excluded: false,
            progress,
        }
    }

    pub(crate) fn start(&mut self) {
        self.start = Instant::now();
        self.last = self.start;
    }

    /// One operation has ended that moved `bytes`.
    #[inline]
    pub(crate) fn finish_one(&mut self, bytes: u64) {
        self.done += 1;
        self.bytes += bytes;
        if self.times_each {
            let now = Instant::now();
            self.histogram.add((now - self.last).as_nanos() as u64);
            self.last = now;
        }
        if self.done.is_multiple_of(PROGRESS_OPERATIONS)
            && let Some(progress) = &mut self.progress
        {
            progress.show(self.done, self.start);
        }
    }

    /// As [`Stats::finish_one`] for a look-up.
    #[inline]
    pub(crate) fn finish_read(&mut self, found: bool, bytes: u64) {
        self.looked_up(found);
        self.finish_one(bytes);
    }

    /// A look-up that is not a whole operation.
    #[inline]
    pub(crate) fn looked_up(&mut self, found: bool) {
        self.asked += 1;
        self.found += u64::from(found);
    }

    /// As [`Stats::finish_one`] for an operation of one kind of several.
    #[inline]
    pub(crate) fn finish_kind(&mut self, kind: usize, bytes: u64) {
        let before = self.last;
        self.finish_one(bytes);
        if self.times_each {
            self.kinds.resize_with(OPERATIONS.len().max(self.kinds.len()), Histogram::default);
            self.kinds[kind].add((self.last - before).as_nanos() as u64);
        }
    }

    pub(crate) fn stop(&mut self) {
        self.end = Instant::now();
        self.seconds = (self.end - self.start).as_secs_f64();
        if let Some(progress) = &self.progress {
            progress.clear();
        }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }
}

/// Percent and time left, on standard error.
pub(crate) struct Progress {
    pub(crate) name: String,
    /// Operations of this thread, for the share that is done.
    pub(crate) of: u64,
    shown: Instant,
    was_shown: std::cell::Cell<bool>,
}

impl Progress {
    pub(crate) fn new(name: &str, of: u64) -> Self {
        let name = name.to_owned();
        Self { name, of: of.max(1), shown: Instant::now(), was_shown: false.into() }
    }

    #[cold]
    fn show(&mut self, done: u64, start: Instant) {
        if self.shown.elapsed() < PROGRESS {
            return;
        }
        self.shown = Instant::now();
        let part = (done as f64 / self.of as f64).min(1.0);
        let left = start.elapsed().as_secs_f64() * (1.0 - part) / part;
        let mut out = std::io::stderr().lock();
        let end = if out.is_terminal() { "\r" } else { "\n" };
        let line = format!("... {}: {:.1} %, {left:.0} s left   {end}", self.name, part * 100.0);
        // Progress that cannot be shown is no reason to stop.
        let _ = out.write_all(line.as_bytes());
        self.was_shown.set(true);
    }

    fn clear(&self) {
        let mut out = std::io::stderr().lock();
        if self.was_shown.get() && out.is_terminal() {
            let _ = write!(out, "\r{:70}\r", "");
        }
    }
}

/// The figures of all threads of one benchmark.
pub(crate) struct Outcome {
    pub(crate) name: String,
    pub(crate) threads: usize,
    pub(crate) done: u64,
    pub(crate) bytes: u64,
    pub(crate) found: u64,
    pub(crate) asked: u64,
    /// Wall time from the start of the first thread to the end of the last one.
    pub(crate) seconds: f64,
    /// Sum of the threads' own times.
    pub(crate) thread_seconds: f64,
    pub(crate) cpu_seconds: f64,
    pub(crate) histogram: Histogram,
    /// More named figures, for the benchmarks that are not only a number of operations.
    pub(crate) figures: Vec<(String, f64)>,
    /// What the operations are called in the histogram's title.
    pub(crate) message: String,
}

/// Start of a measurement of the whole process.
pub(crate) struct Clock(Instant, u64);

impl Clock {
    pub(crate) fn start() -> Self {
        Self(Instant::now(), cpu::process_ns())
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }

    pub(crate) fn cpu_seconds(&self) -> f64 {
        (cpu::process_ns() - self.1) as f64 / 1e9
    }
}

impl Outcome {
    pub(crate) fn new(name: &str, clock: &Clock, threads: &[Stats]) -> Self {
        let mut outcome = Self {
            name: name.to_owned(),
            threads: 0,
            done: 0,
            bytes: 0,
            found: 0,
            asked: 0,
            seconds: clock.seconds(),
            thread_seconds: 0.0,
            cpu_seconds: clock.cpu_seconds(),
            histogram: Histogram::default(),
            figures: Vec::new(),
            message: String::new(),
        };
        for stats in threads.iter().filter(|stats| !stats.excluded) {
            outcome.threads += 1;
            outcome.done += stats.done;
            outcome.bytes += stats.bytes;
            outcome.found += stats.found;
            outcome.asked += stats.asked;
            outcome.thread_seconds += stats.seconds;
            outcome.histogram.merge(&stats.histogram);
        }
        outcome.add_kinds(threads);
        let counted = || threads.iter().filter(|stats| !stats.excluded);
        let start = counted().map(|stats| stats.start).min();
        let end = counted().map(|stats| stats.end).max();
        if let (Some(start), Some(end)) = (start, end) {
            outcome.seconds = (end - start).as_secs_f64();
        }
        outcome
    }

    /// Number and latencies of each kind of operation.
    fn add_kinds(&mut self, threads: &[Stats]) {
        for (kind, name) in OPERATIONS {
            let mut all = Histogram::default();
            let of_kind = threads.iter().filter_map(|stats| stats.kinds.get(kind as usize));
            of_kind.for_each(|histogram| all.merge(histogram));
            if all.is_empty() {
                continue;
            }
            self.figures.push((format!("{name}s"), all.count() as f64));
            for percent in [50.0, 99.0, 99.9] {
                self.figures.push((format!("{name} p{percent} us"), all.percentile_us(percent)));
            }
            self.figures.push((format!("{name} max us"), all.max_us()));
        }
    }

    /// Microseconds of a thread for one operation, as db_bench counts them.
    pub(crate) fn micros_per_op(&self) -> f64 {
        self.thread_seconds * 1e6 / self.done.max(1) as f64
    }

    pub(crate) fn ops_per_second(&self) -> f64 {
        self.done as f64 / self.seconds.max(1e-9)
    }

    /// CPU of the process for one operation, background threads included, in microseconds.
    pub(crate) fn cpu_us_per_op(&self) -> f64 {
        self.cpu_seconds * 1e6 / self.done.max(1) as f64
    }

    pub(crate) fn megabytes_per_second(&self) -> f64 {
        self.bytes as f64 / 1_048_576.0 / self.seconds.max(1e-9)
    }

    /// db_bench's line.
    pub(crate) fn print(&self) {
        let mut extra = String::new();
        if self.bytes > 0 {
            extra += &format!(" {:6.1} MB/s", self.megabytes_per_second());
        }
        if self.asked > 0 {
            extra += &format!(" ({} of {} found)", self.found, self.asked);
        }
        println!(
            "{:<12} : {:11.3} micros/op {:.0} ops/sec {:.3} seconds {} operations;{extra}",
            self.name,
            self.micros_per_op(),
            self.ops_per_second(),
            self.seconds,
            self.done,
        );
        for (name, value) in &self.figures {
            println!("  {name:<38} {value:>12.3}");
        }
        if !self.histogram.is_empty() {
            println!("Microseconds per {}:\n{}", self.message, self.histogram);
        }
    }
}

//! The slow log: the last requests whose execution took longer than a threshold.

use crate::resp::Args;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

/// Redis keeps this many arguments of a request, the last one being a count of the others.
const ARGS_MAX: usize = 32;

/// From this threshold on, in microseconds, plain requests of one read are timed together.
const TOGETHER_US: i64 = 1000;

/// Bytes kept of each argument.
const ARG_MAX_BYTES: usize = 128;

/// One slow request.
#[derive(Clone, Debug)]
pub struct SlowEntry {
    /// Rising number, never reset.
    pub id: u64,
    /// When it was executed, in seconds since the epoch.
    pub time_s: u64,
    /// How long that took, in microseconds.
    pub duration_us: u64,
    /// Its arguments, cut as Redis cuts them.
    pub args: Vec<Vec<u8>>,
    /// The client's address.
    pub client: String,
    /// The client's name.
    pub name: Vec<u8>,
}

/// The log with its two settings.
#[derive(Debug)]
pub struct SlowLog {
    entries: Mutex<(u64, VecDeque<SlowEntry>)>,
    threshold_us: AtomicI64,
    len_max: AtomicUsize,
}

impl Default for SlowLog {
    /// Redis' defaults: 10 ms, 128 entries.
    fn default() -> Self {
        Self {
            entries: Mutex::default(),
            threshold_us: AtomicI64::new(10_000),
            len_max: AtomicUsize::new(128),
        }
    }
}

impl SlowLog {
    /// `slowlog-log-slower-than`, in microseconds; 0 logs everything, a negative number nothing.
    pub fn set_threshold_us(&self, threshold_us: i64) {
        self.threshold_us.store(threshold_us, Ordering::Relaxed);
    }

    /// `slowlog-max-len`; takes effect with the next entry, as in Redis.
    pub fn set_len_max(&self, len_max: usize) {
        self.len_max.store(len_max, Ordering::Relaxed);
    }

    /// True when an execution of this length must be pushed.
    #[must_use]
    pub fn is_slow(&self, duration_us: u64) -> bool {
        let threshold_us = self.threshold_us.load(Ordering::Relaxed);
        u64::try_from(threshold_us).is_ok_and(|threshold_us| duration_us >= threshold_us)
    }

    /// True while plain requests are so short compared with the threshold that several may be timed together: their
    /// total stays below it, unless one of them is slow.
    #[must_use]
    pub fn times_together(&self) -> bool {
        let threshold_us = self.threshold_us.load(Ordering::Relaxed);
        !(0..TOGETHER_US).contains(&threshold_us)
    }

    /// Adds a request that [`SlowLog::is_slow`]; drops the oldest entries beyond the limit. `more` requests after it were timed
    /// together with it: the entry notes this in an additional argument.
    pub fn push(
        &self,
        args: Args<'_>,
        more: u64,
        time_s: u64,
        duration_us: u64,
        client: String,
        name: &[u8],
    ) {
        let mut args = kept(args);
        if more != 0 {
            args.push(format!("... ({more} more requests)").into_bytes());
        }
        let len_max = self.len_max.load(Ordering::Relaxed);
        let (next_id, entries) = &mut *self.entries.lock();
        let id = *next_id;
        *next_id += 1;
        entries.push_front(SlowEntry {
            id,
            time_s,
            duration_us,
            args,
            client,
            name: name.to_vec(),
        });
        entries.truncate(len_max);
    }

    /// The newest `count` entries, newest first.
    #[must_use]
    pub fn newest(&self, count: usize) -> Vec<SlowEntry> {
        self.entries.lock().1.iter().take(count).cloned().collect()
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.lock().1.len()
    }

    /// True when there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// SLOWLOG RESET.
    pub fn reset(&self) {
        self.entries.lock().1.clear();
    }
}

fn kept(args: Args<'_>) -> Vec<Vec<u8>> {
    let count = args.len().min(ARGS_MAX);
    let mut kept: Vec<Vec<u8>> = args.from(0).take(count).map(cut).collect();
    if args.len() > ARGS_MAX {
        let others = args.len() - ARGS_MAX + 1;
        kept[ARGS_MAX - 1] = format!("... ({others} more arguments)").into_bytes();
    }
    kept
}

fn cut(arg: &[u8]) -> Vec<u8> {
    let mut kept = arg[..arg.len().min(ARG_MAX_BYTES)].to_vec();
    if arg.len() > ARG_MAX_BYTES {
        kept.extend_from_slice(
            format!("... ({} more bytes)", arg.len() - ARG_MAX_BYTES).as_bytes(),
        );
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(log: &SlowLog, words: &[&[u8]]) {
        let (buf, ranges) = crate::resp::pack(words.iter().copied());
        log.push(Args::new(&buf, &ranges), 0, 7, 20_000, "127.0.0.1:1".into(), b"me");
    }

    #[test]
    fn keeps_the_newest_and_counts_on() {
        let log = SlowLog::default();
        log.set_len_max(2);
        for word in [b"a", b"b", b"c"] {
            push(&log, &[word]);
        }
        let ids: Vec<u64> = log.newest(10).iter().map(|entry| entry.id).collect();
        assert_eq!(ids, [2, 1]);
        log.reset();
        assert!(log.is_empty());
        push(&log, &[b"d"]);
        assert_eq!(log.newest(1)[0].id, 3);
    }

    #[test]
    fn threshold_has_redis_meaning() {
        let log = SlowLog::default();
        assert!(log.is_slow(10_000));
        assert!(!log.is_slow(9_999));
        log.set_threshold_us(0);
        assert!(log.is_slow(0));
        log.set_threshold_us(-1);
        assert!(!log.is_slow(u64::MAX));
    }

    #[test]
    fn long_requests_are_cut() {
        let log = SlowLog::default();
        let long = [b'x'; 130];
        let words: Vec<&[u8]> = (0..40).map(|_| long.as_slice()).collect();
        push(&log, &words);
        let args = &log.newest(1)[0].args;
        assert_eq!(args.len(), 32);
        assert!(args[0].ends_with(b"x... (2 more bytes)"));
        assert_eq!(args[31], b"... (9 more arguments)");
    }
}

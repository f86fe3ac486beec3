//! Events that the store reports to its operator's log: one when something begins to go wrong, and one when it
//! is over.
//!
//! An intermittent fault (a full disk lets a little through, a retry every 50 ms fails again) is one
//! fault until nothing was wrong for a while. The number of lines therefore follows the number of faults, whatever the
//! number of requests and retries.

use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A fault is over when nothing was wrong for this long.
const SETTLED: Duration = Duration::from_secs(1);

/// What may go wrong for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Fault {
    /// The append only log cannot be written or synced (N2).
    Log,
    /// Memtables cannot be written to tables.
    Flush,
    /// Tables cannot be merged.
    Compaction,
    /// Deleted keys cannot be removed in time (N17).
    Deadline,
    /// Persistent memory has failed; it does not come back.
    PersistentMemory,
    /// Writes are refused.
    Refusal,
    /// Writers wait, or replies wait for the log, longer than `STALL`.
    Stall,
}

impl Fault {
    const ALL: [Self; 7] = [
        Self::Log,
        Self::Flush,
        Self::Compaction,
        Self::Deadline,
        Self::PersistentMemory,
        Self::Refusal,
        Self::Stall,
    ];
}

/// A wait that is longer is a stall.
pub(in crate::store) const STALL: Duration = Duration::from_secs(1);

/// One line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Something begins to go wrong.
    Begun {
        /// What.
        fault: Fault,
        /// Why: operation, file, offset and the system's error, where a medium failed.
        reason: String,
    },
    /// It is over.
    Over {
        /// What.
        fault: Fault,
        /// From the first failure to the last.
        lasted: Duration,
        /// How often it failed.
        times: u64,
    },
    /// The store is poisoned: writes are refused until the next start.
    Poisoned {
        /// Why.
        reason: String,
    },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Begun { fault, reason } => {
                let (what, then) = match fault {
                    Fault::Log => (
                        "The append only log has failed",
                        "; what it has taken goes to tables, then it goes on in a fresh segment",
                    ),
                    Fault::Flush => {
                        ("Memtables cannot be flushed", "; it is tried again until it succeeds")
                    }
                    Fault::Compaction => {
                        ("Tables cannot be compacted", "; it is tried again until it succeeds")
                    }
                    Fault::Deadline => ("Deleted keys cannot be removed in time", ""),
                    Fault::PersistentMemory => {
                        ("Persistent memory has failed", "; restart when it is mended")
                    }
                    Fault::Refusal => ("Writes are refused with MISCONF", ""),
                    Fault::Stall => ("Writers wait for more than a second", ""),
                };
                write!(f, "{what}: {reason}{then}")
            }
            Self::Over { fault, lasted, times } => {
                let what = match fault {
                    Fault::Log => "The append only log works again, in a fresh segment",
                    Fault::Flush => "Memtables are flushed again",
                    Fault::Compaction => "Tables are compacted again",
                    Fault::Deadline => "Deleted keys are removed again",
                    Fault::PersistentMemory => "Persistent memory works again",
                    Fault::Refusal => "Writes are taken again",
                    Fault::Stall => "Writers go on",
                };
                let seconds = lasted.as_secs_f64();
                match fault {
                    Fault::Refusal | Fault::Stall => {
                        write!(f, "{what}, after {seconds:.3} seconds")
                    }
                    _ => {
                        let failures = if *times == 1 { "failure" } else { "failures" };
                        write!(f, "{what}, after {seconds:.3} seconds and {times} {failures}")
                    }
                }
            }
            Self::Poisoned { reason } => write!(
                f,
                "The store is poisoned: {reason}; reads go on, writes are refused until a restart, which finds \
                 what was durable"
            ),
        }
    }
}

type TakeEvent = dyn Fn(&Event) + Send + Sync;

/// Takes events; the default one lets them go.
#[derive(Clone, Default)]
pub struct EventSink(Option<Arc<TakeEvent>>);

impl EventSink {
    /// Calls `take` for each, from any thread and with locks held: it must not call the store.
    pub fn new(take: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(take)))
    }
}

impl fmt::Debug for EventSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EventSink").field(&self.0.is_some()).finish()
    }
}

/// One fault that has begun.
#[derive(Debug)]
struct Episode {
    begun: Instant,
    last: Instant,
    times: u64,
    /// Right now it is wrong.
    lasts: bool,
}

/// The present faults, and the sink that hears of them.
pub(in crate::store) struct Health {
    sink: EventSink,
    episodes: [Mutex<Option<Episode>>; Fault::ALL.len()],
    /// Where there is an episode: so that asking whether there is one costs a load.
    known: [AtomicBool; Fault::ALL.len()],
}

impl Health {
    pub(in crate::store) fn new(sink: EventSink) -> Self {
        Self { sink, episodes: Default::default(), known: Default::default() }
    }

    fn tell(&self, event: &Event) {
        if let Some(take) = &self.sink.0 {
            take(event);
        }
    }

    /// It fails, now and for this reason.
    pub(in crate::store) fn fails(&self, fault: Fault, reason: impl FnOnce() -> String) {
        self.fails_since(fault, Instant::now(), reason);
    }

    /// It fails since `begun`; known from there on when it is new.
    pub(in crate::store) fn fails_since(
        &self,
        fault: Fault,
        begun: Instant,
        reason: impl FnOnce() -> String,
    ) {
        let mut episode = self.episodes[fault as usize].lock();
        let last = Instant::now();
        match &mut *episode {
            Some(episode) => {
                episode.times += 1;
                episode.last = last;
                episode.lasts = true;
            }
            None => {
                *episode = Some(Episode { begun, last, times: 1, lasts: true });
                self.known[fault as usize].store(true, Ordering::Release);
                self.tell(&Event::Begun { fault, reason: reason() });
            }
        }
    }

    /// It works, as far as one can see now.
    pub(in crate::store) fn works(&self, fault: Fault) {
        if !self.known[fault as usize].load(Ordering::Acquire) {
            return;
        }
        if let Some(episode) = &mut *self.episodes[fault as usize].lock()
            && episode.lasts
        {
            episode.lasts = false;
            episode.last = Instant::now();
        }
    }

    /// True from the first failure to the line that says that it is over.
    pub(in crate::store) fn is_known(&self, fault: Fault) -> bool {
        self.known[fault as usize].load(Ordering::Acquire)
    }

    /// Ends what has not failed for a while at `now`; all of it `at_end` of the store.
    pub(in crate::store) fn end_episodes(&self, now: Instant, at_end: bool) {
        for fault in Fault::ALL {
            // A log whose next failure has no way out, since tables cannot be written, does not work yet.
            let waits = fault == Fault::Log && self.is_known(Fault::Flush) && !at_end;
            if !self.is_known(fault) || waits {
                continue;
            }
            let mut episode = self.episodes[fault as usize].lock();
            let Some(Episode { begun, last, times, lasts: false }) = *episode else { continue };
            if at_end || now.saturating_duration_since(last) >= SETTLED {
                *episode = None;
                self.known[fault as usize].store(false, Ordering::Release);
                let lasted = last.saturating_duration_since(begun);
                self.tell(&Event::Over { fault, lasted, times });
            }
        }
    }

    pub(in crate::store) fn poisoned(&self, reason: &str) {
        self.tell(&Event::Poisoned { reason: reason.to_owned() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn health() -> (Health, Arc<Mutex<Vec<Event>>>) {
        let told = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&told);
        (Health::new(EventSink::new(move |event| sink.lock().push(event.clone()))), told)
    }

    #[test]
    fn a_fault_that_comes_and_goes_is_told_twice() {
        let (health, told) = health();
        for number in 0..100 {
            health.fails(Fault::Log, || format!("failure {number}"));
            health.works(Fault::Log);
            health.end_episodes(Instant::now(), false);
        }
        let begun = Event::Begun { fault: Fault::Log, reason: "failure 0".into() };
        assert_eq!(*told.lock(), [begun]);
        health.end_episodes(Instant::now() + SETTLED, false);
        health.end_episodes(Instant::now() + 9 * SETTLED, false);
        assert!(matches!(told.lock()[1..], [Event::Over { fault: Fault::Log, times: 100, .. }]));
        health.fails(Fault::Log, || "anew".into());
        assert_eq!(told.lock().len(), 3);
    }

    #[test]
    fn a_log_works_when_tables_can_be_written_too() {
        let (health, told) = health();
        let later = Instant::now() + 9 * SETTLED;
        health.fails(Fault::Log, || "full".into());
        health.fails(Fault::Flush, || "full".into());
        health.works(Fault::Log);
        health.end_episodes(later, false);
        assert_eq!(told.lock().len(), 2);
        health.works(Fault::Flush);
        health.end_episodes(later, false);
        health.end_episodes(later, false);
        assert_eq!(told.lock().len(), 4);
    }

    #[test]
    fn a_fault_that_lasts_is_not_over_with_time_nor_another_one() {
        let (health, told) = health();
        health.fails(Fault::Flush, || "full".into());
        health.fails(Fault::Refusal, || "full".into());
        health.works(Fault::Refusal);
        health.end_episodes(Instant::now() + 9 * SETTLED, false);
        let told = told.lock();
        assert!(matches!(told[2..], [Event::Over { fault: Fault::Refusal, .. }]), "{told:?}");
        assert!(health.is_known(Fault::Flush) && !health.is_known(Fault::Refusal));
    }
}

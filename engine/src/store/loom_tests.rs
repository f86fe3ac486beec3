//! The cemetery, publication and pins in every interleaving of two or three threads (`make loom`).

use super::flush::publication::Publication;
use super::read::pins::Pins;
use crate::cemetery::{Graves, IsEmpty, Published};
use crate::key::Seq;
use crate::sync::Mutex;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

const KEY: &[u8] = b"Rk";
const HASH: u64 = 7;

/// What is spilled of the only key.
#[derive(Clone, Default)]
struct Run(Vec<Seq>);

impl IsEmpty for Run {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A shard's graves with their count, and the runs.
#[derive(Default)]
struct Cemetery {
    graves: AtomicUsize,
    shard: Mutex<Graves>,
    runs: Published<Run>,
}

impl Cemetery {
    fn with_grave(d: Seq) -> Arc<Self> {
        let cemetery = Self::default();
        cemetery.open(d);
        Arc::new(cemetery)
    }

    fn open(&self, d: Seq) {
        let mut shard = self.shard.lock();
        shard.open(HASH, KEY.into(), d);
        self.graves.store(shard.len(), Ordering::Release);
    }

    /// As `Engine::end_spill`.
    fn spill(&self, m: Seq) {
        self.runs.update(|run| run.0.push(m));
        let mut shard = self.shard.lock();
        shard.retain(|_, grave| !grave.is_sealed_through(m));
        self.graves.store(shard.len(), Ordering::Release);
    }

    /// As `Engine::newest_grave`.
    fn newest(&self, s: Seq) -> Option<Seq> {
        let any = self.graves.load(Ordering::Acquire) > 0;
        let d = if any { self.shard.lock().newest_at(HASH, KEY, s) } else { None };
        if self.runs.is_empty() {
            return d;
        }
        d.max(self.runs.with(|run| run.0.iter().copied().filter(|&d| d <= s).max()))
    }
}

#[test]
fn loom_a_grave_is_found_at_every_moment_of_its_spill() {
    loom::model(|| {
        let cemetery = Cemetery::with_grave(5);
        let spiller = {
            let cemetery = Arc::clone(&cemetery);
            thread::spawn(move || cemetery.spill(5))
        };
        assert_eq!(cemetery.newest(9), Some(5));
        assert_eq!(cemetery.newest(4), None);
        spiller.join().expect("no panic");
        assert_eq!(cemetery.newest(9), Some(5));
    });
}

#[test]
fn loom_a_delete_beside_a_spill_is_not_lost_and_raises_no_older_one() {
    loom::model(|| {
        let cemetery = Cemetery::with_grave(5);
        let spiller = {
            let cemetery = Arc::clone(&cemetery);
            thread::spawn(move || cemetery.spill(5))
        };
        let deleter = {
            let cemetery = Arc::clone(&cemetery);
            // Put again at 7, deleted at 8: above the mark.
            thread::spawn(move || cemetery.open(8))
        };
        let seen = cemetery.newest(9);
        assert!(seen == Some(5) || seen == Some(8), "{seen:?}");
        spiller.join().expect("no panic");
        deleter.join().expect("no panic");
        assert_eq!((cemetery.newest(9), cemetery.newest(7)), (Some(8), Some(5)));
    });
}

/// F3: a reader takes its superversion and shows it as a pin in one step; a sweep looks at the superversion
/// before it asks for the oldest reader.
#[test]
fn loom_a_grave_outlives_the_readers_of_older_superversions() {
    loom::model(|| {
        let cemetery = Cemetery::with_grave(5);
        let pins = Arc::new(Pins::default());
        // Number of the superversion: from 2 on no table holds the dead version.
        let superversion = Arc::new(Mutex::new(1_u64));
        let sweeper = {
            let (cemetery, pins) = (Arc::clone(&cemetery), Arc::clone(&pins));
            let superversion = Arc::clone(&superversion);
            thread::spawn(move || {
                *superversion.lock() = 2;
                let looked_at = *superversion.lock();
                if pins.oldest_superversion() >= looked_at {
                    let mut shard = cemetery.shard.lock();
                    shard.retain(|_, _| false);
                    cemetery.graves.store(0, Ordering::Release);
                }
            })
        };
        let (held, pin) = {
            let current = superversion.lock();
            (*current, pins.add(9, *current))
        };
        let d = cemetery.newest(9);
        assert!(held >= 2 || d == Some(5), "the reader of {held} sees the dead version");
        drop(pin);
        sweeper.join().expect("no panic");
        assert_eq!(pins.len(), 0);
    });
}

/// I2: at the sequence that a barrier answers nothing is half applied, whether latches were taken or not.
#[test]
fn loom_what_a_barrier_answers_is_complete() {
    loom::model(|| {
        let publication = Publication::default();
        let commit = Mutex::new(1_u64);
        // What each of two latches guards: the last operation applied under it.
        let latches = [Mutex::new(0_u64), Mutex::new(0_u64)];
        let store = Arc::new((publication, commit, latches));
        let writers: Vec<_> = (0..2)
            .map(|nth: usize| {
                let store = Arc::clone(&store);
                thread::spawn(move || {
                    let (_, commit, latches) = &*store;
                    let mut applied = latches[nth].lock();
                    let seq = {
                        let mut next = commit.lock();
                        *next += 1;
                        *next - 1
                    };
                    *applied = seq;
                })
            })
            .collect();
        let (publication, commit, latches) = &*store;
        for _ in 0..2 {
            let barrier = || (latches[0].lock(), latches[1].lock());
            let s = publication.at_barrier(commit, |next| next - 1, barrier, |s, _| s);
            let applied = [*latches[0].lock(), *latches[1].lock()];
            let complete = (1..=s).all(|seq| applied.contains(&seq));
            assert!(complete, "{s} is visible, applied are {applied:?}");
        }
        writers.into_iter().for_each(|writer| writer.join().expect("no panic"));
    });
}

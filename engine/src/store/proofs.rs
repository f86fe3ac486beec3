//! Proving stretches dead before anybody reads them (N5).
//!
//! Each delete makes one more dead version lie in the way of scans until burial, which waits for the
//! next recovery mark. So a thread walks, soon after many deletes, over the places where they happened
//! and leaves dead runs there, as any scan would. Every so many deletes of a shard name such a place.
//! A run grows where the last one ended: keys deleted in order are each passed once.
//!
//! Where there are fewer cores than threads with work, that thread loses a few milliseconds now and then, in which a
//! thousand keys are deleted for each. So who deletes and may wait walks itself when many places wait.

use super::engine::{Engine, EngineError};
use super::namespace::KIND_ROOT;
use super::view::ReaderGraves;
use crate::cemetery::Span;
use crate::iterator::Bounds;
use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Places that wait for a walk, at most; then every other one goes.
const PLACES_MAX: usize = 4096;

/// So many places wake the thread: what was deleted since is what the next reader goes through key by key.
const PLACES_WAKE: usize = 4;

/// The same while walks find nothing.
const PLACES_WAKE_SPARE: usize = 16;

/// So many places make who deletes walk. What a reader may find unproved then costs him less than 0.1 ms, and a walk
/// adds a twentieth to the deletes before it.
const PLACES_HELP: usize = 16;

/// How long it rests without being woken.
const IDLE: Duration = Duration::from_millis(50);

/// Of the places only one in so many is walked while walks find nothing.
const SPARE_STEP: usize = 16;

/// Where keys were deleted of late.
#[derive(Default)]
pub(super) struct Places {
    keys: Mutex<Vec<Box<[u8]>>>,
    changed: Condvar,
    /// How many have come since the start,
    noted: AtomicUsize,
    /// and how many of them had come when the last walk that has ended began.
    walked: AtomicUsize,
    /// Held by one who deletes while he walks.
    helping: Mutex<()>,
    /// The last walk found nothing: deletes are scattered.
    fruitless: AtomicBool,
}

impl Places {
    /// So many places are worth a walk.
    fn wake_at(&self) -> usize {
        if self.fruitless.load(Ordering::Relaxed) { PLACES_WAKE_SPARE } else { PLACES_WAKE }
    }

    /// A key was deleted here. True when that woke the thread.
    pub(super) fn note(&self, key: &[u8]) -> bool {
        let mut keys = self.keys.lock();
        if keys.len() == PLACES_MAX {
            // Deletes in order need only the last: a run grows from the end of the one before.
            let mut nth = 0;
            keys.retain(|_| {
                nth += 1;
                nth % 2 == 0
            });
        }
        keys.push(key.into());
        self.noted.fetch_add(1, Ordering::Relaxed);
        let wakes = keys.len() == self.wake_at();
        if wakes {
            self.changed.notify_all();
        }
        wakes
    }

    pub(super) fn wake(&self) {
        self.changed.notify_all();
    }

    /// Those that wait, once they are worth a walk or some time has passed, and what [`Places::note_walked`] is to be told.
    fn wait(&self) -> (Vec<Box<[u8]>>, usize) {
        let mut keys = self.keys.lock();
        if keys.len() < self.wake_at() {
            self.changed.wait_for(&mut keys, IDLE);
        }
        (std::mem::take(&mut keys), self.noted.load(Ordering::Relaxed))
    }

    /// Those that wait, for another thread than that of the proofs.
    fn take_now(&self) -> (Vec<Box<[u8]>>, usize) {
        let mut keys = self.keys.lock();
        (std::mem::take(&mut keys), self.noted.load(Ordering::Relaxed))
    }

    #[cfg(test)]
    pub(super) fn take(&self) -> Vec<Box<[u8]>> {
        self.take_now().0
    }

    /// A walk has ended for all that had come when it began: it goes on from the last run, also over what another
    /// walk, whose thread may stand still, has begun with.
    fn note_walked(&self, noted: usize) {
        self.walked.fetch_max(noted, Ordering::Relaxed);
    }

    /// The thread is behind, and walks find something.
    #[inline]
    fn wants_help(&self) -> bool {
        let walked = self.walked.load(Ordering::Relaxed);
        self.noted.load(Ordering::Relaxed).saturating_sub(walked) >= PLACES_HELP
            && !self.fruitless.load(Ordering::Relaxed)
    }
}

impl Engine {
    /// The thread: walks where keys were deleted, and rests as long as it walked.
    pub(super) fn run_proofs(&self, stop: &AtomicBool) {
        let inner = self.inner();
        while !stop.load(Ordering::Acquire) {
            let (mut places, noted) = inner.places.wait();
            if inner.places.fruitless.load(Ordering::Relaxed) {
                let mut nth = 0;
                places.retain(|_| {
                    nth += 1;
                    nth % SPARE_STEP == 1
                });
            }
            if places.is_empty() {
                continue;
            }
            let started = Instant::now();
            // A walk that fails proves nothing; readers of the same blocks report the damage.
            if let Ok(found) = self.prove_dead(&places, stop) {
                inner.places.fruitless.store(!found, Ordering::Relaxed);
            }
            inner.places.note_walked(noted);
            std::thread::sleep(started.elapsed());
        }
    }

    /// Does the thread's work while it is behind. For who has just deleted, holds no latch, and may wait for a device.
    #[inline]
    pub(super) fn help_to_prove(&self) {
        if self.inner().places.wants_help() {
            self.walk_for_proofs();
        }
    }

    #[cold]
    fn walk_for_proofs(&self) {
        let places = &self.inner().places;
        let Some(_helping) = places.helping.try_lock() else { return };
        // As in the thread: a walk that fails proves nothing.
        let (keys, noted) = places.take_now();
        if let Ok(found) = self.prove_dead(&keys, &AtomicBool::new(false)) {
            places.fruitless.store(!found, Ordering::Relaxed);
        }
        places.note_walked(noted);
    }

    /// Walks over the dead around `places`; true when a run came of it.
    pub(super) fn prove_dead(
        &self,
        places: &[Box<[u8]>],
        stop: &AtomicBool,
    ) -> Result<bool, EngineError> {
        let inner = self.inner();
        let runs = &inner.dead_runs;
        let mut places: Vec<&[u8]> = places.iter().map(AsRef::as_ref).collect();
        places.sort_unstable();
        let (view, _pin, _) = self.newest_view();
        let graves = ReaderGraves::new(self, true);
        let mut walk =
            view.walk(Bounds::of_prefix(&[KIND_ROOT])).passing_dead(runs).keys_only(true);
        let (mut span, mut found) = (Span::default(), false);
        for place in places {
            if stop.load(Ordering::Acquire) {
                break;
            }
            if runs.covering(place, view.s, &mut span).is_some() {
                continue;
            }
            // First through the run before, which costs little: if all is dead from its end to here, it
            // grows into one proof, as tables that are to go unread need it.
            if let Some(start) = runs.start_before(place) {
                walk.seek(&start, &graves)?;
            }
            if runs.covering(place, view.s, &mut span).is_none() {
                walk.seek(place, &graves)?;
            }
            found |= runs.covering(place, view.s, &mut span).is_some();
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_deletes_helps_while_many_places_are_unproved() {
        let places = Places::default();
        let note = |count: usize| {
            for _ in 0..count {
                places.note(b"key");
            }
        };
        note(PLACES_HELP - 1);
        assert!(!places.wants_help());
        let (_, in_hand) = places.wait();
        note(1);
        assert!(places.wants_help(), "those in the thread's hands are not proved yet");
        places.note_walked(in_hand);
        assert!(!places.wants_help());
        note(PLACES_HELP);
        places.fruitless.store(true, Ordering::Relaxed);
        assert!(!places.wants_help(), "walks find nothing");
        places.fruitless.store(false, Ordering::Relaxed);
        assert!(places.wants_help());
        let (keys, noted) = places.take_now();
        assert_eq!(keys.len(), PLACES_HELP + 1);
        places.note_walked(noted);
        note(PLACES_HELP - 1);
        places.note_walked(in_hand);
        assert!(!places.wants_help());
        note(1);
        assert!(places.wants_help(), "a walk that began earlier and ended later changes nothing");
    }

    #[test]
    fn few_places_wake_the_thread_unless_walks_find_nothing() {
        let places = Places::default();
        let wakes = |count: usize| (0..count).filter(|_| places.note(b"key")).count();
        assert_eq!((wakes(PLACES_WAKE - 1), wakes(1), wakes(40)), (0, 1, 0), "once");
        places.take();
        places.fruitless.store(true, Ordering::Relaxed);
        assert_eq!((wakes(PLACES_WAKE_SPARE - 1), wakes(1)), (0, 1));
    }
}

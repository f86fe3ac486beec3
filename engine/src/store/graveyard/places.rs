//! Places of recent deletes, for the thread that proves stretches dead (N5).

use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Most places that wait for a walk; above that every other one is dropped.
const PLACES_MAX: usize = 4096;

/// This many places wake the thread: the next reader passes whatever was deleted since key by key.
const PLACES_WAKE: usize = 4;

/// Number of places that wake the thread while walks find nothing.
const PLACES_WAKE_SPARE: usize = 16;

/// How long it rests without being woken.
const IDLE: Duration = Duration::from_millis(50);

/// Where keys were deleted of late.
#[derive(Default)]
pub(in crate::store) struct Places {
    keys: Mutex<Vec<Box<[u8]>>>,
    changed: Condvar,
    /// The last walk found nothing: deletes are scattered.
    pub(super) fruitless: AtomicBool,
}

impl Places {
    /// Number of places that are worth a walk.
    fn wake_at(&self) -> usize {
        if self.fruitless.load(Ordering::Relaxed) { PLACES_WAKE_SPARE } else { PLACES_WAKE }
    }

    /// A key was deleted here. True when that woke the thread.
    pub(in crate::store) fn note(&self, key: &[u8]) -> bool {
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
        let wakes = keys.len() == self.wake_at();
        if wakes {
            self.changed.notify_all();
        }
        wakes
    }

    pub(in crate::store) fn wake(&self) {
        self.changed.notify_all();
    }

    /// Those that wait, once they are worth a walk or some time has passed.
    pub(super) fn wait(&self) -> Vec<Box<[u8]>> {
        let mut keys = self.keys.lock();
        if keys.len() < self.wake_at() {
            self.changed.wait_for(&mut keys, IDLE);
        }
        std::mem::take(&mut keys)
    }

    #[cfg(test)]
    pub(in crate::store) fn take(&self) -> Vec<Box<[u8]>> {
        std::mem::take(&mut self.keys.lock())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

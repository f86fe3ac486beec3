//! Proving stretches dead before anybody reads them (N5).
//!
//! Each delete leaves one more dead version in the way of scans until burial, which waits for the
//! next recovery mark. Soon after many deletes, a thread therefore walks the places where they happened
//! and leaves dead runs there, as any scan would. A fixed share of a shard's deletes record such places.
//! A run continues where the last one ended: keys deleted in order are each passed once.

use crate::cemetery::Span;
use crate::iterator::Bounds;
use crate::store::engine::{Engine, EngineError};
use crate::store::namespace::KIND_ROOT;
use crate::store::read::view::ReaderGraves;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// While walks find nothing, only one place in this many is walked.
const SPARE_STEP: usize = 16;

impl Engine {
    /// The thread: walks where keys were deleted, and rests as long as it walked.
    pub(in crate::store) fn run_proofs(&self, stop: &AtomicBool) {
        let inner = self.inner();
        while !stop.load(Ordering::Acquire) {
            let mut places = inner.graveyard.places.wait();
            if inner.graveyard.places.fruitless.load(Ordering::Relaxed) {
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
                inner.graveyard.places.fruitless.store(!found, Ordering::Relaxed);
            }
            std::thread::sleep(started.elapsed());
        }
    }

    /// Walks over the dead around `places`; true when a run came of it.
    pub(in crate::store) fn prove_dead(
        &self,
        places: &[Box<[u8]>],
        stop: &AtomicBool,
    ) -> Result<bool, EngineError> {
        let inner = self.inner();
        let runs = &inner.graveyard.dead_runs;
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

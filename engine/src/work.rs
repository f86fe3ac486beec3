//! Counts expensive steps of short commands on the calling thread, where the feature `count-work` is on: for
//! tests that bound the work of a command. Without the feature nothing is counted.

/// Hashes, look-ups and graves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Keys that were hashed for a request.
    pub hashes: u32,
    /// Look-ups in the DRAM table.
    pub look_ups: u32,
    /// Graves that were opened.
    pub graves: u32,
}

#[cfg(feature = "count-work")]
mod counted {
    use super::Work;
    use std::cell::Cell;

    thread_local! {
        static DONE: Cell<Work> = const { Cell::new(Work { hashes: 0, look_ups: 0, graves: 0 }) };
    }

    impl Work {
        /// What the thread has done since this was asked for last.
        #[must_use]
        pub fn take() -> Self {
            DONE.take()
        }
    }

    pub(super) fn note(count: impl FnOnce(&mut Work)) {
        let mut done = DONE.get();
        count(&mut done);
        DONE.set(done);
    }
}

#[cfg(not(feature = "count-work"))]
mod counted {
    #[inline(always)]
    pub(super) fn note(_: impl FnOnce(&mut super::Work)) {}
}

#[inline(always)]
pub(crate) fn note_hash() {
    counted::note(|done| done.hashes += 1);
}

#[inline(always)]
pub(crate) fn note_look_up() {
    counted::note(|done| done.look_ups += 1);
}

#[inline(always)]
pub(crate) fn note_grave() {
    counted::note(|done| done.graves += 1);
}

//! Publication (I2): the moments at which every operation up to the last sequence is complete.
//!
//! An operation takes its sequence under the latch of its key, and releases the latch when it is complete.
//! A thread that holds all latches therefore sees no half-applied operation.

use crate::key::Seq;
use crate::sync::{AtomicU64, Mutex, Ordering};

/// Up to where operations were seen complete.
#[derive(Debug, Default)]
pub(in crate::store) struct Publication {
    complete_through: AtomicU64,
}

impl Publication {
    /// Runs `f` with the commit state's lock held and every operation up to `last_seq` of it complete: the
    /// argument. `barrier` takes all latches.
    ///
    /// They are left out when no sequence was handed out since the last time: then nothing can be half
    /// applied.
    pub(in crate::store) fn at_barrier<C, B, T>(
        &self,
        commit: &Mutex<C>,
        last_seq: impl Fn(&C) -> Seq,
        barrier: impl FnOnce() -> B,
        f: impl FnOnce(Seq, &mut C) -> T,
    ) -> T {
        {
            let mut commit = commit.lock();
            let last = last_seq(&commit);
            if last == self.complete_through.load(Ordering::Acquire) {
                return f(last, &mut commit);
            }
        }
        let _guards = barrier();
        let mut commit = commit.lock();
        let last = last_seq(&commit);
        self.complete_through.store(last, Ordering::Release);
        f(last, &mut commit)
    }
}

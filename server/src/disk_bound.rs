//! `disk-max-bytes`: the maximum size of tables, log and old versions on the devices. Above it, commands that need room are
//! refused, as they are above `maxmemory`. Reads and deletes continue, and the space that deletes release can be used again.
//!
//! The bound limits what clients add. The server's own work (replay, expiry, flushes, merges, BGREWRITEAOF) is never
//! refused: without it nothing would shrink.

use crate::log;
use sexton_engine::Engine;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The error for a request that the bound does not allow.
pub(crate) const DISK_FULL: &str =
    "OOM command not allowed when files take more than 'disk-max-bytes'.";

/// Below the bound by this part of it, refused commands are taken again: not at each byte.
const MARGIN_PARTS: u64 = 32;

/// The bound, what was found at the last look, and whether commands are refused by it.
#[derive(Debug, Default)]
pub struct DiskBound {
    max_bytes: AtomicU64,
    used_bytes: AtomicU64,
    is_reached: AtomicBool,
}

impl DiskBound {
    /// Sets the bound, in bytes; 0 for none. It is effective from the next [`Self::note`] on.
    pub(crate) fn set_max(&self, max_bytes: u64) {
        self.max_bytes.store(max_bytes, Ordering::Relaxed);
    }

    /// The bound, in bytes; 0 for none.
    pub(crate) fn max_bytes(&self) -> u64 {
        self.max_bytes.load(Ordering::Relaxed)
    }

    /// What the files took at the last look, in bytes.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Ordering::Relaxed)
    }

    /// True while commands that need room are refused.
    #[inline]
    pub(crate) fn is_reached(&self) -> bool {
        self.is_reached.load(Ordering::Relaxed)
    }

    /// Checks the size of the engine's files.
    pub(crate) fn look(&self, engine: &Engine) {
        self.note(engine.file_bytes());
        engine.note_short_of_room(self.is_reached());
    }

    /// Records the current size of the files. A change of state is logged once.
    fn note(&self, used_bytes: u64) {
        self.used_bytes.store(used_bytes, Ordering::Relaxed);
        let (max_bytes, was) = (self.max_bytes(), self.is_reached());
        let least = if was { max_bytes - max_bytes / MARGIN_PARTS } else { max_bytes };
        let is_reached = max_bytes != 0 && used_bytes >= least;
        // The periodic check and CONFIG SET may run at once.
        if self.is_reached.swap(is_reached, Ordering::Relaxed) == is_reached {
            return;
        }
        if is_reached {
            log::warning(&format!(
                "files take {used_bytes} bytes, disk-max-bytes is {max_bytes}: commands that need room are refused"
            ));
        } else {
            log::notice(&format!(
                "files take {used_bytes} bytes, below disk-max-bytes again: commands are no longer refused"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_refused_from_the_bound_on_until_there_is_room_to_speak_of() {
        let bound = DiskBound::default();
        bound.note(u64::MAX);
        assert!(!bound.is_reached(), "0 is no bound");
        bound.set_max(3200);
        bound.note(3199);
        assert!(!bound.is_reached());
        bound.note(3200);
        assert!(bound.is_reached());
        bound.note(3150);
        assert!(bound.is_reached(), "within the margin");
        bound.note(3099);
        assert!(!bound.is_reached());
        bound.note(3200);
        bound.set_max(0);
        bound.note(3200);
        assert!(!bound.is_reached(), "the bound is gone");
    }
}

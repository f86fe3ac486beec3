//! Room on the devices: what the store does once its owner finds that its files are too large.
//!
//! The owner then refuses writes that need room, so no memtable fills up any more. What deletes free would wait for
//! one forever, since burial begins behind the mark. While room is short, the memtable is therefore flushed even when
//! it holds little, and tables with few dead keys are rewritten, too.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Time between two flushes for the sake of room.
const FLUSH_EVERY_MS: u64 = 1000;

/// A log of more than the size of all files divided by this is worth a flush.
pub(in crate::store) const LOG_SHARE: u64 = 32;

/// Whether room is short.
#[derive(Debug, Default)]
pub(in crate::store) struct Room {
    is_short: AtomicBool,
    /// When a flush was last asked for.
    asked_ms: Mutex<Option<u64>>,
}

impl Room {
    /// True while the owner of the store wants its files smaller.
    pub(in crate::store) fn is_short(&self) -> bool {
        self.is_short.load(Ordering::Acquire)
    }

    /// Takes note of it; true when it has become short.
    pub(in crate::store) fn note_short(&self, is_short: bool) -> bool {
        self.is_short.swap(is_short, Ordering::AcqRel) != is_short && is_short
    }

    /// True when the last flush was asked for long enough ago; then it is asked for now.
    pub(in crate::store) fn takes_turn(&self, now_ms: u64) -> bool {
        let mut asked_ms = self.asked_ms.lock();
        let is_time = asked_ms.is_none_or(|asked_ms| now_ms >= asked_ms + FLUSH_EVERY_MS);
        if is_time {
            *asked_ms = Some(now_ms);
        }
        is_time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flushes_for_the_sake_of_room_are_a_while_apart() {
        let room = Room::default();
        assert!(room.takes_turn(5) && !room.takes_turn(6) && !room.takes_turn(1004));
        assert!(room.takes_turn(1005) && !room.takes_turn(1006));
    }
}

//! Room on the devices: what the files of the store take, and what is done once the owner finds it too much.
//!
//! The owner takes no writes then that need room, so no memtable fills any more, and what deletes give back would wait for
//! one for ever: burial begins behind the mark. So while room is short the memtable is flushed for little, and tables
//! with few dead are rewritten, too.

use crate::store::engine::Engine;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Time between two flushes for the sake of room.
const FLUSH_EVERY_MS: u64 = 1000;

/// A log that is one part of so many of all files is worth a flush.
const LOG_SHARE: u64 = 32;

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

    /// True when the last flush was asked for long enough ago; then it is asked for now.
    fn takes_turn(&self, now_ms: u64) -> bool {
        let mut asked_ms = self.asked_ms.lock();
        let is_time = asked_ms.is_none_or(|asked_ms| now_ms >= asked_ms + FLUSH_EVERY_MS);
        if is_time {
            *asked_ms = Some(now_ms);
        }
        is_time
    }
}

impl Engine {
    /// Bytes of tables, undo runs and grave runs, of the log that is not retired, and of its base. Not among them: what the
    /// log keeps for its next segments, and tables that only open iterators still hold.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        let inner = self.inner();
        let version = inner.versions.current();
        let tables: u64 = version.level_sizes().iter().map(|(_, bytes)| bytes).sum();
        let graves = inner.graveyard.spill.runs.load().figures().file_bytes;
        tables + self.undo_bytes() + graves + self.log_file_bytes()
    }

    /// Bytes of the log that is not retired, and of its base.
    fn log_file_bytes(&self) -> u64 {
        let log = self.inner().write.log.load();
        let Some(log) = log.as_ref() else { return 0 };
        log.stats().live_bytes + log.base_bytes().map_or(0, |(base_bytes, _)| base_bytes)
    }

    /// Says whether the files are to become smaller. While they are, deletes give back room within seconds, although that
    /// costs more writing than they do else.
    pub fn note_short_of_room(&self, is_short: bool) {
        let inner = self.inner();
        if inner.upkeep.room.is_short.swap(is_short, Ordering::AcqRel) != is_short && is_short {
            inner.graveyard.burial_wanted.store(true, Ordering::Release);
            inner.upkeep.background.wake_flush();
            inner.upkeep.background.wake_compaction();
        }
    }

    /// Asks for a flush while room is short and one gives some back. Runs on the flush thread, ten times a second.
    pub(in crate::store) fn make_room(&self, now_ms: u64) {
        let room = &self.inner().upkeep.room;
        if room.is_short() && self.flush_gives_room() && room.takes_turn(now_ms) {
            self.inner().upkeep.background.freeze_early();
        }
    }

    /// True when deletes wait for the mark, or the log is much of all and no base needs it.
    fn flush_gives_room(&self) -> bool {
        let log_goes = self.log_base_bytes().is_none();
        self.inner().graveyard.spill.has_unmarked()
            || self.has_unmarked_deaths()
            || (log_goes && self.log_file_bytes() * LOG_SHARE > self.file_bytes())
    }

    /// True when databases were emptied since the last mark.
    pub(in crate::store) fn has_unmarked_deaths(&self) -> bool {
        let inner = self.inner();
        let mark = inner.flusher.mark.load(Ordering::Acquire);
        inner.graveyard.dead.lock().values().any(|&d| d > mark)
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

//! What was written to the log and is not durable yet: in which files, how much, since when.

use std::sync::Arc;
use std::time::Duration;

use super::device_rate::{DeviceRate, RATED_BYTES_MIN};
use super::gauge::monotonic_us;
use crate::device::File;

/// With this many bytes written since the last sync began, the next one is due early: a sync then
/// lasts as long as the device needs for this much and not for a whole second's writes (N14).
pub(super) const SYNC_BYTES: u64 = 32 << 20;

/// Pieces in which the device gets what waits for its sync, ahead of it.
pub(super) const WRITEBACK_BYTES: u64 = 4 << 20;

/// Writers are never held up for fewer unsynced bytes, however slow the device is.
const ROOM_BYTES_MIN: u64 = 16 << 20;

/// Bytes of one file that no sync has covered.
#[derive(Debug)]
struct Dirty {
    file: Arc<dyn File>,
    /// Everything below was handed to the device, or synced.
    started: u64,
    end: u64,
}

/// Part of a file that the device may begin to write.
#[derive(Debug)]
pub(super) struct Ahead {
    pub(super) file: Arc<dyn File>,
    pub(super) offset: u64,
    pub(super) len: u64,
}

/// See the module comment. Instants are in [`monotonic_us`], 0 for none.
#[derive(Debug, Default)]
pub(super) struct Unsynced {
    /// Files with writes that no sync has covered, oldest first.
    dirty: Vec<Dirty>,
    /// Bytes written since the last sync began, and those of them not handed to the device.
    bytes: u64,
    waiting_bytes: u64,
    /// Bytes that the sync under way covers.
    syncing_bytes: u64,
    rate: DeviceRate,
    /// Since when the bytes of the next sync and of the one under way keep the device busy: their first write, or
    /// the end of the large sync before it.
    busy_us: u64,
    syncing_busy_us: u64,
    /// When the oldest byte was appended that is taken, written, or being synced.
    taken_us: u64,
    written_us: u64,
    syncing_us: u64,
    largest_age_us: u64,
}

impl Unsynced {
    /// The writer took what has gathered since then.
    pub(super) fn took(&mut self, oldest_us: u64) {
        self.taken_us = oldest_us;
    }

    /// And has written all of it.
    pub(super) fn wrote_all(&mut self) {
        self.taken_us = 0;
    }

    /// Books a write. True when whoever syncs should look: it is the first one since the last sync, or
    /// there is [much](Self::is_much) now.
    pub(super) fn wrote(&mut self, file: &Arc<dyn File>, offset: u64, len: u64) -> bool {
        let was_clean = self.dirty.is_empty();
        match self.dirty.iter_mut().rfind(|dirty| Arc::ptr_eq(&dirty.file, file)) {
            Some(dirty) => dirty.end = offset + len,
            None => {
                let file = Arc::clone(file);
                self.dirty.push(Dirty { file, started: offset, end: offset + len });
            }
        }
        self.written_us = older(self.written_us, self.taken_us);
        if self.bytes == 0 {
            self.busy_us = monotonic_us();
        }
        let was_much = self.is_much();
        self.bytes += len;
        self.waiting_bytes += len;
        was_clean || (!was_much && self.is_much())
    }

    pub(super) fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// The next sync should not wait for its time.
    pub(super) fn is_much(&self) -> bool {
        // On a slow device less at a time: two syncs are what a byte may have to wait for.
        let quarter_s = self.rate.bytes_in(Duration::from_millis(250));
        self.bytes >= quarter_s.clamp(RATED_BYTES_MIN, SYNC_BYTES)
    }

    /// See [`DeviceRate::is_bound`].
    pub(super) fn is_device_bound(&self) -> bool {
        self.rate.is_bound()
    }

    /// Bytes written that are not durable.
    pub(super) fn outstanding_bytes(&self) -> u64 {
        self.bytes + self.syncing_bytes
    }

    /// What the device may begin to write, once that is a piece worth it.
    pub(super) fn take_ahead(&mut self) -> Vec<Ahead> {
        if self.waiting_bytes < WRITEBACK_BYTES {
            return Vec::new();
        }
        self.waiting_bytes = 0;
        let waiting = self.dirty.iter_mut().filter(|dirty| dirty.started < dirty.end);
        let ahead = waiting.map(|dirty| {
            let offset = std::mem::replace(&mut dirty.started, dirty.end);
            Ahead { file: Arc::clone(&dirty.file), offset, len: dirty.end - offset }
        });
        ahead.collect()
    }

    /// A sync begins; answers the files it must cover.
    pub(super) fn begin_sync(&mut self) -> Vec<Arc<dyn File>> {
        self.syncing_us = std::mem::take(&mut self.written_us);
        self.syncing_bytes = self.bytes;
        self.syncing_busy_us = self.busy_us;
        (self.bytes, self.waiting_bytes) = (0, 0);
        self.dirty.drain(..).map(|dirty| dirty.file).collect()
    }

    /// It has succeeded, and lasted so long.
    pub(super) fn end_sync(&mut self, took: Duration) {
        self.end_sync_at(took, monotonic_us());
    }

    fn end_sync_at(&mut self, took: Duration, now_us: u64) {
        let bytes = std::mem::take(&mut self.syncing_bytes);
        if bytes >= RATED_BYTES_MIN {
            // The device has had part of it before the sync began: from then on. Where writers are slower than it
            // this is their rate, which leaves them the room they need.
            let busy_us = now_us.saturating_sub(self.syncing_busy_us);
            self.rate.add(bytes, took, Duration::from_micros(busy_us));
            // What was written meanwhile is rated with the time from here on. After a little one, which is not
            // rated, it keeps its own time: the device was at it already.
            self.busy_us = self.busy_us.max(now_us);
        }
        let since_us = std::mem::take(&mut self.syncing_us);
        self.largest_age_us = self.largest_age_us.max(age_us(since_us));
    }

    /// What was written and not synced need not be any more: it is durable elsewhere. `holds` tells
    /// whether the writer still has something in its hands.
    pub(super) fn forget(&mut self, holds: bool) {
        self.dirty.clear();
        (self.bytes, self.waiting_bytes, self.syncing_bytes) = (0, 0, 0);
        (self.written_us, self.syncing_us) = (0, 0);
        if !holds {
            self.taken_us = 0;
        }
    }

    /// What waits for a sync is as old as it should get, with three quarters of `age_max`, or more than the device
    /// makes durable in a quarter of it (N14): a byte may wait for two syncs, and the rest is for a device that
    /// becomes slower meanwhile. Beside what was written, `pending_bytes` have gathered since `gathering_us`.
    pub(super) fn is_behind(
        &self,
        pending_bytes: u64,
        gathering_us: u64,
        age_max: Duration,
    ) -> bool {
        let outstanding = pending_bytes + self.outstanding_bytes();
        let may_be_too_much = outstanding > ROOM_BYTES_MIN;
        self.oldest_age_us(gathering_us) > age_max.as_micros() as u64 / 4 * 3
            || (may_be_too_much && outstanding > self.rate.bytes_in(age_max / 4))
    }

    /// Age of the oldest byte that is not durable, of those taken and of those gathering since
    /// `gathering_us`.
    pub(super) fn oldest_age_us(&self, gathering_us: u64) -> u64 {
        let written_us = older(self.taken_us, self.written_us);
        age_us(older(written_us, older(self.syncing_us, gathering_us)))
    }

    /// The largest age so far.
    pub(super) fn largest_age_us(&self, gathering_us: u64) -> u64 {
        self.largest_age_us.max(self.oldest_age_us(gathering_us))
    }

    pub(super) fn reset_largest_age(&mut self) {
        self.largest_age_us = 0;
    }
}

/// The earlier of two instants, of which 0 means none.
fn older(a: u64, b: u64) -> u64 {
    if a == 0 || b == 0 { a.max(b) } else { a.min(b) }
}

fn age_us(since_us: u64) -> u64 {
    if since_us == 0 { 0 } else { monotonic_us().saturating_sub(since_us) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Storage;
    use crate::device::sim::SimStorage;
    use std::path::Path;

    fn files() -> [Arc<dyn File>; 2] {
        let storage = SimStorage::new();
        storage.create_dir_all(Path::new("/log")).expect("makes the directory");
        ["/log/a", "/log/b"].map(|name| storage.create(Path::new(name)).expect("creates"))
    }

    #[test]
    fn pieces_go_to_the_device_once_and_a_sync_covers_every_file() {
        let [a, b] = files();
        let mut unsynced = Unsynced::default();
        assert!(unsynced.wrote(&a, 0, 1000), "the first write");
        assert!(!unsynced.wrote(&a, 1000, 1000));
        assert!(unsynced.take_ahead().is_empty(), "too little");
        assert!(!unsynced.wrote(&b, 0, 500));
        assert!(!unsynced.wrote(&b, 500, WRITEBACK_BYTES), "nothing to sync early");
        let ahead = unsynced.take_ahead();
        let parts: Vec<_> = ahead.iter().map(|part| (part.offset, part.len)).collect();
        assert_eq!(parts, [(0, 2000), (0, 500 + WRITEBACK_BYTES)]);
        assert!(Arc::ptr_eq(&ahead[0].file, &a) && Arc::ptr_eq(&ahead[1].file, &b));
        let from = 500 + WRITEBACK_BYTES;
        unsynced.wrote(&b, from, WRITEBACK_BYTES);
        let parts: Vec<_> = unsynced.take_ahead().iter().map(|p| (p.offset, p.len)).collect();
        assert_eq!(parts, [(from, WRITEBACK_BYTES)], "only what is new");
        assert_eq!(unsynced.begin_sync().len(), 2);
        assert!(!unsynced.is_dirty() && unsynced.begin_sync().is_empty());
    }

    #[test]
    fn much_is_counted_from_the_begin_of_the_last_sync() {
        let [a, _] = files();
        let mut unsynced = Unsynced::default();
        unsynced.rate.add(1 << 30, Duration::ZERO, Duration::from_secs(1));
        unsynced.wrote(&a, 0, SYNC_BYTES - 1);
        assert!(!unsynced.is_much());
        assert!(unsynced.wrote(&a, SYNC_BYTES - 1, 1), "whoever syncs is told");
        assert!(unsynced.is_much() && !unsynced.wrote(&a, SYNC_BYTES, 1), "once");
        unsynced.begin_sync();
        assert!(!unsynced.is_much());
    }

    #[test]
    fn a_slow_device_has_room_for_what_it_makes_durable_in_time() {
        const MIB: u64 = 1 << 20;
        let [a, _] = files();
        let mut unsynced = Unsynced::default();
        let is_behind =
            |unsynced: &Unsynced, mib| unsynced.is_behind(mib * MIB, 0, Duration::from_secs(2));
        assert!(!is_behind(&unsynced, 32) && is_behind(&unsynced, 33), "64 MiB/s at first");
        // A sync of so many bytes that keep the device busy so long.
        let sync = |unsynced: &mut Unsynced, bytes: u64, ms: u64| {
            unsynced.wrote(&a, 0, bytes);
            let since_us = unsynced.busy_us;
            unsynced.begin_sync();
            unsynced.wrote(&a, bytes, MIB);
            assert_eq!(unsynced.outstanding_bytes(), bytes + MIB, "until it has ended");
            let next_us = unsynced.busy_us;
            unsynced.end_sync_at(Duration::from_millis(ms / 2), since_us + 1000 * ms);
            assert_eq!(unsynced.outstanding_bytes(), MIB);
            let is_rated = bytes >= RATED_BYTES_MIN;
            let rest_us = if is_rated { since_us + 1000 * ms } else { next_us };
            assert_eq!(unsynced.busy_us, rest_us, "the rest waited for it if it was much");
            unsynced.begin_sync();
            unsynced.end_sync_at(Duration::ZERO, since_us);
        };
        sync(&mut unsynced, RATED_BYTES_MIN - 1, 60_000);
        assert!(!is_behind(&unsynced, 32) && is_behind(&unsynced, 33), "too little to tell");
        sync(&mut unsynced, 1000 * MIB, 10_000);
        assert!(!is_behind(&unsynced, 50) && is_behind(&unsynced, 51), "100 MiB/s");
        unsynced.wrote(&a, 0, 25 * MIB);
        assert!(unsynced.is_much(), "a quarter of a second's");
        assert!(!is_behind(&unsynced, 25) && is_behind(&unsynced, 26), "with what was written");
        unsynced.forget(false);
        for _ in 0..10 {
            sync(&mut unsynced, 10 * MIB, 60_000);
        }
        assert!(!is_behind(&unsynced, 16) && is_behind(&unsynced, 17), "never less");
        unsynced.wrote(&a, 0, RATED_BYTES_MIN - 1);
        assert!(!unsynced.is_much(), "not worth a sync of its own");
        unsynced.forget(false);
        assert_eq!(unsynced.outstanding_bytes(), 0);
    }

    #[test]
    fn a_device_is_the_bound_when_the_log_does_little_but_sync() {
        let [a, _] = files();
        let mut unsynced = Unsynced::default();
        let mut syncs = |of_100_ms: u64, bytes: u64| {
            for _ in 0..3 {
                unsynced.wrote(&a, 0, bytes);
                let since_us = unsynced.busy_us;
                unsynced.begin_sync();
                unsynced.end_sync_at(Duration::from_millis(of_100_ms), since_us + 100_000);
            }
            unsynced.is_device_bound()
        };
        assert!(!syncs(100, RATED_BYTES_MIN - 1), "little ones say nothing");
        assert!(!syncs(20, RATED_BYTES_MIN), "the writers are");
        assert!(syncs(95, RATED_BYTES_MIN));
        assert!(!syncs(20, RATED_BYTES_MIN), "not any more");
    }

    #[test]
    fn age_is_that_of_the_oldest_byte_wherever_it_is() {
        let [a, _] = files();
        let mut unsynced = Unsynced::default();
        assert_eq!(unsynced.oldest_age_us(0), 0);
        let now = monotonic_us() + 1_000_000;
        while monotonic_us() < now - 990_000 {
            std::hint::spin_loop();
        }
        let then = now - 999_000;
        unsynced.took(then);
        unsynced.wrote(&a, 0, 1);
        unsynced.wrote_all();
        unsynced.begin_sync();
        let age = unsynced.oldest_age_us(then + 5000);
        assert!(age >= 9_000, "{age}");
        unsynced.end_sync(Duration::from_millis(9));
        assert!(unsynced.largest_age_us(0) >= age);
        assert_eq!(unsynced.oldest_age_us(0), 0);
        unsynced.reset_largest_age();
        assert_eq!(unsynced.largest_age_us(0), 0);
    }
}

//! The model of an emulated device: computes when an operation would complete.
//!
//! A device has one medium with a time until which it is busy. A write enters a cache, up to a bound,
//! and costs nothing until a sync of its file takes it to the medium: its bytes by the bandwidth, a
//! positioning for each discontiguous run, and the fixed cost of a sync. Syncs and writes of all files
//! share the medium. Reads have channels; with a single one they share the medium, too, and a read shortly behind the
//! last one costs no positioning: the head is there, and what is between passes under it. A write-through medium
//! has no cache.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use sexton_config::profile::DeviceProfile;

use super::clock::Clock;

/// Written and not synced, of one file.
#[derive(Debug, Default)]
struct Dirty {
    bytes: u64,
    /// Discontiguous stretches.
    runs: u64,
    /// Where the last write ended.
    end: u64,
    grew: bool,
}

#[derive(Debug, Default)]
struct State {
    medium_busy_ns: u64,
    channels_busy_ns: Vec<u64>,
    dirty: HashMap<PathBuf, Dirty>,
    dirty_bytes: u64,
    /// File and offset where the last read of a single channel ended, until something else moves the head.
    head: Option<(PathBuf, u64)>,
}

impl State {
    /// Reads up to `end` of a file. Returns the bytes between the last read and this one, if it continues forward
    /// in one file, which is assumed to be contiguous. A transfer past the page cache may read the rest
    /// of a page once more, which the device has in its buffer.
    fn move_head(&mut self, path: &Path, offset: u64, end: u64) -> Option<u64> {
        let Some((at, stopped)) = &mut self.head else {
            self.head = Some((path.to_path_buf(), end));
            return None;
        };
        let goes_on = at == path && offset + PAGE_BYTES > *stopped;
        let gap_bytes = goes_on.then(|| offset.saturating_sub(*stopped));
        if at != path {
            *at = path.to_path_buf();
        }
        *stopped = end;
        gap_bytes
    }
}

/// Of the page cache.
const PAGE_BYTES: u64 = 4096;

/// The delays of one emulated device.
#[derive(Debug)]
pub(super) struct Model {
    profile: DeviceProfile,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

impl Model {
    pub(super) fn new(profile: DeviceProfile, clock: Arc<dyn Clock>) -> Self {
        let channels_busy_ns = vec![0; profile.channels];
        Self { profile, clock, state: Mutex::new(State { channels_busy_ns, ..State::default() }) }
    }

    pub(super) fn profile(&self) -> &DeviceProfile {
        &self.profile
    }

    fn transfer_ns(&self, bytes: u64, bytes_per_s: u64) -> u64 {
        let bytes = bytes.next_multiple_of(self.profile.unit_bytes);
        (u128::from(bytes) * 1_000_000_000 / u128::from(bytes_per_s)) as u64
    }

    /// Waits as long as a read of `bytes` at `offset` takes.
    pub(super) fn read(&self, path: &Path, offset: u64, bytes: u64) {
        let mut latency_ns = self.profile.read_ns;
        let until_ns = {
            let mut state = self.state.lock();
            let now_ns = self.clock.now_ns();
            let alone = state.channels_busy_ns.len() == 1;
            let busy = if alone {
                if let Some(gap_bytes) = state.move_head(path, offset, offset + bytes) {
                    let there_ns = latency_ns.saturating_sub(self.profile.position_ns);
                    let passes_ns = self.transfer_ns(gap_bytes, self.profile.read_bytes_per_s);
                    latency_ns = latency_ns.min(there_ns + passes_ns);
                }
                &mut state.medium_busy_ns
            } else {
                // There is at least one: a profile with less is refused.
                let Some(channel) = state.channels_busy_ns.iter_mut().min() else { return };
                channel
            };
            let transfer_ns = self.transfer_ns(bytes, self.profile.read_bytes_per_s);
            *busy = now_ns.max(*busy) + latency_ns + transfer_ns;
            *busy
        };
        self.clock.wait_until(until_ns);
    }

    /// A write of `bytes` at `offset`; waits only where it does not fit the cache.
    pub(super) fn write(&self, path: &Path, offset: u64, bytes: u64, file_grows: bool) {
        let until_ns = {
            let mut state = self.state.lock();
            let through = self.profile.write_through;
            if !through && state.dirty_bytes + bytes <= self.profile.cache_bytes {
                state.dirty_bytes += bytes;
                let dirty = state.dirty.entry(path.to_path_buf()).or_default();
                if dirty.runs == 0 || dirty.end != offset {
                    dirty.runs += 1;
                }
                dirty.bytes += bytes;
                dirty.end = offset + bytes;
                dirty.grew |= file_grows;
                return;
            }
            state.head = None;
            let latency_ns = if through { self.profile.write_ns } else { 0 };
            let takes_ns = latency_ns + self.transfer_ns(bytes, self.profile.write_bytes_per_s);
            state.medium_busy_ns = self.clock.now_ns().max(state.medium_busy_ns) + takes_ns;
            state.medium_busy_ns
        };
        self.clock.wait_until(until_ns);
    }

    /// A sync of a file: takes what it has in the cache to the medium.
    pub(super) fn sync(&self, path: &Path) {
        let until_ns = {
            let mut state = self.state.lock();
            let dirty = state.dirty.remove(path).unwrap_or_default();
            state.dirty_bytes -= dirty.bytes;
            state.head = None;
            // The journal of a file that has grown lies elsewhere.
            let runs = dirty.runs + u64::from(dirty.grew);
            let takes_ns = self.transfer_ns(dirty.bytes, self.profile.write_bytes_per_s)
                + runs * self.profile.position_ns
                + self.profile.sync_ns;
            state.medium_busy_ns = self.clock.now_ns().max(state.medium_busy_ns) + takes_ns;
            state.medium_busy_ns
        };
        self.clock.wait_until(until_ns);
    }

    /// The file is gone, and with it what it had in the cache.
    pub(super) fn forget(&self, path: &Path) {
        let mut state = self.state.lock();
        if let Some(dirty) = state.dirty.remove(path) {
            state.dirty_bytes -= dirty.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// Waiting moves it on.
    #[derive(Debug, Default)]
    struct TestClock(AtomicU64);

    impl Clock for TestClock {
        fn now_ns(&self) -> u64 {
            self.0.load(Ordering::Relaxed)
        }

        fn wait_until(&self, ns: u64) {
            self.0.fetch_max(ns, Ordering::Relaxed);
        }
    }

    /// 1 byte takes 1 us, except that cache takes 1000 of them for nothing.
    fn model(change: impl FnOnce(&mut DeviceProfile)) -> (Model, Arc<TestClock>) {
        let mut profile = DeviceProfile {
            name: "test".into(),
            read_ns: 100_000,
            write_ns: 50_000,
            position_ns: 10_000,
            sync_ns: 5_000,
            read_bytes_per_s: 1_000_000,
            write_bytes_per_s: 1_000_000,
            channels: 1,
            cache_bytes: 1000,
            unit_bytes: 1,
            write_through: false,
        };
        change(&mut profile);
        let clock = Arc::new(TestClock::default());
        let shared: Arc<dyn Clock> = clock.clone();
        (Model::new(profile, shared), clock)
    }

    #[test]
    fn a_sync_pays_for_bytes_runs_journal_and_itself() {
        let (model, clock) = model(|_| ());
        let (a, b) = (Path::new("a"), Path::new("b"));
        model.write(a, 0, 100, false);
        model.write(a, 100, 100, false);
        model.write(b, 0, 300, true);
        assert_eq!(clock.now_ns(), 0, "the cache takes them");
        model.sync(a);
        assert_eq!(clock.now_ns(), 200_000 + 10_000 + 5_000, "one run");
        let begun = clock.now_ns();
        model.write(b, 700, 1, false);
        model.sync(b);
        assert_eq!(clock.now_ns() - begun, 301_000 + 3 * 10_000 + 5_000, "two runs and a journal");
        let begun = clock.now_ns();
        model.sync(b);
        assert_eq!(clock.now_ns() - begun, 5_000, "nothing new");
    }

    #[test]
    fn a_full_cache_waits_for_the_medium() {
        let (model, clock) = model(|_| ());
        let path = Path::new("a");
        model.write(path, 0, 900, false);
        assert_eq!(clock.now_ns(), 0);
        model.write(path, 900, 200, false);
        assert_eq!(clock.now_ns(), 200_000);
        model.forget(path);
        model.write(path, 0, 1000, false);
        assert_eq!(clock.now_ns(), 200_000, "a removed file gives its room back");
    }

    #[test]
    fn reads_wait_for_a_single_head_and_not_for_each_other_on_flash() {
        let (disk, clock) = model(|_| ());
        disk.write(Path::new("a"), 0, 1000, false);
        disk.state.lock().medium_busy_ns = 1_000_000;
        disk.read(Path::new("b"), 0, 50);
        assert_eq!(clock.now_ns(), 1_000_000 + 150_000, "behind what the head does");

        let (flash, clock) = model(|profile| profile.channels = 2);
        flash.state.lock().medium_busy_ns = 1_000_000;
        flash.read(Path::new("b"), 0, 50);
        assert_eq!(clock.now_ns(), 150_000);
        let busy = flash.state.lock().channels_busy_ns.clone();
        assert_eq!(busy, [150_000, 0], "the other channel is free");
    }

    #[test]
    fn a_read_that_goes_on_needs_no_positioning_on_a_disk() {
        let (disk, clock) = model(|profile| profile.position_ns = 90_000);
        let (a, b) = (Path::new("a"), Path::new("b"));
        let took = |path, offset| {
            let begun = clock.now_ns();
            disk.read(path, offset, 50);
            clock.now_ns() - begun
        };
        assert_eq!(took(a, 0), 150_000);
        assert_eq!(took(a, 50), 60_000, "the head is there");
        assert_eq!(took(a, 98), 60_000, "the end of a page again");
        assert_eq!(took(a, 178), 60_000 + 30_000, "30 bytes pass under the head");
        assert_eq!(took(a, 9000), 150_000, "far forward");
        assert_eq!(took(a, 0), 150_000, "back");
        assert_eq!(took(b, 50), 150_000, "another file");
        disk.sync(a);
        assert_eq!(took(b, 100), 150_000, "a sync has moved the head");
    }

    #[test]
    fn the_devices_of_the_mvcc_study_take_what_the_paper_says() {
        let built_in = DeviceProfile::built_in();
        for (name, read_ns, write_ns) in
            [("hdd-7200.7", 12_700_000, 13_700_000), ("slc-nand", 80_000, 200_000)]
        {
            let profile = built_in.iter().find(|profile| profile.name == name).unwrap().clone();
            let (model, clock) = model(|other| *other = profile);
            model.read(Path::new("a"), 0, 2048);
            assert!(clock.now_ns().abs_diff(read_ns) < 1000, "{name} reads in {}", clock.now_ns());
            let begun = clock.now_ns();
            model.write(Path::new("b"), 0, 2048, false);
            model.sync(Path::new("b"));
            let took_ns = clock.now_ns() - begun;
            assert!(took_ns.abs_diff(write_ns) < 1000, "{name} writes in {took_ns}");
        }
    }

    #[test]
    fn write_through_media_pay_by_the_unit_and_sync_for_nothing() {
        let (pmem, clock) = model(|profile| {
            profile.write_through = true;
            profile.unit_bytes = 256;
            profile.sync_ns = 0;
        });
        pmem.write(Path::new("a"), 0, 10, true);
        assert_eq!(clock.now_ns(), 50_000 + 256_000);
        let begun = clock.now_ns();
        pmem.sync(Path::new("a"));
        assert_eq!(clock.now_ns(), begun);
    }
}

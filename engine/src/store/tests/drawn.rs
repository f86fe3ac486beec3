//! Options drawn at random for each start of a history: the content of a store depends neither on the sizes of its parts
//! nor on whether these were equal at the previous start.

use super::crash::FROZEN_MAX;
use crate::store::shard::shard_of;
use crate::store::*;
use crate::table::Compression;
use crate::tree::{CompactionOptions, LEVELS, LevelPlaces};
use sexton_persistence::device::sim::{SimRandom, SimStorage};
use sexton_persistence::device::{Clock, Device, DeviceProfile, PlacedStorage, Storage};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Keys in all shards, in two, or in one: what is drawn where the number of shards is a constant.
pub(super) fn names(random: &mut SimRandom, count: u64) -> Vec<Vec<u8>> {
    let shards = [1, 2, u64::MAX][random.below(3) as usize];
    // They sort in the same way, and are as long, whatever hash the process has.
    let name = |number, tried: u32| format!("key:{number:02}:{tried:06}").into_bytes();
    let fits = |name: &Vec<u8>| (shard_of(crate::key::hash(name)) as u64) < shards;
    let found = |number| (0..).map(|tried| name(number, tried)).find(fits);
    (0..count).map(|number| found(number).expect("one in 64 fits")).collect()
}

/// Waits for nothing.
#[derive(Debug, Default)]
struct NoWait(AtomicU64);

impl Clock for NoWait {
    fn now_ns(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn wait_until(&self, ns: u64) {
        self.0.fetch_max(ns, Ordering::Relaxed);
    }
}

/// `storage` as it is, or on a device that emulates one of those that there are profiles of.
fn device(random: &mut SimRandom, storage: Arc<dyn Storage>) -> Arc<dyn Storage> {
    let profiles = DeviceProfile::built_in();
    let Some(profile) = profiles.get(random.below(profiles.len() as u64 + 1) as usize) else {
        return storage;
    };
    let device = Device::new("default", None, "data".into());
    let device = device.emulating(profile.clone(), Arc::new(NoWait::default()));
    Arc::new(PlacedStorage::new(storage, device, Vec::new()))
}

/// Levels in ranges, each in one of two places of their own or in none.
pub(super) fn places(random: &mut SimRandom) -> LevelPlaces {
    let (mut places, mut level) = (LevelPlaces::default(), 0);
    while level < LEVELS {
        let last = level + random.below(3) as usize;
        places = match random.below(3) {
            0 => places,
            1 => places.with(level..=last, "fast"),
            _ => places.with(level..=last, "disk"),
        };
        level = last + 1;
    }
    places
}

fn compression(random: &mut SimRandom) -> Compression {
    [Compression::None, Compression::Lz4, Compression::Zstd][random.below(3) as usize]
}

fn compaction(random: &mut SimRandom) -> CompactionOptions {
    CompactionOptions {
        l0_tables: 1 + random.below(6) as usize,
        base_bytes: (1 << 10) << random.below(5),
        ratio: 2 + random.below(9),
        output_bytes: (512 << random.below(6)) as u64,
    }
}

/// `options` with everything drawn that may change between two starts. Without background threads nobody flushes while
/// writers wait, so no bound at which they do is below what a history freezes.
pub(super) fn options(seed: u64, options: EngineOptions) -> EngineOptions {
    let random = &mut SimRandom::new(seed);
    // Undo runs are the running store's alone: their device may be a new one at each start.
    let undo_storage: Option<Arc<dyn Storage>> =
        random.percent(30).then(|| Arc::new(SimStorage::new()) as Arc<dyn Storage>);
    let storage = device(random, Arc::clone(&options.storage));
    EngineOptions {
        storage,
        yields_to_log: random.percent(30),
        direct_io: random.percent(50),
        memtable_bytes: (2 << 10) << random.below(7),
        max_write_buffer_number: FROZEN_MAX + 3 + random.below(4) as usize,
        block_cache_bytes: (4 << 10) << random.below(8),
        log_buffer_bytes: (64 << 10) << random.below(4),
        compression: compression(random),
        compression_upper: compression(random),
        compression_bottom: compression(random),
        filter_bits_per_key: [0, 1, 5, 10, 20][random.below(5) as usize],
        cold_read_threads: 1 + random.below(3) as usize,
        level_places: places(random),
        undo_runs: random.percent(60),
        undo_max_bytes: if random.percent(50) { 0 } else { 200 << random.below(6) },
        undo_full: if random.percent(50) {
            UndoFull::RefuseSnapshots
        } else {
            UndoFull::ExpireOldest
        },
        undo_storage,
        log_segment_bytes: (1 << 10) << random.below(7),
        cemetery_max_bytes: if random.percent(40) { 0 } else { 300 << random.below(6) },
        delete_persist_ms: if random.percent(60) { 0 } else { 100 << random.below(5) },
        compaction: compaction(random),
        compaction_threads: 1 + random.below(2) as usize,
        ..options
    }
}

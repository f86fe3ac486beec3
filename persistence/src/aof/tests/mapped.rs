//! The log on persistent memory: mapped segments. Random histories on it are among those of `crashes`.

use super::*;
use crate::aof::FILLER;
use crate::aof::tests::routes::two_routes;
use crate::device::sim::{CrashOptions, SimFaults};
use crate::device::{Device, PlacedStorage};
use crate::pmem::sim::{SimMapper, SimMode};

/// Directories that may be on persistent memory: all of the log, or one place of its long records.
pub(super) const DIRS: [&str; 2] = ["/data", "/data/appendonlydir/on-a"];

/// The files below `dir` on simulated persistent memory, the others on a disk.
pub(super) fn placed(storage: &SimStorage, mode: SimMode, dir: &str) -> Arc<dyn Storage> {
    let inner: Arc<dyn Storage> = Arc::new(storage.clone());
    let pmem = Device::new("pmem", None, dir.into()).mapping(SimMapper::new(storage, mode));
    Arc::new(PlacedStorage::new(inner, Device::new("dir", None, "/".into()), vec![pmem]))
}

fn open(storage: &SimStorage, mode: SimMode, options: LogOptions) -> Rig {
    let (_, tail) = read_all(storage, 0, 0).expect("a log");
    let last_seq = tail.last_seq;
    Rig::open_on(placed(storage, mode, DIRS[0]), options, &tail, last_seq)
}

fn segments(storage: &SimStorage) -> Vec<Vec<u8>> {
    let dir = location().dir;
    let names = storage.list(&dir).expect("lists").into_iter();
    let names = names.filter(|name| location().segment_number(name).is_some());
    names.map(|name| storage.read(&dir.join(name)).expect("reads")).collect()
}

/// What a power failure leaves that takes everything which is not durable.
fn recovered(storage: &SimStorage) -> Vec<Command> {
    let crashed = storage.crash(1, CrashOptions::LOSE_ALL);
    read_all(&crashed, 0, 0).expect("recovers").0
}

#[test]
fn what_is_written_to_persistent_memory_is_durable_without_a_sync() {
    for policy in [SyncPolicy::No, SyncPolicy::EverySec, SyncPolicy::Always] {
        let storage = storage();
        let rig = open(&storage, SimMode::Pmem, options(policy));
        let syncs = storage.counters().syncs;
        let commits: Vec<_> = (1..=20).map(|seq| Commit::new(seq, 1, 0, 50)).collect();
        for commit in &commits {
            rig.append(commit);
            assert!(rig.core.write_batch().expect("writes"));
        }
        assert_eq!(recovered(&storage), commands_of(&commits), "{policy:?}");
        // Nothing is left to do for a sync, in whatever thread it runs.
        std::thread::scope(|scope| {
            scope.spawn(|| rig.core.sync_through(20).expect("syncs"));
        });
        assert_eq!((rig.core.durable(), storage.counters().syncs), (20, syncs));
        for segment in segments(&storage) {
            assert_eq!(segment.len(), 8 << 10, "full length from the beginning");
            assert!(segment.ends_with(&FILLER.repeat(20)), "no zeros, for a redis-server (N4)");
        }
    }
}

#[test]
fn elsewhere_msync_makes_durable_what_was_copied_since_the_last_one() {
    let storage = storage();
    let rig = open(&storage, SimMode::Msync, options(SyncPolicy::Always));
    let (syncs, fences) = (storage.counters().syncs, storage.counters().fences);
    let commits: Vec<_> = (1..=20).map(|seq| Commit::new(seq, 1, 0, 50)).collect();
    for commit in &commits {
        assert_eq!(recovered(&storage).len() as u64, commit.first_seq - 1);
        rig.append(commit);
        assert!(rig.core.write_batch().expect("writes"));
        assert_eq!(recovered(&storage).len() as u64, commit.first_seq - 1, "not yet");
        rig.core.sync().expect("syncs");
    }
    assert_eq!(recovered(&storage), commands_of(&commits));
    assert_eq!((storage.counters().syncs, storage.counters().fences), (syncs, fences + 20));
}

#[test]
fn a_failed_msync_stops_the_log_until_a_fresh_segment() {
    let storage = storage();
    let rig = open(&storage, SimMode::Msync, options(SyncPolicy::Always));
    storage.set_faults(SimFaults { fail_sync: Some(1), ..SimFaults::default() });
    rig.append(&Commit::new(1, 1, 0, 50));
    assert!(rig.core.sync_through(1).is_err());
    assert!(rig.core.sync_through(1).is_err(), "the second one would find nothing to do");
    let mark = rig.cut();
    rig.core.resume(mark).expect("a fresh segment");
    rig.append(&Commit::new(2, 1, 0, 50));
    rig.core.sync_through(2).expect("syncs");
    let crashed = storage.crash(1, CrashOptions::LOSE_ALL);
    let (commands, _) = read_all(&crashed, mark, 2).expect("recovers");
    assert_eq!(commands, commands_of(&[Commit::new(2, 1, 0, 50)]));
}

#[test]
fn what_is_longer_than_a_segment_goes_by_way_of_the_file() {
    for mode in [SimMode::Pmem, SimMode::Msync] {
        let storage = storage();
        let options = LogOptions { routes: two_routes(), ..options(SyncPolicy::Always) };
        let rig = open(&storage, mode, options);
        // Commands of 150 bytes stay in the segments, the long ones go to the parts.
        let sizes = [150, 30_000, 10, 40_000, 10];
        let commits: Vec<_> =
            (1..).zip(sizes).map(|(seq, bytes)| Commit::new(seq, 1, 0, bytes)).collect();
        for commit in &commits {
            rig.append(commit);
            rig.core.sync_through(commit.last_seq()).expect("syncs");
        }
        let many = Commit::new(6, 200, 0, 150);
        rig.append(&many);
        rig.core.sync_through(205).expect("syncs");
        rig.core.finish().expect("closes");
        let all: Vec<_> = commits.into_iter().chain([many]).collect();
        assert_eq!(recovered(&storage), commands_of(&all), "{mode:?}");
    }
}

#[test]
fn a_reused_segment_is_filler_behind_what_is_new() {
    let storage = storage();
    let rig = open(&storage, SimMode::Pmem, options(SyncPolicy::EverySec));
    let mut before = 0;
    for seq in 1..=12 {
        if seq == 7 {
            before = storage.counters().written_bytes;
        }
        rig.append(&Commit::new(seq, 1, 0, 500));
        let mark = rig.cut();
        rig.core.sync_through(mark).expect("syncs");
        let crashed = storage.crash(seq, CrashOptions::KEEP_ALL);
        let (commands, tail) = read_all(&crashed, mark - 1, mark).expect("recovers");
        assert_eq!((commands.len(), tail.last_seq, tail.cut), (1, seq, None));
        rig.core.retire_through(mark).expect("retires");
        while rig.core.tidy().expect("tidies") {}
    }
    let written = storage.counters().written_bytes - before;
    assert!(written < 6 * (8 << 10), "{written} bytes: a new one would be filled from end to end");
}

#[test]
fn space_runs_out_before_a_segment_is_mapped_and_not_in_a_store() {
    let storage = storage();
    let rig = open(&storage, SimMode::Pmem, options(SyncPolicy::EverySec));
    storage.set_faults(SimFaults { space_left_bytes: Some(1000), ..SimFaults::default() });
    rig.append(&Commit::new(1, 1, 0, 500));
    rig.core.sync_through(1).expect("the segment has its space");
    assert!(rig.core.segments.prepare(SyncPolicy::EverySec).is_err());
    let _ = rig.cut();
    rig.append(&Commit::new(2, 1, 0, 500));
    assert!(rig.core.sync_through(2).is_err());
    assert_eq!(recovered(&storage), commands_of(&[Commit::new(1, 1, 0, 500)]));
}

#[test]
fn an_archive_has_no_filler_of_segments_and_parts() {
    let storage = storage();
    let dir = PathBuf::from("/archive");
    let options = LogOptions {
        routes: two_routes(),
        archive_dir: Some(dir.clone()),
        ..options(SyncPolicy::EverySec)
    };
    let rig = open(&storage, SimMode::Pmem, options);
    let commits = [Commit::new(1, 1, 0, 10), Commit::new(2, 1, 0, 300), Commit::new(3, 1, 0, 2000)];
    for commit in &commits {
        rig.append(commit);
    }
    let mark = rig.cut();
    rig.core.sync_through(mark).expect("syncs");
    rig.append(&Commit::new(4, 1, 0, 10));
    rig.core.sync_through(4).expect("syncs");
    rig.core.retire_through(mark).expect("retires");
    let names = storage.list(&dir).expect("lists");
    let len = |name: &String| storage.read(&dir.join(name)).expect("reads").len();
    let of = |end: &str| names.iter().filter(|name| name.ends_with(end)).map(len).max();
    assert_eq!(of(".on-a"), Some(commits[1].bytes.len()), "{names:?}");
    assert_eq!(of(".on-b"), Some(commits[2].bytes.len()), "{names:?}");
    let segment = of(".incr.aof").expect("a segment");
    assert!(segment < 8 << 10, "{segment} bytes");
}

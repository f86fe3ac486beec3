//! What becomes of segments that are not needed any more (N4), and those that are not needed yet.

use sexton_config::device::DeviceKind;

use super::*;
use crate::device::{Device, PlacedStorage};

/// The log on a device of `kind`.
pub(super) fn placed(storage: &SimStorage, kind: DeviceKind) -> PlacedStorage {
    let device = Device::new("log", Some(kind), location().dir);
    let dir = Device::new("dir", None, PathBuf::from("/data"));
    PlacedStorage::new(Arc::new(storage.clone()), dir, vec![device])
}

/// Bytes of the log's files in `.spare` names, and how many were written to them after they were retired, when
/// `policy` is in force on a device of `kind`.
fn spares_after_a_retirement(policy: SyncPolicy, kind: DeviceKind) -> (usize, u64) {
    let storage = storage();
    let (_, tail) = read_all(&storage, 0, 0).expect("an empty log");
    let placed = Arc::new(placed(&storage, kind));
    let rig = Rig::open_on(placed, options(policy), &tail, 0);
    for seq in 1..=3 {
        rig.append(&Commit::new(seq, 1, 0, 4000));
        let _ = rig.cut();
        rig.core.sync_through(seq).expect("syncs");
    }
    rig.append(&Commit::new(4, 1, 0, 10));
    rig.core.sync_through(4).expect("syncs");
    rig.core.retire_through(3).expect("retires");
    let before = storage.counters().written_bytes;
    while rig.core.tidy().expect("tidies") {}
    let names = storage.list(&location().dir).expect("lists");
    let spares = names.iter().filter(|name| name.ends_with(".spare")).count();
    (spares, storage.counters().written_bytes - before)
}

#[test]
fn a_disk_does_not_write_filler_over_what_nobody_needs() {
    let (spares, bytes) = spares_after_a_retirement(SyncPolicy::EverySec, DeviceKind::Hdd);
    assert_eq!(spares, 0, "retired segments are removed");
    assert!(bytes < 1000, "the AOF manifest at most: {bytes}");
}

#[test]
fn flash_and_policy_always_recycle() {
    for (policy, kind) in [
        (SyncPolicy::EverySec, DeviceKind::Nvme),
        (SyncPolicy::Always, DeviceKind::Hdd),
        (SyncPolicy::Always, DeviceKind::Nvme),
    ] {
        let (spares, bytes) = spares_after_a_retirement(policy, kind);
        assert!(spares > 0 && bytes > 4000, "{policy:?} {kind:?}: {spares}, {bytes}");
    }
}

/// Storing the list of segments takes three syncs, for which a busy disk needs longer than a segment lasts.
#[test]
fn a_disk_has_several_segments_ready_and_lists_them_at_once() {
    for (kind, lists) in [(DeviceKind::Hdd, [0, 1, 1, 2]), (DeviceKind::Nvme, [1, 2, 3, 4])] {
        let storage = storage();
        let (_, tail) = read_all(&storage, 0, 0).expect("an empty log");
        let placed = Arc::new(placed(&storage, kind));
        let rig = Rig::open_on(placed, options(SyncPolicy::EverySec), &tail, 0);
        while rig.core.tidy().expect("tidies") {}
        // A list gets its name when it is whole.
        let before = storage.counters().renames;
        let stored = (1..=4).map(|seq| {
            rig.append(&Commit::new(seq, 1, 0, 100));
            let _ = rig.cut();
            rig.core.sync_through(seq).expect("syncs");
            while rig.core.tidy().expect("tidies") {}
            storage.counters().renames - before
        });
        assert_eq!(stored.collect::<Vec<_>>(), lists, "{kind:?}");
        let crashed = storage.crash(1, crate::device::sim::CrashOptions::LOSE_ALL);
        let (commands, _) = read_all(&crashed, 0, 0).expect("recovers");
        assert_eq!(commands.len(), 4);
    }
}

/// Regression: the filler of a segment that was prepared counted as what a start has to read.
#[test]
fn a_start_is_told_of_records_and_not_of_what_was_prepared() {
    let storage = storage();
    let (_, tail) = read_all(&storage, 0, 0).expect("an empty log");
    let rig = Rig::open(&storage, options(SyncPolicy::Always), &tail, 0);
    while rig.core.tidy().expect("tidies") {}
    for seq in 1..=20 {
        rig.append(&Commit::new(seq, 1, 0, 700));
        let _ = rig.cut();
        rig.core.sync_through(seq).expect("syncs");
        while rig.core.tidy().expect("tidies") {}
    }
    let shared: Arc<dyn Storage> = Arc::new(storage.clone());
    let mut recovery = recover(&shared, &location(), 0, 0).expect("recovers");
    let (_, told_bytes) = recovery.progress();
    while recovery.next_group().expect("a whole log").is_some() {}
    assert_eq!(recovery.progress(), (told_bytes, told_bytes));
    assert!(told_bytes > 20 * 700, "{told_bytes}");
    assert_eq!(crate::aof::record_bytes(&storage, &location()).expect("reads"), told_bytes);
    let names = storage.list(&location().dir).expect("lists");
    let length = |name: &String| storage.open(&location().dir.join(name))?.len();
    let lengths = names.iter().map(length).sum::<Result<u64, _>>().expect("lengths");
    assert!(told_bytes + (8 << 10) < lengths, "nothing was prepared: {lengths}");
}

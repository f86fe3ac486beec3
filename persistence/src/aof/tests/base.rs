//! The base (N4): when the manifest is true, and when it refuses again.

use super::*;
use crate::aof::listing::Listing;
use crate::device::sim::{CrashOptions, SimFaults};
use std::path::Path;

fn listing(storage: &SimStorage) -> Listing {
    Listing::load(storage, &location()).expect("readable").expect("a manifest")
}

fn base_file(storage: &SimStorage) -> Option<String> {
    let names = storage.list(Path::new("/data/appendonlydir")).expect("a directory");
    names.into_iter().find(|name| name.ends_with(".base.rdb"))
}

/// Appends commits of one sequence each.
fn fill(rig: &Rig, first_seq: u64, count: u64) -> Vec<Commit> {
    let commits = (first_seq..first_seq + count).map(|seq| Commit::new(seq, 1, 0, 100));
    let commits: Vec<Commit> = commits.collect();
    for commit in &commits {
        rig.append(commit);
        while rig.core.write_batch().expect("a write") {}
    }
    commits
}

/// What the server does around the writing of a base; answers its last sequence.
fn rewrite(rig: &Rig, storage: &SimStorage, pinned_max_bytes: u64) -> Result<u64, LogError> {
    rig.core.segments.hold_after(Some(0));
    let through_seq = rig.cut();
    rig.core.segments.hold_after(Some(through_seq));
    while rig.core.write_batch()? {}
    let file = storage.create(&location().new_base_path())?;
    file.write_all_at(b"REDIS0009", 0)?;
    file.sync_data()?;
    rig.core.segments.install_base(through_seq, pinned_max_bytes)?;
    Ok(through_seq)
}

#[test]
fn segments_behind_a_base_stay_until_they_are_too_many() {
    let storage = storage();
    let (_, tail) = read_all(&storage, 0, 0).expect("an empty log");
    let rig = Rig::open(&storage, options(SyncPolicy::No), &tail, 0);
    fill(&rig, 1, 100);
    let through_seq = rewrite(&rig, &storage, 40 << 10).expect("a base");
    assert_eq!(through_seq, 100);
    let first = listing(&storage);
    let base = first.base.expect("the true manifest");
    assert_eq!((base.through_seq, first.segments.len()), (100, 1));
    assert_eq!(base_file(&storage), Some(location().base_name(base.number)));

    // Marks move on, nothing retires.
    let commits = fill(&rig, 101, 100);
    let mark = rig.cut();
    while rig.core.write_batch().expect("a write") {}
    rig.core.segments.retire_through(mark).expect("no retirement");
    assert_eq!(listing(&storage).base, Some(base));
    rig.core.sync().expect("a sync");
    let survivor = storage.crash(3, CrashOptions::LOSE_ALL);
    let (commands, tail) = read_all(&survivor, through_seq, 0).expect("the log behind the base");
    assert_eq!(commands, commands_of(&commits), "base and log are the whole data");
    let again = Rig::open(&survivor, options(SyncPolicy::No), &tail, tail.last_seq);
    assert_eq!(listing(&survivor).base, Some(base), "a restart keeps it");
    again.core.segments.set_pinned_max(0);
    again.core.segments.retire_through(mark).expect("a retirement");
    assert_eq!(listing(&survivor).base, None);

    fill(&rig, 201, 400);
    let mark = rig.cut();
    while rig.core.write_batch().expect("a write") {}
    rig.core.segments.retire_through(mark).expect("a retirement");
    let last = listing(&storage);
    assert!(last.base.is_none() && last.incomplete, "it refuses again");
    assert_eq!(base_file(&storage), None);
    assert!(last.segments[0] > first.segments[0]);
}

#[test]
fn a_second_base_takes_the_place_of_the_first() {
    let storage = storage();
    let (_, tail) = read_all(&storage, 0, 0).expect("an empty log");
    let rig = Rig::open(&storage, options(SyncPolicy::No), &tail, 0);
    fill(&rig, 1, 50);
    rewrite(&rig, &storage, u64::MAX).expect("a base");
    let first = listing(&storage).base.expect("a base");
    fill(&rig, 51, 150);
    rewrite(&rig, &storage, u64::MAX).expect("another");
    let second = listing(&storage);
    let base = second.base.expect("a base");
    assert!(base.number > first.number && base.through_seq == 200);
    assert_eq!(second.segments.len(), 1, "what the first base needed is gone");
    assert_eq!(base_file(&storage), Some(location().base_name(base.number)));
    // Nothing since: the same cut again.
    assert_eq!(rewrite(&rig, &storage, u64::MAX).expect("a third"), 200);
}

#[test]
fn a_hole_in_the_log_ends_the_base() {
    let storage = storage();
    let (_, tail) = read_all(&storage, 0, 0).expect("an empty log");
    let rig = Rig::open(&storage, options(SyncPolicy::No), &tail, 0);
    fill(&rig, 1, 50);
    rewrite(&rig, &storage, u64::MAX).expect("a base");
    rig.append(&Commit::new(51, 1, 0, 100));
    storage.set_faults(SimFaults { fail_write: Some(1), ..SimFaults::default() });
    assert!(rig.core.write_batch().is_err(), "the device refuses");
    storage.set_faults(SimFaults::default());
    let mark = rig.cut();
    rig.core.resume(mark).expect("a fresh segment");
    let after = listing(&storage);
    assert!(after.base.is_none() && after.incomplete);

    // One that is being written when the log fails does not become the base.
    rig.core.segments.hold_after(Some(0));
    let through_seq = rig.cut();
    rig.core.segments.hold_after(Some(through_seq));
    rig.append(&Commit::new(52, 1, 0, 100));
    storage.set_faults(SimFaults { fail_write: Some(1), ..SimFaults::default() });
    assert!(rig.core.write_batch().is_err(), "the device refuses");
    storage.set_faults(SimFaults::default());
    rig.core.resume(rig.cut()).expect("a fresh segment");
    storage.create(&location().new_base_path()).expect("a file");
    rig.core.segments.install_base(through_seq, u64::MAX).expect_err("given up");
    assert_eq!(listing(&storage).base, None);
}

#[test]
fn the_base_of_another_server_is_foreign() {
    let storage = storage();
    let dir = Path::new("/data/appendonlydir");
    storage.create_dir_all(dir).expect("a directory");
    let text = b"file appendonly.aof.1.base.rdb seq 1 type b\n\
                 file appendonly.aof.1.incr.aof seq 1 type i\n";
    let file = storage.create(&location().manifest_path()).expect("a file");
    file.write_all_at(text, 0).expect("a write");
    storage.create(&location().segment_path(1)).expect("an empty increment");
    assert!(matches!(read_all(&storage, 0, 0), Err(LogError::Foreign { .. })));
}

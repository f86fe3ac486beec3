use std::path::Path;

use super::*;

fn with_file(content: &[u8]) -> (SimStorage, Arc<dyn File>) {
    let storage = SimStorage::new();
    storage.create_dir_all(Path::new("/d")).expect("mkdir");
    let file = storage.create(Path::new("/d/f")).expect("create");
    file.write_all_at(content, 0).expect("write");
    file.sync_data().expect("sync");
    storage.sync_dir(Path::new("/d")).expect("sync dir");
    (storage, file)
}

#[test]
fn synced_data_survives_every_crash_and_unsynced_data_only_some() {
    let (storage, file) = with_file(&[1; 2000]);
    file.write_all_at(&[2; 2000], 2000).expect("write");
    let mut whole = 0;
    let mut torn = 0;
    for seed in 0..300 {
        let after = storage.crash(seed, CrashOptions::default());
        let content = after.read(Path::new("/d/f")).expect("the name was synced");
        assert_eq!(content[..2000], [1; 2000]);
        let kept = content.iter().filter(|byte| **byte == 2).count();
        whole += usize::from(kept == 2000);
        torn += usize::from(kept != 0 && kept != 2000);
    }
    assert!((50..250).contains(&whole), "{whole} of 300 kept the write");
    assert!((10..150).contains(&torn), "{torn} of 300 tore the write");
}

#[test]
fn a_torn_write_changes_whole_sectors() {
    let (storage, file) = with_file(&[1; 4096]);
    file.write_all_at(&[2; 3000], 300).expect("write");
    let options = CrashOptions { keep_percent: 100, tear_percent: 100 };
    for seed in 0..100 {
        let content = storage.crash(seed, options).read(Path::new("/d/f")).expect("read");
        for sector in content.chunks(SECTOR_BYTES) {
            let written: Vec<_> = sector.iter().map(|byte| *byte == 2).collect();
            let changes = written.windows(2).filter(|pair| pair[0] != pair[1]).count();
            assert!(changes <= 1, "a sector holds at most the edge of the write");
        }
    }
}

#[test]
fn names_are_durable_only_after_the_directory_was_synced() {
    let (storage, _) = with_file(b"old");
    let new = storage.create(Path::new("/d/new")).expect("create");
    new.write_all_at(b"new", 0).expect("write");
    new.sync_data().expect("sync");
    storage.rename(Path::new("/d/new"), Path::new("/d/f")).expect("rename");
    assert_eq!(storage.read(Path::new("/d/f")).expect("read"), b"new");
    let lost = storage.crash(1, CrashOptions::LOSE_ALL);
    assert_eq!(lost.read(Path::new("/d/f")).expect("read"), b"old");
    assert_eq!(lost.list(Path::new("/d")).expect("list"), ["f"]);
    storage.sync_dir(Path::new("/d")).expect("sync dir");
    let kept = storage.crash(1, CrashOptions::LOSE_ALL);
    assert_eq!(kept.read(Path::new("/d/f")).expect("read"), b"new");
    storage.remove(Path::new("/d/f")).expect("remove");
    assert!(storage.crash(1, CrashOptions::LOSE_ALL).exists(Path::new("/d/f")).expect("exists"));
    assert!(!storage.crash(1, CrashOptions::KEEP_ALL).exists(Path::new("/d/f")).expect("exists"));
}

#[test]
fn a_failed_sync_drops_what_was_dirty_and_the_next_one_succeeds() {
    let (storage, file) = with_file(b"old");
    file.write_all_at(b"new", 0).expect("write");
    storage.set_faults(SimFaults { fail_sync: Some(1), ..SimFaults::default() });
    let error = file.sync_data().expect_err("the fault");
    assert_eq!(error.source.raw_os_error(), Some(libc::EIO));
    file.sync_data().expect("the fault struck once");
    assert_eq!(storage.read(Path::new("/d/f")).expect("read"), b"new");
    let after = storage.crash(0, CrashOptions::KEEP_ALL);
    assert_eq!(after.read(Path::new("/d/f")).expect("read"), b"old");
}

#[test]
fn writes_fail_short_or_for_lack_of_space() {
    let (storage, file) = with_file(b"");
    let faults = SimFaults { fail_write: Some(2), short_write_bytes: 3, ..SimFaults::default() };
    storage.set_faults(faults);
    file.write_all_at(b"aaaa", 0).expect("first write");
    file.write_all_at(b"bbbb", 4).expect_err("second write");
    assert_eq!(storage.read(Path::new("/d/f")).expect("read"), b"aaaabbb");
    storage.set_faults(SimFaults { space_left_bytes: Some(2), ..SimFaults::default() });
    file.write_all_at(b"xxxxxxx", 0).expect("overwriting needs no space");
    let error = file.write_all_at(b"cccc", 7).expect_err("full");
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    assert_eq!(storage.read(Path::new("/d/f")).expect("read"), b"xxxxxxxcc");
    assert_eq!(storage.counters().writes, 5);
}

#[test]
fn flipped_bits_and_locks() {
    let (storage, _) = with_file(&[0; 10]);
    storage.flip_bit(Path::new("/d/f"), 13).expect("flip");
    assert_eq!(storage.read(Path::new("/d/f")).expect("read")[1], 1 << 5);
    storage.flip_bit(Path::new("/d/f"), 80).expect_err("behind the end");
    let lock = storage.lock_dir(Path::new("/d")).expect("lock");
    assert!(storage.lock_dir(Path::new("/d")).is_err());
    drop(lock);
    assert!(storage.lock_dir(Path::new("/d")).is_ok());
}

#[test]
fn a_renamed_directory_is_lost_or_kept_whole() {
    let (storage, file) = with_file(b"content");
    file.sync_data().expect("sync");
    storage.create_dir_all(Path::new("/d/part/sub")).expect("mkdir");
    for name in ["/d/part/a", "/d/part/sub/b"] {
        storage.create(Path::new(name)).expect("create").sync_data().expect("sync");
    }
    storage.sync_dir(Path::new("/d/part")).expect("sync");
    storage.sync_dir(Path::new("/d/part/sub")).expect("sync");
    storage.rename(Path::new("/d/part"), Path::new("/d/whole")).expect("rename");
    let has = |storage: &SimStorage, name: &str| storage.exists(Path::new(name)).expect("exists");
    assert!(has(&storage, "/d/whole/sub/b") && !has(&storage, "/d/part/a"));
    let (mut lost, mut kept) = (0, 0);
    for seed in 0..50 {
        let after = storage.crash(seed, CrashOptions::default());
        let both = [has(&after, "/d/whole/a"), has(&after, "/d/whole/sub/b")];
        assert_eq!(both[0], both[1]);
        assert_eq!(has(&after, "/d/part/a"), !both[0]);
        lost += usize::from(!both[0]);
        kept += usize::from(both[0]);
    }
    assert!(lost > 5 && kept > 5, "{lost} lost, {kept} kept");
    storage.sync_dir(Path::new("/d")).expect("sync");
    assert!(has(&storage.crash(1, CrashOptions::LOSE_ALL), "/d/whole/sub/b"));
}

#[test]
fn the_power_goes_during_a_write_to_a_kind_of_file() {
    let storage = SimStorage::new();
    storage.create_dir_all(Path::new("/d")).expect("mkdir");
    let other = storage.create(Path::new("/d/other")).expect("creates");
    let file = storage.create(Path::new("/d/a.log")).expect("creates");
    storage.sync_dir(Path::new("/d")).expect("syncs");
    let power_off_on = Some(PowerPoint { path_part: ".log", after: 1 });
    storage.set_faults(SimFaults { power_off_on, ..SimFaults::default() });
    other.write_all_at(b"12345", 0).expect("another kind");
    file.write_all_at(b"first ", 0).expect("still on");
    assert!(!storage.is_off());
    file.write_all_at(b"second", 6).expect_err("goes");
    assert!(storage.is_off());
    other.write_all_at(b"x", 0).expect_err("off for all");
    let read = |percent| {
        let options = CrashOptions { keep_percent: percent, tear_percent: 0 };
        storage.crash(1, options).read(Path::new("/d/a.log")).expect("reads")
    };
    assert_eq!((&read(100)[..], &read(0)[..]), (&b"first second"[..], &b""[..]));
    let other = storage.crash(1, CrashOptions::KEEP_ALL).read(Path::new("/d/other"));
    assert_eq!(other.expect("reads"), b"12345");
}

//! Flipped bits, missing files, foreign files: refused when acknowledged data is concerned.

use super::*;
use crate::device::sim::CrashOptions;

/// Twenty commits over several segments, closed in good order.
fn closed_log() -> (SimStorage, Vec<Commit>) {
    let storage = storage();
    let (_, tail) = read_all(&storage, 0, 0).expect("an empty log");
    let rig = Rig::open(&storage, options(SyncPolicy::Always), &tail, 0);
    let mut commits = Vec::new();
    for seq in 0..20 {
        let commit = Commit::new(1 + seq * 2, 2, 0, 300);
        rig.append(&commit);
        commits.push(commit);
        rig.core.write_batch().expect("writes");
        rig.core.sync().expect("syncs");
        rig.core.segments.prepare(SyncPolicy::Always).expect("prepares");
    }
    rig.core.finish().expect("closes");
    (storage, commits)
}

fn segment_paths(storage: &SimStorage) -> Vec<PathBuf> {
    let names = storage.list(&location().dir).expect("lists");
    names.iter().filter(|n| n.ends_with(".aof")).map(|n| location().dir.join(n)).collect()
}

#[test]
fn a_flipped_bit_is_refused_or_harmless() {
    let (storage, commits) = closed_log();
    let expected = commands_of(&commits);
    let paths = segment_paths(&storage);
    assert!(paths.len() > 2, "several segments");
    let (mut refused, mut harmless) = (0, 0);
    for path in &paths {
        let bits = storage.read(path).expect("reads").len() as u64 * 8;
        for bit in (0..bits).step_by(97) {
            let damaged = storage.crash(0, CrashOptions::KEEP_ALL);
            damaged.flip_bit(path, bit).expect("flips");
            match read_all(&damaged, 0, 0) {
                Ok((commands, _)) => {
                    assert!(commands == expected, "{} bit {bit}: data lost", path.display());
                    harmless += 1;
                }
                Err(error) => {
                    let file = path.file_name().and_then(|name| name.to_str()).expect("a name");
                    let text = error.to_string();
                    assert!(text.contains("sexton-check") || text.contains(file), "{text}");
                    refused += 1;
                }
            }
        }
    }
    assert!(refused > 300 && harmless > 100, "{refused} refused, {harmless} in filler");
}

#[test]
fn the_hint_tells_a_lost_last_group_from_a_torn_one() {
    let storage = storage();
    let (_, tail) = read_all(&storage, 0, 0).expect("an empty log");
    let rig = Rig::open(&storage, options(SyncPolicy::EverySec), &tail, 0);
    for seq in 1..=3 {
        rig.append(&Commit::new(seq, 1, 0, 10));
        rig.core.write_batch().expect("writes");
    }
    rig.core.sync().expect("syncs");
    let path = location().segment_path(1);
    let bits = storage.read(&path).expect("reads").len() as u64 * 8;
    storage.flip_bit(&path, bits - 100).expect("flips");
    let copy = storage.crash(0, CrashOptions::KEEP_ALL);
    let (commands, tail) = read_all(&copy, 0, 2).expect("nothing says that 3 was synced");
    assert_eq!((commands.len(), tail.last_seq), (2, 2));
    let cut = tail.cut.expect("a torn group");
    assert_eq!(copy.read(&path).expect("reads").len() as u64, cut.offset);
    match read_all(&storage, 0, 3) {
        Err(LogError::Damaged { file, offset, expected_seq, synced_seq }) => {
            assert_eq!((file, offset, expected_seq, synced_seq), (path, cut.offset, 3, 3));
        }
        other => panic!("expected damage, got {other:?}"),
    }
}

#[test]
fn a_cut_tail_never_comes_back() {
    let storage = storage();
    let (_, tail) = read_all(&storage, 0, 0).expect("an empty log");
    let rig = Rig::open(&storage, options(SyncPolicy::No), &tail, 0);
    rig.append(&Commit::new(1, 1, 0, 10));
    rig.core.write_batch().expect("writes");
    rig.append(&Commit::new(2, 1, 0, 10));
    rig.core.write_batch().expect("writes");
    let path = location().segment_path(1);
    let second = 128 + 192;
    assert_eq!(storage.read(&path).expect("reads").len(), second + 192, "two small groups");
    storage.flip_bit(&path, second as u64 * 8 + 1).expect("flips");
    let (commands, tail) = read_all(&storage, 0, 0).expect("a torn tail");
    assert_eq!(commands.len(), 1);
    let rig = Rig::open(&storage, options(SyncPolicy::No), &tail, 1);
    let again = Commit::new(2, 1, 3, 20);
    rig.append(&again);
    rig.core.write_batch().expect("writes");
    let (commands, _) = read_all(&storage, 0, 0).expect("a whole log");
    assert_eq!(commands[1..], commands_of(&[again]));
}

#[test]
fn a_group_of_another_epoch_or_position_is_never_replayed() {
    let (storage, commits) = closed_log();
    // The first segment's groups under the second one's name, as a lost rename could leave them.
    let [first, second] = [1, 2].map(|number| location().segment_path(number));
    storage.remove(&second).expect("removes");
    storage.hard_link(&first, &second).expect("links");
    let error = read_all(&storage, 0, 0).expect_err("segment 2 is not segment 2");
    assert!(matches!(error, LogError::Damaged { .. }), "{error}");
    // A stale group behind the end of a log.
    let (storage, _) = closed_log();
    let shared: Arc<dyn Storage> = Arc::new(storage.clone());
    let last = segment_paths(&storage).len() as u64;
    let mut used = storage.read(&location().segment_path(last)).expect("reads");
    if !used.starts_with(b"#SXH") {
        used = storage.read(&location().segment_path(last - 1)).expect("reads");
    }
    let (_, tail) = read_all(&storage, 0, 0).expect("whole");
    let rig = Rig::open(&storage, options(SyncPolicy::No), &tail, tail.last_seq);
    let fresh = segment_paths(&storage).len() as u64;
    let newest = (1..=fresh + last).rev().map(|n| location().segment_path(n));
    let newest = newest.into_iter().find(|path| storage.exists(path).expect("exists"));
    let file = shared.open(&newest.expect("the new segment")).expect("opens");
    file.write_all_at(&used[128..], 128).expect("writes");
    drop(rig);
    let (commands, _) = read_all(&storage, 0, 0).expect("old epochs count for nothing");
    assert_eq!(commands, commands_of(&commits));
}

#[test]
fn missing_and_foreign_files_are_fatal() {
    let (storage, _) = closed_log();
    storage.remove(&location().segment_path(2)).expect("removes");
    assert!(matches!(read_all(&storage, 0, 0), Err(LogError::MissingSegment { .. })));
    let file = storage.create(&location().segment_path(2)).expect("creates");
    file.write_all_at(b"*1\r\n$4\r\nPING\r\n", 0).expect("writes");
    assert!(matches!(read_all(&storage, 0, 0), Err(LogError::ForeignWrites { offset: 0, .. })));
    let (storage, _) = closed_log();
    storage.remove(&location().manifest_path()).expect("removes");
    assert!(matches!(read_all(&storage, 0, 0), Err(LogError::UnlistedSegment { .. })));
    assert!(matches!(read_all(&storage, 0, 7), Err(LogError::MissingSegment { .. })));
}

/// A power failure may take the header of the oldest segment that is left and spare a later one: nothing behind the
/// mark is whole then, and nothing of it had been promised.
#[test]
fn a_lost_header_in_front_of_a_whole_segment_is_a_torn_tail_if_nothing_was_synced() {
    for is_synced in [false, true] {
        let storage = storage();
        let (_, tail) = read_all(&storage, 0, 0).expect("an empty log");
        let rig = Rig::open(&storage, options(SyncPolicy::No), &tail, 0);
        for seq in [1, 3, 5, 7] {
            rig.append(&Commit::new(seq, 2, 0, 50));
            rig.core.write_batch().expect("writes");
            if seq == 5 && is_synced {
                rig.core.sync().expect("syncs");
            }
            rig.cut();
            rig.core.write_batch().expect("writes");
        }
        rig.core.segments.retire_through(2).expect("retires");
        let oldest = segment_paths(&storage).into_iter().min().expect("segments");
        let file = storage.open(&oldest).expect("opens");
        file.write_all_at(&[0; crate::aof::HEADER_BYTES], 0).expect("writes");
        let read = read_all(&storage, 2, 0);
        if is_synced {
            assert!(matches!(read, Err(LogError::Damaged { expected_seq: 3, .. })), "{read:?}");
        } else {
            let (commands, tail) = read.expect("nothing had been promised");
            assert_eq!((commands.len(), tail.last_seq), (0, 2));
        }
    }
}

#[test]
fn a_log_that_starts_above_the_mark_is_refused() {
    let (storage, commits) = closed_log();
    let (_, tail) = read_all(&storage, 0, 0).expect("whole");
    let rig = Rig::open(&storage, options(SyncPolicy::No), &tail, tail.last_seq);
    let mark = commits[12].last_seq();
    rig.core.segments.retire_through(mark).expect("retires");
    let (commands, _) = read_all(&storage, mark, tail.last_seq).expect("the rest is there");
    assert_eq!(commands, commands_of(&commits[13..]));
    let error = read_all(&storage, 0, 0).expect_err("the beginning is gone");
    assert!(matches!(error, LogError::StartsAboveMark { mark: 0, .. }), "{error}");
    let listing = storage.read(&location().manifest_path()).expect("reads");
    assert!(listing.starts_with(b"file run-BGREWRITEAOF-first.rdb seq 1 type b\n"));
}

#[test]
fn a_lost_manifest_is_no_empty_log() {
    let storage = storage();
    let (_, tail) = read_all(&storage, 0, 0).expect("an empty log");
    let rig = Rig::open(&storage, options(SyncPolicy::No), &tail, 0);
    rig.append(&Commit::new(1, 1, 0, 100));
    assert!(rig.core.write_batch().expect("a write"));
    rig.core.sync().expect("a sync");
    let old = {
        let file = storage.open(&location().manifest_path()).expect("a manifest");
        let mut text = vec![0; file.len().expect("a length") as usize];
        file.read_exact_at(&mut text, 0).expect("a read");
        text
    };
    storage.remove(&location().manifest_path()).expect("a removal");
    let error = read_all(&storage, 0, 0).expect_err("refused");
    assert!(matches!(error, LogError::UnlistedSegment { .. }), "{error}");
    // One that lost its last lines.
    let line = old.iter().position(|byte| *byte == b'\n').expect("a line") + 1;
    for _ in 0..200 {
        let seq = rig.buffer.lock().last_seq() + 1;
        rig.append(&Commit::new(seq, 1, 0, 100));
    }
    while rig.core.write_batch().expect("a write") {}
    rig.core.sync().expect("a sync");
    let file = storage.create(&location().manifest_path()).expect("a file");
    file.write_all_at(&old[..line], 0).expect("a write");
    let error = read_all(&storage, 0, 0).expect_err("refused");
    assert!(matches!(error, LogError::UnlistedSegment { .. }), "{error}");
    let kept = storage.list(&location().dir).expect("a directory").len();
    assert!(kept > 2, "nothing was cleared away");
}

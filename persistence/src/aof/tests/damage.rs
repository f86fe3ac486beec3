//! Flipped bits, missing files, foreign files: refused when acknowledged data is concerned.

use super::*;
use crate::aof::annotation::{Annotation, annotation_bytes};
use crate::checksum::crc32c;
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

/// Regression: a value that holds annotations of its own, each saying that much more had been synced, made the
/// start after a torn write refuse the log as damaged.
#[test]
fn no_annotation_inside_a_value_is_evidence() {
    let storage = storage();
    let (_, tail) = read_all(&storage, 0, 0).expect("an empty log");
    let rig = Rig::open(&storage, options(SyncPolicy::Always), &tail, 0);
    rig.append(&Commit::new(1, 1, 0, 10));
    rig.core.write_batch().expect("writes");
    rig.core.sync().expect("syncs");
    // Whole groups at each line, in the form of now and in that of before, for every secret but the right one.
    let mut value = Vec::new();
    for guess in 0..64 {
        let commands = b"*1\r\n$4\r\nPING\r\n";
        let annotation = Annotation {
            epoch: 1,
            first_seq: 2,
            count: 1,
            command_bytes: commands.len() as u64,
            synced_seq: 1 << 62,
        };
        let mut group = vec![0; annotation_bytes(commands.len())];
        group.extend_from_slice(commands);
        annotation.encode(&mut group, guess);
        if guess % 2 == 0 {
            group = as_version_1(group);
        }
        value.extend_from_slice(&group);
    }
    let end = storage.read(&location().segment_path(1)).expect("reads");
    let end = end.windows(5).rposition(|bytes| bytes == b"#SX2 ").expect("a group") + 192;
    for shift in 0..64 {
        let storage = storage.crash(0, CrashOptions::KEEP_ALL);
        let shared: Arc<dyn Storage> = Arc::new(storage.clone());
        let file = shared.open(&location().segment_path(1)).expect("opens");
        let torn = [&vec![b'.'; 256 + shift][..], &value].concat();
        file.write_all_at(&torn, end as u64).expect("writes");
        let (commands, tail) = read_all(&storage, 0, 1).expect("a torn tail");
        assert_eq!((commands.len(), tail.last_seq), (1, 1), "shifted by {shift}");
    }
}

/// A group in the form of before there was a proof.
fn as_version_1(mut group: Vec<u8>) -> Vec<u8> {
    group[..5].copy_from_slice(b"#SX1 ");
    group[82..107].fill(b' ');
    group[82..90].fill(b'0');
    let crc = crc32c(&group);
    group[82..90].copy_from_slice(format!("{crc:08x}").as_bytes());
    group
}

/// A log of before there was a secret: read, its evidence heard, and followed by segments of today.
#[test]
fn a_log_without_a_secret_is_read_and_gets_one() {
    let (storage, commits) = closed_log();
    let shared: Arc<dyn Storage> = Arc::new(storage.clone());
    for path in segment_paths(&storage) {
        let mut bytes = storage.read(&path).expect("reads");
        let mut at = crate::aof::HEADER_BYTES;
        while let Some(annotation) = bytes.get(at..).and_then(Annotation::parse) {
            let length = annotation.group_bytes().expect("fits") as usize;
            let group = as_version_1(bytes[at..at + length].to_vec());
            bytes[at..at + length].copy_from_slice(&group);
            at += length;
        }
        shared.open(&path).expect("opens").write_all_at(&bytes, 0).expect("writes");
    }
    let text = storage.read(&location().manifest_path()).expect("reads");
    let text = String::from_utf8(text).expect("text");
    let without: String =
        text.lines().filter(|l| !l.starts_with("#SXK")).flat_map(|l| [l, "\n"]).collect();
    assert!(without.len() < text.len());
    let manifest = storage.create(&location().manifest_path()).expect("creates");
    manifest.write_all_at(without.as_bytes(), 0).expect("writes");
    let damaged = storage.crash(0, CrashOptions::KEEP_ALL);
    damaged.flip_bit(&location().segment_path(1), 500 * 8).expect("flips");
    let refused = read_all(&damaged, 0, 0).expect_err("what followed says it was durable");
    assert!(matches!(refused, LogError::Damaged { .. }), "{refused}");
    let (commands, tail) = read_all(&storage, 0, 0).expect("reads");
    assert_eq!((commands, tail.secret), (commands_of(&commits), None));
    let rig = Rig::open(&storage, options(SyncPolicy::No), &tail, tail.last_seq);
    let more = Commit::new(tail.last_seq + 1, 1, 0, 30);
    rig.append(&more);
    rig.core.write_batch().expect("writes");
    let (commands, tail) = read_all(&storage, 0, 0).expect("reads");
    assert_eq!(commands, commands_of(&[commits, vec![more]].concat()));
    assert_eq!(tail.secret, Some(rig.core.segments.secret()));
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

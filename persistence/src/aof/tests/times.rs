//! Time annotations: read back, and the log cut at one of them.

use super::*;
use std::cell::Cell;

thread_local!(static NOW_S: Cell<u64> = const { Cell::new(0) });

/// Commits 1 to 20 of the seconds 101, 102 ..., two a second, in segments of some groups each.
fn log() -> (SimStorage, Vec<Commit>) {
    let storage = storage();
    let (_, tail) = read_all(&storage, 0, 0).expect("an empty log");
    let options = LogOptions { segment_bytes: 1024, ..options(SyncPolicy::Always) };
    let rig = Rig::open(&storage, options, &tail, 0);
    rig.buffer.lock().set_clock(Some(|| NOW_S.get()));
    let mut commits = Vec::new();
    for seq in 1..=20_u64 {
        NOW_S.set(100 + seq.div_ceil(2));
        let commit = Commit::new(seq, 1, 0, 50);
        rig.append(&commit);
        commits.push(commit);
        if seq % 3 == 0 {
            rig.core.sync_through(seq).expect("syncs");
        }
    }
    rig.core.finish().expect("closes");
    (storage, commits)
}

/// Cuts the log behind the second; answers the second at which it was cut.
fn cut_after(storage: &SimStorage, mark: u64, time_s: u64) -> Option<u64> {
    let shared: Arc<dyn Storage> = Arc::new(storage.clone());
    let mut recovery = recover(&shared, &location(), mark, mark).expect("a log");
    recovery.end_after(time_s);
    while recovery.next_group().expect("a readable log").is_some() {}
    let ended = recovery.ended_before_s();
    recovery.finish_and_empty().expect("cuts");
    ended
}

#[test]
fn groups_say_which_second_they_are_of() {
    let (storage, commits) = log();
    let shared: Arc<dyn Storage> = Arc::new(storage.clone());
    let mut recovery = recover(&shared, &location(), 0, 0).expect("a log");
    while let Some(group) = recovery.next_group().expect("a readable log") {
        let (first, last) = (group.first_seq, group.first_seq + group.count - 1);
        assert_eq!(group.time_s, Some(100 + first.div_ceil(2)));
        assert_eq!(first.div_ceil(2), last.div_ceil(2), "a group is of one second");
    }
    let (commands, _) = read_all(&storage, 0, 0).expect("a whole log");
    assert_eq!(commands, commands_of(&commits));
}

#[test]
fn a_log_is_cut_at_any_second() {
    for time_s in 101..=109 {
        let (storage, commits) = log();
        assert_eq!(cut_after(&storage, 0, time_s), Some(time_s + 1));
        let kept = &commits[..2 * (time_s - 100) as usize];
        let (commands, tail) =
            read_all(&storage, 0, 0).expect("no word of what was cut off is left");
        assert_eq!(commands, commands_of(kept), "up to {time_s}");
        assert_eq!(tail.last_seq, kept.len() as u64);
        // The log goes on behind the cut.
        let rig = Rig::open(&storage, options(SyncPolicy::No), &tail, tail.last_seq);
        let next = Commit::new(tail.last_seq + 1, 1, 0, 10);
        rig.append(&next);
        rig.core.sync_through(next.first_seq).expect("syncs");
        let (commands, _) = read_all(&storage, 0, 0).expect("a whole log");
        assert_eq!(commands, commands_of(&[kept, &[next]].concat()));
    }
    let (storage, commits) = log();
    assert_eq!(cut_after(&storage, 0, 110), None, "nothing is later");
    assert_eq!(read_all(&storage, 0, 0).expect("a whole log").0, commands_of(&commits));
}

#[test]
fn what_redis_check_aof_cut_is_a_torn_tail() {
    let (storage, commits) = log();
    let path = location().segment_path(1);
    let bytes = storage.read(&path).expect("reads");
    let at = bytes.windows(8).position(|bytes| bytes == b"#TS:102\r").expect("a group of 102");
    storage.open(&path).and_then(|file| file.set_len(at as u64)).expect("cuts");
    // It insists on the last file only.
    for number in 2..100 {
        let path = location().segment_path(number);
        if storage.exists(&path).expect("exists") {
            storage.remove(&path).expect("removes");
        }
    }
    let manifest = storage.open(&location().manifest_path()).expect("a manifest");
    manifest.set_len(0).expect("cuts");
    manifest.write_all_at(b"file appendonly.aof.1.incr.aof seq 1 type i\n", 0).expect("writes");
    let (commands, tail) = read_all(&storage, 0, 0).expect("a torn tail");
    assert_eq!(commands, commands_of(&commits[..2]));
    assert!(tail.cut.is_some());
}

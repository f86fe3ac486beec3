//! Records on other devices (R1 to R6). Random histories with routes are among those of `crashes`.

use super::*;
use crate::aof::{LogRoute, gather, supersede};
use crate::device::sim::{CrashOptions, SimFaults};

/// Places `a` from 200 bytes on and `b` from 1000.
pub(super) fn two_routes() -> Vec<LogRoute> {
    [(200, "a"), (1000, "b")]
        .map(|(least_bytes, name)| LogRoute { least_bytes, name: name.into() })
        .into()
}

fn routed(policy: SyncPolicy) -> LogOptions {
    LogOptions { routes: two_routes(), ..options(policy) }
}

/// One commit of each size, the transaction going with its largest value.
fn commits() -> Vec<Commit> {
    let sizes = [10, 200, 1000, 199, 999, 3000];
    let mut commits: Vec<_> =
        (1..).zip(sizes).map(|(seq, bytes)| Commit::new(seq, 1, seq as u32 % 2, bytes)).collect();
    let mut mixed = Commit::new(7, 1, 0, 5);
    mixed.bytes.extend(Commit::new(8, 1, 0, 1500).bytes);
    mixed.count = 2;
    commits.push(mixed);
    commits
}

fn open(storage: &SimStorage, options: LogOptions) -> Rig {
    let (_, tail) = read_all(storage, 0, 0).expect("a log");
    let last_seq = tail.last_seq;
    Rig::open(storage, options, &tail, last_seq)
}

/// Paths of the parts in a place.
fn parts(storage: &SimStorage, name: &str) -> Vec<PathBuf> {
    let dir = location().dir.join(format!("on-{name}"));
    storage.list(&dir).expect("lists").iter().map(|name| dir.join(name)).collect()
}

fn bytes_in(storage: &SimStorage, paths: &[PathBuf]) -> usize {
    paths.iter().map(|path| storage.read(path).expect("reads").len()).sum()
}

#[test]
fn records_lie_where_their_largest_value_says_and_come_back_in_order() {
    let storage = storage();
    let rig = open(&storage, routed(SyncPolicy::Always));
    let commits = commits();
    for commit in &commits {
        rig.append(commit);
    }
    rig.core.sync_through(8).expect("syncs");
    let bytes = |places: &[usize]| places.iter().map(|&n| commits[n].bytes.len()).sum::<usize>();
    assert_eq!(bytes_in(&storage, &parts(&storage, "a")), bytes(&[1, 4]));
    assert_eq!(bytes_in(&storage, &parts(&storage, "b")), bytes(&[2, 5, 6]));
    let crashed = storage.crash(1, CrashOptions::LOSE_ALL);
    let (commands, tail) = read_all(&crashed, 0, 8).expect("recovers");
    assert_eq!((commands, tail.last_seq), (commands_of(&commits), 8));
    let above = read_all(&crashed, 0, 0).expect("again").0;
    assert_eq!(above.len(), 8);
}

/// The segment was written back, the part was not: nobody was promised anything.
#[test]
fn a_part_that_lost_what_nobody_synced_ends_the_log_there() {
    for lost in ["a", "b"] {
        let storage = storage();
        let rig = open(&storage, routed(SyncPolicy::No));
        let commits = commits();
        rig.append(&commits[0]);
        rig.core.sync_through(1).expect("syncs");
        for commit in &commits[1..] {
            rig.append(commit);
            rig.core.write_batch().expect("writes");
        }
        let kept = if lost == "a" { "b" } else { "a" };
        let synced = parts(&storage, kept).into_iter().chain([location().segment_path(1)]);
        synced.for_each(|path| storage.open(&path).expect("opens").sync_data().expect("syncs"));
        let crashed = storage.crash(3, CrashOptions::LOSE_ALL);
        let last = if lost == "a" { 1 } else { 2 };
        let (commands, tail) = read_all(&crashed, 0, 1).expect("a torn tail");
        assert_eq!(commands, commands_of(&commits[..last]), "without {lost}");
        assert!(tail.cut.is_some());
        // What the other place still has of the cut groups is never taken up again.
        let rig = Rig::open(&crashed, routed(SyncPolicy::Always), &tail, tail.last_seq);
        let again = Commit::new(tail.last_seq + 1, 1, 0, 2000);
        rig.append(&again);
        rig.core.sync_through(again.first_seq).expect("syncs");
        let (commands, _) = read_all(&crashed, 0, 0).expect("recovers");
        let expected: Vec<_> = commits[..last].iter().cloned().chain([again]).collect();
        assert_eq!(commands, commands_of(&expected));
    }
}

#[test]
fn damage_to_a_part_that_was_acknowledged_is_refused() {
    let storage = storage();
    let rig = open(&storage, routed(SyncPolicy::Always));
    for commit in &commits() {
        rig.append(commit);
        rig.core.sync_through(commit.last_seq()).expect("syncs");
    }
    rig.core.finish().expect("closes");
    let expected = commands_of(&commits());
    let mut refused = 0;
    for path in [parts(&storage, "a"), parts(&storage, "b")].concat() {
        let bits = storage.read(&path).expect("reads").len() as u64 * 8;
        for bit in (0..bits).step_by(977) {
            let damaged = storage.crash(0, CrashOptions::KEEP_ALL);
            damaged.flip_bit(&path, bit).expect("flips");
            let outcome = read_all(&damaged, 0, 0);
            assert!(matches!(outcome, Err(LogError::Damaged { .. })), "{outcome:?}");
            refused += 1;
        }
        if bits > 0 {
            let damaged = storage.crash(0, CrashOptions::KEEP_ALL);
            damaged.remove(&path).expect("removes");
            let outcome = read_all(&damaged, 0, 0);
            assert!(
                matches!(outcome, Err(LogError::Damaged { .. })),
                "a missing part: {outcome:?}"
            );
        }
    }
    assert!(refused > 20, "{refused} bits");
    assert_eq!(read_all(&storage, 0, 0).expect("undamaged").0, expected);
}

#[test]
fn a_failure_of_one_device_is_one_of_the_log() {
    let storage = storage();
    let rig = open(&storage, routed(SyncPolicy::Always));
    let commits = commits();
    rig.append(&commits[0]);
    rig.core.sync_through(1).expect("syncs");
    rig.append(&commits[1]);
    // The first write of the batch is that of the part.
    storage.set_faults(SimFaults { fail_write: Some(1), ..SimFaults::default() });
    assert!(rig.core.write_batch().is_err());
    assert!(rig.core.failure().expect("failed").contains("on-a"), "the part is named");
    let mark = rig.cut();
    rig.append(&commits[2]);
    rig.core.resume(mark).expect("a fresh segment");
    rig.core.sync_through(3).expect("works again");
    storage.set_faults(SimFaults { fail_sync: Some(1), ..SimFaults::default() });
    rig.append(&commits[3]);
    rig.append(&commits[4]);
    assert!(rig.core.sync_through(5).is_err());
    assert_eq!(rig.core.durable(), 3);
    let mark = rig.cut();
    rig.core.resume(mark).expect("a fresh segment");
    rig.append(&commits[5]);
    rig.core.sync_through(6).expect("works again");
    let crashed = storage.crash(5, CrashOptions::LOSE_ALL);
    let (commands, _) = read_all(&crashed, mark, 6).expect("recovers");
    assert_eq!(commands, commands_of(&commits[5..6]));
}

fn manifest(storage: &SimStorage) -> String {
    String::from_utf8(storage.read(&location().manifest_path()).expect("reads")).expect("text")
}

#[test]
fn a_redis_is_kept_from_the_log_until_there_is_a_base_without_routes() {
    let storage = storage();
    let rig = open(&storage, options(SyncPolicy::Always));
    let commits = commits();
    rig.append(&commits[0]);
    rig.core.sync_through(1).expect("syncs");
    assert!(!manifest(&storage).contains("run-BGREWRITEAOF-first"), "all of it is there");
    let rig = open(&storage, routed(SyncPolicy::Always));
    assert!(manifest(&storage).contains("run-BGREWRITEAOF-first"), "from the start on");
    rig.append(&commits[1]);
    rig.core.sync_through(2).expect("syncs");
    let (_, tail) = read_all(&storage, 0, 2).expect("recovers");
    let rig = Rig::open(&storage, options(SyncPolicy::Always), &tail, 2);
    assert!(manifest(&storage).contains("run-BGREWRITEAOF-first"), "there are parts");
    rig.append(&commits[2]);
    let mark = rig.cut();
    rig.core.sync_through(mark).expect("syncs");
    assert_eq!(bytes_in(&storage, &parts(&storage, "a")), commits[1].bytes.len());
    let segments = &rig.core.segments;
    segments.hold_after(Some(mark));
    storage.create(&location().new_base_path()).expect("creates").sync_data().expect("syncs");
    rig.core.write_batch().expect("the cut");
    segments.install_base(mark, 1 << 20).expect("a base");
    assert!(manifest(&storage).contains("base.rdb") && !manifest(&storage).contains("run-BGREW"));
    assert!(parts(&storage, "a").is_empty(), "parts go with their segments");
}

#[test]
fn an_archive_has_the_parts_beside_their_segments() {
    let storage = storage();
    let archive = PathBuf::from("/data/archive");
    let archiving = LogOptions { archive_dir: Some(archive.clone()), ..routed(SyncPolicy::Always) };
    let rig = open(&storage, archiving);
    let commits = commits();
    for commit in &commits {
        rig.append(commit);
        let mark = rig.cut();
        rig.core.sync_through(mark).expect("syncs");
        rig.core.write_batch().expect("the cut");
        rig.core.segments.retire_through(mark).expect("retires");
    }
    assert!(bytes_in(&storage, &parts(&storage, "b")) == 0, "all are retired");
    let crashed = storage.crash(1, CrashOptions::LOSE_ALL);
    crashed.create_dir_all(Path::new("/restored")).expect("mkdir");
    let elsewhere = LogLocation { dir: "/restored/appendonlydir".into(), ..location() };
    gather(&crashed, &[location().dir, archive], &elsewhere, 0).expect("segments");
    let shared: Arc<dyn Storage> = Arc::new(crashed.clone());
    let mut recovery = recover(&shared, &elsewhere, 0, 0).expect("a log");
    let mut found = Vec::new();
    while let Some(group) = recovery.next_group().expect("no hole") {
        found.extend(split_commands(group.commands).iter().map(|command| command.to_vec()));
    }
    found.retain(|command| selected(command).is_none());
    let expected: Vec<_> = commands_of(&commits).into_iter().map(|(_, _, bytes)| bytes).collect();
    assert_eq!(found, expected);
}

#[test]
fn parts_of_a_log_that_is_given_up_go_at_once() {
    let storage = storage();
    let rig = open(&storage, routed(SyncPolicy::Always));
    for commit in &commits() {
        rig.append(commit);
    }
    rig.core.sync_through(8).expect("syncs");
    let tail = supersede(&storage, &location(), 8).expect("a log of ours");
    let _rig = Rig::open(&storage, options(SyncPolicy::Always), &tail, 8);
    assert!(parts(&storage, "a").is_empty() && parts(&storage, "b").is_empty());
}

//! A failed write or sync is final for its segment; a flush gives the log a new one (N2).

use super::*;
use crate::device::sim::{CrashOptions, SimFaults};

fn rig_with_one_durable_commit(storage: &SimStorage) -> Rig {
    let (_, tail) = read_all(storage, 0, 0).expect("an empty log");
    let rig = Rig::open(storage, options(SyncPolicy::Always), &tail, 0);
    rig.append(&Commit::new(1, 1, 0, 10));
    rig.core.sync_through(1).expect("syncs");
    rig
}

#[test]
fn a_failed_sync_stops_the_log_until_a_fresh_segment() {
    let storage = storage();
    let rig = rig_with_one_durable_commit(&storage);
    let reasons = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&reasons);
    rig.core.add_failure_callback(Box::new(move |reason| heard.lock().push(reason.to_owned())));
    storage.set_faults(SimFaults { fail_sync: Some(1), ..SimFaults::default() });
    rig.append(&Commit::new(2, 1, 0, 10));
    assert!(rig.core.sync_through(2).is_err());
    // The fault is gone, and a second sync would succeed: it must not be believed.
    let syncs = storage.counters().syncs;
    assert!(matches!(rig.core.sync_through(2), Err(LogError::Failed { .. })));
    assert!(matches!(rig.core.write_batch(), Err(LogError::Failed { .. })));
    assert_eq!(storage.counters().syncs, syncs);
    assert_eq!(rig.core.durable(), 1);
    assert_eq!(reasons.lock().len(), 1);
    assert!(reasons.lock()[0].contains("fdatasync"), "{:?}", reasons.lock());

    let mark = rig.cut();
    let after = Commit::new(3, 1, 0, 10);
    rig.append(&after);
    rig.core.resume(mark).expect("a fresh segment");
    assert_eq!((rig.core.failure(), rig.core.durable()), (None, mark));
    rig.core.sync_through(3).expect("works again");
    let crashed = storage.crash(5, CrashOptions::LOSE_ALL);
    let (commands, tail) = read_all(&crashed, mark, 3).expect("recovers");
    assert_eq!((commands, tail.last_seq), (commands_of(&[after]), 3));
}

/// After the failed sync the page cache shows a group that the medium never got, and a sync passes over it. The start that
/// reads it, after the mere end of the process, must not believe that one.
#[test]
fn what_a_failed_sync_left_in_the_page_cache_is_written_again_by_the_start_that_reads_it() {
    for routes in [Vec::new(), super::routes::two_routes()] {
        let options = LogOptions { routes, ..options(SyncPolicy::Always) };
        for durable in 0..3 {
            let storage = storage();
            let (_, tail) = read_all(&storage, 0, 0).expect("an empty log");
            let rig = Rig::open(&storage, options.clone(), &tail, 0);
            let commits: Vec<_> =
                (1..=4).map(|seq| Commit::new(seq, 1, 0, 300 * seq as usize)).collect();
            for commit in &commits {
                if commit.first_seq == durable + 1 {
                    rig.core.sync_through(durable).expect("syncs");
                }
                rig.append(commit);
                rig.core.write_batch().expect("written");
            }
            storage.set_faults(SimFaults { fail_sync: Some(1), ..SimFaults::default() });
            assert!(rig.core.sync_through(4).is_err());
            storage.set_faults(SimFaults::default());
            drop(rig);
            let (commands, tail) = read_all(&storage, 0, 0).expect("all can be read");
            assert_eq!(commands, commands_of(&commits));
            let rig = Rig::open(&storage, options.clone(), &tail, 4);
            let next = Commit::new(5, 1, 0, 10);
            rig.append(&next);
            rig.core.sync_through(5).expect("syncs");
            let crashed = storage.crash(3, CrashOptions::LOSE_ALL);
            let (commands, _) = read_all(&crashed, 0, 5).expect("nothing is missing");
            assert_eq!(commands, commands_of(&[commits, vec![next]].concat()));
        }
    }
}

#[test]
fn a_failed_write_keeps_what_comes_after_for_the_fresh_segment() {
    let storage = storage();
    let rig = rig_with_one_durable_commit(&storage);
    rig.core.segments.prepare(SyncPolicy::Always).expect("prepares");
    let faults = SimFaults { fail_write: Some(1), short_write_bytes: 70, ..SimFaults::default() };
    storage.set_faults(faults);
    rig.append(&Commit::new(2, 1, 0, 10));
    assert!(rig.core.write_batch().is_err());
    assert!(rig.core.failure().is_some());
    assert!(!rig.core.must_wait(), "writes are refused, not held");
    let mark = rig.cut();
    let commits = [Commit::new(3, 2, 1, 10), Commit::new(5, 1, 0, 10)];
    commits.iter().for_each(|commit| rig.append(commit));
    rig.core.resume(mark).expect("a fresh segment");
    assert_eq!(rig.core.durable(), 2);
    rig.core.sync_through(5).expect("works again");
    for seed in 0..50 {
        let crashed = storage.crash(seed, CrashOptions::default());
        let (commands, _) = read_all(&crashed, mark, 5).expect("recovers");
        assert_eq!(commands, commands_of(&commits));
    }
}

#[test]
fn what_gathered_before_the_freeze_does_not_follow_in_the_fresh_segment() {
    let storage = storage();
    let rig = rig_with_one_durable_commit(&storage);
    storage.set_faults(SimFaults { fail_sync: Some(1), ..SimFaults::default() });
    rig.append(&Commit::new(2, 1, 0, 10));
    assert!(rig.core.sync_through(2).is_err());
    // Executed before anybody knew of the failure; still in the buffer when the memtable freezes.
    rig.append(&Commit::new(3, 1, 0, 10));
    let mark = rig.cut();
    rig.core.resume(mark).expect("a fresh segment");
    let after = Commit::new(4, 1, 0, 10);
    rig.append(&after);
    rig.core.sync_through(4).expect("works again");
    let crashed = storage.crash(7, CrashOptions::LOSE_ALL);
    let (commands, tail) = read_all(&crashed, mark, 4).expect("recovers");
    assert_eq!((commands, tail.last_seq), (commands_of(&[after]), 4));
}

/// A write is reported as failed although every byte arrived. Its file is recycled later: the group
/// must not turn up behind the header of the segment that the file has become.
#[test]
fn what_a_failed_write_left_behind_is_gone_from_a_recycled_segment() {
    let storage = storage();
    let rig = rig_with_one_durable_commit(&storage);
    let _ = rig.cut();
    rig.core.write_batch().expect("a fresh segment, without groups");
    let short_write_bytes = 4096;
    storage.set_faults(SimFaults {
        fail_write: Some(1),
        short_write_bytes,
        ..SimFaults::default()
    });
    rig.append(&Commit::new(2, 1, 0, 10));
    assert!(rig.core.write_batch().is_err());
    let mut mark = rig.cut();
    rig.core.resume(mark).expect("a fresh segment");
    for seq in 3..12 {
        rig.core.segments.retire_through(mark).expect("retires");
        rig.clean_spares().expect("overwrites");
        rig.append(&Commit::new(seq, 1, 0, 10));
        mark = rig.cut();
        rig.core.sync_through(mark).expect("syncs");
        let crashed = storage.crash(seq, CrashOptions::KEEP_ALL);
        let (commands, tail) = read_all(&crashed, mark, mark).expect("recovers");
        assert_eq!((commands.len(), tail.last_seq), (0, seq));
    }
}

#[test]
fn a_full_disk_fails_resume_too_and_the_log_stays_failed() {
    let storage = storage();
    let (_, tail) = read_all(&storage, 0, 0).expect("an empty log");
    let rig = Rig::open(&storage, options(SyncPolicy::EverySec), &tail, 0);
    storage.set_faults(SimFaults { space_left_bytes: Some(100), ..SimFaults::default() });
    rig.append(&Commit::new(1, 1, 0, 100));
    assert!(rig.core.write_batch().is_err());
    let mark = rig.cut();
    assert!(rig.core.resume(mark).is_err(), "no room for the AOF manifest or the header");
    assert!(rig.core.failure().is_some());
    storage.set_faults(SimFaults::default());
    rig.core.resume(mark).expect("there is room again");
    rig.append(&Commit::new(2, 1, 0, 100));
    rig.core.sync_through(2).expect("works again");
    let (commands, _) = read_all(&storage, mark, 2).expect("recovers");
    assert_eq!(commands.len(), 1);
}

#[test]
fn a_sequence_that_was_never_appended_cannot_be_synced() {
    let storage = storage();
    let rig = rig_with_one_durable_commit(&storage);
    let error = rig.core.sync_through(2).expect_err("only 1 was appended");
    assert!(matches!(error, LogError::NeverAppended { seq: 2, written_seq: 1 }), "{error}");
}

//! Spilled graves: the bound of the cemetery, how readers find spilled graves, and how these are dropped.

use super::crash::small_options;
use super::harness::*;
use crate::key::Meta;
use crate::store::*;
use sexton_persistence::device::sim::{CrashOptions, SimFaults, SimStorage};
use sexton_persistence::device::{File, Storage};
use std::path::Path;
use std::sync::Arc;

pub(super) fn spilling(storage: &SimStorage, max_bytes: u64) -> Engine {
    let options = EngineOptions {
        cemetery_max_bytes: max_bytes,
        memtable_bytes: 1 << 20,
        ..small_options(storage, SyncPolicy::Always, false)
    };
    Engine::open(options, &mut replay).expect("a store that opens").0
}

pub(super) fn name(number: u64) -> Vec<u8> {
    format!("key:{number:05}").into_bytes()
}

fn put(engine: &Engine, number: u64, value: u8) {
    run(engine, &Op::Put(0, name(number), Meta::default(), vec![value; 40]));
}

fn delete(engine: &Engine, number: u64) {
    assert!(run(engine, &Op::Delete(0, name(number))), "key {number} was alive (X1)");
}

fn value_of(engine: &Engine, number: u64) -> Option<u8> {
    get(engine, 0, &name(number)).map(|(_, value)| value[0])
}

/// A store whose keys 0 to 299 are in a table, of which the first hundred are dead by spilled graves.
fn with_spilled(storage: &SimStorage) -> Engine {
    let engine = spilling(storage, 1500);
    (0..300).for_each(|number| put(&engine, number, 1));
    engine.flush_now().expect("flush");
    (0..100).for_each(|number| delete(&engine, number));
    engine.flush_now().expect("flush");
    let stats = engine.stats();
    assert_eq!((stats.graves, stats.graves_spilled, stats.grave_runs), (100, 100, 1));
    assert!(stats.grave_runs_bytes > 0 && stats.grave_runs_memory_bytes > 0);
    assert_eq!(engine.cemetery_bytes(), 0, "nothing is left in memory");
    engine
}

#[test]
fn spilled_graves_cover_their_dead_for_every_way_of_reading() {
    let storage = SimStorage::new();
    let engine = with_spilled(&storage);
    for number in [0, 50, 99] {
        assert_eq!(value_of(&engine, number), None);
        assert_eq!(engine.get(0, &name(number)).expect("read"), None);
        assert!(!run(&engine, &Op::Delete(0, name(number))), "dead already (X1)");
    }
    assert_eq!(value_of(&engine, 100), Some(1));
    let items: Vec<_> = engine.scan(&ScanRange::default()).expect("scan").collect();
    assert_eq!(items.len(), 200);
    assert_eq!(engine.count(0).expect("count"), 200);
    // A put does not close a spilled grave, and need not.
    put(&engine, 7, 2);
    assert_eq!(value_of(&engine, 7), Some(2));
    assert_eq!(engine.count(0).expect("count"), 201, "the overwrite was of nothing (N9)");
    engine.flush_now().expect("flush");
    assert_eq!(engine.count(0).expect("count"), 201);
    let engine = reopened(engine, &storage);
    assert_eq!((value_of(&engine, 7), value_of(&engine, 8)), (Some(2), None));
    assert_eq!(engine.get(0, &name(7)).expect("read"), Some(vec![2; 40]));
    delete(&engine, 7);
    assert_eq!(value_of(&engine, 7), None);
    engine.abandon();
}

/// What a power failure leaves of a store whose log is synced.
fn crashed(engine: Engine, storage: &SimStorage) -> SimStorage {
    let log = engine.inner().write.log.load_full().expect("a log");
    log.sync_through(engine.last_seq()).expect("synced");
    drop(log);
    let crashed = storage.crash(1, CrashOptions::LOSE_ALL);
    engine.abandon();
    crashed
}

fn reopened(engine: Engine, storage: &SimStorage) -> Engine {
    spilling(&crashed(engine, storage), 1500)
}

#[test]
fn a_snapshot_from_before_the_deletes_sees_what_they_deleted() {
    let storage = SimStorage::new();
    let engine = spilling(&storage, 1500);
    (0..100).for_each(|number| put(&engine, number, 1));
    let before = engine.snapshot(SnapshotOptions::default()).expect("opened");
    (0..100).for_each(|number| delete(&engine, number));
    let between = engine.snapshot(SnapshotOptions::default()).expect("opened");
    (0..100).for_each(|number| put(&engine, number, 2));
    engine.flush_now().expect("flush");
    assert_eq!(engine.stats().graves_spilled, 100, "closed ones that a reader needs, too");
    for number in [0, 99] {
        let seen = |snapshot: &Snapshot| {
            snapshot.get(0, &name(number)).expect("read").map(|found| found.value[0])
        };
        assert_eq!((seen(&before), seen(&between)), (Some(1), None));
        assert_eq!(value_of(&engine, number), Some(2));
    }
    drop((before, between));
    engine.abandon();
}

#[test]
fn runs_go_when_their_dead_are_buried() {
    let storage = SimStorage::new();
    let engine = with_spilled(&storage);
    while engine.compact_once().expect("no faults") {}
    let stats = engine.stats();
    assert_eq!((stats.graves, stats.grave_runs), (0, 0), "{stats:?}");
    assert_eq!(value_of(&engine, 50), None);
    let engine = reopened(engine, &storage);
    assert_eq!((value_of(&engine, 50), value_of(&engine, 150)), (None, Some(1)));
    engine.abandon();
}

#[test]
fn a_scan_from_before_keeps_the_run_that_covers_what_it_sees() {
    let storage = SimStorage::new();
    let engine = with_spilled(&storage);
    let mut scan = engine.scan(&ScanRange::default()).expect("scan");
    while engine.compact_once().expect("no faults") {}
    assert_eq!(engine.stats().grave_runs, 0, "new readers do not need it");
    let first = scan.next().expect("a key").expect("readable");
    assert_eq!(first.key, name(100), "its tables still hold the dead (F3)");
    assert_eq!(scan.count(), 199);
    assert!(engine.stats().grave_runs_memory_bytes > 0);
    assert!(!engine.maintain_grave_runs().expect("no faults"), "nothing else is to do");
    assert_eq!(engine.stats().grave_runs_memory_bytes, 0, "the limbo is over");
    engine.abandon();
}

#[test]
fn many_runs_become_one_that_holds_what_readers_need() {
    let storage = SimStorage::new();
    let engine = spilling(&storage, 100);
    (0..400).for_each(|number| put(&engine, number, 1));
    engine.flush_now().expect("flush");
    let mut snapshots = Vec::new();
    // Key 5 dies in each round, between two snapshots; other keys once.
    for round in 0..4 {
        snapshots.push(engine.snapshot(SnapshotOptions::default()).expect("opened"));
        delete(&engine, 5);
        (10..20).for_each(|i| delete(&engine, 20 * round + i));
        snapshots.push(engine.snapshot(SnapshotOptions::default()).expect("opened"));
        engine.flush_now().expect("flush");
        put(&engine, 5, 10 + round as u8);
    }
    let stats = engine.stats();
    assert_eq!((stats.grave_runs, stats.graves_spilled), (4, 44));
    let seen = |snapshots: &[Snapshot]| -> Vec<Option<u8>> {
        let get = |s: &Snapshot| s.get(0, &name(5)).expect("read").map(|found| found.value[0]);
        snapshots.iter().map(get).collect()
    };
    let expected = vec![Some(1), None, Some(10), None, Some(11), None, Some(12), None];
    assert_eq!(seen(&snapshots), expected);
    assert!(engine.maintain_grave_runs().expect("no faults"));
    let stats = engine.stats();
    assert_eq!((stats.grave_runs, stats.graves_spilled), (1, 44), "each D(k, s) is kept (F4)");
    assert!(stats.graves_merged_bytes > 0);
    assert_eq!(seen(&snapshots), expected);
    assert_eq!(value_of(&engine, 5), Some(13));
    snapshots.clear();
    engine.abandon();
}

#[test]
fn the_bound_holds_while_deletes_run() {
    const MAX: u64 = 100_000;
    const KEYS: u64 = 6_000;
    let storage = SimStorage::new();
    let options = EngineOptions {
        cemetery_max_bytes: MAX,
        memtable_bytes: 1 << 20,
        ..small_options(&storage, SyncPolicy::No, true)
    };
    let engine = Engine::open(options, &mut replay).expect("a store that opens").0;
    (0..KEYS).for_each(|number| put(&engine, number, 1));
    engine.flush_now().expect("flush");
    let mut most = 0;
    for number in 0..KEYS {
        // `run` waits while the store wants writers to.
        delete(&engine, number);
        if number % 64 == 0 {
            most = most.max(engine.cemetery_bytes());
        }
    }
    assert!(most > MAX / 10 && most <= MAX, "{most} bytes");
    assert!(engine.stats().graves_spilled_bytes > 0);
    assert_eq!(engine.count(0).expect("count"), 0);
    assert!((0..KEYS).step_by(97).all(|number| value_of(&engine, number).is_none()));
    engine.close().expect("closed");
}

/// Whatever fails while a run is written and installed: the graves stay in memory until it is.
#[test]
fn a_spill_that_fails_loses_nothing() {
    let fail_write = |nth| SimFaults { fail_write: Some(nth), ..SimFaults::default() };
    let fail_sync = |nth| SimFaults { fail_sync: Some(nth), ..SimFaults::default() };
    let full = |nth| SimFaults { space_left_bytes: Some(200 * nth), ..SimFaults::default() };
    let mut failures = [0; 3];
    for (kind, nth) in (0..3).flat_map(|kind| (0..12).map(move |nth| (kind, nth))) {
        let storage = SimStorage::new();
        let engine = spilling(&storage, 1500);
        (0..300).for_each(|number| put(&engine, number, 1));
        engine.flush_now().expect("flush");
        (0..100).for_each(|number| delete(&engine, number));
        let log = engine.inner().write.log.load_full().expect("a log");
        log.sync_through(engine.last_seq()).expect("synced");
        drop(log);
        storage.set_faults([fail_write(1 + nth), fail_sync(1 + nth), full(nth)][kind]);
        failures[kind] += u64::from(engine.flush_now().is_err());
        storage.set_faults(SimFaults::default());
        let is_whole = |engine: &Engine| {
            assert_eq!((value_of(engine, 0), value_of(engine, 99)), (None, None));
            let items = engine.scan(&ScanRange::default()).expect("scan");
            assert_eq!((items.count(), engine.count(0).expect("count")), (200, 200));
        };
        is_whole(&engine);
        let left = storage.crash(nth, CrashOptions::default());
        let after = spilling(&left, 1500);
        is_whole(&after);
        after.abandon();
        engine.flush_now().expect("the next attempt");
        assert_eq!(engine.stats().graves_spilled, 100);
        is_whole(&engine);
        engine.abandon();
    }
    assert!(failures.iter().all(|&times| times > 0), "{failures:?}");
}

#[test]
fn the_bound_holds_while_the_log_is_replayed() {
    let storage = SimStorage::new();
    let engine = spilling(&storage, 1500);
    (0..300).for_each(|number| put(&engine, number, 1));
    engine.flush_now().expect("flush");
    (0..200).for_each(|number| delete(&engine, number));
    assert!(engine.cemetery_bytes() > 10_000, "nothing flushes by itself here");
    let engine = reopened(engine, &storage);
    assert!(engine.cemetery_bytes() < 10_000, "{}", engine.cemetery_bytes());
    assert_eq!((engine.stats().graves, engine.count(0).expect("count")), (200, 100));
    engine.abandon();
}

#[test]
fn a_damaged_run_is_an_error_and_raises_nobody() {
    let storage = SimStorage::new();
    // After a restart the DRAM table knows of nobody.
    let storage = crashed(with_spilled(&storage), &storage);
    let file = file_of_run(&storage);
    let engine = spilling(&storage, 1500);
    let mut byte = [0];
    file.read_exact_at(&mut byte, 20).expect("read");
    file.write_all_at(&[byte[0] ^ 4], 20).expect("written");
    assert!(try_get(&engine, 0, &name(50)).is_err());
    let mut scan = engine.scan(&ScanRange::default()).expect("scan");
    assert!(scan.any(|item| item.is_err()));
    assert!(engine.compact_once().is_err(), "no merge may claim to have applied it");
    engine.abandon();
}

fn file_of_run(storage: &SimStorage) -> Arc<dyn File> {
    let dir = Path::new("data/tree");
    let names = storage.list(dir).expect("listed");
    let name = names.iter().find(|name| name.ends_with(".grun")).expect("a run");
    storage.open(&dir.join(name)).expect("opened")
}

#[test]
fn deletes_that_are_over_are_sealed_although_nothing_is_written() {
    let engine = spilling(&SimStorage::default(), 0);
    (0..6000).for_each(|number| put(&engine, number, 1));
    engine.flush_now().unwrap();
    let at_rest = |now_ms| engine.inner().graveyard.spill.is_at_rest(now_ms);
    (0..100).for_each(|number| delete(&engine, number));
    assert!(!at_rest(1000) && !at_rest(9000), "a few are not worth a flush");
    (100..5999).for_each(|number| delete(&engine, number));
    assert!(!at_rest(10_000) && !at_rest(11_999));
    assert!(at_rest(12_000));
    delete(&engine, 5999);
    assert!(!at_rest(12_001), "deletes go on");
    assert!(at_rest(14_001));
    engine.flush_now().unwrap();
    assert!(!at_rest(14_002) && !at_rest(99_000), "the mark has passed them");
}

//! Several frozen memtables at once: what a burst of writes leaves behind a slow device.

use super::crash::small_options;
use super::harness::*;
use crate::store::*;
use sexton_persistence::device::sim::{CrashOptions, SimFaults, SimStorage};
use std::sync::Barrier;

fn start(storage: &SimStorage) -> Engine {
    let options = small_options(storage, SyncPolicy::Always, false);
    Engine::open(options, &mut replay).expect("a store that opens").0
}

fn sync(engine: &Engine) {
    let log = engine.inner().write.log.load_full().expect("a log");
    log.sync_through(engine.last_seq()).expect("synced");
}

/// What a power failure leaves, compared with `model`.
fn after_power_failure(storage: &SimStorage, model: &Model) {
    let engine = start(&storage.crash(1, CrashOptions::LOSE_ALL));
    check(&engine, model);
    for (db, keys) in model.0.iter().enumerate() {
        assert_eq!(engine.count(db).expect("counted"), keys.len() as u64, "database {db}");
    }
    engine.abandon();
}

#[test]
fn all_frozen_memtables_are_read_and_the_oldest_is_flushed_first() {
    let storage = SimStorage::new();
    let (engine, mut model) = (start(&storage), Model::new(3));
    let mut marks = Vec::new();
    for round in 0..4_u8 {
        put(&engine, &mut model, "all", &[round; 50]);
        put(&engine, &mut model, &format!("own:{round}"), &[round; 50]);
        if round > 0 {
            write(&engine, &mut model, Op::Delete(0, format!("own:{}", round - 1).into_bytes()));
        }
        marks.push(engine.last_seq());
        freeze(&engine);
        freeze(&engine);
    }
    assert_eq!(engine.stats().memtables_frozen, 4, "an empty one is not frozen");
    // Nothing stays in the DRAM table: the frozen ones answer.
    engine.inner().memory.table_bound.set(0);
    for _ in 0..2 {
        check(&engine, &model);
        for name in ["all", "own:0", "own:3"] {
            assert_eq!(get(&engine, 0, name.as_bytes()), model.0[0].get(name.as_bytes()).cloned());
        }
    }
    sync(&engine);
    storage.set_faults(SimFaults { fail_write: Some(1), ..SimFaults::default() });
    engine.flush_now().expect_err("the fault");
    storage.set_faults(SimFaults::default());
    assert_eq!((engine.stats().memtables_frozen, engine.stats().flushes), (4, 0));
    for (flushed, &mark) in marks.iter().enumerate() {
        engine.flush_oldest(&mut engine.inner().flusher.flush_permit.lock()).expect("flushed");
        let stats = engine.stats();
        assert_eq!((stats.mark_seq, stats.memtables_frozen), (mark, 3 - flushed as u64));
        check(&engine, &model);
        after_power_failure(&storage, &model);
    }
    engine.abandon();
}

/// A store with an overwrite in the first of two frozen memtables that was counted as a new key: what it overwrote is
/// cold, so only the filters say that it may be there.
fn with_unsettled(storage: &SimStorage) -> (Engine, Model) {
    let (engine, mut model) = (start(storage), Model::new(3));
    put(&engine, &mut model, "old", &[1; 50]);
    engine.close().expect("closed");
    drop(engine);
    let engine = start(storage);
    put(&engine, &mut model, "old", &[2; 50]);
    freeze(&engine);
    put(&engine, &mut model, "other", b"1");
    freeze(&engine);
    (engine, model)
}

/// An overwrite that was counted as a new key is in the counts of every mark behind it, until it is settled.
#[test]
fn an_overwrite_settled_late_corrects_every_mark_behind_it() {
    let storage = SimStorage::new();
    let (engine, mut model) = with_unsettled(&storage);
    put(&engine, &mut model, "third", b"1");
    freeze(&engine);
    assert_eq!((engine.stats().unresolved, engine.stats().memtables_frozen), (1, 3));
    sync(&engine);
    for _ in 0..3 {
        engine.flush_oldest(&mut engine.inner().flusher.flush_permit.lock()).expect("flushed");
        let counts = engine.inner().versions.recovered_mark().expect("a mark").counts;
        let flushed = engine.stats().flushes;
        assert_eq!(counts[0].0, flushed, "of the mark after {flushed} flushes");
        after_power_failure(&storage, &model);
    }
    assert_eq!(engine.count(0).expect("counted"), 3);
    engine.abandon();
}

#[test]
fn dbsize_settles_what_is_frozen() {
    let storage = SimStorage::new();
    let (engine, _) = with_unsettled(&storage);
    assert_eq!(engine.count_at_once(0), None, "one of the tables would have to be read");
    assert_eq!(engine.count(0).expect("counted"), 2);
    assert_eq!(engine.stats().unresolved, 0);
    assert_eq!(engine.count_at_once(0), Some(2));
    let (is_held, end) = (Barrier::new(2), Barrier::new(2));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut buf = TxBuf::default();
            let held = engine.begin(Latched::Hashes(&[engine.hash(b"old")]), &mut buf);
            is_held.wait();
            end.wait();
            drop(held);
        });
        is_held.wait();
        let counted = engine.count_at_once(0);
        end.wait();
        assert_eq!(counted, None, "somebody holds a latch for long");
    });
    engine.flush_now().expect("flushed");
    assert_eq!(engine.inner().versions.recovered_mark().expect("a mark").counts[0].0, 2);
    engine.abandon();
}

/// DBSIZE inside of EXEC holds all latches, and cannot settle what is in a frozen memtable: it sees it.
#[test]
fn dbsize_inside_a_transaction_sees_what_is_frozen() {
    let storage = SimStorage::new();
    let (engine, _) = with_unsettled(&storage);
    let mut buf = TxBuf::default();
    let mut tx = engine.begin(Latched::All, &mut buf);
    assert_eq!(tx.count(0).expect("counted"), 2);
    tx.commit();
    assert_eq!(engine.stats().unresolved, 1, "the flush settles it");
    assert_eq!(engine.count(0).expect("counted"), 2);
    engine.abandon();
}

#[test]
fn with_a_log_so_many_memtables_are_frozen_as_may_be() {
    let storage = SimStorage::new();
    let options = small_options(&storage, SyncPolicy::Always, false);
    let options = EngineOptions { max_write_buffer_number: 3, ..options };
    let (engine, _) = Engine::open(options, &mut replay).expect("a new store");
    let mut model = Model::new(3);
    for number in 0..2 {
        assert!(engine.inner().may_freeze());
        put(&engine, &mut model, "key", &[number; 17 << 10]);
        assert!(!engine.must_wait(), "the active one may be twice as large");
        freeze(&engine);
    }
    assert!(!engine.inner().may_freeze());
    put(&engine, &mut model, "key", &[9; 17 << 10]);
    assert!(!engine.must_wait());
    put(&engine, &mut model, "key", &[9; 17 << 10]);
    assert!(engine.must_wait() && engine.must_wait());
    assert_eq!(engine.stats().stalls, 1);
    engine.flush_oldest(&mut engine.inner().flusher.flush_permit.lock()).expect("flushed");
    assert!(engine.inner().may_freeze());
    freeze(&engine);
    assert!(!engine.must_wait());
    check(&engine, &model);
    engine.abandon();
}

#[test]
fn on_a_disk_of_both_the_tree_leaves_it_to_a_busy_log() {
    let storage = SimStorage::new();
    let options = small_options(&storage, SyncPolicy::EverySec, false);
    let options = EngineOptions { max_write_buffer_number: 3, yields_to_log: true, ..options };
    let (engine, _) = Engine::open(options.clone(), &mut replay).expect("a new store");
    let mut model = Model::new(3);
    let mut yields = |megabytes: usize| {
        for number in 0..megabytes {
            put(&engine, &mut model, &format!("key:{number}"), &vec![7; 1 << 20]);
        }
        (engine.inner().flush_yields(), engine.inner().compaction_yields())
    };
    assert_eq!(yields(10), (false, false), "little waits for its sync");
    assert_eq!(yields(10), (true, true));
    freeze(&engine);
    assert_eq!(yields(1), (true, true), "one more may be frozen");
    freeze(&engine);
    assert_eq!(yields(0), (false, true), "else writers would wait");
    sync(&engine);
    assert_eq!(yields(0), (false, false), "all is synced");
    engine.flush_now().expect("flushed");
    assert_eq!(yields(20), (true, true));
    engine.set_delete_deadline(3_600_000).expect("a limit");
    assert_eq!(yields(0), (false, false), "deletes have their time");
    engine.abandon();
    let elsewhere = EngineOptions { yields_to_log: false, ..options };
    let (engine, _) = Engine::open(elsewhere, &mut replay).expect("opens again");
    put(&engine, &mut Model::new(3), "key", &vec![7; 20 << 20]);
    assert!(!engine.inner().flush_yields() && !engine.inner().compaction_yields());
    engine.abandon();
}

#[test]
fn the_tree_leaves_its_disk_to_who_claims_it() {
    let storage = SimStorage::new();
    let options = small_options(&storage, SyncPolicy::Off, false);
    let options = EngineOptions { max_write_buffer_number: 3, ..options };
    let (engine, _) = Engine::open(options, &mut replay).expect("a new store");
    let yields = || (engine.inner().flush_yields(), engine.inner().compaction_yields());
    put(&engine, &mut Model::new(3), "key", b"value");
    freeze(&engine);
    assert_eq!(yields(), (false, false));
    let (first, second) = (engine.claim_disk(), engine.claim_disk());
    assert_eq!(yields(), (true, true));
    drop(first);
    assert_eq!(yields(), (true, true), "one of two is still held");
    put(&engine, &mut Model::new(3), "key", b"value");
    freeze(&engine);
    assert_eq!(yields(), (false, true), "writers would wait for a flush");
    engine.flush_now().expect("flushed");
    assert_eq!(yields(), (true, true));
    drop(second);
    assert_eq!(yields(), (false, false));
    engine.abandon();
}

#[test]
fn the_tree_leaves_its_disk_to_nobody_when_graves_wait_for_a_flush() {
    let storage = SimStorage::new();
    let options = small_options(&storage, SyncPolicy::Off, false);
    let options =
        EngineOptions { cemetery_max_bytes: 32 << 10, max_write_buffer_number: 16, ..options };
    let (engine, _) = Engine::open(options, &mut replay).expect("a new store");
    let mut model = Model::new(3);
    for number in 0..200 {
        put(&engine, &mut model, &format!("key:{number}"), b"value");
    }
    engine.flush_now().expect("flushed");
    let _claim = engine.claim_disk();
    for number in 0..200 {
        write(&engine, &mut model, Op::Delete(0, format!("key:{number}").into_bytes()));
        assert!(
            !engine.inner().graveyard.spill.is_overfull(),
            "deletes wait before a flush begins"
        );
        if number % 25 == 24 {
            freeze(&engine);
        }
        if !engine.inner().flush_yields() {
            break;
        }
    }
    assert!(!engine.inner().flush_yields(), "all is deleted, and none of it was flushed");
    engine.flush_now().expect("flushed");
    assert!(engine.inner().flush_yields(), "they have left memory");
    engine.abandon();
}

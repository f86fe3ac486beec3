//! Failing devices (N2): what is refused, what goes on, how service resumes, and what a crash then
//! leaves. Without background threads: every step is the test's.

use super::crash::small_options;
use super::harness::*;
use crate::key::Meta;
use crate::store::*;
use parking_lot::Mutex;
use sexton_persistence::device::Storage;
use sexton_persistence::device::sim::{CrashOptions, SimFaults, SimStorage};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

fn start(storage: &SimStorage) -> (Engine, OpenReport) {
    let options = small_options(storage, SyncPolicy::Always, false);
    Engine::open(options, &mut replay).expect("a store that opens")
}

/// An empty store, and the map that says what it holds.
fn fresh() -> (SimStorage, Engine, Model) {
    let storage = SimStorage::new();
    let (engine, _) = start(&storage);
    (storage, engine, Model::new(3))
}

/// A store opened again, whose only key `name` is in a table and not in memory.
fn with_cold(name: &str, value: &[u8]) -> (SimStorage, Engine, Model) {
    let (storage, engine, mut model) = fresh();
    put(&engine, &mut model, name, value);
    engine.close().expect("close");
    drop(engine);
    let (engine, _) = start(&storage);
    (storage, engine, model)
}

fn sync(engine: &Engine) -> bool {
    let log = engine.inner().write.log.load_full().expect("a log");
    log.sync_through(engine.last_seq()).is_ok()
}

/// What is left when everything that was not synced is gone.
fn after_power_failure(storage: &SimStorage, model: &Model) {
    let storage = storage.crash(1, CrashOptions::LOSE_ALL);
    let (engine, _) = start(&storage);
    check(&engine, model);
    engine.abandon();
}

fn log_failure_heals(faults: SimFaults, name: &str) {
    let (storage, engine, mut model) = fresh();
    put(&engine, &mut model, "kept", b"1");
    put(&engine, &mut model, "deleted", b"1");
    assert!(sync(&engine), "{name}");
    let delete = Op::Delete(0, b"deleted".to_vec());
    run_group(&engine, std::slice::from_ref(&delete)).expect("memory");
    model.apply(&delete);
    let held = put(&engine, &mut model, "held", b"2");
    storage.set_faults(faults);
    assert!(!sync(&engine), "{name}: the fault strikes the log");
    storage.set_faults(SimFaults::default());
    assert!(engine.write_refusal().is_some(), "{name}: writes are refused");
    assert!(!engine.must_wait(), "{name}: refused, not kept waiting");
    assert!(engine.durable() < held, "{name}: the reply is held");
    assert_eq!(get(&engine, 0, b"held"), model.0[0].get(b"held".as_slice()).cloned());
    check(&engine, &model);
    engine.flush_now().expect("a self-contained flush");
    assert_eq!(engine.write_refusal(), None, "{name}: service resumes");
    assert!(engine.durable() >= held, "{name}: the held reply goes out");
    assert_eq!(engine.given_up_through(), 0, "{name}: and is not given up");
    after_power_failure(&storage, &model);
    let next = put(&engine, &mut model, "next", b"3");
    assert!(sync(&engine), "{name}: the fresh segment works");
    assert!(engine.durable() >= next);
    after_power_failure(&storage, &model);
    engine.abandon();
}

#[test]
fn a_failed_write_of_the_log_ends_with_a_flush() {
    for short_write_bytes in [0, 64, 512] {
        let faults = SimFaults { fail_write: Some(1), short_write_bytes, ..SimFaults::default() };
        log_failure_heals(faults, "EIO on write");
    }
}

#[test]
fn a_failed_sync_of_the_log_ends_with_a_flush() {
    log_failure_heals(SimFaults { fail_sync: Some(1), ..SimFaults::default() }, "EIO on sync");
}

/// A store and the events that it tells.
fn start_told(storage: &SimStorage) -> (Engine, Arc<Mutex<Vec<Event>>>) {
    let told = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&told);
    let options = EngineOptions {
        events: EventSink::new(move |event| sink.lock().push(event.clone())),
        ..small_options(storage, SyncPolicy::Always, false)
    };
    (Engine::open(options, &mut replay).expect("a store that opens").0, told)
}

/// However many writes are refused and however many flushes are tried: a line when it begins, one when it ends.
#[test]
fn each_fault_is_told_when_it_begins_and_when_it_ends() {
    let storage = SimStorage::new();
    let (engine, told) = start_told(&storage);
    let mut model = Model::new(3);
    let now = Instant::now;
    let begun = |fault| {
        let is_it = |event: &&Event| matches!(event, Event::Begun { fault: f, .. } if *f == fault);
        told.lock().iter().filter(is_it).count()
    };
    let over = |fault| {
        let is_it = |event: &&Event| matches!(event, Event::Over { fault: f, .. } if *f == fault);
        told.lock().iter().filter(is_it).count()
    };
    put(&engine, &mut model, "held", &[7; 20_000]);
    storage.set_faults(SimFaults { space_left_bytes: Some(100), ..SimFaults::default() });
    assert!(!sync(&engine), "no room");
    for _ in 0..30 {
        engine.flush_now().expect_err("no room for a table either");
        assert!(engine.write_refusal().is_some());
        engine.look_at_health(now() + Duration::from_secs(60));
    }
    let faults = [Fault::Log, Fault::Flush, Fault::Refusal];
    assert_eq!(faults.map(|fault| (begun(fault), over(fault))), [(1, 0); 3], "{:?}", told.lock());
    let reason = told.lock()[0].to_string();
    assert!(reason.contains("appendonly.aof.1.incr.aof"), "{reason}");
    storage.set_faults(SimFaults::default());
    engine.flush_now().expect("room again");
    for _ in 0..2 {
        engine.look_at_health(now() + Duration::from_secs(60));
    }
    assert_eq!(faults.map(|fault| (begun(fault), over(fault))), [(1, 1); 3], "{:?}", told.lock());
    assert_eq!(told.lock().len(), 6);
    engine.abandon();
}

#[test]
fn a_poisoned_store_is_told_once() {
    let storage = SimStorage::new();
    let (engine, told) = start_told(&storage);
    engine.inner().upkeep.poison("thread flush broke");
    engine.inner().upkeep.poison("thread compaction broke");
    assert_eq!(*told.lock(), [Event::Poisoned { reason: "thread flush broke".into() }]);
    for _ in 0..3 {
        let refusal = engine.write_refusal().expect("writes are refused");
        assert!(refusal.contains("thread flush broke"), "{refusal}");
    }
    assert_eq!(told.lock().len(), 2);
    engine.abandon();
}

#[test]
fn a_full_device_ends_when_there_is_room_again() {
    let (storage, engine, mut model) = fresh();
    put(&engine, &mut model, "kept", b"1");
    assert!(sync(&engine));
    let acknowledged = engine.durable();
    // More than the rest of the prefilled segment, so that the log has to grow.
    let held = put(&engine, &mut model, "held", &[7; 20_000]);
    storage.set_faults(SimFaults { space_left_bytes: Some(100), ..SimFaults::default() });
    assert!(!sync(&engine), "no room");
    for _ in 0..3 {
        engine.flush_now().expect_err("no room for a table either");
        assert!(engine.write_refusal().is_some());
        assert_eq!(engine.durable(), acknowledged);
        assert_eq!(engine.given_up_through(), held, "nobody waits for an answer any more");
        check(&engine, &model);
    }
    let report = {
        let crashed = storage.crash(1, CrashOptions::default());
        let (engine, report) = start(&crashed);
        engine.abandon();
        report
    };
    assert!(report.recovered_seq >= acknowledged, "what was acknowledged is there");
    storage.set_faults(SimFaults::default());
    engine.flush_now().expect("room");
    assert_eq!(engine.write_refusal(), None);
    assert!(engine.durable() >= held);
    after_power_failure(&storage, &model);
    engine.abandon();
}

#[test]
fn a_failed_flush_is_tried_again_before_a_later_one() {
    let (storage, engine, mut model) = fresh();
    for fault in 0..4 {
        let last = put(&engine, &mut model, "k", &[fault]);
        assert!(sync(&engine));
        let one = Some(1);
        storage.set_faults(match fault {
            0 => SimFaults { fail_write: one, ..SimFaults::default() },
            1 => SimFaults { fail_sync: one, ..SimFaults::default() },
            2 => SimFaults { fail_sync_dir: one, ..SimFaults::default() },
            _ => SimFaults { space_left_bytes: Some(0), ..SimFaults::default() },
        });
        engine.flush_now().expect_err("the fault");
        storage.set_faults(SimFaults::default());
        assert_eq!(engine.write_refusal(), None, "the log works");
        let later = put(&engine, &mut model, "later", &[fault]);
        check(&engine, &model);
        assert_eq!(engine.stats().memtables_frozen, 1);
        engine.flush_now().expect("the first one, then the second");
        assert_eq!((engine.stats().memtables_frozen, engine.stats().mark_seq), (0, later));
        assert!(last < later);
        after_power_failure(&storage, &model);
    }
    engine.abandon();
}

/// Regression: the job of a memtable whose overwrites could not be settled was dropped. The next
/// flush moved the mark past it, and its log went.
#[test]
fn a_memtable_that_cannot_be_settled_is_not_skipped() {
    let (storage, engine, mut model) = with_cold("old", &[1; 300]);
    let tree = Path::new("data/tree");
    let names = storage.list(tree).expect("list");
    let name = names.iter().find(|name| name.ends_with(".tbl")).expect("a table");
    let table = tree.join(name);
    // Cold, so the overwrite is counted as a new key until the table is asked (N9).
    put(&engine, &mut model, "old", b"new");
    put(&engine, &mut model, "other", b"1");
    assert!(sync(&engine));
    storage.flip_bit(&table, 8 * 40).expect("a byte of the first block");
    let error = engine.flush_now().expect_err("an unreadable block");
    assert!(error.to_string().contains(".tbl"), "{error}");
    put(&engine, &mut model, "third", b"1");
    engine.flush_now().expect_err("still unreadable");
    assert_eq!(engine.stats().memtables_frozen, 1, "nothing was skipped");
    engine.count(0).expect_err("the count is not known");
    assert_eq!(get(&engine, 0, b"old"), Some((Meta::default(), b"new".to_vec())));
    storage.flip_bit(&table, 8 * 40).expect("the same byte");
    engine.flush_now().expect("readable again");
    assert_eq!(engine.count(0).expect("count"), 3);
    after_power_failure(&storage, &model);
    engine.abandon();
}

#[test]
fn a_poisoned_store_refuses_writes_and_goes_on_reading() {
    let (_, engine, mut model) = fresh();
    put(&engine, &mut model, "cold", b"1");
    engine.flush_now().expect("flush");
    put(&engine, &mut model, "warm", b"2");
    engine.inner().memory.table_bound.set(0);
    engine.inner().upkeep.poison("a test says so");
    let refusal = engine.write_refusal().expect("writes are refused");
    assert!(refusal.contains("poisoned"), "{refusal}");
    for name in ["cold", "warm"] {
        assert_eq!(get(&engine, 0, name.as_bytes()), model.0[0].get(name.as_bytes()).cloned());
    }
    let items = engine.scan(&ScanRange::default()).expect("scan");
    assert_eq!(items.map(|item| item.expect("item").key).collect::<Vec<_>>(), [b"cold", b"warm"]);
    engine.abandon();
}

/// Regression: loads that no thread had begun when the store closed were never answered.
#[test]
fn loads_are_answered_after_close() {
    let (_, engine, _) = with_cold("cold", b"1");
    let key = key(&engine, 0, b"cold");
    let owned = OwnedKey { slot: key.slot, bytes: b"cold".to_vec(), hash: key.hash };
    engine.close().expect("close");
    let (tell, told) = mpsc::channel();
    engine
        .load(vec![owned], u64::MAX, move |result| tell.send(result.is_err()).expect("a listener"));
    assert!(told.try_recv().expect("an answer at once"), "an error, not a value");
    assert_eq!(engine.write_refusal().as_deref(), Some("the store is closed"));
}

/// Regression: a load whose slot was emptied between look-up and load filled its entry into the
/// dead slot, where a namespace that got the slot later would have found it (N7).
#[test]
fn a_load_for_an_emptied_database_brings_nothing_into_memory() {
    let (_, engine, _) = with_cold("cold", b"1");
    let stale = key(&engine, 0, b"cold");
    let owned = OwnedKey { slot: stale.slot, bytes: b"cold".to_vec(), hash: stale.hash };
    run_group(&engine, &[Op::Flush(0)]).expect("memory");
    let (tell, told) = mpsc::channel();
    engine.load(vec![owned], u64::MAX, move |result| tell.send(result).expect("a listener"));
    let pin = told.try_recv().expect("an answer").expect("no I/O was needed");
    assert_eq!(engine.stats().dram_entries, 0);
    drop(pin);
    assert_eq!(get(&engine, 0, b"cold"), None);
    engine.abandon();
}

#[test]
fn a_store_that_is_open_cannot_be_opened_again() {
    let storage = SimStorage::new();
    let (engine, _) = start(&storage);
    let options = || small_options(&storage, SyncPolicy::Always, false);
    let Err(error) = Engine::open(options(), &mut replay) else { panic!("opened twice") };
    assert!(error.to_string().contains("lock data"), "{error}");
    engine.close().expect("close");
    let (engine, _) = Engine::open(options(), &mut replay).expect("closed by then");
    engine.abandon();
}

//! `CONFIG SET appendonly` (N3): what a power failure leaves after the log was turned on or off.

use super::crash::small_options;
use super::harness::*;
use crate::store::*;
use sexton_persistence::device::Storage;
use sexton_persistence::device::sim::{CrashOptions, SimFaults, SimStorage};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

fn start(storage: &SimStorage, policy: SyncPolicy, background: bool) -> Engine {
    let options = small_options(storage, policy, background);
    Engine::open(options, &mut replay).expect("a store that opens").0
}

/// Random operations, flushes and merges between them.
fn work(engine: &Engine, model: &mut Model, random_state: &mut u64, steps: u64) {
    for step in 0..steps {
        let op = random_op(random_state, 60);
        run_group(engine, std::slice::from_ref(&op)).expect("memory");
        model.apply(&op);
        if step % 40 == 39 {
            engine.flush_now().expect("a flush");
            while engine.compact_once().expect("a merge") {}
        }
    }
}

fn sync(engine: &Engine) {
    let log = engine.inner().write.log.load_full().expect("a log");
    log.sync_through(engine.last_seq()).expect("a sync");
}

/// The store after a power failure that loses everything unsynced.
fn after_power_failure(storage: &SimStorage) -> (SimStorage, Engine) {
    let storage = storage.crash(7, CrashOptions::LOSE_ALL);
    let engine = start(&storage, SyncPolicy::Always, false);
    (storage, engine)
}

#[test]
fn turning_the_log_on_makes_durable_what_is_visible() {
    for seed in 1..40 {
        let mut random_state = seed;
        let mut model = Model::new(3);
        let storage = SimStorage::new();
        let engine = start(&storage, SyncPolicy::Off, false);
        work(&engine, &mut model, &mut random_state, 130 + seed);
        engine.set_sync_policy(SyncPolicy::Always).expect("the log begins");
        assert_eq!(engine.durable(), engine.last_seq());
        let (_, survivor) = after_power_failure(&storage);
        check(&survivor, &model);
        survivor.abandon();
        // Later commits are in the log, and not yet durable.
        work(&engine, &mut model, &mut random_state, 30);
        assert!(engine.durable() < engine.last_seq());
        sync(&engine);
        let (_, survivor) = after_power_failure(&storage);
        check(&survivor, &model);
        survivor.abandon();
        engine.abandon();
    }
}

#[test]
fn turning_the_log_off_keeps_what_it_held() {
    let storage = SimStorage::new();
    let (mut random_state, mut model) = (5, Model::new(3));
    let engine = start(&storage, SyncPolicy::EverySec, false);
    work(&engine, &mut model, &mut random_state, 130);
    engine.set_sync_policy(SyncPolicy::Off).expect("the log ends");
    let at_the_end = model.clone();
    work(&engine, &mut model, &mut random_state, 20);
    assert_eq!(engine.durable(), engine.last_seq(), "visible is durable (N3)");
    let (_, survivor) = after_power_failure(&storage);
    check(&survivor, &at_the_end);
    survivor.abandon();
    // A second log takes the place of the first, which no longer fits.
    work(&engine, &mut model, &mut random_state, 60);
    engine.set_sync_policy(SyncPolicy::Always).expect("the log begins again");
    work(&engine, &mut model, &mut random_state, 10);
    sync(&engine);
    let (storage, survivor) = after_power_failure(&storage);
    check(&survivor, &model);
    work(&survivor, &mut model, &mut random_state, 50);
    survivor.close().expect("a clean end");
    let again = start(&storage, SyncPolicy::Always, false);
    check(&again, &model);
    again.abandon();
    engine.abandon();
}

#[test]
fn a_log_that_cannot_begin_leaves_the_store_without_one() {
    let storage = SimStorage::new();
    let (mut random_state, mut model) = (9, Model::new(3));
    let engine = start(&storage, SyncPolicy::Off, false);
    work(&engine, &mut model, &mut random_state, 30);
    storage.set_faults(SimFaults { fail_sync: Some(1), ..SimFaults::default() });
    engine.set_sync_policy(SyncPolicy::Always).expect_err("the device refuses");
    storage.set_faults(SimFaults::default());
    assert_eq!(engine.sync_policy(), SyncPolicy::Off);
    assert_eq!(engine.durable(), engine.last_seq());
    work(&engine, &mut model, &mut random_state, 30);
    engine.set_sync_policy(SyncPolicy::Always).expect("now it begins");
    let (_, survivor) = after_power_failure(&storage);
    check(&survivor, &model);
    survivor.abandon();
    engine.abandon();
}

#[test]
fn the_log_of_another_server_is_not_touched() {
    let storage = SimStorage::new();
    let engine = start(&storage, SyncPolicy::Off, false);
    let dir = Path::new("data/appendonlydir");
    storage.create_dir_all(dir).expect("a directory");
    let manifest = dir.join("appendonly.aof.manifest");
    let text = b"file appendonly.aof.1.base.rdb seq 1 type b\n";
    storage.create(&manifest).and_then(|file| file.write_all_at(text, 0)).expect("a manifest");
    engine.set_sync_policy(SyncPolicy::Always).expect_err("foreign files");
    assert_eq!(engine.sync_policy(), SyncPolicy::Off);
    let mut found = vec![0; text.len()];
    let file = storage.open(&manifest).expect("still there");
    file.read_exact_at(&mut found, 0).expect("as long as before");
    assert_eq!(found, text);
    engine.abandon();
}

#[test]
fn writers_go_on_while_the_log_is_turned_on_and_off() {
    let storage = SimStorage::new();
    let engine = start(&storage, SyncPolicy::Off, true);
    let stop = AtomicBool::new(false);
    let model = std::thread::scope(|scope| {
        let writers: Vec<_> = (1..=3_u64)
            .map(|writer| {
                let (engine, stop) = (&engine, &stop);
                scope.spawn(move || {
                    let (mut model, mut step) = (Model::new(3), 0_u64);
                    while !stop.load(Ordering::Acquire) {
                        step += 1;
                        let name = format!("writer:{writer}:{}", step % 17).into_bytes();
                        let op = Op::Append(0, name, step as u8);
                        run(engine, &op);
                        engine.kick_log();
                        model.apply(&op);
                    }
                    model
                })
            })
            .collect();
        for policy in [SyncPolicy::Always, SyncPolicy::Off].into_iter().cycle().take(9) {
            let before = engine.last_seq();
            engine.set_sync_policy(policy).expect("a working device");
            assert!(engine.durable() >= before);
            while engine.last_seq() < before + 300 {
                std::thread::yield_now();
            }
        }
        stop.store(true, Ordering::Release);
        let mut whole = Model::new(3);
        for writer in writers {
            whole.0[0].append(&mut writer.join().expect("a writer").0[0]);
        }
        whole
    });
    sync(&engine);
    let (_, survivor) = after_power_failure(&storage);
    check(&survivor, &model);
    survivor.abandon();
    engine.abandon();
}

/// A store with a log, the state it is in, and a run without a log beside it.
fn logged_store(seed: u64) -> (SimStorage, Model) {
    let storage = SimStorage::new();
    let (mut random_state, mut model) = (seed, Model::new(3));
    let engine = start(&storage, SyncPolicy::Always, false);
    work(&engine, &mut model, &mut random_state, 90);
    sync(&engine);
    engine.abandon();
    (storage.crash(seed, CrashOptions::LOSE_ALL), model)
}

#[test]
fn a_run_without_a_log_costs_nothing_of_one_with_a_log() {
    let (mut storage, model) = logged_store(3);
    for round in 0..4 {
        let engine = start(&storage, SyncPolicy::Off, false);
        check(&engine, &Model::new(3));
        let (mut random_state, mut other) = (round + 1, Model::new(3));
        work(&engine, &mut other, &mut random_state, 60);
        check(&engine, &other);
        if round % 2 == 0 {
            engine.close().expect("a clean end");
        } else {
            engine.abandon();
            storage = storage.crash(round, CrashOptions::LOSE_ALL);
        }
        let engine = start(&storage, SyncPolicy::Off, false);
        check(&engine, &Model::new(3));
        engine.abandon();
        let engine = start(&storage, SyncPolicy::Always, false);
        check(&engine, &model);
        engine.close().expect("a clean end");
    }
}

#[test]
fn a_log_that_begins_takes_the_place_of_the_earlier_one() {
    let (storage, _) = logged_store(4);
    let engine = start(&storage, SyncPolicy::Off, false);
    let (mut random_state, mut model) = (8, Model::new(3));
    work(&engine, &mut model, &mut random_state, 60);
    engine.set_sync_policy(SyncPolicy::Always).expect("the log begins");
    assert_eq!(storage.list(Path::new("data")).expect("names"), ["appendonlydir", "tree", "undo"]);
    let (storage, survivor) = after_power_failure(&storage);
    check(&survivor, &model);
    work(&survivor, &mut model, &mut random_state, 20);
    survivor.close().expect("a clean end");
    let engine = start(&storage, SyncPolicy::Always, false);
    check(&engine, &model);
    engine.abandon();
}

/// The power fails after every single step of a start without a log, of work there, and of turning the log
/// on: what comes back is the store with the log, until the answer; from then on the other one.
#[test]
fn the_power_may_fail_anywhere_between_two_ways_of_running() {
    let (mut before, mut after) = (0, 0);
    for step in 0_u64.. {
        let (storage, model) = logged_store(5);
        storage.set_faults(SimFaults { power_off_after: Some(step), ..SimFaults::default() });
        let options = small_options(&storage, SyncPolicy::Off, false);
        let mut other = Model::new(3);
        let mut answered = false;
        if let Ok((engine, _)) = Engine::open(options, &mut replay) {
            for key in 0..5_u8 {
                let op = Op::Append(0, vec![b'k', key], key);
                run(&engine, &op);
                other.apply(&op);
            }
            answered = engine.set_sync_policy(SyncPolicy::Always).is_ok();
            engine.abandon();
        }
        for seed in 0..4 {
            let options = if seed == 0 { CrashOptions::LOSE_ALL } else { CrashOptions::default() };
            let storage = storage.crash(seed, options);
            // A failure in the next start, too.
            storage.set_faults(SimFaults {
                power_off_after: Some(seed * 3 + 1),
                ..SimFaults::default()
            });
            if let Ok((engine, _)) =
                Engine::open(small_options(&storage, SyncPolicy::Always, false), &mut replay)
            {
                engine.abandon();
            }
            let storage = storage.crash(seed, options);
            let engine = start(&storage, SyncPolicy::Always, false);
            if answered {
                check(&engine, &other);
                after += 1;
            } else if engine.count(0).expect("a count") != 5 || model.0[0].len() == 5 {
                check(&engine, &model);
                before += 1;
            } else {
                // Adopted, and the power failed before the answer.
                check(&engine, &other);
            }
            engine.abandon();
        }
        if answered {
            break;
        }
    }
    assert!(before > 100 && after > 0, "{before} {after}");
}

/// A crash while the list of segments was being stored, and a start that stores none.
#[test]
fn an_unfinished_list_of_segments_does_not_stay() {
    let storage = SimStorage::new();
    let engine = start(&storage, SyncPolicy::Always, false);
    engine.close().expect("closes");
    let log = Path::new("data/appendonlydir");
    let name = "temp-appendonly.aof.manifest";
    storage.create(&log.join(name)).expect("creates");
    start(&storage, SyncPolicy::Off, false).abandon();
    for dir in [log, Path::new("data/appendonlydir.aside")] {
        let names = storage.list(dir).unwrap_or_default();
        assert!(!names.iter().any(|found| found == name), "{} {names:?}", dir.display());
    }
}

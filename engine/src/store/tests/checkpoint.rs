//! Checkpoints: a store of its own that the first one, and crashes, leave alone.

use super::crash::small_options;
use super::harness::*;
use crate::key::Meta;
use crate::store::*;
use sexton_persistence::device::sim::{CrashOptions, SimFaults, SimRandom, SimStorage};
use sexton_persistence::device::{DiskStorage, Storage};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn history(engine: &Engine, model: &mut Model, random: &mut SimRandom, steps: u64) {
    for _ in 0..steps {
        let db = random.below(3) as usize;
        let key = format!("key:{:02}", random.below(40)).into_bytes();
        let op = match random.below(100) {
            0 => Op::Flush(db),
            1 => Op::Swap(db, (db + 1) % 3),
            2..35 => Op::Delete(db, key),
            _ => Op::Put(db, key, Meta::default(), vec![random.next_u64() as u8; 60]),
        };
        run(engine, &op);
        model.apply(&op);
        match random.below(30) {
            0 => engine.flush_now().expect("flush"),
            1 | 2 => drop(engine.compact_once().expect("compaction")),
            3 => engine.sweep_graves(),
            _ => {}
        }
    }
}

fn open_at(storage: &SimStorage, dir: &str, policy: SyncPolicy) -> Engine {
    // Graves are spilled at nearly every flush.
    let options = EngineOptions {
        dir: dir.into(),
        cemetery_max_bytes: 1500,
        ..small_options(storage, policy, false)
    };
    Engine::open(options, &mut replay).expect("a store that opens").0
}

#[test]
fn a_checkpoint_is_a_store_of_its_own() {
    for seed in 0..40 {
        let storage = SimStorage::new();
        let policy = if seed % 2 == 0 { SyncPolicy::EverySec } else { SyncPolicy::Off };
        let engine = open_at(&storage, "data", policy);
        let (mut model, mut random) = (Model::new(3), SimRandom::new(seed));
        history(&engine, &mut model, &mut random, 250);
        let report = engine.checkpoint(Path::new("copy")).expect("a checkpoint");
        assert_eq!((report.seq, report.copied_files), (engine.last_seq(), 0));
        let then = model.clone();
        history(&engine, &mut model, &mut random, 250);
        check(&engine, &model);
        let refused = engine.checkpoint(Path::new("copy")).expect_err("it is there");
        assert!(matches!(refused, EngineError::Refused(_)), "{refused}");
        // Both live on, side by side, and neither sees the other.
        let copy = open_at(&storage, "copy", SyncPolicy::EverySec);
        check(&copy, &then);
        let mut copied = then;
        history(&copy, &mut copied, &mut random, 250);
        history(&engine, &mut model, &mut random, 100);
        check(&copy, &copied);
        check(&engine, &model);
        copy.close().expect("close");
        engine.close().expect("close");
        check(&open_at(&storage, "copy", SyncPolicy::EverySec), &copied);
    }
}

#[test]
fn a_crash_leaves_no_checkpoint_or_a_whole_one() {
    let (mut none, mut whole) = (0, 0);
    for steps in 0..90 {
        let storage = SimStorage::new();
        let engine = open_at(&storage, "data", SyncPolicy::EverySec);
        let (mut model, mut random) = (Model::new(3), SimRandom::new(steps));
        history(&engine, &mut model, &mut random, 120);
        let power_off_after = Some(steps);
        storage.set_faults(SimFaults { power_off_after, ..SimFaults::default() });
        let result = engine.checkpoint(Path::new("copy"));
        for options in [CrashOptions::LOSE_ALL, CrashOptions::default(), CrashOptions::KEEP_ALL] {
            let after = storage.crash(steps, options);
            if after.exists(Path::new("copy/tree/CURRENT")).expect("exists") {
                whole += 1;
                check(&open_at(&after, "copy", SyncPolicy::EverySec), &model);
            } else {
                none += 1;
                assert!(result.is_err(), "what was confirmed is durable");
                let files = after.list(Path::new("copy/tree")).unwrap_or_default();
                assert!(files.is_empty(), "{files:?}");
            }
        }
        if result.is_err() {
            // With power again the same name can be taken.
            storage.set_faults(SimFaults::default());
            if engine.checkpoint(Path::new("copy")).is_ok() {
                check(&open_at(&storage, "copy", SyncPolicy::EverySec), &model);
            }
        }
        engine.abandon();
    }
    assert!(none > 20 && whole > 20, "{none} without, {whole} with a checkpoint");
}

#[test]
fn checkpoints_on_a_disk_while_others_write() {
    let dir = TempDir::new("checkpoint");
    let engine = Engine::open_bytes(options(&dir, Arc::new(DiskStorage), SyncPolicy::EverySec));
    let engine = engine.expect("a store that opens").0;
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Two keys that are always equal, as one batch writes them.
            let mut number = 0_u64;
            while !stop.load(Ordering::Acquire) {
                let mut batch = WriteBatch::default();
                let value = [number.to_le_bytes().as_slice(), &[0; 300]].concat();
                batch.put(0, b"a", &value);
                batch.put(1, b"z", &value);
                batch.put(0, format!("other:{}", number % 500).as_bytes(), &value);
                engine.write(&batch).expect("write");
                number += 1;
            }
        });
        for round in 0..5 {
            let copy = dir.join(format!("copy-{round}"));
            engine.checkpoint(&copy).expect("a checkpoint");
            let options = options(&copy, Arc::new(DiskStorage), SyncPolicy::EverySec);
            let copy = Engine::open_bytes(options).expect("a store that opens").0;
            let (a, z) = (copy.get(0, b"a").expect("get"), copy.get(1, b"z").expect("get"));
            assert_eq!(a, z, "a batch is in it, or not");
            copy.close().expect("close");
        }
        stop.store(true, Ordering::Release);
    });
    engine.close().expect("close");
}

/// Regression: what a crash had left of a checkpoint stayed until another one was made under its name.
#[test]
fn a_crash_leaves_nothing_of_a_checkpoint_behind_the_next_start() {
    let storage = SimStorage::new();
    let engine = open_at(&storage, "data", SyncPolicy::EverySec);
    let (mut model, mut random) = (Model::new(3), SimRandom::new(7));
    history(&engine, &mut model, &mut random, 250);
    engine.flush_now().expect("flush");
    let mut left = 0;
    for steps in 0..60 {
        storage.set_faults(SimFaults { power_off_after: Some(steps), ..SimFaults::default() });
        let made = engine.checkpoint(Path::new("copy")).is_ok();
        storage.set_faults(SimFaults::default());
        let after = storage.crash(steps, CrashOptions::KEEP_ALL);
        let (partial, note) = (Path::new("copy.partial"), Path::new("data/CHECKPOINT"));
        left += u32::from(after.exists(partial).expect("there"));
        let survivor = open_at(&after, "data", SyncPolicy::EverySec);
        check(&survivor, &model);
        survivor.abandon();
        for path in [partial, note] {
            assert!(!after.exists(path).expect("there"), "{steps} steps: {}", path.display());
        }
        if made {
            break;
        }
    }
    assert!(left > 5, "{left} crashes left something");
    engine.abandon();
}

//! Tables of some levels in places of their own, which change from start to start, through crashes.

use super::crash::small_options;
use super::drawn::places as random_places;
use super::harness::*;
use crate::check::{CheckOptions, check as check_files};
use crate::key::Meta;
use crate::store::*;
use crate::tree::{LevelPlaces, PLACE_PREFIX};
use sexton_persistence::device::Storage;
use sexton_persistence::device::sim::{CrashOptions, SimFaults, SimRandom, SimStorage};
use std::path::Path;
use std::sync::Arc;

fn open_with(storage: &SimStorage, places: &LevelPlaces) -> Result<Engine, EngineError> {
    let options = EngineOptions {
        level_places: places.clone(),
        ..small_options(storage, SyncPolicy::Always, false)
    };
    Engine::open(options, &mut replay).map(|(engine, _)| engine)
}

fn history(engine: &Engine, model: &mut Model, random: &mut SimRandom, steps: u64) {
    for _ in 0..steps {
        let key = format!("key:{:03}", random.below(300)).into_bytes();
        let op = match random.below(100) {
            0..20 => Op::Delete(0, key),
            _ => Op::Put(0, key, Meta::default(), vec![random.next_u64() as u8; 60]),
        };
        run(engine, &op);
        model.apply(&op);
        match random.below(20) {
            0 => engine.flush_now().expect("flush"),
            1..4 => drop(engine.compact_once().expect("compaction")),
            _ => {}
        }
    }
    engine.sync_through(engine.last_seq()).expect("synced");
}

/// Every table is in the place of its level, and nothing else is in any place.
fn check_places(engine: &Engine, storage: &SimStorage, places: &LevelPlaces) -> [usize; 2] {
    let version = engine.inner().versions.current();
    let mut counts = [0, 0];
    let mut expected = Vec::new();
    for (level, table) in version.tables() {
        assert_eq!(table.place(), places.of(level), "level {level}");
        counts[usize::from(table.place().is_some())] += 1;
        expected.push(table.path().to_path_buf());
    }
    let tree = engine.inner().tree_dir();
    let mut found = Vec::new();
    for name in storage.list(&tree).expect("tree") {
        let path = tree.join(&name);
        if name.starts_with(PLACE_PREFIX) {
            found.extend(storage.list(&path).expect("place").iter().map(|name| path.join(name)));
        } else if name.ends_with(".tbl") {
            found.push(path);
        }
    }
    expected.sort();
    found.sort();
    assert_eq!(found, expected);
    counts
}

#[test]
fn tables_are_carried_to_the_places_of_their_levels_whatever_happens() {
    let (mut interrupted, mut carried, mut tables) = (0, 0, [0, 0]);
    for seed in 0..60 {
        let mut random = SimRandom::new(seed);
        let mut model = Model::new(3);
        let mut storage = SimStorage::new();
        for round in 0..5 {
            let places = random_places(&mut random);
            let power_off_after = (round > 0).then(|| random.below(60));
            storage.set_faults(SimFaults { power_off_after, ..SimFaults::default() });
            let engine = match open_with(&storage, &places) {
                Ok(engine) if power_off_after.is_none() => engine,
                outcome => {
                    // The power goes while tables are carried, or soon after.
                    interrupted += u64::from(outcome.is_err());
                    if let Ok(engine) = outcome {
                        engine.abandon();
                    }
                    storage = storage.crash(random.next_u64(), CrashOptions::default());
                    open_with(&storage, &places).expect("a store that opens after a crash")
                }
            };
            carried += engine.inner().versions.carried();
            check(&engine, &model);
            history(&engine, &mut model, &mut random, 120);
            check(&engine, &model);
            let here = check_places(&engine, &storage, &places);
            tables = [tables[0] + here[0], tables[1] + here[1]];
            if random.below(2) == 0 {
                engine.close().expect("close");
            } else {
                engine.abandon();
            }
            storage = storage.crash(random.next_u64(), CrashOptions::default());
        }
    }
    assert!(interrupted > 20 && carried > 100 && tables[0] > 100 && tables[1] > 100);
}

#[test]
fn copies_checks_and_a_wiped_store_know_the_places() {
    let storage = SimStorage::new();
    let places = LevelPlaces::default().with(0..=0, "fast").with(1..=6, "disk");
    let engine = open_with(&storage, &places).expect("a new store");
    let (mut model, mut random) = (Model::new(3), SimRandom::new(1));
    history(&engine, &mut model, &mut random, 400);
    engine.flush_now().expect("flush");
    let version = engine.inner().versions.current();
    assert!(!version.level(0).is_empty() && version.tables().count() > version.level(0).len());
    engine.checkpoint(Path::new("copy")).expect("a checkpoint");
    engine.close().expect("close");

    let options = |dir: &str| CheckOptions::new(Arc::new(storage.clone()), dir.into());
    let leftover = "data/tree/on-disk/000000009999.tbl";
    storage.create(Path::new(leftover)).expect("created");
    let report = check_files(&options("data"), &mut |_, _| {}).expect("checked");
    assert!(report.findings.is_empty() && report.tables > 1, "{:?}", report.findings);
    assert!(report.notes.iter().any(|note| note.contains("on-disk/000000009999")));

    let copy =
        EngineOptions { dir: "copy".into(), ..small_options(&storage, SyncPolicy::Always, false) };
    let copy = Engine::open(copy, &mut replay).expect("a store of its own").0;
    check(&copy, &model);
    copy.close().expect("close");

    // Without a log the store waits aside, with its places, and an empty one takes them.
    let off = || EngineOptions {
        level_places: places.clone(),
        ..small_options(&storage, SyncPolicy::Off, false)
    };
    for _ in 0..2 {
        let engine = Engine::open(off(), &mut replay).expect("an empty store").0;
        check(&engine, &Model::new(3));
        history(&engine, &mut Model::new(3), &mut random, 200);
        check_places(&engine, &storage, &places);
        engine.close().expect("close");
    }
    let engine = open_with(&storage, &places).expect("the store is back");
    check(&engine, &model);
    check_places(&engine, &storage, &places);

    // A damaged table is found where it lies.
    let path =
        engine.inner().versions.current().tables().next().expect("one").1.path().to_path_buf();
    engine.close().expect("close");
    storage.open(&path).expect("opened").write_all_at(&[0xff; 4], 10).expect("written");
    let report = check_files(&options("data"), &mut |_, _| {}).expect("checked");
    assert!(report.findings.iter().any(|finding| finding.file == path), "{:?}", report.findings);
}

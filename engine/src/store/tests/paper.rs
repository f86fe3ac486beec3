//! Paper mode: the store as an ordinary LSM-tree (`deletes = tombstones`, `memtable = skiplist`).

use super::harness::*;
use crate::key::Meta;
use crate::store::*;
use sexton_persistence::device::sim::SimStorage;

fn put(engine: &Engine, i: usize) {
    let name = format!("k{i:04}").into_bytes();
    run(engine, &Op::Put(0, name, Meta::default(), vec![1; 50]));
}

fn delete(engine: &Engine, i: usize) -> bool {
    run(engine, &Op::Delete(0, format!("k{i:04}").into_bytes()))
}

/// Versions and tombstones in all tables.
fn entries(engine: &Engine) -> (u64, u64) {
    let version = engine.inner().versions.current();
    version.tables().fold((0, 0), |(entries, tombstones), (_, table)| {
        let p = table.properties();
        (entries + p.entries, tombstones + p.tombstones)
    })
}

/// Without background threads, so that each step is seen.
fn small() -> Engine {
    let storage = SimStorage::new();
    let options = super::crash::small_options(&storage, SyncPolicy::EverySec, false);
    let options = EngineOptions { deletes: DeleteMode::Tombstones, ..options };
    Engine::open(options, &mut replay).expect("a new store").0
}

fn settle(engine: &Engine) {
    while engine.compact_once().expect("a readable device") {}
}

#[test]
fn a_store_is_opened_only_as_what_it_was_made() {
    let modes = [DeleteMode::Cemetery, DeleteMode::Tombstones];
    for (made, other) in [(modes[0], modes[1]), (modes[1], modes[0])] {
        for flushed in [false, true] {
            let dir = TempDir::new("mode");
            let engine = open_as(&dir, SyncPolicy::EverySec, made).expect("a new store");
            put(&engine, 1);
            if flushed {
                engine.flush_now().expect("flush");
            }
            engine.close().expect("close");
            drop(engine);
            let error = open_as(&dir, SyncPolicy::EverySec, other).err().expect("refused");
            assert!(matches!(error, EngineError::Refused(_)), "{error:?}");
            let text = error.to_string();
            assert!(text.contains(&format!("keeps deletes as \"{made}\"")), "{text}");
            let engine = open_as(&dir, SyncPolicy::EverySec, made).expect("the same mode");
            assert_eq!(engine.count(0).expect("count"), 1);
        }
    }
}

#[test]
fn deletes_are_records_of_the_tree_and_open_no_grave() {
    let engine = small();
    (0..40).for_each(|i| put(&engine, i));
    engine.flush_now().expect("flush");
    assert!((0..40).all(|i| delete(&engine, i)));
    assert!(!delete(&engine, 0), "X1 holds here too");
    assert_eq!(engine.stats().graves, 0);
    assert!((0..40).all(|i| get(&engine, 0, format!("k{i:04}").as_bytes()).is_none()));
    engine.flush_now().expect("flush");
    assert_eq!(entries(&engine), (80, 40));
    assert!(engine.scan(&ScanRange::default()).expect("scan").next().is_none());
    engine.abandon();
}

#[test]
fn tombstones_go_with_what_they_cover_once_nothing_lies_below() {
    let engine = small();
    (0..200).for_each(|i| put(&engine, i));
    engine.flush_now().expect("flush");
    settle(&engine);
    assert_eq!(entries(&engine), (200, 0));
    (0..100).for_each(|i| assert!(delete(&engine, i)));
    engine.flush_now().expect("flush");
    assert_eq!(entries(&engine), (300, 100));
    settle(&engine);
    assert_eq!(entries(&engine), (100, 0), "picked by the density of tombstones alone");
    assert_eq!(engine.count(0).expect("count"), 100);
    engine.abandon();
}

#[test]
fn a_reader_keeps_the_versions_below_a_tombstone_and_the_tombstone() {
    let engine = small();
    (0..20).for_each(|i| put(&engine, i));
    engine.flush_now().expect("flush");
    let before = engine.scan(&ScanRange::default()).expect("scan");
    (0..20).for_each(|i| assert!(delete(&engine, i)));
    engine.flush_now().expect("flush");
    settle(&engine);
    assert_eq!(entries(&engine), (40, 20));
    let items: Vec<ScanItem> = before.map(|item| item.expect("readable")).collect();
    assert_eq!(items.len(), 20);
    settle(&engine);
    assert_eq!(entries(&engine), (0, 0));
    assert!(engine.scan(&ScanRange::default()).expect("scan").next().is_none());
    engine.abandon();
}

#[test]
fn a_tombstone_of_an_older_version_does_not_hide_a_newer_one() {
    let engine = small();
    put(&engine, 1);
    engine.flush_now().expect("flush");
    assert!(delete(&engine, 1));
    put(&engine, 1);
    assert_eq!(engine.count(0).expect("count"), 1);
    engine.flush_now().expect("flush");
    assert_eq!(entries(&engine), (2, 0), "the tombstone was shadowed in its own memtable");
    settle(&engine);
    assert!(get(&engine, 0, b"k0001").is_some());
    engine.abandon();
}

#[test]
fn a_store_with_skip_lists_equals_the_model_and_opens_without() {
    let dir = TempDir::new("skiplist");
    let open = |memtable| {
        let storage = std::sync::Arc::new(sexton_persistence::device::DiskStorage);
        let options = EngineOptions { memtable, ..options(&dir, storage, SyncPolicy::EverySec) };
        Engine::open(options, &mut replay).expect("a store that opens").0
    };
    let mut model = Model::new(3);
    let mut state = 0x5eed_0001_0203_0405;
    for kind in [MemtableKind::SkipList, MemtableKind::Hash, MemtableKind::SkipList] {
        let engine = open(kind);
        check(&engine, &model);
        for step in 0..1500 {
            let op = random_op(&mut state, 300);
            run(&engine, &op);
            model.apply(&op);
            if step % 300 == 299 {
                check(&engine, &model);
            }
        }
        engine.close().expect("close");
    }
}

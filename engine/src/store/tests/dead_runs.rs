//! Stretches of deleted keys: scans pass over them by proof (N5), and tables of which all is proved dead
//! go without being read.

use super::harness::*;
use crate::iterator::Bounds;
use crate::key::Meta;
use crate::store::*;
use sexton_persistence::device::Storage;
use sexton_persistence::device::sim::SimStorage;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const KEYS: u64 = 3000;

fn name(number: u64) -> Vec<u8> {
    format!("key:{number:06}").into_bytes()
}

fn put(engine: &Engine, number: u64) {
    assert!(run(engine, &Op::Put(0, name(number), Meta::default(), vec![7; 40])));
}

fn delete(engine: &Engine, range: std::ops::Range<u64>) {
    for number in range {
        assert!(run(engine, &Op::Delete(0, name(number))));
    }
}

fn stepwise(storage: &SimStorage) -> Engine {
    let storage: Arc<dyn Storage> = Arc::new(storage.clone());
    let options = EngineOptions {
        background: false,
        ..options(Path::new("data"), storage, SyncPolicy::EverySec)
    };
    Engine::open(options, &mut |engine, group| replay(engine, group)).expect("opens").0
}

/// Ten tables of 300 keys each, one behind the other.
fn filled(storage: &SimStorage) -> Engine {
    let engine = stepwise(storage);
    for number in 0..KEYS {
        put(&engine, number);
        if (number + 1) % (KEYS / 10) == 0 {
            engine.flush_now().expect("flush");
        }
    }
    engine
}

fn first_keys(engine: &Engine, count: usize) -> Vec<Vec<u8>> {
    let scan = engine.scan(&ScanRange::default()).expect("scan");
    scan.take(count).map(|item| item.expect("no faults").key).collect()
}

fn tables(engine: &Engine) -> u64 {
    engine.stats().levels.iter().map(|(tables, _)| tables).sum()
}

fn any_dead_table(engine: &Engine) -> bool {
    let inner = engine.inner();
    let now = inner.flusher.mark.load(Ordering::Acquire);
    engine.pick_dead_tables(&inner.versions.current(), now).is_some()
}

#[test]
fn one_scan_leaves_a_proof_and_dead_tables_go_unread() {
    let storage = SimStorage::new();
    let engine = filled(&storage);
    delete(&engine, 0..1700);
    assert_eq!(first_keys(&engine, 2), [name(1700), name(1701)]);
    assert_eq!(engine.stats().dead_runs, 1);
    assert!(!any_dead_table(&engine), "the mark has not passed the deletes yet (D1)");
    let tables_before = tables(&engine);
    engine.flush_now().expect("flush");
    let reader = engine.scan(&ScanRange { from: name(1690), ..ScanRange::default() });
    engine.compact_once().expect("compaction");
    assert_eq!(engine.stats().tables_dropped_dead, 5);
    assert_eq!(tables(&engine), tables_before - 5);
    assert_eq!(first_keys(&engine, 2), [name(1700), name(1701)]);
    drop(reader);
    engine.sweep_graves();
    assert_eq!(
        engine.stats().graves,
        200,
        "of the 1500 keys that lay in dropped tables none is left"
    );
}

#[test]
fn a_snapshot_from_before_the_deletes_keeps_dead_tables() {
    let storage = SimStorage::new();
    let engine = filled(&storage);
    let before = engine.snapshot(SnapshotOptions::default()).expect("snapshot");
    delete(&engine, 0..1700);
    first_keys(&engine, 1);
    engine.flush_now().expect("flush");
    assert!(!any_dead_table(&engine));
    assert!(before.get(0, &name(3)).expect("no faults").is_some());
    let mut iter = before.iter(&IterOptions::default()).expect("open");
    iter.seek_to_first().expect("no faults");
    assert_eq!(iter.key(), name(0), "the proof is not for readers below it");
    drop((iter, before));
    assert!(any_dead_table(&engine));
}

#[test]
fn a_put_inside_a_dead_run_is_seen_by_scans_both_ways() {
    let storage = SimStorage::new();
    let engine = filled(&storage);
    delete(&engine, 0..KEYS);
    assert_eq!(first_keys(&engine, 1), Vec::<Vec<u8>>::new());
    assert_eq!(engine.stats().dead_runs, 1);
    put(&engine, 1234);
    assert_eq!(first_keys(&engine, 3), [name(1234)]);
    engine.flush_now().expect("flush");
    put(&engine, 77);
    assert_eq!(first_keys(&engine, 3), [name(77), name(1234)]);
    let mut iter = engine.iter(&IterOptions::default());
    iter.seek_to_last().expect("no faults");
    assert_eq!(iter.key(), name(1234));
    iter.prev().expect("no faults");
    assert_eq!(iter.key(), name(77));
    iter.prev().expect("no faults");
    assert!(!iter.valid());
}

#[test]
fn places_of_deletes_are_proved_dead_without_a_scan() {
    let storage = SimStorage::new();
    let engine = filled(&storage);
    delete(&engine, 500..1500);
    let places = engine.inner().graveyard.places.take();
    assert!(!places.is_empty());
    let found = engine.prove_dead(&places, &Default::default()).expect("no faults");
    assert!(found);
    delete(&engine, 1500..2000);
    let places = engine.inner().graveyard.places.take();
    engine.prove_dead(&places, &Default::default()).expect("no faults");
    assert_eq!(engine.stats().dead_runs, 1, "the run grew where it ended");
    let all = first_keys(&engine, KEYS as usize);
    let expected: Vec<Vec<u8>> = (0..500).chain(2000..KEYS).map(name).collect();
    assert_eq!(all, expected);
}

#[test]
fn proofs_come_back_with_the_mark_that_passed_them() {
    let storage = SimStorage::new();
    let engine = filled(&storage);
    delete(&engine, 0..1000);
    first_keys(&engine, 1);
    engine.flush_now().expect("flush");
    delete(&engine, 2000..2500);
    let mut iter = engine.iter(&IterOptions::default());
    iter.seek(&name(2000)).expect("no faults");
    drop(iter);
    assert_eq!(engine.stats().dead_runs, 2);
    engine.abandon();
    let engine = stepwise(&storage);
    assert_eq!(engine.stats().dead_runs, 1, "the second one was above the mark");
    assert_eq!(first_keys(&engine, 1), [name(1000)]);
    engine.close().expect("close");
}

#[test]
fn a_seek_to_the_head_of_a_queue_costs_the_same_however_long_it_has_run() {
    let storage = SimStorage::new();
    let engine = stepwise(&storage);
    const LENGTH: u64 = 20;
    (0..LENGTH).for_each(|number| put(&engine, number));
    let mut asked = Vec::new();
    for part in 0..4 {
        let graves = CountedGraves::of(&engine);
        for step in part * 1000..(part + 1) * 1000 {
            put(&engine, LENGTH + step);
            delete(&engine, step..step + 1);
            let (view, _pin, _) = engine.newest_view();
            let walk = view.walk(Bounds::of_prefix(&[namespace::KIND_ROOT]));
            let mut walk = walk.passing_dead(&engine.inner().graveyard.dead_runs);
            walk.seek(b"", &graves).expect("no faults");
            assert!(walk.key().ends_with(&name(step + 1)));
            if step % 250 == 249 {
                engine.flush_now().expect("flush");
            }
        }
        asked.push(graves.asked());
    }
    // The dead one at the head, the live one behind it, and now and then one that a proof is younger than.
    assert!(
        asked.iter().all(|&asked| asked < 5 * 1000),
        "graves asked for in each part: {asked:?}"
    );
}

#[test]
fn a_seek_into_a_dead_run_reads_no_table_inside_it() {
    let storage = SimStorage::new();
    let engine = filled(&storage);
    delete(&engine, 0..1700);
    assert_eq!(first_keys(&engine, 1), [name(1700)]);
    put(&engine, 650);
    let looks = || {
        let (hits, misses) = engine.inner().versions.cache_hits_and_misses();
        hits + misses
    };
    let before = looks();
    assert_eq!(first_keys(&engine, 2), [name(650), name(1700)]);
    // Each table of the ten is in level 0, with a cursor of its own: those with live keys are entered.
    assert!(looks() - before <= 5, "{} blocks asked for", looks() - before);
}

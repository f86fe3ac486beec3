//! What a look at the cemetery leaves unasked (N5), and for whom.

use super::crash::small_options;
use super::harness::*;
use super::spill::{name, spilling};
use crate::iterator::Bounds;
use crate::key::Meta;
use crate::store::*;
use sexton_persistence::device::sim::SimStorage;

const KEYS: u64 = 2000;

/// Blocks of the tests' tables have far fewer keys.
const KEYS_OF_BLOCK_MAX: u64 = 200;

fn stepwise(storage: &SimStorage) -> Engine {
    let options = EngineOptions {
        memtable_bytes: 1 << 20,
        ..small_options(storage, SyncPolicy::EverySec, false)
    };
    Engine::open(options, &mut replay).expect("a store that opens").0
}

fn put(engine: &Engine, numbers: impl Iterator<Item = u64>, value: u8) {
    for number in numbers {
        assert!(run(engine, &Op::Put(0, name(number), Meta::default(), vec![value; 40])));
    }
}

fn delete(engine: &Engine, numbers: impl Iterator<Item = u64>) {
    numbers.for_each(|number| assert!(run(engine, &Op::Delete(0, name(number)))));
}

/// A table of all keys, and a few graves above its claim.
fn with_few_graves(storage: &SimStorage) -> Engine {
    let engine = stepwise(storage);
    put(&engine, 0..KEYS, 7);
    engine.flush_now().expect("a flush");
    delete(&engine, [5, 1200].into_iter());
    engine
}

/// Live keys and how many of them were asked about, forward and back.
fn walk(engine: &Engine) -> (u64, u64) {
    let (view, _pin, _) = engine.newest_view();
    let graves = CountedGraves::of(engine);
    let mut walk = view.walk(Bounds::of_prefix(&[namespace::KIND_ROOT]));
    let mut count = 0;
    walk.seek(b"", &graves).expect("no faults");
    while walk.valid() {
        count += 1;
        walk.next(&graves).expect("no faults");
    }
    let asked = graves.take_asked();
    let mut back = 0;
    walk.seek_back(None, &graves).expect("no faults");
    while walk.valid() {
        back += 1;
        walk.prev(&graves).expect("no faults");
    }
    assert_eq!(count, back);
    (count, asked.max(graves.asked()))
}

#[test]
fn a_walk_asks_only_about_blocks_that_a_grave_may_concern() {
    let engine = with_few_graves(&SimStorage::new());
    assert_eq!(walk(&engine), (KEYS - 2, KEYS));
    engine.look_for_clean().expect("no faults");
    let (count, asked) = walk(&engine);
    assert_eq!(count, KEYS - 2);
    assert!(0 < asked && asked < 2 * KEYS_OF_BLOCK_MAX, "{asked} asked about");
    delete(&engine, 777..778);
    assert_eq!(walk(&engine).0, KEYS - 3, "a grave younger than the look");
    engine.look_for_clean().expect("no faults");
    let (count, asked) = walk(&engine);
    assert_eq!(count, KEYS - 3);
    assert!(asked < 3 * KEYS_OF_BLOCK_MAX, "{asked} asked about");
    engine.abandon();
}

#[test]
fn what_was_written_under_all_graves_needs_no_look() {
    let engine = stepwise(&SimStorage::new());
    put(&engine, 0..KEYS, 7);
    delete(&engine, 100..200);
    engine.flush_now().expect("a flush");
    assert_eq!(walk(&engine), (KEYS - 100, 0), "the claim of the only table covers all graves");
    engine.abandon();
}

#[test]
fn a_closed_grave_counts_for_those_who_read_between() {
    let engine = with_few_graves(&SimStorage::new());
    let between = engine.snapshot(SnapshotOptions::default()).expect("a snapshot");
    put(&engine, 5..6, 8);
    engine.look_for_clean().expect("no faults");
    let mut iter = between.iter(&IterOptions::default()).expect("open");
    iter.seek(&name(5)).expect("no faults");
    assert_eq!(iter.key(), name(6));
    let mut iter = engine.iter(&IterOptions::default());
    iter.seek(&name(5)).expect("no faults");
    assert_eq!((iter.key(), iter.value()), (&name(5)[..], &[8; 40][..]));
    engine.abandon();
}

#[test]
fn spilled_graves_count() {
    let engine = spilling(&SimStorage::new(), 1500);
    put(&engine, 0..KEYS, 7);
    engine.flush_now().expect("a flush");
    delete(&engine, 300..400);
    engine.flush_now().expect("a flush");
    assert_eq!(engine.stats().graves_spilled, 100);
    engine.look_for_clean().expect("no faults");
    let (count, asked) = walk(&engine);
    assert_eq!(count, KEYS - 100);
    assert!(asked < 100 + 2 * KEYS_OF_BLOCK_MAX, "{asked} asked about");
    engine.abandon();
}

#[test]
fn after_a_start_graves_of_before_are_asked_for() {
    let storage = SimStorage::new();
    let engine = with_few_graves(&storage);
    engine.flush_now().expect("a flush");
    engine.look_for_clean().expect("no faults");
    engine.close().expect("close");
    let engine = stepwise(&storage);
    assert_eq!(walk(&engine), (KEYS - 2, KEYS));
    engine.look_for_clean().expect("no faults");
    let (count, asked) = walk(&engine);
    assert_eq!(count, KEYS - 2);
    assert!(asked < 2 * KEYS_OF_BLOCK_MAX, "{asked} asked about");
    engine.abandon();
}

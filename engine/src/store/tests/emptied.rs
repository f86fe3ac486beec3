//! Emptied databases and buried graves: what a file claims to have applied, and what is left to forget.

use super::harness::*;
use super::spill::{name, spilling};
use crate::key::Meta;
use crate::store::*;
use sexton_persistence::device::sim::{CrashOptions, SimStorage};

fn stepwise(storage: &SimStorage) -> Engine {
    spilling(storage, 64 << 20)
}

fn put(engine: &Engine, number: u64, value: u8) {
    put_in(engine, 0, number, value);
}

fn put_in(engine: &Engine, db: usize, number: u64, value: u8) {
    run(engine, &Op::Put(db, name(number), Meta::default(), vec![value; 40]));
}

fn tree_entries(engine: &Engine) -> u64 {
    let version = engine.inner().versions.current();
    version.tables().map(|(_, table)| table.properties().entries).sum()
}

/// What the tree claims to have buried must be gone from it although a snapshot from before sees it: nobody
/// would drop it once the death is forgotten (N7).
fn emptied_under_a_snapshot(is_flushed_before: bool) {
    let storage = SimStorage::new();
    let engine = stepwise(&storage);
    (0..50).for_each(|number| put(&engine, number, 1));
    put_in(&engine, 2, 0, 1);
    let before = engine.snapshot(SnapshotOptions::default()).expect("opened");
    if is_flushed_before {
        engine.flush_now().expect("flush");
    }
    assert!(run(&engine, &Op::Flush(0)));
    // Tables enough for a merge of level 0, all within the first one, which does not just move then.
    (50..55).for_each(|number| {
        put_in(&engine, 1, number, 2);
        engine.flush_now().expect("flush");
    });
    while engine.compact_once().expect("no faults") {}
    engine.forget_dead_ids();
    let value = before.get(0, &name(7)).expect("read").map(|found| found.value);
    assert_eq!(value, Some(vec![1; 40]), "from an undo run");
    assert_eq!(tree_entries(&engine), 6, "the living");
    drop(before);
    engine.sweep_graves();
    engine.forget_dead_ids();
    assert!(engine.inner().graveyard.dead.lock().is_empty(), "no file needs the death any more");
    engine.abandon();
}

#[test]
fn an_emptied_database_leaves_the_tree_although_a_snapshot_sees_it() {
    emptied_under_a_snapshot(false);
    emptied_under_a_snapshot(true);
}

/// A store with one table: one key of each of three databases, whose ids are not the first ones, which databases that
/// come back with another configuration have.
fn three_databases_in_a_table() -> Engine {
    let engine = stepwise(&SimStorage::new());
    let fill = || (0..3).for_each(|db| put_in(&engine, db, 1, 1));
    fill();
    (0..3).for_each(|db| assert!(run(&engine, &Op::Flush(db))));
    fill();
    engine.flush_now().expect("flush");
    assert_eq!(tree_entries(&engine), 3);
    engine
}

/// One key more, in a table of its own, which is too few tables for a merge.
fn one_table_more(engine: &Engine) {
    put_in(engine, 1, 2, 2);
    engine.flush_now().expect("flush");
    while engine.compact_once().expect("no faults") {}
}

/// Nothing merges what is apart from all newer keys, as the ids of emptied databases do: their tables go as wholes.
#[test]
fn a_table_of_emptied_databases_leaves_the_tree_unread() {
    let engine = three_databases_in_a_table();
    (0..3).for_each(|db| assert!(run(&engine, &Op::Flush(db))));
    one_table_more(&engine);
    assert_eq!(tree_entries(&engine), 1);
    engine.abandon();
}

#[test]
fn it_stays_while_a_database_between_them_lives() {
    let engine = three_databases_in_a_table();
    [0, 2].into_iter().for_each(|db| assert!(run(&engine, &Op::Flush(db))));
    one_table_more(&engine);
    assert_eq!(get(&engine, 1, &name(1)).map(|(_, value)| value), Some(vec![1; 40]));
    assert_eq!(tree_entries(&engine), 4);
    engine.abandon();
}

#[test]
fn it_stays_while_a_snapshot_sees_them() {
    let engine = three_databases_in_a_table();
    let before = engine.snapshot(SnapshotOptions::default()).expect("opened");
    (0..3).for_each(|db| assert!(run(&engine, &Op::Flush(db))));
    one_table_more(&engine);
    assert_eq!(before.get(2, &name(1)).expect("read").map(|found| found.value), Some(vec![1; 40]));
    drop(before);
    engine.abandon();
}

#[test]
fn what_died_in_one_memtable_is_not_flushed() {
    let storage = SimStorage::new();
    let engine = stepwise(&storage);
    (0..50).for_each(|number| put(&engine, number, 1));
    assert!(run(&engine, &Op::Flush(0)));
    put(&engine, 3, 2);
    engine.flush_now().expect("flush");
    engine.forget_dead_ids();
    assert_eq!(tree_entries(&engine), 1, "nobody would drop the others later");
    engine.abandon();
}

/// A checkpoint names no grave that stays in memory for old readers only (F3): they do not outlive the process.
#[test]
fn a_checkpoint_leaves_out_graves_in_limbo() {
    let storage = SimStorage::new();
    let engine = stepwise(&storage);
    (0..50).for_each(|number| put(&engine, number, 1));
    engine.flush_now().expect("flush");
    (0..50).for_each(|number| assert!(run(&engine, &Op::Delete(0, name(number)))));
    engine.flush_now().expect("flush");
    assert!(engine.inner().flusher.checkpoint_file.lock().is_some(), "50 graves");
    let scan = engine.scan(&ScanRange::default()).expect("a scan that pins the tables of now");
    while engine.compact_once().expect("no faults") {}
    engine.sweep_graves();
    assert_eq!((engine.stats().graves, tree_entries(&engine)), (50, 0), "buried, and pinned");
    put(&engine, 77, 2);
    engine.flush_now().expect("flush");
    assert_eq!(engine.stats().graves, 50, "still pinned");
    assert_eq!(*engine.inner().flusher.checkpoint_file.lock(), None);
    assert_eq!(scan.count(), 0, "the scan goes by them");
    let storage = storage.crash(1, CrashOptions::LOSE_ALL);
    engine.abandon();
    let engine = stepwise(&storage);
    assert_eq!(engine.stats().graves, 0);
    assert_eq!(engine.count(0).expect("count"), 1);
    assert_eq!((get(&engine, 0, &name(7)), get(&engine, 0, &name(77)).is_some()), (None, true));
    engine.abandon();
}

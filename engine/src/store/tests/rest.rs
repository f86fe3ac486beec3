//! Merges at rest: what seeks pay for, and tables with few dead.

use super::crash::small_options;
use super::harness::*;
use crate::key::Meta;
use crate::store::*;
use crate::tree::CompactionOptions;
use sexton_persistence::device::sim::SimStorage;

fn name(number: u64) -> Vec<u8> {
    format!("key:{number:06}").into_bytes()
}

fn put(engine: &Engine, numbers: impl Iterator<Item = u64>) {
    for number in numbers {
        assert!(run(engine, &Op::Put(0, name(number), Meta::default(), vec![7; 40])));
    }
    engine.flush_now().expect("a flush");
}

fn delete(engine: &Engine, numbers: impl Iterator<Item = u64>) {
    numbers.for_each(|number| assert!(run(engine, &Op::Delete(0, name(number)))));
    engine.flush_now().expect("a flush");
}

/// Without background threads; memtable and tables are larger than anything the tests write.
fn stepwise(storage: &SimStorage) -> Engine {
    let options = EngineOptions {
        memtable_bytes: 1 << 20,
        compaction: CompactionOptions { l0_tables: 4, ..CompactionOptions::default() },
        ..small_options(storage, SyncPolicy::EverySec, false)
    };
    Engine::open(options, &mut replay).expect("a store that opens").0
}

fn tables(engine: &Engine) -> Vec<u64> {
    engine.stats().levels.iter().map(|(tables, _)| *tables).filter(|tables| *tables > 0).collect()
}

fn keys(engine: &Engine) -> usize {
    let items: Result<Vec<_>, _> = engine.scan(&ScanRange::default()).expect("a scan").collect();
    items.expect("no faults").len()
}

/// Merges of any time; none of them is due afterwards.
fn wait_until_idle(engine: &Engine) {
    while engine.compact_once().expect("no faults") {}
}

#[test]
fn seeks_pay_for_the_merge_of_level_0() {
    let engine = stepwise(&SimStorage::new());
    (0..3).for_each(|first| put(&engine, (first..3000).step_by(3)));
    wait_until_idle(&engine);
    assert_eq!(tables(&engine), [3], "three tables are no reason to merge under load");
    let bytes: u64 = engine.stats().levels.iter().map(|(_, bytes)| *bytes).sum();
    let seeks = bytes.div_ceil(3 * (16 << 10));
    let mut iter = engine.iter(&IterOptions::default());
    assert!(!engine.compact_at_rest().expect("no faults"), "nobody has sought");
    for nth in 0..seeks {
        assert!(!engine.compact_at_rest().expect("no faults"), "{nth} of {seeks} seeks");
        iter.seek(&name(nth)).expect("no faults");
    }
    assert!(engine.compact_at_rest().expect("no faults"));
    assert_eq!(tables(&engine), [1]);
    assert!(engine.stats().levels[0] == (0, 0));
    for nth in 0..9 * seeks {
        iter.seek(&name(nth)).expect("no faults");
    }
    drop(iter);
    assert_eq!(keys(&engine), 3000);
    assert!(!engine.compact_at_rest().expect("no faults"), "there is nothing to look into in vain");
    assert_eq!(engine.stats().compactions_at_rest, 1);
    engine.abandon();
}

#[test]
fn seeks_outside_of_a_table_pay_nothing() {
    let engine = stepwise(&SimStorage::new());
    put(&engine, 0..500);
    let options = IterOptions { lower: name(600), ..IterOptions::default() };
    let mut iter = engine.iter(&options);
    (0..100).for_each(|_| iter.seek(b"").expect("no faults"));
    drop(iter);
    assert!(!engine.compact_at_rest().expect("no faults"));
    engine.abandon();
}

/// One table of 2,000 keys below level 0.
fn settled_table(engine: &Engine) {
    put(engine, 0..2000);
    engine.inner().upkeep.rest.note_looks(1 << 20);
    assert!(engine.compact_at_rest().expect("no faults"));
    assert_eq!(engine.stats().levels[0], (0, 0));
}

#[test]
fn a_table_with_a_tenth_dead_is_rewritten_at_rest_only() {
    for (dead, is_worth_it) in [(180, false), (220, true)] {
        let engine = stepwise(&SimStorage::new());
        settled_table(&engine);
        let before = engine.stats();
        delete(&engine, (0..2000).step_by(9).take(dead));
        wait_until_idle(&engine);
        assert_eq!(engine.stats().graves, dead as u64, "no reason to rewrite it under load");
        assert_eq!(engine.compact_at_rest().expect("no faults"), is_worth_it, "{dead} dead");
        engine.sweep_graves();
        assert_eq!(engine.stats().graves, if is_worth_it { 0 } else { dead as u64 });
        assert_eq!(engine.stats().levels == before.levels, !is_worth_it);
        wait_until_idle(&engine);
        assert!(!engine.compact_at_rest().expect("no faults"), "once");
        assert_eq!(keys(&engine), 2000 - dead);
        engine.abandon();
    }
}

#[test]
fn level_0_is_merged_for_its_dead_only_if_that_frees_a_tenth_of_all() {
    let engine = stepwise(&SimStorage::new());
    settled_table(&engine);
    // Every tenth key anew, and a fifth of these deleted: 2 % of all.
    put(&engine, (0..2000).step_by(10));
    delete(&engine, (0..2000).step_by(50));
    assert_eq!(tables(&engine), [1, 1]);
    let version = engine.inner().versions.current();
    let job = engine.tally_of_dead(&version).expect("no faults").at_rest();
    assert!(job.pick(0, &engine.inner().compaction_options()).is_none());
    engine.abandon();
}

#[test]
fn what_will_move_down_unread_is_written_as_its_level_is() {
    let engine = stepwise(&SimStorage::new());
    let bytes = |engine: &Engine| engine.stats().levels.iter().map(|(_, bytes)| bytes).sum::<u64>();
    put(&engine, 0..500);
    let packed = bytes(&engine);
    put(&engine, 500..1000);
    let in_order = bytes(&engine) - packed;
    assert_eq!(tables(&engine), [2]);
    put(&engine, 500..1000);
    let again = bytes(&engine) - packed - in_order;
    assert!(in_order * 3 < again * 2, "{in_order} bytes, {again} of a table that is to be merged");
    assert!(packed.abs_diff(in_order) * 10 < packed, "{packed} and {in_order} bytes");
    assert_eq!(keys(&engine), 1000);
    engine.abandon();
}

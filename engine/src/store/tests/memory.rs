//! What the store says it holds, and what counts as held.

use super::harness::*;
use crate::key::Meta;
use crate::store::*;
use sexton_persistence::device::sim::SimStorage;
use std::sync::Arc;

fn options(bound_bytes: u64) -> EngineOptions {
    EngineOptions {
        sync_policy: SyncPolicy::Off,
        background: false,
        memory_bound_bytes: bound_bytes,
        evicts_keys: true,
        ..EngineOptions::new(Arc::new(SimStorage::new()), "data".into())
    }
}

fn fill(engine: &Engine, keys: usize, value_bytes: usize) {
    for number in 0..keys {
        let value = vec![b'v'; value_bytes];
        run(engine, &Op::Put(0, format!("key:{number}").into(), Meta::default(), value));
    }
}

/// Nobody writes between: the shards hear of it from the sweep alone.
#[test]
fn an_emptied_database_makes_room_before_anybody_writes() {
    let (engine, _) = Engine::open(options(4 << 20), &mut |_, _| Ok(())).unwrap();
    fill(&engine, 2000, 8 << 10);
    assert!(engine.over_bound());
    run(&engine, &Op::Flush(0));
    engine.sweep_dead_namespaces();
    assert!(!engine.over_bound(), "{:?}", engine.memory_parts());
}

#[test]
fn the_parts_of_the_table_are_what_the_table_says() {
    let (engine, _) = Engine::open(options(0), &mut |_, _| Ok(())).unwrap();
    // Of each third: in pages of the system's, and in blocks of the allocator's.
    fill(&engine, 300, 100);
    let small = engine.memory_parts();
    assert_eq!(small.table, engine.beside_allocator_bytes());
    fill(&engine, 300, 64 << 10);
    let large = engine.memory_parts();
    let grown = large.table - small.table;
    assert!(grown >= 300 * (64 << 10), "{grown} bytes");
    assert!(engine.beside_allocator_bytes() < small.table + grown / 10);
    assert!(large.memtables > small.memtables);
    assert!(large.sum() >= large.table + large.memtables);
    let stats = engine.stats();
    assert!(stats.dram_bytes <= large.table);
}

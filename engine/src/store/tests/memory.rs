//! What the store says it holds, and what counts as held.

use super::harness::*;
use crate::key::Meta;
use crate::store::upkeep::shares::{MachineryMax, bound_for, machinery_bytes};
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
    assert!(engine.over_bound(0));
    run(&engine, &Op::Flush(0));
    engine.sweep_dead_namespaces();
    assert!(!engine.over_bound(0), "{:?}", engine.memory_parts());
}

/// Regression: shard and bucket were chosen by equal bits, so only one bucket in 64 of each shard was sampled.
#[test]
fn samples_for_eviction_come_from_everywhere() {
    let (engine, _) = Engine::open(options(0), &mut |_, _| Ok(())).unwrap();
    let keys = 20_000;
    for number in 0..keys {
        let meta = Meta { expire_at_ms: 1 << 50, ..Meta::default() };
        run(&engine, &Op::Put(0, format!("key:{number}").into(), meta, vec![b'v']));
    }
    for volatile in [false, true] {
        let mut seen = std::collections::HashSet::new();
        for nth in 0..keys {
            let random = engine.hash(format!("sample:{nth}").as_bytes());
            seen.extend(engine.sample(random, 5, volatile).into_iter().map(|found| found.key));
        }
        assert!(seen.len() > keys * 9 / 10, "{} of {keys}", seen.len());
    }
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

const MAX: MachineryMax = MachineryMax { memtable_bytes: 64 << 20, block_cache_bytes: 32 << 20 };

/// A byte more of the bound is never less room, and the least bound for some data is the one at which it just fits.
#[test]
fn the_bound_for_some_data_is_the_least_that_it_fits_into() {
    let room = |bound: u64| bound - machinery_bytes(bound, &MAX);
    for near in [0, 100 << 10, 11 << 20, 92 << 20, 100 << 20, 1 << 30, 2 << 30, 1 << 40] {
        for bound in near..near + 200 {
            assert!(room(bound) <= room(bound + 1) && room(bound + 1) <= room(bound) + 1);
            let least = bound_for(room(bound), &MAX);
            assert!(least <= bound && room(least) == room(bound), "{bound}");
        }
        assert!(room(near) * 2 >= near, "the machinery has less than half of {near}");
    }
    assert_eq!(bound_for(0, &MAX), 0);
    assert!(machinery_bytes(1 << 40, &MAX) < 40 << 30, "most parts stop growing");
}

/// What an operator relies on when setting the bound by what is used, whatever it was before.
#[test]
fn what_is_used_moves_by_each_key_and_comes_back() {
    let (engine, _) = Engine::open(options(0), &mut |_, _| Ok(())).unwrap();
    let put = |key: &str, bytes: usize| {
        run(&engine, &Op::Put(0, key.into(), Meta::default(), vec![b'v'; bytes]));
    };
    let used = || engine.bound_for(engine.data_bytes());
    let at_first = used();
    // Each in a shard of its own: one that has had an entry may cut its few pages for larger ones.
    let mut taken = 0;
    let mut names = (0..).map(|number: u32| number.to_string()).filter(|name| {
        let shard = Engine::shard_bits(Latched::Hashes(&[engine.hash(name.as_bytes())]));
        let is_free = taken & shard == 0;
        taken |= shard;
        is_free
    });
    for bytes in [10, 100, 1000, 3000, 20_000, 100_000] {
        let (name, before) = (names.next().unwrap(), used());
        put(&name, bytes);
        let grown = (used() - before) as usize;
        assert!((bytes..2 * bytes + 100).contains(&grown), "{bytes} bytes: {grown}");
        // The same bytes again, in the same place: the memtable grows, which is nobody's data.
        put(&name, bytes);
        assert_eq!((used() - before) as usize, grown);
        run(&engine, &Op::Delete(0, name.into()));
        assert_eq!(used(), before);
    }
    // Through a bound and back.
    put("kept", 5000);
    let before = used();
    engine.set_memory_bound(before + (100 << 10));
    assert_eq!(used(), before);
    assert!(!engine.over_bound(0));
    put("more", 40_000);
    assert!(!engine.over_bound(0) && engine.over_bound(30_000), "clients count as data does");
    put("too much", 30_000);
    assert!(engine.over_bound(0));
    run(&engine, &Op::Delete(0, "more".into()));
    assert!(!engine.over_bound(0));
    run(&engine, &Op::Flush(0));
    assert_eq!(used(), at_first, "a small database leaves at once");
}

/// CONFIG SET maxmemory: memtables, the log's buffer, the caches and merges follow it, down and up.
#[test]
fn memtables_log_and_caches_follow_the_bound() {
    let storage = Arc::new(SimStorage::new());
    let log = EngineOptions { sync_policy: SyncPolicy::EverySec, ..options(0) };
    let options = EngineOptions {
        storage,
        block_cache_bytes: 8 << 20,
        log_buffer_bytes: 8 << 20,
        memtable_bytes: 32 << 20,
        ..log
    };
    let (engine, _) = Engine::open(options, &mut |_, _| Ok(())).unwrap();
    let inner = engine.inner();
    let sizes = || {
        let log = inner.write.log.load();
        let log_bytes = log.as_ref().map_or(0, |log| log.buffer_limit_bytes());
        let read_ahead = inner.versions.read_ahead_of(1) as u64;
        (
            inner.memory.shares.memtable_bytes(),
            log_bytes,
            inner.versions.cache().capacity_bytes(),
            read_ahead,
        )
    };
    let free = sizes();
    assert_eq!((free.0, free.1, free.2), (32 << 20, 8 << 20, 8 << 20));
    // Chunks of large memtables wait to be used again.
    fill(&engine, 40, 100 << 10);
    let held = engine.memory_parts().memtables;
    assert!(held >= 4 << 20, "{held}");
    let wide = inner.memory.shares.get();
    let narrow = MemoryBound { bytes: 32 << 20, memtable_bytes: 1 << 20, ..wide };
    engine.note_memory_bound(narrow);
    engine.apply_memory_bound();
    assert_eq!(sizes(), (1 << 20, 1 << 20, 512 << 10, 512 << 10));
    // The active one is beyond its size now, and the flush leaves no chunk of the large kind.
    engine.flush_now().unwrap();
    fill(&engine, 1, 100);
    assert!(engine.memory_parts().memtables <= 1 << 20, "{:?}", engine.memory_parts());
    engine.note_memory_bound(wide);
    engine.apply_memory_bound();
    assert_eq!(sizes(), free);
}

//! The figures of what answered reads.

use super::crash::small_options;
use super::harness::*;
use crate::key::Meta;
use crate::store::*;
use sexton_persistence::device::sim::SimStorage;

const KEYS: u64 = 20;

fn read_all(engine: &Engine) -> Stats {
    for number in 0..KEYS {
        assert!(get(engine, 0, &name(number)).is_some());
    }
    engine.stats()
}

fn name(number: u64) -> Vec<u8> {
    format!("key:{number:02}").into_bytes()
}

#[test]
fn reads_are_counted_where_they_are_answered() {
    let options = small_options(&SimStorage::new(), SyncPolicy::Always, false);
    let (engine, _) = Engine::open(options, &mut replay).expect("a new store");
    for number in 0..KEYS {
        run(&engine, &Op::Put(0, name(number), Meta::default(), vec![7; 40]));
    }
    let stats = read_all(&engine);
    assert_eq!((stats.dram_hits, stats.dram_misses), (KEYS, 0));

    engine.freeze(&mut engine.inner().flusher.freeze_permit.lock());
    engine.inner().memory.table_bound.set(0);
    let before = engine.stats();
    engine.keep_shards_within_bound();
    // Each read brings its key into the table, and makes room when it ends.
    let stats = read_all(&engine);
    assert_eq!(stats.dram_hits, before.dram_hits);
    assert_eq!(stats.misses_from_memtable, before.misses_from_memtable + KEYS);

    engine.flush_frozen(&mut engine.inner().flusher.flush_permit.lock()).expect("flush");
    let stats = read_all(&engine);
    assert_eq!((stats.dram_hits, stats.misses_from_level[0]), (before.dram_hits, KEYS));
    assert_eq!(stats.dram_misses, stats.misses_from_memtable + KEYS);
    engine.abandon();
}

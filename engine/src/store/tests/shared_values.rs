//! Values that are in memory once, for memtable and DRAM table.

use super::crash::small_options;
use super::harness::*;
use crate::key::Meta;
use crate::shared_value::SHARED_MIN_BYTES;
use crate::store::*;
use sexton_persistence::device::DiskStorage;
use sexton_persistence::device::sim::SimStorage;
use std::sync::Arc;

const LONG: usize = SHARED_MIN_BYTES;

fn volatile(storage: &SimStorage) -> EngineOptions {
    let options = small_options(storage, SyncPolicy::Off, false);
    EngineOptions { shares_values: true, ..options }
}

fn start(options: EngineOptions) -> Engine {
    Engine::open(options, &mut replay).expect("a new store").0
}

/// Bytes that the DRAM table and the memtables that are not flushed refer to.
fn shared(engine: &Engine) -> (usize, u64) {
    let shards = engine.inner().shards.iter();
    let superversion = engine.inner().views.superversion.load();
    let frozen = superversion.frozen.iter().map(|frozen| &frozen.memtable);
    (
        shards.map(|shard| shard.latch().table.shared_bytes()).sum(),
        frozen.chain([&superversion.active]).map(|memtable| memtable.shared_bytes()).sum(),
    )
}

#[test]
fn a_value_goes_with_the_last_of_entry_and_memtable() {
    let storage = SimStorage::new();
    let (engine, mut model) = (start(volatile(&storage)), Model::new(3));
    put(&engine, &mut model, "short", &[1; LONG - 2]);
    assert_eq!(shared(&engine), (0, 0));
    put(&engine, &mut model, "long", &[2; LONG]);
    assert_eq!(shared(&engine), (LONG, LONG as u64));
    put(&engine, &mut model, "long", &[3; 2 * LONG]);
    assert_eq!(shared(&engine), (2 * LONG, 3 * LONG as u64), "the memtable has both");
    check(&engine, &model);
    let key = key(&engine, 0, b"long");
    let mut buf = TxBuf::default();
    let mut tx = engine.begin(Latched::Hashes(&[key.hash]), &mut buf);
    let meta = Meta { flags: 1, expire_at_ms: u64::MAX / 2 };
    tx.set_meta(key, meta);
    tx.commit();
    model.0[0].get_mut(&b"long"[..]).expect("there").0 = meta;
    assert_eq!(shared(&engine).0, 2 * LONG, "a new expiry leaves it where it is");
    check(&engine, &model);
    freeze(&engine);
    check(&engine, &model);
    engine.flush_now().expect("flushed");
    assert_eq!(shared(&engine), (2 * LONG, 0));
    check(&engine, &model);
    write(&engine, &mut model, Op::Delete(0, b"long".to_vec()));
    assert_eq!(shared(&engine), (0, 0));
    check(&engine, &model);
    engine.abandon();
}

#[test]
fn a_snapshot_keeps_a_value_that_was_overwritten() {
    let storage = SimStorage::new();
    let (engine, mut model) = (start(volatile(&storage)), Model::new(3));
    put(&engine, &mut model, "key", &[1; LONG]);
    let mut scan = engine.scan(&ScanRange::default()).expect("scan");
    for round in 2..5 {
        put(&engine, &mut model, "key", &[round; LONG]);
        freeze(&engine);
    }
    engine.flush_now().expect("flushed");
    let item = scan.next().expect("the key").expect("readable");
    assert_eq!(item.value, vec![1; LONG]);
    drop(scan);
    check(&engine, &model);
    engine.abandon();
}

#[test]
fn values_are_copied_with_a_log_and_where_memory_is_bounded() {
    let storage = SimStorage::new();
    let mut model = Model::new(3);
    let with_log = EngineOptions { sync_policy: SyncPolicy::EverySec, ..volatile(&storage) };
    let bounded = EngineOptions { dram_table_bytes: 1 << 20, ..volatile(&SimStorage::new()) };
    let without = EngineOptions { shares_values: false, ..volatile(&SimStorage::new()) };
    for options in [with_log, bounded, without] {
        let engine = start(options);
        put(&engine, &mut model, "key", &[1; LONG]);
        assert_eq!(shared(&engine), (0, 0));
        check(&engine, &model);
        engine.abandon();
    }
    let engine = start(volatile(&SimStorage::new()));
    engine.set_memory_bound(1 << 30);
    put(&engine, &mut model, "key", &[1; LONG]);
    assert_eq!(shared(&engine), (0, 0));
    engine.abandon();
}

#[test]
fn a_history_of_long_values_equals_the_model() {
    let dir = TempDir::new("shared");
    let options = options(&dir, Arc::new(DiskStorage), SyncPolicy::Off);
    let options = EngineOptions { shares_values: true, ..options };
    let (engine, mut model, mut state) = (start(options), Model::new(3), 0xfeed_f00d_5ca1_ab1e);
    for step in 0..6000 {
        let op = match random_op(&mut state, 400) {
            Op::Put(db, name, meta, value) => Op::Put(db, name, meta, value.repeat(8)),
            op => op,
        };
        take_step(&engine, &mut model, &mut state, step, &op);
    }
    assert!(engine.stats().flushes > 3, "the history goes through several memtables");
    engine.close().expect("close");
}

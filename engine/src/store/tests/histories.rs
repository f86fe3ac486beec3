//! The store against a plain map: flushes, eviction, cold reads, restarts.

use super::harness::*;
use crate::key::Meta;
use crate::store::*;

fn random_history(name: &str, policy: SyncPolicy, deletes: DeleteMode, bounded: bool, seed: u64) {
    let dir = TempDir::new(name);
    let engine = open_as(&dir, policy, deletes).expect("a new store");
    let mut model = Model::new(3);
    let mut state = seed;
    for step in 0..6000 {
        if bounded {
            engine.inner().memory.table_bound.set(1 << 10);
        }
        let op = random_op(&mut state, 400);
        take_step(&engine, &mut model, &mut state, step, &op);
    }
    assert!(engine.stats().flushes > 3, "the history goes through several memtables");
    if bounded {
        assert!(engine.stats().cold_reads > 100, "{:?}", engine.stats());
    }
    engine.close().expect("close");
    if policy != SyncPolicy::Off {
        drop(engine);
        let engine = open_as(&dir, policy, deletes).expect("the same mode");
        check(&engine, &model);
        engine.close().expect("close again");
    }
}

#[test]
fn random_history_in_memory_equals_the_model() {
    let policy = SyncPolicy::EverySec;
    random_history("warm", policy, DeleteMode::Cemetery, false, 0x9e37_79b9_7f4a_7c15);
    random_history("warm", policy, DeleteMode::Tombstones, false, 0x9e37_79b9_7f4a_7c15);
}

#[test]
fn random_history_larger_than_memory_equals_the_model() {
    let policy = SyncPolicy::EverySec;
    random_history("cold", policy, DeleteMode::Cemetery, true, 0x1234_5678_9abc_def1);
    random_history("cold", policy, DeleteMode::Tombstones, true, 0x1234_5678_9abc_def1);
}

#[test]
fn random_history_without_a_log_equals_the_model() {
    random_history("off", SyncPolicy::Off, DeleteMode::Cemetery, true, 0xdead_beef_cafe_f00d);
    random_history("off", SyncPolicy::Off, DeleteMode::Tombstones, true, 0xdead_beef_cafe_f00d);
}

#[test]
fn a_store_that_was_not_closed_is_replayed_from_its_mark() {
    let dir = TempDir::new("kill");
    let mut model = Model::new(3);
    let mut state = 0x5eed_5eed_5eed_5eed;
    for round in 0..4 {
        let engine = open(&dir, SyncPolicy::Always);
        check(&engine, &model);
        for _ in 0..700 {
            let op = random_op(&mut state, 200);
            run(&engine, &op);
            model.apply(&op);
        }
        engine.kick_log();
        let log = engine.inner().write.log.load_full().expect("a log");
        log.sync_through(engine.last_seq()).expect("synced");
        assert!(engine.durable() >= engine.last_seq(), "round {round}");
        drop(log);
        engine.abandon();
    }
    check(&open(&dir, SyncPolicy::Always), &model);
}

#[test]
fn graves_are_forgotten_when_the_dead_are_gone() {
    let dir = TempDir::new("graves");
    // Without background threads, which would bury the dead between two looks.
    let storage = std::sync::Arc::new(sexton_persistence::device::DiskStorage);
    let options = options(&dir, storage, SyncPolicy::EverySec);
    let options = EngineOptions { background: false, memtable_bytes: 1 << 20, ..options };
    let engine = Engine::open(options, &mut replay).expect("a new store").0;
    for i in 0..500 {
        let name = format!("k{i}").into_bytes();
        run(&engine, &Op::Put(0, name, Meta::default(), vec![1; 50]));
    }
    engine.flush_now().expect("flush");
    for i in 0..500 {
        assert!(run(&engine, &Op::Delete(0, format!("k{i}").into_bytes())));
    }
    assert_eq!(engine.stats().graves, 500);
    engine.flush_now().expect("flush");
    assert_eq!(engine.stats().graves, 500, "the table below still holds the dead");
    for i in 0..500 {
        let name = format!("k{i}").into_bytes();
        run(&engine, &Op::Put(0, name, Meta::default(), vec![2; 50]));
    }
    engine.flush_now().expect("flush");
    assert_eq!(engine.stats().graves, 0, "closed by durable puts that no reader is below (F1)");
    assert_eq!(engine.count(0).expect("count"), 500);
}

#[test]
fn a_transaction_sees_its_own_delete_of_a_key_on_a_device() {
    let dir = TempDir::new("own-delete");
    let engine = open(&dir, SyncPolicy::EverySec);
    let put = Op::Put(0, b"k".to_vec(), Meta::default(), b"old".to_vec());
    run(&engine, &put);
    engine.flush_now().expect("flush");
    engine.close().expect("close");
    let engine = open(&dir, SyncPolicy::EverySec);
    assert!(get(&engine, 0, b"k").is_none_or(|(_, value)| value == b"old"));
    let pin = load(&engine, 0, b"k");
    let key = key(&engine, 0, b"k");
    let mut buf = TxBuf::default();
    let mut tx = engine.begin(Latched::Hashes(&[key.hash]), &mut buf);
    assert!(tx.delete(key));
    assert!(matches!(tx.find(key), Found::Absent), "its grave opens with the commit");
    assert!(!tx.delete(key));
    tx.put(key, Meta::default(), b"new");
    assert!(tx.delete(key));
    tx.put(key, Meta::default(), b"newer");
    tx.log(0, &Op::Delete(0, b"k".to_vec()).encode());
    assert_eq!(tx.commit().operations, 4);
    drop(pin);
    assert_eq!(get(&engine, 0, b"k"), Some((Meta::default(), b"newer".to_vec())));
    assert_eq!(engine.count(0).expect("count"), 1);
    engine.abandon();
}

#[test]
fn a_scan_sees_one_instant() {
    let dir = TempDir::new("scan");
    let engine = open(&dir, SyncPolicy::EverySec);
    let mut model = Model::new(3);
    for i in 0..300 {
        let op = Op::Put(0, format!("k{i:04}").into_bytes(), Meta::default(), vec![1]);
        run(&engine, &op);
        model.apply(&op);
    }
    let range = ScanRange::default();
    let mut scan = engine.scan(&range).expect("scan");
    let first = scan.next().expect("an item").expect("readable");
    assert_eq!(first.key, b"k0000");
    for i in 0..300 {
        let name = format!("k{i:04}").into_bytes();
        let op = if i % 2 == 0 {
            Op::Delete(0, name)
        } else {
            Op::Put(0, name, Meta::default(), vec![2])
        };
        run(&engine, &op);
        if i % 100 == 0 {
            engine.flush_now().expect("flush");
        }
    }
    let rest: Vec<ScanItem> = scan.map(|item| item.expect("readable")).collect();
    assert_eq!(rest.len(), 299, "deletes and flushes after the start are not seen");
    assert!(rest.iter().all(|item| item.value == [1]));
}

#[test]
fn a_range_starts_and_ends_where_it_says() {
    let dir = TempDir::new("range");
    let engine = open(&dir, SyncPolicy::EverySec);
    for name in ["a", "b", "ba", "bb", "c"] {
        run(&engine, &Op::Put(1, name.into(), Meta::default(), Vec::new()));
    }
    let keys = |from: &str, after: bool, prefix: &str| -> Vec<String> {
        let range = ScanRange {
            db: 1,
            from: from.into(),
            after,
            prefix: prefix.into(),
            ..ScanRange::default()
        };
        let items = engine.scan(&range).expect("scan");
        items.map(|i| String::from_utf8(i.expect("item").key).expect("text")).collect()
    };
    assert_eq!(keys("", false, ""), ["a", "b", "ba", "bb", "c"]);
    assert_eq!(keys("b", false, ""), ["b", "ba", "bb", "c"]);
    assert_eq!(keys("b", true, ""), ["ba", "bb", "c"]);
    assert_eq!(keys("", false, "b"), ["b", "ba", "bb"]);
    assert_eq!(keys("ba", true, "b"), ["bb"]);
}

/// Draws of keys of database 0 that are not due at 1000, `times` of them.
fn drawn(engine: &Engine, times: usize) -> Vec<Vec<u8>> {
    let mut state = 0x5151_u64;
    let mut next = || random(&mut state).rotate_left(17);
    let mut draw = || engine.random_key(0, 1000, &mut next).expect("readable");
    (0..times).filter_map(|_| draw()).collect()
}

#[test]
fn random_keys_are_alive_wherever_they_lie_and_all_come_up() {
    let dir = TempDir::new("random-key");
    let engine = open(&dir, SyncPolicy::EverySec);
    assert!(drawn(&engine, 10).is_empty());
    let name = |i: usize| format!("k{i:04}").into_bytes();
    let put = |db, i, expire_at_ms| {
        let meta = Meta { flags: 0, expire_at_ms };
        run(&engine, &Op::Put(db, name(i), meta, vec![b'v'; 100]));
    };
    // Tables, sorted memtables and the active one; neighbours in the databases on both sides.
    for part in 0..3 {
        for i in 0..100 {
            put(0, 100 * part + i, 0);
            put(1, 100 * part + i, 0);
        }
        if part < 2 {
            engine.flush_now().expect("flush");
        }
    }
    for i in (0..300).filter(|i| i % 3 == 0) {
        run(&engine, &Op::Delete(0, name(i)));
    }
    for i in (0..300).filter(|i| i % 3 == 1) {
        put(0, i, if i % 2 == 0 { 1000 } else { 2000 });
    }
    let alive = |i: usize| i % 3 == 2 || (i % 3 == 1 && i % 2 == 1);
    let mut counts = std::collections::BTreeMap::new();
    for key in drawn(&engine, 15_000) {
        *counts.entry(key).or_insert(0) += 1;
    }
    let expected: Vec<Vec<u8>> = (0..300).filter(|&i| alive(i)).map(name).collect();
    assert_eq!(counts.keys().cloned().collect::<Vec<_>>(), expected);
    assert!(counts.values().all(|&times| times > 10), "100 is the mean: {counts:?}");

    // One key is left among dead and due ones.
    for i in (0..300).filter(|&i| alive(i) && i != 299) {
        run(&engine, &Op::Delete(0, name(i)));
    }
    assert_eq!(drawn(&engine, 5), vec![name(299); 5]);
    run(&engine, &Op::Delete(0, name(299)));
    assert!(drawn(&engine, 5).is_empty(), "what is left is due");
}

#[test]
fn a_scan_of_keys_only_copies_no_values() {
    let dir = TempDir::new("keys-only");
    let engine = open(&dir, SyncPolicy::EverySec);
    run(&engine, &Op::Put(0, b"k".to_vec(), Meta { flags: 3, expire_at_ms: 7 }, vec![1; 50]));
    let range = ScanRange { keys_only: true, ..ScanRange::default() };
    let items: Vec<ScanItem> =
        engine.scan(&range).expect("scan").map(|item| item.expect("item")).collect();
    let meta = Meta { flags: 3, expire_at_ms: 7 };
    assert_eq!(items, [ScanItem { key: b"k".to_vec(), meta, value: Vec::new() }]);
}

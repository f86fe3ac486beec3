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
fn small_with(deletes: DeleteMode, memtable: MemtableKind) -> Engine {
    let storage = SimStorage::new();
    let options = super::crash::small_options(&storage, SyncPolicy::EverySec, false);
    let options = EngineOptions { deletes, memtable, ..options };
    Engine::open(options, &mut replay).expect("a new store").0
}

fn small() -> Engine {
    small_with(DeleteMode::Tombstones, MemtableKind::default())
}

/// Deletes and memtables as the product has them, and as each baseline has.
const CHOICES: [(DeleteMode, MemtableKind); 4] = [
    (DeleteMode::Cemetery, MemtableKind::Hash),
    (DeleteMode::Cemetery, MemtableKind::SkipList),
    (DeleteMode::Tombstones, MemtableKind::Hash),
    (DeleteMode::Tombstones, MemtableKind::SkipList),
];

fn wait_until_idle(engine: &Engine) {
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
    wait_until_idle(&engine);
    assert_eq!(entries(&engine), (200, 0));
    (0..100).for_each(|i| assert!(delete(&engine, i)));
    engine.flush_now().expect("flush");
    assert_eq!(entries(&engine), (300, 100));
    wait_until_idle(&engine);
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
    wait_until_idle(&engine);
    assert_eq!(entries(&engine), (40, 20));
    let items: Vec<ScanItem> = before.map(|item| item.expect("readable")).collect();
    assert_eq!(items.len(), 20);
    wait_until_idle(&engine);
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
    wait_until_idle(&engine);
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

#[test]
fn deletes_are_kept_as_the_options_say() {
    for (deletes, memtable) in CHOICES {
        let engine = small_with(deletes, memtable);
        let inner = engine.inner();
        let unsorted = || -> usize {
            inner.shards.iter().map(|shard| shard.latch().unsorted_dead.bytes()).sum()
        };
        let has_cemetery = deletes == DeleteMode::Cemetery;
        assert_eq!(engine.takes_pages(), has_cemetery);
        (0..8).for_each(|i| put(&engine, i));
        engine.flush_now().expect("flush");
        assert!((0..8).all(|i| delete(&engine, i)));
        assert_eq!(engine.stats().graves, if has_cemetery { 8 } else { 0 });
        assert_eq!(unsorted() > 0, !has_cemetery, "{deletes} with {memtable:?}");
        engine.flush_now().expect("flush");
        assert_eq!(unsorted(), 0, "what is sorted answers for itself");
        assert_eq!(entries(&engine), if has_cemetery { (8, 0) } else { (16, 8) });
        wait_until_idle(&engine);
        assert_eq!(entries(&engine), (0, 0), "{deletes} with {memtable:?}");
        engine.abandon();
    }
}

#[test]
fn records_are_ordered_as_the_options_say() {
    for (deletes, memtable) in CHOICES {
        let engine = small_with(deletes, memtable);
        let inner = engine.inner();
        let is_linked = memtable == MemtableKind::SkipList;
        let head = crate::store::namespace::head(inner.namespaces.id_of(engine.slot_of(0)));
        let is_in_list = |name: &[u8]| {
            let active = &inner.views.superversion.load().active;
            assert_eq!(active.is_linked(), is_linked);
            active.get(&[&head[..], name].concat(), u64::MAX).is_some()
        };
        let hits = || -> u64 { inner.shards.iter().map(|shard| shard.latch().reads.hits).sum() };
        // The second round goes to a memtable that a freeze has made.
        for _ in 0..2 {
            engine.put(0, b"staged", b"1").expect("a put");
            let hash = engine.hash(b"alone");
            let key = crate::key::Key { slot: engine.slot_of(0), bytes: b"alone", hash };
            let mut buf = TxBuf::default();
            let tx = engine.begin(Latched::Hashes(&[hash]), &mut buf);
            tx.commit_put(key, Meta::default(), b"2", None, (0, b"P"));
            for (name, value) in [(&b"staged"[..], b"1"), (b"alone", b"2")] {
                assert_eq!(is_in_list(name), is_linked, "{deletes} with {memtable:?}");
                let before = hits();
                let found = engine.get(0, name).expect("readable");
                assert_eq!(found.as_deref(), Some(&value[..]));
                assert_eq!(hits() - before, u64::from(!is_linked), "by the DRAM table, or not");
            }
            let present = inner.views.epoch();
            let never = crate::shared_value::Epoch::NEVER;
            assert!(inner.order.epoch(present) == if is_linked { never } else { present });
            engine.flush_now().expect("flush");
        }
        engine.abandon();
    }
}

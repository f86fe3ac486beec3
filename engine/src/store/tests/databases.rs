//! A store that is opened with fewer databases, or more, than before; and ids of databases that were emptied.

use super::crash::small_options;
use super::harness::*;
use crate::key::{Key, Meta, OWN_RECORDS};
use crate::store::*;
use sexton_persistence::device::sim::SimStorage;

fn start(storage: &SimStorage, databases: usize) -> Result<Engine, EngineError> {
    let options = EngineOptions { databases, ..small_options(storage, SyncPolicy::Always, false) };
    Engine::open(options, &mut replay).map(|(engine, _)| engine)
}

fn put(engine: &Engine, db: usize, key: &str) {
    run(engine, &Op::Put(db, key.into(), Meta::default(), b"value".to_vec()));
}

/// Regression: with fewer databases the manifest forgot the others, and with as many as before they were what they
/// had been at first: flushed keys came back, and swapped ones were in the wrong database.
#[test]
fn what_was_emptied_or_swapped_behind_the_last_database_does_not_come_back() {
    let storage = SimStorage::new();
    let engine = start(&storage, 8).expect("opens");
    put(&engine, 5, "flushed");
    put(&engine, 6, "swapped");
    engine.flush_now().expect("flush");
    assert!(run(&engine, &Op::Flush(5)));
    assert!(run(&engine, &Op::Swap(1, 6)));
    engine.close().expect("closes");
    for databases in [8, 3, 2, 5, 8] {
        let engine = start(&storage, databases).expect("opens");
        put(&engine, 0, &format!("with {databases}"));
        engine.flush_now().expect("flush");
        assert!(get(&engine, 1, b"swapped").is_some(), "{databases} databases");
        for db in 2..databases {
            assert_eq!(engine.count(db).expect("count"), 0, "{databases} databases");
            for key in [&b"flushed"[..], b"swapped"] {
                assert_eq!(get(&engine, db, key), None, "{databases} databases");
            }
        }
        engine.close().expect("closes");
    }
}

#[test]
fn fewer_databases_than_have_keys_are_refused() {
    let storage = SimStorage::new();
    let engine = start(&storage, 8).expect("opens");
    put(&engine, 5, "key");
    engine.close().expect("closes");
    let error = start(&storage, 5).map(drop).expect_err("database 5 has a key").to_string();
    assert!(error.contains("database 5") && error.contains("databases 6 or more"), "{error}");
    let engine = start(&storage, 6).expect("opens");
    assert!(get(&engine, 5, b"key").is_some());
    assert!(run(&engine, &Op::Flush(5)));
    engine.close().expect("closes");
    start(&storage, 5).expect("it is empty").abandon();
}

/// Regression: each id that had died stayed in memory, and in each edit of the manifest, until a merge.
#[test]
fn ids_that_no_file_holds_are_forgotten_with_the_memtable_they_died_in() {
    let storage = SimStorage::new();
    let engine = start(&storage, 3).expect("opens");
    put(&engine, 1, "stays");
    put(&engine, 0, "in a table");
    engine.flush_now().expect("flush");
    for _ in 0..500 {
        assert!(run(&engine, &Op::Flush(0)));
        put(&engine, 0, "in a memtable");
    }
    let dead = || engine.inner().graveyard.dead.lock().len();
    assert_eq!(dead(), 500);
    engine.flush_now().expect("flush");
    let named = || engine.inner().versions.recovered_mark().expect("a mark").dead;
    assert_eq!((dead(), named().len()), (1, 1), "the one whose keys lie in a table");
    assert!(
        get(&engine, 0, b"in a table").is_none() && get(&engine, 0, b"in a memtable").is_some()
    );
    engine.close().expect("closes");
    let engine = start(&storage, 3).expect("opens");
    assert_eq!(engine.count(0).expect("count"), 1);
    assert!(get(&engine, 0, b"in a table").is_none() && get(&engine, 1, b"stays").is_some());
    engine.abandon();
}

/// What a reader from before needs of them is in a file still: they stay as long.
#[test]
fn ids_that_a_reader_still_needs_are_not_forgotten() {
    let storage = SimStorage::new();
    let engine = start(&storage, 3).expect("opens");
    put(&engine, 0, "key");
    let before = engine.snapshot(SnapshotOptions::default()).expect("opened");
    assert!(run(&engine, &Op::Flush(0)));
    engine.flush_now().expect("flush");
    assert_eq!(engine.inner().versions.recovered_mark().expect("a mark").dead.len(), 1);
    assert!(before.get(0, b"key").expect("read").is_some());
    drop(before);
    engine.close().expect("closes");
    let engine = start(&storage, 3).expect("opens");
    assert_eq!((get(&engine, 0, b"key"), engine.count(0).expect("count")), (None, 0));
    engine.abandon();
}

#[test]
fn a_database_is_empty_when_its_last_key_has_gone() {
    let storage = SimStorage::new();
    let engine = start(&storage, 3).expect("opens");
    let is_empty = |db| {
        let mut buf = TxBuf::default();
        let mut tx = engine.begin(Latched::All, &mut buf);
        let is_empty = tx.is_database_empty(db);
        tx.commit();
        is_empty
    };
    assert!(is_empty(0));
    put(&engine, 0, "key");
    assert!(!is_empty(0) && is_empty(1));
    engine.flush_now().expect("flush");
    // An overwrite that nobody has looked up counts as another key.
    put(&engine, 0, "key");
    assert!(!is_empty(0));
    assert!(run(&engine, &Op::Swap(0, 2)));
    assert!(is_empty(0) && !is_empty(2));
    assert!(run(&engine, &Op::Delete(2, b"key".to_vec())));
    engine.count(2).expect("settled");
    assert!(is_empty(2));
    engine.abandon();
}

/// Records of the layer above are in no database: none of what is done to databases reaches them.
#[test]
fn own_records_are_beside_all_databases() {
    let storage = SimStorage::new();
    let engine = start(&storage, 3).expect("opens");
    let put_own = |engine: &Engine, name: &[u8], value: &[u8]| {
        let (mut buf, hash) = (TxBuf::default(), engine.hash(name));
        let mut tx = engine.begin(Latched::Hashes(&[hash]), &mut buf);
        let key = Key { slot: engine.slot_of(OWN_RECORDS), bytes: name, hash };
        tx.put(key, Meta::default(), value);
        tx.commit();
    };
    let own = |engine: &Engine| {
        let mut iter = engine.iter(&IterOptions { db: OWN_RECORDS, ..IterOptions::default() });
        iter.seek_to_first().expect("read");
        let mut found = Vec::new();
        while iter.valid() {
            found.push((iter.key().to_vec(), iter.value().to_vec()));
            iter.next().expect("read");
        }
        found
    };
    put(&engine, 0, "key");
    put_own(&engine, b"a", b"old");
    let before = engine.snapshot(SnapshotOptions::default()).expect("opened");
    put_own(&engine, b"a", b"new");
    put_own(&engine, b"b", b"other");
    engine.flush_now().expect("flush");
    for db in 0..3 {
        assert!(run(&engine, &Op::Flush(db)));
    }
    assert!(run(&engine, &Op::Swap(0, 1)));
    for round in 0..3 {
        put(&engine, 0, &format!("more {round}"));
        put_own(&engine, b"a", b"newest");
        engine.flush_now().expect("flush");
    }
    let found = before.get(OWN_RECORDS, b"a").expect("read").expect("it was there");
    assert_eq!(found.value, b"old");
    drop(before);
    assert_eq!((0..3).map(|db| engine.count(db).expect("count")).sum::<u64>(), 3);
    let expected = [(b"a".to_vec(), b"newest".to_vec()), (b"b".to_vec(), b"other".to_vec())];
    assert_eq!(own(&engine), expected);
    assert!(
        engine.sample(7, 100, false).iter().all(|candidate| candidate.db < 3),
        "none is evicted"
    );
    engine.close().expect("closes");
    // As many databases as their ids might be mistaken for.
    let engine = start(&storage, 128).expect("opens");
    assert_eq!(own(&engine), expected);
    let (mut buf, hash) = (TxBuf::default(), engine.hash(b"a"));
    let mut tx = engine.begin(Latched::Hashes(&[hash]), &mut buf);
    let key = Key { slot: engine.slot_of(OWN_RECORDS), bytes: b"a", hash };
    assert!(tx.bring_in(key).expect("read") && tx.delete(key));
    tx.commit();
    engine.flush_now().expect("flush");
    engine.close().expect("closes");
    let engine = start(&storage, 128).expect("opens");
    assert_eq!(own(&engine), expected[1..]);
    engine.abandon();
}

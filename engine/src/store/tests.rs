//! The store against a plain map: flushes, eviction, cold reads, restarts, crashes.

use super::*;
use crate::key::{Key, Meta};
use sexton_persistence::device::{DiskStorage, Storage};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

/// A directory that goes with the test.
pub(super) struct TempDir(pub(super) PathBuf);

impl TempDir {
    pub(super) fn new(name: &str) -> Self {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let dir = format!("sexton-store-{name}-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(dir);
        std::fs::create_dir_all(&path).expect("temporary directory");
        Self(path)
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What the tests write into the log instead of commands.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Op {
    Put(usize, Vec<u8>, Meta, Vec<u8>),
    Delete(usize, Vec<u8>),
    Flush(usize),
    Swap(usize, usize),
}

fn field(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

impl Op {
    /// In the log every database number is spelled out, so that SELECT can be skipped.
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Put(db, key, meta, value) => {
                out.extend_from_slice(&[b'P', *db as u8, meta.flags]);
                out.extend_from_slice(&meta.expire_at_ms.to_le_bytes());
                field(&mut out, key);
                field(&mut out, value);
            }
            Self::Delete(db, key) => {
                out.extend_from_slice(&[b'D', *db as u8]);
                field(&mut out, key);
            }
            Self::Flush(db) => out.extend_from_slice(&[b'F', *db as u8]),
            Self::Swap(a, b) => out.extend_from_slice(&[b'S', *a as u8, *b as u8]),
        }
        out
    }

    fn decode_all(mut bytes: &[u8]) -> Result<Vec<Self>, String> {
        fn take<'a>(bytes: &mut &'a [u8], len: usize) -> Result<&'a [u8], String> {
            let (head, rest) = bytes.split_at_checked(len).ok_or("short operation")?;
            *bytes = rest;
            Ok(head)
        }
        fn field<'a>(bytes: &mut &'a [u8]) -> Result<&'a [u8], String> {
            let len = take(bytes, 4)?;
            take(bytes, u32::from_le_bytes(len.try_into().expect("4 bytes")) as usize)
        }
        let mut ops = Vec::new();
        while !bytes.is_empty() {
            match take(&mut bytes, 1)?[0] {
                b'*' => {
                    let select = b"*2\r\n$6\r\nSELECT\r\n";
                    bytes = bytes.strip_prefix(&select[1..]).ok_or("not a SELECT")?;
                    for _ in 0..2 {
                        let end = bytes.iter().position(|&b| b == b'\n').ok_or("no line end")?;
                        bytes = &bytes[end + 1..];
                    }
                }
                b'P' => {
                    let head = take(&mut bytes, 10)?;
                    let expire_at_ms = u64::from_le_bytes(head[2..].try_into().expect("8 bytes"));
                    let meta = Meta { flags: head[1], expire_at_ms };
                    let key = field(&mut bytes)?.to_vec();
                    ops.push(Self::Put(head[0].into(), key, meta, field(&mut bytes)?.to_vec()));
                }
                b'D' => {
                    let db = take(&mut bytes, 1)?[0].into();
                    ops.push(Self::Delete(db, field(&mut bytes)?.to_vec()));
                }
                b'F' => ops.push(Self::Flush(take(&mut bytes, 1)?[0].into())),
                b'S' => {
                    let dbs = take(&mut bytes, 2)?;
                    ops.push(Self::Swap(dbs[0].into(), dbs[1].into()));
                }
                other => return Err(format!("unknown operation {other}")),
            }
        }
        Ok(ops)
    }
}

/// The plain record of what should be there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Model(Vec<BTreeMap<Vec<u8>, (Meta, Vec<u8>)>>);

impl Model {
    fn new(databases: usize) -> Self {
        Self(vec![BTreeMap::new(); databases])
    }

    fn apply(&mut self, op: &Op) {
        match op {
            Op::Put(db, key, meta, value) => {
                self.0[*db].insert(key.clone(), (*meta, value.clone()));
            }
            Op::Delete(db, key) => {
                self.0[*db].remove(key);
            }
            Op::Flush(db) => self.0[*db].clear(),
            Op::Swap(a, b) => self.0.swap(*a, *b),
        }
    }
}

fn key<'k>(engine: &Engine, db: usize, bytes: &'k [u8]) -> Key<'k> {
    Key { slot: engine.slot_of(db), bytes, hash: engine.hash(bytes) }
}

/// Waits until a cold key is in memory, and keeps it there.
fn load(engine: &Engine, db: usize, bytes: &[u8]) -> LoadPin {
    let key = key(engine, db, bytes);
    let owned = OwnedKey { slot: key.slot, bytes: bytes.to_vec(), hash: key.hash };
    let (tell, told) = mpsc::channel();
    engine.load(vec![owned], move |result| {
        let _ = tell.send(result);
    });
    told.recv().expect("an answer").expect("a readable device")
}

fn get(engine: &Engine, db: usize, bytes: &[u8]) -> Option<(Meta, Vec<u8>)> {
    let mut pin = None;
    loop {
        let mut buf = TxBuf::default();
        let key = key(engine, db, bytes);
        let mut tx = engine.begin(Latched::Hashes(&[key.hash]), &mut buf);
        let found = match tx.find(key) {
            Found::Live(entry) => Some((entry.meta(), entry.value().to_vec())),
            Found::Absent => None,
            Found::Cold => {
                drop(tx);
                assert!(pin.is_none(), "a pinned key is not cold");
                pin = Some(load(engine, db, bytes));
                continue;
            }
        };
        return found;
    }
}

/// Runs one operation; answers whether it did anything.
fn run(engine: &Engine, op: &Op) -> bool {
    let mut buf = TxBuf::default();
    while engine.must_wait() {
        std::thread::yield_now();
    }
    match op {
        Op::Put(db, bytes, meta, value) => {
            let key = key(engine, *db, bytes);
            let mut tx = engine.begin(Latched::Hashes(&[key.hash]), &mut buf);
            tx.put(key, *meta, value);
            tx.log(*db, &op.encode());
            assert_eq!(tx.commit().operations, 1);
            true
        }
        Op::Delete(db, bytes) => {
            let _pin = get(engine, *db, bytes).map(|_| load(engine, *db, bytes));
            let key = key(engine, *db, bytes);
            let mut tx = engine.begin(Latched::Hashes(&[key.hash]), &mut buf);
            let was = tx.delete(key);
            if was {
                tx.log(*db, &op.encode());
            }
            tx.commit();
            was
        }
        Op::Flush(_) | Op::Swap(..) => {
            let mut tx = engine.begin(Latched::All, &mut buf);
            let db = match *op {
                Op::Flush(db) => {
                    assert!(tx.flush_database(db), "a slot is free");
                    db
                }
                Op::Swap(a, b) => {
                    tx.swap_databases(a, b);
                    a
                }
                _ => unreachable!("outer match"),
            };
            tx.log(db, &op.encode());
            tx.commit();
            true
        }
    }
}

fn replay(engine: &Engine, group: ReplayGroup<'_>) -> Result<(), String> {
    for op in Op::decode_all(group.commands)? {
        run(engine, &op);
    }
    Ok(())
}

fn options(dir: &Path, storage: Arc<dyn Storage>, policy: SyncPolicy) -> EngineOptions {
    EngineOptions {
        sync_policy: policy,
        databases: 3,
        memtable_bytes: 16 << 10,
        block_cache_bytes: 64 << 10,
        ..EngineOptions::new(storage, dir.to_path_buf())
    }
}

fn open(dir: &Path, policy: SyncPolicy) -> Engine {
    let storage = Arc::new(DiskStorage);
    let (engine, _) =
        Engine::open(options(dir, storage, policy), &mut replay).expect("a store that opens");
    engine
}

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn random_op(state: &mut u64, keys: u64) -> Op {
    let db = (random(state) % 3) as usize;
    let name = format!("key:{:05}", random(state) % keys).into_bytes();
    match random(state) % 1000 {
        0 => Op::Flush(db),
        1 => Op::Swap(db, (random(state) % 3) as usize),
        2..300 => Op::Delete(db, name),
        roll => {
            let expire_at_ms = if roll % 5 == 0 { u64::MAX / 2 + roll } else { 0 };
            let meta = Meta { flags: (roll % 32) as u8, expire_at_ms };
            Op::Put(db, name, meta, vec![roll as u8; (random(state) % 200) as usize])
        }
    }
}

fn check(engine: &Engine, model: &Model) {
    for (db, expected) in model.0.iter().enumerate() {
        let range = ScanRange { db, ..ScanRange::default() };
        let scanned: Vec<ScanItem> =
            engine.scan(&range).expect("scan").map(|item| item.expect("item")).collect();
        let found: BTreeMap<_, _> = scanned
            .iter()
            .map(|item| (item.key.clone(), (item.meta, item.value.clone())))
            .collect();
        assert!(scanned.is_sorted_by(|a, b| a.key < b.key), "in key order, no key twice");
        let differs = |key: &&Vec<u8>| found.get(*key) != expected.get(*key);
        if let Some(key) = found.keys().chain(expected.keys()).find(differs) {
            let brief = |entry: Option<&(Meta, Vec<u8>)>| entry.map(|e| (e.0, e.1.len()));
            panic!(
                "database {db}, {}: {:?}, expected {:?}",
                String::from_utf8_lossy(key),
                brief(found.get(key)),
                brief(expected.get(key))
            );
        }
        assert_eq!(engine.count(db).expect("count"), expected.len() as u64, "database {db}");
        let expires = expected.values().filter(|(meta, _)| meta.expire_at_ms != 0).count() as u64;
        assert_eq!(engine.count_provisional(db), (expected.len() as u64, expires, 0));
    }
}

fn random_history(name: &str, policy: SyncPolicy, bounded: bool, seed: u64) {
    let dir = TempDir::new(name);
    let engine = open(&dir.0, policy);
    let mut model = Model::new(3);
    let mut state = seed;
    for step in 0..6000 {
        if bounded {
            engine.inner().shard_bound_bytes.store(1 << 10, Ordering::Relaxed);
        }
        let op = random_op(&mut state, 400);
        let did = run(&engine, &op);
        if let Op::Delete(db, name) = &op {
            assert_eq!(did, model.0[*db].contains_key(name), "answer of DEL at step {step}");
        }
        model.apply(&op);
        let (db, name) = ((random(&mut state) % 3) as usize, random(&mut state) % 400);
        let name = format!("key:{name:05}").into_bytes();
        let found = get(&engine, db, &name);
        assert!(found.as_ref() == model.0[db].get(&name), "step {step}: {name:?} {found:?}");
        if step % 1500 == 1499 {
            check(&engine, &model);
        }
    }
    assert!(engine.stats().flushes > 3, "the history goes through several memtables");
    if bounded {
        assert!(engine.stats().cold_reads > 100, "{:?}", engine.stats());
    }
    engine.close().expect("close");
    if policy != SyncPolicy::Off {
        drop(engine);
        let engine = open(&dir.0, policy);
        check(&engine, &model);
        engine.close().expect("close again");
    }
}

#[test]
fn random_history_in_memory_equals_the_model() {
    random_history("warm", SyncPolicy::EverySec, false, 0x9e37_79b9_7f4a_7c15);
}

#[test]
fn random_history_larger_than_memory_equals_the_model() {
    random_history("cold", SyncPolicy::EverySec, true, 0x1234_5678_9abc_def1);
}

#[test]
fn random_history_without_a_log_equals_the_model() {
    random_history("off", SyncPolicy::Off, true, 0xdead_beef_cafe_f00d);
}

#[test]
fn a_store_that_was_not_closed_is_replayed_from_its_mark() {
    let dir = TempDir::new("kill");
    let mut model = Model::new(3);
    let mut state = 0x5eed_5eed_5eed_5eed;
    for round in 0..4 {
        let engine = open(&dir.0, SyncPolicy::Always);
        check(&engine, &model);
        for _ in 0..700 {
            let op = random_op(&mut state, 200);
            run(&engine, &op);
            model.apply(&op);
        }
        engine.kick_log();
        let log = engine.inner().log.load_full().expect("a log");
        log.sync_through(engine.last_seq()).expect("synced");
        assert!(engine.durable() >= engine.last_seq(), "round {round}");
        drop(log);
        engine.abandon();
    }
    check(&open(&dir.0, SyncPolicy::Always), &model);
}

#[test]
fn graves_are_forgotten_when_the_dead_are_gone() {
    let dir = TempDir::new("graves");
    let engine = open(&dir.0, SyncPolicy::EverySec);
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
    let engine = open(&dir.0, SyncPolicy::EverySec);
    let put = Op::Put(0, b"k".to_vec(), Meta::default(), b"old".to_vec());
    run(&engine, &put);
    engine.flush_now().expect("flush");
    engine.close().expect("close");
    let engine = open(&dir.0, SyncPolicy::EverySec);
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
    let engine = open(&dir.0, SyncPolicy::EverySec);
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
    let engine = open(&dir.0, SyncPolicy::EverySec);
    for name in ["a", "b", "ba", "bb", "c"] {
        run(&engine, &Op::Put(1, name.into(), Meta::default(), Vec::new()));
    }
    let keys = |from: &str, after: bool, prefix: &str| -> Vec<String> {
        let range = ScanRange { db: 1, from: from.into(), after, prefix: prefix.into() };
        let items = engine.scan(&range).expect("scan");
        items.map(|i| String::from_utf8(i.expect("item").key).expect("text")).collect()
    };
    assert_eq!(keys("", false, ""), ["a", "b", "ba", "bb", "c"]);
    assert_eq!(keys("b", false, ""), ["b", "ba", "bb", "c"]);
    assert_eq!(keys("b", true, ""), ["ba", "bb", "c"]);
    assert_eq!(keys("", false, "b"), ["b", "ba", "bb"]);
    assert_eq!(keys("ba", true, "b"), ["bb"]);
}

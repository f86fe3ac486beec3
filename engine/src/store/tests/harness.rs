//! What the tests of the store share: a log of test operations, a model, and ways to run both.

use crate::key::{Key, Meta, Seq};
use crate::store::read::view::ReaderGraves;
use crate::store::*;
use crate::table::TableResult;
use crate::tree::Graves;
pub(super) use sexton_persistence::device::TempDir;
use sexton_persistence::device::{DiskStorage, Storage};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc;

/// What the tests write into the log instead of commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Put(usize, Vec<u8>, Meta, Vec<u8>),
    Delete(usize, Vec<u8>),
    /// Reads, changes and writes: replayed on another state it would bring another value (N1).
    Append(usize, Vec<u8>, u8),
    Flush(usize),
    Swap(usize, usize),
}

fn field(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

impl Op {
    fn database(&self) -> usize {
        match self {
            Self::Put(db, ..) | Self::Delete(db, _) | Self::Append(db, ..) => *db,
            Self::Flush(db) | Self::Swap(db, _) => *db,
        }
    }

    /// In the log every database number is spelled out, so that SELECT can be skipped.
    pub(super) fn encode(&self) -> Vec<u8> {
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
            Self::Append(db, key, byte) => {
                out.extend_from_slice(&[b'A', *db as u8, *byte]);
                field(&mut out, key);
            }
            Self::Flush(db) => out.extend_from_slice(&[b'F', *db as u8]),
            Self::Swap(a, b) => out.extend_from_slice(&[b'S', *a as u8, *b as u8]),
        }
        out
    }

    pub(super) fn decode_all(mut bytes: &[u8]) -> Result<Vec<Self>, String> {
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
                b'A' => {
                    let head = take(&mut bytes, 2)?;
                    ops.push(Self::Append(head[0].into(), field(&mut bytes)?.to_vec(), head[1]));
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

/// What one database should hold.
pub(super) type Database = BTreeMap<Vec<u8>, (Meta, Vec<u8>)>;

/// The plain record of what should be there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Model(pub(super) Vec<Database>);

impl Model {
    pub(super) fn new(databases: usize) -> Self {
        Self(vec![BTreeMap::new(); databases])
    }

    pub(super) fn apply(&mut self, op: &Op) {
        match op {
            Op::Put(db, key, meta, value) => {
                self.0[*db].insert(key.clone(), (*meta, value.clone()));
            }
            Op::Delete(db, key) => {
                self.0[*db].remove(key);
            }
            Op::Append(db, key, byte) => {
                self.0[*db].entry(key.clone()).or_default().1.push(*byte);
            }
            Op::Flush(db) => self.0[*db].clear(),
            Op::Swap(a, b) => self.0.swap(*a, *b),
        }
    }
}

pub(super) fn key<'k>(engine: &Engine, db: usize, bytes: &'k [u8]) -> Key<'k> {
    Key { slot: engine.slot_of(db), bytes, hash: engine.hash(bytes) }
}

/// Waits until a cold key is in memory, and keeps it there.
pub(super) fn load(engine: &Engine, db: usize, bytes: &[u8]) -> LoadPin {
    try_load(engine, db, bytes).expect("a readable device")
}

fn try_load(engine: &Engine, db: usize, bytes: &[u8]) -> Result<LoadPin, EngineError> {
    let key = key(engine, db, bytes);
    let owned = OwnedKey { slot: key.slot, bytes: bytes.to_vec(), hash: key.hash };
    let (tell, told) = mpsc::channel();
    engine.load(vec![owned], u64::MAX, move |result| {
        let _ = tell.send(result);
    });
    told.recv().expect("an answer")
}

/// Flags, expiry and value of a key.
pub(super) type Value = (Meta, Vec<u8>);

pub(super) fn get(engine: &Engine, db: usize, bytes: &[u8]) -> Option<Value> {
    try_get(engine, db, bytes).expect("a readable device")
}

pub(super) fn try_get(
    engine: &Engine,
    db: usize,
    bytes: &[u8],
) -> Result<Option<Value>, EngineError> {
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
                pin = Some(try_load(engine, db, bytes)?);
                continue;
            }
        };
        return Ok(found);
    }
}

/// Runs one operation, once the store lets writers go on; answers whether it did anything.
pub(super) fn run(engine: &Engine, op: &Op) -> bool {
    while engine.must_wait() {
        // What is waited for may be the log, of whose commits nobody has told it.
        engine.kick_log();
        std::thread::yield_now();
    }
    run_group(engine, std::slice::from_ref(op)).expect("a readable device").operations > 0
}

/// Runs operations as one transaction, whatever the store says of writers. An emptied or swapped
/// database must not be read from afterwards.
pub(super) fn run_group(engine: &Engine, ops: &[Op]) -> Result<Commit, EngineError> {
    run_group_in(engine, ops, &mut TxBuf::default())
}

/// Like `run_group`, with the buffers, and so the writer, of one thread.
pub(super) fn run_group_in(
    engine: &Engine,
    ops: &[Op],
    buf: &mut TxBuf,
) -> Result<Commit, EngineError> {
    let mut pins = Vec::new();
    let mut hashes = Vec::new();
    for op in ops {
        match op {
            Op::Put(_, key, ..) | Op::Delete(_, key) | Op::Append(_, key, _) => {
                hashes.push(engine.hash(key));
            }
            Op::Flush(_) | Op::Swap(..) => {}
        }
    }
    let all = ops.iter().any(|op| matches!(op, Op::Flush(_) | Op::Swap(..)));
    'again: loop {
        let latched = if all { Latched::All } else { Latched::Hashes(&hashes) };
        let mut tx = engine.begin(latched, buf);
        // A single put may be its own transaction.
        if let [op @ Op::Put(db, bytes, meta, value)] = ops
            && value.len().is_multiple_of(2)
        {
            let log = (*db, &*op.encode());
            return Ok(tx.commit_put(key(engine, *db, bytes), *meta, value, None, log));
        }
        for op in ops {
            if let Op::Delete(db, bytes) | Op::Append(db, bytes, _) = op
                && matches!(tx.find(key(engine, *db, bytes)), Found::Cold)
            {
                drop(tx);
                pins.push(try_load(engine, *db, bytes)?);
                continue 'again;
            }
        }
        for op in ops {
            if run_op(&mut tx, op) {
                tx.log(op.database(), &op.encode());
            }
        }
        return Ok(tx.commit());
    }
}

fn run_op(tx: &mut Tx<'_>, op: &Op) -> bool {
    let engine = tx.engine();
    match op {
        Op::Put(db, bytes, meta, value) => tx.put(key(engine, *db, bytes), *meta, value),
        Op::Delete(db, bytes) => return tx.delete(key(engine, *db, bytes)),
        Op::Append(db, bytes, byte) => {
            let key = key(engine, *db, bytes);
            let (meta, mut value) = match tx.find(key) {
                Found::Live(entry) => (entry.meta(), entry.value().to_vec()),
                Found::Absent => Default::default(),
                Found::Cold => panic!("a pinned key is not cold"),
            };
            value.push(*byte);
            tx.put_edited(key, meta, &value);
        }
        Op::Flush(db) => assert!(tx.flush_database(*db), "a slot is free"),
        Op::Swap(a, b) => tx.swap_databases(*a, *b),
    }
    true
}

/// Runs an operation on store and model alike; its sequence.
pub(super) fn write(engine: &Engine, model: &mut Model, op: Op) -> Seq {
    let commit = run_group(engine, std::slice::from_ref(&op)).expect("memory");
    model.apply(&op);
    commit.last_seq
}

/// Like `write`, for a value in the first database.
pub(super) fn put(engine: &Engine, model: &mut Model, key: &str, value: &[u8]) -> Seq {
    write(engine, model, Op::Put(0, key.into(), Meta::default(), value.into()))
}

/// Freezes the active memtable, and flushes nothing.
pub(super) fn freeze(engine: &Engine) {
    engine.freeze(&mut engine.inner().flusher.freeze_permit.lock());
}

pub(super) fn replay(engine: &Engine, group: ReplayGroup<'_>) -> Result<(), String> {
    for op in Op::decode_all(group.commands)? {
        run_group(engine, &[op]).map_err(|error| error.to_string())?;
    }
    Ok(())
}

pub(super) fn options(dir: &Path, storage: Arc<dyn Storage>, policy: SyncPolicy) -> EngineOptions {
    EngineOptions {
        sync_policy: policy,
        databases: 3,
        memtable_bytes: 16 << 10,
        block_cache_bytes: 64 << 10,
        ..EngineOptions::new(storage, dir.to_path_buf())
    }
}

pub(super) fn open(dir: &Path, policy: SyncPolicy) -> Engine {
    open_as(dir, policy, DeleteMode::Cemetery).expect("a store that opens")
}

pub(super) fn open_as(
    dir: &Path,
    policy: SyncPolicy,
    deletes: DeleteMode,
) -> Result<Engine, EngineError> {
    let options = options(dir, Arc::new(DiskStorage), policy);
    Engine::open(EngineOptions { deletes, ..options }, &mut replay).map(|(engine, _)| engine)
}

pub(super) fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

pub(super) fn random_op(state: &mut u64, keys: u64) -> Op {
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

/// One step of a random history of 400 keys: the operation, on store and model, a look at some key, and now and then at all.
pub(super) fn take_step(engine: &Engine, model: &mut Model, state: &mut u64, step: usize, op: &Op) {
    let did = run(engine, op);
    if let Op::Delete(db, name) = op {
        assert_eq!(did, model.0[*db].contains_key(name), "answer of DEL at step {step}");
    }
    model.apply(op);
    let (db, name) = ((random(state) % 3) as usize, random(state) % 400);
    let name = format!("key:{name:05}").into_bytes();
    let found = get(engine, db, &name);
    assert!(found.as_ref() == model.0[db].get(&name), "step {step}: {name:?} {found:?}");
    if step % 1500 == 1499 {
        check(engine, model);
    }
}

pub(super) fn check(engine: &Engine, model: &Model) {
    if let Err(difference) = compare(engine, model) {
        panic!("{difference}");
    }
}

/// What differs between store and model, or what could not be read.
pub(super) fn compare(engine: &Engine, model: &Model) -> Result<(), Difference> {
    for (db, expected) in model.0.iter().enumerate() {
        let range = ScanRange { db, ..ScanRange::default() };
        let items: Result<Vec<ScanItem>, EngineError> = engine.scan(&range)?.collect();
        let items = items?;
        if !items.is_sorted_by(|a, b| a.key < b.key) {
            return Err(Difference::Wrong(format!("database {db}: scan out of key order")));
        }
        let found: BTreeMap<Vec<u8>, Value> =
            items.into_iter().map(|item| (item.key, (item.meta, item.value))).collect();
        let brief = |entry: Option<&Value>| entry.map(|e| (e.0, e.1.len(), e.1.first().copied()));
        let differs = |key: &&Vec<u8>| found.get(*key) != expected.get(*key);
        if let Some(key) = found.keys().chain(expected.keys()).find(differs) {
            return Err(Difference::Wrong(format!(
                "database {db}, {}: {:?}, expected {:?}",
                String::from_utf8_lossy(key),
                brief(found.get(key)),
                brief(expected.get(key))
            )));
        }
        let keys = expected.len() as u64;
        let expires = expected.values().filter(|(meta, _)| meta.expire_at_ms != 0).count() as u64;
        let counted = engine.count(db)?;
        let provisional = engine.count_provisional(db);
        if counted != keys || provisional != (keys, expires, 0) {
            return Err(Difference::Wrong(format!(
                "database {db}: count {counted}, {provisional:?}, expected {keys}, {expires}"
            )));
        }
    }
    Ok(())
}

/// Why a store is not what the model says.
#[derive(Debug)]
pub(super) enum Difference {
    Wrong(String),
    Unreadable(EngineError),
}

impl From<EngineError> for Difference {
    fn from(error: EngineError) -> Self {
        Self::Unreadable(error)
    }
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Wrong(text) => f.write_str(text),
            Self::Unreadable(error) => write!(f, "unreadable: {error}"),
        }
    }
}

/// The graves of a store, and how often they were asked for.
pub(super) struct CountedGraves<'a>(ReaderGraves<'a>, Cell<u64>);

impl<'a> CountedGraves<'a> {
    pub(super) fn of(engine: &'a Engine) -> Self {
        Self(ReaderGraves::new(engine, true), Cell::new(0))
    }

    pub(super) fn asked(&self) -> u64 {
        self.1.get()
    }
}

impl Graves for CountedGraves<'_> {
    fn is_empty(&self) -> bool {
        false
    }

    fn newest_at(&self, key: &[u8], s: Seq) -> TableResult<Option<Seq>> {
        self.1.set(self.1.get() + 1);
        self.0.newest_at(key, s)
    }
}

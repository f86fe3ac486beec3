//! Snapshots and iterators against copies of the plain record, while everything goes on beneath them:
//! writes, flushes, compactions, burials, sweeps, emptied and swapped databases, eviction.

use super::crash::small_options;
use super::harness::*;
use crate::key::Meta;
use crate::store::*;
use crate::tree;
use sexton_persistence::device::Storage;
use sexton_persistence::device::sim::{CrashOptions, SimFaults, SimRandom, SimStorage};
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

const HISTORIES: u64 = 80;
const STEPS: u64 = 700;
const KEYS: u64 = 60;
const OPEN_MAX: usize = 5;

/// An iterator with what it must show: an instant of one database, within its options.
struct OpenIter {
    iter: Iter,
    expected: Vec<(Vec<u8>, Value)>,
    /// Its position; `None` before the first seek and behind either end.
    at: Option<usize>,
}

struct History {
    random: SimRandom,
    model: Model,
    snapshots: Vec<(Snapshot, Model)>,
    iters: Vec<OpenIter>,
}

fn name(number: u64) -> Vec<u8> {
    format!("key:{number:03}").into_bytes()
}

impl History {
    fn new(seed: u64) -> Self {
        let random = SimRandom::new(seed);
        Self { random, model: Model::new(3), snapshots: Vec::new(), iters: Vec::new() }
    }

    fn work(&mut self, engine: &Engine) {
        for _ in 0..STEPS {
            self.forget_expired();
            match self.random.below(100) {
                0..55 => self.write(engine),
                55..59 => engine.flush_now().expect("flush"),
                59..65 => drop(engine.compact_once().expect("compaction")),
                // As if one were too many.
                65 => drop(engine.merge_undo_runs(1).expect("a merge of undo runs")),
                66..70 => engine.sweep_graves(),
                70..71 => drop(engine.sweep_dead_namespaces()),
                71..73 => {
                    let places = engine.inner().graveyard.places.take();
                    engine.prove_dead(&places, &Default::default()).expect("no faults");
                }
                73 => {
                    let bound = if self.random.percent(60) { 0 } else { usize::MAX };
                    engine.inner().memory.table_bound.set(bound);
                }
                74..78 => self.open_snapshot(engine),
                78..84 => self.open_iter(engine),
                84..90 => self.read_snapshot(),
                90..99 => self.move_iter(),
                _ => check(engine, &self.model),
            }
        }
        self.forget_expired();
        while let Some((snapshot, model)) = self.snapshots.pop() {
            read_all(&snapshot, &model);
        }
    }

    fn write(&mut self, engine: &Engine) {
        let db = self.random.below(3) as usize;
        let key = name(self.random.below(KEYS));
        let op = match self.random.below(200) {
            0 => Op::Flush(db),
            1 => Op::Swap(db, (db + 1) % 3),
            2..70 => Op::Delete(db, key),
            70..90 => Op::Append(db, key, self.random.next_u64() as u8),
            roll => {
                let expire_at_ms = if roll % 4 == 0 { 1 + self.random.below(1000) } else { 0 };
                let meta = Meta { flags: (roll % 32) as u8, expire_at_ms };
                let len_max = if self.random.percent(10) { 1500 } else { 150 };
                let len = self.random.below(len_max) as usize;
                Op::Put(db, key, meta, vec![self.random.next_u64() as u8; len])
            }
        };
        run(engine, &op);
        self.model.apply(&op);
    }

    fn open_snapshot(&mut self, engine: &Engine) {
        if self.snapshots.len() >= OPEN_MAX {
            let at = self.random.below(OPEN_MAX as u64) as usize;
            let (snapshot, model) = self.snapshots.swap_remove(at);
            read_all(&snapshot, &model);
        }
        match engine.snapshot(SnapshotOptions::default()) {
            Ok(snapshot) => {
                assert_eq!(snapshot.seq(), engine.last_seq());
                self.snapshots.push((snapshot, self.model.clone()));
            }
            Err(EngineError::UndoFull { bytes, max_bytes: 3000 }) => assert!(bytes >= 3000),
            Err(error) => panic!("{error}"),
        }
    }

    /// Forgets what the bound of the undo runs has ended.
    fn forget_expired(&mut self) {
        self.snapshots.retain(|(snapshot, _)| match snapshot.check_open() {
            Ok(()) => true,
            Err(EngineError::SnapshotExpired { max_bytes: 3000, .. }) => false,
            Err(error) => panic!("{error}"),
        });
        self.iters.retain(|open| open.iter.check_open().is_ok());
    }

    fn iter_options(&mut self) -> IterOptions {
        let mut options =
            IterOptions { db: self.random.below(3) as usize, ..IterOptions::default() };
        match self.random.below(6) {
            0 => options.prefix = name(self.random.below(KEYS))[..6].to_vec(),
            1 => {
                options.lower = name(self.random.below(KEYS));
                options.upper = name(self.random.below(KEYS));
            }
            2 => options.hide_due_ms = self.random.below(1000),
            3 => options.keys_only = true,
            4 => options.read_ahead_bytes_max = Some(self.random.below(3) as usize * 100),
            _ => {}
        }
        options
    }

    fn open_iter(&mut self, engine: &Engine) {
        if self.iters.len() >= OPEN_MAX {
            self.iters.swap_remove(self.random.below(OPEN_MAX as u64) as usize);
        }
        let options = self.iter_options();
        let of_snapshot = !self.snapshots.is_empty() && self.random.percent(60);
        let (iter, model) = if of_snapshot {
            let at = self.random.below(self.snapshots.len() as u64) as usize;
            let (snapshot, model) = &self.snapshots[at];
            (snapshot.iter(&options).expect("an iterator"), model)
        } else {
            (engine.iter(&options), &self.model)
        };
        let upper = if options.upper.is_empty() {
            Bound::Unbounded
        } else {
            Bound::Excluded(&options.upper)
        };
        let is_empty = !options.upper.is_empty() && options.upper <= options.lower;
        let expected = if is_empty {
            Vec::new()
        } else {
            let all =
                model.0[options.db].range::<Vec<u8>, _>((Bound::Included(&options.lower), upper));
            all.filter(|(key, (meta, _))| {
                key.starts_with(&options.prefix) && !meta.is_expired(options.hide_due_ms)
            })
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
        };
        let expected = if options.keys_only {
            expected.into_iter().map(|(key, (meta, _))| (key, (meta, Vec::new()))).collect()
        } else {
            expected
        };
        self.iters.push(OpenIter { iter, expected, at: None });
    }

    fn read_snapshot(&mut self) {
        if self.snapshots.is_empty() {
            return;
        }
        let at = self.random.below(self.snapshots.len() as u64) as usize;
        let (db, key) = (self.random.below(3) as usize, name(self.random.below(KEYS)));
        let (snapshot, model) = &self.snapshots[at];
        let found = snapshot.get(db, &key).expect("readable").map(|v| (v.meta, v.value));
        assert!(found.as_ref() == model.0[db].get(&key), "{db} {key:?} at {}", snapshot.seq());
        let keys: Vec<Vec<u8>> = (0..8).map(|_| name(self.random.below(KEYS))).collect();
        let borrowed: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let found = snapshot.get_many(db, &borrowed).expect("readable");
        assert_eq!(found.len(), keys.len());
        for (key, found) in std::iter::zip(&keys, found) {
            let found = found.map(|v| (v.meta, v.value));
            assert!(found.as_ref() == model.0[db].get(key), "{db} {key:?} at {}", snapshot.seq());
        }
    }

    fn move_iter(&mut self) {
        if self.iters.is_empty() {
            return;
        }
        let at = self.random.below(self.iters.len() as u64) as usize;
        let random = &mut self.random;
        let open = &mut self.iters[at];
        for _ in 0..random.below(20) {
            open.step(random);
        }
    }
}

impl OpenIter {
    fn step(&mut self, random: &mut SimRandom) {
        let (iter, expected) = (&mut self.iter, &self.expected);
        let key = name(random.below(KEYS));
        let outcome = match random.below(if self.at.is_none() { 4 } else { 20 }) {
            0 => {
                self.at = Some(expected.partition_point(|e| e.0 < key));
                iter.seek(&key)
            }
            1 => {
                self.at = expected.partition_point(|e| e.0 <= key).checked_sub(1);
                iter.seek_for_prev(&key)
            }
            2 => {
                self.at = Some(0);
                iter.seek_to_first()
            }
            3 => {
                self.at = expected.len().checked_sub(1);
                iter.seek_to_last()
            }
            4..12 => {
                self.at = self.at.map(|at| at + 1);
                iter.next()
            }
            _ => {
                self.at = self.at.and_then(|at| at.checked_sub(1));
                iter.prev()
            }
        };
        outcome.expect("readable");
        self.at = self.at.filter(|&at| at < expected.len());
        match self.at {
            None => assert!(!iter.valid(), "stands on {:?}", iter.key()),
            Some(at) => {
                let (key, (meta, value)) = &expected[at];
                assert_eq!((iter.key(), iter.meta()), (key.as_slice(), *meta));
                assert!(value.is_empty() || iter.value() == value, "value of {key:?}");
            }
        }
    }
}

/// A snapshot shows exactly the copy that was taken with it: by key, forward and back.
fn read_all(snapshot: &Snapshot, model: &Model) {
    for (db, expected) in model.0.iter().enumerate() {
        let options = IterOptions { db, ..IterOptions::default() };
        let mut iter = snapshot.iter(&options).expect("an iterator");
        iter.seek_to_first().expect("readable");
        for (key, (meta, value)) in expected {
            assert_eq!((iter.key(), iter.meta()), (key.as_slice(), *meta));
            assert!(iter.value() == value, "value of {key:?}");
            iter.next().expect("readable");
        }
        assert!(!iter.valid());
        iter.seek_to_last().expect("readable");
        for (key, (_, value)) in expected.iter().rev() {
            assert_eq!(iter.key(), key.as_slice());
            assert!(iter.value() == value, "value of {key:?}");
            iter.prev().expect("readable");
        }
        assert!(!iter.valid());
    }
}

#[test]
fn snapshots_and_iterators_see_their_instant_whatever_goes_on() {
    for seed in 0..HISTORIES {
        let storage = SimStorage::new();
        // The baseline of the ordinary LSM-tree hides its dead in another way.
        let deletes = if seed % 4 == 3 { DeleteMode::Tombstones } else { DeleteMode::default() };
        let options = EngineOptions {
            deletes,
            // Half of them spill their graves.
            cemetery_max_bytes: if seed % 2 == 0 { 1500 } else { 0 },
            ..small_options(&storage, SyncPolicy::No, false)
        };
        let (engine, _) = Engine::open(options, &mut replay).expect("a store that opens");
        let mut history = History::new(seed);
        history.work(&engine);
        history.iters.clear();
        assert_eq!((engine.stats().pins, engine.stats().snapshots), (0, 0), "seed {seed}");
        engine.abandon();
    }
}

#[test]
fn a_crash_leaves_no_snapshot_and_loses_nothing_for_one() {
    for seed in 0..HISTORIES / 2 {
        let storage = SimStorage::new();
        let options = small_options(&storage, SyncPolicy::Always, false);
        let (engine, _) = Engine::open(options.clone(), &mut replay).expect("a store that opens");
        let mut history = History::new(seed);
        for _ in 0..20 {
            history.write(&engine);
        }
        history.open_snapshot(&engine);
        for step in 0..200 {
            history.write(&engine);
            match step % 50 {
                20 => engine.flush_now().expect("flush"),
                40 => drop(engine.compact_once().expect("compaction")),
                _ => {}
            }
        }
        engine.sync_through(engine.last_seq()).expect("synced");
        let (snapshot, model) = history.snapshots.pop().expect("it is open");
        read_all(&snapshot, &model);
        let crashed = storage.crash(seed, CrashOptions::LOSE_ALL);
        crashed.set_faults(SimFaults::default());
        drop(snapshot);
        engine.abandon();
        let options = small_options(&crashed, SyncPolicy::Always, false);
        let (engine, _) = Engine::open(options, &mut replay).expect("a store that opens");
        assert_eq!((engine.stats().pins, engine.snapshots().len()), (0, 0));
        check(&engine, &history.model);
        engine.abandon();
    }
}

#[test]
fn what_only_a_snapshot_needed_goes_after_it() {
    let storage = SimStorage::new();
    let options = small_options(&storage, SyncPolicy::No, false);
    let (engine, _) = Engine::open(options, &mut replay).expect("a store that opens");
    let mut model = Model::new(3);
    for number in 0..KEYS {
        let op = Op::Put(0, name(number), Meta::default(), vec![1; 100]);
        run(&engine, &op);
        model.apply(&op);
    }
    engine.flush_now().expect("flush");
    let snapshot = engine.snapshot(SnapshotOptions::default()).expect("a snapshot");
    for number in 0..KEYS {
        assert!(run(&engine, &Op::Delete(0, name(number))));
    }
    engine.flush_now().expect("flush");
    while engine.compact_once().expect("compaction") {}
    engine.sweep_graves();
    read_all(&snapshot, &model);
    assert_eq!(engine.stats().graves, KEYS);
    drop(snapshot);
    for _ in 0..4 {
        run(&engine, &Op::Put(1, b"other".to_vec(), Meta::default(), vec![1]));
        engine.flush_now().expect("flush");
    }
    while engine.compact_once().expect("compaction") {}
    engine.sweep_graves();
    assert_eq!(engine.stats().graves, 0, "buried and forgotten");
    engine.abandon();
}

#[test]
fn snapshots_are_listed_limited_and_ended() {
    let storage = SimStorage::new();
    let options =
        EngineOptions { snapshots_max: 2, ..small_options(&storage, SyncPolicy::No, false) };
    let (engine, _) = Engine::open(options, &mut replay).expect("a store that opens");
    run(&engine, &Op::Put(0, b"k".to_vec(), Meta::default(), b"v".to_vec()));
    let named = SnapshotOptions { name: "first".into(), ..SnapshotOptions::default() };
    let first = engine.snapshot(named).expect("a snapshot");
    let brief = SnapshotOptions { name: "second".into(), timeout_ms: 1 };
    let second = engine.snapshot(brief).expect("a snapshot");
    let mut iter = second.iter(&IterOptions::default());
    let listed: Vec<String> = engine.snapshots().into_iter().map(|info| info.name).collect();
    assert_eq!(listed, ["first", "second"]);
    let refused = engine.snapshot(SnapshotOptions::default()).expect_err("two are open");
    assert!(matches!(refused, EngineError::SnapshotRefused { open: 2, max: 2 }), "{refused}");
    // The clock of the machine decides; it need not have moved yet.
    while second.get(0, b"k").is_ok() {
        std::thread::yield_now();
    }
    let error = second.get(0, b"k").expect_err("its time is over");
    assert!(matches!(error, EngineError::SnapshotEnded { timeout_ms: 1, .. }), "{error}");
    if let Ok(iter) = &mut iter {
        assert!(iter.seek_to_first().is_err(), "its iterators end with it");
    }
    let stats = engine.stats();
    assert_eq!((stats.snapshots, stats.snapshots_refused, stats.snapshots_ended), (2, 1, 1));
    assert_eq!(first.get(0, b"k").expect("readable").expect("a value").value, b"v");
    drop((iter, second, first));
    assert_eq!((engine.stats().snapshots, engine.stats().pins), (0, 0));
    engine.abandon();
}

/// A store with a snapshot under an overwritten and half deleted data set.
fn overwritten(options: EngineOptions) -> (Engine, Snapshot, Model, Model) {
    let (engine, _) = Engine::open(options, &mut replay).expect("a store that opens");
    let mut model = Model::new(3);
    for number in 0..KEYS {
        let op = Op::Put(0, name(number), Meta::default(), vec![1; 100]);
        run(&engine, &op);
        model.apply(&op);
    }
    engine.flush_now().expect("flush");
    let snapshot = engine.snapshot(SnapshotOptions::default()).expect("a snapshot");
    let then = model.clone();
    for round in 2..22 {
        overwrite(&engine, &mut model, round, round == 21);
    }
    (engine, snapshot, then, model)
}

/// Puts every key, or deletes every other one, and lets flush and compaction have their way.
fn overwrite(engine: &Engine, model: &mut Model, round: u8, deletes: bool) {
    for number in 0..KEYS {
        let op = if number % 2 == 1 && deletes {
            Op::Delete(0, name(number))
        } else {
            Op::Put(0, name(number), Meta::default(), vec![round; 100])
        };
        run(engine, &op);
        model.apply(&op);
    }
    engine.flush_now().expect("flush");
    while engine.compact_once().expect("compaction") {}
    engine.sweep_graves();
}

/// Versions in the tree, without undo runs.
fn tree_entries(engine: &Engine) -> u64 {
    let version = engine.inner().versions.current();
    version.tables().map(|(_, table)| table.properties().entries).sum()
}

/// Merges the whole tree into its last level.
fn merge_all(engine: &Engine) {
    let version = engine.inner().versions.current();
    let job = tree::Job::full(&version, &engine.inner().compaction_options()).expect("tables");
    engine.run_compaction_job(&job).expect("compaction");
}

#[test]
fn undo_runs_have_a_device_of_their_own_which_may_fail() {
    let (storage, undo) = (SimStorage::new(), SimStorage::new());
    let mut options = small_options(&storage, SyncPolicy::No, false);
    options.undo_storage = Some(Arc::new(undo.clone()));
    options.undo_dir = Some("past".into());
    let (engine, snapshot, then, mut now) = overwritten(options);
    merge_all(&engine);
    read_all(&snapshot, &then);
    check(&engine, &now);
    let runs = engine.stats().undo_runs;
    assert!(runs > 0, "{:?}", engine.stats());
    assert_eq!(undo.list(Path::new("past")).expect("list").len() as u64, runs);
    assert_eq!(snapshot.info().held_bytes, engine.stats().undo_bytes);
    let elsewhere = storage.exists(Path::new("data/undo")).expect("a look");
    assert!(!elsewhere, "nothing of it is on the device of the tree");

    undo.set_faults(SimFaults { space_left_bytes: Some(0), ..SimFaults::default() });
    let second = engine.snapshot(SnapshotOptions::default()).expect("a snapshot");
    let later = now.clone();
    assert_eq!(second.info().held_bytes, 0, "the runs are older");
    overwrite(&engine, &mut now, 30, false);
    merge_all(&engine);
    assert_eq!(engine.stats().undo_runs, runs, "there is no room for another one");
    assert_eq!(tree_entries(&engine), KEYS + KEYS / 2, "so the tree keeps what is needed");
    read_all(&snapshot, &then);
    read_all(&second, &later);
    check(&engine, &now);

    undo.set_faults(SimFaults::default());
    overwrite(&engine, &mut now, 31, false);
    merge_all(&engine);
    assert_eq!(tree_entries(&engine), KEYS, "the living only, again");
    read_all(&second, &later);
    engine.abandon();
}

#[test]
fn with_an_old_snapshot_the_tree_holds_the_living_only() {
    let storage = SimStorage::new();
    let options = small_options(&storage, SyncPolicy::No, false);
    let (engine, snapshot, then, now) = overwritten(options.clone());
    merge_all(&engine);
    assert_eq!(tree_entries(&engine), KEYS / 2, "one version of each living key");
    read_all(&snapshot, &then);
    check(&engine, &now);
    let stats = engine.stats();
    assert!(stats.undo_runs > 0 && stats.undo_bytes > 0, "{stats:?}");
    let version = engine.inner().versions.current();
    let past = version.undo_runs().iter().map(|run| run.table.properties().entries);
    assert_eq!(past.sum::<u64>(), KEYS, "and one of each key in the past");
    drop(version);
    let undo_dir = Path::new("data/undo");
    assert_eq!(storage.list(undo_dir).expect("list").len() as u64, stats.undo_runs);
    // A crash takes the past along.
    let crashed = storage.crash(1, CrashOptions::KEEP_ALL);
    let (again, _) = Engine::open(small_options(&crashed, SyncPolicy::No, false), &mut replay)
        .expect("a store that opens");
    assert_eq!(crashed.list(undo_dir).expect("list"), [""; 0]);
    again.abandon();
    drop(snapshot);
    engine.sweep_graves();
    assert_eq!((engine.stats().undo_runs, engine.stats().undo_bytes), (0, 0));
    assert_eq!(storage.list(undo_dir).expect("list"), [""; 0], "dropped whole");
    engine.abandon();
}

#[test]
fn at_their_bound_undo_runs_refuse_snapshots_or_end_the_oldest() {
    let storage = SimStorage::new();
    let options =
        EngineOptions { undo_max_bytes: 500, ..small_options(&storage, SyncPolicy::No, false) };
    let (engine, snapshot, then, now) = overwritten(options);
    read_all(&snapshot, &then);
    check(&engine, &now);
    let refused = engine.snapshot(SnapshotOptions::default()).expect_err("full");
    assert!(matches!(refused, EngineError::UndoFull { max_bytes: 500, .. }), "{refused}");
    drop(snapshot);
    engine.sweep_graves();
    assert!(engine.snapshot(SnapshotOptions::default()).is_ok(), "there is room again");
    engine.abandon();

    let storage = SimStorage::new();
    let options = EngineOptions {
        undo_max_bytes: 500,
        undo_full: UndoFull::ExpireOldest,
        ..small_options(&storage, SyncPolicy::No, false)
    };
    let (engine, snapshot, _, now) = overwritten(options);
    let ended = snapshot.get(0, b"k").expect_err("it was the oldest");
    assert!(matches!(ended, EngineError::SnapshotExpired { max_bytes: 500, .. }), "{ended}");
    assert!(engine.stats().undo_bytes < 500, "{:?}", engine.stats());
    check(&engine, &now);
    engine.abandon();
}

//! The crash matrix: each policy of the log, each kind of crash, during each operation of a store on its
//! files. Afterwards the store must hold the first n commits, including all that was acknowledged as durable
//! (checked by [`History::open`]), and exports must be complete or absent.
//!
//! Everything runs on simulated storage; `tests/e2e/crash_matrix.py` kills the real server. `SEXTON_CRASH_MATRIX`
//! sets the crashes per cell, `SEXTON_CRASH_SEED` the first seed; the counts are printed.

use super::crash::{DATABASES, History, from_environment};
use super::harness::*;
use crate::store::namespace::FIRST_SEQ;
use crate::store::*;
use sexton_persistence::device::sim::{CrashOptions, PowerPoint, SimFaults, SimStorage};
use sexton_persistence::device::{File, Storage};
use sexton_persistence::rdb::{FILE_VERSION, Input, Reader, Record, Value as RdbValue};
use sexton_persistence::rdb::{Writer, WriterOptions};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

const CRASHES_A_CELL: u64 = 2;
/// Seeds that are tried for one crash at the wanted moment.
const TRIES_MAX: u64 = 40;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Death {
    /// The process ends, the system goes on: everything written stays, unsynced.
    Kill9,
    /// Unsynced data is lost, each operation on its own.
    PowerLoss,
    /// As before, and what arrives of a write is any of its sectors.
    TornSector,
}

const DEATHS: [Death; 3] = [Death::Kill9, Death::PowerLoss, Death::TornSector];
const POLICIES: [SyncPolicy; 3] = [SyncPolicy::Always, SyncPolicy::EverySec, SyncPolicy::No];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    Write,
    Flush,
    Compaction,
    Manifest,
    Bgsave,
    Bgrewriteaof,
    SegmentSwitch,
}

const MOMENTS: [Moment; 7] = [
    Moment::Write,
    Moment::Flush,
    Moment::Compaction,
    Moment::Manifest,
    Moment::Bgsave,
    Moment::Bgrewriteaof,
    Moment::SegmentSwitch,
];

const DUMP: &str = "data/dump.rdb";
const NEW_DUMP: &str = "data/temp-1.rdb";

/// What one crash has shown.
#[derive(Clone, Copy, Debug, Default)]
struct Outcome {
    /// The process died at the wanted moment.
    met: bool,
    commits: u64,
    /// Commits of the last run that were durable by its own word, and that were found.
    acknowledged: u64,
    found: u64,
}

/// A file of the storage, as a stream to write to.
struct Stream {
    file: Arc<dyn File>,
    offset: u64,
}

impl io::Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write_all_at(bytes, self.offset).map_err(io::Error::other)?;
        self.offset += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes what a snapshot sees as an RDB file, durably. The store goes on between the keys.
fn export(
    storage: &SimStorage,
    path: &str,
    snapshot: &Snapshot,
    mut between: impl FnMut(),
) -> io::Result<()> {
    let file = storage.create(Path::new(path)).map_err(io::Error::other)?;
    let options = WriterOptions { version: FILE_VERSION, compress: false, checksum: true };
    let out = Stream { file: Arc::clone(&file), offset: 0 };
    let mut writer = Writer::new(out, options);
    for db in 0..DATABASES {
        let options = IterOptions { db, ..IterOptions::default() };
        let mut iter = snapshot.iter(&options).map_err(io::Error::other)?;
        iter.seek_to_first().map_err(io::Error::other)?;
        writer.select_db(db as u64, 0, 0)?;
        while iter.valid() {
            writer.string(iter.key(), iter.meta().expire_at_ms, iter.value())?;
            iter.next().map_err(io::Error::other)?;
            between();
        }
    }
    writer.finish()?;
    file.sync_data().map_err(io::Error::other)
}

/// The keys of an RDB file: without the flags, which it does not have.
fn exported(bytes: &[u8]) -> Vec<(u64, Vec<u8>, u64, Vec<u8>)> {
    let mut reader = Reader::open(Input::new(bytes)).expect("a header");
    let (mut keys, mut db) = (Vec::new(), 0);
    while let Some(record) = reader.next_record().expect("a whole file") {
        match record {
            Record::SelectDb(number) => db = number,
            Record::Key(key) => {
                let RdbValue::String(value) = key.value else {
                    panic!("only strings were written")
                };
                keys.push((db, key.key, key.expire_at_ms.unwrap_or(0), value));
            }
            _ => {}
        }
    }
    keys
}

fn keys_of(model: &Model) -> Vec<(u64, Vec<u8>, u64, Vec<u8>)> {
    let databases = model.0.iter().enumerate();
    let keys = databases.flat_map(|(db, keys)| keys.iter().map(move |entry| (db as u64, entry)));
    let keys =
        keys.map(|(db, (key, (meta, value)))| (db, key.clone(), meta.expire_at_ms, value.clone()));
    keys.collect()
}

/// What exports may look like after the crash: all contents that a file of that name has had.
#[derive(Default)]
struct Exports {
    dumps: Vec<Model>,
    /// States of the bases that were begun, by their sequences.
    bases: Vec<(u64, Model)>,
}

struct Crash {
    history: History,
    death: Death,
    exports: Exports,
}

impl Crash {
    fn new(policy: SyncPolicy, death: Death, seed: u64) -> Self {
        let mut history = History::new(seed, false);
        history.policy = policy;
        Self { history, death, exports: Exports::default() }
    }

    /// The process dies in the middle of `moment`.
    fn run(&mut self, moment: Moment) -> Outcome {
        let engine = self.history.open(FIRST_SEQ - 1);
        for _ in 0..2 {
            self.commits(&engine, 12);
            engine.flush_now().expect("no fault yet");
        }
        self.commits(&engine, 6);
        self.history.write_log(&engine, true);
        let acknowledged = if moment == Moment::Manifest && self.history.random.percent(30) {
            self.start_again(engine)
        } else {
            self.arm_and_work(moment, &engine);
            let durable = engine.durable();
            engine.abandon();
            durable
        };
        let met = self.history.storage.is_off();
        let commits = self.history.commits.clone();
        let count = |last: u64| commits.iter().filter(|(seq, _)| *seq <= last).count() as u64;
        self.die();
        self.check_exports();
        let engine = self.history.open(acknowledged);
        self.history.check_point_reads(&engine);
        let found = count(self.history.base.0);
        // What was found is a store like any other.
        self.commits(&engine, 10);
        engine.flush_now().expect("no faults any more");
        while engine.compact_once().expect("no faults any more") {}
        check(&engine, &self.history.model);
        engine.abandon();
        let acknowledged = count(acknowledged);
        Outcome { met, commits: commits.len() as u64, acknowledged, found }
    }

    fn die(&mut self) {
        let seed = self.history.random.next_u64();
        let percent = self.history.random.below(101);
        let storage = &self.history.storage;
        self.history.storage = match self.death {
            Death::Kill9 => {
                storage.set_faults(SimFaults::default());
                storage.clone()
            }
            Death::PowerLoss => {
                storage.crash(seed, CrashOptions { keep_percent: percent, tear_percent: 0 })
            }
            Death::TornSector => {
                storage.crash(seed, CrashOptions { keep_percent: 80, tear_percent: 100 })
            }
        };
    }

    fn commits(&mut self, engine: &Engine, count: u64) {
        (0..count).for_each(|_| self.history.commit(engine));
    }

    /// The power goes with one of the next `changes` changes to files of this kind.
    fn arm(&mut self, path_part: &'static str, changes: u64) {
        let after = self.history.random.below(changes);
        let power_off_on = Some(PowerPoint { path_part, after });
        self.history.storage.set_faults(SimFaults { power_off_on, ..SimFaults::default() });
    }

    /// Goes on with `step` until the power has gone, or for long enough.
    fn until_off(&mut self, mut step: impl FnMut(&mut Self)) {
        for _ in 0..40 {
            if self.history.storage.is_off() {
                return;
            }
            step(self);
        }
    }

    /// The process ends, and the next one dies over the manifest that it begins with.
    fn start_again(&mut self, engine: Engine) -> u64 {
        self.commits(&engine, 4);
        self.history.write_log(&engine, false);
        let durable = engine.durable();
        engine.abandon();
        drop(engine);
        let part = if self.history.random.percent(50) { "CURRENT" } else { "MANIFEST" };
        self.arm(part, 4);
        if let Ok((again, _)) = Engine::open(self.history.options(), &mut replay) {
            again.abandon();
        }
        durable
    }

    fn arm_and_work(&mut self, moment: Moment, engine: &Engine) {
        let log_some = |crash: &mut Self, count| {
            crash.commits(engine, count);
            let sync = crash.history.random.percent(50);
            crash.history.write_log(engine, sync);
        };
        match moment {
            Moment::Write => {
                self.arm(".incr.aof", 12);
                self.until_off(|crash| log_some(crash, 2));
            }
            Moment::Flush => {
                let graves = if self.history.spills() { ".grun" } else { ".graves" };
                let part = if self.history.random.percent(70) { ".tbl" } else { graves };
                self.arm(part, 5);
                self.until_off(|crash| {
                    crash.commits(engine, 8);
                    drop(engine.flush_now());
                });
            }
            Moment::Compaction => {
                for _ in 0..3 {
                    self.commits(engine, 12);
                    engine.flush_now().expect("no fault yet");
                }
                self.commits(engine, 4);
                self.arm(".tbl", 8);
                self.until_off(|_| drop(engine.compact_once()));
            }
            Moment::Manifest => {
                self.arm("MANIFEST", 10);
                self.until_off(|crash| {
                    crash.commits(engine, 8);
                    drop(engine.flush_now());
                    drop(engine.compact_once());
                });
            }
            Moment::Bgsave => {
                self.save(engine);
                self.commits(engine, 8);
                let part = if self.history.random.percent(70) { "temp-1.rdb" } else { "dump.rdb" };
                self.arm(part, 4);
                self.until_off(|crash| crash.save(engine));
            }
            Moment::Bgrewriteaof => {
                self.rewrite(engine);
                self.commits(engine, 8);
                let manifest = "appendonly.aof.manifest";
                let part = if self.history.random.percent(50) { ".base.rdb" } else { manifest };
                self.arm(part, 6);
                self.until_off(|crash| crash.rewrite(engine));
            }
            Moment::SegmentSwitch => {
                let parts = ["appendonly.aof.manifest", ".incr.aof", "appendonlydir"];
                let nth = self.history.random.below(3) as usize;
                self.arm(parts[nth], 12);
                self.until_off(|crash| {
                    log_some(crash, 10);
                    let last = engine.inner().write.commit.lock().next_seq - 1;
                    engine.inner().write.commit.lock().cut_log(last);
                });
            }
        }
    }

    /// What the server does for BGSAVE, with commits and a flush under way.
    fn save(&mut self, engine: &Engine) {
        let named = SnapshotOptions { name: "bgsave".into(), timeout_ms: 0 };
        let snapshot = engine.snapshot(named).expect("room for one");
        let model = self.history.model.clone();
        let storage = self.history.storage.clone();
        let mut nth = 0;
        let written = export(&storage, NEW_DUMP, &snapshot, || {
            nth += 1;
            if nth % 9 == 0 {
                self.history.commit(engine);
            }
            if nth == 20 {
                drop(engine.flush_now());
            }
        });
        self.exports.dumps.push(model);
        if written.is_ok() && storage.rename(Path::new(NEW_DUMP), Path::new(DUMP)).is_ok() {
            drop(storage.sync_dir(Path::new("data")));
        }
    }

    /// What the server does for BGREWRITEAOF.
    fn rewrite(&mut self, engine: &Engine) {
        let named = SnapshotOptions { name: "bgrewriteaof".into(), timeout_ms: 0 };
        let Ok(base) = engine.begin_log_base(named) else { return };
        let model = self.history.model.clone();
        self.exports.bases.push((base.snapshot().seq(), model));
        let path = base.path().display().to_string();
        let storage = self.history.storage.clone();
        let mut nth = 0;
        let written = export(&storage, &path, base.snapshot(), || {
            nth += 1;
            if nth % 9 == 0 {
                self.history.commit(engine);
            }
        });
        if written.is_ok() {
            drop(base.install(u64::MAX));
        }
        self.commits(engine, 3);
    }

    /// A file under its name is a whole export of one instant; a base is that of its sequence.
    fn check_exports(&self) {
        let storage = &self.history.storage;
        if let Ok(bytes) = storage.read(Path::new(DUMP)) {
            let found = exported(&bytes);
            let known = self.exports.dumps.iter().any(|model| keys_of(model) == found);
            assert!(known, "dump.rdb is no state that was saved");
        }
        let dir = Path::new("data/appendonlydir");
        let manifest = storage.read(&dir.join("appendonly.aof.manifest")).unwrap_or_default();
        let text = String::from_utf8(manifest).expect("text");
        let Some((_, rest)) = text.split_once("#SXB ") else { return };
        let seq = u64::from_str_radix(&rest[..16], 16).expect("a sequence");
        let name = rest.split(' ').nth(1).expect("the base's name");
        let bytes = storage.read(&dir.join(name)).expect("a base that is listed is there");
        let state = self.exports.bases.iter().find(|(through, _)| *through == seq);
        let (_, model) = state.expect("a base that was begun");
        assert!(exported(&bytes) == keys_of(model), "the base is not the state of sequence {seq}");
    }
}

/// The figures of one cell.
#[derive(Default)]
struct Cell {
    crashes: u64,
    commits: u64,
    acknowledged: u64,
    found: u64,
    violations: Vec<u64>,
}

fn run_cell(policy: SyncPolicy, death: Death, moment: Moment, first: u64, wanted: u64) -> Cell {
    let mut cell = Cell::default();
    for seed in first..first + wanted * TRIES_MAX {
        if cell.crashes == wanted {
            break;
        }
        let one = || Crash::new(policy, death, seed).run(moment);
        match catch_unwind(AssertUnwindSafe(one)) {
            Ok(outcome) if outcome.met => {
                cell.crashes += 1;
                cell.commits += outcome.commits;
                cell.acknowledged += outcome.acknowledged;
                cell.found += outcome.found;
            }
            Ok(_) => {}
            Err(_) => {
                eprintln!("crash matrix: {policy:?}, {death:?}, {moment:?}, seed {seed}");
                cell.crashes += 1;
                cell.violations.push(seed);
            }
        }
    }
    cell
}

#[test]
fn crash_matrix() {
    let wanted = from_environment("SEXTON_CRASH_MATRIX", CRASHES_A_CELL);
    let first = from_environment("SEXTON_CRASH_SEED", 0);
    let mut cells: Vec<(SyncPolicy, Death, Moment, Cell)> = Vec::new();
    for policy in POLICIES {
        for death in DEATHS {
            for moment in MOMENTS {
                // Seeds of its own: the same history would meet the same instants.
                let first = first + cells.len() as u64 * 1_000_000;
                cells.push((policy, death, moment, run_cell(policy, death, moment, first, wanted)));
            }
        }
    }
    println!(
        "{:9} {:11} {:14} {:>7} {:>8} {:>12} {:>8} {:>10}",
        "policy", "death", "during", "crashes", "commits", "acknowledged", "found", "violations"
    );
    let mut all = Cell::default();
    for (policy, death, moment, cell) in &cells {
        println!(
            "{:9} {:11} {:14} {:7} {:8} {:12} {:8} {:10}",
            format!("{policy:?}"),
            format!("{death:?}"),
            format!("{moment:?}"),
            cell.crashes,
            cell.commits,
            cell.acknowledged,
            cell.found,
            cell.violations.len()
        );
        all.crashes += cell.crashes;
        all.commits += cell.commits;
        all.violations.extend(&cell.violations);
    }
    println!(
        "simulated storage: {} crashes, {} commits, {} violations",
        all.crashes,
        all.commits,
        all.violations.len()
    );
    assert!(all.violations.is_empty());
    for (policy, death, moment, cell) in &cells {
        assert_eq!(cell.crashes, wanted, "{policy:?}, {death:?}, {moment:?}: too few were met");
    }
}

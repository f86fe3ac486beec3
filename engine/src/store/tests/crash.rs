//! Crash histories: random operations, flushes, compactions and sweeps on simulated storage, a
//! crash at a random instant, and the state after it against the model (rule I5): the first n
//! commits, n at or above everything acknowledged as durable, transactions whole.
//!
//! In some histories the memtables are in simulated persistent memory; in some the store alternates between
//! that and a log; in some the log has routes to other devices.
//!
//! Without background threads a history is reproducible from its seed; a few with threads
//! add the interleavings. `SEXTON_CRASH_HISTORIES` sets how many, `SEXTON_CRASH_SEED` the first.

use super::harness::*;
use crate::key::{Meta, Seq};
use crate::store::namespace::FIRST_SEQ;
use crate::store::*;
use crate::tree::CompactionOptions;
use sexton_persistence::aof::LogRoute;
use sexton_persistence::device::Storage;
use sexton_persistence::device::sim::{CrashOptions, SimFaults, SimRandom, SimStorage};
use sexton_persistence::pmem::PmemOptions;
use sexton_persistence::pmem::sim::{SimMode, SimPmem};
use std::path::Path;
use std::sync::Arc;

const HISTORIES: u64 = 2000;
const THREADED_HISTORIES: u64 = 60;
pub(super) const DATABASES: usize = 3;
const KEYS: u64 = 24;
const ROUNDS_MAX: u64 = 4;
const STEPS_MAX: u64 = 120;

/// A scan in progress with what it must still answer.
type OpenScan = (Scan, Vec<(Vec<u8>, Value)>);

const POLICIES: [SyncPolicy; 3] = [SyncPolicy::Always, SyncPolicy::EverySec, SyncPolicy::No];

/// Memtables of a history without background threads that wait for their flush.
pub(super) const FROZEN_MAX: usize = 4;

/// Writers of a history with persistent memory.
const WRITERS: usize = 3;

/// The persistent memory of a history.
struct Pool {
    medium: SimPmem,
    /// Starts with the memtables there; at the others there is a log.
    percent: u64,
    /// The current start is one of them.
    is_used: bool,
    max_bytes: u64,
    /// Each with a writer of its own, which fences when it is told to.
    bufs: Vec<TxBuf>,
}

impl Pool {
    fn new(random: &mut SimRandom, percent: u64) -> Self {
        let mode = if random.percent(25) { SimMode::Msync } else { SimMode::Pmem };
        // With the least of them memtables have no room, and spill.
        let max_bytes = (96 << 10) << random.below(4);
        let medium = SimPmem::new(mode);
        Self { medium, percent, is_used: false, max_bytes, bufs: Vec::new() }
    }

    fn options(&self) -> PmemOptions {
        PmemOptions {
            slot_bytes: 4096,
            file_bytes: 64 << 10,
            initial_bytes: 64 << 10,
            max_bytes: self.max_bytes,
            writers_max: 8,
            scan_threads: 2,
            ..PmemOptions::new(self.medium.medium(), "data/pmem".into())
        }
    }
}

/// One history in progress.
pub(super) struct History {
    pub(super) random: SimRandom,
    pub(super) storage: SimStorage,
    pool: Option<Pool>,
    background: bool,
    /// Of the options of the current start, where each start has its own.
    drawn: Option<u64>,
    pub(super) policy: SyncPolicy,
    names: Vec<Vec<u8>>,
    deletes: DeleteMode,
    memtable: MemtableKind,
    /// Limit of N17; 0 for none.
    delete_persist_ms: u64,
    /// Bound of the cemetery; 0 for none.
    cemetery_max_bytes: u64,
    log_routes: Vec<LogRoute>,
    /// The deadline's clock.
    ticks_ms: u64,
    /// The state that the running store was opened with, and its last sequence.
    pub(super) base: (Seq, Model),
    /// Commits since, each with its last sequence.
    pub(super) commits: Vec<(Seq, Vec<Op>)>,
    /// The state after all of them.
    pub(super) model: Model,
    now_ms: u64,
}

/// A third of the histories run in paper mode.
fn deletes_of(seed: u64) -> DeleteMode {
    if seed % 3 == 2 { DeleteMode::Tombstones } else { DeleteMode::Cemetery }
}

/// A fifth of the histories, in both modes, run with skip lists.
fn memtable_of(seed: u64) -> MemtableKind {
    if seed % 5 == 4 { MemtableKind::SkipList } else { MemtableKind::Hash }
}

/// A quarter of the histories run with a delete deadline.
fn deadline_of(seed: u64) -> u64 {
    if seed % 4 == 1 { 800 } else { 0 }
}

/// Half of the histories spill their graves at nearly every flush.
fn cemetery_of(seed: u64) -> u64 {
    if seed % 7 < 4 { 1500 } else { 0 }
}

/// A sixth of the histories have records of the log on other devices, which lose what was not synced by
/// themselves.
fn routes_of(seed: u64) -> Vec<LogRoute> {
    let routes: &[_] = if seed % 6 == 3 { &[(24, "far"), (60, "farther")] } else { &[] };
    let route = |&(least_bytes, name): &(u64, &str)| LogRoute { least_bytes, name: name.into() };
    routes.iter().map(route).collect()
}

pub(super) fn small_options(
    storage: &SimStorage,
    policy: SyncPolicy,
    background: bool,
) -> EngineOptions {
    let storage: Arc<dyn Storage> = Arc::new(storage.clone());
    EngineOptions {
        background,
        log_segment_bytes: 8 << 10,
        cold_read_threads: 1,
        compaction: CompactionOptions {
            l0_tables: 3,
            base_bytes: 4 << 10,
            ratio: 3,
            output_bytes: 2 << 10,
        },
        ..options(Path::new("data"), storage, policy)
    }
}

impl History {
    pub(super) fn new(seed: u64, background: bool) -> Self {
        let mut random = SimRandom::new(seed);
        Self {
            policy: POLICIES[random.below(3) as usize],
            names: (0..KEYS).map(|number| format!("key:{number:02}").into_bytes()).collect(),
            random,
            deletes: deletes_of(seed),
            memtable: memtable_of(seed),
            delete_persist_ms: deadline_of(seed),
            cemetery_max_bytes: cemetery_of(seed),
            log_routes: routes_of(seed),
            ticks_ms: 0,
            storage: SimStorage::new(),
            pool: None,
            background,
            drawn: None,
            base: (FIRST_SEQ - 1, Model::new(DATABASES)),
            commits: Vec::new(),
            model: Model::new(DATABASES),
            now_ms: 1_000_000,
        }
    }

    /// One with persistent memory at `percent` percent of its starts.
    fn with_pool(seed: u64, background: bool, percent: u64) -> Self {
        let mut history = Self::new(seed, background);
        history.memtable = MemtableKind::Hash;
        history.pool = Some(Pool::new(&mut history.random, percent));
        history
    }

    /// One whose starts have options drawn at random; every third one has persistent memory at half of them.
    fn with_drawn_options(seed: u64, background: bool) -> Self {
        let mut history = match seed % 3 {
            0 => Self::with_pool(seed, background, 50),
            _ => Self::new(seed, background),
        };
        history.drawn = Some(0);
        history.names = super::drawn::names(&mut history.random, KEYS);
        history
    }

    /// True when its graves are spilled at nearly every flush.
    pub(super) fn spills(&self) -> bool {
        self.cemetery_max_bytes > 0
    }

    pub(super) fn options(&self) -> EngineOptions {
        let options = EngineOptions {
            deletes: self.deletes,
            memtable: self.memtable,
            delete_persist_ms: self.delete_persist_ms,
            log_routes: self.log_routes.clone(),
            write_behind: self.pool.as_ref().is_some_and(|pool| pool.is_used),
            pool: self.pool.as_ref().map(Pool::options),
            cemetery_max_bytes: self.cemetery_max_bytes,
            ..small_options(&self.storage, self.policy, self.background)
        };
        match self.drawn {
            Some(seed) => super::drawn::options(seed, options),
            None => options,
        }
    }

    fn choose_mode(&mut self) {
        if self.drawn.is_some() {
            self.drawn = Some(self.random.next_u64());
            self.policy = POLICIES[self.random.below(3) as usize];
        }
        if let Some(pool) = &mut self.pool {
            pool.is_used = self.random.percent(pool.percent);
        }
    }

    fn run(&mut self) {
        let mut acknowledged = FIRST_SEQ - 1;
        for _ in 0..=self.random.below(ROUNDS_MAX) {
            self.choose_mode();
            if self.random.percent(15) {
                self.open_and_lose_power();
                self.choose_mode();
            }
            let engine = self.open(acknowledged);
            acknowledged = self.work(&engine);
            // Taken before the crash: what is durable by then may be more.
            let crashed = self.crash();
            engine.abandon();
            drop(engine);
            self.take(crashed);
        }
        let engine = self.open(acknowledged);
        self.check_point_reads(&engine);
        engine.abandon();
    }

    /// What the power failure, or the mere end of the process, leaves behind, of files and of persistent memory.
    fn crash(&mut self) -> (SimStorage, Option<SimPmem>) {
        let options = match self.random.below(5) {
            0 => CrashOptions::LOSE_ALL,
            1 | 2 => CrashOptions::KEEP_ALL,
            _ => CrashOptions::default(),
        };
        let pool =
            self.pool.as_ref().map(|pool| pool.medium.crash(self.random.next_u64(), options));
        if options == CrashOptions::KEEP_ALL && self.random.percent(50) {
            // The process ends; the operating system goes on with all that it has cached.
            self.storage.set_faults(SimFaults::default());
            return (self.storage.clone(), pool);
        }
        (self.storage.crash(self.random.next_u64(), options), pool)
    }

    fn take(&mut self, (storage, medium): (SimStorage, Option<SimPmem>)) {
        self.storage = storage;
        if let (Some(pool), Some(medium)) = (&mut self.pool, medium) {
            pool.bufs.clear();
            pool.medium = medium;
        }
    }

    /// A start that does not get far, or just far enough.
    fn open_and_lose_power(&mut self) {
        let after = self.random.below(60);
        match &self.pool {
            Some(pool) if self.random.percent(50) => pool.medium.power_off_after(after),
            _ => {
                let power_off_after = Some(after);
                self.storage.set_faults(SimFaults { power_off_after, ..SimFaults::default() });
            }
        }
        let options = self.options();
        if let Ok((engine, _)) = Engine::open(options, &mut replay) {
            engine.abandon();
        }
        let crashed = self.crash();
        self.take(crashed);
    }

    /// Opens the store after a crash and compares it with the commits up to what was recovered.
    pub(super) fn open(&mut self, acknowledged: Seq) -> Engine {
        let options = self.options();
        let (engine, report) = Engine::open(options, &mut replay).expect("a store that opens");
        let recovered = report.recovered_seq;
        assert!(recovered >= acknowledged, "{report:?}, acknowledged up to {acknowledged}");
        let (base_seq, base) = self.base.clone();
        let ends = self.commits.iter().map(|(seq, _)| *seq);
        let is_end = recovered == base_seq || ends.into_iter().any(|seq| seq == recovered);
        // With persistent memory a start that was cut short may have given up what nobody was promised, and what is
        // recovered then ends with sequences that nobody used: the state alone says how far it goes.
        let mut through = if self.pool.is_some() { acknowledged } else { recovered };
        assert!(is_end || self.pool.is_some(), "recovered {recovered} is no end of a transaction");
        self.model = loop {
            let mut model = base.clone();
            let happened = self.commits.iter().filter(|(seq, _)| *seq <= through);
            happened.flat_map(|(_, ops)| ops).for_each(|op| model.apply(op));
            let later = self.commits.iter().map(|(seq, _)| *seq).find(|seq| *seq > through);
            match (compare(&engine, &model), later.filter(|seq| *seq <= recovered)) {
                (Ok(()), _) => break model,
                (Err(_), Some(next)) => through = next,
                (Err(difference), None) => panic!("at {through}, {report:?}: {difference}"),
            }
        };
        self.commits.clear();
        self.base = (recovered, self.model.clone());
        if let Some(pool) = &mut self.pool {
            pool.bufs = (0..WRITERS).map(|_| TxBuf::fencing_by_batch()).collect();
        }
        engine
    }

    /// The last sequence that somebody used, of those up to `durable`.
    fn acknowledged(&self, durable: Seq) -> Seq {
        let ends = self.commits.iter().map(|(seq, _)| *seq);
        ends.filter(|seq| *seq <= durable).max().unwrap_or(self.base.0.min(durable))
    }

    /// Steps until the crash; answers what the store called durable then.
    fn work(&mut self, engine: &Engine) -> Seq {
        let power_off_after = self.random.percent(50).then(|| self.random.below(250));
        self.storage.set_faults(SimFaults { power_off_after, ..SimFaults::default() });
        let mut scan: Option<OpenScan> = None;
        self.ticks_ms = 0;
        for _ in 0..self.random.below(STEPS_MAX) {
            if self.delete_persist_ms > 0 && !self.background && self.random.percent(20) {
                self.ticks_ms += 50;
                drop(engine.keep_deadline_at(self.ticks_ms));
            }
            match self.random.below(100) {
                0..58 => self.commit(engine),
                58..63 => drop(engine.flush_now()),
                63..65 => freeze(engine),
                65..71 => drop(engine.compact_once()),
                71..73 => {
                    // As if many seeks had looked into level 0.
                    engine.inner().upkeep.rest.note_looks(self.random.below(8));
                    drop(engine.compact_at_rest());
                }
                73..76 => engine.sweep_graves(),
                76..79 => drop(engine.sweep_dead_namespaces()),
                79..85 => self.write_log(engine, false),
                85..89 => self.write_log(engine, true),
                89..92 => {
                    let bound = if self.random.percent(70) { 0 } else { usize::MAX };
                    engine.inner().memory.table_bound.set(bound);
                }
                92..95 => self.expire(engine),
                95 => check(engine, &self.model),
                96 => self.check_point_reads(engine),
                97 => {
                    if let Some((scan, expected)) = scan.take() {
                        self.check_scan(scan, expected);
                    }
                    let db = self.random.below(DATABASES as u64) as usize;
                    let range = ScanRange { db, ..ScanRange::default() };
                    let expected = self.model.0[db].clone().into_iter().collect();
                    scan = Some((engine.scan(&range).expect("scan"), expected));
                }
                _ if power_off_after.is_none() => self.break_something(),
                _ => {}
            }
        }
        if let Some((scan, expected)) = scan {
            self.check_scan(scan, expected);
        }
        let durable = engine.durable();
        assert!(durable <= engine.last_seq().max(self.base.0));
        self.acknowledged(durable)
    }

    fn check_scan(&self, scan: Scan, expected: Vec<(Vec<u8>, Value)>) {
        let items = scan.map(|item| item.expect("readable"));
        let items: Vec<_> = items.map(|item| (item.key, (item.meta, item.value))).collect();
        assert!(items == expected, "a scan sees the instant of its start (G2)");
    }

    fn key(&mut self) -> Vec<u8> {
        self.names[self.random.below(KEYS) as usize].clone()
    }

    fn operation(&mut self) -> Op {
        let db = self.random.below(DATABASES as u64) as usize;
        let key = self.key();
        match self.random.below(100) {
            0..30 => Op::Delete(db, key),
            30..50 => Op::Append(db, key, self.random.next_u64() as u8),
            _ => {
                let later_ms = self.random.below(4000);
                let expires = self.random.percent(15);
                let expire_at_ms = if expires { self.now_ms + later_ms } else { 0 };
                let meta = Meta { flags: self.random.below(32) as u8, expire_at_ms };
                let len_max = if self.random.percent(6) { 2000 } else { 60 };
                let len = self.random.below(len_max);
                Op::Put(db, key, meta, vec![self.random.next_u64() as u8; len as usize])
            }
        }
    }

    pub(super) fn commit(&mut self, engine: &Engine) {
        let mut ops = vec![self.operation()];
        if self.random.percent(20) {
            for _ in 0..self.random.below(4) {
                ops.push(self.operation());
            }
        }
        let db = self.random.below(DATABASES as u64) as usize;
        match self.random.below(60) {
            0 => ops.push(Op::Flush(db)),
            1 => ops.push(Op::Swap(db, (db + 1) % DATABASES)),
            2 => ops = vec![Op::Flush(db)],
            _ => {}
        }
        self.commit_group(engine, ops);
    }

    fn commit_group(&mut self, engine: &Engine, ops: Vec<Op>) {
        if engine.write_refusal().is_some() || engine.must_wait() {
            drop(engine.flush_now());
            return;
        }
        let writers = self.pool.as_mut().map_or(&mut [][..], |pool| &mut pool.bufs);
        let commit = match writers.len() as u64 {
            0 => run_group(engine, &ops),
            writers_len => {
                let writer = self.random.below(writers_len) as usize;
                run_group_in(engine, &ops, &mut writers[writer])
            }
        };
        let commit = commit.expect("a readable device");
        ops.iter().for_each(|op| self.model.apply(op));
        if commit.operations > 0 {
            self.commits.push((commit.last_seq, ops));
        }
        if self.background {
            engine.kick_log();
        } else if self.policy == SyncPolicy::Always && self.random.percent(60) {
            self.write_log(engine, true);
        }
    }

    pub(super) fn write_log(&mut self, engine: &Engine, sync: bool) {
        if let Some(pool) = self.pool.as_mut().filter(|pool| pool.is_used) {
            for buf in &mut pool.bufs {
                if sync || self.random.percent(40) {
                    engine.end_batch(buf);
                }
            }
            return;
        }
        let log = engine.inner().write.log.load_full().expect("a log");
        if sync {
            drop(log.sync_through(engine.last_seq()));
        } else {
            drop(log.write_gathered());
        }
    }

    /// Deletes what is due, as the layer above does (X3).
    fn expire(&mut self, engine: &Engine) {
        self.now_ms += 700;
        loop {
            engine.look_for_cold_due().expect("readable");
            let due = engine.due(self.now_ms, 8);
            if due.is_empty() {
                break;
            }
            for DueKey { db, key, .. } in due {
                let entry = try_get(engine, db, &key).expect("a readable device");
                if entry.is_some_and(|(meta, _)| meta.is_expired(self.now_ms)) {
                    self.commit_group(engine, vec![Op::Delete(db, key)]);
                }
            }
        }
    }

    /// Something fails once, soon; or the device is full until something is cleared away.
    fn break_something(&mut self) {
        let soon = Some(1 + self.random.below(6));
        let faults = match self.random.below(6) {
            0 => {
                let short_write_bytes = self.random.below(600) as usize;
                SimFaults { fail_write: soon, short_write_bytes, ..SimFaults::default() }
            }
            1 => SimFaults { fail_sync: soon, ..SimFaults::default() },
            2 => SimFaults { fail_sync_dir: soon, ..SimFaults::default() },
            3 => {
                let space_left_bytes = Some(self.random.below(4000));
                SimFaults { space_left_bytes, ..SimFaults::default() }
            }
            _ => SimFaults::default(),
        };
        self.storage.set_faults(faults);
        if let Some(pool) = self.pool.as_ref().filter(|_| self.random.percent(10)) {
            pool.medium.fail_fence(1 + self.random.below(6));
        }
    }

    pub(super) fn check_point_reads(&mut self, engine: &Engine) {
        for db in 0..DATABASES {
            for key in &self.names {
                let found = get(engine, db, key);
                let expected = self.model.0[db].get(key);
                assert!(found.as_ref() == expected, "{db} {key:?}: {found:?}, not {expected:?}");
            }
        }
    }
}

/// The state goes on changing between a mark and its checkpoint (D2), and several may be born before the first
/// is installed.
fn freeze(engine: &Engine) {
    if engine.inner().flusher.frozen.len() < FROZEN_MAX {
        engine.freeze(&mut engine.inner().flusher.freeze_permit.lock());
    }
}

pub(super) fn from_environment(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// What kind of histories a test runs.
#[derive(Clone, Copy)]
enum Kind {
    Log,
    /// Memtables are in persistent memory at this percentage of the starts.
    Pool(u64),
    /// Each start has options of its own.
    Drawn,
}

/// Runs histories on two threads and names the seed of one that fails.
fn run_histories(first: u64, count: u64, background: bool, kind: Kind) {
    let work = |part: u64| {
        for seed in (first..first + count).filter(|seed| seed % 2 == part) {
            let one = || match kind {
                Kind::Log => History::new(seed, background).run(),
                Kind::Pool(percent) => History::with_pool(seed, background, percent).run(),
                Kind::Drawn => History::with_drawn_options(seed, background).run(),
            };
            if let Err(panic) = std::panic::catch_unwind(one) {
                eprintln!("history of seed {seed} (background threads: {background})");
                std::panic::resume_unwind(panic);
            }
        }
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| work(1));
        work(0);
        if let Err(panic) = other.join() {
            std::panic::resume_unwind(panic);
        }
    });
}

fn run_wanted_histories(background: bool, kind: Kind) {
    let first = from_environment("SEXTON_CRASH_SEED", 0);
    // Histories with persistent memory take longer: fewer of them unless more are wanted.
    let default = if matches!(kind, Kind::Log) { HISTORIES } else { HISTORIES / 4 };
    let histories = from_environment("SEXTON_CRASH_HISTORIES", default);
    let count = if background { histories * THREADED_HISTORIES / HISTORIES } else { histories };
    run_histories(first, count.max(1), background, kind);
}

#[test]
fn every_crash_leaves_a_prefix_that_holds_all_that_was_durable() {
    run_wanted_histories(false, Kind::Log);
}

#[test]
fn every_crash_under_background_threads_leaves_such_a_prefix() {
    run_wanted_histories(true, Kind::Log);
}

#[test]
fn so_does_every_crash_with_memtables_in_persistent_memory() {
    run_wanted_histories(false, Kind::Pool(100));
}

#[test]
fn and_under_background_threads() {
    run_wanted_histories(true, Kind::Pool(100));
}

#[test]
fn crashes_under_options_that_change_from_start_to_start_leave_such_a_prefix() {
    run_wanted_histories(false, Kind::Drawn);
}

#[test]
fn and_under_background_threads_with_such_options() {
    run_wanted_histories(true, Kind::Drawn);
}

#[test]
fn and_between_log_and_persistent_memory() {
    run_wanted_histories(false, Kind::Pool(50));
}

/// A process ends between any two steps of a flush; the next one starts on what the page cache
/// holds, and the power fails between any two steps of that. Whatever it had removed by then must
/// not be missed by what is left.
#[test]
fn a_power_failure_during_the_start_after_the_end_of_a_process() {
    let mut starts_cut_short = 0;
    for steps in 0..60 {
        for start_steps in (0..40).step_by(4).map(|step| step + steps % 4) {
            let mut history = History::new(steps, false);
            history.policy = SyncPolicy::EverySec;
            let engine = history.open(FIRST_SEQ - 1);
            for _ in 0..3 {
                (0..10).for_each(|_| history.commit(&engine));
                engine.flush_now().expect("flush");
            }
            history.commit(&engine);
            history.write_log(&engine, true);
            let acknowledged = engine.durable();
            (0..10).for_each(|_| history.commit(&engine));
            let power_off_after = Some(steps);
            history.storage.set_faults(SimFaults { power_off_after, ..SimFaults::default() });
            drop(engine.flush_now());
            engine.abandon();
            drop(engine);
            let power_off_after = Some(start_steps);
            history.storage.set_faults(SimFaults { power_off_after, ..SimFaults::default() });
            let options = history.options();
            match Engine::open(options, &mut replay) {
                Ok((engine, _)) => engine.abandon(),
                Err(_) => starts_cut_short += 1,
            }
            let seed = steps * 100 + start_steps;
            history.storage = history.storage.crash(seed, CrashOptions::default());
            history.open(acknowledged).abandon();
        }
    }
    assert!(starts_cut_short > 100, "{starts_cut_short} starts were cut short");
}

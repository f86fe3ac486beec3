//! Collections in pages: against a plain map through flushes, eviction, spills and crashes, and what is left of them when they go.

use super::crash::{from_environment, small_options};
use super::harness;
use super::paged::{Model, Op, compare, read_then, replay, run};
use crate::key::Seq;
use crate::store::namespace::FIRST_SEQ;
use crate::store::*;
use sexton_persistence::device::sim::{CrashOptions, SimFaults, SimRandom, SimStorage};

const KEYS: u8 = 6;

const ELEMENTS: u64 = 40;

struct History {
    random: SimRandom,
    storage: SimStorage,
    policy: SyncPolicy,
    delete_persist_ms: u64,
    cemetery_max_bytes: u64,
    undo_runs: bool,
    base: (Seq, Model),
    commits: Vec<(Seq, Vec<Op>)>,
    model: Model,
}

impl History {
    fn new(seed: u64) -> Self {
        let mut random = SimRandom::new(seed);
        let policies = [SyncPolicy::Always, SyncPolicy::EverySec, SyncPolicy::No];
        Self {
            policy: policies[random.below(3) as usize],
            // A snapshot ends after half of it, by the clock of the machine, which may stand still for a second.
            delete_persist_ms: if seed % 4 == 1 { 16_000 } else { 0 },
            cemetery_max_bytes: if seed % 7 < 4 { 1500 } else { 0 },
            undo_runs: seed.is_multiple_of(2),
            random,
            storage: SimStorage::new(),
            base: (FIRST_SEQ - 1, Model::new()),
            commits: Vec::new(),
            model: Model::new(),
        }
    }

    fn open(&mut self, acknowledged: Seq) -> Engine {
        let options = EngineOptions {
            delete_persist_ms: self.delete_persist_ms,
            cemetery_max_bytes: self.cemetery_max_bytes,
            undo_runs: self.undo_runs,
            ..small_options(&self.storage, self.policy, false)
        };
        let (engine, report) = Engine::open(options, &mut replay).expect("a store that opens");
        let recovered = report.recovered_seq;
        assert!(recovered >= acknowledged, "{report:?}, acknowledged up to {acknowledged}");
        self.model = self.base.1.clone();
        for (seq, ops) in self.commits.drain(..) {
            if seq <= recovered {
                for op in &ops {
                    op.apply(&mut self.model);
                }
            }
        }
        compare(&engine, &self.model, KEYS).unwrap_or_else(|text| panic!("{report:?}: {text}"));
        self.base = (recovered, self.model.clone());
        engine
    }

    fn operation(&mut self) -> Op {
        let key = self.random.below(u64::from(KEYS)) as u8;
        let element = self.random.below(ELEMENTS) as u32;
        match self.random.below(200) {
            0..120 => Op::Add(key, element),
            120..165 => Op::Remove(key, element),
            165..185 => Op::Delete(key),
            185..190 => Op::Set(key, element as u8),
            190..194 => Op::Rename(key, self.random.below(u64::from(KEYS)) as u8),
            194..198 => Op::Copy(key, self.random.below(u64::from(KEYS)) as u8),
            _ => Op::Flush,
        }
    }

    fn commit(&mut self, engine: &Engine) {
        if engine.write_refusal().is_some() || engine.must_wait() {
            drop(engine.flush_now());
            return;
        }
        let more = if self.random.percent(20) { self.random.below(3) } else { 0 };
        let ops: Vec<Op> = (0..=more).map(|_| self.operation()).collect();
        let commit = run(engine, &ops);
        let mut changed = 0;
        for op in ops.iter().filter(|op| op.apply(&mut self.model)) {
            changed += if matches!(op, Op::Rename(..)) { 2 } else { 1 };
        }
        assert_eq!(commit.operations, changed, "one sequence for each, whatever its pages");
        if commit.operations > 0 {
            self.commits.push((commit.last_seq, ops));
        }
    }

    fn work(&mut self, engine: &Engine) -> Seq {
        let power_off_after = self.random.percent(50).then(|| self.random.below(250));
        self.storage.set_faults(SimFaults { power_off_after, ..SimFaults::default() });
        let mut snapshots: Vec<(Snapshot, Model)> = Vec::new();
        for step in 0..self.random.below(150) {
            if self.delete_persist_ms > 0 && self.random.percent(20) {
                drop(engine.keep_deadline_at(1000 * step));
            }
            match self.random.below(100) {
                0..60 => self.commit(engine),
                60..65 => drop(engine.flush_now()),
                65..67 => harness::freeze(engine),
                67..74 => drop(engine.compact_once()),
                74..78 => engine.sweep_graves(),
                78..80 => drop(engine.sweep_dead_namespaces()),
                80..82 => engine.sweep_dead_pages(),
                82..90 => {
                    let log = engine.inner().write.log.load_full().expect("a log");
                    if self.random.percent(50) {
                        drop(log.sync_through(engine.last_seq()));
                    } else {
                        drop(log.write_gathered());
                    }
                }
                90..93 => {
                    let bound = if self.random.percent(70) { 0 } else { usize::MAX };
                    engine.inner().memory.table_bound.set(bound);
                }
                93..95 => {
                    let snapshot = engine.snapshot(SnapshotOptions::default());
                    snapshots.extend(snapshot.ok().map(|snapshot| (snapshot, self.model.clone())));
                }
                95..97 if !snapshots.is_empty() => {
                    let at = self.random.below(snapshots.len() as u64) as usize;
                    let (snapshot, model) = snapshots.swap_remove(at);
                    if snapshot.check_open().is_ok() {
                        for name in 0..KEYS {
                            assert_eq!(read_then(&snapshot, name).as_ref(), model.get(&name));
                        }
                    }
                }
                _ => compare(engine, &self.model, KEYS).unwrap_or_else(|text| panic!("{text}")),
            }
        }
        let durable = engine.durable();
        let ends = self.commits.iter().map(|(seq, _)| *seq);
        ends.filter(|seq| *seq <= durable).max().unwrap_or(self.base.0.min(durable))
    }

    fn run(&mut self) {
        let mut acknowledged = FIRST_SEQ - 1;
        for _ in 0..=self.random.below(4) {
            let engine = self.open(acknowledged);
            acknowledged = self.work(&engine);
            let options = match self.random.below(5) {
                0 => CrashOptions::LOSE_ALL,
                1 | 2 => CrashOptions::KEEP_ALL,
                _ => CrashOptions::default(),
            };
            let crashed = self.storage.crash(self.random.next_u64(), options);
            engine.abandon();
            drop(engine);
            self.storage = crashed;
        }
        self.open(acknowledged).abandon();
    }
}

#[test]
fn collections_in_pages_are_whole_after_every_crash_and_nothing_of_them_stays_when_they_go() {
    let first = from_environment("SEXTON_CRASH_SEED", 0);
    let histories = from_environment("SEXTON_CRASH_HISTORIES", 600);
    let work = |part: u64| {
        for seed in (first..first + histories).filter(|seed| seed % 2 == part) {
            if let Err(panic) = std::panic::catch_unwind(|| History::new(seed).run()) {
                eprintln!("history of seed {seed}");
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

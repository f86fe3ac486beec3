//! Runs benchmarks one after the other on one store.

use crate::benchmarks::{self, Worker};
use crate::database;
use crate::deletes;
use crate::flags::Flags;
use crate::graves;
use crate::old_versions;
use crate::random::{Random, Values};
use crate::stats::{Clock, Outcome, Progress, Stats};
use crate::ycsb;
use sexton_engine::{Engine, EngineError};
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Seed when none is given.
const SEED: u64 = 301;

/// What every thread of a benchmark does.
type Body = fn(&mut Worker<'_>) -> Result<(), EngineError>;

/// How a benchmark is run.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) body: Body,
    /// Starts with an empty store, unless the existing one is to be kept.
    fresh: bool,
    /// A thread more than asked for, which writes.
    writer: bool,
    /// Added to the size of keys: keys that nobody has written.
    longer_key: usize,
    /// What an operation is called.
    message: &'static str,
}

impl Plan {
    const fn of(body: Body, message: &'static str) -> Self {
        Self { body, fresh: false, writer: false, longer_key: 0, message }
    }

    const fn fresh(self) -> Self {
        Self { fresh: true, ..self }
    }

    const fn beside_writer(self) -> Self {
        Self { writer: true, ..self }
    }
}

fn plan_of(name: &str) -> Option<Plan> {
    Some(match name {
        "noop" => Plan::of(benchmarks::noop, "op"),
        "fillseq" => Plan::of(benchmarks::write_in_order, "write").fresh(),
        "fillrandom" => Plan::of(benchmarks::write_random, "write").fresh(),
        "filluniquerandom" => Plan::of(benchmarks::write_shuffled, "write").fresh(),
        "fillsync" => Plan::of(benchmarks::write_synced, "write").fresh(),
        "overwrite" => Plan::of(benchmarks::write_random, "write"),
        "updaterandom" => Plan::of(benchmarks::update_random, "op"),
        "deleteseq" => Plan::of(benchmarks::delete_in_order, "delete"),
        "deleterandom" => Plan::of(benchmarks::delete_random, "delete"),
        "readrandom" => Plan::of(benchmarks::read_random, "read"),
        "readmissing" => Plan { longer_key: 1, ..Plan::of(benchmarks::read_random, "read") },
        "readhot" => Plan::of(benchmarks::read_hot, "read"),
        "readseq" => Plan::of(benchmarks::read_forward, "read"),
        "readreverse" => Plan::of(benchmarks::read_backward, "read"),
        "seekrandom" => Plan::of(benchmarks::seek_random, "seek"),
        "readwhilewriting" => Plan::of(benchmarks::read_random, "read").beside_writer(),
        "seekrandomwhilewriting" => Plan::of(benchmarks::seek_random, "seek").beside_writer(),
        "readrandomwriterandom" => Plan::of(benchmarks::read_or_write, "op"),
        "deleteheadinsert" => Plan::of(deletes::head_and_tail, "op").fresh(),
        "ycsbload" => Plan::of(ycsb::load, "insert").fresh(),
        _ if ycsb::is_workload(name) => Plan::of(ycsb::run, "operation"),
        _ => return None,
    })
}

/// True when [`Runner::run`] knows the name.
pub(crate) fn is_known(name: &str) -> bool {
    let others = [
        "queue",
        "trap",
        "graves",
        "mvccundo",
        "heldsnapshot",
        "getgraves",
        "massdelete",
        "flush",
        "waitforcompaction",
        "stats",
        "reopen",
        "recover",
    ];
    plan_of(name).is_some() || others.contains(&name)
}

/// The store, and what was measured on it so far.
pub(crate) struct Runner {
    pub(crate) flags: Flags,
    pub(crate) outcomes: Vec<Outcome>,
    engine: Option<Engine>,
    /// Threads started so far: each draws other keys than those before it, as db_bench's do.
    threads_started: u64,
    /// YCSB's records.
    records: ycsb::Records,
}

impl Runner {
    pub(crate) fn new(flags: Flags) -> Self {
        let records = ycsb::Records::new(flags.num, flags.threads);
        Self { flags, outcomes: Vec::new(), engine: None, threads_started: 0, records }
    }

    /// Runs one benchmark and prints its line.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) fn run(&mut self, name: &str) -> Result<(), EngineError> {
        match name {
            "queue" => deletes::queue(self),
            "trap" => deletes::trap(self),
            "graves" => deletes::graves(self),
            "mvccundo" => old_versions::mvcc_undo(self),
            "heldsnapshot" => old_versions::held_snapshot(self),
            "getgraves" => graves::beside_graves(self),
            "massdelete" => graves::mass_delete(self),
            "flush" => self.engine()?.flush(),
            "reopen" => self.reopen(),
            "recover" => self.recover(),
            "waitforcompaction" => self.wait_until_idle(),
            "stats" => {
                println!("{:#?}", self.engine()?.stats());
                Ok(())
            }
            _ => {
                let Some(plan) = plan_of(name) else {
                    return Err(EngineError::Refused(format!("no benchmark {name}")));
                };
                let outcome = self.measure(name, plan)?;
                outcome.print();
                self.outcomes.push(outcome);
                Ok(())
            }
        }
    }

    /// The open store; opened, and emptied, at the first question.
    pub(crate) fn engine(&mut self) -> Result<&Engine, EngineError> {
        let engine = match self.engine.take() {
            Some(engine) => engine,
            None => database::open(&self.flags, self.flags.use_existing_db)?,
        };
        Ok(self.engine.insert(engine))
    }

    /// Closes the store and starts an empty one, unless the existing one is to be kept.
    pub(crate) fn start_fresh(&mut self) -> Result<(), EngineError> {
        if !self.flags.use_existing_db && self.engine.is_some() {
            self.close()?;
        }
        self.engine().map(drop)
    }

    pub(crate) fn reopen(&mut self) -> Result<(), EngineError> {
        self.close()?;
        self.engine = Some(database::open(&self.flags, true)?);
        Ok(())
    }

    /// Opens the store as its last process left it, and says how long that took.
    fn recover(&mut self) -> Result<(), EngineError> {
        self.close()?;
        let clock = Clock::start();
        let (engine, report) = database::open_reporting(&self.flags, true)?;
        let mut outcome = Outcome::new("recover", &clock, &[]);
        outcome.done = 1;
        outcome.thread_seconds = outcome.seconds;
        outcome.message = "start".to_owned();
        outcome.figures = vec![
            ("groups replayed".to_owned(), report.groups as f64),
            ("last sequence".to_owned(), report.recovered_seq as f64),
            ("mark".to_owned(), report.mark as f64),
        ];
        if let Some(wbl) = engine.wbl_stats() {
            outcome.figures.extend([
                ("records kept".to_owned(), wbl.recovery.records as f64),
                ("map ms".to_owned(), wbl.recovery.map_time.as_secs_f64() * 1e3),
                ("scan ms".to_owned(), wbl.recovery.scan_time.as_secs_f64() * 1e3),
                ("settle ms".to_owned(), wbl.recovery.settle_time.as_secs_f64() * 1e3),
                ("scan and index ms".to_owned(), wbl.recovery_time.as_secs_f64() * 1e3),
            ]);
        }
        outcome.print();
        self.outcomes.push(outcome);
        self.engine = Some(engine);
        Ok(())
    }

    pub(crate) fn close(&mut self) -> Result<(), EngineError> {
        self.engine.take().map_or(Ok(()), |engine| engine.close())
    }

    pub(crate) fn wait_until_idle(&mut self) -> Result<(), EngineError> {
        let longest = Duration::from_secs(self.flags.settle_s);
        let clock = Clock::start();
        let settled = database::wait_until_idle(self.engine()?, longest);
        let seconds = clock.seconds();
        println!(
            "waited       : {seconds:.3} seconds, background work {}",
            if settled { "done" } else { "goes on" }
        );
        Ok(())
    }

    /// Runs a plan on all its threads.
    pub(crate) fn measure(&mut self, name: &str, plan: Plan) -> Result<Outcome, EngineError> {
        if plan.fresh {
            self.start_fresh()?;
        }
        self.engine()?;
        let (flags, Some(engine)) = (&self.flags, &self.engine) else {
            return Err(EngineError::Refused("the store is not open".into()));
        };
        let seed = if flags.seed == 0 { SEED } else { flags.seed };
        let values = Values::new(flags.compression_ratio, flags.value_size, seed);
        let records = &self.records;
        let ycsb = ycsb::Run::of(name, flags, records);
        let ycsb = ycsb.as_ref();
        let before = name.starts_with("ycsb").then(|| engine.stats());
        let threads = flags.threads + usize::from(plan.writer);
        let first_thread = self.threads_started;
        self.threads_started += threads as u64;
        let start = Barrier::new(threads + 1);
        let running = AtomicUsize::new(flags.threads);
        let run_thread = |thread: usize| {
            let is_writer = plan.writer && thread == flags.threads;
            let progress = (flags.progress && thread == 0)
                .then(|| Progress::new(name, benchmarks::operations_of(flags, plan.message)));
            let mut worker = Worker {
                engine,
                flags,
                stats: Stats::new(flags.histogram && !is_writer, progress),
                random: Random::new(seed.wrapping_add(first_thread + thread as u64)),
                values: values.clone(),
                key: vec![0; flags.key_size + if is_writer { 0 } else { plan.longer_key }],
                value: Vec::with_capacity(flags.value_size),
                thread,
                running: &running,
                records,
                ycsb,
            };
            worker.stats.excluded = is_writer;
            start.wait();
            worker.stats.start();
            let result = if is_writer {
                benchmarks::write_beside(&mut worker)
            } else {
                let result = (plan.body)(&mut worker);
                running.fetch_sub(1, Ordering::Release);
                result
            };
            worker.stats.stop();
            result.map(|()| worker.stats)
        };
        std::thread::scope(|scope| {
            let handles: Vec<_> =
                (0..threads).map(|thread| scope.spawn(move || run_thread(thread))).collect();
            start.wait();
            let clock = Clock::start();
            let mut all = Vec::new();
            for handle in handles {
                let stats = handle
                    .join()
                    .map_err(|_| EngineError::Refused("a thread of the bench panicked".into()))??;
                all.push(stats);
            }
            let mut outcome = Outcome::new(name, &clock, &all);
            plan.message.clone_into(&mut outcome.message);
            if let Some(before) = &before {
                outcome.figures.extend(ycsb::figures(before, &engine.stats()));
            }
            Ok(outcome)
        })
    }

    /// [`Runner::measure`] of a benchmark that has a line of its own.
    pub(crate) fn measure_named(&mut self, name: &str) -> Result<Outcome, EngineError> {
        match plan_of(name) {
            Some(plan) => self.measure(name, plan),
            None => Err(EngineError::Refused(format!("no benchmark {name}"))),
        }
    }
}

//! YCSB on the engine: `ycsbload`, then the workloads `ycsba` to `ycsbh`.
//!
//! As in YCSB, --num is the number of records in all and --operations that of one run, of all threads
//! together. Keys are the hashed numbers of the records (`insertorder=hashed`). A record is one value: an update
//! writes it whole, as the thesis' key-value pairs; YCSB's own bindings replace one field of ten.

mod distribution;
mod records;
mod workload;

pub(crate) use distribution::Distribution;
pub(crate) use records::Records;
pub(crate) use workload::OPERATIONS;

use crate::benchmarks::Worker;
use crate::flags::Flags;
use distribution::{Chooser, fnv64};
use sexton_engine::{EngineError, Stats, SyncPolicy};
use workload::{Operation, Workload};

/// One run of a workload, before its threads start.
#[derive(Debug)]
pub(crate) struct Run {
    workload: Workload,
    chooser: Chooser,
}

/// The letter of a benchmark's name.
fn letter_of(name: &str) -> Option<char> {
    let mut letters = name.strip_prefix("ycsb")?.chars();
    letters.next().filter(|_| letters.next().is_none())
}

impl Run {
    /// That of the benchmark `name` on the records there are; `None` when it is none of YCSB's.
    pub(crate) fn of(name: &str, flags: &Flags, records: &Records) -> Option<Self> {
        let workload = Workload::of(letter_of(name)?)?;
        let distribution = flags.request_distribution.unwrap_or(workload.distribution);
        let inserts = workload.inserts(flags.operations());
        Some(Self { workload, chooser: Chooser::new(distribution, records.limit(), inserts) })
    }
}

/// True for the names of the workloads.
pub(crate) fn is_workload(name: &str) -> bool {
    letter_of(name).is_some_and(|letter| Workload::of(letter).is_some())
}

/// `ycsbload`: each thread inserts its share of the records.
pub(crate) fn load(worker: &mut Worker<'_>) -> Result<(), EngineError> {
    let step = worker.flags.threads as u64;
    let mut number = worker.thread as u64;
    while number < worker.flags.num {
        worker.put(fnv64(number))?;
        worker.stats.finish_one(worker.bytes_of_entry());
        number += step;
    }
    sync_last(worker)
}

/// A workload's share of one thread.
pub(crate) fn run(worker: &mut Worker<'_>) -> Result<(), EngineError> {
    let (Some(run), records) = (worker.ycsb, worker.records) else {
        return Err(EngineError::Refused("not one of YCSB's workloads".into()));
    };
    let mut chooser = run.chooser.clone();
    let (threads, thread) = (worker.flags.threads as u64, worker.thread as u64);
    let all = worker.flags.operations();
    let count = all / threads + u64::from(thread < all % threads);
    while worker.goes_on(count) {
        let percent = worker.random.below(100);
        let operation = run.workload.operation(percent);
        let bytes = worker.bytes_of_entry();
        match operation {
            Operation::Insert => {
                let number = records.begin(worker.thread);
                worker.put(fnv64(number))?;
                records.written(worker.thread);
            }
            Operation::Update => {
                let number = chooser.next(&mut worker.random, records.limit());
                worker.put(fnv64(number))?;
            }
            Operation::Read | Operation::ReadModifyWrite => {
                let number = chooser.next(&mut worker.random, records.limit());
                let found = worker.get(fnv64(number))?;
                worker.stats.looked_up(found);
                if operation == Operation::ReadModifyWrite {
                    worker.put(fnv64(number))?;
                }
            }
        }
        worker.stats.finish_kind(operation as usize, bytes);
    }
    sync_last(worker)
}

/// The clock stops when the last byte is synced (N14).
fn sync_last(worker: &Worker<'_>) -> Result<(), EngineError> {
    match worker.flags.sync_policy() {
        SyncPolicy::EverySec | SyncPolicy::Always => {
            worker.engine.sync_through(worker.engine.last_seq())
        }
        SyncPolicy::Off | SyncPolicy::No => Ok(()),
    }
}

/// What the engine did during a run: figures of the report.
pub(crate) fn figures(before: &Stats, after: &Stats) -> Vec<(String, f64)> {
    let flushed = after.flushed_bytes + after.compaction_written_bytes
        - before.flushed_bytes
        - before.compaction_written_bytes;
    let parts = [
        ("cold reads", (after.cold_reads - before.cold_reads) as f64),
        ("stalls", (after.stalls - before.stalls) as f64),
        ("stall ms", (after.stall_ms - before.stall_ms) as f64),
        ("waits for the log", (after.log_delayed - before.log_delayed) as f64),
        ("flushes", (after.flushes - before.flushes) as f64),
        ("compactions", (after.compactions - before.compactions) as f64),
        ("table bytes written", flushed as f64),
        ("log bytes written", (after.log_written_bytes - before.log_written_bytes) as f64),
        ("log syncs", (after.log_syncs - before.log_syncs) as f64),
        ("oldest unsynced ms", after.largest_unsynced_age_ms as f64),
        ("compaction debt at start", before.compaction_debt_bytes as f64),
        ("compaction debt at end", after.compaction_debt_bytes as f64),
    ];
    let (hits, misses) =
        (after.dram_hits - before.dram_hits, after.dram_misses - before.dram_misses);
    let mut figures = parts.map(|(name, value)| (name.to_owned(), value)).to_vec();
    if hits + misses > 0 {
        figures.push(("dram hit ratio".to_owned(), hits as f64 / (hits + misses) as f64));
    }
    figures
}

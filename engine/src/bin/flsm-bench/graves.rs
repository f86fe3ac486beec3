//! Benchmarks of the cemetery itself: a Get beside graves, and its bound while masses are deleted.

use crate::database::DB;
use crate::random::{Values, write_key};
use crate::runner::Runner;
use crate::stats::{Clock, Outcome, Stats};
use sexton_engine::{EngineError, SnapshotOptions};

/// `getgraves` reads beside --graves of them, and beside this many times as many.
const GRAVES_FACTOR: u64 = 10;

/// Deletes between two looks at the cemetery's memory in `massdelete`: looking takes every latch.
const LOOK_DELETES: u64 = 10_000;

/// `getgraves`: CPU of a Get with none, --graves, and ten times --graves, on keys that have none. A snapshot from
/// before the deletes keeps burial from taking the graves away while Gets are measured.
pub(crate) fn beside_graves(runner: &mut Runner) -> Result<(), EngineError> {
    let flags = runner.flags.clone();
    if !flags.use_existing_db {
        runner.measure_named("fillrandom")?;
    }
    // The keys to be deleted lie behind those that are read, in tables.
    let most = flags.graves * GRAVES_FACTOR;
    let mut key = vec![0; flags.key_size];
    let mut values = Values::new(flags.compression_ratio, flags.value_size, 1);
    let engine = runner.engine()?;
    for number in 0..most {
        write_key(&mut key, flags.num + number);
        engine.put(DB, &key, values.next(flags.value_size))?;
    }
    engine.flush()?;
    runner.wait_until_idle()?;
    let before = runner.engine()?.snapshot(SnapshotOptions::default())?;
    let mut figures = Vec::new();
    let mut base = 0.0;
    let mut deleted = 0;
    let mut last = None;
    for graves in [0, flags.graves, most] {
        let engine = runner.engine()?;
        while deleted < graves {
            write_key(&mut key, flags.num + deleted);
            engine.delete(DB, &key)?;
            deleted += 1;
        }
        engine.flush()?;
        runner.wait_until_idle()?;
        // Once for the caches, which have blocks of deleted keys now.
        runner.measure_named("readrandom")?;
        let outcome = runner.measure_named("readrandom")?;
        let stats = runner.engine()?.stats();
        let cpu_us = outcome.cpu_us_per_op();
        if graves == 0 {
            base = cpu_us;
        }
        figures.push((format!("{graves} graves: CPU us/op"), cpu_us));
        figures.push((format!("{graves} graves: us/op"), outcome.micros_per_op()));
        if graves > 0 {
            let there = stats.graves.max(1) as f64;
            figures.push((format!("{graves} graves: CPU with / without"), cpu_us / base));
            figures.push((format!("{graves} graves: there at the end"), stats.graves as f64));
            figures.push((format!("{graves} graves: spilled"), stats.graves_spilled as f64));
            let memory = stats.graves_bytes as f64 / there;
            figures.push((format!("{graves} graves: bytes of memory each"), memory));
            let file = stats.grave_runs_bytes as f64 / stats.graves_spilled.max(1) as f64;
            figures.push((format!("{graves} graves: bytes of run each"), file));
        }
        last = Some(outcome);
    }
    drop(before);
    if let Some(mut outcome) = last {
        "getgraves".clone_into(&mut outcome.name);
        outcome.figures = figures;
        finish(runner, outcome);
    }
    Ok(())
}

/// `massdelete`: all keys are written in order and deleted in the order of their hashes, so that none can be
/// dropped with its neighbours; how much memory the cemetery takes meanwhile.
pub(crate) fn mass_delete(runner: &mut Runner) -> Result<(), EngineError> {
    if !runner.flags.use_existing_db {
        runner.measure_named("fillseq")?;
    }
    let flags = runner.flags.clone();
    let mut key = vec![0; flags.key_size];
    let engine = runner.engine()?;
    engine.flush()?;
    let mut all = Stats::new(false, None);
    let clock = Clock::start();
    all.start();
    let (mut most_bytes, mut most_runs, mut most_graves) = (0, 0, 0);
    for number in 0..flags.num {
        write_key(&mut key, scattered(number, flags.num));
        engine.delete(DB, &key)?;
        all.finish_one(0);
        if number % LOOK_DELETES == 0 {
            let stats = engine.stats();
            most_bytes = most_bytes.max(stats.graves_bytes - stats.grave_runs_memory_bytes);
            most_runs = most_runs.max(stats.grave_runs);
            most_graves = most_graves.max(stats.graves);
        }
    }
    all.stop();
    let mut outcome = Outcome::new("massdelete", &clock, &[all]);
    let stats = engine.stats();
    outcome.message = "delete".to_owned();
    outcome.figures = vec![
        ("bound of the cemetery, bytes".to_owned(), flags.cemetery_max_memory as f64),
        ("most bytes of graves in memory".to_owned(), most_bytes as f64),
        ("most graves".to_owned(), most_graves as f64),
        ("most grave runs".to_owned(), most_runs as f64),
        ("bytes spilled".to_owned(), stats.graves_spilled_bytes as f64),
        ("bytes of runs merged".to_owned(), stats.graves_merged_bytes as f64),
        (
            "bytes of filters and indexes at the end".to_owned(),
            stats.grave_runs_memory_bytes as f64,
        ),
        ("graves at the end".to_owned(), stats.graves as f64),
        ("stall, ms".to_owned(), stats.stall_ms as f64),
    ];
    finish(runner, outcome);
    Ok(())
}

/// A permutation of the numbers below `of`: multiplied by a prime that does not divide it.
fn scattered(number: u64, of: u64) -> u64 {
    const PRIMES: [u64; 2] = [2_654_435_761, 4_294_967_291];
    let prime = if of.is_multiple_of(PRIMES[0]) { PRIMES[1] } else { PRIMES[0] };
    (u128::from(number) * u128::from(prime) % u128::from(of)) as u64
}

fn finish(runner: &mut Runner, outcome: Outcome) {
    outcome.print();
    runner.outcomes.push(outcome);
}

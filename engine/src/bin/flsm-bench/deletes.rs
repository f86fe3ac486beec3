//! Benchmarks of what deletes do to later reads: a queue, the tombstone trap, Get beside graves.

use crate::benchmarks::Worker;
use crate::database::DB;
use crate::random::{Random, Values, write_key};
use crate::runner::Runner;
use crate::stats::{Clock, Outcome, Stats};
use sexton_engine::{Engine, EngineError, IterOptions};
use std::hint::black_box;
use std::time::Instant;

/// Parts of the queue's run, each with a figure of its own.
const QUEUE_PARTS: u64 = 10;
/// Entries that `trap` reads from the head, and steps after each of its seeks.
const HEAD_ENTRIES: u64 = 10;
/// Seeks of `trap` at each of its moments, spread over all keys.
const TRAP_SEEKS: u64 = 40;
const TRAP_SEED: u64 = 77;

/// `deleteheadinsert`: each operation puts at the tail and deletes at the head. Every thread has a queue.
pub(crate) fn head_and_tail(worker: &mut Worker<'_>) -> Result<(), EngineError> {
    let length = worker.flags.queue_length;
    let base = (worker.thread as u64) << 40;
    for number in 0..length {
        worker.put(base + number)?;
    }
    worker.stats.start();
    for number in 0..worker.flags.num {
        worker.put(base + length + number)?;
        worker.delete(base + number)?;
        worker.stats.finish_one((worker.key.len() + worker.flags.value_size) as u64);
    }
    Ok(())
}

/// `queue`: like `deleteheadinsert` on one thread, and after each step a new iterator seeks to the head.
pub(crate) fn queue(runner: &mut Runner) -> Result<(), EngineError> {
    runner.start_fresh()?;
    let flags = runner.flags.clone();
    let engine = runner.engine()?;
    let mut values = Values::new(flags.compression_ratio, flags.value_size, 1);
    let mut key = vec![0; flags.key_size];
    let mut put = |number: u64| {
        write_key(&mut key, number);
        engine.put(DB, &key, values.next(flags.value_size))
    };
    for number in 0..flags.queue_length {
        put(number)?;
    }
    let mut key = vec![0; flags.key_size];
    let mut all = Stats::new(true, None);
    let mut parts = Vec::new();
    let part_length = flags.num.div_ceil(QUEUE_PARTS);
    let clock = Clock::start();
    all.start();
    let mut seeks_ns = 0;
    for number in 0..flags.num {
        put(flags.queue_length + number)?;
        write_key(&mut key, number);
        engine.delete(DB, &key)?;
        let start = Instant::now();
        let mut iter = engine.iter(&IterOptions { db: DB, ..IterOptions::default() });
        iter.seek_to_first()?;
        write_key(&mut key, number + 1);
        let at_head = iter.valid() && iter.key() == key;
        seeks_ns += start.elapsed().as_nanos() as u64;
        if !at_head {
            return Err(EngineError::Corrupt(format!("the head after step {number} is not there")));
        }
        all.finish_read(at_head, (flags.key_size + flags.value_size) as u64);
        if (number + 1) % part_length == 0 || number + 1 == flags.num {
            let steps = number % part_length + 1;
            parts.push(seeks_ns as f64 / steps as f64 / 1e3);
            seeks_ns = 0;
        }
    }
    all.stop();
    let mut outcome = Outcome::new("queue", &clock, &[all]);
    outcome.message = "step (put, delete, seek)".to_owned();
    for (i, us) in parts.iter().enumerate() {
        outcome.figures.push((format!("seek to head, part {}, us", i + 1), *us));
    }
    if let (Some(first), Some(last)) = (parts.first(), parts.last()) {
        outcome.figures.push(("last part / first part".to_owned(), last / first));
    }
    finish(runner, outcome);
    Ok(())
}

/// Microseconds of a seek to the head with the first entries, then of one seek with its steps, as the mean
/// of several over all keys.
fn read_head(engine: &Engine, num: u64, key: &mut [u8]) -> Result<(f64, f64), EngineError> {
    let options = IterOptions { db: DB, ..IterOptions::default() };
    let walk = |from: Option<&[u8]>| -> Result<(), EngineError> {
        let mut iter = engine.iter(&options);
        iter.seek(from.unwrap_or_default())?;
        for _ in 0..HEAD_ENTRIES {
            if !iter.valid() {
                break;
            }
            black_box((iter.key(), iter.value()));
            iter.next()?;
        }
        Ok(())
    };
    let start = Instant::now();
    walk(None)?;
    let head_us = start.elapsed().as_secs_f64() * 1e6;
    let mut random = Random::new(TRAP_SEED);
    let start = Instant::now();
    for _ in 0..TRAP_SEEKS {
        write_key(key, random.below(num));
        walk(Some(key))?;
    }
    Ok((head_us, start.elapsed().as_secs_f64() * 1e6 / TRAP_SEEKS as f64))
}

/// `trap`: the tombstone trap of LSM-trees, a long prefix of deleted keys in front of a scan, on a store of --num keys, of which the first --deletes go.
pub(crate) fn trap(runner: &mut Runner) -> Result<(), EngineError> {
    let flags = runner.flags.clone();
    let mut key = vec![0; flags.key_size];
    if !flags.use_existing_db {
        runner.measure_named("fillseq")?;
        runner.reopen()?;
        runner.wait_until_idle()?;
    }
    let clock = Clock::start();
    let mut figures = Vec::new();
    let mut look = |runner: &mut Runner, moment: &str| -> Result<(), EngineError> {
        let (head_us, seek_us) = read_head(runner.engine()?, flags.num, &mut key)?;
        figures.push((format!("{moment}: first {HEAD_ENTRIES} entries, us"), head_us));
        figures.push((format!("{moment}: seek + {HEAD_ENTRIES} next, us"), seek_us));
        Ok(())
    };
    look(runner, "undeleted, cold")?;
    look(runner, "undeleted")?;
    let deletes = runner.measure_named("deleteseq")?;
    look(runner, "deleted, at once")?;
    look(runner, "deleted, again")?;
    runner.reopen()?;
    look(runner, "reopened, at once")?;
    look(runner, "reopened, again")?;
    runner.wait_until_idle()?;
    look(runner, "settled, at once")?;
    look(runner, "settled, again")?;
    let mut outcome = Outcome::new("trap", &clock, &[]);
    outcome.done = deletes.done;
    outcome.thread_seconds = deletes.thread_seconds;
    outcome.seconds = deletes.seconds;
    outcome.message = "delete".to_owned();
    outcome.figures = figures;
    finish(runner, outcome);
    Ok(())
}

/// `graves`: CPU of a Get without graves and with --graves of them, on keys that have none.
pub(crate) fn graves(runner: &mut Runner) -> Result<(), EngineError> {
    let flags = runner.flags.clone();
    if !flags.use_existing_db {
        runner.measure_named("fillrandom")?;
    }
    // The keys to be deleted lie behind those that are read, in tables, so that their graves stay.
    let mut key = vec![0; flags.key_size];
    let mut values = Values::new(flags.compression_ratio, flags.value_size, 1);
    let engine = runner.engine()?;
    for number in 0..flags.graves {
        write_key(&mut key, flags.num + number);
        engine.put(DB, &key, values.next(flags.value_size))?;
    }
    engine.flush()?;
    runner.wait_until_idle()?;
    // Once for the caches.
    runner.measure_named("readrandom")?;
    let without = runner.measure_named("readrandom")?;
    let engine = runner.engine()?;
    for number in 0..flags.graves {
        write_key(&mut key, flags.num + number);
        engine.delete(DB, &key)?;
    }
    let (graves, bytes) = (engine.stats().graves, engine.stats().graves_bytes);
    let mut with = runner.measure_named("readrandom")?;
    let left = runner.engine()?.stats().graves;
    "graves".clone_into(&mut with.name);
    let per_grave = bytes as f64 / graves.max(1) as f64;
    with.figures = vec![
        ("graves at the start".to_owned(), graves as f64),
        ("graves at the end".to_owned(), left as f64),
        ("bytes of memory a grave".to_owned(), per_grave),
        ("us/op without graves".to_owned(), without.micros_per_op()),
        ("us/op with graves".to_owned(), with.micros_per_op()),
        ("with / without".to_owned(), with.micros_per_op() / without.micros_per_op()),
    ];
    finish(runner, with);
    Ok(())
}

fn finish(runner: &mut Runner, outcome: Outcome) {
    outcome.print();
    runner.outcomes.push(outcome);
}

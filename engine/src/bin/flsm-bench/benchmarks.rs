//! The loops of the benchmarks. Nothing in them allocates.

use crate::database::DB;
use crate::flags::Flags;
use crate::random::{Random, Shuffled, Values, write_key};
use crate::stats::Stats;
use crate::ycsb;
use sexton_engine::{Commit, Engine, EngineError, IterOptions, SyncPolicy};
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Operations between two looks at the clock, with --duration.
const DURATION_LOOK: u64 = 1000;
/// `readhot` reads this share of the keys, in percent.
const HOT_PERCENT: u64 = 1;

/// One thread of a benchmark.
pub(crate) struct Worker<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) flags: &'a Flags,
    pub(crate) stats: Stats,
    pub(crate) random: Random,
    pub(crate) values: Values,
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
    pub(crate) thread: usize,
    /// Threads that have not ended; the writer beside them ends with the last one.
    pub(crate) running: &'a AtomicUsize,
    /// YCSB's records, and the workload that runs.
    pub(crate) records: &'a ycsb::Records,
    pub(crate) ycsb: Option<&'a ycsb::Run>,
}

type Done = Result<(), EngineError>;

/// Operations of one thread, for the progress.
pub(crate) fn operations_of(flags: &Flags, message: &str) -> u64 {
    match message {
        "read" | "seek" => flags.reads(),
        "delete" => flags.deletes(),
        "operation" => flags.operations() / flags.threads as u64,
        _ => flags.num,
    }
}

impl Worker<'_> {
    /// True until `count` operations are done, or with --duration until the time is over.
    #[inline]
    pub(crate) fn goes_on(&self, count: u64) -> bool {
        let done = self.stats.done;
        if self.flags.duration_s == 0 {
            return done < count;
        }
        let limit = Duration::from_secs(self.flags.duration_s);
        // An operation that waits for its sync takes long enough to look each time.
        let looks = match self.flags.sync_policy() {
            SyncPolicy::Always => 1,
            _ => DURATION_LOOK,
        };
        !done.is_multiple_of(looks) || self.stats.elapsed() < limit
    }

    #[inline]
    pub(crate) fn bytes_of_entry(&self) -> u64 {
        (self.key.len() + self.flags.value_size) as u64
    }

    pub(crate) fn random_number(&mut self) -> u64 {
        self.random.below(self.flags.num)
    }

    #[inline]
    pub(crate) fn done(&self, commit: Commit) -> Done {
        match self.flags.sync_policy() {
            SyncPolicy::Always => self.engine.sync_through(commit.last_seq),
            _ => Ok(()),
        }
    }

    #[inline]
    pub(crate) fn put(&mut self, number: u64) -> Done {
        write_key(&mut self.key, number);
        let value = self.values.next(self.flags.value_size);
        let commit = self.engine.put(DB, &self.key, value)?;
        self.done(commit)
    }

    #[inline]
    pub(crate) fn delete(&mut self, number: u64) -> Done {
        write_key(&mut self.key, number);
        let commit = self.engine.delete(DB, &self.key)?;
        self.done(commit)
    }

    #[inline]
    pub(crate) fn get(&mut self, number: u64) -> Result<bool, EngineError> {
        write_key(&mut self.key, number);
        self.value.clear();
        self.engine.get_into(DB, &self.key, &mut self.value)
    }

    #[inline]
    fn read(&mut self, number: u64) -> Done {
        let found = self.get(number)?;
        let bytes = if found { (self.key.len() + self.value.len()) as u64 } else { 0 };
        self.stats.finish_read(found, bytes);
        Ok(())
    }
}

pub(crate) fn noop(worker: &mut Worker<'_>) -> Done {
    while worker.goes_on(worker.flags.num) {
        let number = worker.random_number();
        write_key(&mut worker.key, number);
        black_box(&worker.key);
        black_box(worker.values.next(worker.flags.value_size));
        worker.stats.finish_one(worker.bytes_of_entry());
    }
    Ok(())
}

pub(crate) fn write_in_order(worker: &mut Worker<'_>) -> Done {
    for number in 0..worker.flags.num {
        worker.put(number)?;
        worker.stats.finish_one(worker.bytes_of_entry());
    }
    Ok(())
}

pub(crate) fn write_random(worker: &mut Worker<'_>) -> Done {
    while worker.goes_on(worker.flags.num) {
        let number = worker.random_number();
        worker.put(number)?;
        worker.stats.finish_one(worker.bytes_of_entry());
    }
    Ok(())
}

/// Every key once.
pub(crate) fn write_shuffled(worker: &mut Worker<'_>) -> Done {
    for number in Shuffled::new(worker.flags.num, &mut worker.random) {
        worker.put(number)?;
        worker.stats.finish_one(worker.bytes_of_entry());
    }
    Ok(())
}

pub(crate) fn write_synced(worker: &mut Worker<'_>) -> Done {
    // db_bench, too, writes a thousandth of the keys here.
    for _ in 0..worker.flags.num.div_ceil(1000) {
        let number = worker.random_number();
        write_key(&mut worker.key, number);
        let value = worker.values.next(worker.flags.value_size);
        let commit = worker.engine.put(DB, &worker.key, value)?;
        worker.engine.sync_through(commit.last_seq)?;
        worker.stats.finish_one(worker.bytes_of_entry());
    }
    Ok(())
}

/// The writer of the ...whilewriting benchmarks: overwrites random keys until the others have ended.
pub(crate) fn write_beside(worker: &mut Worker<'_>) -> Done {
    let limit = worker.flags.write_rate_limit;
    while worker.running.load(Ordering::Acquire) > 0 {
        let number = worker.random_number();
        worker.put(number)?;
        worker.stats.finish_one(worker.bytes_of_entry());
        if limit > 0 {
            let due = Duration::from_secs_f64(worker.stats.bytes as f64 / limit as f64);
            if let Some(early) = due.checked_sub(worker.stats.elapsed()) {
                std::thread::sleep(early.min(Duration::from_millis(100)));
            }
        }
    }
    Ok(())
}

pub(crate) fn update_random(worker: &mut Worker<'_>) -> Done {
    while worker.goes_on(worker.flags.num) {
        let number = worker.random_number();
        let found = worker.get(number)?;
        worker.put(number)?;
        worker.stats.finish_read(found, worker.bytes_of_entry());
    }
    Ok(())
}

pub(crate) fn read_or_write(worker: &mut Worker<'_>) -> Done {
    while worker.goes_on(worker.flags.num) {
        let number = worker.random_number();
        if worker.random.below(100) < worker.flags.read_random_percent {
            worker.read(number)?;
        } else {
            worker.put(number)?;
            worker.stats.finish_one(worker.bytes_of_entry());
        }
    }
    Ok(())
}

pub(crate) fn delete_in_order(worker: &mut Worker<'_>) -> Done {
    for number in 0..worker.flags.deletes() {
        worker.delete(number)?;
        worker.stats.finish_one(0);
    }
    Ok(())
}

pub(crate) fn delete_random(worker: &mut Worker<'_>) -> Done {
    while worker.goes_on(worker.flags.deletes()) {
        let number = worker.random_number();
        worker.delete(number)?;
        worker.stats.finish_one(0);
    }
    Ok(())
}

pub(crate) fn read_random(worker: &mut Worker<'_>) -> Done {
    while worker.goes_on(worker.flags.reads()) {
        let number = worker.random_number();
        worker.read(number)?;
    }
    Ok(())
}

pub(crate) fn read_hot(worker: &mut Worker<'_>) -> Done {
    let hot = (worker.flags.num * HOT_PERCENT).div_ceil(100);
    while worker.goes_on(worker.flags.reads()) {
        let number = worker.random.below(hot);
        worker.read(number)?;
    }
    Ok(())
}

pub(crate) fn read_forward(worker: &mut Worker<'_>) -> Done {
    let mut iter = worker.engine.iter(&IterOptions { db: DB, ..IterOptions::default() });
    iter.seek_to_first()?;
    while worker.stats.done < worker.flags.reads() && iter.valid() {
        let bytes = black_box(iter.key()).len() + black_box(iter.value()).len();
        worker.stats.finish_one(bytes as u64);
        iter.next()?;
    }
    Ok(())
}

pub(crate) fn read_backward(worker: &mut Worker<'_>) -> Done {
    let mut iter = worker.engine.iter(&IterOptions { db: DB, ..IterOptions::default() });
    iter.seek_to_last()?;
    while worker.stats.done < worker.flags.reads() && iter.valid() {
        let bytes = black_box(iter.key()).len() + black_box(iter.value()).len();
        worker.stats.finish_one(bytes as u64);
        iter.prev()?;
    }
    Ok(())
}

/// A new iterator for each seek, as db_bench does.
pub(crate) fn seek_random(worker: &mut Worker<'_>) -> Done {
    let options = IterOptions { db: DB, ..IterOptions::default() };
    while worker.goes_on(worker.flags.reads()) {
        let number = worker.random_number();
        write_key(&mut worker.key, number);
        let mut iter = worker.engine.iter(&options);
        iter.seek(&worker.key)?;
        let found = iter.valid() && iter.key() == worker.key;
        let mut bytes = 0;
        for step in 0..=worker.flags.seek_nexts {
            if !iter.valid() {
                break;
            }
            bytes += black_box(iter.key()).len() + black_box(iter.value()).len();
            if step < worker.flags.seek_nexts {
                iter.next()?;
            }
        }
        worker.stats.finish_read(found, bytes as u64);
    }
    Ok(())
}

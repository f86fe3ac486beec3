//! Benchmarks of readers of the past: the MVCC study, and what a held snapshot costs the newest state.

use crate::database::{self, DB, DB_DEVICE, UNDO_DEVICE};
use crate::flags::Flags;
use crate::random::{Random, Shuffled, Values, write_key};
use crate::runner::Runner;
use crate::stats::{Clock, Outcome};
use sexton_engine::{Engine, EngineError, IterOptions, Snapshot, SnapshotOptions};
use sexton_persistence::device::{DeviceFigures, PlacedStorage};
use std::sync::Arc;
use std::time::{Duration, Instant};
use xxhash_rust::xxh3::xxh3_64;

/// How transaction A reads its data again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reread {
    /// A scan of everything.
    Ahead,
    /// A scan of everything, one block per read, as the database of the study did.
    Block,
    /// Gets of random keys, one by one.
    Single,
    /// The keys of [`Reread::Single`] in one batch, which the engine sorts into block order.
    Batch,
}

impl Reread {
    pub(crate) const ALL: [Self; 4] = [Self::Ahead, Self::Block, Self::Single, Self::Batch];

    pub(crate) fn parse(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|reread| reread.name() == name);
        found.ok_or_else(|| "a list of ahead, block, single and batch".to_owned())
    }

    fn name(self) -> &'static str {
        match self {
            Self::Ahead => "ahead",
            Self::Block => "block",
            Self::Single => "single",
            Self::Batch => "batch",
        }
    }
}

/// The transactions that overwrite what A has inserted.
const WRITERS: [&str; 3] = ["B", "C", "D"];

/// Seed of the order in which the writers come to the keys, and A to those it gets.
const SEED: u64 = 4;

type Named = Vec<(String, f64)>;

/// One run of the study: the store, and what A has seen.
struct Study<'f> {
    flags: &'f Flags,
    engine: Engine,
    storage: Arc<PlacedStorage>,
    values: Values,
    random: Random,
    key: Vec<u8>,
    /// Hash of the value that each key has for A.
    seen: Vec<u64>,
    figures: Named,
}

/// What the devices have done.
struct Figures {
    tree: DeviceFigures,
    /// All zero where undo runs are on the device of the tables.
    undo: DeviceFigures,
}

impl Figures {
    fn of(storage: &PlacedStorage) -> Self {
        let figures = |name: &str| {
            let device = storage.devices().iter().find(|device| device.name() == name);
            device.map(|device| device.figures()).unwrap_or_default()
        };
        Self { tree: figures(DB_DEVICE), undo: figures(UNDO_DEVICE) }
    }
}

/// `mvccundo`: A inserts and commits, opens a snapshot and reads all; B, C and D overwrite all in turn; A reads
/// all again at its snapshot.
pub(crate) fn mvcc_undo(runner: &mut Runner) -> Result<(), EngineError> {
    runner.close()?;
    let flags = runner.flags.clone();
    let (engine, storage) = database::open_on_devices(&flags)?;
    for device in storage.devices().iter().filter(|device| device.emulated().is_some()) {
        let profile = device.emulated().unwrap_or_default();
        println!("emulated     : device {} as {profile}", device.name());
    }
    let clock = Clock::start();
    let mut study = Study {
        flags: &flags,
        engine,
        storage,
        values: Values::new(flags.compression_ratio, flags.value_size, SEED),
        random: Random::new(SEED),
        key: vec![0; flags.key_size],
        seen: vec![0; flags.num as usize],
        figures: Vec::new(),
    };
    study.run()?;
    let Study { engine, figures, .. } = study;
    let mut outcome = Outcome::new("mvccundo", &clock, &[]);
    outcome.done = (1 + WRITERS.len() as u64) * flags.num;
    outcome.message = "write".to_owned();
    outcome.figures = figures;
    engine.close()?;
    outcome.print();
    runner.outcomes.push(outcome);
    Ok(())
}

impl Study<'_> {
    fn run(&mut self) -> Result<(), EngineError> {
        let num = self.flags.num;
        self.write("insert", 0..num)?;
        let options = SnapshotOptions { name: "A".to_owned(), timeout_ms: 0 };
        let snapshot = self.engine.snapshot(options)?;
        let begun = Instant::now();
        self.scan(&snapshot, None, true)?;
        self.figure("first_read_s", begun.elapsed().as_secs_f64());
        let before = Figures::of(&self.storage);
        for name in WRITERS {
            let order = Shuffled::new(num, &mut self.random);
            self.write(&format!("overwrite_{name}"), order)?;
        }
        let after = Figures::of(&self.storage);
        let stats = self.engine.stats();
        let writes_us = after.undo.writes.total_us - before.undo.writes.total_us;
        self.figure("undo_write_s", writes_us as f64 / 1e6);
        self.figure("undo_bytes", stats.undo_bytes as f64);
        self.figure("undo_written_bytes", stats.undo_written_bytes as f64);
        self.figure("undo_runs", stats.undo_runs as f64);
        let tree_bytes: u64 = stats.levels.iter().map(|level| level.1).sum();
        self.figure("tree_bytes", tree_bytes as f64);
        for reread in self.flags.rereads.clone() {
            self.read_again(&snapshot, reread)?;
        }
        Ok(())
    }

    fn figure(&mut self, name: &str, value: f64) {
        self.figures.push((name.to_owned(), value));
    }

    /// Writes `order` and waits until nothing of it is in memory and all is merged.
    fn write(&mut self, name: &str, order: impl Iterator<Item = u64>) -> Result<(), EngineError> {
        let begun = Instant::now();
        for number in order {
            write_key(&mut self.key, number);
            self.engine.put(DB, &self.key, self.values.next(self.flags.value_size))?;
        }
        self.engine.flush()?;
        if !database::wait_until_idle(&self.engine, Duration::from_secs(self.flags.settle_s)) {
            return Err(EngineError::Refused(format!(
                "{name}: background work goes on after --settle={} seconds",
                self.flags.settle_s
            )));
        }
        self.figure(&format!("{name}_s"), begun.elapsed().as_secs_f64());
        Ok(())
    }

    fn read_again(&mut self, snapshot: &Snapshot, reread: Reread) -> Result<(), EngineError> {
        let before = Figures::of(&self.storage);
        let begun = Instant::now();
        let keys = match reread {
            Reread::Ahead => self.scan(snapshot, None, false)?,
            Reread::Block => self.scan(snapshot, Some(0), false)?,
            Reread::Single => self.get(snapshot, false)?,
            Reread::Batch => self.get(snapshot, true)?,
        };
        let seconds = begun.elapsed().as_secs_f64();
        let after = Figures::of(&self.storage);
        let reads = |f: fn(&Figures) -> u64| (f(&after) - f(&before)) as f64;
        let named = [
            ("s", seconds),
            ("keys", keys as f64),
            ("tree_reads", reads(|f| f.tree.reads.operations)),
            ("tree_read_bytes", reads(|f| f.tree.read_bytes)),
            ("undo_reads", reads(|f| f.undo.reads.operations)),
            ("undo_read_bytes", reads(|f| f.undo.read_bytes)),
            ("undo_read_s", reads(|f| f.undo.reads.total_us) / 1e6),
        ];
        for (name, value) in named {
            self.figure(&format!("reread_{}_{name}", reread.name()), value);
        }
        Ok(())
    }

    /// Reads everything in key order. The first time it is noted, then compared.
    fn scan(
        &mut self,
        snapshot: &Snapshot,
        read_ahead_bytes_max: Option<usize>,
        is_first: bool,
    ) -> Result<u64, EngineError> {
        let mut iter =
            snapshot.iter(&IterOptions { db: DB, read_ahead_bytes_max, ..Default::default() })?;
        iter.seek_to_first()?;
        let mut keys = 0;
        while iter.valid() {
            write_key(&mut self.key, keys);
            let hash = xxh3_64(iter.value());
            let seen = self.seen.get_mut(keys as usize).filter(|_| iter.key() == self.key);
            match seen {
                Some(seen) if is_first => *seen = hash,
                Some(seen) if *seen == hash => {}
                _ => return Err(wrong(keys)),
            }
            keys += 1;
            iter.next()?;
        }
        if keys == self.flags.num { Ok(keys) } else { Err(wrong(keys)) }
    }

    /// Gets --reads random keys.
    fn get(&mut self, snapshot: &Snapshot, in_batch: bool) -> Result<u64, EngineError> {
        // The same keys each time.
        let mut random = Random::new(SEED);
        let numbers: Vec<u64> =
            (0..self.flags.reads()).map(|_| random.below(self.flags.num)).collect();
        let check = |seen: &[u64], number: u64, value: &[u8]| {
            if seen[number as usize] == xxh3_64(value) { Ok(()) } else { Err(wrong(number)) }
        };
        if in_batch {
            let keys: Vec<Vec<u8>> = numbers
                .iter()
                .map(|&number| {
                    write_key(&mut self.key, number);
                    self.key.clone()
                })
                .collect();
            let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            let values = snapshot.get_many(DB, &keys)?;
            for (&number, value) in std::iter::zip(&numbers, values) {
                check(&self.seen, number, &value.ok_or_else(|| wrong(number))?.value)?;
            }
        } else {
            for &number in &numbers {
                write_key(&mut self.key, number);
                let value = snapshot.get(DB, &self.key)?.ok_or_else(|| wrong(number))?;
                check(&self.seen, number, &value.value)?;
            }
        }
        Ok(numbers.len() as u64)
    }
}

fn wrong(number: u64) -> EngineError {
    EngineError::Corrupt(format!("the snapshot does not show key {number} as it was"))
}

/// `heldsnapshot`: overwrites random keys for long, under a held snapshot or without one, then reads the newest
/// state.
pub(crate) fn held_snapshot(runner: &mut Runner) -> Result<(), EngineError> {
    let flags = runner.flags.clone();
    let mut figures: Named = Vec::new();
    runner.measure_named("filluniquerandom")?;
    runner.engine()?.flush()?;
    runner.wait_until_idle()?;
    let filled_bytes = tree_bytes(runner.engine()?);
    let snapshot = if flags.held_snapshot {
        let options = SnapshotOptions { name: "held".to_owned(), timeout_ms: 0 };
        Some(runner.engine()?.snapshot(options)?)
    } else {
        None
    };
    let mut overwritten = vec![false; flags.num as usize];
    let clock = Clock::start();
    {
        let engine = runner.engine()?;
        let mut values = Values::new(flags.compression_ratio, flags.value_size, SEED);
        let mut random = Random::new(SEED);
        let mut key = vec![0; flags.key_size];
        for _ in 0..flags.overwrites * flags.num {
            let number = random.below(flags.num);
            overwritten[number as usize] = true;
            write_key(&mut key, number);
            engine.put(DB, &key, values.next(flags.value_size))?;
        }
        engine.flush()?;
    }
    let written_s = clock.seconds();
    runner.wait_until_idle()?;
    let mut outcome = Outcome::new("heldsnapshot", &clock, &[]);
    outcome.seconds = written_s;
    outcome.thread_seconds = written_s;
    outcome.done = flags.overwrites * flags.num;
    outcome.message = "write".to_owned();
    let stats = runner.engine()?.stats();
    figures.push(("held_snapshot".to_owned(), f64::from(u8::from(flags.held_snapshot))));
    figures.push(("write_us".to_owned(), outcome.micros_per_op()));
    figures.push(("write_cpu_us".to_owned(), outcome.cpu_us_per_op()));
    // Once for the caches.
    for (name, warm) in [("readrandom", true), ("readseq", true), ("seekrandom", true)]
        .into_iter()
        .chain([("readrandom", false), ("readseq", false), ("seekrandom", false)])
    {
        let measured = runner.measure_named(name)?;
        if !warm {
            figures.push((format!("{name}_us"), measured.micros_per_op()));
            figures.push((format!("{name}_cpu_us"), measured.cpu_us_per_op()));
        }
    }
    figures.push(("filled_tree_bytes".to_owned(), filled_bytes as f64));
    figures.push(("tree_bytes".to_owned(), tree_bytes(runner.engine()?) as f64));
    // What the snapshot needs and the newest state does not: the first version of each overwritten key, which
    // took its share of the filled tree.
    let distinct = overwritten.iter().filter(|&&is| is).count() as f64;
    let needed = if snapshot.is_some() { distinct / flags.num as f64 } else { 0.0 };
    figures.push(("undo_bytes_computed".to_owned(), needed * filled_bytes as f64));
    figures.push(("undo_bytes".to_owned(), stats.undo_bytes as f64));
    figures.push(("undo_runs".to_owned(), stats.undo_runs as f64));
    drop(snapshot);
    outcome.figures = figures;
    outcome.print();
    runner.outcomes.push(outcome);
    Ok(())
}

fn tree_bytes(engine: &Engine) -> u64 {
    engine.stats().levels.iter().map(|level| level.1).sum()
}

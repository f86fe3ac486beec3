//! Random histories, crashed anywhere: what is recovered is a prefix that holds everything acknowledged.
//!
//! `SEXTON_PMEM_CRASHES` says how many (make pmem-crashes).

use super::*;
use crate::device::sim::{CrashOptions, SimRandom};
use crate::pmem::sim::SimMode;

/// What the engine knows, and what of that survives in its manifest: the mark.
#[derive(Default)]
struct Model {
    ops: Vec<Op>,
    mark: u64,
    acknowledged: u64,
    next_seq: u64,
}

/// The pool and its users.
struct Rig {
    pool: Arc<PmemPool>,
    writers: Vec<Writer>,
    active: Arc<PmemArena>,
    /// Frozen ones with their marks, oldest first.
    frozen: Vec<(Arc<PmemArena>, u64)>,
}

type Checked = Result<(), String>;

/// Runs the history of a seed. Answers how many crashes it had, or what was wrong behind one.
pub(super) fn run_history(seed: u64) -> Result<u64, String> {
    let mut random = SimRandom::new(seed);
    let mut crashes = 0;
    let mode = if random.percent(30) { SimMode::Msync } else { SimMode::Pmem };
    let mut pmem = SimPmem::new(mode);
    let mut model = Model::default();
    for round in 0..1 + random.below(5) {
        // A crash in the middle of recovery, now and then.
        if random.percent(20) {
            pmem.power_off_after(random.below(12));
            drop(PmemPool::open(options(&pmem), model.mark));
            pmem = pmem.crash(random.next_u64(), crash_options(&mut random));
            crashes += 1;
        }
        let (pool, recovered) = PmemPool::open(options(&pmem), model.mark)
            .map_err(|error| format!("round {round}: {error}"))?;
        check(&recovered, &mut model).map_err(|what| format!("round {round}: {what}"))?;
        let mut rig = Rig::new(pool, recovered, 1 + random.below(3));
        if random.percent(40) {
            pmem.power_off_after(random.below(200));
        }
        for _ in 0..random.below(60) {
            let stepped = rig.step(&mut random, &mut model, &pmem);
            model.acknowledged = model.acknowledged.max(rig.pool.durable());
            // The engine would stop writes; here it is the power that has gone.
            if stepped.is_err() {
                break;
            }
        }
        let closes = random.percent(10);
        if closes && rig.writers.iter_mut().all(|writer| writer.fence().is_ok()) {
            model.acknowledged = model.acknowledged.max(rig.pool.durable());
            if rig.pool.close().is_ok() && model.acknowledged + 1 == model.next_seq {
                let (crashed, options) = (pmem.crash(1, CrashOptions::LOSE_ALL), options);
                let (_, recovered) = PmemPool::open(options(&crashed), model.mark)
                    .map_err(|error| format!("closed: {error}"))?;
                if recovered.next_seq != model.next_seq {
                    return Err(format!("closed at {}, not there", model.next_seq - 1));
                }
            }
        }
        pmem = pmem.crash(random.next_u64(), crash_options(&mut random));
        crashes += 1;
    }
    Ok(crashes)
}

fn crash_options(random: &mut SimRandom) -> CrashOptions {
    match random.below(4) {
        0 => CrashOptions::LOSE_ALL,
        // Only the process ends.
        1 => CrashOptions::KEEP_ALL,
        _ => CrashOptions { keep_percent: random.below(101), tear_percent: random.below(101) },
    }
}

/// Prefix, whole commits, everything acknowledged, no sequence twice.
fn check(recovered: &Recovered, model: &mut Model) -> Checked {
    let last = recovered.last_seq;
    if last < model.mark {
        return Err(format!("recovered to {last}, below the mark {}", model.mark));
    }
    let lost = model.ops.iter().find(|op| op.seq > last && op.seq <= model.acknowledged);
    if let Some(op) = lost {
        return Err(format!("recovered to {last}, {} was acknowledged", op.seq));
    }
    if recovered.next_seq < model.next_seq {
        return Err(format!("goes on at {}, used up to {}", recovered.next_seq, model.next_seq));
    }
    model.ops.retain(|op| op.seq <= last);
    if model.ops.last().is_some_and(|op| op.more) {
        return Err(format!("recovered to {last}, inside a commit"));
    }
    let expected: Vec<Op> = model.ops.iter().filter(|op| op.seq > model.mark).cloned().collect();
    let found = recovered_ops(recovered);
    if found != expected {
        let seqs = |ops: &[Op]| ops.iter().map(|op| op.seq).collect::<Vec<_>>();
        return Err(format!(
            "found {:?}, not {:?}, or other content",
            seqs(&found),
            seqs(&expected)
        ));
    }
    let bounds = recovered.arenas.iter().flat_map(|arena| [arena.first_seq, arena.last_seq]);
    if !bounds.is_sorted() {
        return Err("arenas overlap".to_owned());
    }
    model.next_seq = recovered.next_seq;
    model.acknowledged = last;
    Ok(())
}

impl Rig {
    fn new(pool: Arc<PmemPool>, recovered: Recovered, writers: u64) -> Self {
        let writers = (0..writers).map(|_| pool.writer().expect("there are eight places"));
        Self {
            writers: writers.collect(),
            active: pool.new_arena(),
            frozen: recovered
                .arenas
                .into_iter()
                .map(|found| (found.arena, found.last_seq))
                .collect(),
            pool,
        }
    }

    fn step(
        &mut self,
        random: &mut SimRandom,
        model: &mut Model,
        pmem: &SimPmem,
    ) -> PmemResult<()> {
        let nth = random.below(self.writers.len() as u64) as usize;
        match random.below(20) {
            0..=9 => self.commit(nth, random, model)?,
            10..=13 => self.writers[nth].fence()?,
            14 => self.freeze(model),
            // The manifest needs power, too.
            15 | 16 if pmem.is_on() => self.flush(model),
            17 => drop(self.pool.erase_retired()?),
            18 => self.pool.note_complete()?,
            // Somebody reads the active arena.
            19 => self.pool.copy_pending(),
            _ => {}
        }
        Ok(())
    }

    fn commit(&mut self, nth: usize, random: &mut SimRandom, model: &mut Model) -> PmemResult<()> {
        let count = if random.percent(70) { 1 } else { 1 + random.below(4) };
        let ops: Vec<Op> = (0..count)
            .map(|nth| {
                let seq = model.next_seq + nth;
                let len_max = if random.percent(3) { 12_000 } else { 300 };
                let value = vec![seq as u8 | 1; random.below(len_max) as usize];
                let op = if random.percent(25) { Op::delete(seq) } else { Op::put(seq, &value) };
                Op { more: nth + 1 < count, ..op }
            })
            .collect();
        match commit(&self.pool, &mut self.writers[nth], &self.active, &ops) {
            // The engine would wait; here nothing was written.
            Err(PmemError::Full { .. }) => return Ok(()),
            result => drop(result?),
        }
        model.next_seq += count;
        model.ops.extend(ops);
        Ok(())
    }

    fn freeze(&mut self, model: &Model) {
        self.pool.copy_pending();
        let frozen = std::mem::replace(&mut self.active, self.pool.new_arena());
        self.frozen.push((frozen, model.next_seq - 1));
    }

    /// Installs the oldest frozen arena if everything in it is durable (D1).
    fn flush(&mut self, model: &mut Model) {
        let Some((_, m)) = self.frozen.first() else { return };
        if self.pool.durable() >= *m {
            model.mark = model.mark.max(*m);
            self.pool.installed(*m);
            self.frozen.remove(0).0.retire();
        }
    }
}

#[test]
fn every_crash_recovers_to_a_prefix_with_all_that_was_acknowledged() {
    let wanted = std::env::var("SEXTON_PMEM_CRASHES").ok().and_then(|text| text.parse().ok());
    let (wanted, mut crashes, mut seed) = (wanted.unwrap_or(5000_u64), 0, 0);
    while crashes < wanted {
        crashes += run_history(seed).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
        seed += 1;
    }
    println!("{crashes} crashes in {seed} histories");
}

//! Random histories: the steps, and the search for a violation.

use super::world::{Command, Options, Violation, World};
use super::{COLLECTION, KEYS, Key, Random, Rule, Rules};

/// Steps of a history.
pub const STEPS: usize = 120;

/// In histories with a deadline, one step in this many is a tick of its clock.
const TICK_EVERY: u64 = 8;

/// One step; numbers that pick among what exists at that moment are random bits.
#[derive(Clone, Debug)]
enum Step {
    Write(Vec<Command>),
    Expire(Key),
    Publish(u64),
    Sync(u64),
    FailLog(u64),
    HealLog,
    OpenSnapshot,
    OpenIterator,
    CloseReader(usize),
    Read(Key, usize),
    Iterate(Key, usize),
    PointRead(Key),
    AdvanceLoad(usize),
    WholeLoad(Key),
    Evict(usize),
    StartGet(Key),
    AdvanceGet(usize),
    Freeze,
    StartFlush,
    ConsultGraves(bool),
    InstallFlush,
    WholeFlush,
    CollectForMerge,
    StartMerge(usize),
    InstallMerge,
    WholeMerge(usize),
    MergeUndo,
    MergeGraves,
    LookForSweep,
    Forget,
    Tick,
    OpenValues(bool),
    ReadCollection(usize),
    Crash(u64),
}

/// One history in this many has a collection.
const PAGED: u64 = 3;

/// A special subject of histories, in addition to everything else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Emphasis {
    /// Nothing in particular.
    #[default]
    None,
    /// Snapshots stay open for long, over flushes, merges and merges of undo runs (N6).
    LongSnapshots,
}

/// With long snapshots, one reader in this many is closed when it is its turn.
const LONG_CLOSES: usize = 32;

/// What a history went through.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// Steps taken.
    pub steps: u64,
    /// Steps after which a snapshot or iterator was open.
    pub with_reader: u64,
    /// Steps after which there was an undo run.
    pub with_undo_run: u64,
    /// Age in steps of the oldest snapshot or iterator, at its oldest.
    pub longest_reader: u64,
    /// Crashes.
    pub crashes: u64,
}

impl Seen {
    /// Both together.
    pub fn add(&mut self, other: Self) {
        self.steps += other.steps;
        self.with_reader += other.with_reader;
        self.with_undo_run += other.with_undo_run;
        self.longest_reader = self.longest_reader.max(other.longest_reader);
        self.crashes += other.crashes;
    }
}

/// What a history is like; drawn once from its seed.
#[derive(Clone, Copy, Debug)]
struct Character {
    options: Options,
    /// Publication lags; otherwise every write is published at once.
    lagging: bool,
    /// Readers are closed rarely, so that several are open.
    patient: bool,
    /// The DRAM table is small: entries leave it and are loaded again.
    cold: bool,
    /// One step in this many is about the collection; 0: none is.
    paged: u64,
    emphasis: Emphasis,
}

impl Character {
    fn draw(random: &mut Random, emphasis: Emphasis) -> Self {
        let is_long = emphasis == Emphasis::LongSnapshots;
        Self {
            options: Options {
                undo_runs: random.one_in(2) || is_long,
                thin_graves: random.one_in(2),
                spills: random.one_in(2),
                // A reader that must end in time is no long one.
                deadline: random.one_in(3) && !is_long,
            },
            lagging: random.one_in(2),
            patient: random.one_in(2) || is_long,
            cold: random.one_in(3),
            paged: 0,
            emphasis,
        }
    }

    /// True if a reader stays open although it is its turn to close.
    fn keeps_reader(&self, pick: usize) -> bool {
        match self.emphasis {
            Emphasis::LongSnapshots => !pick.is_multiple_of(LONG_CLOSES),
            Emphasis::None => self.patient && !pick.is_multiple_of(4),
        }
    }
}

fn draw_key(random: &mut Random) -> Key {
    random.below(KEYS)
}

fn draw_command(random: &mut Random, value: &mut u64) -> Command {
    let key = draw_key(random);
    *value += 100;
    match random.below(24) {
        0..=8 => Command::Put(key, *value),
        9..=11 => Command::Increment(key),
        12..=13 => Command::Copy(key, (key + 1) % KEYS),
        23 => Command::Flush,
        _ => Command::Delete(key),
    }
}

/// Steps on a collection: its elements change and move between pages, views read them, it is deleted and recreated.
fn draw_step_of_collection(random: &mut Random) -> Step {
    let index = usize::try_from(random.bits() >> 48).unwrap_or(0);
    let draw = |random: &mut Random| {
        let element = random.below(4);
        match random.below(16) {
            0..=8 => Command::Add(element),
            9..=13 => Command::Remove(element),
            _ => Command::Delete(COLLECTION),
        }
    };
    match random.below(24) {
        0..=13 => Step::Write(vec![draw(random)]),
        14..=15 => Step::Write((0..2).map(|_| draw(random)).collect()),
        16..=17 => Step::OpenValues(random.one_in(2)),
        18 => Step::Forget,
        19 => Step::WholeFlush,
        _ => Step::ReadCollection(index),
    }
}

/// What a long snapshot is about: that it is open, what becomes of its versions, and that it sees them.
fn draw_step_under_snapshots(random: &mut Random) -> Step {
    let index = usize::try_from(random.bits() >> 48).unwrap_or(0);
    match random.below(8) {
        0 => Step::OpenSnapshot,
        1..=2 => Step::WholeFlush,
        3..=4 => Step::WholeMerge(index),
        5 => Step::MergeUndo,
        _ => Step::Read(draw_key(random), index),
    }
}

fn draw_step(random: &mut Random, value: &mut u64, character: Character) -> Step {
    if character.options.deadline && random.one_in(TICK_EVERY) {
        return Step::Tick;
    }
    let pick = random.bits() >> 8;
    let index = usize::try_from(pick & 0xFFFF).unwrap_or(0);
    match random.below(if character.cold { 216 } else { 200 }) {
        0..=41 => Step::Write(vec![draw_command(random, value)]),
        42..=51 => {
            let len = 2 + random.below(2);
            Step::Write((0..len).map(|_| draw_command(random, value)).collect())
        }
        52..=53 => Step::Expire(draw_key(random)),
        54..=63 => Step::Publish(pick),
        64..=71 => Step::Sync(pick),
        72 => Step::FailLog(pick),
        73..=76 => Step::HealLog,
        77..=82 => Step::OpenSnapshot,
        83..=86 => Step::OpenIterator,
        87..=92 => Step::CloseReader(index),
        93..=102 => Step::Read(draw_key(random), index),
        103..=110 => Step::Iterate(draw_key(random), index),
        111..=114 => Step::StartGet(draw_key(random)),
        115..=125 => Step::AdvanceGet(index),
        126..=132 => Step::Freeze,
        133..=140 => Step::StartFlush,
        141..=142 => Step::ConsultGraves(true),
        143..=150 => Step::InstallFlush,
        151..=156 => Step::WholeFlush,
        157..=162 => Step::CollectForMerge,
        163..=170 => Step::StartMerge(index),
        171..=172 => Step::ConsultGraves(false),
        173..=178 => Step::InstallMerge,
        179 if index.is_multiple_of(2) => Step::MergeUndo,
        179..=184 => Step::WholeMerge(index),
        185..=186 => Step::LookForSweep,
        187..=188 => Step::MergeGraves,
        189..=196 => Step::Forget,
        200..=204 => Step::PointRead(draw_key(random)),
        205..=208 => Step::AdvanceLoad(index),
        209..=211 => Step::WholeLoad(draw_key(random)),
        212..=215 => Step::Evict(index),
        _ => Step::Crash(pick),
    }
}

fn take(world: &mut World, step: &Step, character: Character) -> Result<(), Violation> {
    match step {
        Step::Write(commands) => {
            world.write(commands)?;
            if !character.lagging {
                world.publish_all();
            }
        }
        Step::Expire(key) => world.expire(*key),
        Step::Publish(pick) => world.publish_some(*pick),
        Step::Sync(pick) => world.sync_some(*pick),
        Step::FailLog(pick) => world.fail_log(*pick),
        Step::HealLog => world.heal_log(),
        Step::OpenSnapshot => world.open_snapshot(),
        Step::OpenIterator => world.open_iterator(),
        Step::CloseReader(pick) if character.keeps_reader(*pick) => {}
        Step::CloseReader(pick) => world.close_reader(*pick / 4),
        Step::Read(key, pick) => world.read(*key, *pick)?,
        Step::Iterate(key, pick) => world.iterate(*key, *pick)?,
        Step::PointRead(key) => world.point_read(*key)?,
        Step::AdvanceLoad(pick) => world.advance_load(*pick)?,
        Step::WholeLoad(key) => world.load(*key)?,
        Step::Evict(pick) => world.evict(*pick),
        Step::StartGet(key) => world.start_get(*key),
        Step::AdvanceGet(pick) => world.step_get(*pick)?,
        Step::Freeze => world.freeze(),
        Step::StartFlush => world.start_flush(),
        Step::ConsultGraves(flush) => world.consult_graves(*flush),
        Step::InstallFlush => world.install_flush(),
        Step::WholeFlush => {
            world.freeze();
            world.start_flush();
            world.install_flush();
        }
        Step::CollectForMerge => world.collect_for_merge(),
        Step::StartMerge(pick) => world.start_merge(*pick),
        Step::InstallMerge => world.install_merge(),
        Step::WholeMerge(pick) => {
            world.collect_for_merge();
            world.start_merge(*pick);
            world.install_merge();
        }
        Step::MergeUndo => world.merge_undo_runs(),
        Step::MergeGraves => world.merge_grave_runs(),
        Step::LookForSweep => world.look_for_sweep(),
        Step::Forget => {
            world.forget();
            world.check_pages()?;
        }
        Step::Tick => world.tick()?,
        Step::OpenValues(iterator) => world.open_values(*iterator),
        Step::ReadCollection(pick) => world.read_collection(*pick)?,
        Step::Crash(pick) => world.crash(*pick)?,
    }
    Ok(())
}

/// Takes the lines of a trace.
pub type Trace<'t> = &'t mut dyn FnMut(String);

/// Runs the history of `seed`; `trace` gets a line per step. Answers what it went through.
///
/// # Errors
/// The first difference between the store and the specification.
pub fn run(
    seed: u64,
    rules: Rules,
    emphasis: Emphasis,
    mut trace: Option<Trace<'_>>,
) -> Result<Seen, Violation> {
    let mut random = Random::new(seed);
    let mut character = Character::draw(&mut random, emphasis);
    // From bits of its own: histories without a collection are what they were before there was one.
    let mut of_pages = Random::new(!seed);
    if of_pages.one_in(PAGED) {
        character.paged = 2 + of_pages.below(3);
    }
    let mut seen = Seen::default();
    let mut reader_since = None;
    let mut world = World::new(rules, character.options);
    let mut value = 0;
    if let Some(trace) = &mut trace {
        trace(format!("{character:?}"));
    }
    for number in 1..=STEPS {
        let of_the_past = emphasis == Emphasis::LongSnapshots && random.one_in(6);
        let is_paged = character.paged != 0 && of_pages.one_in(character.paged);
        let step = if is_paged {
            draw_step_of_collection(&mut of_pages)
        } else if of_the_past {
            draw_step_under_snapshots(&mut random)
        } else {
            draw_step(&mut random, &mut value, character)
        };
        let result = take(&mut world, &step, character);
        if let Some(trace) = &mut trace {
            trace(format!("{number:3} {step:?}\n      {}", world.describe()));
        }
        result.map_err(|violation| format!("step {number}: {violation}"))?;
        seen.steps += 1;
        seen.crashes += u64::from(matches!(step, Step::Crash(_)));
        seen.with_undo_run += u64::from(world.has_undo_run());
        reader_since = match (world.oldest_reader(), reader_since) {
            (None, _) => None,
            (Some(s), Some((same, since))) if s == same => Some((s, since)),
            (Some(s), _) => Some((s, number)),
        };
        if let Some((_, since)) = reader_since {
            seen.with_reader += 1;
            seen.longest_reader = seen.longest_reader.max((number - since) as u64);
        }
    }
    Ok(seen)
}

/// A history that violates the specification.
#[derive(Clone, Debug)]
pub struct Found {
    /// Its seed.
    pub seed: u64,
    /// What differs.
    pub violation: Violation,
}

/// Runs the histories of `seeds` until the first violation.
#[must_use]
pub fn search(seeds: std::ops::Range<u64>, rules: Rules, emphasis: Emphasis) -> Option<Found> {
    seeds.into_iter().find_map(|seed| {
        let violation = run(seed, rules, emphasis, None).err()?;
        Some(Found { seed, violation })
    })
}

/// Histories until the first violation with `rule` off, counted from 1; none within `limit`: `None`.
#[must_use]
pub fn histories_until_violation(rule: Rule, limit: u64) -> Option<(u64, Found)> {
    let found = search(0..limit, Rules { off: Some(rule) }, Emphasis::None)?;
    Some((found.seed + 1, found))
}

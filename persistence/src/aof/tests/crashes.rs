//! Random histories, crashed anywhere: what is recovered is a prefix that holds everything durable.

use sexton_config::device::DeviceKind;

use super::*;
use crate::aof::LogRoute;
use crate::device::sim::{CrashOptions, SimFaults, SimRandom};
use crate::pmem::sim::SimMode;

/// What survives of the model besides the log: the engine's manifest.
struct Model {
    commits: Vec<Commit>,
    mark: u64,
}

/// With `mode`, the log or a part of it is on persistent memory of that kind.
fn run_history(seed: u64, mode: Option<SimMode>) {
    let mut random = SimRandom::new(seed);
    let mut storage = storage();
    let mut model = Model { commits: Vec::new(), mark: 0 };
    let mut durable = 0;
    for _ in 0..1 + random.below(4) {
        let (commands, tail) = read_all(&storage, model.mark, durable)
            .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert!(tail.last_seq >= durable, "seed {seed}: {} < durable {durable}", tail.last_seq);
        model.commits.retain(|commit| commit.last_seq() <= tail.last_seq);
        let last_seq = model.commits.last().map_or(0, Commit::last_seq);
        assert!(tail.last_seq == last_seq.max(model.mark), "seed {seed}: torn inside a commit");
        let above = model.commits.iter().filter(|commit| commit.first_seq > model.mark);
        let above: Vec<_> = above.cloned().collect();
        assert!(commands == commands_of(&above), "seed {seed}: not what was committed");

        let after_seq = tail.last_seq + random.below(2) * random.below(1000);
        let policy = [SyncPolicy::No, SyncPolicy::EverySec, SyncPolicy::Always];
        let mut options = options(policy[random.below(3) as usize]);
        if random.percent(50) {
            // Routes come, go and change from start to start.
            options.routes = routes::two_routes().split_off(random.below(2) as usize);
        }
        let mapped_dir = mapped::DIRS[random.below(mapped::DIRS.len() as u64) as usize];
        let medium: Arc<dyn Storage> = match mode {
            Some(mode) => mapped::placed(&storage, mode, mapped_dir),
            // On a disk several segments are made ahead.
            None if seed % 2 == 1 => Arc::new(recycling::placed(&storage, DeviceKind::Hdd)),
            None => Arc::new(storage.clone()),
        };
        let rig = Rig::open_on(medium, options, &tail, after_seq);
        durable = run_steps(&rig, &mut model, &mut random, after_seq);
        if random.percent(20) {
            rig.core.finish().expect("no faults here");
            durable = model.commits.last().map_or(0, Commit::last_seq);
        }
        if random.percent(30) {
            // Only the process ends: the page cache lives on, unsynced data included, until a
            // later power failure takes what recovery did not sync.
            continue;
        }
        let keep_percent = random.below(101);
        let options = CrashOptions { keep_percent, tear_percent: random.below(101) };
        storage = storage.crash(random.next_u64(), options);
    }
}

/// Answers what was durable at the end: the log's word, without sequences that were only skipped.
fn run_steps(rig: &Rig, model: &mut Model, random: &mut SimRandom, after_seq: u64) -> u64 {
    let mut next_seq = after_seq + 1;
    for _ in 0..random.below(60) {
        match random.below(20) {
            0..=8 => {
                let count = 1 + random.below(3) as u32;
                let value_bytes_max = if random.percent(5) { 20_000 } else { 400 };
                let value_bytes = random.below(value_bytes_max);
                let db = random.below(3) as u32 * 7;
                let commit = Commit::new(next_seq, count, db, value_bytes as usize);
                next_seq += u64::from(count);
                rig.append(&commit);
                model.commits.push(commit);
            }
            9..=13 => drop(rig.core.write_batch().expect("no faults here")),
            14..=15 => rig.core.sync().expect("no faults here"),
            16 => drop(rig.cut()),
            17 => {
                // A flush: freeze, wait for D1, install the mark, retire.
                let mark = rig.cut();
                rig.core.sync_through(mark).expect("everything is appended");
                model.mark = mark;
                rig.core.segments.retire_through(mark).expect("no faults here");
            }
            18 => rig.core.segments.prepare(rig.core.policy()).expect("no faults here"),
            _ => rig.clean_spares().expect("no faults here"),
        }
    }
    let durable = rig.core.durable();
    model.commits.iter().map(Commit::last_seq).filter(|last| *last <= durable).max().unwrap_or(0)
}

#[test]
fn every_crash_recovers_to_a_prefix_with_all_that_was_durable() {
    for seed in 0..3000 {
        run_history(seed, None);
    }
}

#[test]
fn every_crash_of_persistent_memory_recovers_to_such_a_prefix() {
    for seed in 0..3000 {
        run_history(seed, Some(if seed % 3 == 0 { SimMode::Msync } else { SimMode::Pmem }));
    }
}

/// Writes, cuts, retires and reuses segments; stops at the first error. Answers the mark that was
/// installed last.
fn run_until_power_off(rig: &Rig, commits: &[Commit]) -> u64 {
    let mut installed = 0;
    for commit in commits {
        rig.append(commit);
        if rig.core.sync_through(commit.last_seq()).is_err() {
            break;
        }
        if commit.first_seq % 3 == 0 {
            let mark = rig.cut();
            installed = mark;
            let segments = &rig.core.segments;
            let tidied = segments.retire_through(mark).and_then(|()| rig.clean_spares());
            if tidied.and_then(|()| segments.prepare(SyncPolicy::Always)).is_err() {
                break;
            }
        }
    }
    installed
}

#[test]
fn the_power_may_go_between_any_two_steps() {
    let commits: Vec<_> = (1..=12).map(|seq| Commit::new(seq, 1, 0, 100)).collect();
    power_off_anywhere(&commits, &[], None);
}

#[test]
fn the_power_may_go_between_any_two_steps_on_persistent_memory() {
    let sizes = [100, 250, 1100].into_iter().cycle();
    let commits: Vec<_> =
        (1..=12).zip(sizes).map(|(seq, bytes)| Commit::new(seq, 1, 0, bytes)).collect();
    for mode in [SimMode::Pmem, SimMode::Msync] {
        power_off_anywhere(&commits, &routes::two_routes(), Some(mode));
    }
}

#[test]
fn the_power_may_go_between_any_two_steps_on_several_devices() {
    let sizes = [100, 250, 1100].into_iter().cycle();
    let commits: Vec<_> =
        (1..=12).zip(sizes).map(|(seq, bytes)| Commit::new(seq, 1, 0, bytes)).collect();
    power_off_anywhere(&commits, &routes::two_routes(), None);
}

fn power_off_anywhere(commits: &[Commit], routes: &[LogRoute], mode: Option<SimMode>) {
    let mut finished = false;
    for operations in 0..2000 {
        let storage = storage();
        let (_, tail) = read_all(&storage, 0, 0).expect("an empty log");
        let options = options(SyncPolicy::Always);
        let options = LogOptions { segment_bytes: 1024, routes: routes.to_vec(), ..options };
        let medium = match mode {
            Some(mode) => mapped::placed(&storage, mode, mapped::DIRS[0]),
            None => Arc::new(storage.clone()),
        };
        let rig = Rig::open_on(medium, options, &tail, 0);
        let faults = SimFaults { power_off_after: Some(operations), ..SimFaults::default() };
        storage.set_faults(faults);
        let mark = run_until_power_off(&rig, commits);
        let durable = rig.core.durable();
        for seed in 0..8 {
            let options = CrashOptions { keep_percent: seed * 14, tear_percent: 50 };
            let crashed = storage.crash(seed + operations * 8, options);
            let (commands, tail) = read_all(&crashed, mark, durable).unwrap_or_else(|error| {
                panic!("power off after {operations}, seed {seed}: {error}")
            });
            let above = &commits[mark as usize..tail.last_seq as usize];
            assert!(commands == commands_of(above), "power off after {operations}, seed {seed}");
        }
        finished = durable == 12 && rig.core.failure().is_none();
        if finished && operations > 400 {
            break;
        }
    }
    assert!(finished, "the last rounds reach the end");
}

//! A put that commits by itself is the specialisation of a commit, not another one: histories run both ways leave the
//! same replies, table, log, figures and pace behind.

use super::crash::small_options;
use super::harness::*;
use crate::key::{Key, Seq};
use crate::store::write::left_out::{Step, leaving_out};
use crate::store::*;
use sexton_persistence::device::sim::{CrashOptions, SimStorage};
use sexton_persistence::pmem::{PmemOptions, SimPmem};
use std::time::Instant;

const STEPS: usize = 1500;

/// How a put is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// By `commit_put`.
    Short,
    /// By `put`, `log` and `commit`.
    Long,
}

/// Where commits go, and how values and deletes are kept. Skip lists are left out: there a put by itself goes the long way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Log,
    Nothing,
    Pool,
    Tombstones,
    /// Without a log, and values of all lengths shared with the memtable.
    Shared,
}

const KINDS: [Kind; 5] = [Kind::Log, Kind::Nothing, Kind::Pool, Kind::Tombstones, Kind::Shared];

impl Kind {
    fn is_logged(self) -> bool {
        matches!(self, Self::Log | Self::Tombstones)
    }
}

fn options(kind: Kind, storage: &SimStorage) -> EngineOptions {
    let policy = match kind {
        Kind::Nothing | Kind::Shared => SyncPolicy::Off,
        _ => SyncPolicy::EverySec,
    };
    let mut options = small_options(storage, policy, false);
    options.memtable_bytes = 256 << 10;
    match kind {
        Kind::Pool => {
            options.write_behind = true;
            options.pool = Some(PmemOptions {
                slot_bytes: 16 << 10,
                file_bytes: 1 << 20,
                initial_bytes: 0,
                max_bytes: 16 << 20,
                ..PmemOptions::new(SimPmem::default().medium(), "data/pmem".into())
            });
        }
        Kind::Tombstones => options.deletes = DeleteMode::Tombstones,
        Kind::Shared => options.shares_values = true,
        Kind::Log | Kind::Nothing => {}
    }
    options
}

/// What can be told of a commit and of the store behind it, but for times.
#[derive(Debug, PartialEq)]
struct Trace {
    replies: Vec<(Commit, Option<u32>)>,
    /// N13: what a reply about each key waits for.
    waits: Vec<Seq>,
    stats: String,
    counts: Vec<(u64, u64, u64)>,
    written_to_pace: u64,
    replayed: Vec<Op>,
}

fn put(engine: &Engine, way: Way, op: &Op, access: Option<u32>) -> Commit {
    let Op::Put(db, bytes, meta, value) = op else { unreachable!("a put") };
    let mut buf = TxBuf::default();
    let hash = engine.hash(bytes);
    let key = Key { slot: engine.slot_of(*db), bytes, hash };
    let mut tx = engine.begin(Latched::Hashes(&[hash]), &mut buf);
    let resp = op.encode();
    match way {
        Way::Short => tx.commit_put(key, *meta, value, access, (*db, &resp)),
        Way::Long => {
            tx.put(key, *meta, value);
            if let Some(access) = access {
                tx.set_access(key, access);
            }
            tx.log(*db, &resp);
            tx.commit()
        }
    }
}

/// What the log tells a start after a power failure.
fn replayed(kind: Kind, storage: &SimStorage) -> Vec<Op> {
    if !kind.is_logged() {
        return Vec::new();
    }
    let after = storage.crash(1, CrashOptions::LOSE_ALL);
    let mut ops = Vec::new();
    let mut note = |engine: &Engine, group: ReplayGroup<'_>| {
        ops.extend(Op::decode_all(group.commands)?);
        replay(engine, group)
    };
    let (engine, _) = Engine::open(options(kind, &after), &mut note).expect("opens again");
    engine.abandon();
    ops
}

fn run_history(kind: Kind, way: Way, seed: u64) -> Trace {
    let storage = SimStorage::new();
    let (engine, _) = Engine::open(options(kind, &storage), &mut replay).expect("opens");
    // Half way between the soft and the hard debt: what is written counts.
    engine.inner().write.pace.set(32 << 20, 1 << 20, Instant::now());
    let (mut model, mut state) = (Model::new(3), seed);
    let mut replies = Vec::new();
    for step in 0..STEPS {
        let op = match random_op(&mut state, 200) {
            // Some are long enough to lie in a block of their own.
            Op::Put(db, name, meta, value) if random(&mut state).is_multiple_of(4) => {
                Op::Put(db, name, meta, value.repeat(40))
            }
            op => op,
        };
        let commit = if let Op::Put(db, name, ..) = &op {
            let access = random(&mut state).is_multiple_of(2).then_some(step as u32);
            let commit = put(&engine, way, &op, access);
            model.apply(&op);
            let key = key(&engine, *db, name);
            let mut buf = TxBuf::default();
            let mut tx = engine.begin(Latched::Hashes(&[key.hash]), &mut buf);
            let Found::Live(entry) = tx.find(key) else { panic!("it was written") };
            Some((commit, Some(entry.access())))
        } else {
            let last_seq = write(&engine, &mut model, op);
            Some((Commit { last_seq, operations: 0 }, None))
        };
        replies.extend(commit);
        match step % 300 {
            100 => freeze(&engine),
            200 => engine.flush_now().expect("flushed"),
            _ => {}
        }
    }
    check(&engine, &model);
    if let Some(log) = engine.inner().write.log.load().as_ref() {
        log.sync_through(engine.last_seq()).expect("synced");
    }
    // Times are no part of it; nor, where values are shared, what memory holds: only the short way shares.
    let mut stats = Stats {
        stall_ms: 0,
        oldest_unsynced_age_ms: 0,
        largest_unsynced_age_ms: 0,
        oldest_unburied_delete_ms: 0,
        write_pace_bytes_per_s: None,
        ..engine.stats()
    };
    if kind == Kind::Shared {
        stats = Stats {
            last_seq: stats.last_seq,
            dram_entries: stats.dram_entries,
            ..Stats::default()
        };
    }
    let name = |number: u64| format!("key:{number:05}");
    let waits = (0..200).map(|n| engine.last_write(engine.hash(name(n).as_bytes()))).collect();
    let trace = Trace {
        replies,
        waits,
        stats: format!("{stats:?}"),
        counts: (0..3).map(|db| engine.count_provisional(db)).collect(),
        written_to_pace: if kind == Kind::Shared {
            0
        } else {
            engine.inner().write.pace.noted_bytes()
        },
        replayed: replayed(kind, &storage),
    };
    engine.abandon();
    trace
}

#[test]
fn histories_by_the_short_and_the_long_way_leave_the_same() {
    for kind in KINDS {
        let [short, long] = [Way::Short, Way::Long].map(|way| run_history(kind, way, 0x5eed_0001));
        assert_eq!(short.replies.len(), STEPS);
        assert!(
            short.written_to_pace > 0 || kind == Kind::Shared,
            "{kind:?}: the pace heard of nothing"
        );
        assert_eq!(short.replayed.is_empty(), !kind.is_logged(), "{kind:?}");
        assert_eq!(short, long, "{kind:?}");
    }
}

#[test]
fn a_short_way_that_leaves_a_step_out_leaves_something_else() {
    let seed = 0x5eed_0001;
    let long = run_history(Kind::Log, Way::Long, seed);
    let without = |step| leaving_out(step, || run_history(Kind::Log, Way::Short, seed));
    let short = without(Step::Pacing);
    assert!(short.written_to_pace < long.written_to_pace, "the pace hears of less");
    assert_eq!(Trace { written_to_pace: long.written_to_pace, ..short }, long, "and that is all");
    let short = without(Step::LastWrite);
    assert_ne!(short.waits, long.waits);
    assert_eq!(Trace { waits: long.waits.clone(), ..short }, long);
}

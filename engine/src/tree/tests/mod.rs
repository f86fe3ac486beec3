//! The tree as a whole: edits, recovery, and compactions against a model.

mod crash;
mod histories;

use super::*;
use crate::key::{Meta, Seq};
use crate::table::test_storage::MemStorage;
use crate::table::{Compression, Table, TableError, TableOptions};
use histories::{Cemetery, Random};
use sexton_persistence::device::{Storage, TempDir};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

const DIR: &str = "store/tree";

fn open(storage: &Arc<MemStorage>) -> Result<VersionSet, TableError> {
    let table = TableOptions { block_bytes: 256, ..TableOptions::default() };
    let options = TreeOptions { table, cache_bytes: 64 << 10, ..TreeOptions::default() };
    VersionSet::open(Arc::clone(storage) as Arc<dyn Storage>, Path::new(DIR), options)
}

fn table_of(set: &VersionSet, level: usize, versions: &[(&str, Seq)]) -> Arc<Table> {
    let mut writer = set.new_table(level).unwrap();
    for (key, seq) in versions {
        writer.add(key.as_bytes(), *seq, Meta::default(), b"value").unwrap();
    }
    writer.finish(3, true).unwrap()
}

#[test]
fn first_and_last_level_and_those_between_have_compressions_of_their_own() {
    let (none, lz4, zstd) = (Compression::None, Compression::Lz4, Compression::Zstd);
    let bytes_of = |[upper, middle, bottom]: [Compression; 3], level| {
        let storage: Arc<dyn Storage> = Arc::new(MemStorage::default());
        let options = TreeOptions {
            table: TableOptions { compression: middle, ..TableOptions::default() },
            upper_compression: upper,
            bottom_compression: bottom,
            direct_io: false,
            cache_bytes: 0,
            merge_read_bytes_max: u64::MAX,
        };
        let set = VersionSet::open(storage, Path::new(DIR), options).unwrap();
        let mut writer = set.new_table(level).unwrap();
        for i in 0..1000_u64 {
            let key = format!("key:{i:06}");
            let value = format!("{:x}", i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).repeat(3);
            writer.add(key.as_bytes(), i + 1, Meta::default(), value.as_bytes()).unwrap();
        }
        writer.finish(3, true).unwrap().file_bytes()
    };
    let sizes = [none, lz4, zstd].map(|all| bytes_of([all; 3], 3));
    assert!(sizes[2] < sizes[1] && sizes[1] < sizes[0], "{sizes:?}");
    for (options, want) in [([none, lz4, zstd], [0, 1, 2]), ([zstd, none, lz4], [2, 0, 1])] {
        let got = [0, 3, LEVELS - 1].map(|level| bytes_of(options, level));
        assert_eq!(got, want.map(|i: usize| sizes[i]));
    }
}

/// What a merge gets that nobody stops or slows down.
fn context<'a>(
    versions: &'a VersionSet,
    snapshots: &'a [Seq],
    graves: &'a (dyn Graves + Sync),
) -> CompactionContext<'a> {
    static GOES_ON: AtomicBool = AtomicBool::new(false);
    CompactionContext {
        versions,
        snapshots,
        graves,
        dead_ids: &[],
        stop: &GOES_ON,
        threads: 3,
        limiter: None,
        separates: false,
        sync: true,
    }
}

fn names(storage: &MemStorage) -> Vec<String> {
    let all = storage.list(Path::new(DIR)).unwrap();
    all.into_iter().filter(|name| name.ends_with(".tbl") || name.ends_with(".graves")).collect()
}

/// Levels as text: `L0[4 3] L2[1]`.
fn shape(version: &Version) -> String {
    let mut out = String::new();
    for level in 0..LEVELS {
        let numbers: Vec<String> =
            version.level(level).iter().map(|table| table.number().to_string()).collect();
        if !numbers.is_empty() {
            out += &format!("L{level}[{}] ", numbers.join(" "));
        }
    }
    out.trim_end().to_owned()
}

#[test]
fn edits_are_found_again_and_leftovers_are_removed() {
    let storage = Arc::new(MemStorage::default());
    let set = open(&storage).unwrap();
    assert!(set.current().is_empty() && set.recovered_mark().is_none());
    let mark = MarkEdit {
        m: 40,
        checkpoint: Some("000000000009.graves".into()),
        namespaces: vec![0, 1],
        counts: vec![(3, 1)],
        dead: vec![(7, 8)],
    };
    let mut edit = VersionEdit::mark(mark.clone());
    edit.add(0, table_of(&set, 0, &[("a", 10), ("c", 11)]));
    edit.reserve(1 << 20);
    set.apply(&edit).unwrap();
    let mut edit = VersionEdit::new();
    edit.add(0, table_of(&set, 0, &[("b", 20)]));
    edit.add(2, table_of(&set, 2, &[("x", 1)]));
    edit.add(2, table_of(&set, 2, &[("d", 2), ("e", 3)]));
    set.apply(&edit).unwrap();
    assert_eq!(shape(&set.current()), "L0[2 1] L2[4 3]");
    for name in ["000000000008.graves", "000000000009.graves", "000000000077.tbl", "other"] {
        storage.create(&Path::new(DIR).join(name)).unwrap();
    }
    drop(set);
    let set = open(&storage).unwrap();
    assert_eq!(shape(&set.current()), "L0[2 1] L2[4 3]");
    assert_eq!(set.recovered_mark(), Some(mark));
    assert_eq!(set.reserved_seq(), Some(1 << 20));
    assert_eq!(set.new_file_number(), 78);
    let left = names(&storage);
    assert_eq!(left.len(), 5, "{left:?}");
    assert!(left.contains(&"000000000009.graves".to_owned()));
    assert!(storage.exists(&Path::new(DIR).join("other")).unwrap());
}

#[test]
fn files_go_with_their_last_reader_and_never_while_listed() {
    let storage = Arc::new(MemStorage::default());
    let set = open(&storage).unwrap();
    let mut edit = VersionEdit::new();
    edit.add(0, table_of(&set, 0, &[("a", 1)]));
    edit.add(1, table_of(&set, 1, &[("b", 2)]));
    let before = set.apply(&edit).unwrap();
    drop(edit);
    let mut edit = VersionEdit::new();
    edit.delete(0, 1);
    // A move: deleted from one level and added to another.
    edit.delete(1, 2);
    edit.add(2, Arc::clone(&before.level(1)[0]));
    set.apply(&edit).unwrap();
    drop(edit);
    assert_eq!(names(&storage).len(), 2, "a reader still holds the old version");
    assert!(get(&before, b"a", 9).unwrap().is_some());
    drop(before);
    assert_eq!(names(&storage), ["000000000002.tbl"]);
    assert_eq!(shape(&set.current()), "L2[2]");
    // Tables that no edit adds go too, finished or not.
    drop(table_of(&set, 0, &[("z", 5)]));
    drop(set.new_table(0).unwrap());
    assert_eq!(names(&storage), ["000000000002.tbl"]);
}

#[test]
fn edits_that_break_a_level_change_nothing() {
    let storage = Arc::new(MemStorage::default());
    let set = open(&storage).unwrap();
    let mut edit = VersionEdit::new();
    edit.add(1, table_of(&set, 1, &[("a", 1), ("m", 2)]));
    set.apply(&edit).unwrap();
    let mut overlap = VersionEdit::new();
    overlap.add(1, table_of(&set, 1, &[("m", 1), ("z", 2)]));
    let mut missing = VersionEdit::new();
    missing.delete(1, 99);
    for bad in [overlap, missing] {
        assert!(matches!(set.apply(&bad), Err(TableError::Edit { .. })));
        assert_eq!(shape(&set.current()), "L1[1]");
    }
    drop(set);
    assert_eq!(shape(&open(&storage).unwrap().current()), "L1[1]");
}

#[test]
fn a_missing_or_exchanged_table_refuses_to_open() {
    let storage = Arc::new(MemStorage::default());
    let set = open(&storage).unwrap();
    let mut edit = VersionEdit::new();
    edit.add(0, table_of(&set, 0, &[("a", 1)]));
    edit.add(0, table_of(&set, 0, &[("b", 2)]));
    set.apply(&edit).unwrap();
    drop(set);
    let path = |number: u64| Path::new(DIR).join(table_name(number));
    storage.hard_link(&path(2), &path(1)).unwrap();
    let error = open(&storage).unwrap_err();
    assert!(error.to_string().contains("000000000002.tbl"), "{error}");
    storage.remove(&path(1)).unwrap();
    let error = open(&storage).unwrap_err();
    assert!(error.to_string().contains("000000000001.tbl"), "{error}");
}

#[test]
fn a_long_manifest_is_rewritten_and_says_the_same() {
    let storage = Arc::new(MemStorage::default());
    let set = open(&storage).unwrap();
    let mut edit = VersionEdit::new();
    edit.add(3, table_of(&set, 3, &[("a", 1)]));
    set.apply(&edit).unwrap();
    let mut largest = 0;
    for m in 1..400u64 {
        let mark = MarkEdit { m, counts: vec![(m, 0); 1000], ..MarkEdit::default() };
        set.apply(&VersionEdit::mark(mark)).unwrap();
        let files = storage.files.lock();
        let sizes = files.values().map(|file| file.bytes.lock().len());
        largest = largest.max(sizes.max().unwrap());
    }
    assert!(largest < 3 << 20, "{largest}");
    drop(set);
    let set = open(&storage).unwrap();
    assert_eq!(shape(&set.current()), "L3[1]");
    assert_eq!(set.recovered_mark().map(|mark| (mark.m, mark.counts.len())), Some((399, 1000)));
}

#[test]
fn disjoint_tables_move_and_keep_their_claims() {
    let storage = Arc::new(MemStorage::default());
    let set = open(&storage).unwrap();
    let mut edit = VersionEdit::new();
    for (key, seq) in [("a", 1), ("c", 2), ("b", 3), ("d", 4)] {
        edit.add(0, table_of(&set, 0, &[(key, seq)]));
    }
    set.apply(&edit).unwrap();
    let options = CompactionOptions::default();
    let job = pick_compaction(&set.current(), &options).unwrap();
    assert!(job.is_move);
    let context = context(&set, &[9], &NoGraves);
    let outcome = compact(&job, &context).unwrap();
    assert_eq!(outcome.needs_durable(), 0);
    let version = set.apply(&outcome.edit).unwrap();
    assert_eq!(shape(&version), "L6[1 3 2 4]");
    assert_eq!(version.min_buried_through(), 3);
    assert!(pick_compaction(&version, &options).is_none());
}

#[test]
fn a_stopped_compaction_leaves_nothing() {
    let storage = Arc::new(MemStorage::default());
    let set = open(&storage).unwrap();
    let mut writer = set.new_table(0).unwrap();
    for i in 0..20_000u32 {
        writer.add(&i.to_be_bytes(), 1, Meta::default(), b"v").unwrap();
    }
    let table = writer.finish(0, true).unwrap();
    let mut edit = VersionEdit::new();
    edit.add(1, Arc::clone(&table));
    set.apply(&edit).unwrap();
    let stop = AtomicBool::new(true);
    let context = CompactionContext { stop: &stop, ..context(&set, &[9], &NoGraves) };
    let job = Job::burial(1, table, &CompactionOptions::default());
    assert!(matches!(compact(&job, &context), Err(TableError::Cancelled)));
    assert_eq!(names(&storage).len(), 1);
}

#[test]
fn burial_takes_the_overdue_first_and_then_the_dense() {
    let storage = Arc::new(MemStorage::default());
    let set = open(&storage).unwrap();
    let mut edit = VersionEdit::new();
    edit.add(5, table_of(&set, 5, &[("a", 1), ("b", 2), ("c", 3), ("d", 4), ("e", 5)]));
    edit.add(6, table_of(&set, 6, &[("c", 1), ("p", 1), ("q", 2)]));
    let version = set.apply(&edit).unwrap();
    let options = CompactionOptions::default();
    let graves = Cemetery(vec![(b"a".to_vec(), 20, None), (b"q".to_vec(), 30, None)]);
    let mut tally = BurialTally::new(&version, 40);
    assert!(graves.0.iter().all(|(key, d, _)| !tally.note(key, *d)));
    let victim = |job: &Job| job.tables().map(|(_, table)| table.number()).collect::<Vec<_>>();
    assert_eq!(victim(&tally.pick(0, &options).unwrap()), [2], "a third dead, against a fifth");
    let job = tally.pick(25, &options).unwrap();
    assert_eq!(victim(&job), [1], "the grave of a is overdue");
    let both = tally.picks(25, &options, 8);
    assert_eq!(both.iter().map(victim).collect::<Vec<_>>(), [[1], [2]]);
    assert!(both.iter().all(|job| job.stands_in(&version)));
    // A reader between: nothing can be buried, nothing is worth a rewrite.
    let mut early = BurialTally::new(&version, 19);
    assert!(!early.note(b"a", 20) && early.pick(25, &options).is_none());
    let context = context(&set, &[40], &graves);
    let outcome = compact(&job, &context).unwrap();
    assert_eq!((outcome.entries_in_out, outcome.max_grave_used), ((5, 4), 20));
    assert_eq!(outcome.needs_durable(), 40);
    let version = set.apply(&outcome.edit).unwrap();
    assert_eq!(shape(&version), "L5[3] L6[2]");
    assert!(!both[0].stands_in(&version) && both[1].stands_in(&version));
    let mut tally = BurialTally::new(&version, 40);
    assert!(tally.note(b"a", 20) && !tally.note(b"q", 30));
}

#[test]
fn graves_of_runs_are_counted_by_table_and_block_and_once() {
    let storage = Arc::new(MemStorage::default());
    let set = open(&storage).unwrap();
    let options = CompactionOptions::default();
    let mut edit = VersionEdit::new();
    for (part, claim) in [(0u64, 0), (1, 0), (2, 9_000)] {
        let mut writer = set.new_table(5).unwrap();
        for key in part * 1000..part * 1000 + 1000 {
            writer.add(&key.to_be_bytes(), 1 + key, Meta::default(), &[7; 60]).unwrap();
        }
        edit.add(5, writer.finish(claim, true).unwrap());
    }
    let mut run = set.new_graves(10).unwrap();
    let graves = (0..500).chain((1000..2000).step_by(5)).chain(2000..3000);
    for (i, key) in graves.enumerate() {
        run.add(&(key as u64).to_be_bytes(), 5_000 + i as u64, Meta::tombstone(), b"").unwrap();
    }
    let table = run.finish(0, true).unwrap();
    let file = GraveFile { run: table.number(), table };
    edit.add_graves(file.clone());
    let version = set.apply(&edit).unwrap();
    let stop = AtomicBool::new(false);
    let mut counts = DeadCounts::default();
    counts.refresh(&version, std::slice::from_ref(&file), &stop).unwrap();
    let mut found: Vec<(u64, Dead)> = counts.by_table().collect();
    found.sort_by_key(|(table, _)| *table);
    let [(1, first), (2, second)] = found[..] else { panic!("the third claims all: {found:?}") };
    let blocks = version.level(5)[0].blocks() as u64;
    assert_eq!((first.keys, first.oldest), (500, 5_000));
    assert!((blocks / 2 - 1..=blocks / 2 + 1).contains(&first.blocks), "{first:?} of {blocks}");
    assert_eq!(second, Dead { keys: 200, blocks: 0, oldest: 5_500 });

    let picked = |is_pressed: bool, overdue: Seq| {
        let mut tally = BurialTally::new(&version, 9_000).pressed(is_pressed);
        tally.add_counts(&counts);
        let job = tally.pick(overdue, &options)?;
        Some(job.tables().map(|(_, table)| table.number()).collect::<Vec<_>>())
    };
    assert_eq!(picked(false, 0), Some(vec![1]), "half dead, the other a fifth");
    counts.refresh(&version, &[], &stop).unwrap();
    assert_eq!(counts.by_table().count(), 0, "no run, no dead");

    // What is known is not read again: a walk would see the stop flag.
    counts.refresh(&version, std::slice::from_ref(&file), &stop).unwrap();
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    counts.refresh(&version, std::slice::from_ref(&file), &stop).unwrap();
    assert_eq!(counts.by_table().count(), 2);
}

#[test]
fn a_large_cemetery_makes_few_dead_worth_a_rewrite() {
    let storage = Arc::new(MemStorage::default());
    let set = open(&storage).unwrap();
    let options = CompactionOptions::default();
    let mut edit = VersionEdit::new();
    // The same number of dead in a table of large values and in one of small ones.
    for (part, value) in [(0u64, 600), (1, 10)] {
        let mut writer = set.new_table(5).unwrap();
        for key in part * 1000..part * 1000 + 1000 {
            writer.add(&key.to_be_bytes(), 1 + key, Meta::default(), &vec![7; value]).unwrap();
        }
        edit.add(5, writer.finish(0, true).unwrap());
    }
    let version = set.apply(&edit).unwrap();
    let picked = |is_pressed: bool| {
        let mut tally = BurialTally::new(&version, 9_000).pressed(is_pressed);
        for key in (0..2000u64).step_by(7) {
            tally.note(&key.to_be_bytes(), 5_000);
        }
        let job = tally.pick(0, &options)?;
        Some(job.tables().map(|(_, table)| table.number()).collect::<Vec<_>>())
    };
    assert_eq!(picked(false), None, "a seventh is dead");
    assert_eq!(picked(true), Some(vec![2]), "as many graves for fewer bytes");
}

#[test]
fn little_room_makes_few_dead_worth_a_rewrite() {
    let storage = Arc::new(MemStorage::default());
    let set = open(&storage).unwrap();
    let options = CompactionOptions::default();
    let mut writer = set.new_table(5).unwrap();
    for key in 0..1000u64 {
        writer.add(&key.to_be_bytes(), 1 + key, Meta::default(), &[7; 60]).unwrap();
    }
    let mut edit = VersionEdit::new();
    edit.add(5, writer.finish(0, true).unwrap());
    let version = set.apply(&edit).unwrap();
    let is_picked = |is_short: bool, of: usize| {
        let mut tally = BurialTally::new(&version, 9_000).short_of_room(is_short);
        for key in (0..1000u64).step_by(of) {
            tally.note(&key.to_be_bytes(), 5_000);
        }
        tally.pick(0, &options).is_some()
    };
    assert!(is_picked(true, 25) && !is_picked(false, 25), "one in 25 is dead");
    assert!(!is_picked(true, 50), "what is freed bears a thirtieth of the writing");
}

#[test]
fn compactions_work_off_the_debt() {
    let storage = Arc::new(MemStorage::default());
    let set = open(&storage).unwrap();
    let options =
        CompactionOptions { l0_tables: 2, base_bytes: 4_000, ratio: 3, output_bytes: 2_000 };
    let mut random = Random(5);
    let (mut seq, mut jobs) = (0, 0);
    for _ in 0..30 {
        let mut keys = BTreeSet::new();
        keys.extend((0..60).map(|_| random.below(5_000)));
        let mut writer = set.new_table(0).unwrap();
        for key in keys {
            seq += 1;
            writer.add(&key.to_be_bytes(), seq, Meta::default(), &[7; 60]).unwrap();
        }
        let mut edit = VersionEdit::new();
        edit.add(0, writer.finish(0, true).unwrap());
        let before = set.current();
        let version = set.apply(&edit).unwrap();
        assert!(debt(&version, &options) >= debt(&before, &options));
        while let Some(job) = pick_compaction(&set.current(), &options) {
            let snapshots = [seq];
            let context = context(&set, &snapshots, &NoGraves);
            set.apply(&compact(&job, &context).unwrap().edit).unwrap();
            jobs += 1;
            assert!(jobs < 1_000, "compactions do not come to an end: {}", shape(&set.current()));
        }
        assert_eq!(debt(&set.current(), &options), 0);
    }
    let sizes = set.current().level_sizes();
    assert!(sizes[6].1 > sizes[5].1 && sizes[5].1 > 0, "{sizes:?}");
}

/// Aligned transfers past the page cache and ordinary ones, of one file.
#[test]
fn tables_survive_a_real_file_system() {
    let dir = TempDir::new("tree");
    let storage = sexton_persistence::device::DiskStorage::shared();
    let open = || VersionSet::open(Arc::clone(&storage), &dir, TreeOptions::default()).unwrap();
    let set = open();
    let mut edit = VersionEdit::new();
    let key = |i: u32, round: u32| [&b"key"[..], &(i * 2 + round % 2).to_be_bytes()].concat();
    for round in 0..4 {
        let mut writer = set.new_table(0).unwrap();
        for i in 0..20_000u32 {
            let value = (i ^ round).to_le_bytes().repeat(25);
            writer.add(&key(i, round), u64::from(round + 1), Meta::default(), &value).unwrap();
        }
        edit.add(0, writer.finish(0, true).unwrap());
    }
    let version = set.apply(&edit).unwrap();
    let context = context(&set, &[9], &NoGraves);
    let options = CompactionOptions { output_bytes: 64 << 10, ..CompactionOptions::default() };
    let outcome = compact(&pick_compaction(&version, &options).unwrap(), &context).unwrap();
    assert_eq!(outcome.entries_in_out, (80_000, 40_000));
    set.apply(&outcome.edit).unwrap();
    drop((outcome, version, edit, set));
    let version = open().current();
    assert!(version.level(6).len() >= 4);
    version.tables().for_each(|(_, table)| table.verify().unwrap());
    for i in (0..20_000).step_by(997) {
        let found = get(&version, &key(i, 3), 9).unwrap().unwrap();
        assert_eq!((found.seq, &*found.value), (4, &*(i ^ 3).to_le_bytes().repeat(25)));
    }
    assert_eq!(std::fs::read_dir(&*dir).unwrap().count(), version.level(6).len() + 2);
}

// ---------------------------------------------------------------------------------------------
// Random histories against a model (rules C1 to C5, F1, F2; invariants I3 and I4).

#[test]
fn threads_share_a_merge_and_bring_what_one_brings() {
    let storage = Arc::new(MemStorage::default());
    let set = open(&storage).unwrap();
    let mut edit = VersionEdit::new();
    for seq in 0..4u64 {
        let mut writer = set.new_table(0).unwrap();
        for i in 0..3000u64 {
            let key = (i * (seq + 1) % 4096).to_be_bytes();
            if i * (seq + 1) / 4096 == 0 {
                writer.add(&key, 10 * seq + 1, Meta::default(), &key.repeat(4)).unwrap();
            }
        }
        edit.add(0, writer.finish(0, true).unwrap());
    }
    set.apply(&edit).unwrap();
    let (mut results, mut counts) = (Vec::new(), Vec::new());
    for threads in [1, 3, 8] {
        let limiter = RateLimiter::new(1 << 40);
        let context = CompactionContext {
            threads,
            limiter: Some(&limiter),
            ..context(&set, &[15, 99], &NoGraves)
        };
        let options = CompactionOptions { output_bytes: 20 << 10, ..CompactionOptions::default() };
        let job = Job::full(&set.current(), &options).unwrap();
        let outcome = compact(&job, &context).unwrap();
        let tables: Vec<Arc<Table>> =
            outcome.edit.added().iter().map(|(_, table)| Arc::clone(table)).collect();
        counts.push(tables.len());
        let mut iter = LevelIter::new(tables.into(), crate::table::ReadMode::Sequential);
        iter.seek(b"").unwrap();
        let mut versions = Vec::new();
        while iter.valid() {
            versions.push((iter.key().to_vec(), iter.seq(), iter.value().to_vec()));
            iter.next().unwrap();
        }
        assert!(versions.is_sorted_by(|a, b| (&a.0, b.1) < (&b.0, a.1)));
        let facts = (outcome.entries_in_out, outcome.max_seq_written, outcome.needs_durable());
        results.push((versions, facts));
    }
    assert!(results[0].0.len() > 3000);
    assert!(results[1] == results[0] && results[2] == results[0]);
    assert!(counts[2] > counts[0], "each piece closes a table of its own: {counts:?}");
}

/// Whatever is overwritten, once nothing is due the tree takes at most a quarter more than what lives,
/// beside the tables of level 0 that wait for their number and one base level.
#[test]
fn space_is_bounded_once_the_tree_is_quiet() {
    let options =
        CompactionOptions { l0_tables: 4, base_bytes: 16 << 10, ratio: 10, output_bytes: 8 << 10 };
    for (seed, keys, flushes) in [(1u64, 400u64, 60), (2, 4_000, 120), (3, 20_000, 150)] {
        let storage = Arc::new(MemStorage::default());
        let set = open(&storage).unwrap();
        let mut state = seed * 0x9e37_79b9;
        let (mut seq, mut flush_bytes) = (0, 0);
        let run = |job: &Job, now: Seq| {
            let snapshots = [now];
            let context = CompactionContext { threads: 2, ..context(&set, &snapshots, &NoGraves) };
            set.apply(&compact(job, &context).unwrap().edit).unwrap();
        };
        for _ in 0..flushes {
            let mut rows = BTreeMap::new();
            for _ in 0..300 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
                seq += 1;
                rows.insert(format!("key:{:06}", (state >> 33) % keys), (seq, state));
            }
            let mut writer = set.new_table(0).unwrap();
            for (key, (seq, value)) in &rows {
                let value = value.to_be_bytes().map(|byte| byte.wrapping_mul(31));
                writer.add(key.as_bytes(), *seq, Meta::default(), &value).unwrap();
            }
            let table = writer.finish(0, true).unwrap();
            flush_bytes = table.file_bytes().max(flush_bytes);
            let mut edit = VersionEdit::new();
            edit.add(0, table);
            set.apply(&edit).unwrap();
            while let Some(job) = pick_compaction(&set.current(), &options) {
                run(&job, seq);
            }
        }
        let bytes = |version: &Version| version.tables().map(|(_, t)| t.file_bytes()).sum::<u64>();
        let total = bytes(&set.current());
        assert_eq!(debt(&set.current(), &options), 0);
        run(&Job::full(&set.current(), &options).unwrap(), seq);
        let live = bytes(&set.current());
        let bound = live * 5 / 4 + 3 * flush_bytes + options.base_bytes;
        assert!(total <= bound, "{keys} keys: {total} bytes, {live} live, bound {bound}");
    }
}

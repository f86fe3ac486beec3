//! Crashes and failing devices under the list of tables.

use super::context;
use crate::key::{Meta, Seq};
use crate::table::{TableOptions, TableResult};
use crate::tree::*;
use sexton_persistence::device::sim::{CrashOptions, SimFaults, SimStorage};
use sexton_persistence::device::{Storage, StorageResult};
use std::path::Path;
use std::sync::Arc;

const DIR: &str = "tree";

fn open(storage: &SimStorage) -> TableResult<VersionSet> {
    let table = TableOptions { block_bytes: 256, ..TableOptions::default() };
    let options = TreeOptions { table, cache_bytes: 0, ..TreeOptions::default() };
    VersionSet::open(Arc::new(storage.clone()), Path::new(DIR), options)
}

/// Installs a table with two keys of sequence `m`, and m as the mark.
fn flush(set: &VersionSet, m: Seq) -> TableResult<()> {
    let mut writer = set.new_table(0)?;
    writer.add(b"always", m, Meta::default(), &m.to_le_bytes())?;
    writer.add(format!("once {m:04}").as_bytes(), m, Meta::default(), b"")?;
    let mut edit = VersionEdit::mark(MarkEdit { m, ..MarkEdit::default() });
    edit.add(0, writer.finish(m, true)?);
    set.apply(&edit).map(|_| ())
}

fn merge(set: &VersionSet, now: Seq) -> TableResult<()> {
    let options = CompactionOptions { l0_tables: 3, base_bytes: 500, ratio: 2, output_bytes: 400 };
    let Some(job) = pick_compaction(&set.current(), &options) else { return Ok(()) };
    let snapshots = [now];
    let context = CompactionContext { threads: 1, ..context(set, &snapshots, &NoGraves) };
    set.apply(&compact(&job, &context)?.edit).map(|_| ())
}

/// The mark of a reopened tree, after checking that its tables are exactly those of the mark.
fn mark_of(set: &VersionSet) -> Seq {
    let m = set.recovered_mark().map_or(0, |mark| mark.m);
    let version = set.current();
    let newest = get(&version, b"always", Seq::MAX).unwrap().map_or(0, |found| found.seq);
    assert_eq!(newest, m, "newest version in the tables, against the mark");
    version.tables().for_each(|(_, table)| table.verify().unwrap());
    m
}

fn tables_on(storage: &SimStorage) -> StorageResult<usize> {
    let names = storage.list(Path::new(DIR))?;
    Ok(names.iter().filter(|name| name.ends_with(".tbl")).count())
}

/// Whatever fails, and whenever the power goes: the state is that of the last edit that was
/// confirmed, or of one that was under way after it, whole, with every table it names.
#[test]
fn crashes_leave_a_whole_edit_whatever_failed_before() {
    let (mut failures, mut lost, mut kept) = (0, 0, 0);
    for seed in 0..60u64 {
        let storage = SimStorage::new();
        let mut set = open(&storage).unwrap();
        let (mut confirmed, mut tried) = (0, 0);
        let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut below = |n: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % n
        };
        for _ in 0..25 {
            if below(3) == 0 {
                let mut faults = SimFaults::default();
                match below(3) {
                    0 => faults.fail_write = Some(1 + below(4)),
                    1 => faults.fail_sync = Some(1 + below(4)),
                    _ => faults.fail_sync_dir = Some(1 + below(2)),
                }
                storage.set_faults(faults);
            }
            tried += 1;
            match flush(&set, tried) {
                Ok(()) => confirmed = tried,
                Err(_) => failures += 1,
            }
            if confirmed > 0 && merge(&set, tried).is_err() {
                failures += 1;
            }
            storage.set_faults(SimFaults::default());
            let version = set.current();
            let newest = get(&version, b"always", Seq::MAX).unwrap().map_or(0, |f| f.seq);
            assert_eq!(newest, confirmed, "seed {seed}: what readers see");
            for crash in 0..3 {
                let options =
                    if crash == 0 { CrashOptions::LOSE_ALL } else { CrashOptions::default() };
                let after = storage.crash(seed * 1000 + tried * 10 + crash, options);
                let reopened = open(&after)
                    .unwrap_or_else(|error| panic!("seed {seed}, flush {tried}: {error}"));
                let m = mark_of(&reopened);
                assert!(m >= confirmed && m <= tried, "seed {seed}: {confirmed} {m} {tried}");
                let listed = reopened.current().tables().count();
                assert_eq!(tables_on(&after).unwrap(), listed, "leftovers are removed");
                if tried > confirmed {
                    if m == confirmed { lost += 1 } else { kept += 1 }
                }
            }
            if below(8) == 0 {
                drop(set);
                set = open(&storage).unwrap();
                confirmed = mark_of(&set);
            }
        }
        // Without faults it works again, whatever failed before.
        flush(&set, tried + 1).unwrap();
        drop(set);
        assert_eq!(mark_of(&open(&storage).unwrap()), tried + 1);
    }
    assert!(failures > 100 && lost > 0, "{failures} failures, {lost} edits lost, {kept} kept");
}

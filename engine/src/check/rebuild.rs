//! Rebuilds a tree from its tables, for a store whose manifest is lost or damaged.
//!
//! Information that only the manifest has is taken from its valid records, or else from elsewhere. The mark is that of the
//! newest cemetery checkpoint, or follows from where the log begins. The tables are all that exist and hold nothing above
//! the mark (the log has what is above). They are merged into one sorted level, which keeps of each key the newest version,
//! unless a grave covers it. The level of a table therefore does not matter, nor whether tables of a finished merge still
//! existed. But a version that a merge had already buried, and whose grave is gone, is alive again if such an input table
//! was found: a rebuild says so.
//!
//! The new tree takes its name when it is complete and durable. The old one is kept as `tree.damaged`.

use super::{CheckOptions, CheckReport};
use crate::cemetery::Checkpoint;
use crate::error::EngineError;
use crate::key::{EngineKey, Meta, Seq};
use crate::store::OWN_ID;
use crate::table::{ReadMode, Table, TableResult};
use crate::tree::{
    DeleteMode, LEVELS, LevelIter, MarkEdit, MergeIter, Recovered, Source, TreeOptions,
    VersionEdit, VersionSet, place_dir, table_name, tables_in_places,
};
use sexton_persistence::aof::{LogLocation, segment_starts};
use sexton_persistence::device::Storage;
use sexton_persistence::manifest::salvage;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Bytes of a table of the new tree.
const TABLE_BYTES: u64 = 64 << 20;

/// Where the old tree is kept.
const KEPT: &str = "tree.damaged";

/// What the new tree is made of.
struct Parts {
    tables: Vec<Arc<Table>>,
    graves: BTreeMap<Box<[u8]>, Seq>,
    m: Seq,
    namespaces: Vec<u64>,
    dead: Vec<(u64, Seq)>,
    deletes: DeleteMode,
    reserved_seq: Option<Seq>,
}

/// Rebuilds the tree in `dir`; when that cannot be done, a finding says why and nothing has changed.
pub(super) fn rebuild(
    options: &CheckOptions,
    dir: &Path,
    report: &mut CheckReport,
) -> Result<(), EngineError> {
    let storage = &options.storage;
    let kept = options.dir.join(KEPT);
    if storage.exists(&kept)? {
        report.found(&kept, "is in the way: it holds the tree of an earlier rebuild");
        return Ok(());
    }
    let Some(parts) = collect(options, dir, report)? else { return Ok(()) };
    let new = options.dir.join("tree.rebuilt");
    storage.create_dir_all(&new)?;
    for name in storage.list(&new)? {
        storage.remove(&new.join(name))?;
    }
    let m = parts.m;
    let used = parts.tables.len();
    let (keys, buried) = write(options, &new, parts)?;
    storage.sync_dir(&new)?;
    storage.rename(dir, &kept)?;
    storage.rename(&new, dir)?;
    storage.sync_dir(&options.dir)?;
    report.notes.push(format!(
        "the tree was made anew from {used} tables, as of sequence {m}: {keys} keys, {buried} dead ones \
         left out; the old tree is kept as {KEPT}"
    ));
    Ok(())
}

/// Reads what is there and decides what counts.
fn collect(
    options: &CheckOptions,
    dir: &Path,
    report: &mut CheckReport,
) -> Result<Option<Parts>, EngineError> {
    let storage = &options.storage;
    let salvaged = salvage(&**storage, dir).map_err(crate::table::TableError::from)?;
    let known = Recovered::of_salvaged(&salvaged.records);
    let (mut tables, mut checkpoints) = (BTreeMap::new(), BTreeMap::new());
    // Of a table that was being carried, each copy that is whole will do.
    for (number, place) in tables_in_places(&**storage, dir)? {
        let path = place_dir(dir, &place).join(table_name(number));
        match open_whole(&**storage, &path, number) {
            Ok(table) => drop(tables.insert(number, table)),
            Err(error) => report.notes.push(format!("left out, and its keys lost: {error}")),
        }
    }
    let (mut runs, mut lost_runs) = (BTreeMap::new(), Vec::new());
    for name in storage.list(dir)? {
        let path = dir.join(&name);
        if let Some(number) = name.strip_suffix(".grun").and_then(|stem| stem.parse().ok()) {
            match open_whole(&**storage, &path, number) {
                Ok(run) => drop(runs.insert(number, run)),
                Err(error) => {
                    report.notes.push(format!("left out: {error}"));
                    lost_runs.push(number);
                }
            }
        } else if name.ends_with(".graves") {
            match Checkpoint::read(&**storage, &path) {
                Ok(checkpoint) => drop(checkpoints.insert(checkpoint.c, checkpoint)),
                Err(error) => report.notes.push(format!("left out: {error}")),
            }
        }
    }
    // The last records may be missing: a checkpoint or a log that begins above the mark would know it.
    let last_known = known.mark.as_ref().map(|mark| mark.m);
    let above = checkpoints.last_key_value().map_or(0, |(c, _)| *c).max(start_of_log(options, 0)?);
    let is_whole = salvaged.is_whole && last_known.is_some_and(|m| m >= above);
    if is_whole {
        for number in known.files.keys().filter(|number| !tables.contains_key(number)) {
            let text = format!("table {number:012} is missing or damaged: its keys are lost");
            report.notes.push(text);
        }
        tables.retain(|number, _| known.files.contains_key(number));
        lost_runs =
            known.graves.keys().filter(|number| !runs.contains_key(*number)).copied().collect();
        runs.retain(|number, _| known.graves.contains_key(number));
    } else {
        tables.retain(|number, _| !known.gone.contains(number));
        runs.retain(|number, _| !known.gone.contains(number));
        lost_runs.retain(|number| !known.gone.contains(number));
        let missing = known.graves.keys().filter(|number| !runs.contains_key(*number));
        lost_runs.extend(missing);
        report.notes.push(
            "records of the manifest are lost: keys that were deleted before the mark may be back, if \
             their tables had not been removed yet"
                .into(),
        );
    }
    if let Some(number) = lost_runs.first() {
        let text = format!("the grave run {number:012} cannot be read: its dead would rise");
        report.found(dir, text);
        return Ok(None);
    }
    let all = tables.values().chain(runs.values());
    let highest = all.map(|table| table.properties().max_seq).max().unwrap_or(0);
    let (m, mut graves) = match (known.mark.as_ref(), checkpoints.pop_last()) {
        (Some(mark), checkpoint) if checkpoint.as_ref().is_none_or(|(c, _)| *c <= mark.m) => {
            let own = checkpoint.filter(|(c, _)| *c == mark.m);
            if mark.checkpoint.is_some() && own.is_none() {
                report.found(
                    dir,
                    format!(
                        "the graves of the mark {} cannot be read: its dead would rise",
                        mark.m
                    ),
                );
                return Ok(None);
            }
            (mark.m, own.map(|(_, checkpoint)| checkpoint.graves).unwrap_or_default())
        }
        (_, Some((c, checkpoint))) => (c, checkpoint.graves),
        (_, None) => (start_of_log(options, highest)?, Vec::new()),
    };
    // What a flush had written that was never installed, the log still has.
    tables.retain(|_, table| table.properties().max_seq <= m);
    runs.retain(|_, run| run.properties().max_seq <= m);
    graves.extend(graves_of(runs.into_values())?);
    let tables: Vec<_> = tables.into_values().collect();
    let mark = known.mark.unwrap_or_default();
    let namespaces = match mark.namespaces.is_empty() {
        false => mark.namespaces,
        // Those of a new store.
        true => (0..options.databases as u64).collect(),
    };
    let has_tombstones = || -> Result<bool, EngineError> {
        for table in &tables {
            let mut iter = table.iter(ReadMode::Sequential);
            iter.seek(b"")?;
            while iter.valid() {
                if iter.meta().is_tombstone() {
                    return Ok(true);
                }
                iter.next()?;
            }
        }
        Ok(false)
    };
    let deletes = match known.deletes {
        Some(deletes) => deletes,
        None if has_tombstones()? => DeleteMode::Tombstones,
        None => DeleteMode::Cemetery,
    };
    let parts = Parts {
        tables,
        graves: newest_of_each(graves),
        m,
        namespaces,
        dead: mark.dead,
        deletes,
        reserved_seq: known.reserved_seq,
    };
    let unknown = unknown_namespaces(&parts)?;
    if let Some(id) = unknown {
        report.found(
            dir,
            format!(
                "there are keys of the namespace {id}, and nothing says which database has it: a \
                 FLUSHDB or SWAPDB that only the manifest knew"
            ),
        );
        return Ok(None);
    }
    Ok(Some(parts))
}

/// A table, or a file of a grave run, that was read to its end.
fn open_whole(storage: &dyn Storage, path: &Path, number: u64) -> TableResult<Arc<Table>> {
    let table = Table::open(storage.open_unbuffered(path)?, number, None)?;
    table.verify()?;
    Ok(Arc::new(table))
}

/// The graves of some files of grave runs.
fn graves_of(runs: impl Iterator<Item = Arc<Table>>) -> TableResult<Vec<(Box<[u8]>, Seq)>> {
    let mut graves = Vec::new();
    for run in runs {
        let mut iter = run.iter(ReadMode::Sequential);
        iter.seek(b"")?;
        while iter.valid() {
            graves.push((iter.key().into(), iter.seq()));
            iter.next()?;
        }
    }
    Ok(graves)
}

/// A key may have graves in memory and in several runs; the newest one tells whether its newest version lives.
fn newest_of_each(graves: Vec<(Box<[u8]>, Seq)>) -> BTreeMap<Box<[u8]>, Seq> {
    let mut newest = BTreeMap::new();
    for (key, d) in graves {
        let last = newest.entry(key).or_insert(d);
        *last = d.max(*last);
    }
    newest
}

/// The log is cut at every mark, and what is before the last one is given up: the first segment that begins at
/// or above everything in the tables begins at the mark.
fn start_of_log(options: &CheckOptions, highest: Seq) -> Result<Seq, EngineError> {
    let location = LogLocation {
        dir: options.dir.join(&options.log_dir_name),
        file_name: options.log_file_name.clone(),
    };
    let starts = segment_starts(&*options.storage, &location)?;
    Ok(starts.into_iter().filter(|start| *start >= highest).min().unwrap_or(highest))
}

/// A namespace that has keys, and no database.
fn unknown_namespaces(parts: &Parts) -> Result<Option<u64>, EngineError> {
    let is_known = |id: u64| {
        id == OWN_ID
            || parts.namespaces.contains(&id)
            || parts.dead.iter().any(|(dead, _)| *dead == id)
    };
    for table in &parts.tables {
        let mut iter = table.iter(ReadMode::Sequential);
        iter.seek(b"")?;
        while iter.valid() {
            let id = EngineKey::namespace_of(iter.key()).filter(|_| EngineKey::is_root(iter.key()));
            if let Some(id) = id.filter(|id| !is_known(*id)) {
                return Ok(Some(id));
            }
            iter.next()?;
        }
    }
    Ok(None)
}

/// Merges the parts into a tree in `dir`; answers how many keys it has, and how many dead were left out.
fn write(options: &CheckOptions, dir: &Path, parts: Parts) -> Result<(u64, u64), EngineError> {
    let versions = VersionSet::open(Arc::clone(&options.storage), dir, TreeOptions::default())?;
    // Names of collections begin with numbers of files, and must not come again.
    if let Some(last) = parts.tables.iter().map(|table| table.number()).max() {
        versions.number_files_behind(last);
    }
    let sources = parts
        .tables
        .iter()
        .map(|table| LevelIter::new(Arc::from([Arc::clone(table)]), ReadMode::Sequential));
    let mut merge = MergeIter::new(sources.collect());
    merge.seek(b"")?;
    let mut edit = VersionEdit::new();
    let mut writer = None;
    let mut counts = vec![(0_u64, 0_u64); parts.namespaces.len()];
    let (mut keys, mut buried) = (0, 0);
    let mut last: Vec<u8> = Vec::new();
    let mut any = false;
    while merge.valid() {
        let is_older = any && merge.key() == last;
        if !is_older {
            any = true;
            last.clear();
            last.extend_from_slice(merge.key());
            if is_dead(&parts, merge.key(), merge.seq(), merge.meta()) {
                buried += 1;
            } else {
                let open = match &mut writer {
                    Some(open) => open,
                    None => writer.insert(versions.new_table(LEVELS - 1)?),
                };
                open.add(merge.key(), merge.seq(), merge.meta(), merge.value())?;
                if open.data_bytes() >= TABLE_BYTES
                    && let Some(full) = writer.take()
                {
                    edit.add(LEVELS - 1, full.finish(parts.m, true)?);
                }
                let id = EngineKey::namespace_of(merge.key()).filter(|_| EngineKey::is_root(&last));
                let db = id.and_then(|id| parts.namespaces.iter().position(|own| *own == id));
                if let Some(db) = db {
                    keys += 1;
                    counts[db].0 += 1;
                    counts[db].1 += u64::from(merge.meta().expire_at_ms != 0);
                }
            }
        }
        merge.next()?;
    }
    if let Some(open) = writer {
        edit.add(LEVELS - 1, open.finish(parts.m, true)?);
    }
    // Nothing that a grave covers is left: no grave is needed any more.
    let mark = MarkEdit {
        m: parts.m,
        checkpoint: None,
        namespaces: parts.namespaces,
        counts,
        dead: parts.dead,
    };
    edit.set_mark(mark);
    edit.set_deletes(parts.deletes);
    if let Some(seq) = parts.reserved_seq {
        edit.reserve(seq);
    }
    versions.apply(&edit)?;
    Ok((keys, buried))
}

/// Dead by a grave, a tombstone, or with its namespace.
fn is_dead(parts: &Parts, key: &[u8], seq: Seq, meta: Meta) -> bool {
    let is_below = |key: &[u8]| parts.graves.get(key).is_some_and(|d| *d >= seq);
    let has_grave = is_below(key) || EngineKey::prefix_of(key).is_some_and(is_below);
    let id = EngineKey::namespace_of(key);
    let is_of_dead = id.is_some_and(|id| parts.dead.iter().any(|(dead, _)| *dead == id));
    has_grave || meta.is_tombstone() || is_of_dead
}

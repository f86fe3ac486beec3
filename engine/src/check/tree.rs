//! Manifest, levels and cemetery.

use super::{CheckOptions, CheckReport};
use crate::cemetery::{Checkpoint, newest_in_runs};
use crate::error::EngineError;
use crate::key::{EngineKey, Seq};
use crate::store::{FIRST_SEQ, OWN_ID};
use crate::table::{ReadMode, Table};
use crate::tree::{
    LevelIter, MarkEdit, Place, Recovered, RecoveredFile, Source, VersionEdit, place_dir,
    tables_in_places,
};
use sexton_persistence::manifest::{Manifest, ManifestError};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Tables with their levels.
type Tables = Vec<(usize, Arc<Table>)>;

/// Checks everything below `dir`; false when no mark is known in the end.
pub(super) fn check(
    options: &CheckOptions,
    dir: &Path,
    report: &mut CheckReport,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<bool, EngineError> {
    let storage = &options.storage;
    let names = storage.list(dir)?;
    if !Manifest::exists(&**storage, dir).map_err(crate::table::TableError::from)? {
        if !tables_in_places(&**storage, dir)?.is_empty() {
            report.found(dir, "there are tables, and no file CURRENT that names a manifest");
            return Ok(false);
        }
        report.mark = before_any().m;
        report.notes.push("the store is empty".into());
        return Ok(true);
    }
    let manifest = match Manifest::open_read_only(Arc::clone(storage), dir) {
        Ok(manifest) => manifest,
        Err(error @ ManifestError::Damaged { .. }) => {
            report.found(dir, error.to_string());
            return Ok(false);
        }
        Err(error) => {
            report.found(dir, format!("the manifest cannot be read: {error}"));
            return Ok(false);
        }
    };
    let torn = manifest.torn_bytes().unwrap_or(0);
    if torn > 0 {
        report.notes.push(format!(
            "{} ends with {torn} bytes of an edit that was never confirmed: the next start cuts them off",
            manifest.path().display()
        ));
    }
    let recovered = match Recovered::replay(&manifest, dir) {
        Ok(recovered) => recovered,
        Err(error) => {
            report.found(manifest.path(), error.to_string());
            return Ok(false);
        }
    };
    let mark = recovered.mark.clone().unwrap_or_else(before_any);
    report.mark = mark.m;
    let is_whole = check_tables(options, dir, &recovered, report, progress)?;
    let checkpoint = check_checkpoint(options, dir, &mark, report);
    let spilled = super::graves::check(options, dir, &recovered, report);
    let named = |name: &str| mark.checkpoint.as_deref() == Some(name);
    let is_named = |number: &u64, place: &Place| {
        recovered.files.get(number).is_some_and(|file| file.place == *place)
    };
    let tables = tables_in_places(&**storage, dir)?;
    let tables = tables.iter().filter(|(number, place)| !is_named(number, place));
    let tables = tables.map(|(number, place)| table_path(dir, *number, place));
    let is_left = |name: &&String| match name.strip_suffix(".grun").map(str::parse) {
        Some(Ok(number)) => !recovered.graves.contains_key(&number),
        _ => name.ends_with(".graves") && !named(name),
    };
    let graves = names.iter().filter(is_left);
    for path in tables.chain(graves.map(|name| dir.join(name))) {
        let path = path.strip_prefix(dir).unwrap_or(&path).display().to_string();
        report.notes.push(format!("{path}: named by nothing, the next start removes it"));
    }
    if let (Some(tables), Some(checkpoint), Some(spilled)) = (is_whole, checkpoint, spilled) {
        check_levels(dir, &tables, &mark, (&checkpoint, &spilled), report)?;
    }
    Ok(true)
}

/// The mark of a store that was never flushed.
fn before_any() -> MarkEdit {
    MarkEdit { m: FIRST_SEQ - 1, ..MarkEdit::default() }
}

fn table_path(dir: &Path, number: u64, place: &Place) -> PathBuf {
    place_dir(dir, place).join(format!("{number:012}.tbl"))
}

/// Every table alone; all of them when none has a fault that would make a walk over them useless.
fn check_tables(
    options: &CheckOptions,
    dir: &Path,
    recovered: &Recovered,
    report: &mut CheckReport,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Option<Tables>, EngineError> {
    let all_bytes = recovered.files.values().map(|file| file.meta.file_bytes).sum();
    let before = report.findings.len();
    let mut tables = Vec::new();
    for (&number, RecoveredFile { level, place, meta }) in &recovered.files {
        let path = table_path(dir, number, place);
        let opened = options.storage.open_unbuffered(&path).map_err(Into::into);
        match opened.and_then(|file| Table::open(file, number, None)) {
            Ok(table) => {
                if table.meta() != meta {
                    let (got, want) = (table.meta(), meta);
                    report.found(&path, format!("the manifest describes {want:?}, it is {got:?}"));
                }
                let table = Arc::new(table);
                match super::table::check(&table, &path, report) {
                    Ok(entries) => report.versions += entries,
                    Err(error) => report.found(&path, error.to_string()),
                }
                tables.push((*level, table));
            }
            Err(error) => report.found(&path, error.to_string()),
        }
        if recovered.mark.as_ref().is_some_and(|mark| meta.properties.max_seq > mark.m) {
            let (max, m) = (meta.properties.max_seq, report.mark);
            report.found(&path, format!("holds version {max}, above the mark {m} (N1)"));
        }
        report.tables += 1;
        report.table_bytes += meta.file_bytes;
        progress(report.table_bytes, all_bytes);
    }
    Ok((report.findings.len() == before).then_some(tables))
}

/// The cemetery checkpoint; `None` when it is not there or not to be trusted.
fn check_checkpoint(
    options: &CheckOptions,
    dir: &Path,
    mark: &MarkEdit,
    report: &mut CheckReport,
) -> Option<Checkpoint> {
    let Some(name) = &mark.checkpoint else { return Some(Checkpoint::default()) };
    let path = dir.join(name);
    let checkpoint = match Checkpoint::read(&*options.storage, &path) {
        Ok(checkpoint) => checkpoint,
        Err(error) => {
            report.found(&path, error.to_string());
            return None;
        }
    };
    report.graves = checkpoint.graves.len() as u64;
    if checkpoint.c != mark.m {
        report
            .found(&path, format!("is of sequence {}, expected the mark {}", checkpoint.c, mark.m));
    }
    if let Some((_, d)) = checkpoint.graves.iter().find(|(_, d)| *d > checkpoint.c) {
        report.found(&path, format!("holds a grave of {d}, above its sequence {}", checkpoint.c));
    }
    if !checkpoint.graves.windows(2).all(|pair| pair[0].0 < pair[1].0) {
        report.found(&path, "its graves are not in key order");
    }
    Some(checkpoint)
}

/// One walk over all levels: their order, graves, and the number of living keys.
fn check_levels(
    dir: &Path,
    tables: &[(usize, Arc<Table>)],
    mark: &MarkEdit,
    (checkpoint, spilled): (&Checkpoint, &[Arc<Table>]),
    report: &mut CheckReport,
) -> Result<(), EngineError> {
    let mut edit = VersionEdit::new();
    tables.iter().for_each(|(level, table)| edit.add(*level, Arc::clone(table)));
    let version = match crate::tree::version_of(&edit) {
        Ok(version) => version,
        Err(rule) => {
            report.found(dir, rule);
            return Ok(());
        }
    };
    // Newest first: each table of level 0, then the levels.
    let mut levels: Vec<LevelIter> = Vec::new();
    for table in version.level(0) {
        levels.push(LevelIter::new(Arc::from([Arc::clone(table)]), ReadMode::Sequential));
    }
    for level in 1..crate::tree::LEVELS {
        let tables = version.level(level);
        if !tables.is_empty() {
            levels.push(LevelIter::new(tables.into(), ReadMode::Sequential));
        }
    }
    for level in &mut levels {
        level.seek(b"")?;
    }
    let graves: BTreeMap<&[u8], Seq> =
        checkpoint.graves.iter().map(|(key, d)| (&**key, *d)).collect();
    let mut counts = vec![(0u64, 0u64); mark.namespaces.len()];
    let mut key = Vec::new();
    let next_key = |levels: &[LevelIter], key: &mut Vec<u8>| {
        let least = levels.iter().filter(|level| level.valid()).map(Source::key).min();
        least.map(|least| {
            key.clear();
            key.extend_from_slice(least);
        })
    };
    while next_key(&levels, &mut key).is_some() {
        let mut newest = None;
        let mut lowest = Seq::MAX;
        for level in &mut levels {
            while level.valid() && level.key() == key {
                let seq = level.seq();
                if seq >= lowest {
                    report.found(
                        dir,
                        format!(
                            "key {}: version {seq} lies below version {lowest}, which is not newer",
                            shown(&key)
                        ),
                    );
                }
                lowest = lowest.min(seq);
                newest.get_or_insert((seq, level.meta()));
                level.next()?;
            }
        }
        let Some((seq, meta)) = newest else { continue };
        let grave = graves.get(&*key).copied();
        if let Some(d) = grave.filter(|d| *d < seq) {
            report.found(
                dir,
                format!(
                    "key {}: its grave of {d} is open, and version {seq} is newer (P3)",
                    shown(&key)
                ),
            );
        }
        let spilled_d = newest_in_runs(spilled.iter().map(|table| &**table), &key, Seq::MAX)?;
        if grave.is_some()
            || spilled_d > Some(seq)
            || meta.is_tombstone()
            || !EngineKey::is_root(&key)
        {
            continue;
        }
        let Some(id) = EngineKey::namespace_of(&key) else { continue };
        let of = mark.namespaces.iter().position(|namespace| *namespace == id);
        match of.and_then(|db| counts.get_mut(db)) {
            Some((keys, expiring)) => {
                *keys += 1;
                *expiring += u64::from(meta.expire_at_ms != 0);
                report.live_keys += 1;
            }
            None if id == OWN_ID || mark.dead.iter().any(|(dead, _)| *dead == id) => {}
            None => report.found(
                dir,
                format!(
                    "key {}: no database has the namespace {id}, and it did not die (N7)",
                    shown(&key)
                ),
            ),
        }
    }
    for (db, (counted, stated)) in counts.iter().zip(&mark.counts).enumerate() {
        if counted != stated {
            report.found(
                dir,
                format!(
                    "database {db}: {} keys live, {} with an expiry; the mark counted {} and {}: \
                     keys were lost, or dead ones have come back",
                    counted.0, counted.1, stated.0, stated.1
                ),
            );
        }
    }
    Ok(())
}

/// A key for a message.
fn shown(key: &[u8]) -> String {
    key.escape_ascii().to_string()
}

//! Looking up one key over all levels.

use super::levels::LEVELS;
use super::undo_run::UndoRun;
use super::version::Version;
use crate::key::Seq;
use crate::table::{FoundVersion, Scratch, Table, TableResult, key_hash};
use std::cell::RefCell;
use std::sync::Arc;

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// Tables that may hold `key` by range and filter, newest first. No I/O.
pub fn files_that_may_hold<'a>(
    version: &'a Version,
    key: &'a [u8],
) -> impl Iterator<Item = &'a Arc<Table>> {
    leveled_files(version, key).map(|(_, table)| table)
}

/// Like [`files_that_may_hold`], each with its level.
fn leveled_files<'a>(
    version: &'a Version,
    key: &'a [u8],
) -> impl Iterator<Item = (usize, &'a Arc<Table>)> {
    let hash = key_hash(key);
    let top = version.level(0).iter().filter(move |table| table.properties().covers(key));
    let deeper = (1..LEVELS).filter_map(move |level| Some((level, version.table_for(level, key)?)));
    top.map(|table| (0, table)).chain(deeper).filter(move |(_, table)| table.may_contain(hash))
}

/// Undo runs that may hold `key` by range and filter. No I/O.
pub fn undo_that_may_hold<'a>(
    version: &'a Version,
    key: &'a [u8],
) -> impl Iterator<Item = &'a UndoRun> {
    let hash = key_hash(key);
    version
        .undo_runs()
        .iter()
        .filter(move |run| run.table.properties().covers(key) && run.table.may_contain(hash))
}

/// Files that may hold a key of the closed range, undo runs (N6) too. No I/O, and no filter, which knows single keys only.
pub fn files_in_range<'a>(
    version: &'a Version,
    from: &'a [u8],
    to: &'a [u8],
) -> impl Iterator<Item = &'a Arc<Table>> {
    let undo = version.undo_runs().iter().map(|run| &run.table);
    let undo = undo.filter(move |table| table.properties().overlaps(from, to));
    tables_in_range(version, from, to).chain(undo)
}

/// Like [`files_in_range`], without undo runs.
pub(super) fn tables_in_range<'a>(
    version: &'a Version,
    from: &'a [u8],
    to: &'a [u8],
) -> impl Iterator<Item = &'a Arc<Table>> {
    let top = version.level(0).iter().filter(move |table| table.properties().overlaps(from, to));
    top.chain((1..LEVELS).flat_map(move |level| version.overlapping(level, from, to)))
}

/// False only when no table holds a version of `key`, which cannot be older than `since`: then its namespace was
/// made, and no table written before can hold it, whatever the filter says. Looks at properties and filters in
/// memory.
#[must_use]
pub fn may_exist_since(version: &Version, key: &[u8], since: Seq) -> bool {
    files_that_may_hold(version, key).any(|table| table.properties().max_seq >= since)
}

/// The newest version of `key` that a reader at `s` can see in the tree and in the undo runs that such a
/// reader looks at (N6). What left the tree may be newer than what is left in its deeper levels.
///
/// # Errors
/// A failed read or a damaged table.
pub fn get_at(version: &Version, key: &[u8], s: Seq) -> TableResult<Option<FoundVersion>> {
    let mut best = get(version, key, s)?;
    SCRATCH.with_borrow_mut(|scratch| {
        for run in undo_that_may_hold(version, key).filter(|run| s <= run.through) {
            let newest = best.as_ref().map_or(0, |found| found.seq);
            let p = run.table.properties();
            if p.min_seq > s || p.max_seq <= newest {
                continue;
            }
            if let Some(found) = run.table.get(key, s, scratch)?
                && found.seq > newest
            {
                best = Some(found);
            }
        }
        Ok(best)
    })
}

/// [`get_at`] for many keys, which must be in ascending order: table by table, each from front to back. `take`
/// receives the index of a key and a version of it; a later call for that key carries a newer one.
///
/// # Errors
/// A failed read or a damaged table.
pub fn get_many_at(
    version: &Version,
    keys: &[&[u8]],
    s: Seq,
    take: &mut dyn FnMut(usize, &FoundVersion),
) -> TableResult<()> {
    debug_assert!(keys.is_sorted());
    let mut newest: Vec<Option<Seq>> = vec![None; keys.len()];
    let tree = version.tables().map(|(_, table)| (false, table));
    let undo = version.undo_for(s).map(|table| (true, table));
    SCRATCH.with_borrow_mut(|scratch| {
        for (is_undo, table) in tree.chain(undo) {
            let p = table.properties();
            if p.min_seq > s {
                continue;
            }
            let from = keys.partition_point(|key| *key < &*p.min_key);
            let to = keys.partition_point(|key| *key <= &*p.max_key);
            for i in from..to {
                // The first answer of the tree is its newest; an undo run may have a newer one.
                let is_answered = newest[i].is_some_and(|seq| !is_undo || p.max_seq <= seq);
                if is_answered || !table.may_contain(key_hash(keys[i])) {
                    continue;
                }
                if let Some(found) = table.get(keys[i], s, scratch)?
                    && newest[i].is_none_or(|seq| seq < found.seq)
                {
                    newest[i] = Some(found.seq);
                    take(i, &found);
                }
            }
        }
        Ok(())
    })
}

/// The newest version of `key` with a sequence at most `bound`. Graves are outside the tree: the
/// caller applies D(key, bound).
///
/// The first table that answers has the newest one: see the order of levels at [`Version`], which
/// debug builds check here.
///
/// # Errors
/// A failed read or a damaged table.
pub fn get(version: &Version, key: &[u8], bound: Seq) -> TableResult<Option<FoundVersion>> {
    Ok(get_with_level(version, key, bound)?.map(|(_, found)| found))
}

/// [`get`], and the level that answered.
///
/// # Errors
/// As for [`get`].
pub fn get_with_level(
    version: &Version,
    key: &[u8],
    bound: Seq,
) -> TableResult<Option<(usize, FoundVersion)>> {
    newest_in(leveled_files(version, key), key, bound)
}

/// Like `get_with_level`, over `tables`, which are those of `leveled_files`.
fn newest_in<'a>(
    mut tables: impl Iterator<Item = (usize, &'a Arc<Table>)>,
    key: &[u8],
    bound: Seq,
) -> TableResult<Option<(usize, FoundVersion)>> {
    SCRATCH.with_borrow_mut(|scratch| {
        while let Some((level, table)) = tables.next() {
            if table.properties().min_seq > bound {
                continue;
            }
            if let Some(found) = table.get(key, bound, scratch)? {
                let rest = tables.map(|(_, table)| table);
                debug_assert!(is_newest(&found, rest, key, bound), "levels out of order");
                return Ok(Some((level, found)));
            }
        }
        Ok(None)
    })
}

/// True when no table of `rest` has a newer version; one that cannot be read proves nothing.
fn is_newest<'a>(
    found: &FoundVersion,
    mut rest: impl Iterator<Item = &'a Arc<Table>>,
    key: &[u8],
    bound: Seq,
) -> bool {
    let mut scratch = Scratch::default();
    rest.all(|table| match table.get(key, bound, &mut scratch) {
        Ok(Some(other)) => other.seq < found.seq,
        Ok(None) | Err(_) => true,
    })
}

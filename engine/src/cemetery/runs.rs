//! Grave runs: sealed generations of graves on the device, as readers see them.
//!
//! A run is one or more table files (`engine/FORMAT.md`, "Grave run"). The sequence of an entry is its d,
//! so the newest entry at or below s is D(k, s). Runs are immutable: no put closes their graves, and
//! readers compare sequences instead. Only filters and indexes are in memory.
//!
//! The list of runs is not part of a superversion, because a reader whose superversion is older than a run
//! must still find the graves that left memory for it. Readers therefore check memory first and then the
//! current list. A run is listed before its graves leave memory. It stays listed, even when no new reader
//! needs it, until the superversions from before are gone (F3). A reader without a pin takes the list
//! before the superversion.

use super::published::{IsEmpty, Published};
use crate::error::TableResult;
use crate::key::{EngineKey, Seq};
use crate::table::{GraveFile, GravePlaces, Scratch, Table, key_hash};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// Runs of like size from which on they are merged into one.
const MERGE_WIDTH: usize = 4;

/// Input of a merge, in bytes: longer ones would keep the thread from the tree.
const MERGE_BYTES_MAX: u64 = 512 << 20;

/// With more runs than this the smaller half is merged whatever their sizes: each is a place to look.
const RUNS_MAX: usize = 24;

/// One file of a run.
#[derive(Clone, Debug)]
struct Listed {
    file: GraveFile,
    /// Number of the superversion from which on nobody needs it (F3); 0 while it is needed.
    retired_in: u64,
}

/// The runs at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunList(Vec<Listed>);

/// What the runs hold, for INFO.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RunFigures {
    /// Runs in use.
    pub(crate) runs: u64,
    /// Graves in them.
    pub(crate) graves: u64,
    /// Bytes of their files.
    pub(crate) file_bytes: u64,
    /// Filters and indexes in memory, those in limbo included.
    pub(crate) memory_bytes: u64,
}

impl RunList {
    /// False only when no run has a grave of `key`. No I/O.
    pub(crate) fn may_hold(&self, key: &[u8]) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let holds = |key: &[u8]| {
            let hash = key_hash(key);
            self.0.iter().any(|listed| {
                let table = &listed.file.table;
                table.properties().covers(key) && table.may_contain(hash)
            })
        };
        holds(key) || EngineKey::prefix_of(key).is_some_and(holds)
    }

    /// D(k, s) among the graves of the runs.
    ///
    /// # Errors
    /// A block that cannot be read: the key may be dead then, and nothing must be answered.
    pub(crate) fn newest_at(&self, key: &[u8], s: Seq) -> TableResult<Option<Seq>> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tables = || self.0.iter().map(|listed| &*listed.file.table);
        let own = newest_in_runs(tables(), key, s)?;
        let Some(prefix) = EngineKey::prefix_of(key) else { return Ok(own) };
        Ok(own.max(newest_in_runs(tables(), prefix, s)?))
    }

    /// Like [`RunList::newest_at`], for keys that ascend from one call to the next.
    fn newest_in_order(
        &self,
        key: &[u8],
        s: Seq,
        places: &mut GravePlaces,
    ) -> TableResult<Option<Seq>> {
        let tables = || self.0.iter().map(|listed| &listed.file.table);
        let own = places.own.newest_seq(tables(), (key, || key_hash(key)), s)?;
        let Some(prefix) = EngineKey::prefix_of(key) else { return Ok(own) };
        // The prefixes of such keys ascend, too.
        let of_prefix = (prefix, || key_hash(prefix));
        Ok(own.max(places.of_prefixes.newest_seq(tables(), of_prefix, s)?))
    }

    /// The files that are needed.
    pub(crate) fn in_use(&self) -> impl Iterator<Item = &GraveFile> {
        self.0.iter().filter(|listed| listed.retired_in == 0).map(|listed| &listed.file)
    }

    /// The files of runs that should become one run; empty when none should.
    pub(crate) fn pick_merge(&self) -> Vec<GraveFile> {
        let mut bytes_of: BTreeMap<u64, u64> = BTreeMap::new();
        for file in self.in_use() {
            *bytes_of.entry(file.run).or_default() += file.table.file_bytes();
        }
        let mut sizes: Vec<(u64, u64)> = bytes_of.into_iter().map(|(run, b)| (b, run)).collect();
        sizes.sort_unstable();
        let taken = runs_to_merge(&sizes.iter().map(|(bytes, _)| *bytes).collect::<Vec<_>>());
        let chosen = |run: u64| sizes[..taken].iter().any(|(_, chosen)| *chosen == run);
        self.in_use().filter(|file| chosen(file.run)).cloned().collect()
    }

    /// Figures for INFO.
    pub(crate) fn figures(&self) -> RunFigures {
        let mut ids: Vec<u64> = self.in_use().map(|file| file.run).collect();
        ids.sort_unstable();
        ids.dedup();
        let memory = self.0.iter().map(|listed| listed.file.table.memory_bytes() as u64);
        RunFigures {
            runs: ids.len() as u64,
            graves: self.in_use().map(|file| file.table.properties().entries).sum(),
            file_bytes: self.in_use().map(|file| file.table.file_bytes()).sum(),
            memory_bytes: memory.sum(),
        }
    }
}

/// D(k, s) among the graves of these files of runs.
///
/// # Errors
/// As for [`RunList::newest_at`].
pub(crate) fn newest_in_runs<'t>(
    files: impl Iterator<Item = &'t Table>,
    key: &[u8],
    s: Seq,
) -> TableResult<Option<Seq>> {
    let hash = key_hash(key);
    let mut newest = None;
    for table in files {
        let p = table.properties();
        let is_candidate = p.min_seq <= s && Some(p.max_seq) > newest && p.covers(key);
        if is_candidate && table.may_contain(hash) {
            let found = SCRATCH.with_borrow_mut(|scratch| table.get(key, s, scratch))?;
            newest = newest.max(found.map(|grave| grave.seq));
        }
    }
    Ok(newest)
}

/// How many of the smallest runs are to be merged; `sizes` in ascending order. Each taken one is at most
/// as large as the smaller ones together, so that a grave is rewritten a logarithmic number of times.
fn runs_to_merge(sizes: &[u64]) -> usize {
    if sizes.len() > RUNS_MAX {
        return sizes.len() / 2;
    }
    let (mut taken, mut total) = (0, 0);
    for &size in sizes {
        if taken > 0 && (size > total || total + size > MERGE_BYTES_MAX) {
            break;
        }
        (taken, total) = (taken + 1, total + size);
    }
    if taken >= MERGE_WIDTH { taken } else { 0 }
}

impl IsEmpty for RunList {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The list of runs, changed while readers look at it.
#[derive(Default)]
pub(crate) struct GraveRuns(Published<RunList>);

impl GraveRuns {
    /// True when there is no run: nothing else is asked then.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The runs at this moment.
    pub(crate) fn load(&self) -> Arc<RunList> {
        self.0.load()
    }

    /// False only when no run has a grave of `key`. No I/O.
    #[inline]
    pub(crate) fn may_hold(&self, key: &[u8]) -> bool {
        !self.is_empty() && self.0.with(|list| list.may_hold(key))
    }

    /// D(k, s) among the graves of the runs; for readers that hold a pin.
    ///
    /// # Errors
    /// As for [`RunList::newest_at`].
    #[inline]
    pub(crate) fn newest_at(&self, key: &[u8], s: Seq) -> TableResult<Option<Seq>> {
        if self.is_empty() {
            return Ok(None);
        }
        self.0.with(|list| list.newest_at(key, s))
    }

    /// Like [`GraveRuns::newest_at`], for keys that ascend from one call to the next: the runs are walked beside them.
    ///
    /// # Errors
    /// As for [`RunList::newest_at`].
    #[inline]
    pub(crate) fn newest_in_order(
        &self,
        key: &[u8],
        s: Seq,
        places: &mut GravePlaces,
    ) -> TableResult<Option<Seq>> {
        if self.is_empty() {
            return Ok(None);
        }
        self.0.with(|list| list.newest_in_order(key, s, places))
    }

    /// Adds files, and takes files out of use: those stay readable until the superversions below
    /// `retired_in` are gone.
    pub(crate) fn change(&self, added: &[GraveFile], retired: &[u64], retired_in: u64) {
        self.0.update(|list| {
            for listed in &mut list.0 {
                if listed.retired_in == 0 && retired.contains(&listed.file.table.number()) {
                    listed.retired_in = retired_in;
                }
            }
            let new = added.iter().cloned().map(|file| Listed { file, retired_in: 0 });
            list.0.extend(new);
        });
    }

    /// Lets go of files in limbo that no superversion from `oldest_reader` on needs (F3).
    pub(crate) fn end_limbo(&self, oldest_reader: u64) {
        let is_over =
            |listed: &Listed| listed.retired_in != 0 && oldest_reader >= listed.retired_in;
        if self.0.with(|list| list.0.iter().any(is_over)) {
            self.0.update(|list| list.0.retain(|listed| !is_over(listed)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_like_size_are_merged_and_a_large_one_is_left_alone() {
        assert_eq!(runs_to_merge(&[]), 0);
        assert_eq!(runs_to_merge(&[10, 10, 10]), 0, "too few");
        assert_eq!(runs_to_merge(&[10, 10, 10, 10]), 4);
        assert_eq!(runs_to_merge(&[10, 10, 10, 10, 400]), 4);
        assert_eq!(runs_to_merge(&[10, 30, 60, 120]), 0, "no two of like size");
        assert_eq!(runs_to_merge(&[10, 10, 15, 30, 60, 900]), 5);
        let large = MERGE_BYTES_MAX / 3;
        assert_eq!(runs_to_merge(&[large, large, large, large]), 0, "a merge has a bound");
        assert_eq!(runs_to_merge(&[large; RUNS_MAX + 2]), RUNS_MAX / 2 + 1, "so has their number");
    }

    #[test]
    fn the_work_of_merging_grows_with_the_logarithm() {
        let (mut sizes, mut written) = (Vec::new(), 0);
        for _ in 0..1000 {
            sizes.push(10u64);
            sizes.sort_unstable();
            let taken = runs_to_merge(&sizes);
            if taken > 0 {
                let merged: u64 = sizes.drain(..taken).sum();
                written += merged;
                sizes.push(merged);
            }
            assert!(sizes.len() <= RUNS_MAX);
        }
        assert!(written <= 10_000 * 8, "{written} bytes for 10000");
    }
}

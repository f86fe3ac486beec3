//! A version of the tree: the tables of each level.

use super::edit::VersionEdit;
use super::level_iter::LevelIter;
use super::levels::LEVELS;
use super::undo_run::UndoRun;
use crate::key::{EngineKey, Seq};
use crate::table::{ReadMode, Table};
use std::sync::Arc;

/// An immutable list of tables. Level 0 holds tables that may overlap, newest first; the deeper
/// levels are sorted by key and do not overlap.
///
/// For every key, all its versions in a table of level 0 are newer than those in the tables
/// behind it, and all its versions in a level are newer than those in deeper levels. Flushes
/// install in order, merges take whole keys, and a merge out of level 0 takes every table of it,
/// so look-ups may stop at the first level that answers.
#[derive(Clone, Debug)]
pub struct Version {
    levels: Vec<Arc<[Arc<Table>]>>,
    undo: Arc<[UndoRun]>,
}

impl Default for Version {
    fn default() -> Self {
        Self { levels: (0..LEVELS).map(|_| Arc::from([])).collect(), undo: Arc::from([]) }
    }
}

impl Version {
    /// The version after `edit`; the text says which rule the edit would break.
    pub(super) fn after(&self, edit: &VersionEdit) -> Result<Self, &'static str> {
        let mut next = self.clone();
        for level in 0..LEVELS {
            let gone = edit.deleted.iter().filter(|(l, _)| *l == level).count();
            let new = edit.added.iter().filter(|(l, _)| *l == level);
            if gone == 0 && new.clone().next().is_none() {
                continue;
            }
            let old = &self.levels[level];
            let is_gone = |number| edit.deleted.contains(&(level, number));
            let mut tables: Vec<Arc<Table>> =
                old.iter().filter(|table| !is_gone(table.number())).cloned().collect();
            if old.len() - tables.len() != gone {
                return Err("an edit deletes a table that is not there");
            }
            tables.extend(new.map(|(_, table)| Arc::clone(table)));
            if level == 0 {
                tables.sort_by_key(|table| {
                    std::cmp::Reverse((table.properties().max_seq, table.number()))
                });
            } else {
                tables.sort_by(|a, b| a.properties().min_key.cmp(&b.properties().min_key));
                let overlap = |pair: &[Arc<Table>]| {
                    pair[0].properties().max_key >= pair[1].properties().min_key
                };
                if tables.windows(2).any(overlap) {
                    return Err("an edit makes tables of a level overlap");
                }
            }
            next.levels[level] = tables.into();
        }
        if !edit.undo_added.is_empty() || !edit.undo_deleted.is_empty() {
            // One that is not there any more has gone because nobody needed it.
            let stays = |run: &&UndoRun| !edit.undo_deleted.contains(&run.table.number());
            let old = self.undo.iter().filter(stays);
            next.undo = old.chain(&edit.undo_added).cloned().collect();
        }
        Ok(next)
    }

    /// The undo runs.
    #[must_use]
    pub fn undo_runs(&self) -> &[UndoRun] {
        &self.undo
    }

    /// The tables of the undo runs that a reader at `s` looks at.
    pub fn undo_for(&self, s: Seq) -> impl Iterator<Item = &Arc<Table>> {
        self.undo.iter().filter(move |run| s <= run.through).map(|run| &run.table)
    }

    /// Everything a grave may cover (F2): the tables and the undo runs.
    fn files(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.tables().map(|(_, table)| table).chain(self.undo.iter().map(|run| &run.table))
    }

    /// The tables of a level; none for a level that does not exist.
    #[must_use]
    pub fn level(&self, level: usize) -> &[Arc<Table>] {
        self.levels.get(level).map_or(&[], |tables| tables)
    }

    /// All tables with their levels, top down.
    pub fn tables(&self) -> impl Iterator<Item = (usize, &Arc<Table>)> {
        self.levels.iter().enumerate().flat_map(|(i, tables)| tables.iter().map(move |t| (i, t)))
    }

    /// The table of `level`, at 1 or deeper, whose key range holds `key`.
    #[must_use]
    pub fn table_for(&self, level: usize, key: &[u8]) -> Option<&Arc<Table>> {
        let tables = self.level(level);
        let at = tables.partition_point(|table| *table.properties().max_key < *key);
        tables.get(at).filter(|table| *table.properties().min_key <= *key)
    }

    /// The tables of `level`, at 1 or deeper, that may hold keys of the closed range.
    #[must_use]
    pub fn overlapping(&self, level: usize, min_key: &[u8], max_key: &[u8]) -> &[Arc<Table>] {
        let tables = self.level(level);
        let from = tables.partition_point(|table| *table.properties().max_key < *min_key);
        let to = tables.partition_point(|table| *table.properties().min_key <= *max_key);
        tables.get(from..to).unwrap_or_default()
    }

    /// Tables among which the smallest and the largest key in [`lower`, `upper`) of any table are to be
    /// sought: of a level in order only the first and the last that can hold such keys.
    pub fn outermost<'a>(
        &'a self,
        lower: &'a [u8],
        upper: Option<&'a [u8]>,
    ) -> impl Iterator<Item = &'a Arc<Table>> {
        self.levels.iter().enumerate().flat_map(move |(level, tables)| {
            if level == 0 {
                return tables.iter().step_by(1);
            }
            let from = tables.partition_point(|table| *table.properties().max_key < *lower);
            let to = upper.map_or(tables.len(), |upper| {
                tables.partition_point(|table| *table.properties().min_key < *upper)
            });
            let inside = tables.get(from..to).unwrap_or_default();
            inside.iter().step_by(inside.len().saturating_sub(1).max(1))
        })
    }

    /// One cursor for each table of level 0 and one for each deeper level, newest first, for a user's
    /// scan at `s`. Tables that hold nothing at or below it are left out, and those of level 0 for which
    /// `skips` answers true.
    #[must_use]
    pub fn cursors(&self, s: Seq, skips: impl Fn(&Table) -> bool) -> Vec<LevelIter> {
        let is_younger = |table: &Arc<Table>| table.properties().min_seq > s;
        let top = self.level(0).iter().filter(|table| !is_younger(table) && !skips(table));
        let top = top.map(|table| Arc::from([Arc::clone(table)]));
        let deeper = self.levels.iter().skip(1).map(|tables| {
            // None is for a reader of the newest state, which shares the list.
            if tables.iter().any(is_younger) {
                tables.iter().filter(|table| !is_younger(table)).cloned().collect()
            } else {
                Arc::clone(tables)
            }
        });
        let deeper = deeper.filter(|tables| !tables.is_empty());
        top.chain(deeper).map(|tables| LevelIter::new(tables, ReadMode::Cached)).collect()
    }

    /// True when there is no table.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.levels.iter().all(|tables| tables.is_empty())
    }

    /// Smallest `buried_through` of all tables; `Seq::MAX` when there is none. Graves at or below
    /// pass F2(b) without a look at the single tables.
    #[must_use]
    pub fn min_buried_through(&self) -> Seq {
        let claims = self.files().map(|table| table.properties().buried_through);
        claims.min().unwrap_or(Seq::MAX)
    }

    /// True when some table may hold a key in the half-open range.
    #[must_use]
    pub fn overlaps(&self, from: &[u8], to: &[u8]) -> bool {
        self.files().any(|table| {
            let p = table.properties();
            *p.min_key < *to && *from <= *p.max_key
        })
    }

    /// True when some table has a version of a namespace, as far as its id range tells, and was
    /// written without burying everything up to `d`: the test of N7 before a dead id is forgotten.
    #[must_use]
    pub fn may_hold_namespace(&self, id: u64, d: Seq) -> bool {
        self.files().any(|table| table.properties().may_hold_namespace(id, d))
    }

    /// The tables of the tree that [`Version::may_hold_namespace`] finds.
    pub fn holders_of_namespace(
        &self,
        id: u64,
        d: Seq,
    ) -> impl Iterator<Item = (usize, &Arc<Table>)> {
        self.tables().filter(move |(_, table)| table.properties().may_hold_namespace(id, d))
    }

    /// Tables with expiry index records that may be older than the delete `d` and were written without
    /// it. Kinds are sorted: such records come last in a table.
    pub fn expiry_index_before(&self, d: Seq) -> impl Iterator<Item = (usize, &Arc<Table>)> {
        self.tables().filter(move |(_, table)| {
            let p = table.properties();
            EngineKey::is_expiry(&p.max_key) && !p.is_past(d)
        })
    }

    /// Bytes of indexes and filters in memory.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.files().map(|table| table.memory_bytes() as u64).sum()
    }

    /// Number of tables and bytes of each level, L0 first.
    #[must_use]
    pub fn level_sizes(&self) -> Vec<(u64, u64)> {
        let size = |tables: &[Arc<Table>]| tables.iter().map(|table| table.file_bytes()).sum();
        self.levels.iter().map(|tables| (tables.len() as u64, size(tables))).collect()
    }
}

//! Walking a level: tables that follow each other without overlap.

use super::source::Source;
use super::version::Version;
use crate::key::{Meta, Seq};
use crate::table::{ReadMode, Table, TableIter, TableResult};
use std::sync::Arc;

/// A source of a user's scan: a level, a table of level 0, or a sorted memtable.
pub type ScanSource = Box<dyn Source + Send>;

/// A forward iterator over tables in key order, opened one after the other.
#[derive(Debug)]
pub struct LevelIter {
    tables: Arc<[Arc<Table>]>,
    at: usize,
    iter: Option<TableIter>,
    mode: ReadMode,
}

impl LevelIter {
    /// Over `tables`, which must be sorted and must not overlap.
    #[must_use]
    pub fn new(tables: Arc<[Arc<Table>]>, mode: ReadMode) -> Self {
        Self { tables, at: 0, iter: None, mode }
    }

    fn start(&mut self, at: usize, key: &[u8]) -> TableResult<()> {
        self.at = at;
        let Some(table) = self.tables.get(at) else {
            self.iter = None;
            return Ok(());
        };
        let iter = match &mut self.iter {
            Some(iter) => {
                iter.reset(Arc::clone(table));
                iter
            }
            None => self.iter.insert(table.iter(self.mode)),
        };
        iter.seek(key)
    }

    #[cold]
    fn next_table(&mut self) -> TableResult<()> {
        self.start(self.at + 1, b"")
    }
}

impl Source for LevelIter {
    #[inline]
    fn valid(&self) -> bool {
        self.iter.as_ref().is_some_and(TableIter::valid)
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.iter.as_ref().map_or(&[], TableIter::key)
    }

    #[inline]
    fn seq(&self) -> Seq {
        self.iter.as_ref().map_or(0, TableIter::seq)
    }

    #[inline]
    fn meta(&self) -> Meta {
        self.iter.as_ref().map_or_else(Meta::default, TableIter::meta)
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.iter.as_ref().map_or(&[], TableIter::value)
    }

    #[inline]
    fn next(&mut self) -> TableResult<()> {
        let Some(iter) = &mut self.iter else { return Ok(()) };
        iter.next()?;
        if iter.valid() { Ok(()) } else { self.next_table() }
    }

    fn seek(&mut self, key: &[u8]) -> TableResult<()> {
        let at = self.tables.partition_point(|table| *table.properties().max_key < *key);
        self.start(at, key)
    }
}

/// Adds one source for each table of level 0 and one for each deeper level, newest first.
pub fn add_sources(version: &Version, sources: &mut Vec<ScanSource>) {
    for table in version.level(0) {
        sources.push(Box::new(table.iter(ReadMode::Cached)));
    }
    for tables in version.deeper_levels().filter(|tables| !tables.is_empty()) {
        sources.push(Box::new(LevelIter::new(Arc::clone(tables), ReadMode::Cached)));
    }
}

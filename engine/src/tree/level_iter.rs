//! Walking a level: tables that follow each other without overlap.

use crate::key::{Meta, Seq};
use crate::source::{BackSource, Source};
use crate::table::{ReadMode, Table, TableIter, TableResult};
use std::sync::Arc;

/// An iterator over tables in key order, opened one after the other.
#[derive(Debug)]
pub struct LevelIter {
    tables: Arc<[Arc<Table>]>,
    at: usize,
    iter: Option<TableIter>,
    mode: ReadMode,
    /// Bound of what a long scan reads ahead; `None` for the default.
    read_ahead_bytes_max: Option<usize>,
    /// Larger blocks are given up until their values are asked for.
    held_block_bytes_max: usize,
}

impl LevelIter {
    /// Over `tables`, which must be sorted and must not overlap.
    #[must_use]
    pub fn new(tables: Arc<[Arc<Table>]>, mode: ReadMode) -> Self {
        Self {
            tables,
            at: 0,
            iter: None,
            mode,
            read_ahead_bytes_max: None,
            held_block_bytes_max: usize::MAX,
        }
    }

    /// Limits how far a long scan reads ahead, in bytes; 0 reads block by block.
    #[must_use]
    pub fn reading_ahead(mut self, bytes_max: Option<usize>) -> Self {
        self.read_ahead_bytes_max = bytes_max;
        self
    }

    /// Lets it hold a block of more than `bytes_max` only from [`Source::load_value`] to the next step.
    #[must_use]
    pub fn holding_blocks(mut self, bytes_max: usize) -> Self {
        self.held_block_bytes_max = bytes_max;
        self
    }

    /// The iterator over table `at`, not positioned; `None`, and not valid, when there is no such table.
    fn open(&mut self, at: usize) -> Option<&mut TableIter> {
        self.at = at;
        let Some(table) = self.tables.get(at) else {
            self.iter = None;
            return None;
        };
        match &mut self.iter {
            Some(iter) => iter.reset(Arc::clone(table)),
            empty => {
                let iter = empty.insert(table.iter(self.mode));
                iter.set_held_block(self.held_block_bytes_max);
                if let Some(bytes_max) = self.read_ahead_bytes_max {
                    iter.set_read_ahead(bytes_max);
                }
            }
        }
        self.iter.as_mut()
    }

    /// The first table that ends at or above `key`.
    fn first_reaching(&self, key: &[u8]) -> usize {
        self.tables.partition_point(|table| *table.properties().max_key < *key)
    }

    /// How many tables from `first` on end below `to` and have nothing above sequence `d`.
    fn passed_by(&self, first: usize, to: &[u8], d: Seq) -> usize {
        let inside = |table: &&Arc<Table>| {
            let p = table.properties();
            p.max_seq <= d && *p.max_key < *to
        };
        self.tables.get(first..).unwrap_or_default().iter().take_while(inside).count()
    }

    #[cold]
    fn next_table(&mut self) -> TableResult<()> {
        let next = self.at + 1;
        self.open(next).map_or(Ok(()), TableIter::enter_front)
    }

    #[cold]
    fn table_before(&mut self) -> TableResult<()> {
        let before = self.at.checked_sub(1).unwrap_or(self.tables.len());
        self.open(before).map_or(Ok(()), TableIter::enter_back)
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
    fn load_value(&mut self) -> TableResult<()> {
        self.iter.as_mut().map_or(Ok(()), TableIter::load_value)
    }

    #[inline]
    fn next(&mut self) -> TableResult<()> {
        let Some(iter) = &mut self.iter else { return Ok(()) };
        iter.next()?;
        if iter.valid() { Ok(()) } else { self.next_table() }
    }

    #[inline]
    fn next_key(&mut self) -> TableResult<()> {
        let Some(iter) = &mut self.iter else { return Ok(()) };
        iter.next_key()?;
        // Tables do not overlap, so the next one has another key.
        if iter.valid() { Ok(()) } else { self.next_table() }
    }

    #[inline]
    fn is_marked_dead(&self, s: Seq) -> bool {
        self.iter.as_ref().is_some_and(|iter| iter.is_marked_dead(s))
    }

    fn mark_dead(&self, s: Seq) {
        if let Some(iter) = &self.iter {
            iter.mark_dead(s);
        }
    }

    fn seek(&mut self, key: &[u8]) -> TableResult<()> {
        let at = self.first_reaching(key);
        self.open(at).map_or(Ok(()), |iter| iter.seek(key))
    }

    fn seek_over(&mut self, key: &[u8], to: &[u8], d: Seq) -> TableResult<()> {
        // No block of a table that lies inside is read, not even to find the place in it.
        let first = self.first_reaching(key);
        let at = first + self.passed_by(first, to, d);
        let is_old = self.tables.get(at).is_some_and(|table| table.properties().max_seq <= d);
        self.open(at).map_or(Ok(()), |iter| iter.seek(if is_old { to } else { key }))
    }

    fn pass_dead(&mut self, to: &[u8], d: Seq) -> TableResult<()> {
        // Tables that end inside are passed unread; the one after them is entered.
        let passed = self.passed_by(self.at, to, d);
        let at = self.at + passed;
        match self.tables.get(at) {
            Some(table) if table.properties().max_seq <= d => {
                let iter = if passed > 0 { self.open(at) } else { self.iter.as_mut() };
                iter.map_or(Ok(()), |iter| iter.seek(to))
            }
            _ if passed == 0 => Ok(()),
            _ => self.open(at).map_or(Ok(()), TableIter::enter_front),
        }
    }
}

impl BackSource for LevelIter {
    #[inline]
    fn prev(&mut self) -> TableResult<()> {
        let Some(iter) = self.iter.as_mut().filter(|iter| iter.valid()) else { return Ok(()) };
        iter.prev()?;
        if iter.valid() { Ok(()) } else { self.table_before() }
    }

    fn seek_back(&mut self, key: Option<&[u8]>) -> TableResult<()> {
        // The last table that has a key below.
        let below = key.map_or(self.tables.len(), |key| {
            self.tables.partition_point(|table| *table.properties().min_key < *key)
        });
        let at = below.checked_sub(1).unwrap_or(self.tables.len());
        self.open(at).map_or(Ok(()), |iter| iter.seek_back(key))
    }

    fn pass_dead_back(&mut self, from: &[u8], d: Seq) -> TableResult<()> {
        let is_old = |table: &Arc<Table>| table.properties().max_seq <= d;
        let Some(rest) = self.tables.get(..=self.at) else { return Ok(()) };
        let inside = |table: &Arc<Table>| is_old(table) && *from <= *table.properties().min_key;
        let passed = rest.iter().rev().take_while(|table| inside(table)).count();
        let Some(at) = self.at.checked_sub(passed) else {
            self.open(self.tables.len());
            return Ok(());
        };
        if is_old(&rest[at]) {
            let iter = if passed > 0 { self.open(at) } else { self.iter.as_mut() };
            return iter.map_or(Ok(()), |iter| iter.seek_back(Some(from)));
        }
        if passed == 0 { Ok(()) } else { self.open(at).map_or(Ok(()), TableIter::enter_back) }
    }
}

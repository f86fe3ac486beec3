//! Walks a memtable's skip list, which may grow meanwhile. Records added later are newer than the
//! reader, which recognizes them by their sequences.

use super::Memtable;
use super::arena::Position;
use super::record::Record;
use super::skiplist::SkipList;
use crate::error::TableResult;
use crate::key::{Meta, Seq};
use crate::source::{BackSource, Source};
use std::sync::Arc;

/// A cursor on the list of a memtable, as merges want it.
pub(crate) struct ListSource {
    memtable: Arc<Memtable>,
    at: Option<Position>,
}

impl ListSource {
    /// A walk over the skip list of `memtable`, not positioned yet; empty without one.
    #[must_use]
    pub(crate) fn new(memtable: Arc<Memtable>) -> Self {
        Self { memtable, at: None }
    }

    fn list(&self) -> Option<&SkipList> {
        self.memtable.list.as_ref()
    }

    #[inline]
    fn record(&self) -> Option<Record<'_>> {
        self.at.map(|at| self.memtable.record(at))
    }
}

impl Source for ListSource {
    fn valid(&self) -> bool {
        self.at.is_some()
    }

    fn key(&self) -> &[u8] {
        self.record().map_or(&[], |record| record.key)
    }

    fn seq(&self) -> Seq {
        self.record().map_or(0, |record| record.seq)
    }

    fn meta(&self) -> Meta {
        self.record().map_or_else(Meta::default, |record| record.meta)
    }

    fn value(&self) -> &[u8] {
        self.record().map_or(&[], |record| record.value())
    }

    fn next(&mut self) -> TableResult<()> {
        self.at = self.at.and_then(|at| self.list()?.after(at));
        Ok(())
    }

    fn next_key(&mut self) -> TableResult<()> {
        let (Some(at), Some(list)) = (self.at, self.list()) else { return Ok(()) };
        let key = self.memtable.record(at).key;
        let mut next = list.after(at);
        while let Some(other) = next.filter(|&other| self.memtable.record(other).key == key) {
            next = list.after(other);
        }
        self.at = next;
        Ok(())
    }

    fn seek(&mut self, key: &[u8]) -> TableResult<()> {
        self.at = self.list().and_then(|list| list.lower_bound(key, Seq::MAX));
        Ok(())
    }
}

impl BackSource for ListSource {
    fn prev(&mut self) -> TableResult<()> {
        self.at = self.record().and_then(|record| self.list()?.last_before(record.key, record.seq));
        Ok(())
    }

    fn seek_back(&mut self, key: Option<&[u8]>) -> TableResult<()> {
        self.at = self.list().and_then(|list| match key {
            Some(key) => list.last_before(key, Seq::MAX),
            None => list.last(),
        });
        Ok(())
    }
}

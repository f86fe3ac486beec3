//! Pages of collections in memory: those of one shard, beside its table of keys.
//!
//! A page is in the shard of its root's key, under that key's latch, in a separate table. Walks over keys therefore meet no pages, and
//! a store without collections has no such table. A page is an ordinary entry: pinned while its memtable is not
//! sorted (N10), evicted when a table or a sorted memtable holds it, loaded again by a ticket.

use super::page_key::cid_of;
use crate::dram::{EntryRef, Evicted, PagePool, SweepPass, Table};
use crate::key;
use std::sync::Arc;

/// The pages of one shard.
#[derive(Default)]
pub(super) struct ShardPages {
    table: Option<Box<Table>>,
    /// Collections that are gone, and whose pages may still be in the table.
    dead: Vec<u64>,
    pass: SweepPass,
}

impl ShardPages {
    /// The table, if there ever was a page.
    #[inline]
    pub(super) fn table(&self) -> Option<&Table> {
        self.table.as_deref()
    }

    /// The table, to be changed, if there ever was a page.
    pub(super) fn table_mut(&mut self) -> Option<&mut Table> {
        self.table.as_deref_mut()
    }

    /// The table, which is made where there is none.
    pub(super) fn make_table(&mut self, pool: &Arc<PagePool>) -> &mut Table {
        self.table.get_or_insert_with(|| Box::new(Table::new(Arc::clone(pool))))
    }

    /// What `figure` says of the table; 0 without one.
    #[inline]
    pub(super) fn sum(&self, figure: impl Fn(&Table) -> usize) -> usize {
        self.table().map_or(0, figure)
    }

    /// Evicts pages that `may_go`: of `excess` bytes, which are too much of `held`, those that are the share of pages.
    pub(super) fn evict(
        &mut self,
        (excess, held): (usize, usize),
        may_go: &mut dyn FnMut(&EntryRef<'_>) -> bool,
    ) -> Evicted {
        let Some(table) = self.table.as_deref_mut() else { return Evicted::default() };
        let share = (excess as u128 * table.bytes() as u128).div_ceil(held.max(1) as u128);
        table.evict(share as usize, may_go)
    }

    /// The prefix of a collection was buried: its pages go step by step.
    pub(super) fn note_dead(&mut self, prefix: &[u8]) {
        let cid = prefix.get(key::HEAD_BYTES..).and_then(cid_of);
        if self.table.is_some() {
            self.dead.extend(cid);
            self.dead.sort_unstable();
            // What was passed may hold pages of this one.
            self.pass = SweepPass::default();
        }
    }

    /// True when pages of collections that are gone may be left.
    pub(super) fn has_dead(&self) -> bool {
        !self.dead.is_empty()
    }

    /// Removes pages of collections that are gone, visiting at most `buckets` buckets; true when none is left.
    pub(super) fn sweep_dead(&mut self, buckets: usize) -> bool {
        let Some(table) = self.table.as_deref_mut() else { return true };
        let dead = &self.dead;
        let is_dead = |key: &[u8]| cid_of(key).is_some_and(|cid| dead.binary_search(&cid).is_ok());
        let is_over = table.sweep_entries(&mut self.pass, buckets, |entry| is_dead(entry.key()));
        if is_over {
            self.dead.clear();
        }
        is_over
    }
}

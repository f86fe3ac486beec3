//! Counts the versions in tables that graves in grave runs make dead (N5).
//!
//! Both are sorted and immutable, so a file of a run is joined with the tables it overlaps once: one
//! walk over the run, with a cursor along each level. The counts are kept by (file of a
//! run, table), and only new pairs are counted. Filters may err, and versions may be hidden by
//! a newer one: the counts choose what to rewrite and justify nothing else.

use super::version::Version;
use crate::key::{EngineKey, Seq};
use crate::source::Source;
use crate::table::GraveFile;
use crate::table::{ReadMode, Table, TableError, TableResult, key_hash};
use hashbrown::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A block counts as dead when the graves that hit it are this share of an average block's keys.
const BLOCK_PERCENT: u64 = 90;

/// Graves between two looks at the stop flag.
const CHECK_GRAVES: u64 = 4096;

/// What graves do to one table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dead {
    /// Keys with a grave that the table was not written under.
    pub keys: u64,
    /// Blocks in which nearly every key has one.
    pub blocks: u64,
    /// The oldest of these graves; `Seq::MAX` without any.
    pub oldest: Seq,
}

impl Dead {
    pub(super) const NONE: Self = Self { keys: 0, blocks: 0, oldest: Seq::MAX };

    pub(super) fn add(&mut self, other: Self) {
        self.keys += other.keys;
        self.blocks += other.blocks;
        self.oldest = self.oldest.min(other.oldest);
    }

    /// What one grave of all keys in the closed range does to a table, by its blocks.
    pub(super) fn of_range(table: &Table, (from, to): (&[u8], &[u8]), d: Seq) -> Self {
        let (p, all) = (table.properties(), table.blocks().max(1) as u64);
        let hit = table.blocks_between(from, to).len().max(1) as u64;
        // The first and the last block are shared with neighbours, if there are any.
        let shared = u64::from(*p.min_key < *from) + u64::from(*p.max_key > *to);
        let keys = (p.distinct_keys * hit / all).max(1);
        Self { keys, blocks: hit.saturating_sub(shared), oldest: d }
    }

    /// What goes of a table with all keys from `from` to below `to`, by the blocks that hold no others.
    pub(super) fn of_whole_blocks(table: &Table, (from, to): (&[u8], &[u8])) -> Self {
        let (p, all) = (table.properties(), table.blocks().max(1) as u64);
        let hit = table.blocks_between(from, to).len() as u64;
        let shared = u64::from(*p.min_key < *from) + u64::from(*p.max_key >= *to);
        let blocks = hit.saturating_sub(shared);
        Self { keys: p.distinct_keys * blocks / all, blocks, ..Self::NONE }
    }

    /// The larger share of the table that is dead, by keys or by blocks, in percent.
    pub(super) fn percent_of(self, table: &Table) -> u64 {
        let by_keys = self.keys * 100 / table.properties().distinct_keys.max(1);
        by_keys.max(self.blocks * 100 / table.blocks().max(1) as u64)
    }
}

/// Counts of all pairs that there are.
#[derive(Debug, Default)]
pub struct DeadCounts {
    pairs: HashMap<(u64, u64), Dead, foldhash::fast::FixedState>,
}

/// The tables of one level (or one table of level 0) that a run is joined with.
struct Lane {
    tables: Vec<Arc<Table>>,
    at: usize,
    /// What was counted in the current table, and its block that the last grave hit with its hits.
    dead: Dead,
    block: usize,
    block_keys: u64,
}

impl Lane {
    fn new(tables: Vec<Arc<Table>>) -> Self {
        Self { tables, at: 0, dead: Dead::NONE, block: 0, block_keys: 0 }
    }

    /// The table that may hold `key`; those before it are done.
    fn table_for(&mut self, key: &[u8], done: &mut impl FnMut(u64, Dead)) -> Option<Arc<Table>> {
        self.table_for_range((key, key), done)
    }

    fn note(&mut self, table: &Table, key: &[u8], d: Seq) {
        let block = table.block_from(self.block, key);
        if block != self.block {
            self.leave_block(table);
            self.block = block;
        }
        self.block_keys += 1;
        self.dead.keys += 1;
        self.dead.oldest = self.dead.oldest.min(d);
    }

    /// A grave of all keys in the closed range. Tables that end inside of it are left: all that later graves could
    /// say of them is said.
    fn note_range(&mut self, range: (&[u8], &[u8]), d: Seq, done: &mut impl FnMut(u64, Dead)) {
        while let Some(table) = self.table_for_range(range, done) {
            if !table.properties().is_past(d) {
                self.dead.add(Dead::of_range(&table, range, d));
            }
            if *table.properties().max_key > *range.1 {
                break;
            }
            self.leave_table(done);
        }
    }

    /// The first table that may hold a key of the closed range; those before it are done.
    fn table_for_range(
        &mut self,
        (from, to): (&[u8], &[u8]),
        done: &mut impl FnMut(u64, Dead),
    ) -> Option<Arc<Table>> {
        while self.tables.get(self.at).is_some_and(|t| *t.properties().max_key < *from) {
            self.leave_table(done);
        }
        self.tables.get(self.at).filter(|t| *t.properties().min_key <= *to).cloned()
    }

    fn leave_block(&mut self, table: &Table) {
        let keys_of_block = table.properties().distinct_keys / table.blocks().max(1) as u64;
        if self.block_keys * 100 >= (keys_of_block * BLOCK_PERCENT).max(1) {
            self.dead.blocks += 1;
        }
        self.block_keys = 0;
    }

    fn leave_table(&mut self, done: &mut impl FnMut(u64, Dead)) {
        if let Some(table) = self.tables.get(self.at).cloned() {
            self.leave_block(&table);
            done(table.number(), self.dead);
            (self.at, self.dead, self.block) = (self.at + 1, Dead::NONE, 0);
        }
    }
}

/// True when a table may hold versions that graves of the file kill, and was not written under all of them.
fn may_be_hit(table: &Table, graves: &Table) -> bool {
    let (of, by) = (table.properties(), graves.properties());
    of.overlaps(&by.min_key, &EngineKey::reach(&by.max_key)) && !of.is_past(by.max_seq)
}

impl DeadCounts {
    /// Counts the pairs of `version` and `files` that are not counted yet, and forgets those that are no
    /// more.
    ///
    /// # Errors
    /// A run that cannot be read, or the stop flag; the counts are those of before.
    pub fn refresh(
        &mut self,
        version: &Version,
        files: &[GraveFile],
        stop: &AtomicBool,
    ) -> TableResult<()> {
        let mut wanted = HashMap::with_hasher(foldhash::fast::FixedState::default());
        for file in files {
            let graves = &file.table;
            let mut lanes: Vec<Vec<Arc<Table>>> = Vec::new();
            let mut last_level = 0;
            for (level, table) in version.tables().filter(|(_, t)| may_be_hit(t, graves)) {
                let pair = (graves.number(), table.number());
                let known = self.pairs.get(&pair).copied();
                wanted.insert(pair, known.unwrap_or(Dead::NONE));
                if known.is_some() {
                    continue;
                }
                match lanes.last_mut().filter(|_| level > 0 && level == last_level) {
                    Some(lane) => lane.push(Arc::clone(table)),
                    None => lanes.push(vec![Arc::clone(table)]),
                }
                last_level = level;
            }
            if !lanes.is_empty() {
                let mut done = |table: u64, dead: Dead| {
                    wanted.insert((graves.number(), table), dead);
                };
                join(graves, lanes, stop, &mut done)?;
            }
        }
        self.pairs = wanted;
        Ok(())
    }

    /// The counts by table.
    pub(super) fn by_table(&self) -> impl Iterator<Item = (u64, Dead)> {
        let some = self.pairs.iter().filter(|(_, dead)| dead.keys > 0);
        some.map(|(&(_, table), &dead)| (table, dead))
    }
}

/// Walks over the graves once, with a cursor along each lane.
fn join(
    graves: &Arc<Table>,
    lanes: Vec<Vec<Arc<Table>>>,
    stop: &AtomicBool,
    done: &mut impl FnMut(u64, Dead),
) -> TableResult<()> {
    let mut lanes: Vec<Lane> = lanes.into_iter().map(Lane::new).collect();
    let firsts = lanes.iter().filter_map(|lane| lane.tables.first());
    let from = firsts.map(|table| &*table.properties().min_key).min().unwrap_or_default();
    let mut walk = graves.iter(ReadMode::Sequential);
    // The grave of a collection lies before all its keys.
    walk.seek(EngineKey::prefix_of(from).unwrap_or(from))?;
    let mut seen = 0u64;
    while walk.valid() && lanes.iter().any(|lane| lane.at < lane.tables.len()) {
        seen += 1;
        if seen % CHECK_GRAVES == 1 && stop.load(Ordering::Relaxed) {
            return Err(TableError::Cancelled);
        }
        let (key, d) = (walk.key(), walk.seq());
        let mut hash = None;
        let end = EngineKey::end_of_prefix(key);
        for lane in &mut lanes {
            if let Some(end) = &end {
                lane.note_range((key, end), d, done);
                continue;
            }
            let Some(table) = lane.table_for(key, done) else { continue };
            if !table.properties().is_past(d)
                && table.may_contain(*hash.get_or_insert_with(|| key_hash(key)))
            {
                lane.note(&table, key, d);
            }
        }
        walk.next()?;
    }
    for lane in &mut lanes {
        while lane.at < lane.tables.len() {
            lane.leave_table(done);
        }
    }
    Ok(())
}

//! Burial: choosing a table to rewrite without its dead, so that their graves can go.

use super::dead_counts::{Dead, DeadCounts};
use super::get::{files_in_range, files_that_may_hold, tables_in_range};
use super::pick::{CompactionOptions, Job, job_of_level_0};
use super::version::Version;
use crate::key::{EngineKey, Seq};
use hashbrown::HashMap;
use std::sync::Arc;

/// Least share of dead keys or blocks in a table, in percent, at which its rewrite pays.
const DENSITY_PERCENT_MIN: u64 = 25;

/// Threshold while keys are being deleted: a table that has some dead will soon have more, and who waits until the half is dead
/// rewrites a key for each that goes, not three.
const DELETING_PERCENT_MIN: u64 = 50;

/// Threshold while the cemetery is too large.
const PRESSED_PERCENT_MIN: u64 = 10;

/// Threshold while nobody writes: what is rewritten stays below ten times what is freed.
const REST_PERCENT_MIN: u64 = 10;

/// Threshold while files must shrink. A rewrite costs up to thirty times what it frees, but nothing else frees space.
const SHORT_PERCENT_MIN: u64 = 3;

/// Counts which tables keep graves from being forgotten (F2(b)).
///
/// A sweep over the cemetery notes every open grave; filters may lie, so the counts are
/// estimates: they choose what to rewrite and justify nothing else (N5).
#[derive(Debug)]
pub struct BurialTally<'a> {
    version: &'a Version,
    min_reader: Seq,
    tables: HashMap<u64, Dead, foldhash::fast::FixedState>,
    is_pressed: bool,
    is_at_rest: bool,
    is_deleting: bool,
    is_short_of_room: bool,
}

impl<'a> BurialTally<'a> {
    /// A tally over the tables of `version`. `min_reader` is min(S): graves above it cannot be
    /// buried yet and are not counted.
    #[must_use]
    pub fn new(version: &'a Version, min_reader: Seq) -> Self {
        Self {
            version,
            min_reader,
            tables: HashMap::default(),
            is_pressed: false,
            is_at_rest: false,
            is_deleting: false,
            is_short_of_room: false,
        }
    }

    /// The cemetery is too large: what frees most graves for a byte rewritten goes first, and tables with
    /// fewer dead are worth it.
    #[must_use]
    pub fn pressed(mut self, is_pressed: bool) -> Self {
        self.is_pressed = is_pressed;
        self
    }

    /// The files are to become smaller: tables with few dead are worth it.
    #[must_use]
    pub fn short_of_room(mut self, is_short: bool) -> Self {
        self.is_short_of_room = is_short;
        self
    }

    /// Many keys are being deleted: only tables with more dead are worth it.
    #[must_use]
    pub fn while_deleting(mut self, is_deleting: bool) -> Self {
        self.is_deleting = is_deleting;
        self
    }

    /// Nobody writes: tables with fewer dead are worth it, and level 0 only as a whole.
    #[must_use]
    pub fn at_rest(mut self) -> Self {
        self.is_at_rest = true;
        self
    }

    /// Adds what spilled graves do, all of which must be at or below `min_reader`.
    pub fn add_counts(&mut self, counts: &DeadCounts) {
        for (table, dead) in counts.by_table() {
            self.tables.entry(table).or_insert(Dead::NONE).add(dead);
        }
    }

    fn entry(&mut self, table: u64) -> &mut Dead {
        self.tables.entry(table).or_insert(Dead::NONE)
    }

    fn percent_min(&self) -> u64 {
        if self.is_short_of_room {
            return SHORT_PERCENT_MIN;
        }
        match self {
            Self { is_pressed: true, .. } => PRESSED_PERCENT_MIN,
            Self { is_at_rest: true, .. } => REST_PERCENT_MIN,
            Self { is_deleting: true, .. } => DELETING_PERCENT_MIN,
            _ => DENSITY_PERCENT_MIN,
        }
    }

    /// Whether a table of level 0 with many dead is reason enough to merge all of them. At rest that must free its
    /// share of everything it rewrites.
    fn level_0_pays(&self, options: &CompactionOptions) -> bool {
        if !self.is_at_rest {
            return true;
        }
        let job = job_of_level_0(self.version, options, false);
        let (mut dead, mut keys) = (0, 0);
        for (_, table) in job.tables() {
            dead += self.tables.get(&table.number()).map_or(0, |dead| dead.keys);
            keys += table.properties().distinct_keys;
        }
        dead * 100 >= keys.max(1) * self.percent_min()
    }

    /// True when F2(b) holds for the grave (`key`, `d`): every table that may hold the key has
    /// min_seq > d or buried_through >= d. Otherwise the tables that stand against it are noted.
    pub fn note(&mut self, key: &[u8], d: Seq) -> bool {
        if let Some(end) = EngineKey::end_of_prefix(key) {
            return self.note_range((key, &end), d);
        }
        // An undo run is no table to rewrite: it goes with its readers, or is merged (N6).
        let mut buried = super::get::undo_that_may_hold(self.version, key)
            .all(|run| run.table.properties().is_past(d));
        for table in files_that_may_hold(self.version, key) {
            if table.properties().is_past(d) {
                continue;
            }
            buried = false;
            if d <= self.min_reader {
                self.entry(table.number()).add(Dead { keys: 1, blocks: 0, oldest: d });
            }
        }
        buried
    }

    /// Like `note`, for a grave of all keys in a closed range (E4).
    fn note_range(&mut self, (from, to): (&[u8], &[u8]), d: Seq) -> bool {
        let version = self.version;
        for table in tables_in_range(version, from, to) {
            if !table.properties().is_past(d) && d <= self.min_reader {
                self.entry(table.number()).add(Dead::of_range(table, (from, to), d));
            }
        }
        files_in_range(version, from, to).all(|file| file.properties().is_past(d))
    }

    /// Notes the tables with expiry index records that were written before the delete `d` was applied:
    /// they may name its key (N17).
    pub fn note_expiry_index(&mut self, d: Seq) {
        for (_, table) in self.version.expiry_index_before(d) {
            self.entry(table.number()).add(Dead { oldest: d, ..Dead::NONE });
        }
    }

    /// Notes the expiry index records due at or before `through_ms`, all of which a rewrite drops (N11).
    pub fn note_due_index(&mut self, through_ms: u64) {
        if through_ms == 0 {
            return;
        }
        let bound = |due_ms| {
            let mut key = Vec::new();
            EngineKey::Expiry { due_ms, root: b"" }.encode_into(&mut key);
            key
        };
        let (from, to) = (bound(0), bound(through_ms.saturating_add(1)));
        for (_, table) in self.version.tables() {
            let dead = Dead::of_whole_blocks(table, (&from, &to));
            if dead.blocks > 0 {
                self.entry(table.number()).add(dead);
            }
        }
    }

    /// Notes the tables that may hold a namespace that died at `d` (N7). How much of it, is not known.
    pub fn note_namespace(&mut self, id: u64, d: Seq) {
        for (_, table) in self.version.holders_of_namespace(id, d) {
            self.entry(table.number()).add(Dead { oldest: d, ..Dead::NONE });
        }
    }

    /// Bytes of the dead versions counted, estimated by the tables' average, and bytes of the tables
    /// that [`BurialTally::picks`] would have rewritten one after the other.
    #[must_use]
    pub fn bytes(&self, overdue: Seq) -> (u64, u64) {
        let (mut dead_bytes, mut queue_bytes) = (0, 0);
        for (_, table) in self.version.tables() {
            let Some(dead) = self.tables.get(&table.number()) else { continue };
            dead_bytes += dead.keys * (table.file_bytes() / table.properties().entries.max(1));
            if dead.oldest <= overdue || dead.percent_of(table) >= self.percent_min() {
                queue_bytes += table.file_bytes();
            }
        }
        (dead_bytes, queue_bytes)
    }

    /// The first of [`BurialTally::picks`].
    #[must_use]
    pub fn pick(&self, overdue: Seq, options: &CompactionOptions) -> Option<Job> {
        self.picks(overdue, options, 1).pop()
    }

    /// The rewrites to do next, at most `number`, the most urgent first: a table with a grave at or
    /// below `overdue` (a delete whose deadline nears), oldest first; else the table with the
    /// largest share of dead keys or blocks, from a quarter on, while many are deleted from a half, at rest from a tenth,
    /// while room is short from a thirtieth; while the cemetery is too large from a tenth on, and by graves a byte. In level 0
    /// all its tables are merged, since their order is that of the flushes, and nothing is picked besides.
    #[must_use]
    pub fn picks(&self, overdue: Seq, options: &CompactionOptions, number: usize) -> Vec<Job> {
        let level_0_pays = self.level_0_pays(options);
        let noted = self.version.tables().filter_map(|(level, table)| {
            let dead = self.tables.get(&table.number())?;
            let percent = dead.percent_of(table);
            let age = if dead.oldest <= overdue { Seq::MAX - dead.oldest } else { 0 };
            let pays = age > 0 || (percent >= self.percent_min() && (level > 0 || level_0_pays));
            let yields = if self.is_pressed {
                (dead.keys << 20) / table.file_bytes().max(1)
            } else {
                percent
            };
            pays.then_some(((age, yields), level, table))
        });
        let mut noted: Vec<_> = noted.collect();
        noted.sort_by_key(|(urgency, _, _)| std::cmp::Reverse(*urgency));
        if let Some((_, 0, _)) = noted.first() {
            return vec![job_of_level_0(self.version, options, false)];
        }
        let deeper = noted.into_iter().filter(|(_, level, _)| *level > 0).take(number);
        deeper.map(|(_, level, table)| Job::burial(level, Arc::clone(table), options)).collect()
    }
}

//! Choosing what to compact: leveled, with level sizes that follow the size of the last level.

use super::levels::LEVELS;
use super::version::Version;
use crate::key::Seq;
use crate::table::Table;
use std::sync::Arc;

/// Sizes that steer compaction.
#[derive(Clone, Copy, Debug)]
pub struct CompactionOptions {
    /// Tables in level 0 that make a merge due.
    pub l0_tables: usize,
    /// About what one merge of level 0 brings, in bytes: the first level below it has a target between
    /// half of this and `ratio` halves.
    pub base_bytes: u64,
    /// Size of a level relative to the one above.
    pub ratio: u64,
    /// Size at which an output table is closed, in bytes.
    pub output_bytes: u64,
}

impl Default for CompactionOptions {
    fn default() -> Self {
        Self { l0_tables: 4, base_bytes: 256 << 20, ratio: 10, output_bytes: 48 << 20 }
    }
}

/// One compaction: tables and where their versions go.
#[derive(Clone, Debug)]
pub struct Job {
    /// Tables by level, each level's in its order.
    pub inputs: Vec<(usize, Vec<Arc<Table>>)>,
    /// Level of the output.
    pub output_level: usize,
    /// No input overlaps another: the tables move without being read and keep their own
    /// `buried_through` (C3).
    pub is_move: bool,
    /// Every version of the inputs is proved dead up to this sequence (N5), which no member of S is below: they
    /// leave the tree without being read. 0 otherwise.
    pub dead_through: Seq,
    /// Size at which an output table is closed, in bytes.
    pub output_bytes: u64,
}

impl Job {
    /// Burial (C5): one table rewritten at its own level without its dead. Level 0 is not rewritten
    /// in place, its order is that of the flushes.
    #[must_use]
    pub fn burial(level: usize, table: Arc<Table>, options: &CompactionOptions) -> Self {
        debug_assert!(level > 0);
        let output_bytes = options.output_bytes.max(table.file_bytes() * 2);
        let inputs = vec![(level, vec![table])];
        Self { inputs, output_level: level, is_move: false, dead_through: 0, output_bytes }
    }

    /// True while all inputs are in `version`, each in its level.
    #[must_use]
    pub fn stands_in(&self, version: &Version) -> bool {
        let lies = |level: usize, number| version.level(level).iter().any(|t| t.number() == number);
        self.tables().all(|(level, table)| lies(level, table.number()))
    }

    /// Tables of which every version is proved dead leave unread; see [`Job::dead_through`].
    #[must_use]
    pub fn of_dead(inputs: Vec<(usize, Vec<Arc<Table>>)>, dead_through: Seq) -> Self {
        Self { inputs, output_level: 0, is_move: false, dead_through, output_bytes: 0 }
    }

    /// Everything of the tree into the last level that has tables: a manual full compaction.
    #[must_use]
    pub fn full(version: &Version, options: &CompactionOptions) -> Option<Self> {
        let mut inputs: Vec<_> = (0..LEVELS)
            .map(|level| (level, version.level(level).to_vec()))
            .filter(|(_, tables)| !tables.is_empty())
            .collect();
        let deepest = inputs.last()?.0;
        let output_level = if deepest == 0 { LEVELS - 1 } else { deepest };
        inputs.sort_by_key(|(level, _)| *level);
        let output_bytes = options.output_bytes;
        Some(Self { inputs, output_level, is_move: false, dead_through: 0, output_bytes })
    }

    /// Bytes to read.
    #[must_use]
    pub fn input_bytes(&self) -> u64 {
        self.tables().map(|(_, table)| table.file_bytes()).sum()
    }

    /// The inputs with their levels.
    pub fn tables(&self) -> impl Iterator<Item = (usize, &Arc<Table>)> {
        self.inputs.iter().flat_map(|(level, tables)| tables.iter().map(|table| (*level, table)))
    }

    /// Smallest and largest key of all inputs.
    #[must_use]
    pub fn key_range(&self) -> Option<(&[u8], &[u8])> {
        range_of(self.tables().map(|(_, table)| table))
    }
}

fn range_of<'a>(tables: impl Iterator<Item = &'a Arc<Table>>) -> Option<(&'a [u8], &'a [u8])> {
    tables.fold(None, |range, table| {
        let p = table.properties();
        Some(range.map_or((&*p.min_key, &*p.max_key), |(min, max): (&[u8], &[u8])| {
            (min.min(&p.min_key), max.max(&p.max_key))
        }))
    })
}

fn bytes_of(tables: &[Arc<Table>]) -> u64 {
    tables.iter().map(|table| table.file_bytes()).sum()
}

/// Target size of each level, and the level that level 0 is merged into.
///
/// The last level's target is its size; each level above may have a `ratio`th of the one below, as
/// long as that is at least half of `base_bytes`: a level much smaller than what one merge of level 0
/// brings would only be written once more. Levels above the base stay empty.
fn targets(version: &Version, options: &CompactionOptions) -> ([u64; LEVELS], usize) {
    let mut targets = [0; LEVELS];
    let last = LEVELS - 1;
    let largest = (1..LEVELS).map(|level| bytes_of(version.level(level))).max().unwrap_or(0);
    let mut size = largest.max(options.base_bytes);
    let mut base = last;
    targets[last] = size;
    let ratio = options.ratio.max(2);
    while base > 1 && size / ratio > options.base_bytes / 2 {
        base -= 1;
        size /= ratio;
        targets[base] = size;
    }
    // Level 0 must not pass a level that has older versions.
    let filled = (1..LEVELS).find(|&level| !version.level(level).is_empty()).unwrap_or(last);
    (targets, base.min(filled))
}

/// The most urgent compaction, if one is due.
#[must_use]
pub fn pick_compaction(version: &Version, options: &CompactionOptions) -> Option<Job> {
    let (targets, _) = targets(version, options);
    let weights = Weights::new(version);
    let l0_score = version.level(0).len() as f64 / options.l0_tables.max(1) as f64;
    let mut best = (l0_score, 0);
    for (level, target) in targets.iter().enumerate().take(LEVELS - 1).skip(1) {
        let bytes = weights.of_all(version.level(level)) as f64;
        // A level above the base should be empty: any byte in it is too much.
        let score = if *target == 0 && bytes > 0.0 { 1.0 } else { bytes / (*target).max(1) as f64 };
        if score > best.0 && score > 1.0 || score >= 1.0 && best.0 < 1.0 {
            best = (score, level);
        }
    }
    match best {
        (score, _) if score < 1.0 => None,
        (_, 0) => Some(job_of_level_0(version, options, true)),
        (_, level) => job_of_level(version, level, &weights, options),
    }
}

/// The level into which a new table of level 0 with keys from `min_key` to `max_key` will move unread, as things are
/// now; `None` when it overlaps what it will be merged with.
#[must_use]
pub fn level_moved_to(
    version: &Version,
    options: &CompactionOptions,
    min_key: &[u8],
    max_key: &[u8],
) -> Option<usize> {
    let (_, base) = targets(version, options);
    let mut level_0 = version.level(0).iter();
    let is_apart = level_0.all(|table| !table.properties().overlaps(min_key, max_key))
        && version.overlapping(base, min_key, max_key).is_empty();
    is_apart.then_some(base)
}

/// The merge of level 0, whatever its size; `None` when it is empty.
#[must_use]
pub fn pick_level_0(version: &Version, options: &CompactionOptions) -> Option<Job> {
    (!version.level(0).is_empty()).then(|| job_of_level_0(version, options, true))
}

/// All of level 0, so that no older version stays above a newer one. A move, which buries
/// nothing, is chosen only if `may_move`.
pub(super) fn job_of_level_0(
    version: &Version,
    options: &CompactionOptions,
    may_move: bool,
) -> Job {
    let (_, base) = targets(version, options);
    let tables = version.level(0).to_vec();
    let (min, max) = range_of(tables.iter()).unwrap_or_default();
    let below = version.overlapping(base, min, max).to_vec();
    let mut by_key: Vec<_> = tables.iter().map(|table| table.properties()).collect();
    by_key.sort_by(|a, b| a.min_key.cmp(&b.min_key));
    let disjoint = by_key.windows(2).all(|pair| pair[0].max_key < pair[1].min_key);
    let is_move = may_move
        && disjoint
        && tables.iter().all(|table| {
            let p = table.properties();
            version.overlapping(base, &p.min_key, &p.max_key).is_empty()
        });
    let mut inputs = vec![(0, tables)];
    if !is_move && !below.is_empty() {
        inputs.push((base, below));
    }
    Job { inputs, output_level: base, is_move, dead_through: 0, output_bytes: options.output_bytes }
}

/// The table of `level` that drags along the fewest bytes of the next level for its own.
fn job_of_level(
    version: &Version,
    level: usize,
    weights: &Weights,
    options: &CompactionOptions,
) -> Option<Job> {
    let overlap = |table: &Arc<Table>| {
        let p = table.properties();
        version.overlapping(level + 1, &p.min_key, &p.max_key)
    };
    let cost = |table: &Arc<Table>| {
        bytes_of(overlap(table)).saturating_mul(1000) / weights.of(table).max(1)
    };
    let table = version.level(level).iter().min_by_key(|table| cost(table))?;
    Some(job_of_table(version, level, table, options))
}

/// One table of `level`, 1 or deeper, into the next level.
pub(super) fn job_of_table(
    version: &Version,
    level: usize,
    table: &Arc<Table>,
    options: &CompactionOptions,
) -> Job {
    let p = table.properties();
    let below = version.overlapping(level + 1, &p.min_key, &p.max_key).to_vec();
    let is_move = below.is_empty();
    let mut inputs = vec![(level, vec![Arc::clone(table)])];
    if !is_move {
        inputs.push((level + 1, below));
    }
    Job {
        inputs,
        output_level: level + 1,
        is_move,
        dead_through: 0,
        output_bytes: options.output_bytes,
    }
}

/// What tables count for when their levels are compared.
struct Weights {
    /// Bytes of an average value in the tree.
    value_bytes: u64,
}

impl Weights {
    fn new(version: &Version) -> Self {
        let (mut bytes, mut values) = (0, 0);
        for (_, table) in version.tables() {
            let p = table.properties();
            bytes += p.value_bytes;
            values += p.entries - p.tombstones;
        }
        Self { value_bytes: bytes / values.max(1) }
    }

    /// Bytes a table counts for. Where most versions are tombstones, each surplus one counts for the
    /// value it will make go, twice, as in RocksDB: merging them down frees the space of those values.
    fn of(&self, table: &Table) -> u64 {
        let p = table.properties();
        let surplus = (2 * p.tombstones).saturating_sub(p.entries);
        table.file_bytes() + 2 * surplus * self.value_bytes
    }

    fn of_all(&self, tables: &[Arc<Table>]) -> u64 {
        tables.iter().map(|table| self.of(table)).sum()
    }
}

/// Bytes above the targets of their levels: what compaction is behind, for INFO and for pacing
/// writers by bytes.
#[must_use]
pub fn debt(version: &Version, options: &CompactionOptions) -> u64 {
    let (targets, _) = targets(version, options);
    let l0 = version.level(0);
    // Level 0 is ordered by age; what is behind the trigger is the oldest part.
    let l0_debt = bytes_of(l0.get(options.l0_tables.saturating_sub(1)..).unwrap_or_default());
    let deeper =
        (1..LEVELS - 1).map(|level| bytes_of(version.level(level)).saturating_sub(targets[level]));
    l0_debt + deeper.sum::<u64>()
}

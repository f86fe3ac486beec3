//! The parts of the store: versions, graves, files, superversions, jobs, and what survives a crash.

use super::keys::{Key, prefix_of};
use super::spec::Seq;
use super::world::Command;
use std::cell::RefCell;
use std::rc::Rc;

/// The e of an open grave; as a reader's sequence: newest state, published or not.
pub const OPEN: Seq = Seq::MAX;

/// Versions in a block: small, so that blocks die.
const BLOCK: usize = 2;

/// Lowest level of the tree.
pub(super) const BOTTOM: usize = 2;

/// One version of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) namespace: Seq,
    pub(super) key: Key,
    /// Sequence that readers compare (0 only when C4 is broken).
    pub(super) seq: Seq,
    /// The put's true sequence, by which the specification knows it.
    pub(super) put_seq: Seq,
    pub(super) value: u64,
}

/// One grave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Grave {
    pub(super) namespace: Seq,
    pub(super) key: Key,
    pub(super) d: Seq,
    /// Sequence of the put that closed it, or [`OPEN`].
    pub(super) e: Seq,
    /// Superversion in which it was found buried (F3); 0 before.
    pub(super) buried_in: u64,
}

impl Grave {
    pub(super) fn of(&self, namespace: Seq, key: Key) -> bool {
        (self.namespace, self.key) == (namespace, key)
    }

    /// True for a grave of the key itself, and of the collection that a page belongs to.
    pub(super) fn covers(&self, namespace: Seq, key: Key) -> bool {
        self.of(namespace, key) || prefix_of(key).is_some_and(|prefix| self.of(namespace, prefix))
    }
}

/// Spilled graves: a sealed generation, sorted, on the device.
#[derive(Clone, Debug)]
pub(super) struct GraveRun {
    pub(super) number: u64,
    /// They are not closed here: every e is [`OPEN`].
    pub(super) graves: Vec<Grave>,
    /// The superversion from which on it is not needed (F3); 0 while it is needed.
    pub(super) retired_in: u64,
}

/// D(k, s) among spilled graves.
pub(super) fn newest_spilled(runs: &[GraveRun], namespace: Seq, key: Key, s: Seq) -> Option<Seq> {
    let graves = runs.iter().flat_map(|run| &run.graves);
    graves.filter(|g| g.covers(namespace, key) && g.d <= s).map(|g| g.d).max()
}

/// Metadata of a block, besides its versions.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Block {
    /// Proof (N5): every version of the block is dead for readers at or above; 0: no proof.
    pub(super) max_d: Seq,
    /// Deletes that hit the block: a hint, never a proof.
    pub(super) dead_count: usize,
}

/// A file of the tree, or an undo run (N6).
#[derive(Debug)]
pub(super) struct File {
    pub(super) level: usize,
    pub(super) versions: Vec<Version>,
    /// Every grave with d at or below was applied when it was written.
    pub(super) buried_through: Seq,
    /// An undo run: only readers at or below this sequence read it.
    pub(super) undo_through: Option<Seq>,
    blocks: RefCell<Vec<Block>>,
}

impl File {
    pub(super) fn new(level: usize, versions: Vec<Version>, buried_through: Seq) -> Self {
        let blocks = RefCell::new(vec![Block::default(); versions.len().div_ceil(BLOCK)]);
        Self { level, versions, buried_through, undo_through: None, blocks }
    }

    pub(super) fn undo_run(versions: Vec<Version>, buried_through: Seq, through: Seq) -> Self {
        Self { undo_through: Some(through), ..Self::new(0, versions, buried_through) }
    }

    pub(super) fn min_seq(&self) -> Seq {
        self.versions.iter().map(|v| v.seq).min().unwrap_or(OPEN)
    }

    /// The file as reopened after a restart: without marks, which live in memory only.
    pub(super) fn reopened(&self) -> Self {
        Self::new(self.level, self.versions.clone(), self.buried_through)
    }

    pub(super) fn is_for(&self, s: Seq) -> bool {
        self.undo_through.is_none_or(|through| s <= through)
    }

    /// Versions with what is known of their block.
    fn with_blocks(&self) -> impl Iterator<Item = (Version, Block, usize)> {
        let blocks = self.blocks.borrow();
        self.versions.chunks(BLOCK).enumerate().flat_map(move |(at, chunk)| {
            let block = blocks[at];
            chunk.iter().map(move |v| (*v, block, chunk.len()))
        })
    }

    /// Notes a delete in every block that may hold the key.
    pub(super) fn count_dead(&self, namespace: Seq, key: Key) {
        let mut blocks = self.blocks.borrow_mut();
        for (block, chunk) in blocks.iter_mut().zip(self.versions.chunks(BLOCK)) {
            if chunk.iter().any(|v| (v.namespace, v.key) == (namespace, key)) {
                block.dead_count += 1;
            }
        }
    }

    /// A reader that passed marks the blocks in which it saw every version dead; `dead` answers the
    /// grave that killed a version.
    pub(super) fn mark_dead_blocks(&self, dead: impl Fn(&Version) -> Option<Seq>) {
        let mut blocks = self.blocks.borrow_mut();
        for (block, chunk) in blocks.iter_mut().zip(self.versions.chunks(BLOCK)) {
            let all = chunk.iter().map(&dead).try_fold(0, |max, d| d.map(|d| d.max(max)));
            if let Some(d) = all
                && (block.max_d == 0 || d < block.max_d)
            {
                block.max_d = d;
            }
        }
    }
}

/// A memtable: superversions refer to it while it continues to grow.
pub(super) type Memtable = Rc<RefCell<Vec<Version>>>;

/// The state that a reader pins.
#[derive(Clone, Debug)]
pub(super) struct SuperVersion {
    pub(super) number: u64,
    pub(super) memtables: Vec<Memtable>,
    pub(super) files: Vec<Rc<File>>,
}

/// How a scan decides that a block needs no reading (N5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Skip {
    /// Never.
    Nothing,
    /// Its mark max_d is at or below the reader's sequence.
    ByProof,
    /// It has a mark, whatever the reader's sequence.
    ByAnyMark,
    /// As many deletes as versions were counted.
    ByCount,
}

impl SuperVersion {
    /// The newest version of a key at or below `s`, in any part of the store.
    pub(super) fn newest(&self, namespace: Seq, key: Key, s: Seq, skip: Skip) -> Option<Version> {
        self.newest_beside(namespace, key, s, skip, RunSkip::NONE)
    }

    /// Like [`Self::newest`], but skips versions in dead runs.
    pub(super) fn newest_beside(
        &self,
        namespace: Seq,
        key: Key,
        s: Seq,
        skip: Skip,
        runs: RunSkip<'_>,
    ) -> Option<Version> {
        let mut best: Option<Version> = None;
        let mut offer = |v: &Version| {
            let mine = (v.namespace, v.key) == (namespace, key) && v.seq <= s;
            if mine && best.is_none_or(|best| best.seq < v.seq) && !runs.skips(v, s) {
                best = Some(*v);
            }
        };
        for memtable in &self.memtables {
            memtable.borrow().iter().for_each(&mut offer);
        }
        for file in self.files.iter().filter(|file| file.is_for(s)) {
            for (version, block, len) in file.with_blocks() {
                let skipped = match skip {
                    Skip::Nothing => false,
                    Skip::ByProof => block.max_d != 0 && s >= block.max_d,
                    Skip::ByAnyMark => block.max_d != 0,
                    Skip::ByCount => block.dead_count >= len,
                };
                if !skipped {
                    offer(&version);
                }
            }
        }
        best
    }
}

/// A stretch of keys in which nothing was alive at d (N5).
#[derive(Clone, Copy, Debug)]
pub(super) struct DeadRun {
    pub(super) namespace: Seq,
    pub(super) from: Key,
    /// The last key of it.
    pub(super) to: Key,
    pub(super) d: Seq,
}

impl DeadRun {
    pub(super) fn holds(&self, v: &Version) -> bool {
        v.namespace == self.namespace && (self.from..=self.to).contains(&v.key)
    }
}

/// What a scan may pass over by its dead runs (N5).
#[derive(Clone, Copy, Debug)]
pub(super) struct RunSkip<'a> {
    pub(super) runs: &'a [DeadRun],
    /// Only runs with d at or below the reader's sequence count.
    pub(super) by_sequence: bool,
    /// Only versions at or below d are passed over.
    pub(super) spares_younger: bool,
}

impl RunSkip<'_> {
    /// Nothing is passed over.
    pub(super) const NONE: Self = Self { runs: &[], by_sequence: true, spares_younger: true };

    fn skips(&self, v: &Version, s: Seq) -> bool {
        self.runs.iter().any(|run| {
            run.holds(v)
                && (run.d <= s || !self.by_sequence)
                && (v.seq <= run.d || !self.spares_younger)
        })
    }
}

/// One log record; those of a group share `batch`.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogRecord {
    pub(super) seq: Seq,
    pub(super) batch: u64,
    pub(super) command: Command,
    pub(super) segment: u64,
    /// Its write failed: whatever is asked later, it is not on the device.
    pub(super) lost: bool,
}

/// The state that survives a crash besides the log: the manifest and the files it names.
#[derive(Clone, Debug, Default)]
pub(super) struct Disk {
    pub(super) files: Vec<Rc<File>>,
    /// The recovery mark m (N1).
    pub(super) mark: Seq,
    /// Mark of the checkpoint: equal to `mark`, unless N1 is broken.
    pub(super) checkpoint_mark: Seq,
    pub(super) checkpoint: Vec<Grave>,
    pub(super) grave_runs: Vec<GraveRun>,
    /// Dead runs that it carries.
    pub(super) dead_runs: Vec<DeadRun>,
    pub(super) namespace: Seq,
    pub(super) dead: Vec<(Seq, Seq)>,
    /// Log records at or below are retired.
    pub(super) log_from: Seq,
}

/// What a flush or merge reads.
#[derive(Clone, Debug)]
pub(super) enum Source {
    /// The oldest frozen memtable, with its last sequence m.
    Frozen(Seq, Memtable),
    /// Files, and the level of the output.
    Files(Vec<Rc<File>>, usize),
}

/// A flush or merge between its start and its install.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) source: Source,
    pub(super) now: Seq,
    /// S as collected at the start (C1, C3), ascending.
    pub(super) snapshots: Vec<Seq>,
    /// The oldest reader there was then; a mark is none.
    pub(super) oldest_reader: Seq,
    /// The outputs, once graves were consulted.
    pub(super) output: Option<Output>,
}

/// The outputs of rule C2.
#[derive(Clone, Debug, Default)]
pub(super) struct Output {
    pub(super) kept: Vec<Version>,
    /// Only older readers need these (N6).
    pub(super) undo: Vec<Version>,
    /// The youngest reader that needs the undo run.
    pub(super) undo_through: Seq,
    pub(super) grave_used: Seq,
}

//! What a reader at one sequence looks at: the sources of rule G1, steps 2 to 6.

use crate::iterator::{Bounds, Cursor, LiveWalk};
use crate::key::{EngineKey, Meta, Seq};
use crate::memtable::{ListSource, Mark, Memtable, Record, Run, RunSource};
use crate::store::engine::{Engine, EngineError, Inner};
use crate::store::namespace::{self, HEAD_BYTES};
use crate::store::read::pins::Pin;
use crate::store::read::superversion::SuperVersion;
use crate::store::write::commit::CommitState;
use crate::table::{GravePlaces, ReadMode, TableResult};
use crate::tree::{self, Graves, LevelIter};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A sequence, the superversion to read it in, and how far into its active memtable s can see. The
/// holder of a view also holds a pin of both numbers, or all latches.
pub(in crate::store) struct View {
    pub(in crate::store) s: Seq,
    pub(in crate::store) superversion: Arc<SuperVersion>,
    /// End of what s can see of the active memtable, as of a barrier; `None` when it is all younger.
    pub(in crate::store) active: Option<Mark>,
}

/// A memtable, or a part of one, in order.
enum Piece {
    Run(Arc<Run>),
    List(Arc<Memtable>),
}

/// D(k, s) for a reader, asked shard by shard.
pub(in crate::store) struct ReaderGraves<'e> {
    engine: &'e Engine,
    any: bool,
}

impl<'e> ReaderGraves<'e> {
    /// `any` is the answer of [`Engine::has_graves`] at or after the reader's sequence was taken:
    /// graves that come later are above it.
    pub(in crate::store) fn new(engine: &'e Engine, any: bool) -> Self {
        Self { engine, any }
    }
}

impl Graves for ReaderGraves<'_> {
    fn is_empty(&self) -> bool {
        !self.any
    }

    fn newest_at(&self, key: &[u8], s: Seq) -> TableResult<Option<Seq>> {
        let Some((_, user)) = namespace::split(key) else {
            return self.engine.newest_element_grave(key, s);
        };
        self.engine.newest_grave(self.engine.hash(user), key, s)
    }

    fn newest_in_order(
        &self,
        key: &[u8],
        s: Seq,
        places: &mut GravePlaces,
    ) -> TableResult<Option<Seq>> {
        // Memory comes first: what leaves it for a run is listed there before.
        let in_memory = match namespace::split(key) {
            Some((_, user)) => self.engine.newest_grave_in_memory(self.engine.hash(user), key, s),
            None if EngineKey::is_element(key) => {
                self.engine.inner().graveyard.elements.newest_at(key, s)
            }
            None => return Ok(None),
        };
        let runs = &self.engine.inner().graveyard.spill.runs;
        Ok(in_memory.max(runs.newest_in_order(key, s, places)?))
    }
}

impl View {
    /// The memtables that can hold versions at or below s, in order, newest first.
    fn pieces(&self) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let add_unsorted = |pieces: &mut Vec<Piece>, memtable: &Arc<Memtable>, mark: Mark| {
            if memtable.is_linked() {
                pieces.push(Piece::List(Arc::clone(memtable)));
            } else {
                let runs = memtable.ordered_through(mark);
                pieces.extend(runs.into_iter().rev().map(Piece::Run));
            }
        };
        if let Some(mark) = self.active {
            add_unsorted(&mut pieces, &self.superversion.active, mark);
        }
        for frozen in &self.superversion.frozen {
            if frozen.memtable.first_seq > self.s {
                continue;
            }
            match &frozen.run {
                Some(run) => pieces.push(Piece::Run(Arc::clone(run))),
                None => add_unsorted(&mut pieces, &frozen.memtable, frozen.mark),
            }
        }
        pieces
    }

    /// The memtables of the view as sorted runs.
    pub(in crate::store) fn runs(&self) -> Vec<Arc<Run>> {
        let run = |piece| match piece {
            Piece::Run(run) => run,
            // Without an own mark: a list is walked to its end, and younger records are told apart.
            Piece::List(memtable) => Arc::new(memtable.sorted(Mark::default())),
        };
        self.pieces().into_iter().map(run).collect()
    }

    /// How many tables of level 0 a walk within `bounds` looks into.
    pub(in crate::store) fn level_0_in(&self, bounds: &Bounds) -> u64 {
        let tables = self.superversion.version.level(0).iter().map(|table| table.properties());
        tables.filter(|p| p.min_seq <= self.s && !bounds.misses(&p.min_key, &p.max_key)).count()
            as u64
    }

    /// A walk over the keys that live at s. Sorts what is not sorted yet of the memtables.
    pub(in crate::store) fn walk(&self, bounds: Bounds) -> LiveWalk {
        self.walk_reading_ahead(bounds, None)
    }

    /// Like `walk`, with a read-ahead limit in bytes; 0 reads block by block.
    pub(in crate::store) fn walk_reading_ahead(
        &self,
        bounds: Bounds,
        read_ahead_bytes_max: Option<usize>,
    ) -> LiveWalk {
        let mut cursors = Vec::new();
        let mut extent: Option<(Vec<u8>, Vec<u8>)> = None;
        let mut widen = |min: &[u8], max: &[u8]| match &mut extent {
            None => extent = Some((min.to_vec(), max.to_vec())),
            Some((low, high)) => {
                if min < low.as_slice() {
                    *low = min.to_vec();
                }
                if max > high.as_slice() {
                    *high = max.to_vec();
                }
            }
        };
        for piece in self.pieces() {
            match piece {
                Piece::Run(run) => {
                    let Some((min, max)) = run.key_range() else { continue };
                    if !bounds.misses(min, max) {
                        widen(min, max);
                        cursors.push(Cursor::Run(RunSource::new(run)));
                    }
                }
                Piece::List(memtable) => {
                    // It may get any key while it is walked.
                    widen(&bounds.lower, bounds.end().unwrap_or(&[u8::MAX]));
                    cursors.push(Cursor::List(ListSource::new(memtable)));
                }
            }
        }
        let version = &self.superversion.version;
        let skips = |table: &crate::table::Table| {
            let p = table.properties();
            bounds.misses(&p.min_key, &p.max_key)
        };
        for table in version.outermost(&bounds.lower, bounds.end()) {
            let p = table.properties();
            if !bounds.misses(&p.min_key, &p.max_key) {
                widen(&p.min_key, &p.max_key);
            }
        }
        let of_level = |level: LevelIter| Cursor::Level(level.reading_ahead(read_ahead_bytes_max));
        cursors.extend(version.cursors(self.s, skips).into_iter().map(of_level));
        for table in version.undo_for(self.s) {
            let p = table.properties();
            if !bounds.misses(&p.min_key, &p.max_key) {
                widen(&p.min_key, &p.max_key);
                let one = Arc::from([Arc::clone(table)]);
                cursors.push(of_level(LevelIter::new(one, ReadMode::Cached)));
            }
        }
        let prefix = extent.map(|(min, max)| bounds.common_prefix(min, max)).unwrap_or_default();
        LiveWalk::new(cursors, &prefix, self.s, bounds)
    }

    /// What `take` makes of sequence, flags and value of the newest version of a key at or below s. Looks at
    /// no grave.
    pub(in crate::store) fn newest<T>(
        &self,
        engine_key: &[u8],
        take: impl FnOnce(Seq, Meta, &[u8]) -> T,
    ) -> Result<Option<T>, EngineError> {
        if let Some(record) = self.newest_in_memory(&self.pieces(), engine_key) {
            return Ok(Some(take(record.seq, record.meta, record.value())));
        }
        let found = tree::get_at(&self.superversion.version, engine_key, self.s)?;
        Ok(found.map(|version| take(version.seq, version.meta, &version.value)))
    }

    fn newest_in_memory<'p>(&self, pieces: &'p [Piece], engine_key: &[u8]) -> Option<Record<'p>> {
        pieces.iter().find_map(|piece| match piece {
            Piece::Run(run) => run.get(engine_key, self.s),
            Piece::List(memtable) => memtable.get(engine_key, self.s),
        })
    }

    /// [`View::newest`] of many keys, in ascending order. `take` receives the index of a key and a version of it; a
    /// later call for that key carries a newer one. Tables are read one after the other and each from front
    /// to back, so that a disk's head moves in one direction.
    pub(in crate::store) fn newest_of_many(
        &self,
        engine_keys: &[&[u8]],
        mut take: impl FnMut(usize, Seq, Meta, &[u8]),
    ) -> Result<(), EngineError> {
        let pieces = self.pieces();
        let (mut keys, mut numbers) = (Vec::new(), Vec::new());
        for (number, key) in engine_keys.iter().enumerate() {
            match self.newest_in_memory(&pieces, key) {
                Some(record) => take(number, record.seq, record.meta, record.value()),
                None => {
                    keys.push(*key);
                    numbers.push(number);
                }
            }
        }
        let version = &self.superversion.version;
        tree::get_many_at(version, &keys, self.s, &mut |i, found| {
            take(numbers[i], found.seq, found.meta, &found.value);
        })?;
        Ok(())
    }
}

impl Inner {
    /// Runs `f` at a moment at which every operation up to the last sequence is complete: with the commit
    /// mutex held, behind a barrier where there was something to wait for. `f` gets the last sequence
    /// and the end of the active memtable.
    ///
    /// The barrier is left out when none was handed out since the last one: then nothing can be half
    /// applied, and databases are what they were, since changing one takes a sequence under this mutex.
    pub(in crate::store) fn at_barrier<T>(&self, f: impl FnOnce(Seq, &mut CommitState) -> T) -> T {
        let last = |commit: &CommitState| commit.next_seq - 1;
        // Where the barrier is left out no block of this epoch is in the active memtable: it would have come with a sequence.
        let barrier = || {
            let latches = self.barrier();
            self.views.end_epoch();
            latches
        };
        self.views.publication.at_barrier(&self.write.commit, last, barrier, f)
    }

    /// The current superversion, pinned together with `seq` in one step: between the two a sweep
    /// could forget graves whose dead are in this superversion only (F3).
    pub(in crate::store) fn pin_superversion(&self, seq: Seq) -> (Arc<SuperVersion>, Pin) {
        let _change = self.views.superversion_change.lock();
        let superversion = self.views.superversion.load_full();
        let pin = self.views.pins.add(seq, superversion.number);
        (superversion, pin)
    }
}

impl Engine {
    /// A view of the newest state, with the namespace ids of the databases. No latch may be held.
    pub(in crate::store) fn newest_view(&self) -> (View, Pin, Vec<u64>) {
        let inner = self.inner();
        inner.at_barrier(|s, commit| {
            let mark = commit.mark();
            let (superversion, pin) = inner.pin_superversion(s);
            (View { s, superversion, active: Some(mark) }, pin, inner.namespaces.ids())
        })
    }

    /// A view of the newest state for a caller that holds all latches, which replace the pin, with the head of the
    /// keys of a database.
    pub(in crate::store) fn view_latched(&self, db: usize) -> (View, [u8; HEAD_BYTES]) {
        let inner = self.inner();
        inner.views.end_epoch();
        let commit = inner.write.commit.lock();
        let (mark, s) = (commit.mark(), commit.next_seq - 1);
        drop(commit);
        let superversion = inner.views.superversion.load_full();
        let id = inner.namespaces.id_of(inner.namespaces.slot_of(db));
        (View { s, superversion, active: Some(mark) }, namespace::head(id))
    }

    /// True when there is a grave, in a shard or (looked at after it) in a run.
    pub(in crate::store) fn has_graves(&self) -> bool {
        let inner = self.inner();
        inner.shards.iter().any(|shard| shard.graves.load(Ordering::Acquire) > 0)
            || !inner.graveyard.elements.is_empty()
            || !inner.graveyard.spill.runs.is_empty()
    }
}

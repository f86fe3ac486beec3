//! A random live key without a walk over all keys (N12): RANDOMKEY.
//!
//! A draw picks a sorted memtable or a table, by its share of the entries, then a random record, or a
//! random entry of a random block, and keeps its key if that is alive. Approximate: keys with several
//! versions, keys beside dead ones in a block and keys of small blocks are drawn more often.

use crate::iterator::Bounds;
use crate::memtable::Run;
use crate::store::engine::{Engine, EngineError};
use crate::store::namespace::{self, HEAD_BYTES};
use crate::store::read::view::{ReaderGraves, View};
use crate::table::{Scratch, Table};
use crate::tree::Graves;
use std::sync::Arc;

/// Draws that may hit a dead or due key, before the first live key behind the last one is taken.
const DRAWS: usize = 64;

/// Something that holds entries of the database, and where in it they are.
enum Part {
    Records { run: Arc<Run>, from: usize, len: usize },
    Blocks { table: Arc<Table>, from: usize, len: usize },
}

/// The parts of a view; each with the number of entries in it and the ones before it.
struct Lot {
    parts: Vec<(u64, Part)>,
}

impl Lot {
    fn of(view: &View, Bounds { lower: start, upper: end }: &Bounds) -> Self {
        let mut parts = Vec::new();
        let mut entries = 0;
        for run in view.runs() {
            let from = run.lower_bound(start, u64::MAX);
            let len = run.lower_bound(end, u64::MAX) - from;
            if len != 0 {
                entries += len as u64;
                parts.push((entries, Part::Records { run, from, len }));
            }
        }
        let version = &view.superversion.version;
        let tables = version.tables().map(|(_, table)| table);
        for table in tables.chain(version.undo_for(view.s)) {
            let blocks = table.blocks_between(start, end);
            if !blocks.is_empty() {
                let (from, len) = (blocks.start, blocks.len());
                let share = table.properties().entries.saturating_mul(len as u64);
                entries += (share / table.blocks() as u64).max(1);
                parts.push((entries, Part::Blocks { table: Arc::clone(table), from, len }));
            }
        }
        Self { parts }
    }

    /// The engine key of a random entry; it can be of a neighbouring database. `None` when there is
    /// no entry at all.
    fn draw(&self, random: &mut dyn FnMut() -> u64) -> Result<Option<Vec<u8>>, EngineError> {
        let Some(&(entries, _)) = self.parts.last() else { return Ok(None) };
        let nth = random() % entries;
        let at = self.parts.partition_point(|&(upto, _)| upto <= nth);
        Ok(Some(match &self.parts[at].1 {
            Part::Records { run, from, len } => {
                run.record(from + (random() % *len as u64) as usize).key.to_vec()
            }
            Part::Blocks { table, from, len } => {
                let block = from + (random() % *len as u64) as usize;
                table.random_key(block, random, &mut Scratch::default())?
            }
        }))
    }
}

impl Engine {
    /// A key of a database that is alive and not due at `now_ms`; `None` when there is none. Blocks on
    /// I/O: never call it on a worker thread, nor with a latch held (under `Latched::All` there is
    /// [`crate::store::Tx::random_key`]). `random` gives 64 random bits at each call.
    ///
    /// # Errors
    /// A block that cannot be read.
    pub fn random_key(
        &self,
        db: usize,
        now_ms: u64,
        random: &mut dyn FnMut() -> u64,
    ) -> Result<Option<Vec<u8>>, EngineError> {
        let (keys, _, unresolved) = self.count_provisional(db);
        if keys == 0 && unresolved == 0 {
            return Ok(None);
        }
        let (view, _pin, namespaces) = self.newest_view();
        let id = namespace::id_in(&namespaces, db);
        let graves = ReaderGraves::new(self, self.has_graves());
        self.draw_key(&view, &namespace::head(id), &graves, now_ms, random)
    }

    pub(in crate::store) fn draw_key(
        &self,
        view: &View,
        head: &[u8],
        graves: &dyn Graves,
        now_ms: u64,
        random: &mut dyn FnMut() -> u64,
    ) -> Result<Option<Vec<u8>>, EngineError> {
        let bounds = Bounds::of_prefix(head);
        let lot = Lot::of(view, &bounds);
        let mut last = head.to_vec();
        for _ in 0..DRAWS {
            let Some(drawn) = lot.draw(random)? else { return Ok(None) };
            if !drawn.starts_with(head) {
                continue;
            }
            let d = graves.newest_at(&drawn, view.s)?;
            let lives = view.newest(&drawn, |seq, meta, _| {
                Some(seq) > d && !meta.is_tombstone() && !meta.is_expired(now_ms)
            })?;
            if lives == Some(true) {
                return Ok(Some(drawn[HEAD_BYTES..].to_vec()));
            }
            last = drawn;
        }
        // Most entries are dead or due: the first live key behind the last draw, or before it.
        let mut walk = view
            .walk(bounds)
            .passing_dead(&self.inner().graveyard.dead_runs)
            .hiding_due(now_ms)
            .keys_only(true);
        for from in [last.as_slice(), head] {
            walk.seek(from, graves)?;
            if walk.valid() {
                return Ok(Some(walk.key()[HEAD_BYTES..].to_vec()));
            }
        }
        Ok(None)
    }
}

//! A look at the whole cemetery while nobody writes: which blocks have no version with a grave (N5).
//!
//! Where a few graves are left, a walk asks for each live key, in vain. The look asks the other way round, once:
//! each grave notes the blocks that may hold a version it covers, and what is not noted needs no question
//! (`table/clean.rs`). It justifies leaving questions out, so it counts every grave that a reader could find:
//! closed ones, those in limbo, spilled ones. Memory comes before the list of runs, as for readers.

use super::engine::{Engine, EngineError};
use super::grave_keys::GraveKeys;
use crate::key::Seq;
use crate::table::{CleanBlocks, ReadMode};
use crate::tree::{Source, Version, files_that_may_hold};
use hashbrown::HashMap;
use parking_lot::Mutex;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Graves of one look. With more of them most blocks have one, and it would keep the thread from merges for long.
const GRAVES_MAX: u64 = 1 << 20;

/// After a look there is none for so many times as long as it took.
const PAUSE: u64 = 16;

/// Graves of a run between two looks at the stop flag.
const CHECK_GRAVES: u64 = 4096;

/// What the last look was at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Seen {
    superversion: u64,
    youngest_grave: Seq,
}

/// When to look.
#[derive(Debug, Default)]
pub(super) struct CleanLooks {
    /// The last look, and when there may be another one, in ms.
    last: Mutex<(Seen, u64)>,
}

/// Blocks of the tables of one version that graves may concern.
struct Hits<'v> {
    version: &'v Version,
    tables: HashMap<u64, CleanBlocks, foldhash::fast::FixedState>,
    through: Seq,
    /// The least key above the one noted.
    above: Vec<u8>,
}

impl Hits<'_> {
    fn note(&mut self, key: &[u8], d: Seq) {
        for table in files_that_may_hold(self.version, key) {
            if table.properties().is_past(d) {
                continue;
            }
            self.above.clear();
            self.above.extend_from_slice(key);
            self.above.push(0);
            let new = || CleanBlocks::new(self.through, table.blocks());
            let found = self.tables.entry(table.number()).or_insert_with(new);
            // Versions of one key may lie in several blocks.
            found.hit(table.blocks_between(key, &self.above));
        }
    }
}

impl Engine {
    /// Looks at the cemetery if tables or graves have changed since the last time. For a store at rest.
    ///
    /// # Errors
    /// A grave run that cannot be read: nothing is noted then.
    pub(super) fn look_for_clean(&self) -> Result<(), EngineError> {
        let inner = self.inner();
        let now_ms = inner.deadline.now_ms();
        let seen = Seen {
            superversion: inner.superversion.load().number,
            youngest_grave: inner.youngest_grave.load(Ordering::Acquire),
        };
        let mut last = inner.clean_looks.last.lock();
        if last.0 == seen || now_ms < last.1 {
            return Ok(());
        }
        let started = Instant::now();
        if self.has_graves() {
            self.note_clean_blocks()?;
        }
        // Tests may be slow, and look again at once.
        let took_ms = if cfg!(test) { 0 } else { started.elapsed().as_millis() as u64 };
        *last = (seen, now_ms + PAUSE * took_ms);
        Ok(())
    }

    /// The look itself.
    fn note_clean_blocks(&self) -> Result<(), EngineError> {
        let inner = self.inner();
        let in_memory =
            inner.shards.iter().map(|shard| shard.graves.load(Ordering::Acquire) as u64);
        if in_memory.sum::<u64>() + inner.spill.runs.load().figures().graves > GRAVES_MAX {
            return Ok(());
        }
        let (view, _pin, _) = self.newest_view();
        let version = &view.superversion.version;
        let mut hits =
            Hits { version, tables: HashMap::default(), through: view.s, above: Vec::new() };
        let mut graves = GraveKeys::default();
        for shard in &inner.shards {
            graves.copy_from(shard, |_| true);
            graves.iter().for_each(|(key, d)| hits.note(key, d));
        }
        let runs = inner.spill.runs.load();
        for file in runs.files() {
            let mut walk = file.table.iter(ReadMode::Sequential);
            walk.seek(b"")?;
            let mut asked = 0;
            while walk.valid() {
                asked += 1;
                if asked % CHECK_GRAVES == 0 && inner.background.stop_flag().load(Ordering::Relaxed)
                {
                    return Ok(());
                }
                hits.note(walk.key(), walk.seq());
                walk.next()?;
            }
        }
        for (_, table) in version.tables() {
            let none = || CleanBlocks::new(view.s, table.blocks());
            table.note_clean(hits.tables.remove(&table.number()).unwrap_or_else(none));
        }
        Ok(())
    }
}

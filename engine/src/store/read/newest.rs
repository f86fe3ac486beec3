//! The newest version of a key in sorted memtables and tables: the one ladder of all point reads below the DRAM table.

use crate::key::{Meta, Seq};
use crate::store::engine::{Engine, EngineError};
use crate::store::read::reads::Place;
use crate::store::read::superversion::SuperVersion;
use crate::tree;

/// Newest version of a key beyond the DRAM table.
pub(in crate::store) struct Newest {
    pub(in crate::store) seq: Seq,
    pub(in crate::store) meta: Meta,
    pub(in crate::store) value: Vec<u8>,
    pub(in crate::store) place: Place,
}

/// Newest version of a key beyond the DRAM table, borrowed from where it is stored.
pub(in crate::store) struct NewestRef<'v> {
    pub(in crate::store) seq: Seq,
    pub(in crate::store) meta: Meta,
    pub(in crate::store) value: &'v [u8],
    pub(in crate::store) place: Place,
}

impl NewestRef<'_> {
    fn to_owned(&self) -> Newest {
        let Self { seq, meta, value, place } = *self;
        Newest { seq, meta, value: value.to_vec(), place }
    }
}

/// What `take` makes of the newest version with a sequence of at most `bound` in sorted memtables and tables, unless
/// that is a tombstone or not above the grave `d`.
pub(super) fn newest_version<T>(
    superversion: &SuperVersion,
    engine_key: &[u8],
    (bound, d): (Seq, Option<Seq>),
    take: impl FnOnce(NewestRef<'_>) -> T,
) -> Result<Option<T>, EngineError> {
    let lives = |seq, meta: Meta| !meta.is_tombstone() && Some(seq) > d;
    for run in superversion.frozen.iter().filter_map(|frozen| frozen.run.as_ref()) {
        if let Some(record) = run.get(engine_key, bound) {
            let (seq, meta, value) = (record.seq, record.meta, record.value());
            let place = Place::Memtable;
            return Ok(lives(seq, meta).then(|| take(NewestRef { seq, meta, value, place })));
        }
    }
    let found = tree::get_with_level(&superversion.version, engine_key, bound)?;
    Ok(found.filter(|(_, found)| lives(found.seq, found.meta)).map(|(level, found)| {
        let place = Place::Level(level);
        take(NewestRef { seq: found.seq, meta: found.meta, value: &found.value, place })
    }))
}

impl Engine {
    /// Newest version with a sequence of at most `bound` in sorted memtables and tables, unless a
    /// spilled grave at or below `bound` is above it. Looks at no grave in memory: callers know that
    /// the key has none they would have to see.
    pub(in crate::store) fn read_newest(
        &self,
        engine_key: &[u8],
        bound: Seq,
    ) -> Result<Option<Newest>, EngineError> {
        self.newest_beyond_table(engine_key, bound, |newest| newest.to_owned())
    }

    /// [`Engine::read_newest`], for what `take` makes of it.
    pub(super) fn newest_beyond_table<T>(
        &self,
        engine_key: &[u8],
        bound: Seq,
        take: impl FnOnce(NewestRef<'_>) -> T,
    ) -> Result<Option<T>, EngineError> {
        // Before the superversion, since no pin keeps the runs.
        let d = self.inner().graveyard.spill.runs.newest_at(engine_key, bound)?;
        let superversion = self.inner().views.superversion.load_full();
        newest_version(&superversion, engine_key, (bound, d), take)
    }
}

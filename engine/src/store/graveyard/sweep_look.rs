//! When graves may be forgotten: rule F2, for one and for a whole run.

use crate::key::{EngineKey, Seq};
use crate::store::engine::Engine;
use crate::store::read::superversion::SuperVersion;
use crate::table::Table;
use crate::tree::{self, Version};
use std::sync::Arc;

/// The store as a sweep sees it. The superversion comes first: a reader that is not among the pins yet
/// gets this one or a later (F3).
pub(in crate::store) struct SweepLook {
    pub(in crate::store) superversion: Arc<SuperVersion>,
    pub(in crate::store) snapshots: Vec<Seq>,
    pub(in crate::store) oldest_reader: u64,
    /// No memtable has a version below.
    pub(in crate::store) memtables_from: Seq,
    /// Graves at or below pass F2(b).
    all_buried_through: Seq,
    has_deadline: bool,
}

impl SweepLook {
    pub(in crate::store) fn new(engine: &Engine) -> Self {
        let inner = engine.inner();
        let superversion = inner.views.superversion.load_full();
        let snapshots = inner.views.pins.sequences();
        let oldest_reader = inner.views.pins.oldest_superversion();
        Self {
            snapshots,
            oldest_reader,
            memtables_from: superversion.memtables_from(),
            all_buried_through: superversion.version.min_buried_through(),
            has_deadline: inner.graveyard.deadline.is_set(),
            superversion,
        }
    }

    /// F2 but for its part (b), which is `files`. With a deadline expiry index records, which name
    /// keys, count like versions (N17).
    fn is_past(&self, d: Seq, files: impl FnOnce() -> bool) -> bool {
        let version = &self.superversion.version;
        self.memtables_from > d
            && files()
            && (!self.has_deadline || version.expiry_index_before(d).next().is_none())
    }

    /// Rule F2 for one grave.
    pub(in crate::store) fn is_buried(&self, key: &[u8], d: Seq) -> bool {
        let version = &self.superversion.version;
        self.is_past(d, || d <= self.all_buried_through || is_past_all(version, key, d))
    }

    /// Rule F2 for all graves of a file at once.
    pub(in crate::store) fn is_past_all_of(&self, graves: &Table) -> bool {
        let (p, version) = (graves.properties(), &self.superversion.version);
        let undo = version.undo_runs().iter().map(|run| &run.table);
        let last = EngineKey::reach(&p.max_key);
        let mut files = version.tables().map(|(_, table)| table).chain(undo);
        self.is_past(p.max_seq, || {
            files.all(|table| {
                let of = table.properties();
                !of.overlaps(&p.min_key, &last) || of.is_past(p.max_seq)
            })
        })
    }
}

/// Rule F2(b): every file that may hold the key is past `d`. Undo runs are files, too (N6).
fn is_past_all(version: &Version, key: &[u8], d: Seq) -> bool {
    if let Some(end) = EngineKey::end_of_prefix(key) {
        // The grave of a collection is one of all its pages (E4).
        return tree::files_in_range(version, key, &end).all(|file| file.properties().is_past(d));
    }
    tree::files_that_may_hold(version, key).all(|file| file.properties().is_past(d))
        && tree::undo_that_may_hold(version, key).all(|run| run.table.properties().is_past(d))
}

//! The tree: levels of tables, how they change, and how versions are looked up and merged.

mod burial;
mod compaction;
mod context;
mod dead_counts;
mod drop_rule;
mod edit;
mod export;
mod file_names;
mod files;
mod get;
mod level_iter;
mod levels;
mod merge;
mod pick;
mod place;
mod rate_limit;
mod recovered;
mod tombstone;
mod undo;
mod undo_run;
mod version;
mod version_set;
mod whole_edits;

pub use crate::source::{BackSource, Source};
pub use crate::table::{GraveFile, Place};
pub use burial::BurialTally;
pub use compaction::{Outcome, compact, compact_with_index_drops};
pub use context::CompactionContext;
pub use dead_counts::{Dead, DeadCounts};
pub(crate) use drop_rule::death_in;
pub use drop_rule::{Fate, Graves, IndexDrops, KeepRule, NoGraves};
pub use edit::{DeleteMode, MarkEdit, VersionEdit};
pub use export::Export;
pub(crate) use file_names::{graves_name, table_name};
pub use files::{TableWriter, TreeOptions};
pub use get::{
    files_in_range, files_that_may_hold, get, get_at, get_many_at, get_with_level, may_exist_since,
    undo_that_may_hold,
};
pub use level_iter::LevelIter;
pub use levels::LEVELS;
pub use merge::MergeIter;
pub use pick::{CompactionOptions, Job, debt, level_moved_to, pick_compaction, pick_level_0};
pub(crate) use place::tables_in_places;
pub use place::{LevelPlaces, PLACE_PREFIX, place_dir, places_of};
pub use rate_limit::RateLimiter;
pub(crate) use recovered::{Recovered, RecoveredFile};
pub use tombstone::pick_tombstones;
pub use undo::{UndoWriter, merge_undo};
pub use undo_run::UndoRun;
pub use version::Version;
pub use version_set::VersionSet;

/// The version that an edit makes of nothing; the text says which rule its tables break.
pub(crate) fn version_of(edit: &VersionEdit) -> Result<Version, &'static str> {
    Version::default().after(edit)
}

#[cfg(test)]
mod tests;

//! Names of the files of a tree (`engine/FORMAT.md`).

pub(super) const TABLE_SUFFIX: &str = ".tbl";
pub(super) const GRAVE_RUN_SUFFIX: &str = ".grun";
pub(super) const CHECKPOINT_SUFFIX: &str = ".graves";
pub(super) const UNDO_SUFFIX: &str = ".undo";

/// A table.
pub(crate) fn table_name(number: u64) -> String {
    format!("{number:012}{TABLE_SUFFIX}")
}

/// A part of a grave run.
pub(crate) fn graves_name(number: u64) -> String {
    format!("{number:012}{GRAVE_RUN_SUFFIX}")
}

/// An undo run.
pub(super) fn undo_name(number: u64) -> String {
    format!("{number:012}{UNDO_SUFFIX}")
}

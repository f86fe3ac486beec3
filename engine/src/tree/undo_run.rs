//! One undo run, as a part of a version of the tree (N6).

use crate::key::Seq;
use crate::table::Table;
use std::sync::Arc;

/// One undo run.
#[derive(Clone, Debug)]
pub struct UndoRun {
    /// The versions. Its claim `buried_through` is min(S).
    pub table: Arc<Table>,
    /// The youngest reader that needs one of them: those above do not look, and when none at or below is
    /// left the run goes.
    pub through: Seq,
}

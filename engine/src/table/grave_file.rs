//! A table of graves instead of versions.

use super::{OrderedGets, Table};
use std::sync::Arc;

/// One file of a grave run: spilled graves as a table, in which the sequence of an entry is its d.
#[derive(Clone, Debug)]
pub struct GraveFile {
    /// The run it belongs to: files of one run do not overlap. The number of the run's first file.
    pub run: u64,
    /// The graves.
    pub table: Arc<Table>,
}

/// How far a walk over keys in order has come in the runs beside it.
#[derive(Debug, Default)]
pub struct GravePlaces {
    /// Graves of the keys themselves.
    pub own: OrderedGets,
    /// Graves of the collections that the keys belong to, which lie before them.
    pub of_prefixes: OrderedGets,
}

//! The execution class of a command, and the positions of its keys.

/// How a command is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Touches the connection or the server only; no latch, no transaction.
    Local,
    /// Reports on the whole server (INFO, MEMORY STATS): its figures are collected from all shards, so no latch may be held.
    /// Like `Local`, except that in a transaction it runs after the commit.
    Survey,
    /// Works on the keys that its key specification names: they are latched and, if
    /// `reads_values` says so, in memory. `Ctx::tx` is present.
    Keyed,
    /// A script: latches and loads its declared keys as `Keyed` does, and runs again with any further resources that it
    /// needs. `Ctx::tx` is present.
    Script,
    /// Needs every latch (FLUSHALL, SWAPDB). `Ctx::tx` is there, under `Latched::All`.
    Exclusive,
    /// Walks the key space and may block on I/O (SCAN, KEYS, DBSIZE, RANDOMKEY): runs on a helper
    /// thread, without a transaction outside MULTI and under `Latched::All` inside.
    Offload,
}

/// Where a command's keys are among its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// Index of the first key argument (the command's name is 0); 0 when it has none.
    pub first: usize,
    /// Index of the last one; negative counts from the end.
    pub last: isize,
    /// Distance between keys.
    pub step: usize,
}

//! A superversion: the memtables and the list of tables a reader works with.

use crate::key::Seq;
use crate::memtable::{Mark, Memtable, Run};
use crate::tree::Version;
use std::sync::Arc;

/// A memtable that takes no more writes.
#[derive(Clone)]
pub(super) struct Frozen {
    pub(super) memtable: Arc<Memtable>,
    /// Its last sequence: the recovery mark once it is flushed.
    pub(super) m: Seq,
    /// Its end.
    pub(super) mark: Mark,
    /// Its records in order, once sorted. Until then its keys are pinned in the DRAM table.
    pub(super) run: Option<Arc<Run>>,
}

/// What a reader holds for as long as it reads.
#[derive(Clone)]
pub(super) struct SuperVersion {
    /// Rises with each change.
    pub(super) number: u64,
    pub(super) active: Arc<Memtable>,
    /// Newest first.
    pub(super) frozen: Vec<Frozen>,
    pub(super) version: Arc<Version>,
}

impl SuperVersion {
    /// No memtable has a version below.
    pub(super) fn memtables_from(&self) -> Seq {
        let frozen = self.frozen.iter().map(|frozen| frozen.memtable.first_seq);
        frozen.fold(self.active.first_seq, Seq::min)
    }
}

//! A superversion: the memtables and the list of tables a reader works with.

use crate::key::Seq;
use crate::memtable::{Mark, Memtable, Run};
use crate::tree::Version;
use std::sync::Arc;

/// A memtable that takes no more writes.
#[derive(Clone)]
pub(in crate::store) struct Frozen {
    pub(in crate::store) memtable: Arc<Memtable>,
    /// Its last sequence: the recovery mark once it is flushed.
    pub(in crate::store) m: Seq,
    /// Its end.
    pub(in crate::store) mark: Mark,
    /// Its records in order, once sorted. Until then its keys are pinned in the DRAM table.
    pub(in crate::store) run: Option<Arc<Run>>,
}

/// What a reader holds for as long as it reads.
#[derive(Clone)]
pub(in crate::store) struct SuperVersion {
    /// Rises with each change.
    pub(in crate::store) number: u64,
    pub(in crate::store) active: Arc<Memtable>,
    /// Newest first.
    pub(in crate::store) frozen: Vec<Frozen>,
    pub(in crate::store) version: Arc<Version>,
}

impl SuperVersion {
    /// No memtable has a version below.
    pub(in crate::store) fn memtables_from(&self) -> Seq {
        let frozen = self.frozen.iter().map(|frozen| frozen.memtable.first_seq);
        frozen.fold(self.active.first_seq, Seq::min)
    }
}

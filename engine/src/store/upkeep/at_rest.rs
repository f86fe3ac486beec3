//! What is done when nobody writes: see `rest.rs`.

use super::rest::Written;
use crate::store::engine::{Engine, EngineError};
use crate::tree::{Job, Version, pick_level_0};
use std::sync::atomic::Ordering;

impl Engine {
    /// True when nobody writes: no memtable waits for its flush, and for a while nearly nothing was written.
    pub(in crate::store) fn is_at_rest(&self, now_ms: u64) -> bool {
        let inner = self.inner();
        let superversion = inner.views.superversion.load();
        let active = &superversion.active;
        let now = Written {
            at_ms: now_ms,
            last_seq: self.last_seq(),
            memtable_from: active.first_seq,
            memtable_bytes: active.used_bytes(),
        };
        let is_over = inner.upkeep.rest.is_over(now, inner.memory.shares.memtable_bytes());
        is_over && inner.flusher.frozen.len() == 0
    }

    /// Does one merge that only readers gain by; false when none is worth it. For a store at rest.
    pub(in crate::store) fn compact_at_rest(&self) -> Result<bool, EngineError> {
        let inner = self.inner();
        let version = inner.versions.current();
        let job = match self.pick_paid_level_0(&version) {
            None => inner.dead_keys.pick_at_rest(self, &version)?,
            job => job,
        };
        let Some(job) = job else { return Ok(false) };
        self.run_compaction_job(&job)?;
        inner.upkeep.rest.merges.fetch_add(1, Ordering::Relaxed);
        Ok(true)
    }

    /// The merge of level 0, when the seeks that looked into it have paid for it: so what is written for it stays
    /// below what they read there in vain.
    fn pick_paid_level_0(&self, version: &Version) -> Option<Job> {
        let inner = self.inner();
        let job = pick_level_0(version, &inner.compaction_options())?;
        inner.upkeep.rest.has_paid_for(&job).then_some(job)
    }
}

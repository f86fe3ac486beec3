//! Starts of a store with a log, with a pool, or from one to the other (`engine/DESIGN.md`, "Write-behind logging").
//!
//! Log and pool never both hold data above the mark, and the one that will hold it is named before it does.

use super::{Wbl, marker};
use crate::key::Seq;
use crate::store::engine::{Engine, EngineError};
use crate::store::open::{OpenReport, Replay};
use crate::store::options::SyncPolicy;
use sexton_persistence::aof;
use sexton_persistence::pmem::{
    CONTROL_FILE, Medium, PmemError, PmemOptions, PmemPool, Recovered, RecoveryReport,
};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

impl From<PmemError> for EngineError {
    fn from(error: PmemError) -> Self {
        match error {
            PmemError::Storage(error) => error.into(),
            PmemError::Damaged { .. } => Self::Corrupt(error.to_string()),
            error => Self::Refused(error.to_string()),
        }
    }
}

impl Engine {
    /// Brings back what log or pool have above the mark, and begins whichever is wanted.
    pub(in crate::store) fn recover(
        &self,
        mark: Seq,
        replay: Replay<'_>,
    ) -> Result<OpenReport, EngineError> {
        let inner = self.inner();
        let options = &inner.options;
        if options.sync_policy == SyncPolicy::Off {
            return Ok(OpenReport { mark, recovered_seq: mark, ..OpenReport::default() });
        }
        let was_pooled = marker::is_set(&*options.storage, &options.dir)?;
        match (options.write_behind, was_pooled) {
            (false, false) => self.recover_log(mark, replay),
            (false, true) => self.leave_pool(mark),
            (true, false) => self.enter_pool(mark, replay),
            (true, true) => {
                let begun = Instant::now();
                let (pool, recovered) = self.open_pool(mark)?;
                let report =
                    OpenReport { mark, recovered_seq: recovered.last_seq, ..OpenReport::default() };
                self.take_up(&pool, &recovered, true)?;
                self.begin_pool(pool, begun.elapsed(), recovered.report)?;
                Ok(report)
            }
        }
    }

    /// From a log, or from nothing, to a pool.
    fn enter_pool(&self, mark: Seq, replay: Replay<'_>) -> Result<OpenReport, EngineError> {
        let inner = self.inner();
        let (tail, report) = self.replay_log(mark, replay)?;
        let begun = Instant::now();
        self.flush_now()?;
        if inner.options.storage.exists(&self.log_location().manifest_path())? {
            // A new segment behind the mark, so that those before it may go.
            self.start_log(tail, report.recovered_seq, inner.policy())?;
            if let Some(log) = inner.write.log.load().as_ref() {
                log.retire_through(inner.flusher.mark.load(Ordering::Acquire))?;
            }
            self.close_log()?;
        }
        let options = self.pool_options()?;
        // Left by a start that did not get so far as to name it.
        remove_pool(&*options.medium, &options.dir)?;
        let (pool, recovered) =
            PmemPool::open(options.clone(), inner.flusher.mark.load(Ordering::Acquire))?;
        self.take_up(&pool, &recovered, true)?;
        marker::set(&*inner.options.storage, &inner.options.dir)?;
        self.begin_pool(pool, begun.elapsed(), recovered.report)?;
        Ok(report)
    }

    /// From a pool to a log.
    fn leave_pool(&self, mark: Seq) -> Result<OpenReport, EngineError> {
        let inner = self.inner();
        let (pool, recovered) = self.open_pool(mark)?;
        let recovered_seq = recovered.last_seq;
        if recovered.arenas.is_empty() {
            // The active memtable stays as it is: what is committed next goes to a log.
            let mut commit = inner.write.commit.lock();
            commit.next_seq = commit.next_seq.max(recovered.next_seq);
        } else {
            self.take_up(&pool, &recovered, false)?;
        }
        drop(recovered);
        self.flush_now()?;
        debug_assert!(inner.views.superversion.load().active.pooled().is_none(), "it was flushed");
        let after_seq = inner.write.commit.lock().next_seq - 1;
        let (storage, location) = (&*inner.options.storage, self.log_location());
        storage.create_dir_all(&location.dir)?;
        let tail = aof::supersede(storage, &location, after_seq)?;
        let mut commit = inner.write.commit.lock();
        commit.log = commit.log.successor(after_seq);
        drop(commit);
        self.start_log(tail, after_seq, inner.policy())?;
        marker::clear(storage, &inner.options.dir)?;
        inner.write.commit.lock().log_on = true;
        let options = self.pool_options()?;
        drop(pool);
        remove_pool(&*options.medium, &options.dir)?;
        Ok(OpenReport { mark, recovered_seq, ..OpenReport::default() })
    }

    fn pool_options(&self) -> Result<&PmemOptions, EngineError> {
        let options = &self.inner().options;
        options.pool.as_ref().ok_or_else(|| {
            EngineError::Refused(format!(
                "the newest writes of the store in {} lie in persistent memory, and no device is \
                 named for it (memtable-device)",
                options.dir.display()
            ))
        })
    }

    /// Opens the pool that the data directory says there is.
    fn open_pool(&self, mark: Seq) -> Result<(Arc<PmemPool>, Recovered), EngineError> {
        let options = self.pool_options()?;
        let is_there = options.medium.list(&options.dir);
        if !is_there.is_ok_and(|names| names.iter().any(|name| name == CONTROL_FILE)) {
            return Err(EngineError::Refused(format!(
                "the newest writes of the store in {} lie in persistent memory at {}, where there is \
                 no {CONTROL_FILE}: mount what belongs there, or remove the file WBL in the data \
                 directory to give them up",
                self.inner().options.dir.display(),
                options.dir.display()
            )));
        }
        Ok(PmemPool::open(options.clone(), mark)?)
    }

    /// From here on commits go to the pool.
    fn begin_pool(
        &self,
        pool: Arc<PmemPool>,
        recovery_time: Duration,
        recovery: RecoveryReport,
    ) -> Result<(), EngineError> {
        let wbl = Wbl::new(pool, recovery_time, recovery)?;
        // Set here and nowhere else.
        let _ = self.inner().write.wbl.set(Arc::new(wbl));
        Ok(())
    }
}

/// Removes the files of a pool that does not count.
fn remove_pool(medium: &dyn Medium, dir: &Path) -> Result<(), EngineError> {
    medium.create_dir_all(dir)?;
    for name in medium.list(dir)? {
        if name.ends_with(".pmem") {
            medium.remove(&dir.join(name))?;
        }
    }
    Ok(medium.sync_dir(dir)?)
}

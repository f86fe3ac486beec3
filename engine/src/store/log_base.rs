//! A base for the log (BGREWRITEAOF, N4): a snapshot and a cut of the log at one sequence. The base written
//! from the snapshot and the segments behind the cut together are the complete data.

use super::engine::{Engine, EngineError};
use super::read::snapshot::{Snapshot, SnapshotOptions};
use sexton_persistence::aof::Log;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

/// A base that is being written. Dropped before it is installed, it leaves everything as it was.
pub struct LogBase {
    engine: Engine,
    /// Not owned: the log may end meanwhile.
    log: Weak<Log>,
    snapshot: Snapshot,
    path: PathBuf,
}

impl std::fmt::Debug for LogBase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("LogBase").field(&self.snapshot).finish()
    }
}

impl Engine {
    /// Begins a base: what the snapshot sees is to be written to the path, and made durable. Blocks on
    /// latches.
    ///
    /// # Errors
    /// There is no log, or no room for another snapshot.
    pub fn begin_log_base(&self, options: SnapshotOptions) -> Result<LogBase, EngineError> {
        let inner = self.inner();
        let Some(log) = inner.write.log.load_full() else {
            return Err(EngineError::Refused("there is no append only file".into()));
        };
        // Before the cut: no flush may retire the segment behind it.
        log.hold_after(Some(0));
        match self.snapshot_cutting(options, true) {
            Ok(snapshot) => {
                log.hold_after(Some(snapshot.seq()));
                let path = self.log_location().new_base_path();
                Ok(LogBase { engine: self.clone(), log: Arc::downgrade(&log), snapshot, path })
            }
            Err(error) => {
                log.hold_after(None);
                Err(error)
            }
        }
    }

    /// Bytes of the log's base and of the segments behind it; `None` while there is no base.
    #[must_use]
    pub fn log_base_bytes(&self) -> Option<(u64, u64)> {
        self.inner().write.log.load().as_ref().and_then(|log| log.base_bytes())
    }

    /// Bytes of segments behind a base at which it is given up.
    pub fn set_log_pinned_max(&self, bytes: u64) {
        if let Some(log) = self.inner().write.log.load().as_ref() {
            log.set_pinned_max(bytes);
        }
    }
}

impl LogBase {
    /// What is to be written.
    #[must_use]
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Where.
    #[must_use]
    pub fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// Makes the file at [`path`](Self::path) the base of the log's manifest. Flushes first: what is
    /// before the cut must be durable without the log.
    ///
    /// # Errors
    /// A failing medium, or a log that failed or ended meanwhile.
    pub fn install(self, pinned_max_bytes: u64) -> Result<(), EngineError> {
        let seq = self.snapshot.seq();
        let inner = self.engine.inner();
        self.engine.flush_now()?;
        debug_assert!(
            inner.flusher.mark.load(Ordering::Acquire) >= seq,
            "a flush covers what came before"
        );
        let Some(log) = self.log.upgrade() else {
            return Err(EngineError::Refused("the append only file has ended meanwhile".into()));
        };
        Ok(log.install_base(seq, pinned_max_bytes)?)
    }
}

impl Drop for LogBase {
    fn drop(&mut self) {
        if let Some(log) = self.log.upgrade() {
            log.hold_after(None);
        }
        // Gone already when it was installed.
        let _ = self.engine.inner().options.storage.remove(&self.path);
    }
}

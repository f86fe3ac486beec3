//! Changing how the log is made durable while the store runs, and whether there is one (N3).

use super::engine::{Engine, EngineError};
use super::options::SyncPolicy;
use super::set_aside;
use sexton_persistence::aof::{self, LogClock};
use std::sync::atomic::Ordering;

impl SyncPolicy {
    /// The log's own setting; `None` where there is no log.
    pub(super) fn of_log(self) -> Option<aof::SyncPolicy> {
        match self {
            Self::Off => None,
            Self::No => Some(aof::SyncPolicy::No),
            Self::EverySec => Some(aof::SyncPolicy::EverySec),
            Self::Always => Some(aof::SyncPolicy::Always),
        }
    }
}

impl Engine {
    /// Changes the sync policy (`CONFIG SET appendfsync`), and turns the log on or off (`CONFIG SET
    /// appendonly`). Blocks: no latch may be held.
    ///
    /// On: everything visible is flushed, tables that were never synced are, and a log of later
    /// commits begins; on the answer the store is as durable as if it had been opened so. What an
    /// earlier log held is given up. Off: the log is synced and stays as it is, later commits are not
    /// logged, and everything visible counts as durable.
    ///
    /// # Errors
    /// A failing medium, or a log directory that holds another server's files. The policy is the old
    /// one then.
    pub fn set_sync_policy(&self, policy: SyncPolicy) -> Result<(), EngineError> {
        let inner = self.inner();
        if inner.write.wbl.get().is_some() {
            let reason = "there is no append only file with persistence-mode wbl, whose writes are \
                          durable before they are answered";
            return Err(EngineError::Refused(reason.into()));
        }
        let _change = inner.write.policy_change.lock();
        match (inner.policy(), policy) {
            (SyncPolicy::Off, SyncPolicy::Off) => {}
            (SyncPolicy::Off, _) => {
                let begun = self.begin_log(policy);
                if begun.is_err() {
                    self.drop_log();
                }
                begun?;
                self.store_policy(policy);
            }
            (_, SyncPolicy::Off) => self.end_log(),
            (_, _) => {
                self.store_policy(policy);
                if let (Some(log), Some(setting)) =
                    (inner.write.log.load().as_ref(), policy.of_log())
                {
                    log.set_policy(setting);
                }
            }
        }
        Ok(())
    }

    /// Whether groups of the log carry the second they are of, by which clock (`aof-timestamp-enabled`).
    pub fn set_log_clock(&self, clock: Option<LogClock>) {
        self.inner().write.commit.lock().log.set_clock(clock);
    }

    fn store_policy(&self, policy: SyncPolicy) {
        let inner = self.inner();
        if policy == SyncPolicy::Always {
            // Replies about keys written before the change wait for them too (N13).
            inner.write.raise_write_words(self.last_seq());
        }
        inner.write.store_policy(policy);
    }

    fn begin_log(&self, policy: SyncPolicy) -> Result<(), EngineError> {
        let inner = self.inner();
        let location = self.log_location();
        // Asked first: a directory of somebody else refuses before anything is done.
        aof::supersede(&*inner.options.storage, &location, 0)?;
        // Waits for merges that began without syncing. From here on every new table is synced; those
        // that are there are synced below.
        *inner.flusher.syncs_tables.write() = true;
        self.flush_now()?;
        inner.versions.sync_tables()?;
        let mut flush_permit = inner.flusher.flush_permit.lock();
        let mut freeze_permit = inner.flusher.freeze_permit.lock();
        self.flush_frozen(&mut flush_permit)?;
        inner.write.commit.lock().log_begins = true;
        self.freeze(&mut freeze_permit);
        // What is committed from here on gathers in the log's buffer; no memtable can be frozen meanwhile, so
        // it gathers about as much as the active one may hold.
        self.flush_frozen(&mut flush_permit)?;
        let mark = inner.flusher.mark.load(Ordering::Acquire);
        let (storage, dir) = (&*inner.options.storage, &inner.options.dir);
        let log_dir = inner.options.log_dir_name.as_ref();
        set_aside::log_begins(storage, dir, log_dir)?;
        let tail = aof::supersede(storage, &location, mark)?;
        self.start_log(tail, mark, policy)?;
        set_aside::adopt(storage, dir, log_dir)?;
        inner.write.log_wants_kick();
        self.kick_log();
        Ok(())
    }

    /// After a log that could not begin.
    fn drop_log(&self) {
        let inner = self.inner();
        let _guards = inner.barrier();
        let mut commit = inner.write.commit.lock();
        commit.end_log();
        commit.log = commit.log.successor(commit.next_seq - 1);
    }

    fn end_log(&self) {
        let inner = self.inner();
        let last_seq = {
            let _guards = inner.barrier();
            let mut commit = inner.write.commit.lock();
            commit.end_log();
            commit.log.last_seq()
        };
        // A log that fails now ends all the same: from here on what is visible counts as durable.
        if let Some(log) = inner.write.log.load().as_ref() {
            let _ = log.sync_through(last_seq);
        }
        inner.write.store_policy(SyncPolicy::Off);
        // A flush may be waiting for the log.
        let _flushing = inner.flusher.flush_permit.lock();
        let _ = self.close_log();
        self.durable_moved();
    }
}

//! Changing how the log is made durable while the store runs (N3).

use super::engine::{Engine, EngineError};
use super::options::SyncPolicy;
use sexton_persistence::aof;

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
    /// Changes the sync policy (`CONFIG SET appendfsync`). Turning the log on or off needs a restart
    /// as yet and is refused.
    ///
    /// # Errors
    /// A change from or to [`SyncPolicy::Off`].
    pub fn set_sync_policy(&self, policy: SyncPolicy) -> Result<(), EngineError> {
        let inner = self.inner();
        let old = inner.policy();
        if (old == SyncPolicy::Off) != (policy == SyncPolicy::Off) {
            return Err(EngineError::Storage(
                "the append only log can be turned on and off only at the start".into(),
            ));
        }
        if policy == SyncPolicy::Always {
            // Replies about keys written before the change wait for them too (N13).
            inner.raise_write_words(self.last_seq());
        }
        inner.store_policy(policy);
        if let (Some(log), Some(setting)) = (inner.log.load().as_ref(), policy.of_log()) {
            log.set_policy(setting);
        }
        Ok(())
    }
}

//! Keys whose time has come (N11).

use super::engine::Engine;
use super::namespace;
use std::sync::atomic::Ordering;

/// A key that is due: its database and its bytes.
pub type DueKey = (usize, Vec<u8>);

impl Engine {
    /// Up to `limit` keys in memory whose expiry is at or before `now_ms`. The caller deletes them
    /// through transactions (rule X3), which look again: a key may have changed since.
    #[must_use]
    pub fn due(&self, now_ms: u64, limit: usize) -> Vec<DueKey> {
        let inner = self.inner();
        let mut due = Vec::new();
        let mut slot_dbs = [usize::MAX; namespace::SLOTS];
        for db in 0..self.databases() {
            slot_dbs[usize::from(self.slot_of(db))] = db;
        }
        let start = inner.due_shard.fetch_add(1, Ordering::Relaxed) as usize;
        for i in 0..inner.shards.len() {
            let mut state = inner.shards[(start + i) % inner.shards.len()].state.lock();
            while due.len() < limit {
                let Some(hash) = state.expiry.pop_due(now_ms) else { break };
                state.table.find_hash(hash, |entry| {
                    let db = slot_dbs[usize::from(entry.slot())];
                    let same = inner.hash(entry.key()) == hash;
                    if same && db != usize::MAX && entry.meta().is_expired(now_ms) {
                        due.push((db, entry.key().to_vec()));
                    }
                });
            }
            if due.len() >= limit {
                break;
            }
        }
        due
    }
}

//! Keys whose time has come (N11).

use super::engine::{Engine, EngineError};
use super::namespace::{self, HEAD_BYTES, KIND_EXPIRY};
use super::shard::shard_of;
use crate::key::{Key, Seq};
use crate::tree::{MergeIter, Source};
use std::collections::VecDeque;
use std::sync::atomic::Ordering;

/// A key that is due: its database and its bytes.
type DueKey = (usize, Vec<u8>);

/// Keys found by the expiry index that one look collects at most.
const COLD_DUE_MAX: usize = 16 << 10;

/// Time between two looks into the expiry index.
const COLD_LOOK_MS: u64 = 500;

/// How far the expiry index of the tables has been worked off.
#[derive(Default)]
pub(super) struct ColdDue {
    queue: VecDeque<DueKey>,
    /// What was taken from the queue has been worked off: its taker has asked for more since.
    worked_off: bool,
    now_ms: u64,
    looked_ms: u64,
    /// Records due at or before this have been handed out.
    handed_out_ms: u64,
    /// The last position whose deletes were all committed, with the sequence they ended at.
    settled: Option<(u64, Seq)>,
    /// Merges may drop index records due at or before this: what they led to is durable.
    droppable_ms: u64,
}

impl ColdDue {
    /// A flush brings records due from `at_ms` on: what was handed out does not cover them.
    pub(super) fn reopen(&mut self, at_ms: u64) {
        let before = at_ms.saturating_sub(1);
        self.handed_out_ms = self.handed_out_ms.min(before);
        self.droppable_ms = self.droppable_ms.min(before);
        self.settled = self.settled.filter(|(ms, _)| *ms <= before);
    }

    pub(super) fn droppable_ms(&self) -> u64 {
        self.droppable_ms
    }
}

impl Engine {
    /// Looks for keys on devices whose time has come, in the expiry index of the tables. Runs on a
    /// background thread: it reads.
    pub(super) fn look_for_cold_due(&self) -> Result<(), EngineError> {
        let inner = self.inner();
        let (from_ms, to_ms) = {
            let mut state = inner.cold_due.lock();
            if !state.queue.is_empty() || state.now_ms < state.looked_ms + COLD_LOOK_MS {
                return Ok(());
            }
            let mark = inner.mark.load(Ordering::Acquire);
            if let Some((ms, seq)) = state.settled
                && mark >= seq
            {
                state.droppable_ms = state.droppable_ms.max(ms);
                state.settled = None;
            }
            if state.worked_off
                && state.settled.is_none()
                && state.handed_out_ms > state.droppable_ms
            {
                state.settled = Some((state.handed_out_ms, self.last_seq()));
            }
            state.looked_ms = state.now_ms;
            (state.handed_out_ms, state.now_ms)
        };
        let (found, reached_ms) = self.read_expiry_index(from_ms, to_ms)?;
        let mut state = inner.cold_due.lock();
        // A flush may have reopened an earlier time meanwhile.
        if state.handed_out_ms == from_ms {
            state.handed_out_ms = reached_ms;
        }
        state.worked_off &= found.is_empty();
        state.queue.extend(found);
        Ok(())
    }

    /// Keys of index records due in (`from_ms`, `to_ms`] that may still be due, and the time up to
    /// which all records were read.
    fn read_expiry_index(
        &self,
        from_ms: u64,
        to_ms: u64,
    ) -> Result<(Vec<DueKey>, u64), EngineError> {
        let version = self.inner().versions.current();
        let mut merge = MergeIter::new(version.cursors(Seq::MAX, |_| false));
        let mut start = vec![KIND_EXPIRY];
        start.extend_from_slice(&(from_ms + 1).to_be_bytes());
        merge.seek(&start)?;
        let mut found = Vec::new();
        while merge.valid() && merge.key()[0] == KIND_EXPIRY {
            let Some((at, root)) = merge.key()[1..].split_first_chunk::<8>() else { break };
            let at_ms = u64::from_be_bytes(*at);
            if at_ms > to_ms {
                break;
            }
            if found.len() >= COLD_DUE_MAX {
                return Ok((found, at_ms.saturating_sub(1).max(from_ms)));
            }
            if let Some((id, user)) = namespace::split(root)
                && let Some(db) = self.database_if_not_settled(id, root, user, to_ms)
            {
                found.push((db, user.to_vec()));
            }
            merge.next_key()?;
        }
        Ok((found, to_ms))
    }

    /// The database of a key that an index record names, unless memory tells that it is not due.
    fn database_if_not_settled(
        &self,
        id: u64,
        root: &[u8],
        user: &[u8],
        now_ms: u64,
    ) -> Option<usize> {
        let inner = self.inner();
        let hash = inner.hash(user);
        let state = inner.shards[shard_of(hash)].state.lock();
        let (db, slot) = inner.namespaces.find_id(id)?;
        match state.table.find(Key { slot, bytes: user, hash }) {
            Some(entry) => entry.meta().is_expired(now_ms).then_some(db),
            None => (!state.is_dead(hash, root.split_at(HEAD_BYTES))).then_some(db),
        }
    }

    /// Up to `limit` keys whose expiry is at or before `now_ms`: those in memory by their due time,
    /// and those that a look into the expiry index has found. The caller deletes them through
    /// transactions (rule X3), which look again: a key may have changed since. None while writes are
    /// refused or must wait: a key is handed out once.
    #[must_use]
    pub fn due(&self, now_ms: u64, limit: usize) -> Vec<DueKey> {
        let inner = self.inner();
        let mut due = Vec::new();
        if self.must_wait() || self.write_refusal().is_some() {
            return due;
        }
        {
            let mut cold = inner.cold_due.lock();
            cold.now_ms = now_ms;
            cold.worked_off = cold.queue.is_empty();
            let count = cold.queue.len().min(limit);
            due.extend(cold.queue.drain(..count));
        }
        let start = inner.due_shard.fetch_add(1, Ordering::Relaxed) as usize;
        for i in 0..inner.shards.len() {
            let mut state = inner.shards[(start + i) % inner.shards.len()].state.lock();
            // Under the latch: a SWAPDB or FLUSHDB may have come between two shards.
            let mut slot_dbs = [usize::MAX; namespace::SLOTS];
            for db in 0..self.databases() {
                slot_dbs[usize::from(self.slot_of(db))] = db;
            }
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

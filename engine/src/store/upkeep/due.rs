//! Keys whose time has come (N11).

use crate::key::{EngineKey, Key, Seq};
use crate::store::engine::{Engine, EngineError};
use crate::store::namespace::{self, HEAD_BYTES};
use crate::store::shard::shard_of;
use crate::tree::{MergeIter, Source};
use std::collections::VecDeque;
use std::sync::atomic::Ordering;

/// A key that may be due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueKey {
    /// Its database.
    pub db: usize,
    /// Its bytes.
    pub key: Vec<u8>,
    /// Its hash, as [`Engine::hash`] gives it.
    pub hash: u64,
}

/// Keys found by the expiry index that one look collects at most.
const COLD_DUE_MAX: usize = if cfg!(test) { 8 } else { 16 << 10 };

/// Time between two looks into the expiry index.
const COLD_LOOK_MS: u64 = 500;

/// How far the expiry index of the tables has been worked off.
#[derive(Default)]
pub(in crate::store) struct ColdDue {
    queue: VecDeque<DueKey>,
    /// What was taken from the queue has been worked off: its taker has asked for more since.
    worked_off: bool,
    now_ms: u64,
    looked_ms: u64,
    /// The last record that a look has read which found more than it may collect.
    stopped_at: Option<Vec<u8>>,
    /// Records due at or before this have been handed out.
    handed_out_ms: u64,
    /// The earliest time in tables that a flush has written and not installed.
    written_ms: Option<u64>,
    /// Times that earlier positions were gone back to: what a look finds meanwhile counts for none.
    reopened: u64,
    /// The last position whose deletes were all committed, with the sequence they ended at.
    settled: Option<(u64, Seq)>,
    /// Merges may drop index records due at or before this: what they led to is durable.
    droppable_ms: u64,
}

impl ColdDue {
    /// A flush writes records due from `at_ms` on.
    pub(in crate::store) fn note_written(&mut self, at_ms: u64) {
        self.written_ms = Some(self.written_ms.map_or(at_ms, |ms| ms.min(at_ms)));
        self.reopen(at_ms);
    }

    /// What flushes have written can be read: a look since [`ColdDue::note_written`] has missed it.
    pub(in crate::store) fn note_installed(&mut self) {
        if let Some(at_ms) = self.written_ms.take() {
            self.reopen(at_ms);
        }
    }

    /// There are records due from `at_ms` on that what was handed out does not cover.
    fn reopen(&mut self, at_ms: u64) {
        self.reopened += 1;
        let before = at_ms.saturating_sub(1);
        self.stopped_at = self
            .stopped_at
            .take()
            .filter(|key| EngineKey::parse_expiry(key).map(|(due_ms, _)| due_ms) < Some(at_ms));
        self.handed_out_ms = self.handed_out_ms.min(before);
        self.droppable_ms = self.droppable_ms.min(before);
        self.settled = self.settled.filter(|(ms, _)| *ms <= before);
    }

    /// The clock shows `now_ms`. If that is earlier than before, what was handed out as due may not have been due when
    /// its taker looked: all of it that was not settled is looked for again.
    fn note_clock(&mut self, now_ms: u64) {
        if now_ms < self.now_ms {
            self.reopen(self.droppable_ms.min(now_ms).saturating_add(1));
            self.looked_ms = 0;
        }
        self.now_ms = now_ms;
    }

    pub(in crate::store) fn droppable_ms(&self) -> u64 {
        self.droppable_ms
    }
}

/// What a look into the expiry index has found.
struct Look {
    found: Vec<DueKey>,
    /// All records up to this time were read.
    reached_ms: u64,
    /// The last record read, if more were left.
    stopped_at: Option<Vec<u8>>,
}

impl Engine {
    /// Looks for keys on devices whose time has come, in the expiry index of the tables. Runs on a
    /// background thread: it reads.
    pub(in crate::store) fn look_for_cold_due(&self) -> Result<(), EngineError> {
        let inner = self.inner();
        let (from_ms, to_ms, stopped_at, reopened) = {
            let mut state = inner.upkeep.cold_due.lock();
            let is_early =
                state.stopped_at.is_none() && state.now_ms < state.looked_ms + COLD_LOOK_MS;
            if !state.queue.is_empty() || is_early {
                return Ok(());
            }
            let mark = inner.flusher.mark.load(Ordering::Acquire);
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
            (state.handed_out_ms, state.now_ms, state.stopped_at.clone(), state.reopened)
        };
        let look = self.read_expiry_index(from_ms, to_ms, stopped_at.as_deref())?;
        let mut state = inner.upkeep.cold_due.lock();
        if state.reopened == reopened {
            state.handed_out_ms = look.reached_ms;
            state.stopped_at = look.stopped_at;
        }
        state.worked_off &= look.found.is_empty();
        state.queue.extend(look.found);
        Ok(())
    }

    /// Keys of index records due in (`from_ms`, `to_ms`] that may still be due, behind the record where the
    /// last look has stopped.
    fn read_expiry_index(
        &self,
        from_ms: u64,
        to_ms: u64,
        stopped_at: Option<&[u8]>,
    ) -> Result<Look, EngineError> {
        let version = self.inner().versions.current();
        let mut merge = MergeIter::new(version.cursors(Seq::MAX, |_| false));
        let mut start = Vec::new();
        EngineKey::Expiry { due_ms: from_ms + 1, root: b"" }.encode_into(&mut start);
        merge.seek(stopped_at.unwrap_or(&start))?;
        if merge.valid() && Some(merge.key()) == stopped_at {
            merge.next_key()?;
        }
        let mut found = Vec::new();
        let mut last: Vec<u8> = Vec::new();
        while merge.valid() {
            let Some((at_ms, root)) = EngineKey::parse_expiry(merge.key()) else { break };
            if at_ms > to_ms {
                break;
            }
            if found.len() >= COLD_DUE_MAX {
                let reached_ms = at_ms.saturating_sub(1).max(from_ms);
                return Ok(Look { found, reached_ms, stopped_at: Some(last) });
            }
            last.clear();
            last.extend_from_slice(merge.key());
            if let Some((id, user)) = namespace::split(root)
                && let Some(due) = self.due_unless_settled(id, root, user, to_ms)
            {
                found.push(due);
            }
            merge.next_key()?;
        }
        Ok(Look { found, reached_ms: to_ms, stopped_at: None })
    }

    /// The key that an index record names, unless memory tells that it is not due.
    fn due_unless_settled(&self, id: u64, root: &[u8], user: &[u8], now_ms: u64) -> Option<DueKey> {
        let inner = self.inner();
        let hash = inner.hash(user);
        let state = inner.shards[shard_of(hash)].latch();
        let (db, slot) = inner.namespaces.find_id(id)?;
        let may_be_due = match state.table.find(Key { slot, bytes: user, hash }) {
            Some(entry) => entry.meta().is_due(entry.value(), now_ms),
            None => !state.is_dead(hash, root.split_at(HEAD_BYTES)),
        };
        may_be_due.then(|| DueKey { db, key: user.to_vec(), hash })
    }

    /// True when keys of these hashes lie under the same latch: one transaction for both holds up no more
    /// than one for each.
    #[must_use]
    pub fn share_latch(&self, one: u64, other: u64) -> bool {
        shard_of(one) == shard_of(other)
    }

    /// Up to `limit` keys whose expiry, or the due time of an element of theirs, is at or before `now_ms`: those in memory by their due time,
    /// and those that a look into the expiry index has found, latch by latch ([`Engine::share_latch`]). The
    /// caller deletes them, or those elements, through transactions (rule X3), which look again: a key may have changed since. None
    /// while writes are refused or must wait: a key is handed out once.
    #[must_use]
    pub fn due(&self, now_ms: u64, limit: usize) -> Vec<DueKey> {
        let inner = self.inner();
        let mut due = Vec::new();
        if self.must_wait() || self.write_refusal().is_some() {
            return due;
        }
        {
            let mut cold = inner.upkeep.cold_due.lock();
            cold.note_clock(now_ms);
            cold.worked_off = cold.queue.is_empty();
            let count = cold.queue.len().min(limit);
            due.extend(cold.queue.drain(..count));
            if cold.queue.is_empty() && cold.stopped_at.is_some() {
                inner.upkeep.background.wake_flush();
            }
        }
        let start = inner.upkeep.due_shard.fetch_add(1, Ordering::Relaxed) as usize;
        for i in 0..inner.shards.len() {
            let mut state = inner.shards[(start + i) % inner.shards.len()].latch();
            // Under the latch: a SWAPDB or FLUSHDB may have come between two shards.
            let mut slot_dbs = [usize::MAX; namespace::SLOTS];
            for db in 0..self.databases() {
                slot_dbs[usize::from(self.slot_of(db))] = db;
            }
            while due.len() < limit {
                let Some(entry) = state.table.pop_due(now_ms) else { break };
                let db = slot_dbs[usize::from(entry.slot())];
                if db != usize::MAX {
                    let key = entry.key().to_vec();
                    due.push(DueKey { db, hash: inner.hash(&key), key });
                }
            }
            if due.len() >= limit {
                break;
            }
        }
        // The upper bits of a hash choose its latch.
        due.sort_unstable_by_key(|due| due.hash);
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_flush_has_written_is_looked_for_once_it_can_be_read() {
        let mut due = ColdDue { handed_out_ms: 50, ..ColdDue::default() };
        due.note_written(100);
        due.note_written(120);
        assert_eq!(due.handed_out_ms, 50, "nothing later was handed out");
        let before = due.reopened;
        // A look that did not see it: its table is not in the tree yet.
        due.handed_out_ms = 200;
        due.note_installed();
        assert_eq!(due.handed_out_ms, 99);
        assert!(due.reopened > before, "a look under way counts for nothing");
        due.handed_out_ms = 200;
        due.note_installed();
        assert_eq!(due.handed_out_ms, 200, "and once");
    }

    #[test]
    fn a_look_goes_on_where_it_stopped_unless_something_came_before() {
        let record = [&[crate::key::KIND_EXPIRY][..], &100_u64.to_be_bytes(), b"Rk"].concat();
        let mut due = ColdDue { stopped_at: Some(record.clone()), ..ColdDue::default() };
        due.reopen(101);
        assert_eq!(due.stopped_at, Some(record));
        due.reopen(100);
        assert_eq!(due.stopped_at, None, "a record of that time may sort before it");
    }
}

//! Keys whose time has come (N11).

use crate::key::{EngineKey, Key, Seq};
use crate::store::engine::{Engine, EngineError};
use crate::store::namespace::{self, HEAD_BYTES};
use crate::store::shard::shard_of;
use crate::store::upkeep::cold_due::DueKey;
use crate::tree::{MergeIter, Source};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Keys found by the expiry index that one look collects at most.
const COLD_DUE_MAX: usize = if cfg!(test) { 8 } else { 16 << 10 };

/// What a look into the expiry index has found.
struct Look {
    found: Vec<DueKey>,
    /// All records up to this time were read.
    reached_ms: u64,
    /// The last record read, if more were left.
    stopped_at: Option<Vec<u8>>,
    /// When the first record is due that was not read.
    next_ms: u64,
}

impl Engine {
    /// Looks for keys on devices whose time has come, in the expiry index of the tables. Runs on a
    /// background thread: it reads.
    pub(in crate::store) fn look_for_cold_due(&self) -> Result<(), EngineError> {
        let inner = self.inner();
        let (from_ms, to_ms, stopped_at, reopened) = {
            let mut state = inner.upkeep.cold_due.lock();
            let mark = inner.flusher.mark.load(Ordering::Acquire);
            if state.queue.is_empty() && state.settle(mark, || self.last_seq()) {
                inner.graveyard.burial_wanted.store(true, Ordering::Release);
                inner.upkeep.background.wake_compaction();
            }
            if !state.wants_look() {
                return Ok(());
            }
            state.looked_ms = state.now_ms;
            (state.handed_out_ms, state.now_ms, state.stopped_at.clone(), state.reopened)
        };
        let look = self.read_expiry_index(from_ms, to_ms, stopped_at.as_deref())?;
        let mut state = inner.upkeep.cold_due.lock();
        if state.reopened == reopened {
            state.handed_out_ms = look.reached_ms;
            state.stopped_at = look.stopped_at;
            state.next_ms = look.next_ms;
        }
        if !look.found.is_empty() {
            state.worked_off = false;
            state.queue.extend(look.found);
            inner.upkeep.due_alarm.ring();
        }
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
        let (mut found, mut next_ms) = (Vec::new(), u64::MAX);
        let mut last: Vec<u8> = Vec::new();
        while merge.valid() {
            let Some((at_ms, root)) = EngineKey::parse_expiry(merge.key()) else { break };
            if at_ms > to_ms {
                next_ms = at_ms;
                break;
            }
            if found.len() >= COLD_DUE_MAX {
                let reached_ms = at_ms.saturating_sub(1).max(from_ms);
                return Ok(Look { found, reached_ms, stopped_at: Some(last), next_ms: at_ms });
            }
            last.clear();
            last.extend_from_slice(merge.key());
            if let Some((id, user)) = namespace::split(root)
                && let Some(due) = self.due_unless_outdated(id, root, user, to_ms)
            {
                found.push(due);
            }
            merge.next_key()?;
        }
        Ok(Look { found, reached_ms: to_ms, stopped_at: None, next_ms })
    }

    /// The key that an index record names, unless memory tells that it is not due.
    fn due_unless_outdated(
        &self,
        id: u64,
        root: &[u8],
        user: &[u8],
        now_ms: u64,
    ) -> Option<DueKey> {
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

    /// True when keys of these hashes share a latch: one transaction for both then delays others no more
    /// than one for each.
    #[must_use]
    pub fn share_latch(&self, one: u64, other: u64) -> bool {
        shard_of(one) == shard_of(other)
    }

    /// Sleeps until a key is due, or an element of one, and no longer than `most`. A key that gets an earlier due time
    /// meanwhile wakes it. True when it was woken so.
    pub fn wait_for_due(&self, now_ms: u64, most: Duration) -> bool {
        let alarm = &self.inner().upkeep.due_alarm;
        alarm.set(now_ms + most.as_millis() as u64);
        let sleep = Duration::from_millis(self.next_due_ms().saturating_sub(now_ms)).min(most);
        alarm.narrow(now_ms + sleep.as_millis() as u64);
        alarm.sleep(sleep)
    }

    /// The next time at which [`Engine::due`] has something, as far as is known without reading.
    pub(in crate::store) fn next_due_ms(&self) -> u64 {
        let inner = self.inner();
        let in_memory = inner.shards.iter().filter_map(|shard| shard.latch().table.next_due_ms());
        let cold_ms = inner.upkeep.cold_due.lock().wanted_ms();
        in_memory.min().unwrap_or(u64::MAX).min(cold_ms)
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
            if cold.wants_look() {
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
            if state.table.next_due_ms().is_none_or(|at_ms| at_ms > now_ms) {
                continue;
            }
            state.table.prefetch_due(limit - due.len());
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
        inner.upkeep.cold_due.lock().memory_has_more = due.len() >= limit;
        // The upper bits of a hash choose its latch.
        due.sort_unstable_by_key(|due| due.hash);
        // Whoever has asked for them looks them up next.
        due.iter().for_each(|due| self.prefetch_bucket(due.hash));
        due
    }
}

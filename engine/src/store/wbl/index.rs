//! Rebuilds the DRAM table from the records of a pool, on several threads. Each thread owns some of the shards, reads all
//! records in sequence order, and applies those of its shards. The versions of a key all belong to
//! one shard and are therefore applied in the order in which they were written. All threads meet where a memtable ends, a
//! database was emptied, or two databases were swapped.
//!
//! Copying the values would dominate the start time. Where there are many, they are left in place: while the records are
//! applied, the table has their keys without them. Then the memtable is frozen and sorted, the keys leave the table,
//! and a read finds the values as it finds evicted ones (N10).

use crate::key::Meta;
use crate::memtable::Memtable;
use crate::store::engine::{Engine, EngineError};
use crate::store::shard::shard_of;
use crate::store::tx::{Latched, Tx, TxBuf};
use parking_lot::Mutex;
use sexton_persistence::pmem::{InOrder, PmemPool, Record, Recovered, encoded_len};
use std::collections::VecDeque;
use std::sync::{Arc, Barrier};
use std::thread;

/// How far ahead of a record its bucket is asked for.
const AHEAD_RECORDS: usize = 8;

/// The writer of what was recovered; none of this run has that number.
const RECOVERED: u16 = u16::MAX - 1;

/// The newest arena stays the active memtable when it is filled to less than a memtable's size divided by this. A fuller
/// one, which would soon be frozen, is frozen.
const FILLED_SHARE: u64 = 2;

/// What all threads share.
pub(super) struct Indexer<'a> {
    engine: &'a Engine,
    pool: &'a Arc<PmemPool>,
    recovered: &'a Recovered,
    parts: usize,
    /// Arenas, oldest first, whose values are left where they are.
    left: usize,
    /// Barrier at which all threads have reached one record.
    meeting: Barrier,
    failure: Mutex<Option<EngineError>>,
}

/// A record of a key, and the key's hash.
struct Hashed<'r> {
    record: Record<'r>,
    hash: u64,
}

impl<'a> Indexer<'a> {
    /// For as many threads as scanned the pool. The active memtable is the one of the first arena. Without
    /// `leaves_values` the newest stays the active one, and all are copied.
    pub(super) fn new(
        engine: &'a Engine,
        pool: &'a Arc<PmemPool>,
        recovered: &'a Recovered,
        leaves_values: bool,
    ) -> Self {
        let parts = recovered.report.threads.max(1);
        let meeting = Barrier::new(parts);
        let few_bytes = engine.inner().memory.shares.memtable_bytes() / FILLED_SHARE;
        let stays_active =
            recovered.arenas.last().is_some_and(|newest| newest.arena.used_bytes() < few_bytes);
        let frozen = recovered.arenas.len() - usize::from(stays_active);
        let left = if leaves_values { frozen } else { 0 };
        Self { engine, pool, recovered, parts, left, meeting, failure: Mutex::new(None) }
    }

    /// Applies every record. No latch may be held, and nobody else may write.
    pub(super) fn run(&self) -> Result<(), EngineError> {
        thread::scope(|scope| {
            let others: Vec<_> =
                (1..self.parts).map(|part| scope.spawn(move || self.run_part(part))).collect();
            let mut applied = self.run_part(0);
            for other in others {
                match other.join() {
                    Ok(result) => applied = applied.and(result),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            applied
        })
    }

    /// Every thread checks every record before it skips those of others. An unusable record therefore ends all
    /// threads at one place, and none is left waiting at a meeting.
    fn run_part(&self, part: usize) -> Result<(), EngineError> {
        let arenas = &self.recovered.arenas;
        for nth in 0..=arenas.len() {
            let ends_left = nth > 0 && nth == self.left;
            if ends_left || (1..arenas.len()).contains(&nth) {
                self.meet(|| {
                    self.next_memtable(nth);
                    if ends_left {
                        self.engine.sort_frozen();
                    }
                    Ok(())
                })?;
            }
            if ends_left {
                self.forget_left(part);
            }
            let Some(found) = arenas.get(nth) else { break };
            let mut in_order = found.in_order();
            while let Some(record) = self.run_stretch((part, nth), &mut in_order)? {
                self.meet(|| {
                    let mut buf = TxBuf::default();
                    self.engine.begin(Latched::All, &mut buf).take_up_databases(&record)
                })?;
            }
        }
        Ok(())
    }

    /// Applies a thread's share of the records up to one about databases, which is the answer.
    fn run_stretch<'r>(
        &self,
        (part, nth): (usize, usize),
        in_order: &mut InOrder<'r>,
    ) -> Result<Option<Record<'r>>, EngineError> {
        let mut buf = TxBuf::default();
        let tx = Tx::begin_part(self.engine, (part, self.parts), &mut buf);
        let mut share = Share::new(self, tx, nth < self.left);
        for record in in_order {
            if super::recover::is_of_databases(record.kind) {
                share.apply_waiting(0)?;
                return Ok(Some(record));
            }
            let Some(user) = super::recover::user_key(&record)? else { continue };
            if part == 0 {
                share.note_place(&record);
            }
            let hash = self.engine.hash(user);
            if shard_of(hash) % self.parts == part {
                share.take(Hashed { record, hash })?;
            }
        }
        share.apply_waiting(0)?;
        Ok(None)
    }

    /// What a thread has put into the table without values leaves it: all of that is sorted now. What may be due is
    /// there with its value and stays, for the due time is known by it.
    fn forget_left(&self, part: usize) {
        for shard in self.engine.inner().shards.iter().skip(part).step_by(self.parts) {
            let mut shard = shard.latch();
            shard.table.remove_where(|entry| !entry.meta().may_be_due());
            shard.complete = false;
            self.engine.note_table_bytes(&mut shard);
        }
    }

    /// All before the arena number `nth` was applied: its memtable, an empty one behind the last, takes the place of the
    /// one before.
    fn next_memtable(&self, nth: usize) {
        let m = self.recovered.arenas[nth - 1].last_seq;
        self.engine.rotate_at(m, |generation, first_seq| {
            let born = (generation, first_seq);
            self.engine.recovered_memtable(self.pool, self.recovered, nth, born)
        });
    }

    /// One thread does `work`, while the others wait; none holds a latch.
    fn meet(&self, work: impl FnOnce() -> Result<(), EngineError>) -> Result<(), EngineError> {
        if self.meeting.wait().is_leader() {
            *self.failure.lock() = work().err();
        }
        self.meeting.wait();
        let failure = self.failure.lock().clone();
        failure.map_or(Ok(()), Err)
    }
}

/// One thread's share of a memtable, between two meetings.
struct Share<'r, 't> {
    tx: Tx<'t>,
    memtable: Arc<Memtable>,
    leaves_values: bool,
    waiting: VecDeque<Hashed<'r>>,
}

impl<'r, 't> Share<'r, 't> {
    fn new(of: &Indexer<'_>, tx: Tx<'t>, leaves_values: bool) -> Self {
        let memtable = Arc::clone(&of.engine.inner().views.superversion.load().active);
        let waiting = VecDeque::with_capacity(AHEAD_RECORDS + 1);
        Self { tx, memtable, leaves_values, waiting }
    }

    fn take(&mut self, next: Hashed<'r>) -> Result<(), EngineError> {
        self.tx.engine().prefetch_bucket(next.hash);
        self.waiting.push_back(next);
        self.apply_waiting(AHEAD_RECORDS)
    }

    /// Applies the oldest records until `left` wait.
    fn apply_waiting(&mut self, left: usize) -> Result<(), EngineError> {
        while self.waiting.len() > left {
            let Some(Hashed { record, hash }) = self.waiting.pop_front() else { break };
            let meta = Meta { flags: record.flags, expire_at_ms: record.aux };
            let leaves_value = self.leaves_values && !meta.may_be_due();
            self.tx.take_up(&record, hash, leaves_value)?;
        }
        Ok(())
    }

    /// The memtable takes a record into its list, if it is a version. For one thread: so they are in the order of their
    /// sequences there.
    fn note_place(&self, record: &Record<'_>) {
        if super::recover::is_version(record.kind)
            && let Some(pooled) = self.memtable.pooled()
        {
            let len = encoded_len(record.key.len(), record.value.len());
            pooled.add(RECOVERED, record.position(), len);
        }
    }
}

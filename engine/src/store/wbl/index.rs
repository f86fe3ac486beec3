//! Building the DRAM table over what a pool had, on several threads: each has some of the shards, goes over all
//! records in the order of their sequences, and applies those of its own. So the versions of a key, which are
//! all of one shard, are applied as they were written. Where a memtable ends, a database was emptied or two
//! changed places all threads meet.

use crate::memtable::Memtable;
use crate::store::engine::{Engine, EngineError};
use crate::store::shard::shard_of;
use crate::store::tx::{Latched, Tx, TxBuf};
use parking_lot::Mutex;
use sexton_persistence::pmem::{InOrder, PmemPool, PmemPosition, Record, Recovered};
use std::collections::VecDeque;
use std::sync::{Arc, Barrier};
use std::thread;

/// How far ahead of a record its bucket is asked for.
const AHEAD_RECORDS: usize = 8;

/// Positions that a thread gathers before it adds them to the memtable's list, which all share.
const GATHERED_POSITIONS: usize = 512;

/// What all threads share.
pub(super) struct Indexer<'a> {
    engine: &'a Engine,
    pool: &'a Arc<PmemPool>,
    recovered: &'a Recovered,
    parts: usize,
    /// All threads stand before the same record.
    meeting: Barrier,
    failure: Mutex<Option<EngineError>>,
}

/// A record of a key, and the key's hash.
struct Hashed<'r> {
    record: Record<'r>,
    hash: u64,
}

impl<'a> Indexer<'a> {
    /// For as many threads as scanned the pool. The active memtable is the one of the first arena.
    pub(super) fn new(
        engine: &'a Engine,
        pool: &'a Arc<PmemPool>,
        recovered: &'a Recovered,
    ) -> Self {
        let parts = recovered.report.threads.max(1);
        let meeting = Barrier::new(parts);
        Self { engine, pool, recovered, parts, meeting, failure: Mutex::new(None) }
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

    /// Every thread looks at every record before it leaves out those of others, so what is not usable ends all
    /// of them at the same one, and none is left waiting at a meeting.
    fn run_part(&self, part: usize) -> Result<(), EngineError> {
        for (nth, found) in self.recovered.arenas.iter().enumerate() {
            if nth > 0 {
                self.meet(|| {
                    self.next_memtable(nth);
                    Ok(())
                })?;
            }
            let mut in_order = found.in_order();
            while let Some(record) = self.run_stretch(part, &mut in_order)? {
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
        part: usize,
        in_order: &mut InOrder<'r>,
    ) -> Result<Option<Record<'r>>, EngineError> {
        let mut buf = TxBuf::default();
        let mut share = Share::new(self, Tx::begin_part(self.engine, (part, self.parts), &mut buf));
        for record in in_order {
            if super::recover::is_of_databases(record.kind) {
                share.apply_waiting(0)?;
                return Ok(Some(record));
            }
            let Some(user) = super::recover::user_key(&record)? else { continue };
            let hash = self.engine.hash(user);
            if shard_of(hash) % self.parts == part {
                share.take(Hashed { record, hash })?;
            }
        }
        share.apply_waiting(0)?;
        Ok(None)
    }

    /// All before the arena number `nth` was applied: its memtable takes the place of the one before.
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
    waiting: VecDeque<Hashed<'r>>,
    positions: Vec<PmemPosition>,
}

impl<'r, 't> Share<'r, 't> {
    fn new(of: &Indexer<'_>, tx: Tx<'t>) -> Self {
        let memtable = Arc::clone(&of.engine.inner().superversion.load().active);
        let waiting = VecDeque::with_capacity(AHEAD_RECORDS + 1);
        Self { tx, memtable, waiting, positions: Vec::with_capacity(GATHERED_POSITIONS) }
    }

    fn take(&mut self, next: Hashed<'r>) -> Result<(), EngineError> {
        self.tx.engine().prefetch_bucket(next.hash);
        self.waiting.push_back(next);
        self.apply_waiting(AHEAD_RECORDS)
    }

    /// Applies the oldest records until `left` wait; with none left, all that was gathered is in the memtable.
    fn apply_waiting(&mut self, left: usize) -> Result<(), EngineError> {
        while self.waiting.len() > left {
            let Some(Hashed { record, hash }) = self.waiting.pop_front() else { break };
            if self.tx.take_up(&record, hash)? {
                self.positions.push(record.position());
                if self.positions.len() == GATHERED_POSITIONS {
                    self.add_positions();
                }
            }
        }
        if left == 0 {
            self.add_positions();
        }
        Ok(())
    }

    fn add_positions(&mut self) {
        if let Some(pooled) = self.memtable.pooled() {
            pooled.add(&self.positions);
        }
        self.positions.clear();
    }
}

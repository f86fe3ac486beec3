//! The pool behind a store in persistent memory, and its writers.

use crate::key::Seq;
use parking_lot::Mutex;
use sexton_persistence::pmem::{PmemArena, PmemPool, PmemResult, RecoveryReport, Writer};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Writers wait when the pool has less room left than a memtable's size divided by this. That room is for writers that
/// have not been told yet, each of which fills chunks of its own.
const ROOM_SHARE: u64 = 4;

/// The pool behind a store, and its writers.
pub(in crate::store) struct Wbl {
    pub(super) pool: Arc<PmemPool>,
    /// Writers that no transaction has.
    pub(super) idle: Mutex<Vec<Writer>>,
    /// Stands for what the pool had no room for: its sequences are begun and never fenced, so `durable` stays
    /// below them until a flush has them (N2).
    pub(super) spill: Mutex<Writer>,
    pub(super) spilled: AtomicU64,
    /// Generation of the last memtable of which the background was told that it is full.
    pub(super) full_told: AtomicU8,
    /// Arenas of flushed memtables with their marks, until all writers have fenced what is in them.
    pub(super) retiring: Mutex<Vec<(Seq, Arc<PmemArena>)>>,
    /// Why the pool takes nothing any more.
    pub(super) failure: OnceLock<String>,
    pub(super) recovery_time: Duration,
    pub(super) recovery: RecoveryReport,
}

impl Wbl {
    pub(super) fn new(
        pool: Arc<PmemPool>,
        recovery_time: Duration,
        recovery: RecoveryReport,
    ) -> PmemResult<Self> {
        Ok(Self {
            spill: Mutex::new(pool.writer()?),
            pool,
            idle: Mutex::default(),
            spilled: AtomicU64::new(0),
            full_told: AtomicU8::new(0),
            retiring: Mutex::default(),
            failure: OnceLock::new(),
            recovery_time,
            recovery,
        })
    }

    /// The pool.
    pub(in crate::store) fn pool(&self) -> &Arc<PmemPool> {
        &self.pool
    }

    /// Why writes must be refused, if they must.
    pub(in crate::store) fn failure(&self) -> Option<String> {
        self.failure.get().map(|reason| format!("persistent memory failed: {reason}"))
    }

    /// True the first time that a memtable is said to be full.
    pub(in crate::store) fn tell_full(&self, generation: u8) -> bool {
        self.full_told.load(Ordering::Relaxed) != generation
            && self.full_told.swap(generation, Ordering::Relaxed) != generation
    }

    /// True when the pool has little room left, and waiting brings some: writers wait for it rather than spill.
    pub(in crate::store) fn is_short_of_room(&self, memtable_bytes: u64, frozen: usize) -> bool {
        self.pool.room_bytes() < memtable_bytes / ROOM_SHARE
            && (frozen > 0 || self.pool.is_erasing() || !self.retiring.lock().is_empty())
    }

    /// What background threads do now and then: c_p, slots of memtables that are flushed, room for the next.
    pub(in crate::store) fn maintain(&self, room_bytes: u64) -> PmemResult<()> {
        self.retire_fenced();
        self.pool.erase_retired()?;
        self.pool.note_complete()?;
        self.pool.make_room(room_bytes)
    }
}

impl Wbl {
    /// A copy that no fence has passed could arrive behind the zeros that erase its arena. A batch of requests
    /// ends soon; after a failed fence nothing is erased until the next start.
    fn retire_fenced(&self) {
        if self.failure.get().is_some() {
            return;
        }
        let spill = self.spill.lock();
        self.retiring.lock().retain(|(m, arena)| {
            let is_fenced = self.pool.is_fenced_through(*m, &spill);
            if is_fenced {
                arena.retire();
            }
            !is_fenced
        });
    }

    pub(super) fn note_spilled(&self, first: u64, last: u64) {
        self.spill.lock().begin(first, last);
        self.spilled.fetch_add(last - first + 1, Ordering::Relaxed);
    }
}

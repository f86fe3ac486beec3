//! Write-behind logging: the memtable itself is durable, and there is no log (`engine/DESIGN.md`).

mod batch;
mod figures;
mod index;
mod marker;
mod recover;
mod start;
mod writer;

pub(super) use batch::{BatchBytes, PoolBatch};
pub use figures::WblStats;
pub use marker::{POOL_DIR, POOL_MARKER, is_set as has_pool};
pub(super) use writer::TxWriter;

use super::engine::Engine;
use super::upkeep::events::Fault;
use crate::key::Seq;
use crate::memtable::Pooled;
use parking_lot::Mutex;
use sexton_persistence::pmem::{PmemArena, PmemPool, PmemResult, RecoveryReport, Writer};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Kind of a record that says that a key was deleted which had an expiry; without one it is
/// [`sexton_persistence::pmem::KIND_DELETE`].
const KIND_DELETE_EXPIRING: u8 = 3;
/// A tombstone (`deletes = tombstones`) over a value without an expiry.
const KIND_TOMBSTONE: u8 = 4;
/// A tombstone over a value with an expiry.
const KIND_TOMBSTONE_EXPIRING: u8 = 5;
/// A database was emptied; `aux` is its number, the sequence is the id of its new namespace (N7).
pub(super) const KIND_FLUSH_DATABASE: u8 = 6;
/// Two databases changed places: the lower half of `aux` and the upper one.
pub(super) const KIND_SWAP_DATABASES: u8 = 7;
/// The end of a commit whose last operation did not know that it was the last.
pub(super) const KIND_END: u8 = 8;

/// Writers wait when the pool has less room left than one of so many parts of a memtable: what those can take who
/// were not told yet, each in chunks of its own.
const ROOM_SHARE: u64 = 4;

/// The pool behind a store, and who writes to it.
pub(super) struct Wbl {
    pool: Arc<PmemPool>,
    /// Writers that no transaction has.
    idle: Mutex<Vec<Writer>>,
    /// Stands for what the pool had no room for: its sequences are begun and never fenced, so `durable` stays
    /// below them until a flush has them (N2).
    spill: Mutex<Writer>,
    spilled: AtomicU64,
    /// Generation of the last memtable of which the background was told that it is full.
    full_told: AtomicU8,
    /// Arenas of flushed memtables with their marks, until all writers have fenced what is in them.
    retiring: Mutex<Vec<(Seq, Arc<PmemArena>)>>,
    /// Why the pool takes nothing any more.
    failure: OnceLock<String>,
    recovery_time: Duration,
    recovery: RecoveryReport,
}

impl Wbl {
    fn new(
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
    pub(super) fn pool(&self) -> &Arc<PmemPool> {
        &self.pool
    }

    /// Why writes must be refused, if they must.
    pub(super) fn failure(&self) -> Option<String> {
        self.failure.get().map(|reason| format!("persistent memory failed: {reason}"))
    }

    /// True the first time that a memtable is said to be full.
    pub(super) fn tell_full(&self, generation: u8) -> bool {
        self.full_told.load(Ordering::Relaxed) != generation
            && self.full_told.swap(generation, Ordering::Relaxed) != generation
    }

    /// True when the pool has little room left, and waiting brings some: writers wait for it rather than spill.
    pub(super) fn is_short_of_room(&self, memtable_bytes: u64, frozen: usize) -> bool {
        self.pool.room_bytes() < memtable_bytes / ROOM_SHARE
            && (frozen > 0 || self.pool.is_erasing() || !self.retiring.lock().is_empty())
    }

    /// What background threads do now and then: c_p, slots of memtables that are flushed, room for the next.
    pub(super) fn tend(&self, room_bytes: u64) -> PmemResult<()> {
        self.retire_fenced();
        self.pool.erase_retired()?;
        self.pool.note_complete()?;
        self.pool.make_room(room_bytes)
    }
}

impl Engine {
    /// Ends a batch of commits of a thread, before replies to them are sent: one fence makes them durable
    /// (`persistence-mode wbl`), or the log thread is told (`appendfsync always`).
    pub fn end_batch(&self, buf: &mut super::TxBuf) {
        if let Some(writer) = &mut buf.writer {
            writer.end_batch(self);
        }
        self.kick_log();
    }

    /// The pool has failed: writes are refused from here on, and what was written goes to the tree.
    fn pool_failed(&self, wbl: &Wbl, reason: &str) {
        if wbl.failure.set(reason.to_owned()).is_ok() {
            self.inner().upkeep.health.fails(Fault::PersistentMemory, || reason.to_owned());
            self.inner().upkeep.background.freeze_early();
        }
    }

    /// What lies in these arenas is in the tree, with a mark of `m`: they go when nobody reads them any more.
    pub(super) fn retire(&self, pooled: &Pooled, m: Seq) {
        pooled.active().pool().installed(m);
        match self.inner().write.wbl.get() {
            Some(wbl) => {
                let arenas = pooled.arenas().iter().map(|arena| (m, Arc::clone(arena)));
                wbl.retiring.lock().extend(arenas);
            }
            // A start in log mode, which nobody has written in.
            None => pooled.arenas().iter().for_each(|arena| arena.retire()),
        }
    }

    /// Looks after the pool, if there is one.
    pub(super) fn tend_pool(&self) {
        let Some(wbl) = self.inner().write.wbl.get() else { return };
        if let Err(error) = wbl.tend(self.inner().memory.shares.memtable_bytes()) {
            self.pool_failed(wbl, &error.to_string());
        }
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

    fn note_spilled(&self, first: u64, last: u64) {
        self.spill.lock().begin(first, last);
        self.spilled.fetch_add(last - first + 1, Ordering::Relaxed);
    }
}

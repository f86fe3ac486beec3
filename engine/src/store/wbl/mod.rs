//! Write-behind logging: the memtable itself is durable, and there is no log (`engine/DESIGN.md`).

mod batch;
mod figures;
mod index;
mod marker;
mod recover;
mod start;
pub(super) mod state;
mod writer;

pub(super) use batch::{BatchBytes, PoolBatch};
pub use figures::WblStats;
pub use marker::{POOL_DIR, POOL_MARKER, is_set as has_pool};
pub(super) use state::Wbl;
pub(super) use writer::TxWriter;

use super::engine::Engine;
use super::upkeep::events::Fault;
use crate::key::Seq;
use crate::memtable::Pooled;
use std::sync::Arc;

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

    /// What is in these arenas is in the tree, with a mark of `m`: they go when nobody reads them any more.
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
    pub(super) fn maintain_pool(&self) {
        let Some(wbl) = self.inner().write.wbl.get() else { return };
        if let Err(error) = wbl.maintain(self.inner().memory.shares.memtable_bytes()) {
            self.pool_failed(wbl, &error.to_string());
        }
    }
}

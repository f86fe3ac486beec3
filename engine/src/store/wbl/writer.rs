//! A transaction buffer's way into the pool.

use super::Wbl;
use crate::memtable::Memtable;
use crate::store::engine::{Engine, Inner};
use sexton_persistence::pmem::Writer;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A writer of the pool, borrowed for as long as a transaction buffer lives.
pub(in crate::store) struct TxWriter {
    pub(super) wbl: Arc<Wbl>,
    /// `None` when there are as many as there may be: what is committed here goes by way of DRAM.
    pub(super) writer: Option<Writer>,
    /// The active memtable as of the last commit; kept until the next fence.
    pub(super) memtable: Option<Arc<Memtable>>,
}

impl TxWriter {
    /// The one that a buffer has, or a new one where it has none of this pool.
    pub(in crate::store) fn of(held: Option<Box<Self>>, wbl: &Arc<Wbl>) -> Box<Self> {
        if let Some(held) = held
            && Arc::ptr_eq(&held.wbl, wbl)
        {
            return held;
        }
        let idle = wbl.idle.lock().pop();
        let writer = idle.or_else(|| wbl.pool.writer().ok());
        Box::new(Self { wbl: Arc::clone(wbl), writer, memtable: None })
    }

    /// The active memtable. The latch that keeps it so is held.
    pub(super) fn take_memtable(&mut self, inner: &Inner) -> Arc<Memtable> {
        // One that is kept is alive, so no other can be at its address.
        let active = inner.views.active_memtable.load(Ordering::Acquire);
        match self.memtable.take().filter(|kept| ptr::eq(Arc::as_ptr(kept), active)) {
            Some(kept) => kept,
            None => Arc::clone(&inner.views.superversion.load().active),
        }
    }

    /// Ends a batch of commits: durable, and nothing of theirs is kept.
    pub(in crate::store) fn end_batch(&mut self, engine: &Engine) {
        self.memtable = None;
        if self.writer.as_ref().is_some_and(Writer::has_unfenced) {
            self.fence(engine);
        }
    }

    /// Makes the committed operations durable, and tells their waiters.
    pub(in crate::store) fn fence(&mut self, engine: &Engine) {
        self.memtable = None;
        let Some(writer) = &mut self.writer else { return };
        if let Err(error) = writer.fence() {
            engine.pool_failed(&self.wbl, &error.to_string());
        }
        engine.durable_moved();
    }
}

impl Drop for TxWriter {
    fn drop(&mut self) {
        let Some(mut writer) = self.writer.take() else { return };
        // Fails only where writes are refused already, or will be with the next fence.
        let _ = writer.fence();
        self.wbl.idle.lock().push(writer);
    }
}

//! A transaction buffer's way into the pool.

use super::Wbl;
use crate::store::engine::Engine;
use sexton_persistence::pmem::{PmemPosition, Writer};
use std::sync::Arc;

/// A writer of the pool, borrowed for as long as a transaction buffer lives.
pub(in crate::store) struct TxWriter {
    pub(super) wbl: Arc<Wbl>,
    /// `None` when there are as many as there may be: what is committed here goes by way of DRAM.
    pub(super) writer: Option<Writer>,
    /// Records of the commit that is being made.
    pub(super) placed: Vec<PmemPosition>,
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
        Box::new(Self { wbl: Arc::clone(wbl), writer, placed: Vec::new() })
    }

    /// True when something waits for a fence.
    pub(in crate::store) fn has_unfenced(&self) -> bool {
        self.writer.as_ref().is_some_and(Writer::has_unfenced)
    }

    /// Makes durable what was committed, and tells those who wait for it.
    pub(in crate::store) fn fence(&mut self, engine: &Engine) {
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

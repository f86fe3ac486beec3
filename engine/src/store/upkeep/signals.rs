//! Signals to the background threads, and their handles.

use crate::error::EngineError;
use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long an idle background thread sleeps before it looks by itself.
pub(super) const IDLE: Duration = Duration::from_millis(100);

/// Pause after a failed flush or compaction before it is tried again.
const RETRY: Duration = Duration::from_millis(50);

#[derive(Default)]
pub(super) struct Signals {
    pub(super) flush: bool,
    pub(super) freeze: bool,
    /// The memtable is to be frozen before it is full; until that was done.
    pub(super) freeze_early: bool,
    pub(super) compact: bool,
}

/// Signals to the background threads, and their handles.
#[derive(Default)]
pub(in crate::store) struct Background {
    pub(super) signals: Mutex<Signals>,
    pub(super) changed: Condvar,
    pub(super) stop: AtomicBool,
    pub(super) threads: Mutex<Vec<JoinHandle<()>>>,
    /// Notified at the end, for threads that wait before a retry.
    pub(super) ended: Condvar,
    last_error: Mutex<Option<String>>,
    /// There is one, so that to look for it costs nothing where there is none.
    has_failed: AtomicBool,
}

impl Background {
    pub(in crate::store) fn wake_flush(&self) {
        self.signals.lock().flush = true;
        self.changed.notify_all();
    }

    /// The memtable is full, or another one may be frozen.
    pub(in crate::store) fn wake_freeze(&self) {
        self.signals.lock().freeze = true;
        self.changed.notify_all();
    }

    /// The memtable pins more than the DRAM table can spare: freeze before it is full (N10).
    pub(in crate::store) fn freeze_early(&self) {
        let mut signals = self.signals.lock();
        if !signals.freeze_early {
            signals.freeze_early = true;
            signals.freeze = true;
            // A log that has failed is the flush thread's.
            signals.flush = true;
            self.changed.notify_all();
        }
    }

    pub(in crate::store) fn wake_compaction(&self) {
        self.signals.lock().compact = true;
        self.changed.notify_all();
    }

    /// Set when the background threads end.
    pub(in crate::store) fn stop_flag(&self) -> &AtomicBool {
        &self.stop
    }

    /// The last error of a flush or compaction, while it lasts.
    pub(in crate::store) fn last_error(&self) -> Option<String> {
        if !self.has_failed.load(Ordering::Acquire) {
            return None;
        }
        self.last_error.lock().clone()
    }

    /// Notes an error of a part of the work, without which the rest goes on.
    pub(in crate::store) fn note_error(&self, error: &EngineError) {
        let mut last = self.last_error.lock();
        *last = Some(error.to_string());
        self.has_failed.store(true, Ordering::Release);
    }

    /// What has failed goes well again.
    pub(super) fn forget_error(&self) {
        let mut last = self.last_error.lock();
        *last = None;
        self.has_failed.store(false, Ordering::Release);
    }

    /// Waits a little before something is tried again; less at the end.
    pub(super) fn rest(&self) {
        let mut signals = self.signals.lock();
        self.ended.wait_for(&mut signals, RETRY);
    }

    pub(super) fn wait(&self, ready: impl Fn(&mut Signals) -> bool) {
        let mut signals = self.signals.lock();
        if !ready(&mut signals) && !self.stop.load(Ordering::Acquire) {
            self.changed.wait_for(&mut signals, IDLE);
            ready(&mut signals);
        }
    }
}

//! Requested copies.

use crate::session::{OutputLimit, Session};
use parking_lot::{Condvar, Mutex};
use sexton_engine::Snapshot;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Copies that are sent at once.
const COPIES_MAX: usize = 8;

/// A requested copy.
#[derive(Debug)]
pub struct Order {
    /// The connection.
    pub session: Arc<Session>,
    /// Its content.
    pub snapshot: Snapshot,
    /// Without the keys (`REPLCONF rdb-filter-only functions`).
    pub leaves_out_keys: bool,
    /// Without the function libraries.
    pub leaves_out_functions: bool,
    /// The end is marked; otherwise the length precedes the data, which is then read twice.
    pub ends_with_mark: bool,
    /// The bytes sent before everything else.
    pub greeting: Vec<u8>,
}

/// The copies that are being sent.
#[derive(Debug)]
pub struct Copies {
    wanted: Mutex<VecDeque<Order>>,
    arrived: Condvar,
    /// Those wanted and those under way.
    pub(crate) open: AtomicUsize,
    /// `client-output-buffer-limit replica`.
    pub output_limit: OutputLimit,
    /// `repl-timeout`, in seconds.
    pub patience_s: AtomicU64,
}

impl Default for Copies {
    fn default() -> Self {
        Self {
            wanted: Mutex::default(),
            arrived: Condvar::new(),
            open: AtomicUsize::new(0),
            output_limit: OutputLimit::default(),
            patience_s: AtomicU64::new(60),
        }
    }
}

impl Copies {
    /// Hands a copy to the copier. False when there are too many already.
    #[must_use]
    pub fn begin(&self, order: Order) -> bool {
        let mut wanted = self.wanted.lock();
        if self.open.load(Ordering::Relaxed) >= COPIES_MAX {
            return false;
        }
        self.open.fetch_add(1, Ordering::Relaxed);
        wanted.push_back(order);
        self.arrived.notify_one();
        true
    }

    pub(crate) fn take(&self, timeout: Duration) -> Option<Order> {
        let mut wanted = self.wanted.lock();
        if wanted.is_empty() {
            self.arrived.wait_for(&mut wanted, timeout);
        }
        wanted.pop_front()
    }
}

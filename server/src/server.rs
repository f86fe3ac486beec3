//! State shared by all workers.

use crate::auth::Auth;
use crate::command::CursorTable;
use crate::observe::Observe;
use crate::session::Sessions;
use parking_lot::Mutex;
use sexton_engine::Engine;
use std::sync::atomic::{AtomicU64, Ordering};

/// The server: engine, statistics, configuration.
pub struct Server {
    /// The store.
    pub engine: Engine,
    /// Number of logical databases.
    pub databases: usize,
    /// Counters of INFO.
    pub stats: Counters,
    /// Users and passwords.
    pub auth: Auth,
    /// All connections.
    pub sessions: Sessions,
    /// What the server remembers for its operators.
    pub observe: Observe,
    /// Open SCAN cursors.
    pub cursors: Mutex<CursorTable>,
}

/// Counters of INFO stats.
#[derive(Debug, Default)]
pub struct Counters {
    hits: AtomicU64,
    misses: AtomicU64,
    expired_keys: AtomicU64,
}

impl Counters {
    /// A key was looked up for reading.
    pub fn count_lookup(&self, found: bool) {
        let counter = if found { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Keys were deleted because their time had come.
    pub fn count_expired(&self, keys: u64) {
        self.expired_keys.fetch_add(keys, Ordering::Relaxed);
    }
}

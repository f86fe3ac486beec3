//! State shared by all workers.

use crate::auth::Auth;
use crate::command::CursorTable;
use crate::observe::Observe;
use crate::session::Sessions;
use crate::shutdown::Shutdown;
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
    /// The request to stop.
    pub shutdown: Shutdown,
    /// Open SCAN cursors.
    pub cursors: Mutex<CursorTable>,
}

impl Server {
    /// The effective text of a directive, as CONFIG GET shows it.
    #[must_use]
    pub fn setting(&self, name: &str) -> String {
        let known = [
            ("hz", "10"),
            ("maxclients", "10000"),
            ("maxmemory", "0"),
            ("maxmemory-policy", "noeviction"),
            ("port", "6379"),
            ("repl-backlog-size", "1048576"),
            ("supervised", "no"),
        ];
        known.iter().find(|(known, _)| *known == name).map_or("", |(_, text)| text).to_owned()
    }

    /// Path of the configuration file; empty when there is none.
    #[must_use]
    pub fn config_file(&self) -> &str {
        ""
    }
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

    /// Look-ups that found a key.
    #[must_use]
    pub fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }

    /// Look-ups that found none.
    #[must_use]
    pub fn misses(&self) -> u64 {
        self.misses.load(Ordering::Relaxed)
    }

    /// Keys deleted because their time had come.
    #[must_use]
    pub fn expired_keys(&self) -> u64 {
        self.expired_keys.load(Ordering::Relaxed)
    }

    /// CONFIG RESETSTAT.
    pub fn reset(&self) {
        for counter in [&self.hits, &self.misses, &self.expired_keys] {
            counter.store(0, Ordering::Relaxed);
        }
    }
}

//! The state of one connection that commands may see and change.

use crate::server::Server;
use sexton_engine::Key;

/// One connection.
#[derive(Debug, Default)]
pub struct Client {
    /// Unique number, rising with each connection.
    pub id: u64,
    /// Selected logical database.
    pub db: usize,
}

impl Client {
    /// A key was changed: watchers must see it (WATCH), and key-space events start here.
    pub fn signal_modified(&mut self, server: &Server, db: usize, key: Key<'_>) {
        let _ = (server, db, key);
    }

    /// Every key of database `db` was changed (FLUSHDB, SWAPDB): watchers must see it.
    pub fn signal_flushed(&mut self, server: &Server, db: usize) {
        let _ = (server, db);
    }
}

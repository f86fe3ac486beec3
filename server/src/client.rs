//! The state of one connection that commands may see and change.

use crate::server::Server;
use crate::session::{ReplyMode, Session};
use sexton_engine::Key;
use std::sync::Arc;

/// One connection.
#[derive(Debug, Default)]
pub struct Client {
    /// Unique number, rising with each connection.
    pub id: u64,
    /// Selected logical database.
    pub db: usize,
    /// True once AUTH succeeded, or from the start while no password is set.
    pub authenticated: bool,
    /// What becomes of replies. `SkipNext` is set by CLIENT REPLY SKIP, which has no reply itself:
    /// the connection drops the reply of the request behind it, then sets `On`.
    pub reply_mode: ReplyMode,
    /// The connection closes once its replies are sent (QUIT, CLIENT KILL of itself).
    pub closing: bool,
    /// What other connections see of this one.
    pub session: Arc<Session>,
}

impl Client {
    /// The state of a connection that was just accepted and listed.
    #[must_use]
    pub fn new(server: &Server, session: Arc<Session>) -> Self {
        let authenticated = !server.auth.is_required();
        Self { id: session.id, authenticated, session, ..Self::default() }
    }

    /// RESET: a transaction and its watches are dropped.
    pub fn discard_transaction(&mut self) {
        self.session.queued.store(0, std::sync::atomic::Ordering::Relaxed);
        self.session.watching.store(0, std::sync::atomic::Ordering::Relaxed);
    }

    /// A key was changed: watchers must see it (WATCH), and key-space events start here.
    pub fn signal_modified(&mut self, server: &Server, db: usize, key: Key<'_>) {
        let _ = (server, db, key);
    }

    /// Every key of database `db` was changed (FLUSHDB, SWAPDB): watchers must see it.
    pub fn signal_flushed(&mut self, server: &Server, db: usize) {
        let _ = (server, db);
    }
}

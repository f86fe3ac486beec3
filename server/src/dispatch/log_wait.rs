//! What WAITAOF waits for.

use crate::resp::Reply;
use crate::server::Server;
use sexton_engine::{Seq, SyncPolicy};
use std::time::Instant;

/// What a connection in WAITAOF waits for.
#[derive(Clone, Copy, Debug)]
pub struct LogWait {
    /// The writes that must be durable.
    pub(crate) seq: Seq,
    /// This server's own log is asked for.
    pub(crate) for_local: bool,
    /// Replicas are asked for, and there are none.
    pub(crate) for_replicas: bool,
    /// `None` waits for ever.
    pub(crate) deadline: Option<Instant>,
}

impl LogWait {
    /// True when WAITAOF can answer.
    #[must_use]
    pub fn is_over(&self, server: &Server, now: Instant) -> bool {
        let local = !self.for_local
            || server.engine.sync_policy() == SyncPolicy::Off
            || server.engine.durable() >= self.seq;
        (local && !self.for_replicas) || self.deadline.is_some_and(|deadline| deadline <= now)
    }

    /// When it times out; `None`: never.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// True while it matters to this wait what becomes durable.
    #[must_use]
    pub fn is_for_log(&self, server: &Server) -> bool {
        self.for_local && server.engine.durable() < self.seq
    }

    /// The current result: `[local, replicas]`. Without a log, no writes are counted.
    pub(crate) fn answer(&self, server: &Server, out: &mut Reply) {
        let logged = server.engine.sync_policy() != SyncPolicy::Off;
        out.array(2);
        out.int(i64::from(logged && server.engine.durable() >= self.seq));
        out.int(0);
    }
}

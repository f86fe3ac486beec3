//! The end of a transaction in which a job has removed keys.

use crate::events::Changes;
use crate::server::Server;
use sexton_engine::Tx;

/// Commits the transaction and notifies clients that watch, cache, listen for or wait for the removed keys.
pub(super) fn commit(server: &Server, tx: Tx<'_>, changes: &mut Changes) {
    changes.signal(&server.events);
    let commit = tx.commit();
    changes.tell_caches(&server.events, server.post());
    changes.publish(&server.events, commit.last_seq);
    server.blocking.tell_gone(changes.take_ready(), commit.last_seq);
    changes.end_batch(&server.events, server.post(), None);
}

//! What commands need of an entry besides its value: that it is in memory, and how an access is counted.

use super::guard::give_up;
use crate::server::Server;
use crate::session::Session;
use sexton_engine::{Found, Key, Tx};
use std::sync::atomic::Ordering;

/// The dispatcher loads keys before a command runs. A key it did not foresee is read here, under the latch.
#[cold]
pub(crate) fn bring_in(tx: &mut Tx<'_>, key: Key<'_>) {
    if let Err(error) = tx.bring_in(key) {
        give_up(error);
    }
}

/// Under an LFU policy an overwritten key keeps its counter, as in Redis: returns the access field after
/// the write.
#[inline]
pub(crate) fn kept_access(
    server: &Server,
    session: &Session,
    tx: &mut Tx<'_>,
    key: Key<'_>,
    now_ms: u64,
) -> Option<u32> {
    let access = &server.eviction.access;
    if !access.is_lfu() {
        return None;
    }
    match tx.find(key) {
        Found::Live(entry) if session.no_touch.load(Ordering::Relaxed) => Some(entry.access()),
        Found::Live(entry) => Some(access.touched(entry.access(), now_ms)),
        Found::Absent | Found::Cold => None,
    }
}

//! Keys that go by themselves: their time has come, or memory is full (rule X3).

use crate::events::{Changes, Event};
use crate::resp::command_bytes;
use crate::server::Server;
use sexton_engine::{Key, Tx};

/// Why a key goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Its time has come.
    Expired,
    /// Memory is full.
    Evicted,
}

/// Deletes `key` of database `db`: one operation, logged as DEL, counted, and told to those who watch or listen. False
/// when it was not there.
pub fn remove(
    server: &Server,
    (tx, changes): (&mut Tx<'_>, &mut Changes),
    db: usize,
    key: Key<'_>,
    reason: Reason,
) -> bool {
    if !tx.delete(key) {
        return false;
    }
    tx.log(db, &command_bytes(&[b"DEL", key.bytes]));
    let event = match reason {
        Reason::Expired => {
            server.stats.count_expired(1);
            Event::EXPIRED
        }
        Reason::Evicted => {
            server.stats.count_evicted(1);
            Event::EVICTED
        }
    };
    changes.modify(&server.events, db, key.bytes, Some(event));
    true
}

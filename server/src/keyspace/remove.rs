//! Keys and fields that go by themselves: their time has come, or memory is full (rule X3).

use super::collection::{Edit, HashView};
use crate::events::{Changes, Event};
use crate::resp::command_bytes;
use crate::server::Server;
use sexton_engine::{Found, Key, Tx};

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

/// Takes away what is due at `now_ms` of a key in memory: the key, or fields of its hash, whose last one takes the key along.
/// One operation, logged as DEL or HDEL, counted, and told to those who watch or listen.
pub fn remove_due(
    server: &Server,
    (tx, changes): (&mut Tx<'_>, &mut Changes),
    db: usize,
    key: Key<'_>,
    now_ms: u64,
) {
    let Found::Live(entry) = tx.find(key) else { return };
    let (meta, access) = (entry.meta(), entry.access());
    if meta.is_expired(now_ms) {
        remove(server, (tx, changes), db, key, Reason::Expired);
        return;
    }
    let Some(hash) = HashView::of(meta, entry.value()) else { return };
    let (gone, left) = hash.without_due(now_ms);
    let words: Vec<&[u8]> = [&b"HDEL"[..], key.bytes].into_iter().chain(gone).collect();
    let (command, fields) = (command_bytes(&words), words.len() as u64 - 2);
    if fields == 0 {
        return;
    }
    server.stats.count_expired_fields(fields);
    let (events, is_empty) = (&server.events, left.is_empty());
    if is_empty {
        tx.delete(key);
    } else {
        // Whole, also without due times: whoever is looking has seen that it does not lie in pages.
        tx.put(key, left.meta(meta.expire_at_ms), left.bytes());
        tx.set_access(key, access);
    }
    tx.log(db, &command);
    changes.modify(events, db, key.bytes, Some(Event::FIELDS_EXPIRED));
    if is_empty {
        changes.tell(events, db, key.bytes, Event::generic("del"));
    }
}

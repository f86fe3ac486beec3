//! Key-space notifications: the hook that commands call where Redis calls `notifyKeyspaceEvent`.

use crate::server::Server;

/// The class of an event, one letter of `notify-keyspace-events` each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotifyClass {
    /// `g`: commands of every type (DEL, EXPIRE, RENAME...).
    Generic,
    /// `$`: string commands.
    String,
    /// `x`: a key was deleted because its time had come.
    Expired,
    /// `e`: a key was deleted to make room.
    Evicted,
    /// `n`: a key was created.
    New,
}

/// Announces `event` on `key` of database `db`. Nobody can subscribe yet, so nothing is done.
pub fn notify(server: &Server, class: NotifyClass, event: &'static str, key: &[u8], db: usize) {
    let _ = (server, class, event, key, db);
}

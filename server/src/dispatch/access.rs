//! Key access for commands of every type: one look-up, expiry, statistics.

use super::entry::bring_in;
use super::{CommandError, CommandResult, Ctx};
use crate::events::Event;
use crate::keyspace::paged::Failed;
use crate::keyspace::{Extent, Kind, Strings, expect, remove_due};
use crate::resp::Reply;
use crate::server::Server;
use crate::session::Session;
use sexton_engine::{Entry, Found, Key, OwnedKey, Want};
use std::sync::atomic::Ordering;

/// What a look-up is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A read: hits and misses are counted, and the access time is set.
    Read,
    /// A read that leaves the access time alone (TTL, TYPE, EXISTS).
    Glance,
    /// The same, of which nobody is told that it has missed (OBJECT).
    Aside,
    /// A look before a write: nothing is counted, the access time is set.
    Write,
    /// A read whose point is the access time: it is set for a client with CLIENT NO-TOUCH too.
    Touch,
}

impl Purpose {
    fn sets_access(self, session: &Session) -> bool {
        match self {
            Self::Glance | Self::Aside => false,
            Self::Touch => true,
            Self::Read | Self::Write => !session.no_touch.load(Ordering::Relaxed),
        }
    }
}

/// Gives an entry its access field after a look for `purpose`. With a clock of seconds, it is another at most once a second.
pub(super) fn note_access(
    (server, session, now_ms): (&Server, &Session, u64),
    purpose: Purpose,
    entry: &Entry<'_>,
) {
    if !purpose.sets_access(session) {
        return;
    }
    let touched = server.eviction.access.touched(entry.access(), now_ms);
    if touched != entry.access() {
        entry.set_access(touched);
    }
}

impl<'e> Ctx<'_, 'e> {
    /// A key was looked up for reading.
    pub(super) fn count_lookup(&mut self, db: usize, key: &[u8], found: bool) {
        self.changes.count_lookup(found);
        if !found {
            self.changes.tell(&self.server.events, db, key, Event::MISS);
        }
    }

    /// Passes the newest value of a key to `look`, without copying it, together with the reply.
    ///
    /// An expired value is deleted first: one operation, logged as DEL (rule X3). Likewise expired fields, logged
    /// as HDEL.
    pub fn inspect<R>(
        &mut self,
        purpose: Purpose,
        db: usize,
        key: &[u8],
        look: impl FnOnce(Option<Entry<'_>>, &mut Reply) -> R,
    ) -> R {
        self.inspect_what_is_left(purpose, db, key, false, look)
    }

    /// Like [`Self::inspect`]. `is_removed`: what is due is already removed, at least all of it that the command asks for.
    pub(super) fn inspect_what_is_left<R>(
        &mut self,
        purpose: Purpose,
        db: usize,
        key: &[u8],
        is_removed: bool,
        look: impl FnOnce(Option<Entry<'_>>, &mut Reply) -> R,
    ) -> R {
        if let Some(past) = &self.client.snapshot_session {
            let entry = past.entry(key);
            self.changes.count_lookup(entry.is_some());
            return look(entry, self.out);
        }
        let key = self.key_in(db, key);
        let (mut brought_in, mut removed_due) = (false, is_removed);
        loop {
            let tx = self.tx.as_deref_mut().expect("command class has a transaction");
            match tx.find(key) {
                Found::Live(entry) if removed_due || !entry.is_due(self.now_ms) => {
                    if purpose != Purpose::Write {
                        self.changes.count_lookup(true);
                    }
                    let of = (self.server, &*self.client.session, self.now_ms);
                    note_access(of, purpose, &entry);
                    return look(Some(entry), self.out);
                }
                // It is there no more for readers, and goes when the pause is over.
                Found::Live(entry)
                    if purpose != Purpose::Write
                        && entry.meta().is_expired(self.now_ms)
                        && self.server.sessions.are_writes_paused() =>
                {
                    break;
                }
                Found::Live(_) => {
                    self.expire(db, key, Extent::All);
                    removed_due = true;
                }
                Found::Cold if !std::mem::replace(&mut brought_in, true) => bring_in(tx, key),
                Found::Absent | Found::Cold => break,
            }
        }
        match purpose {
            Purpose::Write => {}
            Purpose::Aside => self.changes.count_lookup(false),
            _ => self.count_lookup(db, key.bytes, false),
        }
        look(None, self.out)
    }

    /// Deletes a key, or fields of it, if they have expired, logged as DEL or HDEL (rule X3).
    pub fn delete_due(&mut self, db: usize, key: Key<'_>) {
        self.delete_due_of(db, key, Extent::All);
    }

    pub(super) fn delete_due_of(&mut self, db: usize, key: Key<'_>, extent: Extent<'_>) {
        let now_ms = self.now_ms;
        let is_due = match self.tx().find(key) {
            Found::Live(entry) => entry.is_due(now_ms),
            Found::Absent => false,
            Found::Cold => {
                bring_in(self.tx(), key);
                matches!(self.tx().find(key), Found::Live(entry) if entry.is_due(now_ms))
            }
        };
        if is_due {
            self.expire(db, key, extent);
        }
    }

    /// A key of this command is on a device, where its look-up ends. If the command cannot be restarted, the key is read here.
    /// Otherwise the command ends, and is restarted once `key` and those `behind` it are in memory.
    #[cold]
    pub fn bring_in_or_miss<'k>(&mut self, key: Key<'k>, behind: impl Iterator<Item = Key<'k>>) {
        if !self.client.may_miss {
            return bring_in(self.tx(), key);
        }
        let tx = self.tx();
        let want = |key: Key<'k>| {
            Want::key(OwnedKey { slot: key.slot, bytes: key.bytes.to_vec(), hash: key.hash })
        };
        let behind = behind.filter(|&key| matches!(tx.find(key), Found::Cold)).map(want);
        let wants = std::iter::once(want(key)).chain(behind).collect();
        self.stop(Failed::Away(wants));
    }

    fn expire(&mut self, db: usize, key: Key<'_>, extent: Extent<'_>) {
        let how = (extent, !self.client.may_miss);
        let tx = self.tx.as_deref_mut().expect("command class has a transaction");
        let removed = remove_due(self.server, (tx, self.changes), db, key, self.now_ms, how);
        removed.unwrap_or_else(|failed| self.stop(failed));
    }

    /// Like [`Self::inspect`], but for a key of the client's database that must hold a value of one type or nothing.
    ///
    /// # Errors
    /// WRONGTYPE.
    pub fn lookup<K: Kind, R>(
        &mut self,
        purpose: Purpose,
        key: &[u8],
        look: impl FnOnce(Option<K::View<'_>>, &mut Reply) -> R,
    ) -> Result<R, CommandError> {
        let db = self.client.db;
        self.inspect_whole(purpose, (db, key), &[K::TYPE], |entry, out| {
            Ok(look(expect::<K>(entry)?, out))
        })
    }
}

/// The reply to a read of one string: the value, nothing, or WRONGTYPE.
pub(crate) fn reply_string(ctx: &mut Ctx<'_, '_>, key: &[u8]) -> CommandResult {
    ctx.lookup::<Strings, _>(Purpose::Read, key, |string, out| match string {
        Some(string) => out.bulk(string.bytes()),
        None => out.null(),
    })
}

//! How commands of every type look at their keys: one look-up, expiry, statistics.

use super::{CommandError, CommandResult, Ctx};
use crate::notify::{NotifyClass, notify};
use crate::resp::{Reply, command_bytes};
use crate::value;
use sexton_engine::{Entry, Found, Key};

/// What a look-up is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A read: hits and misses are counted, and the access time is set.
    Read,
    /// A read that leaves the access time alone (TTL, OBJECT, EXISTS).
    Glance,
    /// A look before a write: nothing is counted, the access time is set.
    Write,
}

/// The access clock of an instant: seconds, 24 bits, never 0 (which means: not accessed yet).
#[must_use]
pub(crate) fn access_clock(now_ms: u64) -> u32 {
    ((now_ms / 1000) as u32 & 0xff_ffff).max(1)
}

/// Seconds since the access that the 24-bit field tells; 0 when there was none since the write.
#[must_use]
pub(super) fn idle_seconds(access: u32, now_ms: u64) -> i64 {
    if access == 0 { 0 } else { i64::from(access_clock(now_ms).wrapping_sub(access) & 0xff_ffff) }
}

impl<'e> Ctx<'_, 'e> {
    /// Gives the newest value of a key to `look`, without copying it, together with the reply.
    ///
    /// A value whose time has come is deleted first: one operation, logged as DEL (rule X3).
    pub fn inspect<R>(
        &mut self,
        purpose: Purpose,
        db: usize,
        key: &[u8],
        look: impl FnOnce(Option<Entry<'_>>, &mut Reply) -> R,
    ) -> R {
        let engine = &self.server.engine;
        let key = Key { slot: engine.slot_of(db), bytes: key, hash: engine.hash(key) };
        let tx = self.tx.as_deref_mut().expect("command class has a transaction");
        match tx.find(key) {
            Found::Live(entry) if !entry.meta().is_expired(self.now_ms) => {
                if purpose != Purpose::Write {
                    self.server.stats.count_lookup(true);
                }
                let clock = access_clock(self.now_ms);
                if purpose == Purpose::Glance || entry.access() == clock {
                    return look(Some(entry), self.out);
                }
                // At most once a second a key.
                tx.set_access(key, clock);
                return match tx.find(key) {
                    Found::Live(entry) => look(Some(entry), self.out),
                    _ => unreachable!("found above, under the same latch"),
                };
            }
            Found::Live(_) => {
                tx.delete(key);
                tx.log(db, &command_bytes(&[b"DEL", key.bytes]));
                self.server.stats.count_expired(1);
                self.client.signal_modified(self.server, db, key);
                notify(self.server, NotifyClass::Expired, "expired", key.bytes, db);
            }
            Found::Absent => {}
            Found::Cold => unreachable!("the dispatcher loads keys before a command runs"),
        }
        if purpose != Purpose::Write {
            self.server.stats.count_lookup(false);
        }
        look(None, self.out)
    }

    /// The same for a key of the client's database that must hold a string or nothing.
    pub fn inspect_string<R>(
        &mut self,
        purpose: Purpose,
        key: &[u8],
        look: impl FnOnce(Option<Entry<'_>>, &mut Reply) -> R,
    ) -> Result<R, CommandError> {
        let db = self.client.db;
        self.inspect(purpose, db, key, |entry, out| match entry {
            Some(entry) if !value::is_string(entry.meta().flags) => Err(CommandError::WrongType),
            entry => Ok(look(entry, out)),
        })
    }

    /// Announces an event on a key of the client's database.
    pub fn notify(&self, class: NotifyClass, event: &'static str, key: &[u8]) {
        notify(self.server, class, event, key, self.client.db);
    }
}

/// The reply to a read of one string: the value, nothing, or WRONGTYPE.
pub(super) fn reply_string(ctx: &mut Ctx<'_, '_>, key: &[u8]) -> CommandResult {
    ctx.inspect_string(Purpose::Read, key, |entry, out| match entry {
        Some(entry) => out.bulk(entry.value()),
        None => out.null(),
    })
}

//! What a command sees while it runs.

use super::client::Client;
use super::entry::{bring_in, kept_access};
use super::{Args, CommandError, CommandResult, CommandSpec, OUT_OF_MEMORY, Table};
use crate::client_memory::request_max_bytes;
use crate::events::{Changes, Event};
use crate::keyspace::collection::{Edit, Thresholds};
use crate::keyspace::paged;
use crate::keyspace::pop::Popped;
use crate::resp::Reply;
use crate::server::Server;
use sexton_engine::{Entry, Found, Key, Meta, Tx};
use std::sync::atomic::Ordering;

/// The time at which requests of the log are executed: nothing expires then.
pub(crate) const REPLAY_MS: u64 = 0;

/// Everything a command may use. Replies go to `out`; a command that returns an error has its
/// partial reply dropped by the dispatcher, so it must not have changed anything by then.
pub struct Ctx<'a, 'e> {
    /// Shared state: configuration, statistics, list of clients.
    pub server: &'a Server,
    /// This connection: database, name, protocol, transaction state.
    pub client: &'a mut Client,
    /// The commands of this server.
    pub table: &'static Table,
    /// The request.
    pub args: Args<'a>,
    /// The command's row.
    pub spec: &'static CommandSpec,
    /// Where the reply goes.
    pub out: &'a mut Reply,
    /// The transaction with the latches of the command's keys; `None` for `Class::Local`.
    pub tx: Option<&'a mut Tx<'e>>,
    /// What the transaction has changed.
    pub changes: &'a mut Changes,
    /// Time at which the request is executed, in ms since the epoch: one instant for the request.
    pub now_ms: u64,
}

impl<'e> Ctx<'_, 'e> {
    /// The transaction.
    ///
    /// # Panics
    /// When the command's class has none: a mistake in the command table.
    pub fn tx(&mut self) -> &mut Tx<'e> {
        self.tx.as_deref_mut().expect("command class has a transaction")
    }

    /// Argument `index` as a key of the client's database.
    pub fn key(&self, index: usize) -> Key<'_> {
        self.key_in(self.client.db, self.args.get(index))
    }

    /// `bytes` as a key of database `db`.
    pub fn key_in<'k>(&self, db: usize, bytes: &'k [u8]) -> Key<'k> {
        let engine = &self.server.engine;
        let hash = self.args.hash_of(bytes).unwrap_or_else(|| engine.hash(bytes));
        Key { slot: engine.slot_of(db), bytes, hash }
    }

    /// Longest value that memory allows (N18), in bytes. Replay knows no such bound: what was logged was allowed when it
    /// came.
    pub fn memory_max_bytes(&self) -> u64 {
        if self.now_ms == REPLAY_MS { u64::MAX } else { request_max_bytes(self.server) }
    }

    /// Longest string that a command may make, in bytes: `proto-max-bulk-len`. Replay knows no bound but
    /// the engine's: what was logged was allowed when it came.
    pub fn string_max_bytes(&self) -> u64 {
        if self.now_ms == REPLAY_MS {
            return sexton_engine::VALUE_MAX_BYTES;
        }
        self.server.settings.bulk_max_bytes.load(Ordering::Relaxed)
    }

    /// The value of a key of database `db` for a command that will write it: an expired one is deleted first (rule X3),
    /// no hit or miss is counted.
    pub fn peek(&mut self, db: usize, key: &[u8]) -> Option<Entry<'_>> {
        let now_ms = self.now_ms;
        let key = self.key_in(db, key);
        let tx = self.tx.as_deref_mut().expect("command class has a transaction");
        let is_due = match tx.find(key) {
            Found::Live(entry) => entry.is_due(now_ms),
            Found::Absent => return None,
            Found::Cold => {
                bring_in(tx, key);
                match tx.find(key) {
                    Found::Live(entry) => entry.is_due(now_ms),
                    Found::Absent | Found::Cold => return None,
                }
            }
        };
        if is_due {
            self.delete_due(db, key);
        }
        match self.tx().find(key) {
            Found::Live(entry) => Some(entry),
            _ => None,
        }
    }

    /// Writes `value` under `key`: one operation. Log it with [`Ctx::log_request`] or [`Ctx::log`].
    pub fn put(
        &mut self,
        db: usize,
        key: &[u8],
        meta: Meta,
        value: &[u8],
        event: impl Into<Option<Event>>,
    ) {
        let inline_bytes = self.server.settings.thresholds.inline_bytes();
        let put = |tx: &mut Tx<'_>, key: Key<'_>| paged::put(tx, key, meta, value, inline_bytes);
        self.put_by(db, key, event, put);
    }

    /// As [`Ctx::put`], where `write` writes.
    pub(super) fn put_by(
        &mut self,
        db: usize,
        key: &[u8],
        event: impl Into<Option<Event>>,
        write: impl FnOnce(&mut Tx<'e>, Key<'_>),
    ) {
        let key = self.key_in(db, key);
        let (server, now_ms) = (self.server, self.now_ms);
        let tx = self.tx.as_deref_mut().expect("command class has a transaction");
        let access = kept_access(server, &self.client.session, tx, key, now_ms);
        let is_new =
            server.events.switch.needs_old_values() && matches!(tx.find(key), Found::Absent);
        write(tx, key);
        if is_new {
            self.changes.tell(&server.events, db, key.bytes, Event::NEW);
        }
        if let Some(access) = access {
            self.tx().set_access(key, access);
        }
        self.changes.write(&server.events, db, key.bytes, event.into());
    }

    /// Writes `value` under `key`, whose old value Redis would delete first: it counts as a new key.
    pub fn put_anew(
        &mut self,
        db: usize,
        key: &[u8],
        meta: Meta,
        value: &[u8],
        event: impl Into<Option<Event>>,
    ) {
        self.tell_replaced(db, key);
        self.put(db, key, meta, value, event);
    }

    /// The value of the key, if it has one, gives way to a new one.
    pub fn tell_replaced(&mut self, db: usize, key: &[u8]) {
        if matches!(self.find(db, key), Found::Live(_)) {
            self.changes.tell(&self.server.events, db, key, Event::NEW);
        }
    }

    /// True when a key of the client's database holds a collection in pages that [`Ctx::rename_paged`] can give the key `target`.
    /// What is due of it is gone.
    pub fn can_rename_paged(&mut self, source: &[u8], target: &[u8]) -> bool {
        let db = self.client.db;
        let (from, to) = (self.key_in(db, source), self.key_in(db, target));
        if !self.server.engine.has_pages() || !self.tx().can_rename_paged(from, to) {
            return false;
        }
        self.delete_due(db, from);
        if let Some(paged) = self.paged_now(db, source) {
            self.hand_over_above(paged.descriptor.totals.bytes);
        }
        self.tx().can_rename_paged(from, to)
    }

    /// Gives a collection in pages the key `target`, as [`Ctx::put_anew`] and [`Ctx::delete`] would with its value.
    pub fn rename_paged(&mut self, source: &[u8], target: &[u8], event: Event) {
        let db = self.client.db;
        let from = self.key_in(db, source);
        self.tell_replaced(db, target);
        self.put_by(db, target, None, |tx, to| tx.rename_paged(from, to));
        self.changes.write(&self.server.events, db, source, Some(event));
    }

    /// What a key holds in pages, if that is in memory; nothing is counted.
    pub(super) fn paged_now(&mut self, db: usize, key: &[u8]) -> Option<paged::Paged> {
        let Found::Live(entry) = self.find(db, key) else { return None };
        paged::Paged::of_entry(entry).ok().flatten()
    }

    fn find(&mut self, db: usize, key: &[u8]) -> Found<'_> {
        let key = self.key_in(db, key);
        self.tx.as_deref_mut().expect("command class has a transaction").find(key)
    }

    /// Refuses a collection that is larger than memory allows (N18), or than a value may be. A command that changes several
    /// keys asks for each before it changes the first.
    ///
    /// # Errors
    /// `OOM`.
    pub fn check_size<E: Edit>(&self, edit: &E) -> CommandResult {
        let max_bytes = self.memory_max_bytes().min(sexton_engine::VALUE_MAX_BYTES);
        if edit.bytes().len() as u64 > max_bytes {
            return Err(CommandError::text(OUT_OF_MEMORY));
        }
        Ok(())
    }

    /// Writes a collection of the client's database that was changed, with its expiry (0: none): one operation, told as
    /// `event`. One that has become empty is deleted, told as `del` too. Log it with [`Ctx::log_request`] or [`Ctx::log`].
    ///
    /// # Errors
    /// That of [`check_size`](Self::check_size); nothing is changed then.
    pub fn write_back<E: Edit>(
        &mut self,
        key: &[u8],
        edit: &E,
        expire_at_ms: u64,
        event: Event,
    ) -> CommandResult {
        let db = self.client.db;
        if edit.is_empty() {
            self.tell(key, event);
            self.delete(db, key, Event::generic("del"));
        } else {
            self.check_size(edit)?;
            self.put(db, key, edit.meta(expire_at_ms), edit.bytes(), event);
        }
        Ok(())
    }

    /// Writes what a pop has left under a key of the client's database: one operation. Log it.
    pub fn write_rest(&mut self, key: &[u8], popped: &Popped) {
        let db = self.client.db;
        match popped.rest() {
            Some((meta, value)) => self.put(db, key, meta, value, popped.event()),
            None => {
                self.tell(key, popped.event());
                self.delete(db, key, Event::generic("del"));
            }
        }
    }

    /// The sizes up to which a collection has its compact encoding.
    #[must_use]
    pub fn thresholds(&self) -> Thresholds {
        self.server.settings.thresholds.now()
    }

    /// Changes flags or expiry of `key`, which must have a value: one operation.
    pub fn set_meta(&mut self, db: usize, key: &[u8], meta: Meta, event: Event) {
        let key = self.key_in(db, key);
        self.tx().set_meta(key, meta);
        self.changes.write(&self.server.events, db, key.bytes, Some(event));
    }

    /// Deletes `key`: one operation, or none (and false) when it is absent.
    pub fn delete(&mut self, db: usize, key: &[u8], event: Event) -> bool {
        let key = self.key_in(db, key);
        let was = self.tx().delete(key);
        if was {
            self.changes.write(&self.server.events, db, key.bytes, Some(event));
        }
        was
    }

    /// Tells of an event that changes nothing, or of one more for the last change of a key of the client's database.
    pub fn tell(&mut self, key: &[u8], event: Event) {
        self.changes.tell(&self.server.events, self.client.db, key, event);
    }

    /// Logs the request as it came. Right only for commands whose replay on the same state gives the
    /// same operations: no relative time, no randomness.
    pub fn log_request(&mut self) {
        let db = self.client.db;
        self.changes.note_logged();
        let (spec, args) = (self.spec, self.args);
        let tx = self.tx();
        if spec.is_renamed() {
            let mut words: Vec<&[u8]> = args.from(0).collect();
            words[0] = spec.name.as_bytes();
            tx.log_command(db, words.into_iter());
        } else if let Some(request) = args.as_logged().filter(|_| !tx.is_prepared()) {
            tx.log(db, request);
        } else {
            tx.log_command(db, args.from(0));
        }
    }

    /// Logs another command instead of the request: its outcome.
    pub fn log(&mut self, db: usize, args: &[&[u8]]) {
        self.changes.note_logged();
        self.tx().log_command(db, args.iter().copied());
    }

    /// Argument `index` as a signed 64-bit integer, with Redis' strictness (no sign `+`, no blanks).
    pub fn int_arg(&self, index: usize) -> Result<i64, CommandError> {
        crate::number::parse_i64(self.args.get(index)).ok_or(CommandError::NotInteger)
    }
}

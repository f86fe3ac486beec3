//! Transactions: reads and writes under the latches of their keys.
//!
//! Writes change the DRAM table at once and are staged for the commit, which takes all sequences
//! and copies the log bytes in one critical section, fills the arena, and opens or closes graves
//! (engine/DESIGN.md, "A write"). The latches are released last: that is the publication (I2).

mod begin;
mod buf;
mod changes;
mod commit;
mod copied;
mod databases;
mod deletion;
mod edits;
pub(super) mod filler;
mod found;
mod guards;
mod held_page;
mod held_value;
mod in_place;
mod journal;
mod left_root;
mod look_ahead;
mod new_pages;
mod owned_key;
mod paged;
mod pages;
mod pooled;
mod prepared;
mod rename;
mod seen;

pub use buf::TxBuf;
pub use commit::Commit;
pub use deletion::Deletion;
pub use found::{Entry, Found};
pub use held_page::HeldPage;
pub use held_value::HeldValue;
pub use look_ahead::{AskedPage, LookAhead, PageOf};
pub use new_pages::NewPages;
pub use owned_key::OwnedKey;
pub use paged::FoundPage;
pub use pages::TxPages;
pub use prepared::Prepared;

use self::buf::{LocatedKey, Operation, Staged};
use self::guards::Guards;
pub use self::guards::Latched;
use super::engine::{Engine, EngineError};
use super::namespace::{self, HEAD_BYTES};
use super::read::cold;
use super::shard::{SHARDS, ShardState, Unresolved};
use crate::dram::{Located, Replaced, Upsert};
use crate::key::{Key, Meta, Seq};
use crate::page::Descriptor;
use crate::shared_value::{OwnBlock, Value};
use sexton_persistence::aof::write_command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long a latch is waited for between two looks at whether it is held for long.
const OCCUPIED_LOOK: Duration = Duration::from_millis(1);

/// A group of reads and writes under the latches of its keys. Its writes are seen by its own reads
/// at once, by everybody else when the latches go, and by a crash all or not at all.
///
/// Dropped with writes in it that are not committed, it takes all of them back. Only where a part had its sequences
/// already (an operation on a whole database, or a look at one, came behind writes) that cannot be done: the
/// store is poisoned then, see [`Tx::is_part_committed`].
pub struct Tx<'e> {
    pub(super) engine: &'e Engine,
    guards: Guards<'e>,
    buf: &'e mut TxBuf,
    operations: u32,
    first_seq: Option<Seq>,
    /// The sequence behind the last one taken.
    end_seq: Seq,
    /// The pool has a part of this commit that says that more follows.
    unclosed: bool,
    generation: u8,
    all: bool,
    /// Memory of the latched shards may have grown or shrunk.
    moved: bool,
    pub(super) committed: bool,
    /// What of its request was copied before the latches were taken.
    prepared: Option<&'e Prepared<'e>>,
}

impl<'e> Tx<'e> {
    pub(super) fn begin(engine: &'e Engine, latched: Latched<'_>, buf: &'e mut TxBuf) -> Self {
        let shards = &engine.inner().shards;
        let guards = Guards::take(latched, &mut buf.shards, |shard| Some(shards[shard].latch()));
        let guards = guards.expect("it waits as long as it takes");
        Self::with_guards(engine, guards, matches!(latched, Latched::All), buf)
    }

    /// As [`Tx::begin`], but `None` where a latch is held and `occupied` says that it will be for long: a bit a shard.
    #[inline]
    pub(super) fn begin_unless(
        engine: &'e Engine,
        latched: Latched<'_>,
        occupied: &AtomicU64,
        buf: &'e mut TxBuf,
    ) -> Option<Self> {
        let shards = &engine.inner().shards;
        // In slices, between which the bits are looked at again: whoever holds the latch may have become slow.
        let lock = |shard: usize| loop {
            if let Some(guard) = shards[shard].latch_within(OCCUPIED_LOOK) {
                break Some(guard);
            }
            if occupied.load(Ordering::Relaxed) >> shard & 1 == 1 {
                break None;
            }
        };
        let guards = Guards::take(latched, &mut buf.shards, lock)?;
        Some(Self::with_guards(engine, guards, matches!(latched, Latched::All), buf))
    }

    /// True when the transaction has the latch of keys with this hash.
    #[must_use]
    pub fn holds(&self, hash: u64) -> bool {
        self.guards.holds(hash)
    }

    /// True when it has all latches.
    #[must_use]
    pub fn holds_all(&self) -> bool {
        self.all
    }

    /// With the latches of every `parts`th shard from number `part` on: the work of recovery, shared out.
    pub(super) fn begin_part(
        engine: &'e Engine,
        (part, parts): (usize, usize),
        buf: &'e mut TxBuf,
    ) -> Self {
        let lock = |shard: usize| Some(engine.inner().shards[shard].latch());
        let guards = Guards::take_each((part..SHARDS).step_by(parts), lock);
        Self::with_guards(engine, guards.expect("it waits as long as it takes"), false, buf)
    }

    #[inline]
    fn with_guards(engine: &'e Engine, guards: Guards<'e>, all: bool, buf: &'e mut TxBuf) -> Self {
        debug_assert!(buf.is_clean(), "what a transaction leaves in its buffers goes with it");
        if let Some(located) = &mut buf.located {
            located.end();
        }
        let generation = engine.inner().flusher.active_generation();
        Self {
            engine,
            guards,
            buf,
            operations: 0,
            first_seq: None,
            end_seq: 0,
            unclosed: false,
            generation,
            all,
            moved: false,
            committed: false,
            prepared: None,
        }
    }

    /// The state guarded by the latch of this hash, to be changed: the memory bound is checked when the transaction ends.
    #[inline]
    pub(super) fn shard(&mut self, hash: u64) -> &mut ShardState {
        self.moved = true;
        self.guards.shard(hash)
    }

    /// Like `shard`, for changes that neither take nor free memory that has a bound.
    #[inline]
    pub(super) fn latched(&mut self, hash: u64) -> &mut ShardState {
        self.guards.shard(hash)
    }

    /// The engine this transaction runs on.
    #[must_use]
    pub fn engine(&self) -> &'e Engine {
        self.engine
    }

    /// Newest state of a key, this transaction's writes included.
    #[inline]
    pub fn find(&mut self, key: Key<'_>) -> Found<'_> {
        let at = self.locate(key);
        self.found(key, at)
    }

    /// The same for a command that asks for its key only once: where it is is not noted.
    #[inline]
    pub fn find_once(&mut self, key: Key<'_>) -> Found<'_> {
        let at = self.guards.shard(key.hash).table.locate(key);
        self.found(key, at)
    }

    /// True if only a device can tell the value of a key: that [`Tx::find`] would find it cold. A key in memory is no hit by this.
    #[inline]
    pub fn is_cold(&mut self, key: Key<'_>) -> bool {
        self.locate(key).is_none() && matches!(self.found(key, None), Found::Cold)
    }

    /// The state of a key that is at this place of its table, or not in it.
    #[inline]
    fn found(&mut self, key: Key<'_>, at: Option<Located>) -> Found<'_> {
        let engine = self.engine;
        if let Some(at) = at {
            let shard = self.guards.shard(key.hash);
            // What a miss has brought is that miss.
            shard.reads.hits += u64::from(shard.loads.is_empty() || !shard.loads.has_filled(key));
            return Found::Live(Entry::in_table(self.guards.shard(key.hash).table.entry(at)));
        }
        if self.has_deleted(key) {
            return Found::Absent;
        }
        let shard = self.guards.shard(key.hash);
        match engine.look_beyond_table(shard, key) {
            cold::Beyond::Filled => self.moved = true,
            cold::Beyond::Absent => return Found::Absent,
            cold::Beyond::Cold => return Found::Cold,
        }
        let located = shard.table.locate(key);
        located.map_or(Found::Absent, |at| Found::Live(Entry::in_table(shard.table.entry(at))))
    }

    /// Where a key is in its table. A command asks for its key several times, and so does the next one on the same collection.
    #[inline]
    fn locate(&mut self, key: Key<'_>) -> Option<Located> {
        let table = &self.guards.shard(key.hash).table;
        if let Some(known) = &self.buf.located
            && known.is_of(key)
            && table.stands(known.at)
        {
            debug_assert!(table.find_at(known.at, key.slot, key.bytes).is_some());
            return Some(known.at);
        }
        self.locate_anew(key)
    }

    /// The same for a key that this transaction has not found last.
    #[inline(never)]
    fn locate_anew(&mut self, key: Key<'_>) -> Option<Located> {
        let table = &self.guards.shard(key.hash).table;
        let at = match &self.buf.located {
            Some(known)
                if known.hash == key.hash
                    && table.find_at(known.at, key.slot, key.bytes).is_some() =>
            {
                table.found_again(known.at)
            }
            _ => table.locate(key)?,
        };
        self.buf.located = Some(LocatedKey::new(key, at));
        self.buf.left = None;
        Some(at)
    }

    /// The next command is on the key of the one before, whose bytes are elsewhere: it is known where that is.
    ///
    /// The key that was found last must be this one, or have another hash. True if it was found: it is not cold.
    #[inline]
    pub fn stays_with(&mut self, key: Key<'_>) -> bool {
        self.buf.located.as_mut().is_some_and(|known| known.is_also(key))
    }

    /// Where this transaction has found a key.
    #[inline]
    fn seen(&self, key: Key<'_>) -> Option<Located> {
        self.buf.located.as_ref().filter(|known| known.is_of(key)).map(|known| known.at)
    }

    /// True when this transaction has deleted the key and not written it since.
    fn has_deleted(&mut self, key: Key<'_>) -> bool {
        if self.buf.deletes == 0 {
            return false;
        }
        let head = namespace::head(self.engine.inner().namespaces.id_of(key.slot));
        self.buf.is_deleted(key.hash, &head, key.bytes)
    }

    /// Brings a cold key into memory where it is, while the latch is held: the last resort where nobody has
    /// loaded it, since N10 wants no reads from devices under a latch. False when it has no value.
    ///
    /// # Errors
    /// A failed read or a damaged table: nothing can be said about the key.
    pub fn bring_in(&mut self, key: Key<'_>) -> Result<bool, EngineError> {
        match self.find(key) {
            Found::Live(_) => return Ok(true),
            Found::Absent => return Ok(false),
            Found::Cold => {}
        }
        let (engine, head) = (self.engine, namespace::head(self.namespace_of(key)));
        let found = engine.read_newest(&[&head, key.bytes].concat(), Seq::MAX)?;
        let Some(newest) = found else { return Ok(false) };
        engine.fill(self.shard(key.hash), key, newest.meta, &newest.value);
        Ok(true)
    }

    fn namespace_of(&self, key: Key<'_>) -> u64 {
        self.engine.inner().namespaces.id_of(key.slot)
    }

    /// Sets the 24-bit access field of an entry in memory.
    pub fn set_access(&mut self, key: Key<'_>, access: u32) {
        self.guards.shard(key.hash).table.set_access(key, access);
    }

    /// Writes a value: one operation. A cold key may be overwritten without loading it. The pages of a collection that it replaces go.
    pub fn put(&mut self, key: Key<'_>, meta: Meta, value: &[u8]) {
        self.bury_replaced(key, None);
        self.put_root(key, meta, value);
    }

    fn put_root(&mut self, key: Key<'_>, meta: Meta, value: &[u8]) {
        let inner = self.engine.inner();
        let access = inner.write.access_now();
        let namespace = inner.namespaces.id_of(key.slot);
        let meta = Meta { flags: meta.flags & Meta::FLAGS_MASK, ..meta };
        // The pool has a record and a sequence for each put.
        if inner.write.wbl.get().is_none()
            && self.buf.merge_put(key.hash, (&namespace::head(namespace), key.bytes), meta, value)
        {
            let unresolved = self.apply_put(key, meta, Value::Copied(value), access);
            debug_assert!(unresolved.is_none(), "what was put before is in memory");
            self.operations += 1;
            return;
        }
        self.upsert_noted(key, meta, Value::Copied(value), access);
        let staged = self.buf.stage_value((&namespace::head(namespace), key.bytes), meta, value);
        self.push_put(key.hash, staged);
    }

    /// The part of a put that is seen at once; the journal keeps what was there.
    fn upsert_noted(&mut self, key: Key<'_>, meta: Meta, value: Value<'_>, access: u32) {
        let seen = self.seen(key);
        let (shard, journal) = (self.guards.shard(key.hash), &mut self.buf.journal);
        let count = *shard.count_mut(key.slot);
        let written = (self.generation, access);
        let upsert = shard.table.upsert_keeping((key, seen), meta, value, written, |replaced| {
            journal.note(key.slot, count, replaced);
        });
        self.moved |= upsert.moved;
        if let Some(item) = self.count_put(key, meta, upsert) {
            let nth = self.buf.operations.len() - self.buf.sharing;
            self.buf.unresolved.push((nth, item));
        }
        let overtaken = self.guards.shard(key.hash).loads.overtake(key);
        self.buf.journal.note_overtaken(overtaken);
    }

    /// The part of a put that is seen at once: the DRAM table and the counts. Answers what has to be
    /// settled later, where only the filters know whether the key had a value (N9).
    pub(super) fn apply_put(
        &mut self,
        key: Key<'_>,
        meta: Meta,
        value: Value<'_>,
        access: u32,
    ) -> Option<Unresolved> {
        let generation = self.generation;
        let shard = self.guards.shard(key.hash);
        let upsert = shard.table.upsert_value(key, meta, value, generation, access);
        shard.loads.overtake(key);
        self.moved |= upsert.moved;
        self.count_put(key, meta, upsert)
    }

    /// The counts after a put that found what `upsert` says. Answers what has to be settled later.
    #[inline]
    fn count_put(&mut self, key: Key<'_>, meta: Meta, upsert: Upsert) -> Option<Unresolved> {
        if !upsert.existed {
            return self.count_put_of_unknown(key, meta);
        }
        self.count_expires(key, upsert.was_expiring, meta.expire_at_ms != 0);
        None
    }

    #[inline]
    fn count_expires(&mut self, key: Key<'_>, before: bool, now: bool) {
        if before != now {
            let count = self.guards.shard(key.hash).count_mut(key.slot);
            count.expires += i64::from(now) - i64::from(before);
        }
    }

    /// Counts a put whose key was not in the DRAM table.
    fn count_put_of_unknown(&mut self, key: Key<'_>, meta: Meta) -> Option<Unresolved> {
        let engine = self.engine;
        let beyond = if self.has_deleted(key) {
            cold::Existence::No
        } else {
            engine.existence_beyond_table(self.shard(key.hash), key)
        };
        let expired_before = matches!(beyond, cold::Existence::Yes(meta) if meta.expire_at_ms != 0);
        if !matches!(beyond, cold::Existence::Yes(_)) {
            self.shard(key.hash).count_mut(key.slot).keys += 1;
        }
        self.count_expires(key, expired_before, meta.expire_at_ms != 0);
        matches!(beyond, cold::Existence::Maybe).then(|| Unresolved {
            slot: key.slot,
            namespace: engine.inner().namespaces.id_of(key.slot),
            hash: key.hash,
            key: key.bytes.into(),
            seq: 0,
        })
    }

    /// The put of a key is staged.
    fn push_put(&mut self, hash: u64, staged: Staged) {
        self.buf.operations.push(Operation { hash, staged, shares_seq: false });
        self.operations += 1;
    }

    /// Changes flags or expiry and keeps the value: one operation. The key must be `Live`. What is in pages keeps its flags, too.
    pub fn set_meta(&mut self, key: Key<'_>, meta: Meta) {
        let (engine, generation) = (self.engine, self.generation);
        let namespace = engine.inner().namespaces.id_of(key.slot);
        self.moved = true;
        let Some(at) = self.locate(key) else { return };
        let entry = self.guards.shard(key.hash).table.entry(at);
        let flags = if entry.meta().is_paged() { entry.meta().flags } else { meta.flags };
        let meta = Meta { flags: flags & Meta::FLAGS_MASK, ..meta };
        let (access, shared, len) = (entry.access(), entry.shared(), entry.value().len());
        if shared.is_none()
            && let Some(epoch) = self.epoch_of_edits(meta, len)
        {
            // Flags and expiry of a long value that change often take a short record each.
            let value = self.guards.shard(key.hash).table.entry(at).value();
            let block = OwnBlock::snug(value, epoch);
            return self.put_block(key, meta, block, access);
        }
        let (shard, buf) = (self.guards.shard(key.hash), &mut *self.buf);
        let count = *shard.count_mut(key.slot);
        let entry = shard.table.entry(at);
        buf.journal.note_meta(key.slot, count, entry.meta(), entry.generation());
        let expires = i64::from(meta.expire_at_ms != 0) - i64::from(entry.meta().expire_at_ms != 0);
        let name = (&namespace::head(namespace), key.bytes);
        let staged = match shared {
            // The newest record must refer to the block: it may change until its epoch ends. Its first one is in this memtable (E3).
            Some(value) if value.is_of(engine.epoch()) => buf.stage_again(name, meta, value),
            Some(value) => buf.stage_shared(name, meta, value),
            None => buf.stage_value(name, meta, entry.value()),
        };
        shard.table.set_meta((key, Some(at)), meta, generation);
        shard.count_mut(key.slot).expires += expires;
        buf.journal.note_overtaken(shard.loads.overtake(key));
        self.push_put(key.hash, staged);
    }

    /// Deletes a key (rule X1): false, and nothing written, when it has no value. One operation
    /// otherwise. The key must not be `Cold`. The pages of a collection go with it.
    pub fn delete(&mut self, key: Key<'_>) -> bool {
        self.delete_if(key, |_| true) == Deletion::Done
    }

    /// Like [`Tx::delete`], for a value that is `wanted` and a key that may be `Cold`: in one look-up.
    pub fn delete_if(&mut self, key: Key<'_>, wanted: impl FnOnce(&Entry<'_>) -> bool) -> Deletion {
        let engine = self.engine;
        let shard = self.shard(key.hash);
        let at = match shard.table.locate_to_remove(key) {
            Some(at) => {
                // What a miss has brought is that miss.
                shard.reads.hits +=
                    u64::from(shard.loads.is_empty() || !shard.loads.has_filled(key));
                Some(at)
            }
            None if self.has_deleted(key) => None,
            None => {
                let shard = self.shard(key.hash);
                match engine.look_beyond_table(shard, key) {
                    // It came into the table out of a sorted memtable.
                    cold::Beyond::Filled => shard.table.locate_to_remove(key),
                    cold::Beyond::Absent => None,
                    cold::Beyond::Cold => return Deletion::Cold,
                }
            }
        };
        let Some(at) = at else { return Deletion::Absent };
        let entry = Entry::in_table(self.shard(key.hash).table.entry(at));
        if !wanted(&entry) {
            return Deletion::Kept;
        }
        let paged = entry.meta().is_paged().then(|| Descriptor::named_by(entry.value())).flatten();
        if let Some(named) = paged.filter(|_| self.buries_pages()) {
            self.bury(key, named);
        }
        self.remove_root(key, at);
        Deletion::Done
    }

    /// Deletes the key whose entry is there, and of a collection nothing but the root: one operation.
    fn remove_root(&mut self, key: Key<'_>, at: Located) {
        let engine = self.engine;
        let namespace = engine.inner().namespaces.id_of(key.slot);
        let (shard, journal) = (self.guards.shard(key.hash), &mut self.buf.journal);
        let before = *shard.count_mut(key.slot);
        let note = |replaced: Replaced<'_>| journal.note(key.slot, before, replaced);
        let removed = shard.table.remove_located(key.hash, at, note);
        let count = shard.count_mut(key.slot);
        count.keys -= 1;
        count.expires -= i64::from(removed.had_expiry);
        journal.note_overtaken(shard.loads.overtake(key));
        self.buf.deletes += 1;
        let parts = (&namespace::head(namespace), key.bytes);
        let (at, record_len) = engine.inner().dead_keys.stage(&mut self.buf.records, parts);
        let (len, had_expiry) = (HEAD_BYTES + key.bytes.len(), removed.had_expiry);
        let staged = Staged::Delete { at, len, record_len, had_expiry };
        self.buf.operations.push(Operation { hash: key.hash, staged, shares_seq: false });
        self.operations += 1;
    }

    /// Appends the RESP form of what was done, as it must be replayed: outcomes, absolute times.
    /// A replay of the log bytes must produce exactly this transaction's operations, in order.
    pub fn log(&mut self, db: usize, resp: &[u8]) {
        self.log_form(db).extend_from_slice(resp);
    }

    /// Where the RESP form of a command of this database is to be appended, as [`Tx::log`] says.
    pub fn log_form(&mut self, db: usize) -> &mut Vec<u8> {
        let db = db as u32;
        match self.buf.log_dbs {
            None => self.buf.log_dbs = Some((db, db)),
            Some((_, last)) if last == db => {}
            Some((first, _)) => {
                self.log_select(db);
                self.buf.log_dbs = Some((first, db));
            }
        }
        &mut self.buf.log
    }

    /// What was logged so far, in bytes.
    #[must_use]
    pub fn log_bytes(&self) -> usize {
        self.buf.log.len() + self.prepared.map_or(0, |prepared| prepared.gap_bytes())
    }

    /// Puts all that was logged between these two commands.
    pub fn enclose_log(&mut self, before: &[u8], behind: &[u8]) {
        self.buf.log.splice(0..0, before.iter().copied());
        if let Some(prepared) = self.prepared {
            prepared.move_gap(before.len());
        }
        self.buf.log.extend_from_slice(behind);
    }

    fn log_select(&mut self, db: u32) {
        let number = db.to_string();
        write_command(&mut self.buf.log, [b"SELECT", number.as_bytes()].into_iter());
    }

    /// Number of operations so far.
    #[must_use]
    pub fn operations(&self) -> u32 {
        self.operations
    }

    /// Brings the latched shards back below the memory bound. Only at the end: what a command has
    /// found in memory stays there until the command, or all of EXEC, has run.
    fn evict_excess(&mut self) {
        let engine = self.engine;
        self.guards.for_each(|shard| engine.keep_within_bound(shard));
    }

    /// What is not committed goes, with all that was staged.
    #[cold]
    fn give_up(&mut self) {
        let staged = self.buf.operations.len();
        let upkeep = &self.engine.inner().upkeep;
        if self.is_part_committed() && self.operations > 0 {
            upkeep.poison("a transaction was dropped with a part of it committed");
        } else if !self.buf.journal.is_whole(staged) {
            upkeep.poison("a write was dropped half-way");
        } else if staged > 0 {
            self.take_back();
        }
    }
}

impl Drop for Tx<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.committed && (self.operations > 0 || !self.buf.is_clean()) {
            self.give_up();
        }
        if !self.buf.is_clean() {
            self.buf.reset();
        }
        self.buf.give_back();
        if self.moved {
            self.evict_excess();
        }
    }
}

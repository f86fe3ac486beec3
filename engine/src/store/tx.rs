//! Transactions: reads and writes under the latches of their keys.
//!
//! Writes go to the DRAM table at once and are staged for the commit, which takes all sequences
//! and copies the log bytes in one critical section, fills the arena, and opens or closes graves
//! (engine/DESIGN.md, "A write"). The latches go last: that is the publication (I2).

use super::cold;
use super::engine::{Engine, EngineError};
use super::namespace::{self, HEAD_BYTES};
use super::scan::{LatchedGraves, ScanItem, ScanRange};
use super::shard::{Count, SHARDS, ShardState, Unresolved, shard_of};
use crate::dram::EntryRef;
use crate::key::{Key, Meta, Seq, Slot};
use crate::memtable::{self, Memtable, Room};
use crate::tree::Graves;
use parking_lot::MutexGuard;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A value as a command looks at it: an entry found in memory, valid while its latch is held, or what a
/// snapshot saw.
#[derive(Clone, Copy)]
pub struct Entry<'a>(EntryOf<'a>);

#[derive(Clone, Copy)]
enum EntryOf<'a> {
    Table(EntryRef<'a>),
    Past { meta: Meta, value: &'a [u8] },
}

impl<'a> Entry<'a> {
    fn in_table(entry: EntryRef<'a>) -> Self {
        Self(EntryOf::Table(entry))
    }

    pub(super) fn past(meta: Meta, value: &'a [u8]) -> Self {
        Self(EntryOf::Past { meta, value })
    }

    /// Flags and expiry.
    #[must_use]
    pub fn meta(&self) -> Meta {
        match self.0 {
            EntryOf::Table(entry) => entry.meta(),
            EntryOf::Past { meta, .. } => meta,
        }
    }

    /// The value's bytes.
    #[must_use]
    pub fn value(&self) -> &'a [u8] {
        match self.0 {
            EntryOf::Table(entry) => entry.value(),
            EntryOf::Past { value, .. } => value,
        }
    }

    /// The 24-bit access field, whose meaning is the caller's (LRU seconds, LFU counter); 0 in the past.
    #[must_use]
    pub fn access(&self) -> u32 {
        match self.0 {
            EntryOf::Table(entry) => entry.access(),
            EntryOf::Past { .. } => 0,
        }
    }
}

/// Answer of a look-up under the latch. Expiry is not looked at: an expired entry is `Live`.
#[derive(Clone, Copy)]
pub enum Found<'a> {
    /// The key has a value, and it is in memory.
    Live(Entry<'a>),
    /// The key has no value.
    Absent,
    /// The key may have a value on a device: [`Engine::load`] it, then look again.
    Cold,
}

/// Which latches a transaction holds.
#[derive(Clone, Copy, Debug)]
pub enum Latched<'a> {
    /// The shards of these hashes (any order, repeats allowed); taken in ascending order.
    Hashes(&'a [u64]),
    /// Every shard: FLUSHALL, SWAPDB, EXEC with key-space commands, a consistent view.
    All,
}

/// What a commit did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Commit {
    /// Sequence of the last operation; 0 when nothing was written.
    pub last_seq: Seq,
    /// Number of operations.
    pub operations: u32,
}

enum Staged {
    /// `len` bytes of `TxBuf::records` from `at`: a record without its sequence.
    Put { at: usize, len: usize, key_len: usize },
    /// Engine key of `len` bytes in `TxBuf::records` from `at`.
    Delete { at: usize, len: usize },
    /// As `Put`, of a record that says that the key is dead (`deletes = tombstones`).
    Tombstone { at: usize, len: usize, key_len: usize },
}

impl Staged {
    /// Where the record to be copied into the arena lies; empty for a grave.
    fn record(&self) -> std::ops::Range<usize> {
        match *self {
            Self::Put { at, len, .. } | Self::Tombstone { at, len, .. } => at..at + len,
            Self::Delete { at, .. } => at..at,
        }
    }
}

struct Operation {
    hash: u64,
    staged: Staged,
}

/// Reusable buffers of a transaction, one a worker thread.
#[derive(Default)]
pub struct TxBuf {
    records: Vec<u8>,
    operations: Vec<Operation>,
    /// Height of each operation's node, with `memtable = skiplist`.
    heights: Vec<usize>,
    /// Hash of a key -> its last operation among the first `indexed` ones; filled when a read misses.
    last_operation: HashMap<u64, usize>,
    indexed: usize,
    deletes: usize,
    unresolved: Vec<(usize, Unresolved)>,
    log: Vec<u8>,
    /// Database of the first logged command, and the one selected at the end of `log`.
    log_dbs: Option<(u32, u32)>,
    shards: Vec<usize>,
}

/// Buffers above this are given back after a transaction with large values.
const BUF_KEEP_BYTES: usize = 1 << 20;

impl TxBuf {
    fn reset(&mut self) {
        self.records.clear();
        self.forget_operations();
        self.unresolved.clear();
        self.log.clear();
        self.log_dbs = None;
        for buf in [&mut self.records, &mut self.log] {
            if buf.capacity() > BUF_KEEP_BYTES {
                *buf = Vec::new();
            }
        }
    }

    fn forget_operations(&mut self) {
        self.operations.clear();
        self.last_operation.clear();
        self.indexed = 0;
        self.deletes = 0;
    }

    /// Chooses the heights of the staged records' nodes; answers their sum.
    fn choose_heights(&mut self) -> usize {
        self.heights.clear();
        let height = |op: &Operation| {
            if op.staged.record().is_empty() { 0 } else { memtable::random_height() }
        };
        self.heights.extend(self.operations.iter().map(height));
        self.heights.iter().sum()
    }

    /// True when the last staged operation on this engine key is a delete. Its grave opens with the
    /// commit only, so until then neither cemetery nor tree know that the key is dead.
    fn is_deleted(&mut self, hash: u64, head: &[u8], key: &[u8]) -> bool {
        for (i, operation) in self.operations.iter().enumerate().skip(self.indexed) {
            self.last_operation.insert(operation.hash, i);
        }
        self.indexed = self.operations.len();
        let Some(&last) = self.last_operation.get(&hash) else { return false };
        // Going back from the last one with this hash is needed only for keys that share it.
        self.operations[..=last]
            .iter()
            .rev()
            .filter(|operation| operation.hash == hash)
            .find_map(|operation| {
                let (staged, is_delete) = match operation.staged {
                    Staged::Delete { at, len } => (&self.records[at..at + len], true),
                    Staged::Put { at, len, key_len } => {
                        (&self.records[at..at + len][memtable::HEADER_BYTES..][..key_len], false)
                    }
                    Staged::Tombstone { at, len, key_len } => {
                        (&self.records[at..at + len][memtable::HEADER_BYTES..][..key_len], true)
                    }
                };
                (staged.strip_prefix(head) == Some(key)).then_some(is_delete)
            })
            .unwrap_or(false)
    }
}

/// Puts staged records into the active memtable.
enum Filler<'h> {
    /// They follow each other in the arena.
    Plain,
    /// The same, and each is linked into the skip list; with the heights of the operations.
    Linked(Arc<Memtable>, &'h [usize]),
}

impl<'h> Filler<'h> {
    /// For records whose room was reserved, under latches that have not gone since: so the active
    /// memtable is the one they belong to.
    fn new(engine: &Engine, heights: &'h [usize]) -> Self {
        let inner = engine.inner();
        if !inner.has_skip_lists() {
            return Self::Plain;
        }
        Self::Linked(Arc::clone(&inner.superversion.load().active), heights)
    }

    #[inline]
    fn fill(&self, room: &mut Room, record: &[u8], operation: usize) {
        match self {
            Self::Plain => room.split_to(record.len()).bytes().copy_from_slice(record),
            Self::Linked(memtable, heights) => {
                let height = heights[operation];
                let node = room.split_to(record.len() + height * memtable::LINK_BYTES);
                memtable.link(node, record, height);
            }
        }
    }
}

enum Guards<'e> {
    None,
    One(usize, MutexGuard<'e, ShardState>),
    Many(Vec<(usize, MutexGuard<'e, ShardState>)>),
}

/// A group of reads and writes under the latches of its keys. Its writes are seen by its own reads
/// at once, by everybody else when the latches go, and by a crash all or not at all.
///
/// A transaction that staged writes must be committed; dropping it poisons the store, because the
/// DRAM table then holds what neither log nor memtable know.
pub struct Tx<'e> {
    pub(super) engine: &'e Engine,
    guards: Guards<'e>,
    buf: &'e mut TxBuf,
    operations: u32,
    first_seq: Option<Seq>,
    generation: u8,
    all: bool,
    pub(super) committed: bool,
}

impl<'e> Tx<'e> {
    pub(super) fn begin(engine: &'e Engine, latched: Latched<'_>, buf: &'e mut TxBuf) -> Self {
        buf.reset();
        let shards = &engine.inner().shards;
        let (guards, all) = match latched {
            Latched::Hashes([]) => (Guards::None, false),
            Latched::Hashes(&[hash]) => {
                let shard = shard_of(hash);
                (Guards::One(shard, shards[shard].state.lock()), false)
            }
            Latched::Hashes(hashes) => {
                buf.shards.clear();
                buf.shards.extend(hashes.iter().map(|&hash| shard_of(hash)));
                buf.shards.sort_unstable();
                buf.shards.dedup();
                let lock = |&shard: &usize| (shard, shards[shard].state.lock());
                (Guards::Many(buf.shards.iter().map(lock).collect()), false)
            }
            Latched::All => {
                let lock = |shard: usize| (shard, shards[shard].state.lock());
                (Guards::Many((0..SHARDS).map(lock).collect()), true)
            }
        };
        let generation = engine.inner().active_generation();
        Self {
            engine,
            guards,
            buf,
            operations: 0,
            first_seq: None,
            generation,
            all,
            committed: false,
        }
    }

    #[inline]
    pub(super) fn shard(&mut self, hash: u64) -> &mut ShardState {
        let shard = shard_of(hash);
        match &mut self.guards {
            Guards::One(held, guard) if *held == shard => guard,
            Guards::Many(guards) => {
                let at = guards.binary_search_by_key(&shard, |g| g.0);
                &mut guards[at.expect("key of a latched shard")].1
            }
            _ => panic!("key of a shard that is not latched"),
        }
    }

    /// The engine this transaction runs on.
    #[must_use]
    pub fn engine(&self) -> &'e Engine {
        self.engine
    }

    /// Newest state of a key, this transaction's writes included.
    #[inline]
    pub fn find(&mut self, key: Key<'_>) -> Found<'_> {
        let engine = self.engine;
        if let Some(at) = self.shard(key.hash).table.locate(key) {
            return Found::Live(Entry::in_table(self.shard(key.hash).table.entry(at)));
        }
        if self.has_deleted(key) {
            return Found::Absent;
        }
        let shard = self.shard(key.hash);
        match engine.look_beyond_table(shard, key) {
            cold::Beyond::Filled => {}
            cold::Beyond::Absent => return Found::Absent,
            cold::Beyond::Cold => return Found::Cold,
        }
        let located = shard.table.locate(key);
        located.map_or(Found::Absent, |at| Found::Live(Entry::in_table(shard.table.entry(at))))
    }

    /// True when this transaction has deleted the key and not written it since.
    fn has_deleted(&mut self, key: Key<'_>) -> bool {
        if self.buf.deletes == 0 {
            return false;
        }
        let head = namespace::head(self.engine.inner().namespaces.id_of(key.slot));
        self.buf.is_deleted(key.hash, &head, key.bytes)
    }

    /// Sets the 24-bit access field of an entry in memory.
    pub fn set_access(&mut self, key: Key<'_>, access: u32) {
        self.shard(key.hash).table.set_access(key, access);
    }

    /// Writes a value: one operation. A cold key may be overwritten without loading it.
    pub fn put(&mut self, key: Key<'_>, meta: Meta, value: &[u8]) {
        let access = self.engine.inner().access_now();
        if let Some(item) = self.apply_put(key, meta, value, access) {
            self.buf.unresolved.push((self.buf.operations.len(), item));
        }
        let namespace = self.engine.inner().namespaces.id_of(key.slot);
        self.stage_put(key, namespace, meta, value);
    }

    /// The part of a put that is seen at once: the DRAM table and the counts. Answers what has to be
    /// settled later, where only the filters know whether the key had a value (N9).
    pub(super) fn apply_put(
        &mut self,
        key: Key<'_>,
        meta: Meta,
        value: &[u8],
        access: u32,
    ) -> Option<Unresolved> {
        let (engine, generation) = (self.engine, self.generation);
        let shard = self.shard(key.hash);
        let upsert = shard.table.upsert(key, meta, value, generation, access);
        let mut unresolved = false;
        let mut expired_before = upsert.was_expiring;
        if !upsert.existed {
            let beyond = if self.has_deleted(key) {
                cold::Existence::No
            } else {
                engine.existence_beyond_table(self.shard(key.hash), key)
            };
            let shard = self.shard(key.hash);
            match beyond {
                cold::Existence::No => shard.count_mut(key.slot).keys += 1,
                cold::Existence::Yes(meta) => expired_before = meta.expire_at_ms != 0,
                cold::Existence::Maybe => {
                    shard.count_mut(key.slot).keys += 1;
                    unresolved = true;
                }
            }
        }
        let expires = i64::from(meta.expire_at_ms != 0) - i64::from(expired_before);
        let shard = self.shard(key.hash);
        shard.count_mut(key.slot).expires += expires;
        shard.loads.overtake(key);
        if meta.expire_at_ms != 0 {
            shard.expiry.add(meta.expire_at_ms, key.hash);
        }
        unresolved.then(|| Unresolved {
            slot: key.slot,
            namespace: engine.inner().namespaces.id_of(key.slot),
            hash: key.hash,
            key: key.bytes.into(),
            seq: 0,
        })
    }

    fn stage_put(&mut self, key: Key<'_>, namespace: u64, meta: Meta, value: &[u8]) {
        let meta = Meta { flags: meta.flags & Meta::FLAGS_MASK, ..meta };
        let (at, len, key_len) = self.stage_record(key, namespace, meta, value);
        let staged = Staged::Put { at, len, key_len };
        self.buf.operations.push(Operation { hash: key.hash, staged });
        self.operations += 1;
    }

    /// Encodes a record without its sequence; answers where it lies, its length, and its key's.
    fn stage_record(
        &mut self,
        key: Key<'_>,
        namespace: u64,
        meta: Meta,
        value: &[u8],
    ) -> (usize, usize, usize) {
        let len = memtable::encoded_len(HEAD_BYTES + key.bytes.len(), value.len());
        let at = self.buf.records.len();
        self.buf.records.resize(at + len, 0);
        let head = namespace::head(namespace);
        memtable::encode(&mut self.buf.records[at..], 0, meta, (&head, key.bytes), value);
        (at, len, HEAD_BYTES + key.bytes.len())
    }

    /// Changes flags or expiry and keeps the value: one operation. The key must be `Live`.
    pub fn set_meta(&mut self, key: Key<'_>, meta: Meta) {
        let (engine, generation) = (self.engine, self.generation);
        let namespace = engine.inner().namespaces.id_of(key.slot);
        let shard = self.shard(key.hash);
        let Some(entry) = shard.table.find(key) else { return };
        let expires = i64::from(meta.expire_at_ms != 0) - i64::from(entry.meta().expire_at_ms != 0);
        let value = entry.value().to_vec();
        shard.table.set_meta(key, meta, generation);
        shard.count_mut(key.slot).expires += expires;
        shard.loads.overtake(key);
        if meta.expire_at_ms != 0 {
            shard.expiry.add(meta.expire_at_ms, key.hash);
        }
        self.stage_put(key, namespace, meta, &value);
    }

    /// Deletes a key (rule X1): false, and nothing written, when it has no value. One operation
    /// otherwise. The key must not be `Cold`.
    pub fn delete(&mut self, key: Key<'_>) -> bool {
        let namespace = self.engine.inner().namespaces.id_of(key.slot);
        let removed = match self.shard(key.hash).table.remove(key) {
            Some(removed) => removed,
            // It may lie in a sorted memtable, from where it comes into the table first.
            None if matches!(self.find(key), Found::Live(_)) => {
                match self.shard(key.hash).table.remove(key) {
                    Some(removed) => removed,
                    None => return false,
                }
            }
            None => return false,
        };
        let shard = self.shard(key.hash);
        let count = shard.count_mut(key.slot);
        count.keys -= 1;
        count.expires -= i64::from(removed.had_expiry);
        shard.loads.overtake(key);
        self.buf.deletes += 1;
        let staged = if self.engine.inner().has_tombstones() {
            let (at, len, key_len) = self.stage_record(key, namespace, Meta::tombstone(), b"");
            Staged::Tombstone { at, len, key_len }
        } else {
            let at = self.buf.records.len();
            self.buf.records.extend_from_slice(&namespace::head(namespace));
            self.buf.records.extend_from_slice(key.bytes);
            Staged::Delete { at, len: self.buf.records.len() - at }
        };
        self.buf.operations.push(Operation { hash: key.hash, staged });
        self.operations += 1;
        true
    }

    /// Empties a database in O(1) (N7): one operation. Needs `Latched::All`. False, and nothing
    /// done, while too many emptied databases wait to be swept.
    pub fn flush_database(&mut self, db: usize) -> bool {
        assert!(self.all, "flush_database needs all latches");
        self.commit_staged(false);
        let engine = self.engine;
        if !engine.inner().namespaces.has_free_slot() {
            self.sweep_dead_slots();
        }
        let mut commit = engine.inner().commit.lock();
        let seq = commit.next_seq;
        let Some((slot, dead_id)) = engine.inner().namespaces.replace(db, seq) else {
            return false;
        };
        commit.next_seq += 1;
        drop(commit);
        self.first_seq.get_or_insert(seq);
        self.operations += 1;
        let fresh_slot = engine.slot_of(db);
        if let Guards::Many(guards) = &mut self.guards {
            for (_, shard) in guards {
                *shard.count_mut(slot) = Count::default();
                // An overwrite settled late may have corrected the count of a dead namespace here.
                *shard.count_mut(fresh_slot) = Count::default();
                let before = shard.unresolved.len();
                shard.unresolved.retain(|item| item.slot != slot);
                let gone = (before - shard.unresolved.len()) as u64;
                engine.inner().unresolved.fetch_sub(gone, Ordering::Relaxed);
            }
        }
        engine.inner().note_dead(slot, dead_id, seq);
        true
    }

    /// Makes slots free at once when databases are emptied faster than the background sweeps.
    fn sweep_dead_slots(&mut self) {
        let inner = self.engine.inner();
        let Guards::Many(guards) = &mut self.guards else { return };
        let mut dead_slots = inner.dead_slots.lock();
        dead_slots.retain(|dead| {
            let mut slots = [false; namespace::SLOTS];
            slots[usize::from(dead.slot)] = true;
            if guards.iter().any(|(_, shard)| shard.loads.holds_any(&slots)) {
                return true;
            }
            for (_, shard) in guards.iter_mut() {
                while !shard.table.sweep_slots(&slots, usize::MAX) {}
                *shard.count_mut(dead.slot) = Count::default();
            }
            inner.namespaces.release(dead.slot);
            false
        });
    }

    /// Swaps two databases: one operation. Needs `Latched::All`.
    pub fn swap_databases(&mut self, a: usize, b: usize) {
        assert!(self.all, "swap_databases needs all latches");
        self.commit_staged(false);
        let mut commit = self.engine.inner().commit.lock();
        self.first_seq.get_or_insert(commit.next_seq);
        commit.next_seq += 1;
        self.engine.inner().namespaces.swap(a, b);
        self.operations += 1;
    }

    /// Appends the RESP form of what was done, as it must be replayed: outcomes, absolute times.
    /// A replay of the log bytes must produce exactly this transaction's operations, in order.
    pub fn log(&mut self, db: usize, resp: &[u8]) {
        let db = db as u32;
        match self.buf.log_dbs {
            None => self.buf.log_dbs = Some((db, db)),
            Some((_, last)) if last == db => {}
            Some((first, _)) => {
                self.log_select(db);
                self.buf.log_dbs = Some((first, db));
            }
        }
        self.buf.log.extend_from_slice(resp);
    }

    fn log_select(&mut self, db: u32) {
        let number = db.to_string();
        let select = format!("*2\r\n$6\r\nSELECT\r\n${}\r\n{number}\r\n", number.len());
        self.buf.log.extend_from_slice(select.as_bytes());
    }

    /// Number of operations so far.
    #[must_use]
    pub fn operations(&self) -> u32 {
        self.operations
    }

    /// Scan of the newest state under `Latched::All`, this transaction's writes included, until
    /// `visit` answers false.
    pub fn scan(
        &mut self,
        range: &ScanRange,
        visit: &mut dyn FnMut(ScanItem) -> bool,
    ) -> Result<(), EngineError> {
        self.with_graves(|engine, graves| engine.scan_latched(range, graves, visit))
    }

    /// [`Engine::random_key`] under `Latched::All`, this transaction's writes included.
    pub fn random_key(
        &mut self,
        db: usize,
        now_ms: u64,
        random: &mut dyn FnMut() -> u64,
    ) -> Result<Option<Vec<u8>>, EngineError> {
        self.with_graves(|engine, graves| {
            let (view, head) = engine.view_latched(db);
            engine.draw_key(&view, &head, graves, now_ms, random)
        })
    }

    /// Runs something that reads the whole of a database, with what is staged committed.
    fn with_graves<R>(&mut self, run: impl FnOnce(&Engine, &dyn Graves) -> R) -> R {
        assert!(self.all, "a walk over a database needs all latches");
        self.commit_staged(false);
        let Guards::Many(guards) = &self.guards else { unreachable!("all latches are held") };
        let graves =
            |hash: u64, key: &[u8], s: Seq| guards[shard_of(hash)].1.graves.newest_at(hash, key, s);
        run(self.engine, &LatchedGraves::new(self.engine, graves))
    }

    /// Number of keys of a database under `Latched::All`; exact when nothing is unresolved.
    pub fn count(&mut self, db: usize) -> Result<u64, EngineError> {
        assert!(self.all, "count needs all latches");
        self.commit_staged(false);
        let slot = self.engine.slot_of(db);
        let Guards::Many(guards) = &mut self.guards else { return Ok(0) };
        let mut keys = 0;
        for (_, shard) in guards {
            self.engine.resolve_latched(shard)?;
            keys += shard.count_mut(slot).keys;
        }
        Ok(keys.max(0) as u64)
    }

    /// Takes the sequences of what is staged, and publishes it to memtable and cemetery. With
    /// `last`, the log bytes go into the log in the same critical section; without (only under all
    /// latches, where nobody else can commit) they follow at the end.
    fn commit_staged(&mut self, last: bool) {
        let count = self.buf.operations.len() as u64;
        let inner = self.engine.inner();
        let record_bytes = self.buf.operations.iter().map(|op| op.staged.record().len());
        let mut record_bytes: usize = record_bytes.sum();
        if count == 0 && !last {
            return;
        }
        if inner.has_skip_lists() {
            record_bytes += self.buf.choose_heights() * memtable::LINK_BYTES;
        }
        let mut commit = inner.commit.lock();
        let first = commit.next_seq;
        commit.next_seq += count;
        if last && commit.log_on {
            let first = self.first_seq.unwrap_or(first);
            let db = self.buf.log_dbs.map_or(0, |(first_db, _)| first_db);
            if commit.log.append(first, self.operations, db, &[&self.buf.log]) {
                inner.log_wants_kick();
            }
        }
        let mut room = (record_bytes > 0).then(|| commit.reserve(record_bytes));
        let full = commit.just_filled();
        drop(commit);
        inner.pace.note_written(record_bytes);
        if full {
            inner.background.wake_flush();
        }
        self.first_seq.get_or_insert(first);
        let operations = std::mem::take(&mut self.buf.operations);
        let heights = std::mem::take(&mut self.buf.heights);
        let filler = Filler::new(self.engine, &heights);
        let mut records = std::mem::take(&mut self.buf.records);
        for (i, operation) in operations.iter().enumerate() {
            let seq = first + i as u64;
            let hash = operation.hash;
            match operation.staged {
                Staged::Put { at, len, key_len } => {
                    let record = &mut records[at..at + len];
                    memtable::stamp(record, seq);
                    let room = room.as_mut().expect("room for every put");
                    filler.fill(room, record, i);
                    let shard = self.shard(hash);
                    let key = &record[memtable::HEADER_BYTES..][..key_len];
                    if !shard.graves.is_empty() {
                        shard.graves.close(hash, key.split_at(HEAD_BYTES), seq);
                    }
                    if !shard.tombstones.is_empty() {
                        shard.tombstones.remove(hash, key);
                    }
                }
                Staged::Tombstone { at, len, key_len } => {
                    let record = &mut records[at..at + len];
                    memtable::stamp(record, seq);
                    let room = room.as_mut().expect("room for every record");
                    filler.fill(room, record, i);
                    let key = &record[memtable::HEADER_BYTES..][..key_len];
                    self.shard(hash).tombstones.insert(hash, key, seq);
                }
                Staged::Delete { at, len } => {
                    let key = &records[at..at + len];
                    if self.shard(hash).graves.open(hash, key.into(), seq) {
                        inner.places.note(key);
                    }
                    inner.note_grave();
                    inner.shards[shard_of(hash)].graves.fetch_add(1, Ordering::AcqRel);
                }
            }
            inner.note_write(hash, seq);
        }
        self.buf.operations = operations;
        self.buf.heights = heights;
        self.buf.forget_operations();
        self.buf.records = records;
        self.buf.records.clear();
        for (index, mut item) in std::mem::take(&mut self.buf.unresolved) {
            item.seq = first + index as u64;
            self.shard(item.hash).unresolved.push(item);
            inner.unresolved.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Brings the latched shards back below the memory bound. Only at the end: what a command has
    /// found in memory stays there until the command, or all of EXEC, has run.
    fn evict_excess(&mut self) {
        let engine = self.engine;
        match &mut self.guards {
            Guards::None => {}
            Guards::One(_, shard) => engine.keep_within_bound(shard),
            Guards::Many(guards) => {
                for (_, shard) in guards {
                    engine.keep_within_bound(shard);
                }
            }
        }
    }

    /// Ends the transaction and releases the latches.
    pub fn commit(mut self) -> Commit {
        self.committed = true;
        if self.operations == 0 {
            return Commit::default();
        }
        if let Some((first, last)) = self.buf.log_dbs
            && first != last
        {
            self.log_select(first);
        }
        self.commit_staged(true);
        let last_seq = self.first_seq.unwrap_or(0) + u64::from(self.operations) - 1;
        Commit { last_seq, operations: self.operations }
    }
}

impl Drop for Tx<'_> {
    fn drop(&mut self) {
        if !self.committed && self.operations > 0 {
            self.engine.inner().poison("a transaction was dropped with writes in it");
        }
        self.evict_excess();
    }
}

/// A key that owns its bytes, for loads and waiters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OwnedKey {
    /// Namespace slot.
    pub slot: Slot,
    /// The user's bytes.
    pub bytes: Vec<u8>,
    /// Hash of the bytes.
    pub hash: u64,
}

impl OwnedKey {
    /// The borrowed form.
    #[must_use]
    pub fn as_key(&self) -> Key<'_> {
        Key { slot: self.slot, bytes: &self.bytes, hash: self.hash }
    }
}

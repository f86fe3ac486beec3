//! The store as a map from byte strings to byte strings, without commands or types: for tools that
//! measure the engine, and for programs that embed it.
//!
//! Everything runs on the caller's thread, which waits where a server would park a connection: for a
//! late flush, or for a device. The log gets `SET`, `DEL` and `SELECT` as RESP, which
//! [`replay_bytes`] replays.

use super::engine::{Engine, EngineError};
use super::open::{OpenReport, ReplayGroup};
use super::options::EngineOptions;
use super::read::reads::Place;
use super::shard::shard_of;
use super::tx::{Commit, Deletion, Found, Latched, OwnedKey, TxBuf};
use crate::key::{Key, Meta, Seq};
use sexton_persistence::aof::write_command;
use std::cell::RefCell;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long a writer that must wait sleeps before it asks again.
const WAIT: Duration = Duration::from_micros(50);

/// Of the reads that find a key's value in a table only, one in this many brings it into the DRAM table:
/// what is read often gets there, and what is read once costs nothing beside the read.
const WARM_SHARE: u32 = 8;

thread_local! {
    static BUF: RefCell<Buf> = RefCell::default();
}

/// Memory of a thread that is used again by each call.
#[derive(Default)]
struct Buf {
    tx: TxBuf,
    /// RESP form of a put.
    resp: Vec<u8>,
    /// Cold reads so far.
    cold_reads: u32,
}

enum Write {
    Put { db: usize, key: Vec<u8>, value: Vec<u8> },
    Delete { db: usize, key: Vec<u8> },
}

impl Write {
    fn place(&self) -> (usize, &[u8]) {
        match self {
            Self::Put { db, key, .. } | Self::Delete { db, key } => (*db, key),
        }
    }
}

/// Writes that happen together: seen, and after a crash recovered, all or not at all.
#[derive(Default)]
pub struct WriteBatch(Vec<Write>);

impl WriteBatch {
    /// Adds a put.
    pub fn put(&mut self, db: usize, key: &[u8], value: &[u8]) {
        self.0.push(Write::Put { db, key: key.to_vec(), value: value.to_vec() });
    }

    /// Adds a delete. One of a key that has no value does nothing.
    pub fn delete(&mut self, db: usize, key: &[u8]) {
        self.0.push(Write::Delete { db, key: key.to_vec() });
    }

    /// Number of writes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True when there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Forgets all writes.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

impl Engine {
    /// Opens a store that is used through this interface only.
    ///
    /// # Errors
    /// As for [`Engine::open`].
    pub fn open_bytes(options: EngineOptions) -> Result<(Self, OpenReport), EngineError> {
        Self::open(options, &mut |engine, group| replay_bytes(engine, group))
    }

    fn key<'k>(&self, db: usize, bytes: &'k [u8]) -> Key<'k> {
        Key { slot: self.slot_of(db), bytes, hash: self.hash(bytes) }
    }

    /// Appends the value of a key to `value`; false, and nothing appended, when it has none.
    ///
    /// # Errors
    /// A failing medium or a damaged table.
    pub fn get_into(
        &self,
        db: usize,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<bool, EngineError> {
        self.inner().order.get_into(self, db, key, value)
    }

    /// Like `get_into`, in the product's order: the DRAM table first.
    pub(super) fn get_through_table(
        &self,
        db: usize,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<bool, EngineError> {
        let inner = self.inner();
        let hash = self.hash(key);
        let mut guard = inner.shards[shard_of(hash)].latch();
        let shard = &mut *guard;
        // The slot is read under the latch: databases may be swapped.
        let key = Key { slot: self.slot_of(db), bytes: key, hash };
        if let Some(entry) = shard.table.find(key) {
            value.extend_from_slice(entry.value());
            shard.reads.hits += 1;
            return Ok(true);
        }
        // Not in the DRAM table and without an open grave in memory: its newest version, in a sorted memtable or a
        // table of this moment, is the answer, if there is one that no spilled grave is above.
        let Some(below) = self.below_table(shard, key) else { return Ok(false) };
        let last_write = self.last_write(hash);
        drop(guard);
        let from = value.len();
        let found = below.newest(self, |newest| {
            value.extend_from_slice(newest.value);
            (newest.place, newest.meta)
        })?;
        inner.figures.reads.note_miss(found.map(|(place, _)| place));
        let place = found.map(|(place, _)| place);
        if place == Some(Place::Memtable) {
            return Ok(true);
        }
        inner.cold.reads.fetch_add(1, Ordering::Relaxed);
        let Some((_, meta)) = found else { return Ok(false) };
        inner.cold.found.fetch_add(1, Ordering::Relaxed);
        let nth = BUF.with_borrow_mut(|buf| {
            buf.cold_reads = buf.cold_reads.wrapping_add(1);
            buf.cold_reads
        });
        if nth.is_multiple_of(WARM_SHARE) && self.last_write(hash) == last_write {
            self.warm(key, below.namespace, last_write, meta, &value[from..]);
        }
        Ok(true)
    }

    /// Brings what a read has found into the DRAM table, unless it may have changed since the key's latch
    /// was held: each write to the key changes the word of N13, under the latch, and an emptied database
    /// has another namespace.
    fn warm(&self, key: Key<'_>, id: u64, last_write: Seq, meta: Meta, value: &[u8]) {
        let inner = self.inner();
        let mut guard = inner.shards[shard_of(key.hash)].latch();
        let shard = &mut *guard;
        let is_as_it_was = self.last_write(key.hash) == last_write
            && inner.namespaces.id_of(key.slot) == id
            && inner.namespaces.is_live(key.slot);
        if is_as_it_was && shard.loads.is_empty() && shard.table.find(key).is_none() {
            // Room is made first: the entry itself is clean and would be a candidate.
            self.keep_within_bound(shard);
            self.fill(shard, key, meta, value);
        }
    }

    /// The value of a key.
    ///
    /// # Errors
    /// As for [`Engine::get_into`].
    pub fn get(&self, db: usize, key: &[u8]) -> Result<Option<Vec<u8>>, EngineError> {
        let mut value = Vec::new();
        Ok(self.get_into(db, key, &mut value)?.then_some(value))
    }

    /// Writes a value.
    ///
    /// # Errors
    /// Writes are refused: see [`Engine::write_refusal`].
    pub fn put(&self, db: usize, key: &[u8], value: &[u8]) -> Result<Commit, EngineError> {
        self.wait_for_room()?;
        let commit = BUF.with_borrow_mut(|buf| {
            let hash = self.hash(key);
            let tx = self.begin(Latched::Hashes(&[hash]), &mut buf.tx);
            buf.resp.clear();
            write_command(&mut buf.resp, [b"SET", key, value].into_iter());
            let key = Key { slot: self.slot_of(db), bytes: key, hash };
            tx.commit_put(key, Meta::default(), value, None, (db, &buf.resp))
        });
        self.kick_log();
        Ok(commit)
    }

    /// Deletes a key; no operation when it has no value (rule X1). Reads a key that is not in memory.
    ///
    /// # Errors
    /// Refused writes, or a key that cannot be read.
    pub fn delete(&self, db: usize, key: &[u8]) -> Result<Commit, EngineError> {
        self.wait_for_room()?;
        let commit = BUF.with_borrow_mut(|buf| {
            let hash = self.hash(key);
            let mut pins = Vec::new();
            loop {
                let mut tx = self.begin(Latched::Hashes(&[hash]), &mut buf.tx);
                let key = Key { slot: self.slot_of(db), bytes: key, hash };
                match tx.delete_if(key, |_| true) {
                    Deletion::Done => {
                        write_command(tx.log_form(db), [b"DEL", key.bytes].into_iter());
                    }
                    Deletion::Cold => {
                        drop(tx);
                        let bytes = key.bytes.to_vec();
                        pins.push(self.load_here(OwnedKey { slot: key.slot, bytes, hash })?);
                        continue;
                    }
                    Deletion::Absent | Deletion::Kept => {}
                }
                return Ok::<_, EngineError>(tx.commit());
            }
        })?;
        self.kick_log();
        Ok(commit)
    }

    /// Runs the writes of a batch, in their order, as one.
    ///
    /// # Errors
    /// As for [`Engine::delete`]; nothing is written then.
    pub fn write(&self, batch: &WriteBatch) -> Result<Commit, EngineError> {
        self.wait_for_room()?;
        let commit = self.apply(batch)?;
        self.kick_log();
        Ok(commit)
    }

    fn apply(&self, batch: &WriteBatch) -> Result<Commit, EngineError> {
        let hashes: Vec<u64> = batch.0.iter().map(|write| self.hash(write.place().1)).collect();
        BUF.with_borrow_mut(|buf| {
            let mut pins = Vec::new();
            loop {
                let mut tx = self.begin(Latched::Hashes(&hashes), &mut buf.tx);
                let cold: Vec<OwnedKey> = batch
                    .0
                    .iter()
                    .filter(|write| matches!(write, Write::Delete { .. }))
                    .map(|write| self.key(write.place().0, write.place().1))
                    .filter(|key| matches!(tx.find(*key), Found::Cold))
                    .map(|key| OwnedKey { slot: key.slot, bytes: key.bytes.into(), hash: key.hash })
                    .collect();
                if !cold.is_empty() {
                    drop(tx);
                    for key in cold {
                        pins.push(self.load_here(key)?);
                    }
                    continue;
                }
                for write in &batch.0 {
                    match write {
                        Write::Put { db, key, value } => {
                            tx.put(self.key(*db, key), Meta::default(), value);
                            write_command(tx.log_form(*db), [b"SET", &key[..], value].into_iter());
                        }
                        Write::Delete { db, key } => {
                            if tx.delete(self.key(*db, key)) {
                                write_command(tx.log_form(*db), [b"DEL", &key[..]].into_iter());
                            }
                        }
                    }
                }
                return Ok(tx.commit());
            }
        })
    }

    fn wait_for_room(&self) -> Result<(), EngineError> {
        loop {
            if let Some(reason) = self.write_refusal() {
                return Err(EngineError::Storage(reason));
            }
            if !self.must_wait() {
                return Ok(());
            }
            self.kick_log();
            std::thread::sleep(WAIT);
        }
    }

    /// Waits until everything up to `seq` survives a crash, whatever the sync policy. At once where
    /// there is no log.
    ///
    /// # Errors
    /// The log failed.
    pub fn sync_through(&self, seq: Seq) -> Result<(), EngineError> {
        if self.durable() >= seq {
            return Ok(());
        }
        match self.inner().write.log.load_full() {
            Some(log) => Ok(log.sync_through(seq)?),
            None => Ok(()),
        }
    }
}

/// Runs the log of a store that is used through this interface again.
///
/// # Errors
/// A command that it never logs, or one that the device kept from running.
pub fn replay_bytes(engine: &Engine, group: ReplayGroup<'_>) -> Result<(), String> {
    let mut batch = WriteBatch::default();
    let mut db = 0;
    let mut rest = group.commands;
    while !rest.is_empty() {
        let parts = number(&mut rest, b'*')?;
        let mut command = Vec::new();
        for _ in 0..parts.min(3) {
            let len = number(&mut rest, b'$')?;
            let (part, behind) = rest.split_at_checked(len).ok_or("a command ends early")?;
            rest = behind.strip_prefix(b"\r\n").ok_or("no line end behind an argument")?;
            command.push(part);
        }
        match *command.as_slice() {
            [b"SET", key, value] => batch.put(db, key, value),
            [b"DEL", key] => batch.delete(db, key),
            [b"SELECT", number] => {
                let number = std::str::from_utf8(number).ok().and_then(|n| n.parse().ok());
                db = number.filter(|db| *db < engine.databases()).ok_or("SELECT of no database")?;
            }
            _ => return Err("not a command of a plain store".into()),
        }
    }
    engine.apply(&batch).map_err(|error| error.to_string())?;
    Ok(())
}

/// The number of a line that starts with `sign`.
fn number(rest: &mut &[u8], sign: u8) -> Result<usize, String> {
    let end = rest.windows(2).position(|pair| pair == b"\r\n").ok_or("no line end")?;
    let (line, behind) = rest.split_at(end);
    *rest = &behind[2..];
    let digits = line.strip_prefix(&[sign]).and_then(|line| std::str::from_utf8(line).ok());
    digits.and_then(|digits| digits.parse().ok()).ok_or_else(|| "not a number".to_owned())
}

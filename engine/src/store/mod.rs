//! The store: latches, transactions, and the API the server executes commands on.
//!
//! INTERIM: this first version keeps everything in memory behind the final API.

use crate::key::{Key, Meta, Seq, Slot};
use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// Number of shards; every key belongs to one by its hash.
pub const SHARDS: usize = 64;

/// How the log is made durable (`appendfsync`, or none at all with `appendonly no`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncPolicy {
    /// `appendonly no`: no log is written; everything visible counts as durable (N3).
    Off,
    /// `appendfsync no`.
    No,
    /// `appendfsync everysec`, bounded as N14 says.
    EverySec,
    /// `appendfsync always`: replies wait for the sync.
    Always,
}

/// Why the engine cannot do what was asked.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum EngineError {
    /// A medium failed; the text names operation, file and offset.
    Storage(String),
    /// A file is damaged; the text names file, offset, expected and found.
    Corrupt(String),
    /// A background worker panicked: writes are refused, reads go on.
    Poisoned(String),
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Storage(text) | Self::Corrupt(text) | Self::Poisoned(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for EngineError {}

/// Figures for INFO. All sizes in bytes.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Highest sequence handed out.
    pub last_seq: Seq,
    /// Highest sequence that survives a crash with everything before it.
    pub durable_seq: Seq,
    /// Bytes of the DRAM table with its entries.
    pub dram_bytes: u64,
    /// Live entries held in the DRAM table.
    pub dram_entries: u64,
}

struct Shard {
    map: HashMap<(Slot, Vec<u8>), (Meta, Vec<u8>)>,
}

struct Inner {
    hasher: foldhash::fast::FixedState,
    shards: Vec<Mutex<Shard>>,
    next_seq: AtomicU64,
    slots: Vec<AtomicU8>,
}

/// A handle to one open store; clones share it.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

/// An entry found in memory, valid while its latch is held.
#[derive(Clone, Copy)]
pub struct Entry<'a> {
    meta: Meta,
    value: &'a [u8],
}

impl<'a> Entry<'a> {
    /// Flags and expiry.
    #[must_use]
    pub fn meta(&self) -> Meta {
        self.meta
    }

    /// The value's bytes.
    #[must_use]
    pub fn value(&self) -> &'a [u8] {
        self.value
    }

    /// The 24-bit access field: seconds (LRU) or decay clock and counter (LFU), the caller's choice.
    #[must_use]
    pub fn access(&self) -> u32 {
        0
    }
}

/// Answer of a look-up under the latch. Expiry is not looked at: an expired entry is `Live`.
#[derive(Clone, Copy)]
pub enum Found<'a> {
    /// The key has a value, and it is in memory.
    Live(Entry<'a>),
    /// The key has no value.
    Absent,
    /// The key may have a value on a device: `Engine::load` it, then look again.
    Cold,
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

/// Which latches a transaction holds.
#[derive(Clone, Copy, Debug)]
pub enum Latched<'a> {
    /// The shards of these hashes (any order, repeats allowed); taken in ascending order.
    Hashes(&'a [u64]),
    /// Every shard: FLUSHALL, SWAPDB, EXEC with key-space commands, a consistent view.
    All,
}

/// Reusable buffers of a transaction, one a worker thread.
#[derive(Default)]
pub struct TxBuf {
    log: Vec<u8>,
}

/// What a commit did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Sequence of the last operation; 0 when nothing was written.
    pub last_seq: Seq,
    /// Number of operations.
    pub operations: u32,
}

/// A group of reads and writes under the latches of its keys. Its writes are seen by its own reads
/// at once, by everybody else when the latches go, and by a crash all or not at all.
pub struct Tx<'e> {
    engine: &'e Engine,
    guards: Vec<(usize, MutexGuard<'e, Shard>)>,
    buf: &'e mut TxBuf,
    operations: u32,
    all: bool,
}

impl Engine {
    /// A store that lives in memory only (tests of the layers above).
    #[must_use]
    pub fn in_memory(databases: usize) -> Self {
        Self(Arc::new(Inner {
            hasher: foldhash::fast::FixedState::with_seed(0x5e87),
            shards: (0..SHARDS).map(|_| Mutex::new(Shard { map: HashMap::new() })).collect(),
            next_seq: AtomicU64::new(1),
            slots: (0..databases).map(|db| AtomicU8::new(db as u8)).collect(),
        }))
    }

    /// Hash of a user's key; the same for the life of the process.
    #[must_use]
    pub fn hash(&self, key: &[u8]) -> u64 {
        self.0.hasher.hash_one(key)
    }

    /// The slot of logical database `db`. Changes only while all latches are held, so a value read
    /// before latching must be read again under the latch.
    #[must_use]
    pub fn slot_of(&self, db: usize) -> Slot {
        self.0.slots[db].load(Ordering::Acquire)
    }

    /// Hint: the bucket of `hash` will be looked at soon (first pass of a batch).
    pub fn prefetch_bucket(&self, _hash: u64) {}

    /// Hint: the entry of `hash` will be looked at soon (second pass of a batch).
    pub fn prefetch_entry(&self, _hash: u64) {}

    /// Takes the latches and starts a transaction.
    pub fn begin<'e>(&'e self, latched: Latched<'_>, buf: &'e mut TxBuf) -> Tx<'e> {
        let mut shards: Vec<usize> = match latched {
            Latched::Hashes(hashes) => hashes.iter().map(|h| (h >> 32) as usize % SHARDS).collect(),
            Latched::All => (0..SHARDS).collect(),
        };
        shards.sort_unstable();
        shards.dedup();
        buf.log.clear();
        let guards = shards.into_iter().map(|s| (s, self.0.shards[s].lock())).collect();
        Tx { engine: self, guards, buf, operations: 0, all: matches!(latched, Latched::All) }
    }

    /// Starts loading cold keys on the cold-read threads; one load a key, however many wait.
    /// `done` runs once, on another thread, when every key is in memory (or known absent) or a read
    /// failed. Loaded entries stay pinned until the [`LoadPin`] is dropped.
    pub fn load(
        &self,
        keys: Vec<OwnedKey>,
        done: impl FnOnce(Result<LoadPin, EngineError>) + Send + 'static,
    ) {
        drop(keys);
        done(Ok(LoadPin {}));
    }

    /// Live keys of the newest state in key order, from all memtables and tables whatever the DRAM
    /// table holds. Blocks on I/O: never call it on a worker thread. The view is taken at the call;
    /// latches must not be held by the caller (use [`Tx::scan`] under `Latched::All`).
    pub fn scan(
        &self,
        range: ScanRange,
    ) -> Box<dyn Iterator<Item = Result<ScanItem, EngineError>> + Send> {
        let mut buf = TxBuf::default();
        let tx = self.begin(Latched::All, &mut buf);
        let items = tx.collect(&range);
        drop(tx);
        Box::new(items.into_iter().map(Ok))
    }

    /// Exact number of live keys of a database (expired ones that were not deleted yet included,
    /// as in Redis). May block on I/O until unresolved overwrites are settled (N9).
    pub fn count(&self, db: usize) -> Result<u64, EngineError> {
        let slot = self.slot_of(db);
        Ok(self
            .0
            .shards
            .iter()
            .map(|s| s.lock().map.keys().filter(|k| k.0 == slot).count() as u64)
            .sum())
    }

    /// Count of live keys and of keys with an expiry as known now, and how many overwrites are not
    /// settled yet. Never blocks on I/O.
    #[must_use]
    pub fn count_provisional(&self, db: usize) -> (u64, u64, u64) {
        let slot = self.slot_of(db);
        let mut keys = 0;
        let mut expires = 0;
        for shard in &self.0.shards {
            for (key, (meta, _)) in &shard.lock().map {
                if key.0 == slot {
                    keys += 1;
                    expires += u64::from(meta.expire_at_ms != 0);
                }
            }
        }
        (keys, expires, 0)
    }

    /// Up to `limit` keys whose expiry is at or before `now_ms`, for the expiry cycle; the caller
    /// deletes them through a transaction (rule X3).
    pub fn due(&self, now_ms: u64, limit: usize) -> Vec<(usize, Vec<u8>)> {
        let mut due = Vec::new();
        for db in 0..self.0.slots.len() {
            let slot = self.slot_of(db);
            for shard in &self.0.shards {
                for (key, (meta, _)) in &shard.lock().map {
                    if key.0 == slot && meta.is_expired(now_ms) && due.len() < limit {
                        due.push((db, key.1.clone()));
                    }
                }
            }
        }
        due
    }

    /// Highest sequence below which everything survives a crash.
    #[must_use]
    pub fn durable(&self) -> Seq {
        self.0.next_seq.load(Ordering::Acquire) - 1
    }

    /// Last write sequence among the keys that share this hash's word (N13): a reply about the key
    /// may leave when `durable()` has reached it.
    #[must_use]
    pub fn last_write(&self, _hash: u64) -> Seq {
        0
    }

    /// Registers a callback that runs (on the log thread) each time `durable()` moves.
    pub fn on_durable(&self, _callback: impl Fn(Seq) + Send + Sync + 'static) {}

    /// The current sync policy.
    #[must_use]
    pub fn sync_policy(&self) -> SyncPolicy {
        SyncPolicy::Off
    }

    /// Changes the sync policy (`CONFIG SET appendfsync`, `CONFIG SET appendonly`). Blocks until the
    /// change is durable where N3 asks for it.
    pub fn set_sync_policy(&self, _policy: SyncPolicy) -> Result<(), EngineError> {
        Ok(())
    }

    /// `Some(reason)` while writes must be refused (failed log: MISCONF; poisoned store).
    #[must_use]
    pub fn write_refusal(&self) -> Option<String> {
        None
    }

    /// True while writers must wait: log buffer full or unsynced for too long (N14), or flushes
    /// behind. Park the connection and ask again when `on_durable` fires or after a millisecond.
    #[must_use]
    pub fn must_wait(&self) -> bool {
        false
    }

    /// Flushes memtables, syncs log and manifest, stops the background threads.
    pub fn close(&self) -> Result<(), EngineError> {
        Ok(())
    }

    /// Figures for INFO.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats { last_seq: self.durable(), durable_seq: self.durable(), ..Stats::default() }
    }
}

/// Keeps loaded entries in memory until dropped.
#[derive(Debug)]
pub struct LoadPin {}

/// A range of one database in key order.
#[derive(Clone, Debug, Default)]
pub struct ScanRange {
    /// Logical database.
    pub db: usize,
    /// First key wanted (inclusive), or past it when `after` is set. Empty: from the start.
    pub from: Vec<u8>,
    /// True when `from` itself is not wanted.
    pub after: bool,
    /// Only keys with this prefix.
    pub prefix: Vec<u8>,
}

/// One live key of a scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanItem {
    /// The user's key.
    pub key: Vec<u8>,
    /// Flags and expiry.
    pub meta: Meta,
    /// Its value.
    pub value: Vec<u8>,
}

impl<'e> Tx<'e> {
    fn guard(&self, hash: u64) -> &Shard {
        let shard = (hash >> 32) as usize % SHARDS;
        let at = self.guards.binary_search_by_key(&shard, |g| g.0).expect("key of a latched shard");
        &self.guards[at].1
    }

    fn guard_mut(&mut self, hash: u64) -> &mut Shard {
        let shard = (hash >> 32) as usize % SHARDS;
        let at = self.guards.binary_search_by_key(&shard, |g| g.0).expect("key of a latched shard");
        &mut self.guards[at].1
    }

    /// The engine this transaction runs on.
    #[must_use]
    pub fn engine(&self) -> &'e Engine {
        self.engine
    }

    /// Newest state of a key, this transaction's writes included.
    pub fn find(&mut self, key: Key<'_>) -> Found<'_> {
        match self.guard(key.hash).map.get(&(key.slot, key.bytes.to_vec())) {
            Some((meta, value)) => Found::Live(Entry { meta: *meta, value }),
            None => Found::Absent,
        }
    }

    /// Sets the 24-bit access field of an entry in memory.
    pub fn set_access(&mut self, _key: Key<'_>, _access: u32) {}

    /// Writes a value: one operation. A cold key may be overwritten without loading it.
    pub fn put(&mut self, key: Key<'_>, meta: Meta, value: &[u8]) {
        self.operations += 1;
        self.guard_mut(key.hash).map.insert((key.slot, key.bytes.to_vec()), (meta, value.to_vec()));
    }

    /// Changes flags or expiry and keeps the value: one operation. The key must be `Live`.
    pub fn set_meta(&mut self, key: Key<'_>, meta: Meta) {
        self.operations += 1;
        if let Some(entry) = self.guard_mut(key.hash).map.get_mut(&(key.slot, key.bytes.to_vec())) {
            entry.0 = meta;
        }
    }

    /// Deletes a key (rule X1): false, and nothing written, when it has no value. One operation
    /// otherwise. The key must not be `Cold`.
    pub fn delete(&mut self, key: Key<'_>) -> bool {
        let was = self.guard_mut(key.hash).map.remove(&(key.slot, key.bytes.to_vec())).is_some();
        self.operations += u32::from(was);
        was
    }

    /// Empties a database in O(1) (N7): one operation. Needs `Latched::All`.
    pub fn flush_database(&mut self, db: usize) {
        assert!(self.all, "flush_database needs all latches");
        self.operations += 1;
        let slot = self.engine.slot_of(db);
        for (_, guard) in &mut self.guards {
            guard.map.retain(|key, _| key.0 != slot);
        }
    }

    /// Swaps two databases: one operation. Needs `Latched::All`.
    pub fn swap_databases(&mut self, a: usize, b: usize) {
        assert!(self.all, "swap_databases needs all latches");
        self.operations += 1;
        let slots = &self.engine.0.slots;
        let old = slots[a].load(Ordering::Acquire);
        slots[a].store(slots[b].load(Ordering::Acquire), Ordering::Release);
        slots[b].store(old, Ordering::Release);
    }

    /// Appends the RESP form of what was done, as it must be replayed: outcomes, absolute times.
    /// A replay of the log bytes must produce exactly this transaction's operations, in order.
    pub fn log(&mut self, db: usize, resp: &[u8]) {
        let _ = db;
        self.buf.log.extend_from_slice(resp);
    }

    /// Number of operations so far.
    #[must_use]
    pub fn operations(&self) -> u32 {
        self.operations
    }

    /// Scan of the newest state under `Latched::All`, this transaction's writes included.
    pub fn scan(&self, range: &ScanRange) -> Result<Vec<ScanItem>, EngineError> {
        assert!(self.all, "scan needs all latches");
        Ok(self.collect(range))
    }

    fn collect(&self, range: &ScanRange) -> Vec<ScanItem> {
        let slot = self.engine.slot_of(range.db);
        let mut sorted = BTreeMap::new();
        for (_, guard) in &self.guards {
            for (key, (meta, value)) in &guard.map {
                let wanted = key.0 == slot
                    && key.1.starts_with(&range.prefix)
                    && (key.1 > range.from || (!range.after && key.1 == range.from));
                if wanted {
                    sorted.insert(key.1.clone(), (*meta, value.clone()));
                }
            }
        }
        sorted.into_iter().map(|(key, (meta, value))| ScanItem { key, meta, value }).collect()
    }

    /// Ends the transaction: takes its sequences and copies its log bytes in one critical section,
    /// publishes it, and releases the latches.
    pub fn commit(self) -> Commit {
        if self.operations == 0 {
            return Commit { last_seq: 0, operations: 0 };
        }
        let count = u64::from(self.operations);
        let first = self.engine.0.next_seq.fetch_add(count, Ordering::AcqRel);
        Commit { last_seq: first + count - 1, operations: self.operations }
    }
}

//! The engine handle, what it shares, and the small operations on it.

use super::background::Background;
use super::cold::ColdReads;
use super::commit::CommitState;
use super::deadline::Deadline;
use super::due::ColdDue;
use super::events::{Fault, Health, STALL};
use super::frozen::{FlushRight, FreezeRight, FrozenQueue};
use super::namespace::Namespaces;
use super::options::{EngineOptions, SyncPolicy};
use super::pace::{Pace, Work};
use super::pins::Pins;
use super::proofs::Places;
use super::publication::Publication;
use super::reads::Reads;
use super::rest::Rest;
use super::shard::{SHARDS, Shard, shard_of};
use super::snapshot::Snapshots;
use super::spill::Spill;
use super::superversion::SuperVersion;
use super::sweep_turn::SweepTurn;
use super::tx::{Latched, Tx, TxBuf};
use super::undo::Undo;
use super::wbl::Wbl;
use crate::cemetery::DeadRuns;
use crate::dram::PagePool;
pub(super) use crate::error::EngineError;
use crate::key::{Seq, Slot};
use crate::memtable::{ChunkPool, Memtable, MemtableKind};
use crate::tree::{DeleteMode, RateLimiter, VersionSet};
use arc_swap::{ArcSwap, ArcSwapOption};
use parking_lot::{Mutex, RwLock};
use sexton_persistence::aof::Log;
use std::collections::BTreeMap;
use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// What runs when `durable` has moved.
type DurableCallback = Box<dyn Fn(Seq) + Send + Sync>;

/// How far ahead of a walk over keys their entries are asked for; their buckets twice as far.
const AHEAD_KEYS: usize = 8;

/// Words of the table that says which write a reply must wait for (N13).
const WRITE_WORDS: usize = 4096;

/// The word of a hash, by the bits that choose the shard and some others: no two shards share a word.
fn write_word(hash: u64) -> usize {
    const WORDS_A_SHARD: usize = WRITE_WORDS / SHARDS;
    shard_of(hash) * WORDS_A_SHARD + hash as usize % WORDS_A_SHARD
}

/// A namespace that died and whose entries are still in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct DeadSlot {
    pub(super) slot: Slot,
    pub(super) id: u64,
    pub(super) d: Seq,
}

pub(super) struct Inner {
    pub(super) options: EngineOptions,
    pub(super) shards: Box<[Shard]>,
    pub(super) commit: crate::sync::Mutex<CommitState>,
    pub(super) namespaces: Namespaces,
    pub(super) superversion: ArcSwap<SuperVersion>,
    /// Address of its active memtable. It changes under all latches, so whoever holds one can tell whether a memtable
    /// that it has kept still is the active one, without the cost of a look at the superversion.
    pub(super) active_memtable: AtomicPtr<Memtable>,
    /// Serialises changes of `superversion`.
    pub(super) superversion_change: Mutex<()>,
    pub(super) versions: VersionSet,
    pub(super) pool: Arc<ChunkPool>,
    pub(super) log: ArcSwapOption<Log>,
    /// Where memtables lie, with `persistence-mode wbl`; set at the end of recovery.
    pub(super) wbl: OnceLock<Arc<Wbl>>,
    policy: AtomicU8,
    /// Held while the policy changes: one change at a time.
    pub(super) policy_change: Mutex<()>,
    /// Whether new tables are synced; not while the store is wiped at the next start anyway (N3).
    /// Flushes and merges hold it for reading from their first byte to their edit.
    pub(super) syncs_tables: RwLock<bool>,
    last_write: Box<[AtomicU64]>,
    generation: AtomicU8,
    /// One bit a generation: entries changed in it may not be evicted (N10).
    pinned_generations: [AtomicU64; 4],
    pub(super) pins: Pins,
    pub(super) snapshots: Snapshots,
    pub(super) undo: Undo,
    /// Held while a checkpoint is made.
    pub(super) checkpoints: Mutex<()>,
    pub(super) publication: Publication,
    /// Held while unresolved overwrites are settled, so that `count` sees none in flight (N9).
    pub(super) resolver: Mutex<()>,
    pub(super) unresolved: AtomicU64,
    pub(super) cold: ColdReads,
    pub(super) background: Background,
    /// Bytes one shard of the DRAM table may hold; `usize::MAX` without `maxmemory`.
    pub(super) shard_bound_bytes: AtomicUsize,
    /// Bytes of the DRAM tables of all shards, as of their last transactions.
    pub(super) table_bytes: AtomicUsize,
    /// What of it the system gave, and not the allocator.
    pub(super) table_mapped_bytes: AtomicUsize,
    /// Where the tables of all shards have their pages from.
    pub(super) pages: Arc<PagePool>,
    /// What entries take of it; up to date while keys are evicted.
    pub(super) live_bytes: AtomicUsize,
    /// Keys are evicted (`maxmemory-policy`), so entries do not leave memory by themselves.
    pub(super) evicts_keys: AtomicBool,
    /// Memory of the process that no part of the store accounts for.
    pub(super) other_bytes: AtomicU64,
    /// The process was larger than the memory bound when it was last measured.
    pub(super) above_bound: AtomicBool,
    pub(super) dead_slots: Mutex<Vec<DeadSlot>>,
    /// Namespace ids that died and that files may still hold, each with its sequence (N7).
    pub(super) dead: Mutex<BTreeMap<u64, Seq>>,
    /// Writes up to here whose log failed, and for whom the self-contained flush failed too (N2).
    pub(super) given_up: AtomicU64,
    /// When deletes must be gone from every file (N17).
    pub(super) deadline: Deadline,
    /// The bound of the cemetery, and what lies beyond it.
    pub(super) spill: Spill,
    /// Where keys were deleted of late.
    pub(super) places: Places,
    pub(super) reads: Reads,
    /// Stretches of the key space in which nothing lives (N5).
    pub(super) dead_runs: Arc<DeadRuns>,
    /// The last installed recovery mark (N1).
    pub(super) mark: AtomicU64,
    pub(super) freeze_right: Mutex<FreezeRight>,
    pub(super) flush_right: Mutex<FlushRight>,
    /// What was frozen and is not flushed yet.
    pub(super) frozen: FrozenQueue,
    pub(super) checkpoint_file: Mutex<Option<String>>,
    pub(super) flushes: AtomicU64,
    pub(super) compactions: AtomicU64,
    pub(super) pace: Pace,
    pub(super) work: Work,
    pub(super) limiter: RateLimiter,
    pub(super) tables_dropped_dead: AtomicU64,
    pub(super) memory_bound_bytes: AtomicU64,
    /// The bound or the eviction of keys was changed, and the table in memory knows nothing of it yet.
    pub(super) memory_unsettled: AtomicBool,
    pub(super) due_shard: AtomicU32,
    pub(super) cold_due: Mutex<ColdDue>,
    /// Graves or tables changed since a burial was last looked for.
    pub(super) burial_wanted: AtomicBool,
    /// Merges while nobody writes.
    pub(super) rest: Rest,
    pub(super) sweep_turn: SweepTurn,
    /// [`DiskClaim`](super::DiskClaim)s held.
    pub(super) disk_claims: AtomicUsize,
    kick_wanted: AtomicBool,
    access_now: AtomicU32,
    pub(super) poison: OnceLock<String>,
    pub(super) health: Health,
    pub(super) closed: AtomicBool,
    /// Keeps other processes out of the directory until the store is closed.
    pub(super) dir_lock: Mutex<Option<Box<dyn Send + Sync>>>,
    pub(super) durable_callbacks: Mutex<Vec<DurableCallback>>,
}

/// A handle to one open store; clones share it.
#[derive(Clone)]
pub struct Engine(pub(super) Arc<Inner>);

pub(super) struct Parts {
    pub(super) options: EngineOptions,
    pub(super) shards: Box<[Shard]>,
    pub(super) pages: Arc<PagePool>,
    pub(super) commit: CommitState,
    pub(super) namespaces: Namespaces,
    pub(super) superversion: SuperVersion,
    pub(super) versions: VersionSet,
    pub(super) pool: Arc<ChunkPool>,
}

impl Inner {
    pub(super) fn new(parts: Parts) -> Self {
        let generation = parts.superversion.active.generation;
        let cold = ColdReads::new(parts.options.cold_read_threads);
        let inner = Self {
            shards: parts.shards,
            commit: crate::sync::Mutex::new(parts.commit),
            namespaces: parts.namespaces,
            active_memtable: AtomicPtr::new(Arc::as_ptr(&parts.superversion.active).cast_mut()),
            superversion: ArcSwap::from_pointee(parts.superversion),
            superversion_change: Mutex::new(()),
            versions: parts.versions,
            pool: parts.pool,
            log: ArcSwapOption::empty(),
            wbl: OnceLock::new(),
            policy: AtomicU8::new(parts.options.sync_policy as u8),
            policy_change: Mutex::new(()),
            syncs_tables: RwLock::new(parts.options.sync_policy != SyncPolicy::Off),
            last_write: (0..WRITE_WORDS).map(|_| AtomicU64::new(0)).collect(),
            generation: AtomicU8::new(generation),
            pinned_generations: Default::default(),
            pins: Pins::default(),
            snapshots: Snapshots::default(),
            undo: Undo::new(parts.options.undo_max_bytes, parts.options.undo_full),
            checkpoints: Mutex::new(()),
            publication: Publication::default(),
            resolver: Mutex::default(),
            unresolved: AtomicU64::new(0),
            cold,
            background: Background::default(),
            shard_bound_bytes: AtomicUsize::new(usize::MAX),
            table_bytes: AtomicUsize::new(0),
            table_mapped_bytes: AtomicUsize::new(0),
            pages: parts.pages,
            live_bytes: AtomicUsize::new(0),
            evicts_keys: AtomicBool::new(parts.options.evicts_keys),
            other_bytes: AtomicU64::new(super::memory::BASE_BYTES),
            above_bound: AtomicBool::new(false),
            reads: Reads::default(),
            dead_slots: Mutex::new(Vec::new()),
            dead: Mutex::default(),
            given_up: AtomicU64::new(0),
            deadline: Deadline::new(parts.options.delete_persist_ms),
            spill: Spill::new(parts.options.cemetery_max_bytes, parts.options.memory_bound_bytes),
            places: Places::default(),
            dead_runs: Arc::default(),
            mark: AtomicU64::new(0),
            freeze_right: Mutex::default(),
            flush_right: Mutex::default(),
            frozen: FrozenQueue::default(),
            checkpoint_file: Mutex::new(None),
            flushes: AtomicU64::new(0),
            compactions: AtomicU64::new(0),
            pace: Pace::default(),
            work: Work::default(),
            limiter: RateLimiter::new(parts.options.compaction_bytes_per_s),
            tables_dropped_dead: AtomicU64::new(0),
            memory_bound_bytes: AtomicU64::new(parts.options.memory_bound_bytes),
            memory_unsettled: AtomicBool::new(false),
            due_shard: AtomicU32::new(0),
            cold_due: Mutex::default(),
            burial_wanted: AtomicBool::new(true),
            rest: Rest::default(),
            sweep_turn: SweepTurn::default(),
            disk_claims: AtomicUsize::new(0),
            kick_wanted: AtomicBool::new(false),
            access_now: AtomicU32::new(0),
            poison: OnceLock::new(),
            health: Health::new(parts.options.events.clone()),
            closed: AtomicBool::new(false),
            dir_lock: Mutex::new(None),
            durable_callbacks: Mutex::new(Vec::new()),
            options: parts.options,
        };
        inner.pin_generation(generation);
        inner
    }

    pub(super) fn active_generation(&self) -> u8 {
        self.generation.load(Ordering::Acquire)
    }

    /// Makes `generation` the active one. All latches are held.
    pub(super) fn set_generation(&self, generation: u8) {
        self.pin_generation(generation);
        self.generation.store(generation, Ordering::Release);
    }

    fn pin_generation(&self, generation: u8) {
        let word = &self.pinned_generations[usize::from(generation >> 6)];
        word.fetch_or(1 << (generation & 63), Ordering::AcqRel);
    }

    /// The memtable of this generation is sorted: its entries may be evicted.
    pub(super) fn unpin_generation(&self, generation: u8) {
        let word = &self.pinned_generations[usize::from(generation >> 6)];
        word.fetch_and(!(1 << (generation & 63)), Ordering::AcqRel);
    }

    pub(super) fn is_pinned(&self, generation: u8) -> bool {
        let word = &self.pinned_generations[usize::from(generation >> 6)];
        word.load(Ordering::Acquire) >> (generation & 63) & 1 == 1
    }

    /// The access field that new entries get.
    pub(super) fn access_now(&self) -> u32 {
        self.access_now.load(Ordering::Relaxed)
    }

    /// The log buffer was empty before this commit: its thread must be woken after the batch.
    pub(super) fn log_wants_kick(&self) {
        self.kick_wanted.store(true, Ordering::Release);
    }

    /// Makes every word at least `seq`.
    pub(super) fn raise_write_words(&self, seq: Seq) {
        for word in &self.last_write {
            word.fetch_max(seq, Ordering::Release);
        }
    }

    /// Notes a write (N13), under the latch of its key. So a word has one writer at a time, whose
    /// sequences rise (I1), and needs no locked instruction. A raise that is overwritten here spoke of
    /// writes before this one.
    pub(super) fn note_write(&self, hash: u64, seq: Seq) {
        self.last_write[write_word(hash)].store(seq, Ordering::Release);
    }

    /// A grave was opened. Without puts no memtable ever fills, so graves are counted, too: their burial
    /// waits for the mark.
    pub(super) fn note_grave(&self, key_bytes: usize) {
        if self.spill.note_grave(key_bytes) {
            self.background.freeze_early();
        }
    }

    pub(super) fn note_dead(&self, slot: Slot, id: u64, d: Seq) {
        self.dead_slots.lock().push(DeadSlot { slot, id, d });
        self.dead.lock().insert(id, d);
        self.background.wake_flush();
    }

    /// The first panic or lost write of a worker: writes stop, reads go on.
    pub(super) fn poison(&self, reason: &str) {
        if self.poison.set(reason.to_owned()).is_ok() {
            self.health.poisoned(reason);
        }
    }

    /// A member of S is gone: what only it needed may go.
    pub(super) fn reader_left(&self) {
        self.burial_wanted.store(true, Ordering::Release);
        self.background.wake_compaction();
    }

    /// All latches in ascending order: nothing is half applied while the answer lives.
    pub(super) fn barrier(&self) -> Vec<super::latch::Latched<'_>> {
        self.shards.iter().map(|shard| shard.latch()).collect()
    }

    pub(super) fn policy(&self) -> SyncPolicy {
        SyncPolicy::from_u8(self.policy.load(Ordering::Acquire))
    }

    pub(super) fn store_policy(&self, policy: SyncPolicy) {
        self.policy.store(policy as u8, Ordering::Release);
    }

    pub(super) fn hash(&self, key: &[u8]) -> u64 {
        crate::key::hash(key)
    }

    /// Highest sequence that survives a crash together with everything before it (N2, N3).
    pub(super) fn durable(&self) -> Seq {
        if let Some(wbl) = self.wbl.get() {
            return wbl.pool().durable();
        }
        if self.policy() == SyncPolicy::Off {
            return self.commit.lock().next_seq - 1;
        }
        let logged = self.log.load().as_ref().map_or(0, |log| log.durable());
        logged.max(self.mark.load(Ordering::Acquire))
    }
}

impl Engine {
    pub(super) fn inner(&self) -> &Inner {
        &self.0
    }

    /// Hash of a user's key; the same for the life of the process.
    #[must_use]
    #[inline]
    pub fn hash(&self, key: &[u8]) -> u64 {
        self.0.hash(key)
    }

    /// The slot of logical database `db`. Changes only while all latches are held, so a value read
    /// before latching must be read again under the latch.
    #[must_use]
    pub fn slot_of(&self, db: usize) -> Slot {
        self.0.namespaces.slot_of(db)
    }

    /// Number of logical databases.
    #[must_use]
    pub fn databases(&self) -> usize {
        self.0.namespaces.databases()
    }

    /// Bytes of key and value to ask for where nobody knows them.
    pub const SHORT_ENTRY_BYTES: usize = 76;

    /// Hint: the bucket of `hash` will be looked at soon (first pass of a batch).
    #[inline]
    pub fn prefetch_bucket(&self, hash: u64) {
        self.0.shards[shard_of(hash)].hint.prefetch_bucket(hash);
    }

    /// Hint: the entry of `hash` will be looked at soon (second pass of a batch); its key and value are about
    /// `content_bytes` long.
    #[inline]
    pub fn prefetch_entry(&self, hash: u64, content_bytes: usize) {
        self.0.shards[shard_of(hash)].hint.prefetch_entry(hash, content_bytes);
    }

    /// Hint for a walk over many keys that has come to `at`: asks for those further on.
    #[inline]
    pub fn prefetch_ahead(&self, hashes: &[u64], at: usize) {
        if let Some(&hash) = hashes.get(at + 2 * AHEAD_KEYS) {
            self.prefetch_bucket(hash);
        }
        if let Some(&hash) = hashes.get(at + AHEAD_KEYS) {
            self.prefetch_entry(hash, Self::SHORT_ENTRY_BYTES);
        }
    }

    /// Takes the latches and starts a transaction.
    pub fn begin<'e>(&'e self, latched: Latched<'_>, buf: &'e mut TxBuf) -> Tx<'e> {
        Tx::begin(self, latched, buf)
    }

    /// The access field that entries get when they are written or loaded (24 bits).
    pub fn set_access_now(&self, access: u32) {
        self.0.access_now.store(access & 0xff_ffff, Ordering::Relaxed);
    }

    /// Highest sequence below which everything survives a crash.
    #[must_use]
    pub fn durable(&self) -> Seq {
        self.0.durable()
    }

    /// Nobody should wait any longer for a sequence up to this one to become durable: the log failed,
    /// and so did the flush that was to take its place. Whether it survives is unknown, so the reply
    /// is left out and the connection closed (N2). Callbacks of [`Engine::on_durable`] run when it moves.
    #[must_use]
    pub fn given_up_through(&self) -> Seq {
        self.0.given_up.load(Ordering::Acquire)
    }

    /// Last write sequence among the keys that share this hash's word (N13): a reply about the key
    /// may leave when `durable()` has reached it.
    #[must_use]
    pub fn last_write(&self, hash: u64) -> Seq {
        self.0.last_write[write_word(hash)].load(Ordering::Acquire)
    }

    /// Last sequence handed out; replies about the whole key space wait for it under `always`.
    #[must_use]
    pub fn last_seq(&self) -> Seq {
        self.0.commit.lock().next_seq - 1
    }

    /// Registers a callback that runs (on the log thread) each time `durable()` moves.
    pub fn on_durable(&self, callback: impl Fn(Seq) + Send + Sync + 'static) {
        self.0.durable_callbacks.lock().push(Box::new(callback));
    }

    /// Tells the log thread that a batch of commits is complete (under `always` it syncs now). To be
    /// called once a batch: waking it at the first commit would sync that one alone.
    pub fn kick_log(&self) {
        if self.0.kick_wanted.load(Ordering::Relaxed)
            && self.0.kick_wanted.swap(false, Ordering::AcqRel)
            && let Some(log) = self.0.log.load().as_ref()
        {
            log.kick();
        }
    }

    /// The current sync policy.
    #[must_use]
    pub fn sync_policy(&self) -> SyncPolicy {
        self.0.policy()
    }

    /// `Some(reason)` while writes must be refused (failed log: MISCONF; poisoned store).
    #[must_use]
    pub fn write_refusal(&self) -> Option<String> {
        if self.0.closed.load(Ordering::Acquire) {
            return Some("the store is closed".into());
        }
        let refusal = self.find_refusal();
        match &refusal {
            Some(reason) => self.0.health.fails(Fault::Refusal, || reason.clone()),
            None => self.0.health.works(Fault::Refusal),
        }
        refusal
    }

    fn find_refusal(&self) -> Option<String> {
        if let Some(reason) = self.0.poison.get() {
            return Some(format!("the store is poisoned: {reason}"));
        }
        if (self.0.memtable_is_overfull() || self.0.spill.is_overfull())
            && let Some(error) = self.0.background.last_error()
        {
            return Some(format!("flushes fail: {error}"));
        }
        if let Some(wbl) = self.0.wbl.get() {
            return wbl.failure();
        }
        self.0.log.load().as_ref().and_then(|log| log.failure())
    }

    /// True while writers must wait: log buffer full or unsynced for too long (N14), flushes
    /// behind, more new graves than the cemetery's bound allows, compaction so far behind that writers are
    /// slowed down, or too many unresolved overwrites (N9). Park the connection and ask again in a
    /// millisecond.
    #[must_use]
    pub fn must_wait(&self) -> bool {
        let inner = &self.0;
        let waits = inner.memtable_is_overfull()
            || (inner.options.background && inner.spill.is_overfull())
            || inner.pace.holds_up()
            || inner.unresolved.load(Ordering::Relaxed) > inner.options.unresolved_max
            || inner.log.load().as_ref().is_some_and(|log| log.must_wait());
        inner.pace.note_wait(waits);
        waits
    }

    /// What makes writers wait, for the log.
    fn wait_reason(&self) -> String {
        let inner = &self.0;
        if inner.memtable_is_overfull() {
            let (waiting, bytes) = (inner.frozen.len(), inner.options.memtable_bytes);
            format!("{waiting} memtables of {bytes} bytes are full and wait for their flush")
        } else if inner.spill.is_overfull() {
            "graves of deleted keys wait to leave memory (cemetery-max-memory)".to_owned()
        } else if inner.pace.holds_up() {
            let debt = self.compaction_debt_bytes();
            format!("compactions are {debt} bytes behind")
        } else if inner.unresolved.load(Ordering::Relaxed) > inner.options.unresolved_max {
            "overwrites of keys that are not in memory wait to be looked up".to_owned()
        } else {
            let log = inner.log.load();
            let (pending, age_ms) = log
                .as_ref()
                .map_or((0, 0), |log| (log.pending_bytes(), log.oldest_unsynced_age_ms()));
            format!(
                "the append only log waits for its device: {pending} bytes are not written, the oldest that is \
                 not synced has waited for {age_ms} ms"
            )
        }
    }

    /// Looks for what nobody may ask about: a stall, and whether a fault is over.
    pub(super) fn look_at_health(&self, now: Instant) {
        let inner = &self.0;
        // Begins and ends a refusal, whether a client asks or not.
        let is_refused = self.write_refusal().is_some();
        let stalled = match inner.pace.waiting_since() {
            // Who began to wait may have left: only then nobody asks again.
            Some(since) if self.must_wait() => Some(since),
            _ if inner.policy() == SyncPolicy::Always && !is_refused => {
                let age_ms =
                    inner.log.load().as_ref().map_or(0, |log| log.oldest_unsynced_age_ms());
                now.checked_sub(Duration::from_millis(age_ms))
            }
            _ => None,
        };
        match stalled {
            Some(since) if now.saturating_duration_since(since) > STALL => {
                inner.health.fails_since(Fault::Stall, since, || self.wait_reason());
            }
            _ => inner.health.works(Fault::Stall),
        }
        inner.health.settle(now, false);
    }
}

impl Inner {
    /// True with `deletes = tombstones`.
    #[inline]
    pub(super) fn has_tombstones(&self) -> bool {
        self.options.deletes == DeleteMode::Tombstones
    }

    /// True with `memtable = skiplist`.
    #[inline]
    pub(super) fn has_skip_lists(&self) -> bool {
        self.options.memtable == MemtableKind::SkipList
    }

    pub(super) fn compaction_options(&self) -> crate::tree::CompactionOptions {
        self.options.compaction
    }
}

impl Engine {
    pub(super) fn compaction_debt_bytes(&self) -> u64 {
        crate::tree::debt(&self.0.versions.current(), &self.0.compaction_options())
    }

    /// Sets the pace of writers, after the tables have changed. Without background threads nobody but
    /// the caller would work the debt off.
    pub(super) fn adjust_pace(&self) {
        let inner = self.inner();
        if inner.options.background {
            let debt = self.compaction_debt_bytes();
            inner.pace.set(debt, inner.options.memtable_bytes, Instant::now());
        }
    }
}

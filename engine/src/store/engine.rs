//! The engine handle, what it shares, and the small operations on it.

use super::flush::flusher::Flusher;
use super::graveyard::Graveyard;
use super::namespace::Namespaces;
use super::options::{EngineOptions, SyncPolicy};
use super::paper::{DeadKeys, RecordOrder};
use super::read::cold_queue::ColdReads;
use super::read::superversion::SuperVersion;
use super::read::views::Views;
use super::shard::{Shard, shard_of};
use super::upkeep::Upkeep;
use super::upkeep::budget::MemoryBudget;
use super::upkeep::events::{Fault, STALL};
use super::upkeep::figures::Figures;
use super::write::commit::CommitState;
use super::write::write_path::WritePath;
use crate::dram::{DueAlarm, PagePool};
pub(super) use crate::error::EngineError;
use crate::key::{Seq, Slot};
use crate::memtable::ChunkPool;
use crate::tree::VersionSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long a barrier that holds other latches waits for one more.
const BARRIER_WAIT: Duration = Duration::from_millis(2);

/// How far ahead of a walk over keys their entries are asked for; their buckets twice as far.
const AHEAD_KEYS: usize = 8;

/// The parts of a store. Each owns its locks.
pub(super) struct Inner {
    pub(super) options: EngineOptions,
    /// How deletes are kept, as `options.deletes` says.
    pub(super) dead_keys: &'static dyn DeadKeys,
    /// How memtables order their records, as `options.memtable` says.
    pub(super) order: &'static dyn RecordOrder,
    /// Latches, tables in memory, and the graves in memory.
    pub(super) shards: Box<[Shard]>,
    pub(super) namespaces: Namespaces,
    pub(super) write: WritePath,
    pub(super) views: Views,
    pub(super) flusher: Flusher,
    /// The tree: its current version, and the manifest.
    pub(super) versions: VersionSet,
    pub(super) graveyard: Graveyard,
    pub(super) upkeep: Upkeep,
    pub(super) memory: MemoryBudget,
    pub(super) cold: ColdReads,
    pub(super) figures: Figures,
}

/// A handle to one open store; clones share it.
#[derive(Clone)]
pub struct Engine(pub(super) Arc<Inner>);

/// What recovery makes a store of.
pub(super) struct Parts {
    pub(super) options: EngineOptions,
    pub(super) dead_keys: &'static dyn DeadKeys,
    pub(super) order: &'static dyn RecordOrder,
    pub(super) shards: Box<[Shard]>,
    pub(super) pages: Arc<PagePool>,
    pub(super) commit: CommitState,
    pub(super) namespaces: Namespaces,
    pub(super) superversion: SuperVersion,
    pub(super) versions: VersionSet,
    pub(super) pool: Arc<ChunkPool>,
    pub(super) due_alarm: Arc<DueAlarm>,
}

impl Inner {
    pub(super) fn new(parts: Parts) -> Self {
        let options = parts.options;
        let generation = parts.superversion.active.generation;
        let encodes_in_place = parts.order.encodes_in_place();
        Self {
            dead_keys: parts.dead_keys,
            order: parts.order,
            shards: parts.shards,
            namespaces: parts.namespaces,
            write: WritePath::new(parts.commit, options.sync_policy, encodes_in_place),
            views: Views::new(parts.superversion, &options),
            flusher: Flusher::new(generation, options.sync_policy),
            versions: parts.versions,
            graveyard: Graveyard::new(&options),
            upkeep: Upkeep::new(&options, parts.due_alarm),
            memory: MemoryBudget::new(parts.pages, parts.pool, &options),
            cold: ColdReads::new(options.cold_read_threads),
            figures: Figures::default(),
            options,
        }
    }

    /// A member of S is gone: what only it needed may go.
    pub(super) fn reader_left(&self) {
        self.graveyard.reader_left(&self.upkeep.background);
    }

    /// All latches in ascending order: nothing is half applied while the answer lives.
    pub(super) fn barrier(&self) -> Vec<super::latch::Latched<'_>> {
        loop {
            match self.try_barrier() {
                Ok(held) => return held,
                // A script may hold it for long: nobody else is kept waiting for that.
                Err(busy) => drop(busy.latch()),
            }
        }
    }

    /// The same, or the shard whose latch somebody holds for longer than a barrier waits; none is held then.
    pub(super) fn try_barrier(&self) -> Result<Vec<super::latch::Latched<'_>>, &Shard> {
        let mut held = Vec::with_capacity(self.shards.len());
        for shard in &self.shards {
            held.push(shard.latch_within(BARRIER_WAIT).ok_or(shard)?);
        }
        Ok(held)
    }

    pub(super) fn policy(&self) -> SyncPolicy {
        self.write.policy()
    }

    pub(super) fn hash(&self, key: &[u8]) -> u64 {
        crate::work::note_hash();
        crate::key::hash(key)
    }

    /// Highest sequence that survives a crash together with everything before it (N2, N3).
    pub(super) fn durable(&self) -> Seq {
        self.write.durable(self.flusher.mark.load(Ordering::Acquire))
    }
}

impl Engine {
    pub(super) fn inner(&self) -> &Inner {
        &self.0
    }

    /// Hash of a user's key; constant for the life of the process.
    #[must_use]
    #[inline]
    pub fn hash(&self, key: &[u8]) -> u64 {
        self.0.hash(key)
    }

    /// The slot of logical database `db`, or of [`OWN_RECORDS`](crate::OWN_RECORDS). Changes only while all latches are held, so a value read
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

    /// Hint: the entry of `hash` will be removed soon (second pass of a batch).
    #[inline]
    pub fn prefetch_removal(&self, hash: u64) {
        self.0.shards[shard_of(hash)].hint.prefetch_page(hash);
    }

    /// Hint for a walk over many keys that begins: asks for the first of them.
    #[inline]
    pub fn prefetch_first(&self, hashes: &[u64]) {
        let first = &hashes[..hashes.len().min(2 * AHEAD_KEYS)];
        first.iter().for_each(|&hash| self.prefetch_bucket(hash));
        first.iter().for_each(|&hash| self.prefetch_entry(hash, Self::SHORT_ENTRY_BYTES));
    }

    /// Like [`Engine::prefetch_first`], for a walk that has reached `at`: prefetches the keys ahead of it.
    #[inline]
    pub fn prefetch_ahead(&self, hashes: &[u64], at: usize) {
        if let Some(&hash) = hashes.get(at + 2 * AHEAD_KEYS) {
            self.prefetch_bucket(hash);
        }
        if let Some(&hash) = hashes.get(at + AHEAD_KEYS) {
            self.prefetch_entry(hash, Self::SHORT_ENTRY_BYTES);
        }
    }

    /// Like [`Engine::prefetch_ahead`], for keys that will be removed.
    #[inline]
    pub fn prefetch_removals_ahead(&self, hashes: &[u64], at: usize) {
        self.prefetch_ahead(hashes, at);
        if let Some(&hash) = hashes.get(at + AHEAD_KEYS) {
            self.prefetch_removal(hash);
        }
    }

    /// The access field that entries get when they are written or loaded (24 bits).
    pub fn set_access_now(&self, access: u32) {
        self.0.write.set_access_now(access);
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
        self.0.write.given_up.load(Ordering::Acquire)
    }

    /// Last write sequence among the keys that share this hash's word (N13): a reply about the key
    /// may leave when `durable()` has reached it.
    #[must_use]
    pub fn last_write(&self, hash: u64) -> Seq {
        self.0.write.last_write(hash)
    }

    /// Last sequence handed out; replies about the whole key space wait for it under `always`.
    #[must_use]
    pub fn last_seq(&self) -> Seq {
        self.0.write.last_seq()
    }

    /// Registers a callback that runs (on the log thread) each time `durable()` moves.
    pub fn on_durable(&self, callback: impl Fn(Seq) + Send + Sync + 'static) {
        self.0.write.durable_callbacks.lock().push(Box::new(callback));
    }

    /// Tells the log thread that a batch of commits is complete (under `always` it syncs now). To be
    /// called once a batch: waking it at the first commit would sync that one alone.
    pub fn kick_log(&self) {
        self.0.write.kick_log();
    }

    /// The current sync policy.
    #[must_use]
    pub fn sync_policy(&self) -> SyncPolicy {
        self.0.policy()
    }

    /// `Some(reason)` while writes must be refused (failed log: MISCONF; poisoned store).
    #[must_use]
    pub fn write_refusal(&self) -> Option<String> {
        if self.0.upkeep.closed.load(Ordering::Acquire) {
            return Some("the store is closed".into());
        }
        let refusal = self.find_refusal();
        match &refusal {
            Some(reason) => self.0.upkeep.health.fails(Fault::Refusal, || reason.clone()),
            None => self.0.upkeep.health.works(Fault::Refusal),
        }
        refusal
    }

    fn find_refusal(&self) -> Option<String> {
        if let Some(reason) = self.0.upkeep.poison.get() {
            return Some(format!("the store is poisoned: {reason}"));
        }
        if let Some(error) = self.0.upkeep.background.last_error()
            && (self.0.memtable_is_overfull() || self.0.graveyard.spill.is_overfull())
        {
            return Some(format!("flushes fail: {error}"));
        }
        if let Some(wbl) = self.0.write.wbl.get() {
            return wbl.failure();
        }
        self.0.write.log.load().as_ref().and_then(|log| log.failure())
    }

    /// True while writers must wait: log buffer full or unsynced for too long (N14), flushes
    /// behind, more new graves than the cemetery's bound allows, compaction so far behind that writers are
    /// slowed down, or too many unresolved overwrites (N9). Park the connection and ask again in a
    /// millisecond.
    #[must_use]
    pub fn must_wait(&self) -> bool {
        let inner = &self.0;
        let waits = inner.memtable_is_overfull()
            || (inner.options.background && inner.graveyard.spill.is_overfull())
            || inner.write.pace.holds_up()
            || inner.flusher.unresolved.load(Ordering::Relaxed) > inner.options.unresolved_max
            || inner.write.log.load().as_ref().is_some_and(|log| log.must_wait());
        inner.write.pace.note_wait(waits);
        waits
    }

    /// What makes writers wait, for the log.
    fn wait_reason(&self) -> String {
        let inner = &self.0;
        if inner.memtable_is_overfull() {
            let (waiting, bytes) =
                (inner.flusher.frozen.len(), inner.memory.shares.memtable_bytes());
            format!("{waiting} memtables of {bytes} bytes are full and wait for their flush")
        } else if inner.graveyard.spill.is_overfull() {
            "graves of deleted keys wait to leave memory (cemetery-max-memory)".to_owned()
        } else if inner.write.pace.holds_up() {
            let debt = self.compaction_debt_bytes();
            format!("compactions are {debt} bytes behind")
        } else if inner.flusher.unresolved.load(Ordering::Relaxed) > inner.options.unresolved_max {
            "overwrites of keys that are not in memory wait to be looked up".to_owned()
        } else {
            let log = inner.write.log.load();
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
        let stalled = match inner.write.pace.waiting_since() {
            // The thread that began to wait may have left: only then nobody asks again.
            Some(since) if self.must_wait() => Some(since),
            _ if inner.policy() == SyncPolicy::Always && !is_refused => {
                let age_ms =
                    inner.write.log.load().as_ref().map_or(0, |log| log.oldest_unsynced_age_ms());
                now.checked_sub(Duration::from_millis(age_ms))
            }
            _ => None,
        };
        match stalled {
            Some(since) if now.saturating_duration_since(since) > STALL => {
                inner.upkeep.health.fails_since(Fault::Stall, since, || self.wait_reason());
            }
            _ => inner.upkeep.health.works(Fault::Stall),
        }
        inner.upkeep.health.end_episodes(now, false);
    }
}

impl Inner {
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
            inner.write.pace.set(debt, inner.memory.shares.memtable_bytes(), Instant::now());
        }
    }
}

//! What a commit goes through: sequences and the log, how fast writers may be, and what replies wait for.

use crate::key::Seq;
use crate::store::options::SyncPolicy;
use crate::store::shard::{SHARDS, shard_of};
use crate::store::wbl::Wbl;
use crate::store::write::commit::CommitState;
use crate::store::write::pace::Pace;
use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use sexton_persistence::aof::Log;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// What runs when `durable` has moved.
type DurableCallback = Box<dyn Fn(Seq) + Send + Sync>;

/// Words of the table that says which write a reply must wait for (N13).
const WRITE_WORDS: usize = 4096;

/// The word of a hash, by the bits that choose the shard and some others: no two shards share a word.
fn write_word(hash: u64) -> usize {
    const WORDS_A_SHARD: usize = WRITE_WORDS / SHARDS;
    shard_of(hash) * WORDS_A_SHARD + hash as usize % WORDS_A_SHARD
}

/// The state that writers of a store share.
pub(in crate::store) struct WritePath {
    pub(in crate::store) commit: crate::sync::Mutex<CommitState>,
    pub(in crate::store) log: ArcSwapOption<Log>,
    /// Where memtables are, with `persistence-mode wbl`; set at the end of recovery.
    pub(in crate::store) wbl: OnceLock<Arc<Wbl>>,
    policy: AtomicU8,
    /// Held while the policy changes: one change at a time.
    pub(in crate::store) policy_change: Mutex<()>,
    pub(in crate::store) pace: Pace,
    /// Writes up to here whose log failed, and for whom the self-contained flush failed too (N2).
    pub(in crate::store) given_up: AtomicU64,
    pub(in crate::store) durable_callbacks: Mutex<Vec<DurableCallback>>,
    /// A put that commits by itself encodes its record where it stays.
    pub(in crate::store) encodes_in_place: bool,
    last_write: Box<[AtomicU64]>,
    kick_wanted: AtomicBool,
    access_now: AtomicU32,
}

impl WritePath {
    pub(in crate::store) fn new(
        commit: CommitState,
        policy: SyncPolicy,
        encodes_in_place: bool,
    ) -> Self {
        Self {
            commit: crate::sync::Mutex::new(commit),
            log: ArcSwapOption::empty(),
            wbl: OnceLock::new(),
            policy: AtomicU8::new(policy as u8),
            policy_change: Mutex::new(()),
            pace: Pace::default(),
            given_up: AtomicU64::new(0),
            durable_callbacks: Mutex::new(Vec::new()),
            encodes_in_place,
            last_write: (0..WRITE_WORDS).map(|_| AtomicU64::new(0)).collect(),
            kick_wanted: AtomicBool::new(false),
            access_now: AtomicU32::new(0),
        }
    }

    pub(in crate::store) fn policy(&self) -> SyncPolicy {
        SyncPolicy::from_u8(self.policy.load(Ordering::Acquire))
    }

    pub(in crate::store) fn store_policy(&self, policy: SyncPolicy) {
        self.policy.store(policy as u8, Ordering::Release);
    }

    /// The last sequence handed out.
    pub(in crate::store) fn last_seq(&self) -> Seq {
        self.commit.lock().next_seq - 1
    }

    /// The access field that new entries get.
    pub(in crate::store) fn access_now(&self) -> u32 {
        self.access_now.load(Ordering::Relaxed)
    }

    /// Sets the access field that new entries get (24 bits).
    pub(in crate::store) fn set_access_now(&self, access: u32) {
        self.access_now.store(access & 0xff_ffff, Ordering::Relaxed);
    }

    /// The log buffer was empty before this commit: its thread must be woken after the batch.
    pub(in crate::store) fn log_wants_kick(&self) {
        self.kick_wanted.store(true, Ordering::Release);
    }

    /// Wakes the log's thread if a commit asked for it.
    pub(in crate::store) fn kick_log(&self) {
        if self.kick_wanted.load(Ordering::Relaxed)
            && self.kick_wanted.swap(false, Ordering::AcqRel)
            && let Some(log) = self.log.load().as_ref()
        {
            log.kick();
        }
    }

    /// Makes every word at least `seq`.
    pub(in crate::store) fn raise_write_words(&self, seq: Seq) {
        for word in &self.last_write {
            word.fetch_max(seq, Ordering::Release);
        }
    }

    /// Notes a write (N13), under the latch of its key. So a word has one writer at a time, whose
    /// sequences rise (I1), and needs no locked instruction. A raise that is overwritten here spoke of
    /// writes before this one.
    pub(in crate::store) fn note_write(&self, hash: u64, seq: Seq) {
        self.last_write[write_word(hash)].store(seq, Ordering::Release);
    }

    /// Last write sequence among the keys that share this hash's word (N13).
    pub(in crate::store) fn last_write(&self, hash: u64) -> Seq {
        self.last_write[write_word(hash)].load(Ordering::Acquire)
    }

    /// Highest sequence that survives a crash together with everything before it (N2, N3); `mark` is the last one
    /// that a flush has installed.
    pub(in crate::store) fn durable(&self, mark: Seq) -> Seq {
        if let Some(wbl) = self.wbl.get() {
            return wbl.pool().durable();
        }
        if self.policy() == SyncPolicy::Off {
            return self.last_seq();
        }
        let logged = self.log.load().as_ref().map_or(0, |log| log.durable());
        logged.max(mark)
    }
}

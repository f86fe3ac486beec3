//! Eviction of keys (`maxmemory-policy`): what the code that chooses victims must know.
//!
//! While keys are evicted, the data lives in memory: no entry leaves the DRAM table silently, and
//! the owner of the store deletes keys, as ordinary logged writes, until
//! [`Engine::over_bound`] is false. Keys that are only on a device (written before the store was
//! opened) are no candidates before they are loaded: they hold no memory.

use crate::dram::EntryRef;
use crate::store::engine::Engine;
use crate::store::shard::{SHARDS, ShardState, shard_of};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Due times looked at for each key with an expiry that is asked for.
const LOOKS_PER_KEY: usize = 8;

/// A key in memory that could be evicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Logical database.
    pub db: usize,
    /// The user's bytes.
    pub key: Vec<u8>,
    /// The 24-bit access field.
    pub access: u32,
    /// Expiry in ms since the epoch; 0 for none.
    pub expire_at_ms: u64,
}

/// While an emptied database is swept, the room for data may be exceeded by itself divided by this.
const EXCESS_SHARE: usize = 16;

/// ... and by at least this many bytes.
const EXCESS_BYTES_MIN: usize = 8 << 20;

/// Of a shard's memory, one part of this many may be free before its pages are gathered.
const FREE_SHARE: usize = 8;

impl Engine {
    /// Says whether keys are evicted (a policy other than `noeviction`), or entries that files
    /// hold leave memory instead. [`Engine::apply_memory_bound`] must follow where no latch is held.
    pub fn note_evicts_keys(&self, on: bool) {
        let inner = self.inner();
        inner.memory.evicts_keys.store(on, Ordering::Relaxed);
        inner.memory.memory_unsettled.store(true, Ordering::Release);
    }

    /// True when keys are evicted at the bound.
    #[must_use]
    pub fn evicts_keys(&self) -> bool {
        self.inner().memory.evicts_keys.load(Ordering::Relaxed)
    }

    /// True while keys are evicted, and those in memory and clients, which hold `client_bytes`, take more together than
    /// the memory bound leaves them. Pages of collections that are gone do not count: they leave soon.
    #[must_use]
    #[inline]
    pub fn over_bound(&self, client_bytes: usize) -> bool {
        let (memory, graveyard) = (&self.inner().memory, &self.inner().graveyard);
        let data = || memory.data_bytes.load(Ordering::Relaxed).saturating_add(client_bytes);
        let leaving = || graveyard.leaving_bytes.load(Ordering::Relaxed);
        let room = || memory.room_bytes.load(Ordering::Relaxed).saturating_add(leaving());
        memory.evicts_keys.load(Ordering::Relaxed) && data() > room()
    }

    /// True while entries of an emptied database still take enough bytes to account for the excess over the bound. They
    /// are removed soon, and nothing has to be evicted for them.
    #[must_use]
    pub fn waits_for_emptied(&self, client_bytes: usize) -> bool {
        let inner = self.inner();
        let swept = inner.graveyard.emptied_swept.load(Ordering::Acquire);
        if swept >= inner.graveyard.emptied.load(Ordering::Acquire) {
            return false;
        }
        inner.upkeep.background.wake_flush();
        let room = inner.memory.room_bytes.load(Ordering::Relaxed);
        let data = inner.memory.data_bytes.load(Ordering::Relaxed);
        // Of a large database it takes a while.
        let excess = (room / EXCESS_SHARE).max(EXCESS_BYTES_MIN);
        data.saturating_add(client_bytes) <= room.saturating_add(excess)
    }

    /// Some keys in memory, about `count` where there are as many, from a shard and a place that
    /// `random` chooses; with `volatile`, keys with an expiry only. Empty: there are none.
    #[must_use]
    pub fn sample(&self, random: u64, count: usize, volatile: bool) -> Vec<Candidate> {
        let inner = self.inner();
        // A bucket is chosen by the low bits of the place, so the shard must not be: else each shard would show the same few
        // of its buckets always.
        let (first, place) = (shard_of(random), random.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut found = Vec::with_capacity(count);
        for step in 0..SHARDS {
            let shard = &inner.shards[(first + step) % SHARDS];
            let state = shard.latch();
            let push = |found: &mut Vec<Candidate>, entry: &EntryRef<'_>| {
                let meta = entry.meta();
                let slot = entry.slot();
                let db = (0..self.databases()).find(|&db| self.slot_of(db) == slot);
                if let Some(db) = db {
                    found.push(Candidate {
                        db,
                        key: entry.key().to_vec(),
                        access: entry.access(),
                        expire_at_ms: meta.expire_at_ms,
                    });
                }
            };
            if volatile {
                // Databases that were emptied may hold some that are no candidates.
                state.table.sample_expiring(place, LOOKS_PER_KEY * count, |entry| {
                    push(&mut found, entry);
                    found.len() < count
                });
            } else {
                state.table.sample(place, count, |entry| push(&mut found, entry));
            }
            if !found.is_empty() {
                found.truncate(count);
                return found;
            }
        }
        found
    }

    /// Brings the sum over all shards up to date. The latch of `shard` is held. Answers by how much it has grown.
    pub(in crate::store) fn note_table_bytes(&self, shard: &mut ShardState) -> usize {
        let inner = self.inner();
        shard.pages.note_held();
        let bytes = shard.table_bytes();
        let grown = bytes.saturating_sub(shard.noted_bytes);
        let note = |noted: &mut usize, now: usize, sum: &AtomicUsize| {
            if now != *noted {
                // Two's complement: the sum is exact whatever the order.
                sum.fetch_add(now.wrapping_sub(*noted), Ordering::Relaxed);
                *noted = now;
            }
        };
        inner.memory.table_bound.note(shard.number, shard.noted_bytes, bytes);
        shard.noted_bytes = bytes;
        let mapped = shard.mapped_bytes();
        note(&mut shard.noted_mapped_bytes, mapped, &inner.memory.table_mapped_bytes);
        if inner.memory.shares.bound_bytes() != 0 {
            let data = shard.data_bytes();
            note(&mut shard.noted_data_bytes, data, &inner.memory.data_bytes);
        }
        grown
    }

    /// Keys are evicted one by one, wherever they are: what they leave free is brought together, so
    /// that pages go back, while the tables hold `excess` bytes too much. The latch of `shard` is held.
    pub(in crate::store) fn give_pages_back(&self, shard: &mut ShardState, excess: usize) {
        if excess > 0 && shard.table.free_bytes() > shard.table.bytes() / FREE_SHARE {
            shard.table.evict(excess, &mut |_| false);
        }
    }
}

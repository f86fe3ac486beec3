//! How the bound of the DRAM tables is kept: by whoever adds to one of them.
//!
//! When all shards together are above the bound, the shard that has grown gives up entries that files hold, but keeps the
//! most part of an equal share. The rest comes from the others: so does one turn of a few in any case, each shard being
//! chosen as often as its bytes say, as one clock over all shards would come by. Shards that nobody uses therefore become
//! smaller, those with many misses larger.

use crate::dram::{EntryRef, Evicted};
use crate::store::engine::Engine;
use crate::store::read::load::Loads;
use crate::store::shard::ShardState;
use std::sync::atomic::Ordering;

/// One turn of this many makes room in another shard.
const ELSEWHERE_EVERY: u64 = 8;

impl Engine {
    /// Evicts entries that files or sorted memtables hold while all tables together are above their bound: from this shard,
    /// whose latch is held, and from others whose latches are free.
    pub(in crate::store) fn keep_within_bound(&self, shard: &mut ShardState) {
        let inner = self.inner();
        let bound = &inner.memory.table_bound;
        // Requests, flushes and merges of the next moment may take as much before they are measured.
        if self.note_table_bytes(shard) > bound.equal_share() {
            inner.memory.holds_large.store(true, Ordering::Relaxed);
        }
        let excess = bound.excess_bytes();
        if inner.memory.evicts_keys.load(Ordering::Relaxed) {
            self.give_pages_back(shard, excess);
            return;
        }
        if excess == 0 {
            return;
        }
        let own = bound.own_part(shard.table_bytes(), excess);
        let is_turn_of_others = shard.room_turns.next().is_multiple_of(ELSEWHERE_EVERY);
        let mut freed = Evicted::default();
        if own < excess || is_turn_of_others {
            freed =
                self.evict_elsewhere(shard, if is_turn_of_others { excess } else { excess - own });
        }
        let own = own.min(excess.saturating_sub(freed.bytes));
        if own > 0 {
            let of_own = self.evict_from(shard, own);
            freed.entries += of_own.entries;
            freed.bytes += of_own.bytes;
        }
        if freed == Evicted::default() {
            inner.memory.holds_large.store(true, Ordering::Relaxed);
            inner.upkeep.background.freeze_early();
        }
    }

    /// A shard, whose latch is held, gives up its part of what is too much.
    pub(in crate::store) fn give_up_part(&self, shard: &mut ShardState) {
        let bound = &self.inner().memory.table_bound;
        self.note_table_bytes(shard);
        if self.inner().memory.evicts_keys.load(Ordering::Relaxed) {
            self.give_pages_back(shard, bound.excess_bytes());
            return;
        }
        let (excess, all) = (bound.excess_bytes() as u128, bound.held_bytes() as u128);
        let part = (excess * shard.table_bytes() as u128).div_ceil(all.max(1)) as usize;
        if part > 0 {
            self.evict_from(shard, part);
        }
    }

    /// Makes room in another shard, unless somebody is at work there.
    fn evict_elsewhere(&self, shard: &ShardState, bytes: usize) -> Evicted {
        let inner = self.inner();
        let other = inner.memory.table_bound.shard_at(shard.room_turns.random(shard.number));
        if other == shard.number {
            return Evicted::default();
        }
        match inner.shards[other].latch.try_take() {
            Some(mut other) => self.evict_from(&mut other, bytes),
            None => Evicted::default(),
        }
    }

    /// Evicts about this many bytes from a shard whose latch is held. Pages and keys give their shares.
    fn evict_from(&self, shard: &mut ShardState, bytes: usize) -> Evicted {
        let inner = self.inner();
        let may_go = |loads: &Loads, entry: &EntryRef<'_>| {
            !inner.flusher.is_pinned(entry.generation())
                && (loads.is_empty() || loads.get(entry.slot(), entry.key()).is_none())
        };
        let held = shard.table_bytes();
        let page_loads = &shard.page_loads;
        let mut evicted = shard.pages.evict((bytes, held), &mut |entry| may_go(page_loads, entry));
        let rest = bytes.saturating_sub(evicted.bytes);
        let loads = &shard.loads;
        let of_keys = shard.table.evict(rest, &mut |entry| may_go(loads, entry));
        evicted.entries += of_keys.entries;
        evicted.bytes += of_keys.bytes;
        if evicted.entries > 0 {
            inner.cold.evicted.fetch_add(evicted.entries as u64, Ordering::Relaxed);
            shard.complete = false;
        }
        self.note_table_bytes(shard);
        evicted
    }
}

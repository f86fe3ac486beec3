//! The bound of the DRAM tables: one for all shards together, kept by whoever adds to one of them.
//!
//! A shard may hold whatever the others leave, since a collection lies in one shard however large it is. When all of them
//! together are above the bound, the shard that has grown gives up entries that files hold, but keeps the most part of an
//! equal share. The rest comes from the others: so does one turn of a few in any case, each shard being chosen as often as
//! its bytes say, as one clock over all shards would come by. Shards that nobody uses therefore become smaller, those with
//! many misses larger.

use crate::dram::{EntryRef, Evicted};
use crate::store::engine::Engine;
use crate::store::read::load::Loads;
use crate::store::shard::{SHARDS, ShardState};
use std::sync::atomic::{AtomicUsize, Ordering};

/// One turn of this many makes room in another shard.
const ELSEWHERE_EVERY: u64 = 8;

/// A shard gives nothing up, for its own sake, below an equal share less this part of it.
const KEPT_SHARE: usize = 8;

/// Bytes that the tables of all shards may hold, and what they hold as of their last transactions.
pub(in crate::store) struct TableBound {
    /// `usize::MAX` without `maxmemory`.
    bytes: AtomicUsize,
    held_bytes: AtomicUsize,
    held_by_shard: [AtomicUsize; SHARDS],
}

impl Default for TableBound {
    fn default() -> Self {
        Self {
            bytes: AtomicUsize::new(usize::MAX),
            held_bytes: AtomicUsize::new(0),
            held_by_shard: [const { AtomicUsize::new(0) }; SHARDS],
        }
    }
}

impl TableBound {
    /// The bound; `usize::MAX` for none.
    pub(in crate::store) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(in crate::store) fn set(&self, bytes: usize) {
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    /// What the tables of all shards hold.
    pub(in crate::store) fn held_bytes(&self) -> usize {
        self.held_bytes.load(Ordering::Relaxed)
    }

    /// A shard holds this much now, and `before` when it was noted last.
    pub(in crate::store) fn note(&self, shard: usize, before: usize, now: usize) {
        if before != now {
            // Two's complement: the sum is exact whatever the order.
            self.held_bytes.fetch_add(now.wrapping_sub(before), Ordering::Relaxed);
            self.held_by_shard[shard].store(now, Ordering::Relaxed);
        }
    }

    /// What is too much.
    pub(in crate::store) fn excess_bytes(&self) -> usize {
        self.held_bytes().saturating_sub(self.bytes())
    }

    fn equal_share(&self) -> usize {
        self.bytes() / SHARDS
    }

    /// What a shard that holds `held` gives up for its own sake.
    fn own_part(&self, held: usize, excess: usize) -> usize {
        let equal = self.equal_share();
        excess.min(held.saturating_sub(equal - equal / KEPT_SHARE))
    }

    /// The shard in which the byte lies to which `random` points.
    fn shard_at(&self, random: u64) -> usize {
        let all = self.held_by_shard.iter().map(|held| held.load(Ordering::Relaxed));
        let mut at = ((u128::from(random) * all.clone().sum::<usize>() as u128) >> 64) as usize;
        for (shard, held) in all.enumerate() {
            match at.checked_sub(held) {
                Some(rest) => at = rest,
                None => return shard,
            }
        }
        0
    }
}

/// Whose turn it is to give something up.
#[derive(Default)]
pub(in crate::store) struct RoomTurns(u64);

impl RoomTurns {
    fn next(&mut self) -> u64 {
        self.0 += 1;
        self.0
    }

    /// A number that differs from turn to turn.
    fn random(&self, shard: usize) -> u64 {
        let mut mixed = ((self.0 << 6) | shard as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^= mixed >> 32;
        mixed.wrapping_mul(0xd6e8_feb8_6659_fd93)
    }
}

impl Engine {
    /// Evicts entries that files or sorted memtables hold while all tables together are above their bound: from this shard,
    /// whose latch is held, and from others whose latches are free.
    pub(in crate::store) fn keep_within_bound(&self, shard: &mut ShardState) {
        let inner = self.inner();
        let bound = &inner.memory.table_bound;
        // Requests, flushes and merges of the next moment may take as much before they are measured.
        if shard.table_bytes() > bound.equal_share().saturating_add(shard.noted_bytes) {
            inner.memory.holds_large.store(true, Ordering::Relaxed);
        }
        self.note_table_bytes(shard);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(bytes: usize, held: &[(usize, usize)]) -> TableBound {
        let bound = TableBound::default();
        bound.set(bytes);
        held.iter().for_each(|&(shard, bytes)| bound.note(shard, 0, bytes));
        bound
    }

    #[test]
    fn one_shard_may_hold_what_the_others_leave() {
        let of_one = bound(64_000, &[(5, 63_000), (6, 1_000)]);
        assert_eq!(of_one.excess_bytes(), 0);
        of_one.note(6, 1_000, 1_500);
        assert_eq!(of_one.excess_bytes(), 500);
        // The small one keeps most of an equal share of 1,000, the large one gives all.
        assert_eq!((of_one.own_part(800, 500), of_one.own_part(1_100, 500)), (0, 225));
        assert_eq!(of_one.own_part(63_000, 500), 500);
        of_one.set(0);
        assert_eq!(of_one.own_part(1_500, of_one.excess_bytes()), 1_500, "all goes");
    }

    #[test]
    fn shards_are_chosen_as_often_as_their_bytes_say() {
        let bound = bound(0, &[(3, 3_000), (63, 1_000)]);
        let mut turns = RoomTurns::default();
        let mut chosen = [0; SHARDS];
        for _ in 0..4_000 {
            turns.next();
            chosen[bound.shard_at(turns.random(7))] += 1;
        }
        assert_eq!(chosen[3] + chosen[63], 4_000);
        assert!((2_800..3_200).contains(&chosen[3]), "{chosen:?}");
        assert_eq!((bound.shard_at(0), bound.shard_at(u64::MAX)), (3, 63));
    }
}

//! The bound of the DRAM tables: one for all shards together.
//!
//! A shard may hold whatever the others leave, since a collection lies in one shard however large it is. How the bound is
//! kept is in `keep_bound.rs`.

use crate::store::shard::SHARDS;
use std::sync::atomic::{AtomicUsize, Ordering};

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

    pub(in crate::store) fn equal_share(&self) -> usize {
        self.bytes() / SHARDS
    }

    /// What a shard that holds `held` gives up for its own sake.
    pub(in crate::store) fn own_part(&self, held: usize, excess: usize) -> usize {
        let equal = self.equal_share();
        excess.min(held.saturating_sub(equal - equal / KEPT_SHARE))
    }

    /// The shard in which the byte lies to which `random` points.
    pub(in crate::store) fn shard_at(&self, random: u64) -> usize {
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
    pub(in crate::store) fn next(&mut self) -> u64 {
        self.0 += 1;
        self.0
    }

    /// A number that differs from turn to turn.
    pub(in crate::store) fn random(&self, shard: usize) -> u64 {
        let mut mixed = ((self.0 << 6) | shard as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^= mixed >> 32;
        mixed.wrapping_mul(0xd6e8_feb8_6659_fd93)
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

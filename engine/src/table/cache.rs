//! The block cache: sharded, bounded in bytes, and not washed out by one long scan.

use super::block::Block;
use hashbrown::HashMap;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const SHARDS_MAX: usize = 32;
/// A small cache has fewer shards: in one that holds a few blocks only, hardly any block would be small
/// enough to be kept.
const SHARD_BYTES_MIN: u64 = 512 << 10;
/// Cost of an entry besides its block: map slot, queue slot, reference counts.
const ENTRY_OVERHEAD_BYTES: usize = 96;

/// Number of a table and offset of the block in it. Numbers are never used again.
type Address = (u64, u64);

#[derive(Debug)]
struct Slot {
    block: Arc<Block>,
    bytes: usize,
    /// Read again since it was put into its queue.
    touched: bool,
    /// In the protected queue.
    protected: bool,
}

/// Two queues: blocks enter on probation; one that is read again before its turn to leave moves
/// to the protected queue, which is a clock and may hold three quarters of the bytes.
#[derive(Debug, Default)]
struct Shard {
    map: HashMap<Address, Slot, foldhash::fast::FixedState>,
    probation: VecDeque<Address>,
    protected: VecDeque<Address>,
    bytes: usize,
    protected_bytes: usize,
    hits: u64,
    misses: u64,
}

impl Shard {
    fn evict_to(&mut self, capacity: usize) {
        while self.bytes > capacity {
            let from_protected =
                self.probation.is_empty() || self.protected_bytes > capacity / 4 * 3;
            let queue = if from_protected { &mut self.protected } else { &mut self.probation };
            let Some(address) = queue.pop_front() else { break };
            let Some(slot) = self.map.get_mut(&address) else { continue };
            if slot.touched {
                slot.touched = false;
                if !slot.protected {
                    slot.protected = true;
                    self.protected_bytes += slot.bytes;
                }
                self.protected.push_back(address);
            } else if let Some(slot) = self.map.remove(&address) {
                self.bytes -= slot.bytes;
                if slot.protected {
                    self.protected_bytes -= slot.bytes;
                }
            }
        }
    }
}

/// Blocks of tables kept in memory, shared by all tables of a store.
#[derive(Debug)]
pub struct BlockCache {
    shards: Box<[Mutex<Shard>]>,
    capacity_bytes: AtomicU64,
}

impl BlockCache {
    /// A cache that holds at most `capacity_bytes`; 0 keeps nothing.
    #[must_use]
    pub fn new(capacity_bytes: u64) -> Self {
        Self {
            shards: (0..SHARDS_MAX).map(|_| Mutex::new(Shard::default())).collect(),
            capacity_bytes: AtomicU64::new(capacity_bytes),
        }
    }

    /// Number of shards in use, which follows from the capacity.
    fn shards_in_use(&self) -> u64 {
        let capacity = self.capacity_bytes.load(Ordering::Relaxed);
        (capacity / SHARD_BYTES_MIN).clamp(1, SHARDS_MAX as u64)
    }

    fn shard_of(&self, (number, offset): Address) -> usize {
        let mixed = (number.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ offset)
            .wrapping_mul(0xD6E8_FEB8_6659_FD93);
        (((mixed >> 32) * self.shards_in_use()) >> 32) as usize
    }

    fn shard(&self, address: Address) -> &Mutex<Shard> {
        &self.shards[self.shard_of(address)]
    }

    fn shard_capacity(&self) -> usize {
        let share = self.capacity_bytes.load(Ordering::Relaxed) / self.shards_in_use();
        usize::try_from(share).unwrap_or(usize::MAX)
    }

    /// The block at `offset` of table `number`, if it is held.
    pub(super) fn get(&self, number: u64, offset: u64) -> Option<Arc<Block>> {
        let address = (number, offset);
        let mut guard = self.shard(address).lock();
        let shard = &mut *guard;
        // Counted under the lock that is held anyway: counters shared by all would be fought for.
        match shard.map.get_mut(&address) {
            Some(slot) => {
                slot.touched = true;
                shard.hits += 1;
                Some(Arc::clone(&slot.block))
            }
            None => {
                shard.misses += 1;
                None
            }
        }
    }

    /// Like `get`, for a long scan, whose look-up does not count as a use.
    pub(super) fn peek(&self, number: u64, offset: u64) -> Option<Arc<Block>> {
        let address = (number, offset);
        let shard = self.shard(address).lock();
        shard.map.get(&address).map(|slot| Arc::clone(&slot.block))
    }

    /// Keeps a block, unless it alone would fill an eighth of its shard.
    pub(super) fn insert(&self, number: u64, offset: u64, block: &Arc<Block>) {
        let address = (number, offset);
        let bytes = block.bytes() + ENTRY_OVERHEAD_BYTES;
        let capacity = self.shard_capacity();
        if bytes > capacity / 8 {
            return;
        }
        let at = self.shard_of(address);
        let mut shard = self.shards[at].lock();
        // Asked again under the lock: `set_capacity` empties shards that are not asked any more.
        if self.shard_of(address) != at || shard.map.contains_key(&address) {
            return;
        }
        let slot = Slot { block: Arc::clone(block), bytes, touched: false, protected: false };
        shard.map.insert(address, slot);
        shard.probation.push_back(address);
        shard.bytes += bytes;
        shard.evict_to(capacity);
    }

    /// The bound.
    #[must_use]
    pub fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes.load(Ordering::Relaxed)
    }

    /// Changes the bound; what is above it leaves at once.
    pub fn set_capacity(&self, capacity_bytes: u64) {
        let before = self.shards_in_use();
        self.capacity_bytes.store(capacity_bytes, Ordering::Relaxed);
        // With another number of shards blocks belong elsewhere: all leave.
        let capacity = if self.shards_in_use() == before { self.shard_capacity() } else { 0 };
        for shard in &self.shards {
            shard.lock().evict_to(capacity);
        }
    }

    /// Bytes held, blocks and bookkeeping.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.shards.iter().map(|shard| shard.lock().bytes as u64).sum()
    }

    /// Look-ups that found their block, and those that did not.
    #[must_use]
    pub fn hits_and_misses(&self) -> (u64, u64) {
        self.shards.iter().fold((0, 0), |(hits, misses), shard| {
            let shard = shard.lock();
            (hits + shard.hits, misses + shard.misses)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::block::BlockBuilder;
    use super::*;
    use crate::key::Meta;

    fn block() -> Arc<Block> {
        let mut builder = BlockBuilder::default();
        builder.add(b"k", 0, 1, Meta::default(), &[7; 900]);
        Arc::new(Block::new(builder.finish().to_vec()).unwrap_or_else(|_| unreachable!()))
    }

    #[test]
    fn stays_below_its_bound_and_empties_when_told() {
        let cache = BlockCache::new(1 << 20);
        for i in 0..5_000 {
            cache.insert(i, i * 7, &block());
            assert!(cache.bytes() <= 1 << 20);
        }
        assert!(cache.bytes() > 900 << 10);
        cache.set_capacity(0);
        assert_eq!(cache.bytes(), 0);
        cache.insert(1, 1, &block());
        assert_eq!(cache.bytes(), 0);
    }

    #[test]
    fn a_small_cache_is_used_up_to_its_bound() {
        for kib in [16, 64, 300, 1000, 3000] {
            let bound = kib << 10;
            let cache = BlockCache::new(bound);
            for i in 0..5_000 {
                cache.insert(i, i * 7, &block());
                assert!(cache.bytes() <= bound);
            }
            assert!(cache.bytes() > bound * 3 / 4, "{} of {bound}", cache.bytes());
        }
    }

    #[test]
    fn a_change_of_the_number_of_shards_loses_no_room() {
        let cache = BlockCache::new(32 << 20);
        for capacity in [1 << 20, 100 << 10, 8 << 20, 0, 2 << 20] {
            for i in 0..20_000 {
                cache.insert(i, i * 7, &block());
            }
            cache.set_capacity(capacity);
            assert!(cache.bytes() <= capacity);
        }
        cache.insert(1, 1, &block());
        assert!(cache.get(1, 1).is_some());
    }

    #[test]
    fn a_long_scan_does_not_wash_out_what_is_read_again() {
        let cache = BlockCache::new(1 << 20);
        for i in 0..200 {
            cache.insert(1, i, &block());
            assert!(cache.get(1, i).is_some());
        }
        for i in 0..20_000 {
            cache.insert(2, i, &block());
        }
        let kept = (0..200).filter(|&i| cache.get(1, i).is_some()).count();
        assert!(kept >= 190, "{kept} of 200");
    }
}

//! One shard of the key space: everything that its latch guards.

use super::latch::{Latch, Latched};
use super::namespace::SLOTS;
use super::pages::ShardPages;
use super::paper::dead_table::DeadTable;
use super::read::load::{Loads, Want};
use super::read::reads::ShardReads;
use super::upkeep::table_bound::RoomTurns;
use crate::cemetery::{GraveFilter, Graves};
use crate::dram;
use crate::key::{Seq, Slot};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Number of shards; a power of two.
pub(super) const SHARDS: usize = 64;

/// The shard of a hash. The table inside uses other bits.
pub(super) fn shard_of(hash: u64) -> usize {
    (hash >> 58) as usize
}

/// A shard: the latch with what it guards, and what may be read without it.
#[repr(align(128))]
pub(super) struct Shard {
    pub(super) hint: Arc<dram::Hint>,
    /// Number of graves, so that looking for one costs nothing where there are none.
    pub(super) graves: AtomicUsize,
    /// Which keys may have one.
    pub(super) grave_filter: Arc<GraveFilter>,
    pub(super) latch: Latch,
}

/// So often a walk over graves begins again because they have moved; then it holds the latch.
const WALKS_MAX: u32 = 3;

impl Shard {
    /// Figures of the shard. Waits for no latch.
    pub(super) fn figures(&self) -> &ShardFigures {
        self.latch.figures()
    }

    /// Takes the latch.
    #[inline]
    pub(super) fn latch(&self) -> Latched<'_> {
        self.latch.take()
    }

    /// The latch, or nothing after this time.
    #[inline]
    pub(super) fn latch_within(&self, wait: Duration) -> Option<Latched<'_>> {
        self.latch.try_take().or_else(|| self.latch.take_within(wait))
    }

    /// Walks all graves in slices, between which whoever waits for the latch gets it. `slice` gets the first bucket
    /// and answers that of the next slice; when graves have moved meanwhile, it gets 0 again.
    pub(super) fn walk_graves(&self, mut slice: impl FnMut(&mut Graves, usize) -> Option<usize>) {
        let mut state = self.latch();
        let (mut from, mut moves, mut walks) = (0, state.graves.moves(), 1);
        while let Some(next) = slice(&mut state.graves, from) {
            from = next;
            if walks < WALKS_MAX {
                state.let_others();
                if state.graves.moves() != moves {
                    (from, moves) = (0, state.graves.moves());
                    walks += 1;
                }
            }
        }
    }
}

/// What is to be known of a shard without its latch: its state as it was at the last look at which the latch was free.
#[derive(Debug, Default)]
pub(super) struct ShardFigures {
    /// Entries of the DRAM table.
    pub(super) entries: AtomicUsize,
    /// Bytes of the DRAM table with its entries.
    pub(super) table_bytes: AtomicUsize,
    /// Bytes of the data in it.
    pub(super) data_bytes: AtomicUsize,
    /// Memory of graves, tombstones and due times.
    pub(super) graves_bytes: AtomicUsize,
    /// Look-ups that the DRAM table answered with a value.
    pub(super) hits: AtomicU64,
    /// Look-ups that a sorted memtable answered under the latch.
    pub(super) from_memtable: AtomicU64,
}

impl ShardFigures {
    /// Takes the figures of `state`, whose latch is held.
    #[inline]
    pub(super) fn publish(&self, state: &ShardState) {
        let graves_bytes =
            state.graves.bytes() + state.unsorted_dead.bytes() + state.table.due_bytes();
        self.entries.store(state.table.len(), Ordering::Relaxed);
        self.table_bytes.store(state.table_bytes(), Ordering::Relaxed);
        self.data_bytes.store(state.data_bytes(), Ordering::Relaxed);
        self.graves_bytes.store(graves_bytes, Ordering::Relaxed);
        self.hits.store(state.reads.hits, Ordering::Relaxed);
        self.from_memtable.store(state.reads.from_memtable, Ordering::Relaxed);
    }
}

/// Keys and keys with an expiry of one namespace in one shard. Provisional by the unresolved ones.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Count {
    pub(super) keys: i64,
    pub(super) expires: i64,
}

/// A put over a key of which only the filters were asked: it was counted as new (N9).
#[derive(Clone, Debug)]
pub(super) struct Unresolved {
    pub(super) slot: Slot,
    pub(super) namespace: u64,
    pub(super) hash: u64,
    pub(super) key: Box<[u8]>,
    /// Sequence of the put; what counts is whether the key lived just below it.
    pub(super) seq: Seq,
}

/// What the latch guards.
pub(super) struct ShardState {
    pub(super) number: usize,
    pub(super) room_turns: RoomTurns,
    pub(super) table: dram::Table,
    /// What of `table.bytes()` is in the sum over all shards.
    pub(super) noted_bytes: usize,
    /// Like `noted_bytes`, for the bytes mapped from the system.
    pub(super) noted_mapped_bytes: usize,
    /// Like `noted_bytes`, for `table.data_bytes()`.
    pub(super) noted_data_bytes: usize,
    pub(super) graves: Graves,
    /// Dead keys of the unsorted memtables; empty but in the baseline whose deletes are records (`store/paper`).
    pub(super) unsorted_dead: DeadTable,
    /// Nothing was ever evicted from this shard since it was empty: a miss is an absence.
    pub(super) complete: bool,
    pub(super) loads: Loads,
    /// Pages of the collections whose roots are here.
    pub(super) pages: ShardPages,
    pub(super) page_loads: Loads,
    pub(super) counts: Box<[Count; SLOTS]>,
    pub(super) unresolved: Vec<Unresolved>,
    pub(super) reads: ShardReads,
}

impl ShardState {
    /// True when the newest state of a key that is not in the DRAM table is known to be dead. The key is
    /// given as head and user's bytes.
    pub(super) fn is_dead(&self, hash: u64, key: (&[u8], &[u8])) -> bool {
        self.graves.is_open(hash, key) || self.unsorted_dead.contains(hash, key)
    }

    /// A put of a key, which is given as head and user's bytes, closes what says that it is dead (P1).
    #[inline]
    pub(super) fn close_dead(&mut self, hash: u64, key: (&[u8], &[u8]), seq: Seq) {
        if !self.graves.is_empty() {
            self.graves.close(hash, key, seq);
        }
        if !self.unsorted_dead.is_empty() {
            self.unsorted_dead.remove(hash, key);
        }
    }

    /// True when what is wanted is in memory.
    pub(super) fn has_in_memory(&self, want: &Want) -> bool {
        match &want.page {
            Some(page) => {
                let table = self.pages.table_of(page.cid());
                table.is_some_and(|table| table.find(page.in_table()).is_some())
            }
            None => self.table.find(want.key.as_key()).is_some(),
        }
    }

    /// The loads among which that of `want` is.
    pub(super) fn loads_of(&mut self, want: &Want) -> &mut Loads {
        if want.page.is_some() { &mut self.page_loads } else { &mut self.loads }
    }

    /// Bytes that keys and pages in memory hold.
    pub(super) fn table_bytes(&self) -> usize {
        self.table.bytes() + self.pages.bytes()
    }

    /// Those of them that come from the system itself.
    pub(super) fn mapped_bytes(&self) -> usize {
        self.table.mapped_bytes() + self.pages.mapped_bytes()
    }

    /// Bytes of the data in them.
    pub(super) fn data_bytes(&self) -> usize {
        self.table.data_bytes() + self.pages.data_bytes()
    }

    /// True when something of such a slot is on its way into memory, or pinned there.
    pub(super) fn loads_any(&self, is_meant: impl Fn(Slot) -> bool) -> bool {
        self.loads.holds_any(&is_meant) || self.page_loads.holds_any(&is_meant)
    }

    /// Removes what is in memory of these slots, visiting at most `buckets` buckets of keys and of pages; true when nothing
    /// is left.
    pub(super) fn sweep_slots(&mut self, slots: &[bool; SLOTS], buckets: usize) -> bool {
        let pages_done = self.pages.sweep_slots(slots, buckets);
        self.table.sweep_slots(slots, buckets) && pages_done
    }

    pub(super) fn count_mut(&mut self, slot: Slot) -> &mut Count {
        &mut self.counts[usize::from(slot)]
    }
}

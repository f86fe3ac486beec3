//! One bound for the whole process: what is left of it for the DRAM table, and what memtables may take.

use super::shares::{
    MachineryMax, MemoryBound, bound_for, buffer_bytes, log_buffer_bytes, machinery_bytes,
};
use crate::memtable::Pooled;
use crate::shared_value::SHARED_MIN_BYTES;
use crate::store::engine::{Engine, Inner};
use crate::store::read::superversion::SuperVersion;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The DRAM table keeps at least this much, however small the bound: below it nothing works well.
const TABLE_MIN_BYTES: u64 = 4 << 20;

/// A bound below this is not one of the resident set, of which a process without data has most of it: data has its
/// share, whatever the machinery takes.
const SMALL_BOUND_BYTES: u64 = 16 << 20;

/// What a store holds in memory, by part, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryParts {
    /// The DRAM table with its entries, and pages it keeps for more.
    pub table: u64,
    /// Memtables, chunks kept for reuse included.
    pub memtables: u64,
    /// Graves, filters and indexes of grave runs, due times.
    pub graves: u64,
    /// Filters and indexes of tables.
    pub tree: u64,
    /// Decompressed blocks of tables.
    pub block_cache: u64,
    /// Buffers of the log.
    pub log_buffer: u64,
    /// Buffers of flushes, merges and long scans.
    pub work: u64,
}

impl MemoryParts {
    /// All of it.
    #[must_use]
    pub fn sum(&self) -> u64 {
        let Self { table, memtables, graves, tree, block_cache, log_buffer, work } = self;
        table + memtables + graves + tree + block_cache + log_buffer + work
    }
}

/// The resident set divided by this is not counted.
const RESIDENT_MARGIN: u64 = 11;

/// Smoothing of unaccounted memory when it grows: the difference divided by this is added at each measurement,
/// since most of a rise is momentary.
const RISE_SHARE: u64 = 4;

/// Where values are large, a rise counts in full, plus the bound divided by this: requests, flushes and
/// merges of the next moment allocate as much again before they are measured.
const AHEAD_SHARE: u64 = 16;

/// Smoothing of a fall. Slower, so that memory that is needed every second stays provided for.
const FALL_SHARE: u64 = 64;

/// At most this many memtables wait for their flush in persistent memory, however large the pool is: a read of a key
/// that left the DRAM table searches each.
const FROZEN_IN_POOL_MAX: usize = 64;

/// A memtable that is full goes on to be filled where at least its size divided by this is left.
const LEFT_SHARE: u64 = 8;

/// What nobody accounts for, after a measurement; with `ahead` while values are large.
fn other_after(other: u64, measured: u64, ahead: Option<u64>) -> u64 {
    match measured.checked_add(ahead.unwrap_or(0)).and_then(|wanted| wanted.checked_sub(other)) {
        Some(rise) if ahead.is_some() => other + rise,
        Some(rise) => other + rise / RISE_SHARE,
        None => other - (other - measured) / FALL_SHARE,
    }
}

impl Engine {
    /// What of the bound belongs to data in memory and clients.
    fn room_of(&self, bound_bytes: u64) -> u64 {
        bound_bytes - machinery_bytes(bound_bytes, &self.machinery_max())
    }

    fn machinery_max(&self) -> MachineryMax {
        let inner = self.inner();
        MachineryMax {
            memtable_bytes: inner.memory.shares.get().memtable_max_bytes,
            block_cache_bytes: inner.options.block_cache_bytes as u64,
        }
    }

    /// Bytes of the data in memory: entries, their due times and the buckets that lead to them.
    #[must_use]
    pub fn data_bytes(&self) -> u64 {
        let shards = self.inner().shards.iter();
        shards.map(|shard| shard.figures().data_bytes.load(Ordering::Relaxed) as u64).sum()
    }

    /// The least bound of the process that fits this many bytes of data in memory and of clients, plus the machinery's
    /// share of such a bound. Keys are evicted where this is above the bound.
    #[must_use]
    pub fn bound_for(&self, data_and_client_bytes: u64) -> u64 {
        bound_for(data_and_client_bytes, &self.machinery_max())
    }

    /// Gives data, and with it the DRAM table, its share of `maxmemory`, and less where memtables, filters, indexes,
    /// caches and buffers hold more than theirs. Runs now and then, because tables come and go.
    pub(in crate::store) fn adjust_memory_bound(&self) {
        let inner = self.inner();
        let table = inner.options.dram_table_bytes;
        if table != 0 {
            inner.memory.room_bytes.store(table, Ordering::Relaxed);
            inner.memory.table_bound.set(table);
            return;
        }
        let bound = inner.memory.shares.bound_bytes();
        if bound == 0 {
            inner.memory.room_bytes.store(usize::MAX, Ordering::Relaxed);
            inner.memory.table_bound.set(usize::MAX);
            return;
        }
        // With a log, what they have taken before: the arenas are kept for reuse.
        let expected = match inner.write.wbl.get() {
            Some(_) => 0,
            None => {
                inner.memory.shares.write_buffers() as u64 * inner.memory.shares.memtable_bytes()
            }
        };
        let memtables = self.memtables_held_bytes().max(expected);
        let other = inner.memory.other_bytes.load(Ordering::Relaxed);
        let beside = other + memtables + self.tree_memory_bytes() + self.graves_bytes();
        let room = self.room_of(bound);
        let least =
            TABLE_MIN_BYTES.min(bound).max(if bound < SMALL_BOUND_BYTES { room } else { 0 });
        // What the table holds beside the data: room in its pages, mostly.
        let data = inner.memory.data_bytes.load(Ordering::Relaxed) as u64;
        let slack = (inner.memory.table_bound.held_bytes() as u64).saturating_sub(data);
        let clients = inner.memory.client_bytes.load(Ordering::Relaxed) as u64;
        let left = bound.saturating_sub(beside);
        let table = left.min(room.saturating_sub(clients) + slack).max(least);
        let room = room.min(table.saturating_sub(slack).max(least) + clients);
        inner.memory.room_bytes.store(room as usize, Ordering::Relaxed);
        inner.memory.table_bound.set(table as usize);
    }

    /// Tells how much memory the process has asked for (what the allocator gave out, and
    /// [`Engine::beside_allocator_bytes`]), how much of it is resident, and what of it clients hold: the table makes room for what no part of the
    /// store accounts for. To be called a few times a second.
    ///
    /// The bound is one of the first figure, as `maxmemory` is in Redis. The second one, with the program itself and pages
    /// that the allocator has not yet given back, may be a tenth above it.
    pub fn note_held(&self, used_bytes: u64, resident_bytes: u64, client_bytes: usize) {
        self.apply_memory_bound();
        let inner = self.inner();
        inner.memory.client_bytes.store(client_bytes, Ordering::Relaxed);
        if inner.memory.shares.bound_bytes() == 0 {
            inner.memory.above_bound.store(false, Ordering::Relaxed);
            return;
        }
        // What is mapped of persistent memory is no memory of the process.
        let resident_bytes = resident_bytes.saturating_sub(self.mapped_bytes());
        let held_bytes = used_bytes.max(resident_bytes - resident_bytes / RESIDENT_MARGIN);
        // The log's buffer is no part here: what it takes comes back every moment.
        let known = inner.memory.table_bound.held_bytes() as u64
            + self.memtables_held_bytes()
            + self.tree_memory_bytes()
            + self.graves_bytes();
        let measured = held_bytes.saturating_sub(known);
        let other = inner.memory.other_bytes.load(Ordering::Relaxed);
        // Shards that nobody writes to hear of a bound that has come down here.
        self.keep_shards_within_bound();
        let bound = inner.memory.shares.bound_bytes();
        let ahead =
            inner.memory.holds_large.swap(false, Ordering::Relaxed).then_some(bound / AHEAD_SHARE);
        inner.memory.other_bytes.store(other_after(other, measured, ahead), Ordering::Relaxed);
        let is_above = held_bytes > bound;
        inner.memory.above_bound.store(is_above, Ordering::Relaxed);
        self.adjust_memory_bound();
    }

    /// Lets each shard that is free for it give up its part of what is too much.
    pub(in crate::store) fn keep_shards_within_bound(&self) {
        let inner = self.inner();
        if inner.memory.table_bound.excess_bytes() == 0 {
            return;
        }
        for shard in &inner.shards {
            if let Some(mut state) = shard.latch.try_take() {
                self.give_up_part(&mut state);
            }
        }
    }

    /// What the store holds in memory, by part.
    #[must_use]
    pub fn memory_parts(&self) -> MemoryParts {
        let inner = self.inner();
        MemoryParts {
            table: (inner.memory.table_bound.held_bytes() + inner.memory.pages.idle_bytes()) as u64,
            memtables: self.memtables_held_bytes(),
            graves: self.graves_bytes(),
            tree: inner.versions.current().memory_bytes(),
            block_cache: inner.versions.cache_bytes(),
            log_buffer: sexton_persistence::aof::held_bytes(),
            work: crate::table::work_bytes(),
        }
    }

    /// Bytes of memory that the store has from the system itself: no figure of the allocator counts them.
    #[must_use]
    pub fn beside_allocator_bytes(&self) -> u64 {
        let inner = self.inner();
        (inner.memory.table_mapped_bytes.load(Ordering::Relaxed) + inner.memory.pages.idle_bytes())
            as u64
    }

    /// Changes the bound (`CONFIG SET maxmemory`). What that means for memory that is held already is settled
    /// by [`Engine::apply_memory_bound`], which must follow where no latch is held.
    pub fn note_memory_bound(&self, bound: MemoryBound) {
        self.inner().memory.shares.set(bound);
        self.inner().graveyard.spill.set_memory_bound(bound.bytes);
        self.inner().memory.memory_unsettled.store(true, Ordering::Release);
    }

    /// [`Engine::note_memory_bound`], settled, with memtables as they are. No latch may be held.
    pub fn set_memory_bound(&self, bytes: u64) {
        self.note_memory_bound(MemoryBound { bytes, ..self.inner().memory.shares.get() });
        self.apply_memory_bound();
    }

    /// Memtables, the log's buffer, caches and merges get their shares of the bound, in either direction.
    fn update_shares(&self) {
        let inner = self.inner();
        let (bound, options) = (inner.memory.shares.get(), &inner.options);
        inner.memory.pages.set_bound(bound.bytes);
        inner.memory.pool.resize(bound.memtable_bytes as usize, bound.bytes != 0);
        inner.versions.set_cache_bytes(buffer_bytes(bound.bytes, options.block_cache_bytes as u64));
        inner.versions.set_merge_read_bytes_max(buffer_bytes(bound.bytes, u64::MAX));
        if let Some(log) = &*inner.write.log.load() {
            log.set_buffer_limit(log_buffer_bytes(bound.bytes, options.log_buffer_bytes as u64));
        }
        // The active memtable may be full by now, and no writer is there to report it.
        inner.views.superversion.load().active.count_all();
        inner.upkeep.background.wake_freeze();
    }

    /// Does what a change of the memory bound or of the eviction of keys asks for, if there was one. Takes
    /// latches: none may be held.
    pub fn apply_memory_bound(&self) {
        let inner = self.inner();
        if !inner.memory.memory_unsettled.swap(false, Ordering::AcqRel) {
            return;
        }
        self.update_shares();
        self.adjust_memory_bound();
        for shard in &inner.shards {
            self.give_up_part(&mut shard.latch());
        }
    }

    /// True when the active memtable is to be frozen for what it holds.
    pub(in crate::store) fn memtable_is_full(&self) -> bool {
        let inner = self.inner();
        let filled_bytes = inner.views.superversion.load().active.filled_bytes();
        filled_bytes >= inner.memory.shares.memtable_bytes() && !self.memtable_fills_on()
    }

    /// True when the active memtable, which is full, may take more, since most of what it refers to is in the DRAM table as
    /// well. Not where memory is bounded, since what a memtable has changed cannot be evicted (N10), and not while others wait for their
    /// flush: what is overwritten meanwhile is in theirs alone.
    pub(in crate::store) fn memtable_fills_on(&self) -> bool {
        let inner = self.inner();
        let full_bytes = inner.memory.shares.memtable_bytes();
        let is_bounded =
            inner.memory.shares.bound_bytes() != 0 || inner.options.dram_table_bytes != 0;
        if is_bounded || inner.flusher.frozen.len() > 0 {
            return false;
        }
        let active = Arc::clone(&inner.views.superversion.load().active);
        active.count_kept_less();
        let fills_on = active.filled_bytes() < full_bytes - full_bytes / LEFT_SHARE;
        if fills_on {
            inner.write.commit.lock().fills_on();
        }
        fills_on
    }

    /// The bound of the whole process in bytes; 0 for none.
    #[must_use]
    pub fn memory_bound(&self) -> u64 {
        self.inner().memory.shares.bound_bytes()
    }

    /// Memory of all memtables: of their records, as far as these are in DRAM, of the lists of where those are, and of
    /// the order of the frozen ones.
    pub(in crate::store) fn memtables_held_bytes(&self) -> u64 {
        let superversion = self.inner().views.superversion.load();
        let runs = superversion.frozen.iter().filter_map(|frozen| frozen.run.as_ref());
        let memtables = superversion.frozen.iter().map(|frozen| &frozen.memtable);
        let pooled =
            memtables.chain([&superversion.active]).filter_map(|memtable| memtable.pooled());
        self.inner().memory.pool.held_bytes()
            + self.overwritten_values_bytes(&superversion)
            + pooled.map(Pooled::held_bytes).sum::<u64>()
            + runs.map(|run| run.held_bytes()).sum::<u64>()
    }

    /// About the bytes of values that memtables refer to and the DRAM table does not any more.
    fn overwritten_values_bytes(&self, superversion: &SuperVersion) -> u64 {
        let frozen = superversion.frozen.iter().map(|frozen| &frozen.memtable);
        frozen.chain([&superversion.active]).map(|memtable| memtable.left_bytes()).sum()
    }

    /// Filters, indexes and cached blocks.
    pub(in crate::store) fn tree_memory_bytes(&self) -> u64 {
        let inner = self.inner();
        inner.versions.current().memory_bytes() + inner.versions.cache_bytes()
    }

    /// Memory of the cemetery (filters and indexes of grave runs included) and of the due times.
    pub(in crate::store) fn graves_bytes(&self) -> u64 {
        let shards = self.inner().shards.iter();
        let bytes = shards.map(|shard| shard.figures().graves_bytes.load(Ordering::Relaxed) as u64);
        let graves: u64 = bytes.sum();
        let runs = self.inner().graveyard.spill.runs.load().figures();
        let elements = self.inner().graveyard.elements.bytes() as u64;
        graves + elements + runs.memory_bytes + self.inner().graveyard.dead_runs.bytes() as u64
    }
}

impl Inner {
    /// Bytes of the active memtable at which writers wait for the flush of one before.
    pub(in crate::store) fn active_memtable_max_bytes(&self) -> u64 {
        let memtable = self.memory.shares.memtable_bytes();
        // Full ones are frozen, so this much room comes back whatever else takes memory.
        if self.memory.above_bound.load(Ordering::Relaxed) {
            memtable + memtable / 4
        } else {
            2 * memtable
        }
    }

    /// Flushes are so far behind that writers must wait, or hear that flushes fail.
    pub(in crate::store) fn memtable_is_overfull(&self) -> bool {
        let superversion = self.views.superversion.load();
        if superversion.active.filled_bytes() >= self.active_memtable_max_bytes() {
            return true;
        }
        let bytes = self.memory.shares.memtable_bytes();
        self.write
            .wbl
            .get()
            .is_some_and(|wbl| wbl.is_short_of_room(bytes, superversion.frozen.len()))
    }

    /// True when another memtable may be frozen although those before it are not flushed.
    pub(in crate::store) fn may_freeze(&self) -> bool {
        match self.write.wbl.get() {
            Some(_) => self.flusher.frozen.len() < FROZEN_IN_POOL_MAX,
            None => self.flusher.frozen.len() < self.frozen_max(),
        }
    }

    /// Memtables that may wait for their flush, each full of its own bytes.
    pub(in crate::store) fn frozen_max(&self) -> usize {
        self.memory.shares.write_buffers().saturating_sub(1).max(1)
    }

    /// Whether memtable and DRAM table share a value of `value_bytes` bytes. Not where memory is bounded: eviction does not
    /// free what a memtable shares. With a log, memtables are flushed soon, and a copy in memory that they reuse repeatedly
    /// costs less than a block (`docs/studies/notebook.md`).
    #[inline]
    pub(in crate::store) fn shares_value(&self, value_bytes: usize) -> bool {
        value_bytes >= SHARED_MIN_BYTES
            && self.options.shares_values
            && self.memory.shares.bound_bytes() == 0
            && self.options.dram_table_bytes == 0
            && self.write.wbl.get().is_none()
            && self.write.log.load().is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{Key, Meta};
    use crate::store::{Latched, TxBuf};

    #[test]
    fn a_rise_counts_in_part_and_whole_where_values_are_large() {
        let mib = 1 << 20;
        assert_eq!(other_after(16 * mib, 20 * mib, None), 17 * mib, "a moment's work, most of it");
        assert_eq!(other_after(16 * mib, 20 * mib, Some(4 * mib)), 24 * mib);
        assert_eq!(other_after(80 * mib, 16 * mib, None), 79 * mib);
        assert_eq!(other_after(80 * mib, 16 * mib, Some(4 * mib)), 79 * mib);
    }

    #[test]
    fn a_value_above_an_equal_share_says_that_values_are_large() {
        let engine = Engine::in_memory(1).unwrap();
        engine.set_memory_bound(64 << 20);
        let put = |key: &[u8], bytes: usize| {
            let (slot, hash) = (engine.slot_of(0), crate::key::hash(key));
            let key = Key { slot, bytes: key, hash };
            let mut buf = TxBuf::default();
            let mut tx = engine.begin(Latched::Hashes(&[key.hash]), &mut buf);
            tx.put(key, Meta::default(), &vec![1; bytes]);
            tx.commit();
        };
        let other = || engine.inner().memory.other_bytes.load(Ordering::Relaxed);
        let before = other();
        put(b"small", 1000);
        engine.note_held(40 << 20, 40 << 20, 0);
        let rise = other() - before;
        assert!(rise < 6 << 20, "{rise}");
        put(b"large", 2 << 20);
        engine.note_held(60 << 20, 60 << 20, 0);
        assert!(other() > 44 << 20, "{}: what was measured beside the value, and more", other());
    }
}

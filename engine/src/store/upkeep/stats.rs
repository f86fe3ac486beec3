//! Figures for INFO.

use crate::key::Seq;
use crate::store::engine::Engine;
use std::sync::atomic::Ordering;

/// Figures of one store. Sizes in bytes, ages in milliseconds.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Highest sequence handed out.
    pub last_seq: Seq,
    /// Highest sequence that survives a crash with everything before it.
    pub durable_seq: Seq,
    /// The recovery mark: replay starts behind it.
    pub mark_seq: Seq,
    /// Bytes of the DRAM table with its entries.
    pub dram_bytes: u64,
    /// Live entries held in the DRAM table.
    pub dram_entries: u64,
    /// Bound of the DRAM table; 0 for none.
    pub dram_bound_bytes: u64,
    /// Bytes written to the active memtable, with those of the values that it shares with the DRAM table.
    pub memtable_bytes: u64,
    /// Memory of all memtables, chunks kept for reuse and the order of the frozen ones included; with
    /// `persistence-mode wbl` of the lists of their records, and of what persistent memory had no room for.
    pub memtable_held_bytes: u64,
    /// Frozen memtables not flushed yet.
    pub memtables_frozen: u64,
    /// Bytes written to them.
    pub memtables_frozen_bytes: u64,
    /// Memtables flushed since the start.
    pub flushes: u64,
    /// Compactions since the start.
    pub compactions: u64,
    /// Bytes that writers put into the memtables flushed since the start.
    pub flushed_memtable_bytes: u64,
    /// Bytes of tables that flushes wrote.
    pub flushed_bytes: u64,
    /// Bytes of tables that compactions read, and wrote.
    pub compaction_read_bytes: u64,
    /// Bytes of tables that compactions wrote.
    pub compaction_written_bytes: u64,
    /// Compactions that moved tables without reading them.
    pub compaction_moves: u64,
    /// Compactions at rest, which only readers gain by; counted in `compactions`, too.
    pub compactions_at_rest: u64,
    /// How often writers began to wait for flush, compaction or log.
    pub stalls: u64,
    /// Time in which writers had to wait for flush, compaction or log, in milliseconds.
    pub stall_ms: u64,
    /// Bytes per second to which writers are slowed down; `None` while they run freely.
    pub write_pace_bytes_per_s: Option<u64>,
    /// Bytes above the levels' targets, which compaction still has to move.
    pub compaction_debt_bytes: u64,
    /// Tables and bytes of each level.
    pub levels: Vec<(u64, u64)>,
    /// Graves in memory, closed ones included, and in runs.
    pub graves: u64,
    /// Estimated memory of the graves, of filters and indexes of grave runs, and of due times.
    pub graves_bytes: u64,
    /// Graves in grave runs: counted in `graves`, too.
    pub graves_spilled: u64,
    /// Grave runs.
    pub grave_runs: u64,
    /// Bytes of their files.
    pub grave_runs_bytes: u64,
    /// Memory of their filters and indexes.
    pub grave_runs_memory_bytes: u64,
    /// Bytes of grave runs that flushes wrote since the start.
    pub graves_spilled_bytes: u64,
    /// Bytes of grave runs that merges of them wrote.
    pub graves_merged_bytes: u64,
    /// Stretches of keys proved dead, which scans pass over (N5).
    pub dead_runs: u64,
    /// Tables that left the tree unread, because all of them was proved dead.
    pub tables_dropped_dead: u64,
    /// Estimated bytes of dead versions in tables, as of the last look.
    pub dead_bytes: u64,
    /// Bytes of the tables that wait to be rewritten without their dead, as of the last look.
    pub burial_queue_bytes: u64,
    /// Age of the oldest delete that is not buried, in milliseconds.
    pub oldest_unburied_delete_ms: u64,
    /// False when `delete_persist_ms` cannot be met on what is stored.
    pub deadline_is_reachable: bool,
    /// Filters, indexes and cached blocks.
    pub tree_memory_bytes: u64,
    /// Overwrites not settled yet (N9).
    pub unresolved: u64,
    /// Keys read from devices since the start, and how many of them had a value.
    pub cold_reads: u64,
    /// Cold reads that found a value.
    pub cold_found: u64,
    /// Entries that left memory for want of room, since the start; they stay on the device.
    pub entries_made_cold: u64,
    /// Look-ups of keys that the DRAM table answered with a value.
    pub dram_hits: u64,
    /// Look-ups that had to go on to a sorted memtable or to a device: the sum of the next three.
    pub dram_misses: u64,
    /// Misses that a sorted memtable answered.
    pub misses_from_memtable: u64,
    /// Misses that each level of the tree answered.
    pub misses_from_level: Vec<u64>,
    /// Misses for which a device was asked in vain.
    pub misses_not_found: u64,
    /// Pinned sequences.
    pub pins: u64,
    /// Open snapshots.
    pub snapshots: u64,
    /// Age of the oldest one; 0 without any.
    pub oldest_snapshot_age_ms: u64,
    /// Undo runs, and their bytes.
    pub undo_runs: u64,
    /// Bytes of the undo runs.
    pub undo_bytes: u64,
    /// Bytes of undo runs written since the start.
    pub undo_written_bytes: u64,
    /// Snapshots refused because too many were open, since the start.
    pub snapshots_refused: u64,
    /// Snapshots that ended by themselves, since the start.
    pub snapshots_ended: u64,
    /// Age of the oldest logged byte that is not synced.
    pub oldest_unsynced_age_ms: u64,
    /// Largest such age since the start.
    pub largest_unsynced_age_ms: u64,
    /// Bytes written to the log.
    pub log_written_bytes: u64,
    /// Syncs of the log.
    pub log_syncs: u64,
    /// Bytes waiting in the log buffer.
    pub log_pending_bytes: u64,
    /// Bytes of the log that are not retired.
    pub log_live_bytes: u64,
    /// How often writers began to wait for the log (N14).
    pub log_delayed: u64,
    /// The last error of a flush or compaction, while it lasts.
    pub background_error: Option<String>,
}

impl Stats {
    /// Bytes that flushes and compactions wrote for each byte that writers put into memtables; the
    /// log, which writes each byte once, is not counted.
    #[must_use]
    pub fn write_amplification(&self) -> f64 {
        let written = self.flushed_bytes + self.compaction_written_bytes;
        written as f64 / self.flushed_memtable_bytes.max(1) as f64
    }
}

impl Engine {
    /// Bytes of tables, undo runs and grave runs, of the log that is not retired, and of its base. Not among them: what the
    /// log keeps for its next segments, and tables that only open iterators still hold.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        let inner = self.inner();
        let version = inner.versions.current();
        let tables: u64 = version.level_sizes().iter().map(|(_, bytes)| bytes).sum();
        let graves = inner.graveyard.spill.runs.load().figures().file_bytes;
        tables + self.undo_bytes() + graves + self.log_file_bytes()
    }

    /// Bytes of the log that is not retired, and of its base.
    pub(in crate::store) fn log_file_bytes(&self) -> u64 {
        let log = self.inner().write.log.load();
        let Some(log) = log.as_ref() else { return 0 };
        log.stats().live_bytes + log.base_bytes().map_or(0, |(base_bytes, _)| base_bytes)
    }

    /// Figures for INFO. Waits for no latch: of a shard that is held they are those of the last look.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let inner = self.inner();
        let runs = inner.graveyard.spill.runs.load().figures();
        let mut stats = Stats {
            graves: runs.graves + inner.graveyard.elements.len() as u64,
            graves_spilled: runs.graves,
            grave_runs: runs.runs,
            grave_runs_bytes: runs.file_bytes,
            grave_runs_memory_bytes: runs.memory_bytes,
            graves_spilled_bytes: inner.graveyard.spill.spilled_bytes.load(Ordering::Relaxed),
            graves_merged_bytes: inner.graveyard.spill.merged_bytes.load(Ordering::Relaxed),
            last_seq: self.last_seq(),
            durable_seq: self.durable(),
            mark_seq: inner.flusher.mark.load(Ordering::Acquire),
            flushes: inner.figures.flushes.load(Ordering::Relaxed),
            compactions: inner.figures.compactions.load(Ordering::Relaxed),
            flushed_memtable_bytes: inner.figures.work.memtable_bytes.load(Ordering::Relaxed),
            flushed_bytes: inner.figures.work.flushed_bytes.load(Ordering::Relaxed),
            compaction_read_bytes: inner.figures.work.compaction_read_bytes.load(Ordering::Relaxed),
            compaction_written_bytes: inner
                .figures
                .work
                .compaction_written_bytes
                .load(Ordering::Relaxed),
            compaction_moves: inner.figures.work.moves.load(Ordering::Relaxed),
            compactions_at_rest: inner.upkeep.rest.merges.load(Ordering::Relaxed),
            stalls: inner.write.pace.waits(),
            stall_ms: inner.write.pace.waited_ms(),
            write_pace_bytes_per_s: inner.write.pace.rate(),
            memtable_held_bytes: self.memtables_held_bytes(),
            tree_memory_bytes: self.tree_memory_bytes(),
            graves_bytes: self.graves_bytes(),
            deadline_is_reachable: self.deadline_is_reachable(),
            dead_runs: inner.graveyard.dead_runs.len() as u64,
            dead_bytes: inner.graveyard.deadline.dead_bytes.load(Ordering::Relaxed),
            burial_queue_bytes: inner.graveyard.deadline.queue_bytes.load(Ordering::Relaxed),
            oldest_unburied_delete_ms: inner.graveyard.deadline.oldest_age_ms(),
            tables_dropped_dead: inner.figures.tables_dropped_dead.load(Ordering::Relaxed),
            unresolved: inner.flusher.unresolved.load(Ordering::Relaxed),
            cold_reads: inner.cold.reads.load(Ordering::Relaxed),
            cold_found: inner.cold.found.load(Ordering::Relaxed),
            entries_made_cold: inner.cold.evicted.load(Ordering::Relaxed),
            misses_from_memtable: inner.figures.reads.memtable_misses(),
            misses_from_level: inner.figures.reads.level_misses(),
            misses_not_found: inner.figures.reads.not_found(),
            pins: inner.views.pins.len() as u64,
            snapshots: inner.views.snapshots.len() as u64,
            oldest_snapshot_age_ms: self.snapshots().first().map_or(0, |oldest| oldest.age_ms),
            undo_runs: inner.versions.current().undo_runs().len() as u64,
            undo_bytes: self.undo_bytes(),
            undo_written_bytes: inner.views.undo.written_bytes.load(Ordering::Relaxed),
            snapshots_refused: inner.views.snapshots.refused(),
            snapshots_ended: inner.views.snapshots.ended.load(Ordering::Relaxed),
            background_error: inner.upkeep.background.last_error(),
            ..Stats::default()
        };
        for shard in &inner.shards {
            stats.graves += shard.graves.load(Ordering::Relaxed) as u64;
            let figures = shard.figures();
            stats.dram_bytes += figures.table_bytes.load(Ordering::Relaxed) as u64;
            stats.dram_entries += figures.entries.load(Ordering::Relaxed) as u64;
            stats.dram_hits += figures.hits.load(Ordering::Relaxed);
            stats.misses_from_memtable += figures.from_memtable.load(Ordering::Relaxed);
        }
        let from_levels: u64 = stats.misses_from_level.iter().sum();
        stats.dram_misses = stats.misses_from_memtable + from_levels + stats.misses_not_found;
        let bound = inner.memory.table_bound.bytes();
        if bound != usize::MAX {
            stats.dram_bound_bytes = bound as u64;
        }
        let superversion = inner.views.superversion.load();
        stats.memtable_bytes = superversion.active.used_bytes();
        stats.memtables_frozen = superversion.frozen.len() as u64;
        let frozen = superversion.frozen.iter().map(|frozen| frozen.memtable.used_bytes());
        stats.memtables_frozen_bytes = frozen.sum();
        stats.levels = superversion.version.level_sizes();
        stats.compaction_debt_bytes = self.compaction_debt_bytes();
        if let Some(log) = inner.write.log.load().as_ref() {
            let log_stats = log.stats();
            stats.oldest_unsynced_age_ms = log.oldest_unsynced_age_ms();
            stats.largest_unsynced_age_ms = log.largest_unsynced_age_ms();
            stats.log_written_bytes = log_stats.written_bytes;
            stats.log_syncs = log_stats.syncs;
            stats.log_live_bytes = log_stats.live_bytes;
            stats.log_delayed = log_stats.delayed;
            stats.log_pending_bytes = log.pending_bytes();
        }
        stats
    }
}

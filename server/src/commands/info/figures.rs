//! Per-command, per-error and per-database figures, and our own sections.

use super::Text;
use crate::clock::now_ms;
use crate::commands::table;
use crate::observe::percentile;
use crate::random::random;
use crate::server::Server;
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) fn modules(text: &mut Text, _: &Server) {
    text.title("Modules");
}

pub(super) fn command_stats(text: &mut Text, _: &Server) {
    text.title("Commandstats");
    for spec in table::all_with_subcommands() {
        let totals = spec.stats.totals();
        if totals.calls == 0 && totals.rejected == 0 && totals.failed == 0 {
            continue;
        }
        let mean = match totals.calls {
            0 => 0.0,
            calls => totals.time_us as f64 / calls as f64,
        };
        text.field(
            format!("cmdstat_{}", spec.name),
            format_args!(
                "calls={},usec={},usec_per_call={mean:.2},rejected_calls={},failed_calls={}",
                totals.calls, totals.time_us, totals.rejected, totals.failed
            ),
        );
    }
}

pub(super) fn error_stats(text: &mut Text, server: &Server) {
    text.title("Errorstats");
    for (prefix, count) in server.observe.traffic.errors() {
        text.field(format!("errorstat_{prefix}"), format_args!("count={count}"));
    }
}

pub(super) fn latency_stats(text: &mut Text, server: &Server) {
    text.title("Latencystats");
    let percentiles = server.config.options().latency_tracking_percentiles;
    for spec in table::all_with_subcommands() {
        let histogram = spec.stats.histogram();
        if histogram.is_empty() {
            continue;
        }
        let values: Vec<String> = percentiles
            .iter()
            .map(|percent| format!("p{percent}={}.000", percentile(&histogram, *percent)))
            .collect();
        text.field(format!("latency_percentiles_usec_{}", spec.name), values.join(","));
    }
    let late = server.observe.expired_late_ms.counts();
    if !late.is_empty() {
        let values: Vec<String> = percentiles
            .iter()
            .map(|percent| format!("p{percent}={}", percentile(&late, *percent)))
            .collect();
        text.field("expire_lag_percentiles_msec", values.join(","));
    }
}

pub(super) fn cluster(text: &mut Text, _: &Server) {
    text.title("Cluster");
    text.field("cluster_enabled", 0);
}

/// Of the keys of a database, of which `expires` have an expiry.
pub(crate) fn mean_time_to_live_ms(server: &Server, db: usize, expires: u64) -> u64 {
    if expires == 0 { 0 } else { server.engine.mean_time_to_live_ms(db, now_ms(), random()) }
}

pub(super) fn keyspace(text: &mut Text, server: &Server) {
    text.title("Keyspace");
    for db in 0..server.databases {
        let (keys, expires, unresolved) = server.engine.count_provisional(db);
        if keys == 0 {
            continue;
        }
        let mean_ms = mean_time_to_live_ms(server, db, expires);
        let mut value = format!("keys={keys},expires={expires},avg_ttl={mean_ms}");
        if unresolved > 0 {
            value.push_str(&format!(",unresolved={unresolved}"));
        }
        text.field(format!("db{db}"), value);
    }
}

pub(super) fn flsm(text: &mut Text, server: &Server) {
    let stats = server.engine.stats();
    text.title("Flsm");
    for (name, figure) in [
        ("last_sequence", stats.last_seq),
        ("durable_sequence", stats.durable_seq),
        ("mark_sequence", stats.mark_seq),
        ("dram_bytes", stats.dram_bytes),
        ("dram_bound_bytes", stats.dram_bound_bytes),
        ("dram_entries", stats.dram_entries),
        ("memtable_bytes", stats.memtable_bytes),
        ("memtable_held_bytes", stats.memtable_held_bytes),
        ("memtables_frozen", stats.memtables_frozen),
        ("memtables_frozen_bytes", stats.memtables_frozen_bytes),
        ("flushes", stats.flushes),
        ("compactions", stats.compactions),
        ("compaction_debt_bytes", stats.compaction_debt_bytes),
        ("compaction_moves", stats.compaction_moves),
        ("compactions_at_rest", stats.compactions_at_rest),
        ("compaction_read_bytes", stats.compaction_read_bytes),
        ("compaction_written_bytes", stats.compaction_written_bytes),
        ("flushed_memtable_bytes", stats.flushed_memtable_bytes),
        ("flushed_bytes", stats.flushed_bytes),
        ("stalls", stats.stalls),
        ("stall_ms", stats.stall_ms),
        ("write_pace_bytes_per_s", stats.write_pace_bytes_per_s.unwrap_or(0)),
        ("graves", stats.graves),
        ("graves_bytes", stats.graves_bytes),
        ("graves_spilled", stats.graves_spilled),
        ("grave_runs", stats.grave_runs),
        ("grave_runs_bytes", stats.grave_runs_bytes),
        ("grave_runs_memory_bytes", stats.grave_runs_memory_bytes),
        ("graves_spilled_bytes", stats.graves_spilled_bytes),
        ("graves_merged_bytes", stats.graves_merged_bytes),
        ("dead_bytes", stats.dead_bytes),
        ("burial_queue_bytes", stats.burial_queue_bytes),
        ("oldest_unburied_delete_seconds", stats.oldest_unburied_delete_ms / 1000),
        ("delete_persist_reachable", u64::from(stats.deadline_is_reachable)),
        ("dead_runs", stats.dead_runs),
        ("tables_dropped_dead", stats.tables_dropped_dead),
        ("tree_memory_bytes", stats.tree_memory_bytes),
        ("unresolved_overwrites", stats.unresolved),
        ("entries_made_cold", stats.entries_made_cold),
        ("cold_reads", stats.cold_reads),
        ("cold_reads_found", stats.cold_found),
        ("dram_hits", stats.dram_hits),
        ("dram_misses", stats.dram_misses),
        ("dram_misses_from_memtable", stats.misses_from_memtable),
        ("dram_misses_not_found", stats.misses_not_found),
        ("pinned_sequences", stats.pins),
        ("snapshots", stats.snapshots),
        ("snapshots_oldest_age_ms", stats.oldest_snapshot_age_ms),
        ("undo_runs", stats.undo_runs),
        ("undo_bytes", stats.undo_bytes),
        ("undo_written_bytes", stats.undo_written_bytes),
        ("snapshots_refused", stats.snapshots_refused),
        ("snapshots_ended", stats.snapshots_ended),
        ("log_written_bytes", stats.log_written_bytes),
        ("log_syncs", stats.log_syncs),
        ("log_pending_bytes", stats.log_pending_bytes),
        ("log_oldest_unsynced_ms", stats.oldest_unsynced_age_ms),
        ("log_largest_unsynced_ms", stats.largest_unsynced_age_ms),
        ("writers_must_wait", u64::from(server.engine.must_wait())),
    ] {
        text.field(format!("flsm_{name}"), figure);
    }
    let amplification = stats.write_amplification();
    text.field("flsm_write_amplification", format_args!("{amplification:.2}"));
    let options = server.config.options();
    for (level, (tables, bytes)) in stats.levels.iter().enumerate() {
        let device = crate::devices::of_level(&options, level);
        text.field(
            format!("flsm_level{level}"),
            format_args!("tables={tables},bytes={bytes},device={device}"),
        );
    }
    for (level, misses) in stats.misses_from_level.iter().enumerate() {
        text.field(format!("flsm_dram_misses_from_level{level}"), misses);
    }
    text.field("flsm_background_error", stats.background_error.as_deref().unwrap_or(""));
}

pub(super) fn devices(text: &mut Text, server: &Server) {
    text.title("Devices");
    let devices = server.devices.get().map(|storage| storage.devices()).unwrap_or_default();
    for (number, device) in devices.iter().enumerate() {
        for (name, value) in crate::devices::lines(number, device) {
            text.field(name, value);
        }
    }
}

pub(super) fn wbl(text: &mut Text, server: &Server) {
    text.title("Wbl");
    let Some(stats) = server.engine.wbl_stats() else {
        text.field("wbl_enabled", 0);
        return;
    };
    let pool = &stats.pool;
    text.field("wbl_enabled", 1);
    text.field("wbl_medium", pool.kind);
    for (name, figure) in [
        ("memtable_bytes", pool.used_bytes),
        ("retired_bytes", pool.retired_bytes),
        ("pool_max_bytes", pool.max_bytes),
        ("file_bytes", pool.file_bytes),
        ("records", pool.records),
        ("record_bytes", pool.record_bytes),
        ("media_bytes", pool.media_bytes),
        ("fences", pool.fences),
        ("erased_bytes", pool.erased_bytes),
        ("bad_lines", pool.bad_lines),
        ("complete_sequence", pool.complete_seq),
        ("reserved_sequence", pool.reserved_seq),
        ("spilled_operations", stats.spilled),
        ("recovered_records", stats.recovery.records),
        ("recovery_threads", stats.recovery.threads as u64),
        ("recovery_map_us", stats.recovery.map_time.as_micros() as u64),
        ("recovery_scan_us", stats.recovery.scan_time.as_micros() as u64),
        ("recovery_settle_us", stats.recovery.settle_time.as_micros() as u64),
        ("recovery_us", stats.recovery_time.as_micros() as u64),
    ] {
        text.field(format!("wbl_{name}"), figure);
    }
}

pub(super) fn tls(text: &mut Text, server: &Server) {
    let figures = &server.observe.tls;
    let load = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
    let (in_progress, not_after_s) =
        server.listening.get().map(|listening| listening.tls_state()).unwrap_or_default();
    text.title("Tls");
    text.field("tls_port", server.setting("tls-port"));
    text.field("tls_handshakes", load(&figures.handshakes));
    text.field("tls_handshakes_resumed", load(&figures.resumed));
    text.field("tls_handshakes_failed", load(&figures.failed));
    text.field("tls_handshakes_in_progress", in_progress);
    text.field("tls_certificate_not_after", not_after_s);
}

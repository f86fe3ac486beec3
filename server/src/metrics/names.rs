//! Maps fields of INFO to metrics. Names that begin with `redis_` are those of redis_exporter, so that its
//! dashboards work; ours begin with `sexton_`.

use super::writer::Kind;

/// One field of INFO as a metric.
pub(super) struct Row {
    /// The field.
    pub(super) field: &'static str,
    /// The metric.
    pub(super) metric: &'static str,
    pub(super) kind: Kind,
    /// What the field's number is multiplied with.
    pub(super) unit: f64,
    pub(super) help: &'static str,
}

const fn gauge(field: &'static str, metric: &'static str, help: &'static str) -> Row {
    Row { field, metric, kind: Kind::Gauge, unit: 1.0, help }
}

const fn counter(field: &'static str, metric: &'static str, help: &'static str) -> Row {
    Row { field, metric, kind: Kind::Counter, unit: 1.0, help }
}

impl Row {
    const fn times(mut self, unit: f64) -> Self {
        self.unit = unit;
        self
    }
}

/// The sections whose fields [`ROWS`] names.
pub(super) const SECTIONS: &[&str] = &[
    "server",
    "clients",
    "memory",
    "persistence",
    "stats",
    "replication",
    "cpu",
    "cluster",
    "flsm",
    "wbl",
    "tls",
];

/// All fields that are one number each.
pub(super) const ROWS: &[Row] = &[
    gauge("uptime_in_seconds", "redis_uptime_in_seconds", "Seconds since the start."),
    gauge(
        "io_threads_active",
        "redis_io_threads_active",
        "Always 0: worker-threads serve connections.",
    ),
    gauge("connected_clients", "redis_connected_clients", "Connections of clients."),
    gauge(
        "blocked_clients",
        "redis_blocked_clients",
        "Clients that wait: for a key, for the log, or for the end of a pause.",
    ),
    gauge("tracking_clients", "redis_tracking_clients", "Clients with CLIENT TRACKING."),
    gauge("clients_in_timeout_table", "redis_clients_in_timeout_table", "Always 0."),
    gauge("cluster_connections", "redis_cluster_connections", "Always 0."),
    gauge(
        "client_recent_max_input_buffer",
        "redis_client_recent_max_input_buffer_bytes",
        "Largest input that waits.",
    ),
    gauge(
        "client_recent_max_output_buffer",
        "redis_client_recent_max_output_buffer_bytes",
        "Largest output that waits.",
    ),
    gauge("maxclients", "redis_config_maxclients", "Most connections at a time."),
    gauge("maxmemory", "redis_config_maxmemory", "The bound maxmemory, 0 for none."),
    gauge("maxmemory", "redis_memory_max_bytes", "The bound maxmemory, 0 for none."),
    gauge("used_memory", "redis_memory_used_bytes", "What counts for maxmemory."),
    gauge("used_memory_rss", "redis_memory_used_rss_bytes", "Resident memory of the process."),
    gauge(
        "used_memory_peak",
        "redis_memory_used_peak_bytes",
        "Most of what counted for maxmemory.",
    ),
    gauge("used_memory_lua", "redis_memory_used_lua_bytes", "Memory of interpreters."),
    gauge(
        "used_memory_vm_eval",
        "redis_memory_used_vm_eval_bytes",
        "Memory of interpreters of scripts.",
    ),
    gauge(
        "used_memory_scripts_eval",
        "redis_memory_used_scripts_eval_bytes",
        "Memory of the cached scripts.",
    ),
    gauge(
        "used_memory_overhead",
        "redis_memory_used_overhead_bytes",
        "What counts for maxmemory and is no data.",
    ),
    gauge(
        "used_memory_startup",
        "redis_memory_used_startup_bytes",
        "What counted for maxmemory at the start.",
    ),
    gauge("used_memory_dataset", "redis_memory_used_dataset_bytes", "Data in memory."),
    gauge(
        "used_memory_scripts",
        "redis_memory_used_scripts_bytes",
        "Memory of scripts and functions.",
    ),
    gauge("used_memory_functions", "redis_memory_used_functions_bytes", "Memory of functions."),
    gauge(
        "used_memory_vm_functions",
        "redis_memory_used_vm_functions_bytes",
        "Always 0: an interpreter runs scripts and functions.",
    ),
    gauge(
        "used_memory_vm_total",
        "redis_memory_used_vm_total_bytes",
        "Memory of all interpreters.",
    ),
    gauge("number_of_cached_scripts", "redis_number_of_cached_scripts", "Cached scripts."),
    gauge("number_of_functions", "redis_number_of_functions", "Functions."),
    gauge("number_of_libraries", "redis_number_of_libraries", "Libraries of functions."),
    gauge("allocator_active", "redis_allocator_active_bytes", "Pages that hold allocations."),
    gauge("allocator_allocated", "redis_allocator_allocated_bytes", "Given out by the allocator."),
    gauge(
        "allocator_resident",
        "redis_allocator_resident_bytes",
        "Pages that the allocator holds.",
    ),
    gauge(
        "allocator_frag_ratio",
        "redis_allocator_frag_ratio",
        "Pages that hold allocations, by allocations.",
    ),
    gauge(
        "allocator_frag_bytes",
        "redis_allocator_frag_bytes",
        "Pages that hold allocations, less allocations.",
    ),
    gauge(
        "allocator_rss_ratio",
        "redis_allocator_rss_ratio",
        "Pages of the allocator by pages that hold allocations.",
    ),
    gauge(
        "allocator_rss_bytes",
        "redis_allocator_rss_bytes",
        "Pages of the allocator less pages that hold allocations.",
    ),
    gauge(
        "mem_fragmentation_ratio",
        "redis_mem_fragmentation_ratio",
        "Resident memory by what counts for maxmemory.",
    ),
    gauge(
        "mem_fragmentation_bytes",
        "redis_mem_fragmentation_bytes",
        "Resident memory less what counts for maxmemory.",
    ),
    gauge("mem_not_counted_for_evict", "redis_mem_not_counted_for_eviction_bytes", "Always 0."),
    gauge("mem_clients_slaves", "redis_mem_clients_slaves", "Always 0."),
    gauge("mem_clients_normal", "redis_mem_clients_normal", "Memory of clients."),
    gauge("mem_aof_buffer", "redis_mem_aof_buffer_bytes", "Memory of the log's buffer."),
    gauge("mem_replication_backlog", "redis_mem_replication_backlog_bytes", "Always 0."),
    gauge(
        "mem_total_replication_buffers",
        "redis_mem_total_replication_buffers_bytes",
        "Always 0.",
    ),
    gauge(
        "lazyfree_pending_objects",
        "redis_lazyfree_pending_objects",
        "Large collections that are gone and whose memory is being freed.",
    ),
    gauge(
        "lazyfreed_objects",
        "redis_lazyfreed_objects",
        "Large collections that are gone and whose memory was freed.",
    ),
    gauge("active_defrag_running", "redis_active_defrag_running", "Always 0."),
    gauge("active_defrag_hits", "redis_defrag_hits", "Always 0."),
    gauge("active_defrag_misses", "redis_defrag_misses", "Always 0."),
    gauge("active_defrag_key_hits", "redis_defrag_key_hits", "Always 0."),
    gauge("active_defrag_key_misses", "redis_defrag_key_misses", "Always 0."),
    gauge("loading", "redis_loading_dump_file", "Whether data is being loaded."),
    gauge("async_loading", "redis_async_loading", "Always 0."),
    gauge(
        "rdb_changes_since_last_save",
        "redis_rdb_changes_since_last_save",
        "Changes since the last save.",
    ),
    gauge(
        "rdb_bgsave_in_progress",
        "redis_rdb_bgsave_in_progress",
        "Whether a background save runs.",
    ),
    gauge(
        "rdb_last_save_time",
        "redis_rdb_last_save_timestamp_seconds",
        "When the last save ended well.",
    ),
    gauge(
        "rdb_last_bgsave_status",
        "redis_rdb_last_bgsave_status",
        "Whether the last background save went well.",
    ),
    gauge(
        "rdb_last_bgsave_time_sec",
        "redis_rdb_last_bgsave_duration_sec",
        "Seconds that the last background save took, -1 for none.",
    ),
    gauge(
        "rdb_current_bgsave_time_sec",
        "redis_rdb_current_bgsave_duration_sec",
        "Seconds that the background save has taken, -1 for none.",
    ),
    counter("rdb_saves", "redis_rdb_saves_total", "Saves since the start."),
    gauge("rdb_last_cow_size", "redis_rdb_last_cow_size_bytes", "Always 0: there is no fork."),
    gauge(
        "rdb_last_load_keys_expired",
        "redis_rdb_last_load_expired_keys",
        "Keys of the last load that had expired.",
    ),
    gauge("rdb_last_load_keys_loaded", "redis_rdb_last_load_loaded_keys", "Keys of the last load."),
    gauge("aof_enabled", "redis_aof_enabled", "Whether there is a log."),
    gauge(
        "aof_rewrite_in_progress",
        "redis_aof_rewrite_in_progress",
        "Whether a base of the log is being written.",
    ),
    gauge("aof_rewrite_scheduled", "redis_aof_rewrite_scheduled", "Always 0."),
    gauge(
        "aof_last_rewrite_time_sec",
        "redis_aof_last_rewrite_duration_sec",
        "Seconds that the last base took, -1 for none.",
    ),
    gauge(
        "aof_current_rewrite_time_sec",
        "redis_aof_current_rewrite_duration_sec",
        "Seconds that the base has taken, -1 for none.",
    ),
    gauge("aof_last_cow_size", "redis_aof_last_cow_size_bytes", "Always 0: there is no fork."),
    gauge("aof_current_size", "redis_aof_current_size_bytes", "Size of the log and its base."),
    gauge("aof_base_size", "redis_aof_base_size_bytes", "Size of the base of the log."),
    gauge("aof_pending_rewrite", "redis_aof_pending_rewrite", "Always 0."),
    gauge("aof_buffer_length", "redis_aof_buffer_length", "Bytes of log that are not written yet."),
    gauge(
        "aof_pending_bio_fsync",
        "redis_aof_pending_bio_fsync",
        "Whether some of the log is not synced yet.",
    ),
    gauge("aof_delayed_fsync", "redis_aof_delayed_fsync", "Syncs of the log that came late."),
    gauge(
        "aof_last_bgrewrite_status",
        "redis_aof_last_bgrewrite_status",
        "Whether the last base of the log went well.",
    ),
    gauge(
        "aof_last_write_status",
        "redis_aof_last_write_status",
        "Whether the server takes writes.",
    ),
    gauge("disk_used_bytes", "sexton_disk_used_bytes", "Bytes of tables, log and old versions."),
    gauge(
        "disk_max_bytes",
        "sexton_disk_max_bytes",
        "The value of disk-max-bytes, 0 for no limit.",
    ),
    gauge("disk_full", "sexton_disk_full", "Whether commands are refused by disk-max-bytes."),
    gauge("module_fork_in_progress", "redis_module_fork_in_progress", "Always 0."),
    gauge("module_fork_last_cow_size", "redis_module_fork_last_cow_size", "Always 0."),
    counter(
        "total_connections_received",
        "redis_connections_received_total",
        "Connections accepted.",
    ),
    counter("total_commands_processed", "redis_commands_processed_total", "Commands executed."),
    gauge(
        "instantaneous_ops_per_sec",
        "redis_instantaneous_ops_per_sec",
        "Commands per second of the last seconds.",
    ),
    gauge(
        "instantaneous_input_kbps",
        "redis_instantaneous_input_kbps",
        "KiB per second received in the last seconds.",
    ),
    gauge(
        "instantaneous_output_kbps",
        "redis_instantaneous_output_kbps",
        "KiB per second sent in the last seconds.",
    ),
    counter(
        "rejected_connections",
        "redis_rejected_connections_total",
        "Connections refused for maxclients.",
    ),
    counter("total_net_input_bytes", "redis_net_input_bytes_total", "Bytes received."),
    counter("total_net_output_bytes", "redis_net_output_bytes_total", "Bytes sent."),
    gauge("sync_full", "redis_replica_resyncs_full", "Always 0."),
    gauge("sync_partial_ok", "redis_replica_partial_resync_accepted", "Always 0."),
    gauge("sync_partial_err", "redis_replica_partial_resync_denied", "Always 0."),
    counter(
        "expired_keys",
        "redis_expired_keys_total",
        "Keys deleted because their time had come.",
    ),
    counter(
        "expired_fields",
        "redis_expired_fields_total",
        "Fields of hashes removed because their time had come.",
    ),
    gauge(
        "expired_stale_perc",
        "redis_expired_stale_percentage",
        "Always 0: no key stays for long after its time.",
    ),
    counter("expired_time_cap_reached_count", "redis_expired_time_cap_reached_total", "Always 0."),
    counter("evicted_keys", "redis_evicted_keys_total", "Keys deleted to make room."),
    counter("evicted_clients", "redis_evicted_clients_total", "Clients closed to make room."),
    counter("keyspace_hits", "redis_keyspace_hits_total", "Look-ups that found a key."),
    counter("keyspace_misses", "redis_keyspace_misses_total", "Look-ups that found none."),
    gauge("pubsub_channels", "redis_pubsub_channels", "Channels that somebody listens to."),
    gauge("pubsub_patterns", "redis_pubsub_patterns", "Patterns that somebody listens to."),
    gauge(
        "pubsubshard_channels",
        "redis_pubsubshard_channels",
        "Shard channels that somebody listens to.",
    ),
    gauge("latest_fork_usec", "redis_latest_fork_seconds", "Always 0: there is no fork.")
        .times(1e-6),
    counter(
        "migrate_cached_sockets",
        "redis_migrate_cached_sockets_total",
        "Connections to other servers that MIGRATE keeps.",
    ),
    gauge("slave_expires_tracked_keys", "redis_slave_expires_tracked_keys", "Always 0."),
    gauge(
        "tracking_total_keys",
        "redis_tracking_total_keys",
        "Keys remembered for CLIENT TRACKING.",
    ),
    gauge(
        "tracking_total_items",
        "redis_tracking_total_items",
        "Pairs of client and key remembered for CLIENT TRACKING.",
    ),
    gauge(
        "tracking_total_prefixes",
        "redis_tracking_total_prefixes",
        "Prefixes of CLIENT TRACKING.",
    ),
    counter("unexpected_error_replies", "redis_unexpected_error_replies", "Always 0."),
    counter("total_error_replies", "redis_total_error_replies", "Error replies."),
    counter("dump_payload_sanitizations", "redis_dump_payload_sanitizations", "Always 0."),
    counter("total_reads_processed", "redis_total_reads_processed", "Reads from connections."),
    counter("total_writes_processed", "redis_total_writes_processed", "Writes to connections."),
    counter("io_threaded_reads_processed", "redis_io_threaded_reads_processed", "Always 0."),
    counter("io_threaded_writes_processed", "redis_io_threaded_writes_processed", "Always 0."),
    counter(
        "acl_access_denied_auth",
        "redis_acl_access_denied_auth_total",
        "Names with a wrong password.",
    ),
    counter(
        "acl_access_denied_cmd",
        "redis_acl_access_denied_cmd_total",
        "Commands that a user may not run.",
    ),
    counter(
        "acl_access_denied_key",
        "redis_acl_access_denied_key_total",
        "Keys that a user may not use.",
    ),
    counter(
        "acl_access_denied_channel",
        "redis_acl_access_denied_channel_total",
        "Channels that a user may not use.",
    ),
    counter(
        "acl_access_denied_tls_cert",
        "redis_acl_access_denied_tls_cert_total",
        "Certificates of clients that name no user who may connect.",
    ),
    counter(
        "acl_access_denied_db",
        "redis_acl_access_denied_db_total",
        "Databases that a user may not use.",
    ),
    gauge("connected_slaves", "redis_connected_slaves", "Always 0."),
    gauge("master_repl_offset", "redis_master_repl_offset", "Always 0."),
    gauge("second_repl_offset", "redis_second_repl_offset", "Always -1."),
    gauge("repl_backlog_active", "redis_repl_backlog_is_active", "Always 0."),
    gauge(
        "repl_backlog_size",
        "redis_replication_backlog_bytes",
        "The directive repl-backlog-size.",
    ),
    gauge("repl_backlog_first_byte_offset", "redis_repl_backlog_first_byte_offset", "Always 0."),
    gauge("repl_backlog_histlen", "redis_repl_backlog_history_bytes", "Always 0."),
    counter(
        "used_cpu_sys",
        "redis_cpu_sys_seconds_total",
        "Seconds of the processors in the kernel.",
    ),
    counter(
        "used_cpu_user",
        "redis_cpu_user_seconds_total",
        "Seconds of the processors in the program.",
    ),
    counter(
        "used_cpu_sys_children",
        "redis_cpu_sys_children_seconds_total",
        "Seconds of the processors in the kernel, of child processes.",
    ),
    counter(
        "used_cpu_user_children",
        "redis_cpu_user_children_seconds_total",
        "Seconds of the processors in programs of child processes.",
    ),
    gauge("cluster_enabled", "redis_cluster_enabled", "Always 0."),
    gauge(
        "mem_held",
        "sexton_memory_held_bytes",
        "All memory that the process has asked for and not given back.",
    ),
    gauge(
        "mem_machinery",
        "sexton_memory_machinery_bytes",
        "What of redis_memory_used_bytes is the share of the store's machinery.",
    ),
    counter("flsm_last_sequence", "sexton_sequence_last_total", "Sequence of the newest write."),
    counter(
        "flsm_durable_sequence",
        "sexton_sequence_durable_total",
        "Sequence through which writes are durable.",
    ),
    counter(
        "flsm_mark_sequence",
        "sexton_sequence_mark_total",
        "Sequence through which the tables hold all writes.",
    ),
    gauge("flsm_dram_bytes", "sexton_dram_bytes", "Bytes of the DRAM table."),
    gauge(
        "flsm_dram_bound_bytes",
        "sexton_dram_bound_bytes",
        "Bytes that the DRAM table may take, 0 for no bound.",
    ),
    gauge("flsm_dram_entries", "sexton_dram_entries", "Keys in the DRAM table."),
    counter("flsm_dram_hits", "sexton_dram_hits_total", "Look-ups that the DRAM table answered."),
    counter("flsm_dram_misses", "sexton_dram_misses_total", "Look-ups that it did not."),
    counter(
        "flsm_dram_misses_from_memtable",
        "sexton_dram_misses_from_memtable_total",
        "Misses that a memtable answered.",
    ),
    counter(
        "flsm_dram_misses_not_found",
        "sexton_dram_misses_not_found_total",
        "Misses of keys that there are not.",
    ),
    counter(
        "flsm_entries_made_cold",
        "sexton_entries_made_cold_total",
        "Entries that left the DRAM table for others.",
    ),
    counter("flsm_cold_reads", "sexton_cold_reads_total", "Keys looked up on the device."),
    counter("flsm_cold_reads_found", "sexton_cold_reads_found_total", "Keys found there."),
    gauge("flsm_memtable_bytes", "sexton_memtable_bytes", "Bytes of the active memtable."),
    gauge("flsm_memtable_held_bytes", "sexton_memtable_held_bytes", "Memory of all memtables."),
    gauge(
        "flsm_memtables_frozen",
        "sexton_memtables_frozen",
        "Memtables that wait for their flush.",
    ),
    gauge(
        "flsm_memtables_frozen_bytes",
        "sexton_memtables_frozen_bytes",
        "Bytes of memtables that wait for their flush.",
    ),
    counter("flsm_flushes", "sexton_flushes_total", "Memtables written as tables."),
    counter(
        "flsm_flushed_memtable_bytes",
        "sexton_flushed_memtable_bytes_total",
        "Bytes of the memtables that were flushed.",
    ),
    counter(
        "flsm_flushed_bytes",
        "sexton_flushed_bytes_total",
        "Bytes of tables that flushes wrote.",
    ),
    counter("flsm_compactions", "sexton_compactions_total", "Merges."),
    counter(
        "flsm_compaction_moves",
        "sexton_compaction_moves_total",
        "Tables that went down a level without a merge.",
    ),
    counter(
        "flsm_compactions_at_rest",
        "sexton_compactions_at_rest_total",
        "Merges for what nobody writes any more.",
    ),
    gauge(
        "flsm_compaction_debt_bytes",
        "sexton_compaction_debt_bytes",
        "Bytes that merges have still to move.",
    ),
    counter(
        "flsm_compaction_read_bytes",
        "sexton_compaction_read_bytes_total",
        "Bytes that merges read.",
    ),
    counter(
        "flsm_compaction_written_bytes",
        "sexton_compaction_written_bytes_total",
        "Bytes that merges wrote.",
    ),
    gauge(
        "flsm_write_amplification",
        "sexton_write_amplification",
        "Bytes of tables written for each byte of memtables.",
    ),
    counter("flsm_stalls", "sexton_stalls_total", "Times that writers waited for the store."),
    counter(
        "flsm_stall_ms",
        "sexton_stall_seconds_total",
        "Seconds that writers waited for the store.",
    )
    .times(1e-3),
    gauge(
        "flsm_write_pace_bytes_per_s",
        "sexton_write_pace_bytes_per_second",
        "Pace that writers are held to, 0 for none.",
    ),
    gauge(
        "flsm_writers_must_wait",
        "sexton_writers_must_wait",
        "Whether writers wait for the store now.",
    ),
    gauge("flsm_graves", "sexton_graves", "Deleted keys that the cemetery holds in memory."),
    gauge("flsm_graves_bytes", "sexton_graves_bytes", "Their bytes."),
    gauge("flsm_graves_spilled", "sexton_graves_spilled", "Deleted keys in runs on the device."),
    gauge("flsm_grave_runs", "sexton_grave_runs", "Runs of graves on the device."),
    gauge("flsm_grave_runs_bytes", "sexton_grave_runs_bytes", "Their bytes on the device."),
    gauge(
        "flsm_grave_runs_memory_bytes",
        "sexton_grave_runs_memory_bytes",
        "Their bytes in memory.",
    ),
    counter(
        "flsm_graves_spilled_bytes",
        "sexton_graves_spilled_bytes_total",
        "Bytes of graves written to runs.",
    ),
    counter(
        "flsm_graves_merged_bytes",
        "sexton_graves_merged_bytes_total",
        "Bytes of runs of graves merged.",
    ),
    gauge(
        "flsm_dead_bytes",
        "sexton_dead_bytes",
        "Bytes of deleted and overwritten versions in tables.",
    ),
    gauge(
        "flsm_burial_queue_bytes",
        "sexton_burial_queue_bytes",
        "Bytes of tables that burial has still to rewrite.",
    ),
    gauge(
        "flsm_oldest_unburied_delete_seconds",
        "sexton_oldest_unburied_delete_seconds",
        "Age of the oldest delete that is not gone from all files.",
    ),
    gauge(
        "flsm_delete_persist_reachable",
        "sexton_delete_persist_reachable",
        "Whether delete-persist-seconds can be kept.",
    ),
    gauge(
        "flsm_dead_runs",
        "sexton_dead_runs",
        "Stretches of the key space in which nothing lives.",
    ),
    counter(
        "flsm_tables_dropped_dead",
        "sexton_tables_dropped_dead_total",
        "Tables without a living key that were removed whole.",
    ),
    gauge(
        "flsm_tree_memory_bytes",
        "sexton_tree_memory_bytes",
        "Memory of the tree: filters and indexes.",
    ),
    gauge(
        "flsm_unresolved_overwrites",
        "sexton_unresolved_overwrites",
        "Overwrites of keys that nobody has looked up yet.",
    ),
    gauge("flsm_pinned_sequences", "sexton_pinned_sequences", "States that readers hold."),
    gauge("flsm_snapshots", "sexton_snapshots", "Open snapshots."),
    gauge(
        "flsm_snapshots_oldest_age_ms",
        "sexton_snapshots_oldest_age_seconds",
        "Age of the oldest snapshot.",
    )
    .times(1e-3),
    counter(
        "flsm_snapshots_refused",
        "sexton_snapshots_refused_total",
        "Snapshots that were refused.",
    ),
    counter(
        "flsm_snapshots_ended",
        "sexton_snapshots_ended_total",
        "Snapshots that were ended for their age or size.",
    ),
    gauge("flsm_undo_runs", "sexton_undo_runs", "Runs of versions that only snapshots need."),
    gauge("flsm_undo_bytes", "sexton_undo_bytes", "Their bytes."),
    counter("flsm_undo_written_bytes", "sexton_undo_written_bytes_total", "Bytes written to them."),
    counter(
        "flsm_log_written_bytes",
        "sexton_log_written_bytes_total",
        "Bytes written to the log.",
    ),
    counter("flsm_log_syncs", "sexton_log_syncs_total", "Syncs of the log."),
    gauge(
        "flsm_log_pending_bytes",
        "sexton_log_pending_bytes",
        "Bytes of log that are not written yet.",
    ),
    gauge(
        "flsm_log_oldest_unsynced_ms",
        "sexton_log_oldest_unsynced_seconds",
        "Age of the oldest write that is not synced.",
    )
    .times(1e-3),
    gauge(
        "flsm_log_largest_unsynced_ms",
        "sexton_log_largest_unsynced_seconds",
        "Most that this age has been.",
    )
    .times(1e-3),
    gauge("wbl_enabled", "sexton_wbl_enabled", "Whether memtables lie in persistent memory."),
    gauge(
        "wbl_memtable_bytes",
        "sexton_wbl_memtable_bytes",
        "Bytes of memtables in persistent memory.",
    ),
    gauge(
        "wbl_retired_bytes",
        "sexton_wbl_retired_bytes",
        "Bytes of them that are flushed and not erased.",
    ),
    gauge("wbl_pool_max_bytes", "sexton_wbl_pool_max_bytes", "Bytes that they may take."),
    gauge(
        "wbl_bad_lines",
        "sexton_wbl_bad_lines",
        "Lines of persistent memory that could not be read.",
    ),
    counter("wbl_fences", "sexton_wbl_fences_total", "Fences."),
    counter(
        "wbl_spilled_operations",
        "sexton_wbl_spilled_operations_total",
        "Writes that did not fit there.",
    ),
    counter("tls_handshakes", "sexton_tls_handshakes_total", "Handshakes of TLS that went well."),
    counter(
        "tls_handshakes_resumed",
        "sexton_tls_handshakes_resumed_total",
        "Of these, those with an earlier session.",
    ),
    counter(
        "tls_handshakes_failed",
        "sexton_tls_handshakes_failed_total",
        "Handshakes of TLS that failed.",
    ),
    gauge(
        "tls_handshakes_in_progress",
        "sexton_tls_handshakes_in_progress",
        "Handshakes of TLS that go on.",
    ),
    gauge(
        "tls_certificate_not_after",
        "sexton_tls_certificate_not_after_timestamp_seconds",
        "When the server's certificate ends to hold, 0 without one.",
    ),
];

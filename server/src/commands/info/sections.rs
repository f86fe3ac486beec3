//! The sections that tools read most: server, clients, memory, persistence, stats, replication, CPU.

use super::{Text, human};
use crate::auth::Reason;
use crate::events::pubsub::Kind;
use crate::observe::{CpuOf, cpu_times};
use crate::server::Server;
use crate::version::REDIS_VERSION;
use sexton_engine::SyncPolicy;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

const DAY_S: u64 = 24 * 60 * 60;

/// Bits of Redis' LRU clock, which counts seconds.
const LRU_CLOCK_MASK: u64 = (1 << 24) - 1;

/// `part` of `whole` in percent; 0 of nothing.
fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { 100.0 * part as f64 / whole as f64 }
}

pub(super) fn server(text: &mut Text, server: &Server) {
    let observe = &server.observe;
    let uptime_s = observe.started.elapsed().as_secs();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let executable = std::env::current_exe().unwrap_or_default();
    text.title("Server");
    text.field("redis_version", REDIS_VERSION);
    text.field("server_name", "sexton");
    text.field("sexton_version", env!("CARGO_PKG_VERSION"));
    text.field("redis_git_sha1", "00000000");
    text.field("redis_git_dirty", 0);
    text.field("redis_build_id", 0);
    text.field("redis_mode", "standalone");
    text.field("os", format_args!("Linux {} {}", kernel.trim(), std::env::consts::ARCH));
    text.field("arch_bits", usize::BITS);
    text.field("monotonic_clock", "POSIX clock_gettime");
    text.field("multiplexing_api", "epoll");
    text.field("atomicvar_api", "rust-atomics");
    text.field("gcc_version", "0.0.0");
    text.field("process_id", std::process::id());
    text.field("process_supervised", server.setting("supervised"));
    text.field("run_id", &observe.run_id);
    let port = server.setting("port");
    text.field("tcp_port", if port == "0" { server.setting("tls-port") } else { port });
    text.field("server_time_usec", now.as_micros());
    text.field("uptime_in_seconds", uptime_s);
    text.field("uptime_in_days", uptime_s / DAY_S);
    text.field("hz", server.setting("hz"));
    text.field("configured_hz", server.setting("hz"));
    text.field("lru_clock", now.as_secs() & LRU_CLOCK_MASK);
    text.field("executable", executable.display());
    text.field("config_file", server.config_file());
    text.field("io_threads_active", 0);
}

pub(super) fn clients(text: &mut Text, server: &Server) {
    let sessions = server.sessions.all();
    let most = |figure: fn(&crate::session::Session) -> usize| {
        sessions.iter().map(|session| figure(session)).max().unwrap_or(0)
    };
    text.title("Clients");
    text.field("connected_clients", sessions.len());
    text.field("cluster_connections", 0);
    text.field("maxclients", server.setting("maxclients"));
    text.field(
        "client_recent_max_input_buffer",
        most(|session| session.query_bytes.load(Ordering::Relaxed)),
    );
    text.field(
        "client_recent_max_output_buffer",
        most(|session| session.output_bytes.load(Ordering::Relaxed)),
    );
    text.field("blocked_clients", server.sessions.blocked());
    text.field("tracking_clients", server.events.tracking.clients());
    text.field("clients_in_timeout_table", 0);
}

pub(super) fn memory(text: &mut Text, server: &Server) {
    let observe = &server.observe;
    let memory = observe.memory();
    let holders = server.holders();
    let (used, startup) = (holders.used, holders.startup);
    let peak = observe.note_peak(used);
    let maxmemory = server.setting("maxmemory").parse().unwrap_or(0);

    text.title("Memory");
    text.bytes("used_memory", used);
    text.bytes("used_memory_rss", memory.rss_bytes);
    text.bytes("used_memory_peak", peak);
    text.field("used_memory_peak_perc", format_args!("{:.2}%", percent(used, peak)));
    text.field("used_memory_overhead", used - holders.data);
    text.field("used_memory_startup", startup);
    text.field("used_memory_dataset", holders.data);
    text.field("used_memory_dataset_perc", format_args!("{:.2}%", holders.data_percentage()));
    text.field("allocator_allocated", memory.allocated_bytes);
    text.field("allocator_active", memory.active_bytes);
    text.field("allocator_resident", memory.resident_bytes);
    text.bytes("total_system_memory", observe.machine().bytes);
    let interpreters = server.scripts.interpreter_bytes();
    let (scripts, script_bytes) = server.scripts.size();
    text.field("used_memory_lua", interpreters);
    text.field("used_memory_vm_eval", interpreters);
    text.field("used_memory_lua_human", human(interpreters));
    text.field("used_memory_scripts_eval", script_bytes);
    text.field("number_of_cached_scripts", scripts);
    let (libraries, functions, library_bytes) = server.functions.current().size();
    text.field("number_of_functions", functions);
    text.field("number_of_libraries", libraries);
    // An interpreter runs both kinds.
    text.zeros(&["used_memory_vm_functions"]);
    text.bytes("used_memory_vm_total", interpreters);
    text.field("used_memory_functions", library_bytes);
    text.bytes("used_memory_scripts", (script_bytes + library_bytes) as u64);
    text.bytes("maxmemory", maxmemory);
    text.field("maxmemory_policy", server.setting("maxmemory-policy"));
    text.overhead("allocator_frag", memory.active_bytes, memory.allocated_bytes);
    text.overhead("allocator_rss", memory.resident_bytes, memory.active_bytes);
    text.overhead("rss_overhead", memory.rss_bytes, memory.resident_bytes);
    text.overhead("mem_fragmentation", memory.rss_bytes, used);
    text.zeros(&[
        "mem_not_counted_for_evict",
        "mem_replication_backlog",
        "mem_total_replication_buffers",
        "mem_clients_slaves",
    ]);
    text.field("mem_clients_normal", holders.clients);
    text.field("mem_cluster_links", 0);
    text.field("mem_aof_buffer", holders.store.log_buffer);
    text.field("mem_allocator", "jemalloc");
    text.zeros(&["active_defrag_running"]);
    let (gone, waiting) = server.engine.collections_gone();
    text.field("lazyfree_pending_objects", waiting);
    text.field("lazyfreed_objects", server.stats.freed(gone - waiting));
    // Our own. With used_memory_dataset and mem_clients_normal this is used_memory:
    text.field("mem_machinery", holders.machinery());
    // And what the process holds: with mem_clients_normal and mem_aof_buffer the parts add up to it.
    text.bytes("mem_held", holders.held);
    text.field("mem_base", holders.base);
    for (part, bytes) in holders.parts() {
        text.field(format!("mem_{part}"), bytes);
    }
    text.field("mem_other", holders.other());
}

pub(super) fn persistence(text: &mut Text, server: &Server) {
    let refusal = server.engine.write_refusal();
    let engine = &server.engine;
    let aof = engine.sync_policy() != SyncPolicy::Off && !engine.is_write_behind();
    let saving = server.saving.view();
    let seconds = |time: Option<u64>| time.map_or(-1, |seconds| seconds as i64);
    let (done, total) = saving.keys;
    text.title("Persistence");
    text.field("loading", u8::from(server.loading.is_active()));
    text.zeros(&["async_loading", "current_cow_peak", "current_cow_size", "current_cow_size_age"]);
    text.field("current_fork_perc", format_args!("{:.2}", percent(done, total)));
    text.field("current_save_keys_processed", done);
    text.field("current_save_keys_total", total);
    let changes = server.saving.changes(engine.last_seq());
    text.field("rdb_changes_since_last_save", changes);
    text.field("rdb_bgsave_in_progress", u8::from(saving.in_background));
    text.field("rdb_last_save_time", saving.last_save_s);
    text.field("rdb_last_bgsave_status", if saving.last_ok { "ok" } else { "err" });
    text.field("rdb_last_bgsave_time_sec", seconds(saving.last_took_s));
    text.field("rdb_current_bgsave_time_sec", seconds(saving.current_s));
    text.field("rdb_saves", saving.saves);
    // There is no fork, so nothing is copied on write.
    text.field("rdb_last_cow_size", 0);
    let (loaded, expired) = server.loading.last_keys();
    text.field("rdb_last_load_keys_expired", expired);
    text.field("rdb_last_load_keys_loaded", loaded);
    text.field("persistence_mode", if engine.is_write_behind() { "wbl" } else { "log" });
    text.field("aof_enabled", u8::from(aof));
    let rewriting = server.rewriting.view();
    text.field("aof_rewrite_in_progress", u8::from(rewriting.current_s.is_some()));
    text.field("aof_rewrite_scheduled", 0);
    text.field("aof_last_rewrite_time_sec", seconds(rewriting.last_took_s));
    text.field("aof_current_rewrite_time_sec", seconds(rewriting.current_s));
    text.field("aof_last_bgrewrite_status", if rewriting.last_ok { "ok" } else { "err" });
    text.field("aof_rewrites", rewriting.rewrites);
    text.field("aof_rewrites_consecutive_failures", rewriting.failures_in_a_row);
    text.field("aof_last_write_status", if refusal.is_none() { "ok" } else { "err" });
    text.field("disk_used_bytes", server.disk_bound.used_bytes());
    text.field("disk_max_bytes", server.disk_bound.max_bytes());
    text.field("disk_full", u8::from(server.disk_bound.is_reached()));
    text.zeros(&["aof_last_cow_size", "module_fork_in_progress", "module_fork_last_cow_size"]);
    if aof {
        let stats = server.engine.stats();
        let (base_bytes, _) = server.engine.log_base_bytes().unwrap_or_default();
        text.field("aof_current_size", base_bytes + stats.log_live_bytes);
        text.field("aof_base_size", base_bytes);
        text.field("aof_pending_rewrite", 0);
        text.field("aof_buffer_length", stats.log_pending_bytes);
        text.field("aof_pending_bio_fsync", u8::from(stats.oldest_unsynced_age_ms > 0));
        text.field("aof_delayed_fsync", stats.log_delayed);
    }
    if let Some(load) = server.loading.view() {
        text.field("loading_start_time", load.started_s);
        text.field("loading_total_bytes", load.total_bytes);
        text.field("loading_rdb_used_mem", load.rdb_used_mem_bytes);
        text.field("loading_loaded_bytes", load.loaded_bytes);
        let share = percent(load.loaded_bytes, load.total_bytes);
        text.field("loading_loaded_perc", format_args!("{share:.2}"));
        text.field("loading_eta_seconds", load.eta_s);
    }
}

pub(super) fn stats(text: &mut Text, server: &Server) {
    let traffic = &server.observe.traffic;
    let rate = traffic.rate();
    let load = |figure: &std::sync::atomic::AtomicU64| figure.load(Ordering::Relaxed);
    let counters = &server.stats;
    text.title("Stats");
    text.field("total_connections_received", load(&traffic.connections));
    text.field("total_commands_processed", load(&traffic.commands));
    text.field("instantaneous_ops_per_sec", rate.commands);
    text.field("total_net_input_bytes", load(&traffic.input_bytes));
    text.field("total_net_output_bytes", load(&traffic.output_bytes));
    text.zeros(&["total_net_repl_input_bytes", "total_net_repl_output_bytes"]);
    text.field("instantaneous_input_kbps", format_args!("{:.2}", rate.input_kib));
    text.field("instantaneous_output_kbps", format_args!("{:.2}", rate.output_kib));
    text.field("instantaneous_input_repl_kbps", "0.00");
    text.field("instantaneous_output_repl_kbps", "0.00");
    text.field("rejected_connections", load(&traffic.rejected_connections));
    text.zeros(&["sync_full", "sync_partial_ok", "sync_partial_err"]);
    text.field("expired_keys", counters.expired_keys());
    text.field("expired_fields", counters.expired_fields());
    text.field("expired_stale_perc", "0.00");
    text.zeros(&["expired_time_cap_reached_count", "expire_cycle_cpu_milliseconds"]);
    text.field("evicted_keys", counters.evicted_keys());
    text.field("evicted_clients", counters.evicted_clients());
    text.zeros(&["total_eviction_exceeded_time", "current_eviction_exceeded_time"]);
    text.field("keyspace_hits", counters.hits());
    text.field("keyspace_misses", counters.misses());
    for (name, kind) in [
        ("pubsub_channels", Kind::Channel),
        ("pubsub_patterns", Kind::Pattern),
        ("pubsubshard_channels", Kind::Shard),
    ] {
        text.field(name, server.events.pubsub.names(kind));
    }
    text.zeros(&["latest_fork_usec", "total_forks"]);
    text.field("migrate_cached_sockets", server.targets.count());
    text.zeros(&[
        "slave_expires_tracked_keys",
        "active_defrag_hits",
        "active_defrag_misses",
        "active_defrag_key_hits",
        "active_defrag_key_misses",
        "total_active_defrag_time",
        "current_active_defrag_time",
    ]);
    let tracking = &server.events.tracking;
    let (keys, items) = tracking.sizes();
    text.field("tracking_total_keys", keys);
    text.field("tracking_total_items", items);
    text.field("tracking_total_prefixes", tracking.prefixes());
    text.field("unexpected_error_replies", 0);
    text.field("total_error_replies", load(&traffic.error_replies));
    text.field("dump_payload_sanitizations", 0);
    text.field("total_reads_processed", load(&traffic.reads));
    text.field("total_writes_processed", load(&traffic.writes));
    text.zeros(&[
        "io_threaded_reads_processed",
        "io_threaded_writes_processed",
        "reply_buffer_shrinks",
        "reply_buffer_expands",
    ]);
    for reason in Reason::ALL {
        text.field(reason.field(), server.auth.denials.count(reason));
    }
}

pub(super) fn replication(text: &mut Text, server: &Server) {
    text.title("Replication");
    text.field("role", "master");
    text.field("connected_slaves", 0);
    text.field("master_failover_state", "no-failover");
    text.field("master_replid", server.replication_id());
    text.field("master_replid2", "0".repeat(40));
    text.field("master_repl_offset", 0);
    text.field("second_repl_offset", -1);
    text.field("repl_backlog_active", 0);
    text.field("repl_backlog_size", server.setting("repl-backlog-size"));
    text.zeros(&["repl_backlog_first_byte_offset", "repl_backlog_histlen"]);
}

pub(super) fn cpu(text: &mut Text, _: &Server) {
    let process = cpu_times(CpuOf::Process);
    let children = cpu_times(CpuOf::Children);
    let thread = cpu_times(CpuOf::Thread);
    text.title("CPU");
    for (name, seconds) in [
        ("used_cpu_sys", process.system_s),
        ("used_cpu_user", process.user_s),
        ("used_cpu_sys_children", children.system_s),
        ("used_cpu_user_children", children.user_s),
        // There is no main thread that executes requests: the answering worker represents it.
        ("used_cpu_sys_main_thread", thread.system_s),
        ("used_cpu_user_main_thread", thread.user_s),
    ] {
        text.field(name, format_args!("{seconds:.6}"));
    }
}

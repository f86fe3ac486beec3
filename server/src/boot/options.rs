//! Settings, as the engine and the listeners take them.

use crate::configuration::memory_bound;
use crate::net::Endpoints;
use crate::{devices, log};
use sexton_config::Options;
use sexton_config::choice::{
    AppendFsync, Compression, Deletes, EvictionPolicy, Memtable, PersistenceMode,
};
use sexton_engine::{DeleteMode, EngineOptions, EventSink, MemtableKind, SyncPolicy};
use sexton_persistence::device::PlacedStorage;
use std::path::PathBuf;
use std::sync::Arc;

/// Where the server listens.
pub(super) fn endpoints(options: &Options) -> Endpoints {
    Endpoints {
        bind: addresses(&options.bind),
        port: options.port,
        tls: options.tls.clone(),
        unix_socket: options.unixsocket.clone(),
        unix_socket_mode: (options.unixsocketperm != 0).then_some(options.unixsocketperm),
        backlog: i32::try_from(options.tcp_backlog).unwrap_or(i32::MAX),
    }
}

/// Addresses of `bind` and its like.
pub(super) fn addresses(words: &[Vec<u8>]) -> Vec<String> {
    words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// What the engine is to know of the settings.
pub(super) fn engine_options(
    options: &Options,
    devices: &Arc<PlacedStorage>,
) -> Result<EngineOptions, String> {
    let storage: Arc<PlacedStorage> = Arc::clone(devices);
    let mut engine_options = EngineOptions::new(storage, PathBuf::from("."));
    engine_options.databases = options.databases;
    engine_options.level_places = devices::level_places(options);
    engine_options.sync_policy = match (options.appendonly, options.appendfsync) {
        (false, _) => SyncPolicy::Off,
        (true, AppendFsync::Always) => SyncPolicy::Always,
        (true, AppendFsync::No) => SyncPolicy::No,
        (true, AppendFsync::EverySecond) => SyncPolicy::EverySec,
    };
    engine_options.write_behind = options.persistence_mode == PersistenceMode::Wbl;
    engine_options.pool = devices::pool_options(options, devices)?;
    engine_options.log_dir_name = options.appenddirname.display().to_string();
    engine_options.log_file_name = options.appendfilename.display().to_string();
    let bound = memory_bound(options);
    engine_options.memory_bound_bytes = bound.bytes;
    engine_options.evicts_keys = options.maxmemory_policy != EvictionPolicy::NoEviction;
    engine_options.memtable_bytes = bound.memtable_bytes;
    let disk = devices::disk_of_level_0(options);
    engine_options.max_write_buffer_number = bound.max_write_buffer_number;
    engine_options.shares_values = options.share_values;
    engine_options.yields_to_log = disk.is_some() && disk == options.aof_device.as_deref();
    engine_options.block_cache_bytes = options.block_cache_bytes as usize;
    let compression = |setting| match setting {
        Compression::None => sexton_engine::Compression::None,
        Compression::Lz4 => sexton_engine::Compression::Lz4,
        Compression::Zstd => sexton_engine::Compression::Zstd,
    };
    engine_options.compression = compression(options.compression);
    engine_options.compression_upper = compression(options.compression_upper);
    engine_options.compression_bottom = compression(options.compression_bottom);
    engine_options.log_segment_bytes = options.effective_aof_segment_bytes();
    engine_options.log_load_truncated = options.aof_load_truncated;
    engine_options.log_routes = devices::log_routes(options);
    engine_options.log_archive_dir.clone_from(&options.aof_archive_dir);
    engine_options.filter_bits_per_key = options.filter_bits_per_key as u8;
    engine_options.deletes = match options.deletes {
        Deletes::Cemetery => DeleteMode::Cemetery,
        Deletes::Tombstones => DeleteMode::Tombstones,
    };
    engine_options.memtable = match options.memtable {
        Memtable::Hash => MemtableKind::Hash,
        Memtable::SkipList => MemtableKind::SkipList,
    };
    engine_options.direct_io = options.tree_direct_io;
    engine_options.compaction_threads = options.compaction_threads;
    engine_options.compaction_bytes_per_s = options.compaction_rate_limit_bytes;
    engine_options.cemetery_max_bytes = options.cemetery_max_memory_bytes;
    engine_options.delete_persist_ms = 1000 * u64::from(options.delete_persist_seconds);
    engine_options.snapshots_max = options.snapshots_max;
    engine_options.cold_read_threads = options.cold_read_threads;
    engine_options.events = EventSink::new(|event| log::warning(&event.to_string()));
    engine_options.log_buffer_bytes = options.aof_buffer_limit_bytes as usize;
    Ok(engine_options)
}

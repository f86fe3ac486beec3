//! The options in effect as plain typed fields.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crate::choice::{
    AppendFsync, Compression, Deletes, EvictionPolicy, LogLevel, Memtable, Permission,
    PersistenceMode, SanitizePayload, Supervised, TlsAuthClients, TlsUser,
};
use crate::device::DeviceSpec;
use crate::level_device::LevelDevice;
use crate::size_route::SizeRoute;
use crate::table;
use crate::tls::TlsOptions;
use crate::value::{Events, OutputLimits, SavePoint, Value};

/// Least bytes of a memtable.
pub(crate) const MEMTABLE_BYTES_MIN: u64 = 1 << 20;
/// Least bytes of a log segment.
pub(crate) const AOF_SEGMENT_BYTES_MIN: u64 = 1 << 20;
/// A memtable is at most `maxmemory` divided by this: active, frozen ones and DRAM table must fit.
pub(crate) const MEMTABLE_SHARE: u64 = 32;
/// Default number of memtables with a log.
pub(crate) const WRITE_BUFFERS: usize = 2;
/// Most memtables with a log.
pub(crate) const WRITE_BUFFERS_MAX: usize = 64;
/// Default size in bytes of all memtables if writers would wait for a disk and memory is unbounded.
pub(crate) const DISK_MEMTABLES_BYTES: u64 = 2 << 30;
/// They are at most the machine's memory divided by this.
pub(crate) const DISK_MEMTABLES_SHARE: u64 = 8;
/// Default maximum size in bytes of memtables on a device of their own.
pub(crate) const MEMTABLE_POOL_BYTES: u64 = 1 << 30;
/// Default minimum number of memtables that fit into the pool.
pub(crate) const MEMTABLE_POOL_MEMTABLES: u64 = 8;
/// Hard minimum: two memtables that are being flushed, and one that grows to twice its size meanwhile.
pub(crate) const MEMTABLE_POOL_MEMTABLES_MIN: u64 = 4;

/// The directives the server acts on, typed. They take effect at once or when the part they control is created (the directive
/// table says which). The names include the unit where the directive's does not.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// `port`: TCP port; 0 listens on none.
    pub port: u16,
    /// `bind`: Addresses to listen on; a leading `-` allows the address to be missing. Empty means none.
    pub bind: Vec<Vec<u8>>,
    /// `tls-*`
    pub tls: TlsOptions,
    /// `metrics-port`: Port of metrics and status page; 0 for none.
    pub metrics_port: u16,
    /// `metrics-bind`: Addresses that it is on, as in `bind`.
    pub metrics_bind: Vec<Vec<u8>>,
    /// `unixsocket`: Path of the unix socket.
    pub unixsocket: Option<PathBuf>,
    /// `unixsocketperm`: Mode of the unix socket; 0 leaves what the umask gives.
    pub unixsocketperm: u32,
    /// `tcp-backlog`: Length of the accept queue.
    pub tcp_backlog: u32,
    /// `tcp-keepalive`: Seconds between keep-alive probes; 0 turns them off.
    pub tcp_keepalive_seconds: u32,
    /// `timeout`: Seconds after which an idle client is closed; 0 means never.
    pub timeout_seconds: u32,
    /// `maxclients`: Most connections at a time.
    pub maxclients: usize,
    /// `protected-mode`: Whether only local clients may connect while no password is set.
    pub protected_mode: bool,
    /// `requirepass`: Password of the default user.
    pub requirepass: Option<Vec<u8>>,
    /// `enable-debug-command`: Clients that may run DEBUG.
    pub enable_debug_command: Permission,
    /// `enable-protected-configs`: Clients that may change protected directives.
    pub enable_protected_configs: Permission,
    /// `client-query-buffer-limit`: Most bytes of a client's unread input.
    pub client_query_buffer_limit_bytes: u64,
    /// `proto-max-bulk-len`: Most bytes of one argument.
    pub proto_max_bulk_len_bytes: u64,
    /// `client-output-buffer-limit`: Bounds of pending output by client class.
    pub client_output_buffer_limits: OutputLimits,
    /// `maxmemory-clients`: Bytes all client buffers may take; negative is a percentage of `maxmemory_bytes`, 0 no bound.
    pub maxmemory_clients: i64,
    /// `tracking-table-max-keys`: Most keys remembered for client-side caching.
    pub tracking_table_max_keys: u64,
    /// `aclfile`: File of the users; empty for none.
    pub aclfile: Vec<u8>,
    /// `acllog-max-len`: Most entries of ACL LOG.
    pub acllog_max_len: usize,
    /// `acl-pubsub-default`: Whether new users may use every channel.
    pub acl_pubsub_default_all: bool,
    /// `daemonize`: Whether to run in the background.
    pub daemonize: bool,
    /// `supervised`: How readiness is reported.
    pub supervised: Supervised,
    /// `pidfile`: File the process number is written to.
    pub pidfile: Option<PathBuf>,
    /// `loglevel`: Least important lines that are logged.
    pub loglevel: LogLevel,
    /// `logfile`: File of the log; empty means standard output.
    pub logfile: PathBuf,
    /// `crash-log-enabled`: Whether a crash logs its stack.
    pub crash_log_enabled: bool,
    /// `hz`: Rounds of background work a second.
    pub hz: u32,
    /// `busy-reply-threshold`: Milliseconds after which a running script answers BUSY to others.
    pub busy_reply_threshold_ms: u64,
    /// `slowlog-log-slower-than`: Microseconds from which a command is in SLOWLOG; negative means none.
    pub slowlog_log_slower_than_us: i64,
    /// `slowlog-max-len`: Most entries of SLOWLOG.
    pub slowlog_max_len: usize,
    /// `latency-monitor-threshold`: Milliseconds from which an event is in LATENCY; 0 turns it off.
    pub latency_monitor_threshold_ms: u64,
    /// `latency-tracking`: Whether latencies of commands are counted.
    pub latency_tracking: bool,
    /// `latency-tracking-info-percentiles`: Percentiles of INFO latencystats.
    pub latency_tracking_percentiles: Vec<f64>,
    /// `notify-keyspace-events`: Events that are published.
    pub notify_keyspace_events: Events,
    /// `shutdown-timeout`: Seconds SHUTDOWN waits for replicas.
    pub shutdown_timeout_seconds: u32,
    /// `shutdown-on-sigint`: What SIGINT does: 1 save, 2 nosave, 4 now, 8 force.
    pub shutdown_on_sigint: u8,
    /// `shutdown-on-sigterm`: What SIGTERM does, encoded as for `shutdown-on-sigint`.
    pub shutdown_on_sigterm: u8,
    /// `databases`: Number of logical databases, 1 to 128.
    pub databases: usize,
    /// `maxmemory`: Bytes of data in memory before eviction; 0 means no bound.
    pub maxmemory_bytes: u64,
    /// `maxmemory auto`: The bound is a share of the memory that the process may have.
    pub maxmemory_is_auto: bool,
    /// `maxmemory-policy`: Which keys are evicted.
    pub maxmemory_policy: EvictionPolicy,
    /// `maxmemory-samples`: Keys sampled per eviction.
    pub maxmemory_samples: u32,
    /// `lfu-log-factor`: Slope of the frequency counter.
    pub lfu_log_factor: u32,
    /// `lfu-decay-time`: Minutes after which an unused counter loses one.
    pub lfu_decay_time_minutes: u32,
    /// `active-expire-effort`: Share of time for expiry, 1 to 10.
    pub active_expire_effort: u32,
    /// `hash-max-listpack-entries`: Fields up to which OBJECT ENCODING calls a hash `listpack`.
    pub hash_max_listpack_entries: u64,
    /// `hash-max-listpack-value`: Bytes of a field or value up to which it does.
    pub hash_max_listpack_value_bytes: u64,
    /// `list-max-listpack-size`: Elements of a list node; negative numbers mean 4 to 64 KiB.
    pub list_max_listpack_size: i32,
    /// `set-max-intset-entries`: Members up to which a set of integers is an `intset`.
    pub set_max_intset_entries: u64,
    /// `zset-max-listpack-entries`: Members up to which a sorted set is a `listpack`.
    pub zset_max_listpack_entries: u64,
    /// `zset-max-listpack-value`: Bytes of a member up to which it is.
    pub zset_max_listpack_value_bytes: u64,
    /// `hll-sparse-max-bytes`: Bytes up to which a HyperLogLog is sparse.
    pub hll_sparse_max_bytes: u64,
    /// `stream-node-max-bytes`: Bytes of a stream node; 0 means no bound.
    pub stream_node_max_bytes: u64,
    /// `stream-node-max-entries`: Entries of a stream node; 0 means no bound.
    pub stream_node_max_entries: u64,
    /// `sanitize-dump-payload`: Whether RESTORE checks payloads deeply.
    pub sanitize_dump_payload: SanitizePayload,
    /// `dir`: Directory of all data, absolute.
    pub dir: PathBuf,
    /// `dbfilename`: Snapshot file in `dir`.
    pub dbfilename: PathBuf,
    /// `import`: File to load in place of the store at the start.
    pub import: Option<PathBuf>,
    /// `save`: Save points; empty means no periodic snapshot.
    pub save: Vec<SavePoint>,
    /// `stop-writes-on-bgsave-error`: Whether writes fail after a failed snapshot.
    pub stop_writes_on_bgsave_error: bool,
    /// `rdbcompression`: Whether snapshots compress strings.
    pub rdbcompression: bool,
    /// `rdbchecksum`: Whether snapshots carry a checksum.
    pub rdbchecksum: bool,
    /// `rdb-save-incremental-fsync`: Whether a snapshot is synced while it is written.
    pub rdb_save_incremental_fsync: bool,
    /// `rdb-key-save-delay`: Test help: microseconds to wait after every saved key.
    pub rdb_key_save_delay_us: i64,
    /// `key-load-delay`: Test help: microseconds to wait after every loaded key.
    pub key_load_delay_us: i64,
    /// `appendonly`: Whether the log is the truth (rule N3).
    pub appendonly: bool,
    /// `appendfilename`: Stem of the append only files.
    pub appendfilename: PathBuf,
    /// `appenddirname`: Directory of the append only files in `dir`.
    pub appenddirname: PathBuf,
    /// `appendfsync`: When the log is synced.
    pub appendfsync: AppendFsync,
    /// `auto-aof-rewrite-percentage`: Growth that rewrites the log; 0 turns it off.
    pub auto_aof_rewrite_percentage: u32,
    /// `auto-aof-rewrite-min-size`: Bytes below which it is not rewritten.
    pub auto_aof_rewrite_min_size_bytes: u64,
    /// `aof-load-truncated`: Whether a torn end of the log is cut off at start.
    pub aof_load_truncated: bool,
    /// `aof-use-rdb-preamble`: Whether rewritten logs start with a snapshot.
    pub aof_use_rdb_preamble: bool,
    /// `aof-timestamp-enabled`: Whether the log has time annotations.
    pub aof_timestamp_enabled: bool,
    /// `device`: Named places for files.
    pub devices: Vec<DeviceSpec>,
    /// `device-profiles`: File with profiles of emulated devices, in addition to the built-in ones.
    pub device_profiles: Option<PathBuf>,
    /// `aof-device`: Device of the append only file.
    pub aof_device: Option<String>,
    /// `aof-route`: Devices of long records of the log, by rising size.
    pub aof_routes: Vec<SizeRoute>,
    /// `rdb-device`: Device of the snapshot file.
    pub rdb_device: Option<String>,
    /// `tree-device`: Devices of the tables, by level.
    pub tree_devices: Vec<LevelDevice>,
    /// `persistence-mode`: What keeps the newest writes over a crash.
    pub persistence_mode: PersistenceMode,
    /// `memtable-device`: Device of the memtables, with `persistence-mode wbl`.
    pub memtable_device: Option<String>,
    /// `memtable-pool-bytes`: Bytes that memtables may take there; see
    /// [`Options::effective_memtable_pool_bytes`].
    pub memtable_pool_bytes: u64,
    /// `undo-device`: Device of versions that only open snapshots need.
    pub undo_device: Option<String>,
    /// `worker-threads`: Threads that serve connections; 0 means one less than the cores, at least 1.
    pub worker_threads: usize,
    /// `cold-read-threads`: Threads that read keys from the device.
    pub cold_read_threads: usize,
    /// `memtable`: How memtables find and order their records.
    pub memtable: Memtable,
    /// `memtable-bytes`: Configured bytes of a memtable; see [`Options::effective_memtable_bytes`].
    pub memtable_bytes: u64,
    /// `max-write-buffer-number`: Memtables with a log, the active one included; see
    /// [`Options::effective_write_buffers`].
    pub max_write_buffer_number: usize,
    /// `block-cache-bytes`: Bytes of decompressed table blocks in DRAM.
    pub block_cache_bytes: u64,
    /// `filter-bits-per-key`: Bits of the Bloom filter per key; 0 means no filter.
    pub filter_bits_per_key: u32,
    /// `compression-upper`: Compression of the first level.
    pub compression_upper: Compression,
    /// `compression`: Compression of the levels between the first and the last.
    pub compression: Compression,
    /// `compression-bottom`: Compression of the last level.
    pub compression_bottom: Compression,
    /// `deletes`: How deletes are kept.
    pub deletes: Deletes,
    /// `share-values`: Whether memtable and table share one copy of a long value that no log keeps.
    pub share_values: bool,
    /// `tree-direct-io`: Whether flushes and compactions bypass the page cache.
    pub tree_direct_io: bool,
    /// `compaction-threads`: Threads of one large compaction; 0 means half of the cores, at most 4.
    pub compaction_threads: usize,
    /// `compaction-rate-limit`: Bytes that compactions may write per second; 0 means no bound.
    pub compaction_rate_limit_bytes: u64,
    /// `cemetery-max-memory`: Bytes of graves in DRAM.
    pub cemetery_max_memory_bytes: u64,
    /// `collection-inline-max`: Longest collection in one record.
    pub collection_inline_max_bytes: u64,
    /// `delete-persist-seconds`: Seconds until a deleted key is physically erased (rule N17); 0 means no limit.
    pub delete_persist_seconds: u32,
    /// `aof-buffer-limit`: Bytes of unwritten log at which writers wait (rule N14).
    pub aof_buffer_limit_bytes: u64,
    /// `aof-segment-bytes`: Bytes of a log segment; 0 means by the memtable.
    pub aof_segment_bytes: u64,
    /// `aof-archive-dir`: Where retired log segments are kept.
    pub aof_archive_dir: Option<PathBuf>,
    /// `snapshots-max`: Snapshots that may be open at once.
    pub snapshots_max: usize,
}

/// Values by directive name.
struct View<'a>(&'a [Value]);

impl<'a> View<'a> {
    fn tls(&self) -> TlsOptions {
        let text = |name| self.text(name).map(|text| String::from_utf8_lossy(text).into_owned());
        let file = |name| self.text(name).map(path);
        TlsOptions {
            port: self.int("tls-port"),
            cert_file: file("tls-cert-file"),
            key_file: file("tls-key-file"),
            ca_cert_file: file("tls-ca-cert-file"),
            ca_cert_dir: file("tls-ca-cert-dir"),
            auth_clients: TlsAuthClients::of(self.number("tls-auth-clients")),
            auth_clients_user: TlsUser::of(self.number("tls-auth-clients-user")),
            protocols: text("tls-protocols").unwrap_or_default(),
            ciphers: text("tls-ciphers").unwrap_or_default(),
            ciphersuites: text("tls-ciphersuites").unwrap_or_default(),
            prefer_server_ciphers: self.on("tls-prefer-server-ciphers"),
            session_caching: self.on("tls-session-caching"),
            session_cache_size: self.int("tls-session-cache-size"),
            session_cache_timeout_s: self.int("tls-session-cache-timeout"),
        }
    }

    /// The words of a list; none when it has another kind.
    fn words(&self, name: &str) -> Vec<Vec<u8>> {
        match self.value(name) {
            Some(Value::Words(words)) => words.clone(),
            _ => Vec::new(),
        }
    }

    fn value(&self, name: &str) -> Option<&'a Value> {
        table::position(name.as_bytes()).and_then(|position| self.0.get(position))
    }

    /// The directive's bounds are within the field's, so the fallback is never taken; a test sets
    /// every integer to its bounds.
    fn int<T: TryFrom<i128> + Default>(&self, name: &str) -> T {
        match self.value(name) {
            Some(Value::Int(number)) => T::try_from(*number).unwrap_or_default(),
            Some(Value::AutoBytes(bytes)) => T::try_from(i128::from(*bytes)).unwrap_or_default(),
            _ => T::default(),
        }
    }

    fn number(&self, name: &str) -> u8 {
        match self.value(name) {
            Some(Value::Enum(number) | Value::Flags(number)) => *number,
            _ => 0,
        }
    }

    fn on(&self, name: &str) -> bool {
        self.value(name) == Some(&Value::Bool(true))
    }

    fn name(&self, name: &str) -> Option<String> {
        self.text(name).map(|text| String::from_utf8_lossy(text).into_owned())
    }

    fn text(&self, name: &str) -> Option<&'a [u8]> {
        match self.value(name) {
            Some(Value::Text(text)) => text.as_deref(),
            _ => None,
        }
    }
}

fn path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

/// Bytes that may be pending for flush, to absorb a burst of writes: `DISK_MEMTABLES_BYTES`, or an eighth of `machine_bytes`.
fn burst_bytes(machine_bytes: u64) -> u64 {
    DISK_MEMTABLES_BYTES.min(machine_bytes / DISK_MEMTABLES_SHARE)
}

impl Options {
    pub(crate) fn of(values: &[Value]) -> Options {
        let view = View(values);
        Options {
            port: view.int("port"),
            bind: view.words("bind"),
            tls: view.tls(),
            metrics_port: view.int("metrics-port"),
            metrics_bind: view.words("metrics-bind"),
            unixsocket: view.text("unixsocket").map(path),
            unixsocketperm: view.int("unixsocketperm"),
            tcp_backlog: view.int("tcp-backlog"),
            tcp_keepalive_seconds: view.int("tcp-keepalive"),
            timeout_seconds: view.int("timeout"),
            maxclients: view.int("maxclients"),
            protected_mode: view.on("protected-mode"),
            requirepass: view.text("requirepass").map(<[u8]>::to_vec),
            enable_debug_command: Permission::of(view.number("enable-debug-command")),
            enable_protected_configs: Permission::of(view.number("enable-protected-configs")),
            client_query_buffer_limit_bytes: view.int("client-query-buffer-limit"),
            proto_max_bulk_len_bytes: view.int("proto-max-bulk-len"),
            client_output_buffer_limits: match view.value("client-output-buffer-limit") {
                Some(Value::OutputLimits(value)) => *value,
                _ => Default::default(),
            },
            maxmemory_clients: view.int("maxmemory-clients"),
            tracking_table_max_keys: view.int("tracking-table-max-keys"),
            aclfile: view.text("aclfile").map(<[u8]>::to_vec).unwrap_or_default(),
            acllog_max_len: view.int("acllog-max-len"),
            acl_pubsub_default_all: view.number("acl-pubsub-default") == 1,
            daemonize: view.on("daemonize"),
            supervised: Supervised::of(view.number("supervised")),
            pidfile: view.text("pidfile").map(path),
            loglevel: LogLevel::of(view.number("loglevel")),
            logfile: path(view.text("logfile").unwrap_or_default()),
            crash_log_enabled: view.on("crash-log-enabled"),
            hz: view.int("hz"),
            busy_reply_threshold_ms: view.int("busy-reply-threshold"),
            slowlog_log_slower_than_us: view.int("slowlog-log-slower-than"),
            slowlog_max_len: view.int("slowlog-max-len"),
            latency_monitor_threshold_ms: view.int("latency-monitor-threshold"),
            latency_tracking: view.on("latency-tracking"),
            latency_tracking_percentiles: match view.value("latency-tracking-info-percentiles") {
                Some(Value::Percentiles(value)) => value.clone(),
                _ => Default::default(),
            },
            notify_keyspace_events: match view.value("notify-keyspace-events") {
                Some(Value::Events(value)) => *value,
                _ => Default::default(),
            },
            shutdown_timeout_seconds: view.int("shutdown-timeout"),
            shutdown_on_sigint: view.number("shutdown-on-sigint"),
            shutdown_on_sigterm: view.number("shutdown-on-sigterm"),
            databases: view.int("databases"),
            maxmemory_bytes: view.int("maxmemory"),
            maxmemory_is_auto: matches!(view.value("maxmemory"), Some(Value::AutoBytes(_))),
            maxmemory_policy: EvictionPolicy::of(view.number("maxmemory-policy")),
            maxmemory_samples: view.int("maxmemory-samples"),
            lfu_log_factor: view.int("lfu-log-factor"),
            lfu_decay_time_minutes: view.int("lfu-decay-time"),
            active_expire_effort: view.int("active-expire-effort"),
            hash_max_listpack_entries: view.int("hash-max-listpack-entries"),
            hash_max_listpack_value_bytes: view.int("hash-max-listpack-value"),
            list_max_listpack_size: view.int("list-max-listpack-size"),
            set_max_intset_entries: view.int("set-max-intset-entries"),
            zset_max_listpack_entries: view.int("zset-max-listpack-entries"),
            zset_max_listpack_value_bytes: view.int("zset-max-listpack-value"),
            hll_sparse_max_bytes: view.int("hll-sparse-max-bytes"),
            stream_node_max_bytes: view.int("stream-node-max-bytes"),
            stream_node_max_entries: view.int("stream-node-max-entries"),
            sanitize_dump_payload: SanitizePayload::of(view.number("sanitize-dump-payload")),
            dir: path(view.text("dir").unwrap_or_default()),
            dbfilename: path(view.text("dbfilename").unwrap_or_default()),
            import: view.text("import").filter(|name| !name.is_empty()).map(path),
            save: match view.value("save") {
                Some(Value::Save(value)) => value.clone(),
                _ => Default::default(),
            },
            stop_writes_on_bgsave_error: view.on("stop-writes-on-bgsave-error"),
            rdbcompression: view.on("rdbcompression"),
            rdbchecksum: view.on("rdbchecksum"),
            rdb_save_incremental_fsync: view.on("rdb-save-incremental-fsync"),
            rdb_key_save_delay_us: view.int("rdb-key-save-delay"),
            key_load_delay_us: view.int("key-load-delay"),
            appendonly: view.on("appendonly"),
            appendfilename: path(view.text("appendfilename").unwrap_or_default()),
            appenddirname: path(view.text("appenddirname").unwrap_or_default()),
            appendfsync: AppendFsync::of(view.number("appendfsync")),
            auto_aof_rewrite_percentage: view.int("auto-aof-rewrite-percentage"),
            auto_aof_rewrite_min_size_bytes: view.int("auto-aof-rewrite-min-size"),
            aof_load_truncated: view.on("aof-load-truncated"),
            aof_use_rdb_preamble: view.on("aof-use-rdb-preamble"),
            aof_timestamp_enabled: view.on("aof-timestamp-enabled"),
            devices: match view.value("device") {
                Some(Value::Devices(devices)) => devices.clone(),
                _ => Vec::new(),
            },
            device_profiles: view.text("device-profiles").map(path),
            aof_device: view.name("aof-device"),
            aof_routes: match view.value("aof-route") {
                Some(Value::SizeRoutes(routes)) => routes.clone(),
                _ => Vec::new(),
            },
            rdb_device: view.name("rdb-device"),
            tree_devices: match view.value("tree-device") {
                Some(Value::LevelDevices(devices)) => devices.clone(),
                _ => Default::default(),
            },
            persistence_mode: PersistenceMode::of(view.number("persistence-mode")),
            memtable_device: view.name("memtable-device"),
            memtable_pool_bytes: view.int("memtable-pool-bytes"),
            undo_device: view.name("undo-device"),
            worker_threads: view.int("worker-threads"),
            cold_read_threads: view.int("cold-read-threads"),
            memtable: Memtable::of(view.number("memtable")),
            memtable_bytes: view.int("memtable-bytes"),
            max_write_buffer_number: view.int("max-write-buffer-number"),
            block_cache_bytes: view.int("block-cache-bytes"),
            filter_bits_per_key: view.int("filter-bits-per-key"),
            compression_upper: Compression::of(view.number("compression-upper")),
            compression: Compression::of(view.number("compression")),
            compression_bottom: Compression::of(view.number("compression-bottom")),
            deletes: Deletes::of(view.number("deletes")),
            share_values: view.on("share-values"),
            tree_direct_io: view.on("tree-direct-io"),
            compaction_threads: view.int("compaction-threads"),
            compaction_rate_limit_bytes: view.int("compaction-rate-limit"),
            cemetery_max_memory_bytes: view.int("cemetery-max-memory"),
            collection_inline_max_bytes: view.int("collection-inline-max"),
            delete_persist_seconds: view.int("delete-persist-seconds"),
            aof_buffer_limit_bytes: view.int("aof-buffer-limit"),
            aof_segment_bytes: view.int("aof-segment-bytes"),
            aof_archive_dir: view.text("aof-archive-dir").map(path),
            snapshots_max: view.int("snapshots-max"),
        }
    }

    /// Size of a memtable in bytes: `memtable-bytes`, but at most 1/32 of `maxmemory` if that is set, and at least
    /// 1 MiB.
    pub fn effective_memtable_bytes(&self) -> u64 {
        let bound = match self.maxmemory_bytes {
            0 => u64::MAX,
            maxmemory => maxmemory / MEMTABLE_SHARE,
        };
        self.memtable_bytes.min(bound).max(MEMTABLE_BYTES_MIN)
    }

    /// Number of memtables with a log: `max-write-buffer-number`, or two. If level 0 is stored `on_disk` and memory is
    /// unbounded, the default is large enough to absorb a burst of writes without waiting for the disk:
    /// `DISK_MEMTABLES_BYTES`, or an eighth of `machine_bytes`.
    pub fn effective_write_buffers(&self, on_disk: bool, machine_bytes: u64) -> usize {
        match self.max_write_buffer_number {
            0 if on_disk && self.maxmemory_bytes == 0 => {
                let memtables =
                    (burst_bytes(machine_bytes) / self.effective_memtable_bytes()) as usize;
                memtables.clamp(WRITE_BUFFERS, WRITE_BUFFERS_MAX)
            }
            number => number.max(WRITE_BUFFERS),
        }
    }

    /// Size of a log segment in bytes: `aof-segment-bytes`, or 5/4 of a memtable. A memtable begins a segment, and its
    /// records are slightly longer in the log: with less, a second segment would follow at once. Segments below
    /// `AOF_SEGMENT_BYTES_MIN` would be switched more often than synced.
    pub fn effective_aof_segment_bytes(&self) -> u64 {
        let bytes = match self.aof_segment_bytes {
            0 => self.effective_memtable_bytes() / 4 * 5,
            bytes => bytes,
        };
        bytes.max(AOF_SEGMENT_BYTES_MIN)
    }

    /// Bytes that memtables may occupy on their device: `memtable-pool-bytes`, or `MEMTABLE_POOL_BYTES` and at least
    /// enough memtables to absorb a burst of writes without waiting for the tree's device.
    pub fn effective_memtable_pool_bytes(&self) -> u64 {
        let memtable = self.effective_memtable_bytes();
        match self.memtable_pool_bytes {
            0 => MEMTABLE_POOL_BYTES.max(MEMTABLE_POOL_MEMTABLES * memtable),
            bytes => bytes.max(MEMTABLE_POOL_MEMTABLES_MIN * memtable),
        }
    }

    /// Number of threads that serve connections: `worker-threads`, or one less than `cores`.
    pub fn effective_worker_threads(&self, cores: usize) -> usize {
        match self.worker_threads {
            0 => cores.saturating_sub(1).max(1),
            threads => threads,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Config;
    use crate::choice::{AppendFsync, EvictionPolicy};

    fn options(text: &str) -> super::Options {
        Config::from_text(text.as_bytes()).unwrap().options().clone()
    }

    #[test]
    fn defaults() {
        let options = options("");
        assert_eq!((options.port, options.databases, options.hz), (6379, 16, 10));
        assert_eq!(options.bind, [b"*".to_vec(), b"-::*".to_vec()]);
        assert!(options.appendonly && options.protected_mode && !options.daemonize);
        assert_eq!(options.appendfsync, AppendFsync::EverySecond);
        assert_eq!(options.maxmemory_policy, EvictionPolicy::NoEviction);
        assert_eq!((options.cold_read_threads, options.block_cache_bytes), (2, 32 << 20));
        assert_eq!(options.save.len(), 3);
        assert_eq!(options.requirepass, None);
        assert!(options.dir.is_absolute());
        assert_eq!(options.client_output_buffer_limits.replica.soft_seconds, 60);
    }

    #[test]
    fn every_field_follows_its_directive() {
        let options = options(
            "port 0\nmaxmemory 1gb\nmaxmemory-policy allkeys-lfu\nappendfsync always\n\
             unixsocket /tmp/s\nunixsocketperm 700\nrequirepass \"a b\"\nsave 5 1 6 2\n\
             slowlog-log-slower-than -1\ntimeout 7\nbind ::1\n",
        );
        assert_eq!((options.port, options.maxmemory_bytes), (0, 1 << 30));
        assert_eq!(options.maxmemory_policy, EvictionPolicy::AllkeysLfu);
        assert_eq!(options.appendfsync, AppendFsync::Always);
        assert_eq!(options.unixsocket.unwrap().to_str(), Some("/tmp/s"));
        assert_eq!(options.unixsocketperm, 0o700);
        assert_eq!(options.requirepass.as_deref(), Some(&b"a b"[..]));
        assert_eq!((options.save[1].seconds, options.save[1].changes), (6, 2));
        assert!(options.notify_keyspace_events.is_off());
        assert_eq!((options.slowlog_log_slower_than_us, options.timeout_seconds), (-1, 7));
        assert_eq!(options.bind, [b"::1".to_vec()]);
    }

    #[test]
    fn memtable_is_a_small_share_of_maxmemory_at_most() {
        for (text, bytes) in [
            ("", 64 << 20),
            ("maxmemory 160mb", 5 << 20),
            ("maxmemory 4mb", 1 << 20),
            ("maxmemory 64gb\nmemtable-bytes 128mb", 128 << 20),
        ] {
            assert_eq!(options(text).effective_memtable_bytes(), bytes, "{text}");
        }
    }

    #[test]
    fn a_disk_gets_more_memtables_where_memory_is_not_bounded() {
        let machine = 16 << 30;
        for (text, on_disk, machine_bytes, number) in [
            ("", false, machine, 2),
            ("", true, machine, 32),
            ("", true, 8 << 30, 16),
            ("", true, 2 << 30, 4),
            ("", true, 1 << 20, 2),
            ("memtable-bytes 1mb", true, machine, 64),
            ("maxmemory 64gb", true, machine, 2),
            ("max-write-buffer-number 5", true, machine, 5),
            ("max-write-buffer-number 5", false, machine, 5),
            ("max-write-buffer-number 1", true, machine, 2),
        ] {
            let effective = options(text).effective_write_buffers(on_disk, machine_bytes);
            assert_eq!(effective, number, "{text} {on_disk} {machine_bytes}");
        }
    }

    #[test]
    fn the_pool_holds_some_memtables() {
        for (text, bytes) in [
            ("", 1 << 30),
            ("memtable-bytes 1gb", 8 << 30),
            ("memtable-pool-bytes 2gb", 2 << 30),
            ("memtable-pool-bytes 1mb", 256 << 20),
        ] {
            assert_eq!(options(text).effective_memtable_pool_bytes(), bytes, "{text}");
        }
    }

    #[test]
    fn segments_follow_the_memtable() {
        for (text, bytes) in [
            ("", 80 << 20),
            ("maxmemory 128mb", 5 << 20),
            ("memtable-bytes 64kb", 5 << 18),
            ("aof-segment-bytes 8mb", 8 << 20),
            ("aof-segment-bytes 1", 1 << 20),
        ] {
            assert_eq!(options(text).effective_aof_segment_bytes(), bytes, "{text}");
        }
    }

    #[test]
    fn worker_threads_leave_one_core() {
        let threads = |text, cores| options(text).effective_worker_threads(cores);
        assert_eq!([threads("", 1), threads("", 2), threads("", 8)], [1, 1, 7]);
        assert_eq!(threads("worker-threads 3", 8), 3);
    }
}

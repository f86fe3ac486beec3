//! What a store is opened with.

use super::read::undo_bound::UndoFull;
use super::upkeep::events::EventSink;
use super::upkeep::shares::buffer_bytes;
use crate::memtable::MemtableKind;
use crate::table::{Compression, TableOptions};
use crate::tree::{CompactionOptions, DeleteMode, LevelPlaces, TreeOptions};
use sexton_persistence::aof::LogRoute;
use sexton_persistence::device::Storage;
use sexton_persistence::pmem::PmemOptions;
use std::path::PathBuf;
use std::sync::Arc;

/// How the log is made durable (`appendfsync`, or none at all with `appendonly no`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum SyncPolicy {
    /// `appendonly no`: no log is written; everything visible counts as durable (N3).
    Off = 0,
    /// `appendfsync no`.
    No = 1,
    /// `appendfsync everysec`, bounded as N14 says.
    EverySec = 2,
    /// `appendfsync always`: replies wait for the sync.
    Always = 3,
}

impl SyncPolicy {
    pub(super) fn from_u8(value: u8) -> Self {
        match value {
            0 => Self::Off,
            1 => Self::No,
            2 => Self::EverySec,
            _ => Self::Always,
        }
    }
}

/// Options of one store. Sizes in bytes.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// The medium of everything but what has one of its own.
    pub storage: Arc<dyn Storage>,
    /// Data directory; tables are in `tree` below it.
    pub dir: PathBuf,
    /// Name of the log's directory below `dir` (`appenddirname`).
    pub log_dir_name: String,
    /// First part of the log files' names (`appendfilename`).
    pub log_file_name: String,
    /// Number of logical databases, at most 128: half of the slots of namespaces.
    pub databases: usize,
    /// How the log is synced. With `write_behind` it counts as [`SyncPolicy::Always`].
    pub sync_policy: SyncPolicy,
    /// Memtables are in persistent memory, and there is no log (`persistence-mode wbl`). Needs `pool`.
    pub write_behind: bool,
    /// The pool of the memtables with `write_behind`, or of those when the store was last open.
    pub pool: Option<PmemOptions>,
    /// How memtables find and order their records.
    pub memtable: MemtableKind,
    /// A memtable is frozen at this size.
    pub memtable_bytes: u64,
    /// Most memtables with a log, the active one included: at least 2. When all are full, writers
    /// wait for a flush. With `write_behind` the pool is the bound.
    pub max_write_buffer_number: usize,
    /// Memtables share long values with the DRAM table where there is neither a log nor a bound of memory.
    pub shares_values: bool,
    /// Log and level 0 share a rotating disk (`device ... kind hdd`): flushes and compactions wait while the
    /// log has much to write.
    pub yields_to_log: bool,
    /// Bound of the whole process (`maxmemory`); 0 for none.
    pub memory_bound_bytes: u64,
    /// Bound of the DRAM table alone, instead of what the bound of the process would leave it; 0 for none. A
    /// table smaller than a memtable's entries makes memtables freeze early (N10).
    pub dram_table_bytes: usize,
    /// Keys are evicted at the bound (`maxmemory-policy` other than `noeviction`).
    pub evicts_keys: bool,
    /// Bound of the log buffer (`aof-buffer-limit`).
    pub log_buffer_bytes: usize,
    /// Bound of the cache of table blocks.
    pub block_cache_bytes: usize,
    /// Compression of the tables between the first and the last level.
    pub compression: Compression,
    /// Compression of those of level 0, which are rewritten soon.
    pub compression_upper: Compression,
    /// Compression of those of the last level, which hold most of the data.
    pub compression_bottom: Compression,
    /// Flushes and compactions go past the page cache: see [`crate::tree::TreeOptions`].
    pub direct_io: bool,
    /// Bits of the filter for each distinct key of a table; 0 writes tables without filter.
    pub filter_bits_per_key: u8,
    /// Threads that read cold keys.
    pub cold_read_threads: usize,
    /// Snapshots that may be open at once.
    pub snapshots_max: usize,
    /// Places of the tables of some levels (`tree-device` with levels); by default all are in `tree`.
    pub level_places: LevelPlaces,
    /// The medium of undo runs (`undo-device`); that of everything else when not said. One that fails costs
    /// space in the tree, and the reads of old snapshots.
    pub undo_storage: Option<Arc<dyn Storage>>,
    /// Where undo runs are made on it; `undo` below the data directory when not said.
    pub undo_dir: Option<PathBuf>,
    /// Versions that only open snapshots need leave the tree for undo runs (N6).
    pub undo_runs: bool,
    /// Bound of the undo runs; 0 for none.
    pub undo_max_bytes: u64,
    /// What happens there.
    pub undo_full: UndoFull,
    /// Unresolved overwrites at which writers wait (N9).
    pub unresolved_max: u64,
    /// A log segment that reaches this size is followed by the next one.
    pub log_segment_bytes: u64,
    /// A torn end of the log is cut off (`aof-load-truncated`); otherwise it refuses the start.
    pub log_load_truncated: bool,
    /// Where retired segments of the log are kept (`aof-archive-dir`); they are given up when not said.
    pub log_archive_dir: Option<PathBuf>,
    /// Places of long records of the log (`aof-route`), by rising size.
    pub log_routes: Vec<LogRoute>,
    /// Bound of the graves in memory (`cemetery-max-memory`), beyond which they spill to grave runs; 0 for none.
    pub cemetery_max_bytes: u64,
    /// Time after which a deleted key must be gone from every file (N17), in milliseconds; 0 for no limit.
    pub delete_persist_ms: u64,
    /// How deletes are kept. Fixed when a store is created: later opens must specify it equally.
    pub deletes: DeleteMode,
    /// Sizes that steer compaction.
    pub compaction: CompactionOptions,
    /// Threads that share one large compaction; 0 for half of the cores, at most 4.
    pub compaction_threads: usize,
    /// What compactions may write per second; 0 for no bound. Flushes are not bounded.
    pub compaction_bytes_per_s: u64,
    /// Run flush, compaction, cold reads and the log on threads of their own. Without, the caller of
    /// an operation does what it needs itself: for tests that repeat a history step by step.
    pub background: bool,
    /// Hears when something begins to go wrong, and when it is over.
    pub events: EventSink,
}

impl EngineOptions {
    /// Defaults for a store in `dir` on `storage`.
    #[must_use]
    pub fn new(storage: Arc<dyn Storage>, dir: PathBuf) -> Self {
        Self {
            storage,
            dir,
            log_dir_name: "appendonlydir".into(),
            log_file_name: "appendonly.aof".into(),
            databases: 16,
            sync_policy: SyncPolicy::EverySec,
            write_behind: false,
            pool: None,
            memtable: MemtableKind::default(),
            memtable_bytes: 64 << 20,
            max_write_buffer_number: 2,
            shares_values: false,
            yields_to_log: false,
            memory_bound_bytes: 0,
            dram_table_bytes: 0,
            evicts_keys: false,
            log_buffer_bytes: 64 << 20,
            block_cache_bytes: 32 << 20,
            compression: Compression::Lz4,
            compression_upper: Compression::None,
            compression_bottom: Compression::Lz4,
            direct_io: true,
            filter_bits_per_key: 10,
            cold_read_threads: 2,
            snapshots_max: 1024,
            undo_storage: None,
            level_places: LevelPlaces::default(),
            undo_dir: None,
            undo_runs: true,
            undo_max_bytes: 0,
            undo_full: UndoFull::default(),
            unresolved_max: 1 << 20,
            log_segment_bytes: 64 << 20,
            log_load_truncated: true,
            log_archive_dir: None,
            log_routes: Vec::new(),
            cemetery_max_bytes: 64 << 20,
            delete_persist_ms: 0,
            deletes: DeleteMode::default(),
            compaction: CompactionOptions::default(),
            compaction_threads: 0,
            compaction_bytes_per_s: 0,
            background: true,
            events: EventSink::default(),
        }
    }
}

/// Most threads that a compaction has by default.
const COMPACTION_THREADS_DEFAULT_MAX: usize = 4;

impl EngineOptions {
    /// A buffer's size, lowered to its share of the memory bound where there is one.
    pub(super) fn bounded(&self, bytes: u64) -> u64 {
        buffer_bytes(self.memory_bound_bytes, bytes)
    }

    /// Threads of one large compaction.
    pub(super) fn effective_compaction_threads(&self) -> usize {
        match self.compaction_threads {
            0 => {
                let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
                (cores / 2).clamp(1, COMPACTION_THREADS_DEFAULT_MAX)
            }
            threads => threads,
        }
    }

    pub(super) fn tree_options(&self) -> TreeOptions {
        TreeOptions {
            table: TableOptions {
                compression: self.compression,
                filter_bits_per_key: self.filter_bits_per_key,
                ..TableOptions::default()
            },
            upper_compression: self.compression_upper,
            bottom_compression: self.compression_bottom,
            direct_io: self.direct_io,
            merge_read_bytes_max: self.bounded(u64::MAX),
            cache_bytes: self.bounded(self.block_cache_bytes as u64),
        }
    }
}

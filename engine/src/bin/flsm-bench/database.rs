//! The store under test.

use crate::flags::Flags;
use sexton_engine::{Compression, Engine, EngineError, EngineOptions, SyncPolicy};
use sexton_persistence::device::DiskStorage;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// All benchmarks use one logical database.
pub(crate) const DB: usize = 0;

/// Pause between two looks at how far the background is.
const LOOK: Duration = Duration::from_millis(20);
/// It is at rest when that many looks in a row saw nothing change.
const QUIET_LOOKS: u32 = 15;

fn options(flags: &Flags) -> EngineOptions {
    let mut options = EngineOptions::new(Arc::new(DiskStorage), flags.db.clone());
    options.databases = 1;
    options.sync_policy = match (flags.disable_wal, flags.sync) {
        (true, _) => SyncPolicy::Off,
        (false, true) => SyncPolicy::Always,
        (false, false) => SyncPolicy::No,
    };
    options.memtable = flags.memtable;
    options.memtable_bytes = flags.write_buffer_size;
    options.block_cache_bytes = flags.cache_size;
    let twice = 2 * flags.write_buffer_size as usize;
    options.dram_table_bytes = flags.dram_size.unwrap_or(twice);
    options.compression_bottom = flags.compression;
    options.compression = match flags.compression {
        Compression::None => Compression::None,
        Compression::Lz4 | Compression::Zstd => Compression::Lz4,
    };
    options.direct_io = flags.direct_io;
    options.filter_bits_per_key = flags.bloom_bits;
    options.deletes = flags.delete_mode;
    options.compaction.base_bytes = 4 * flags.write_buffer_size;
    options
}

/// Opens the store, without what was in it unless it is to be kept.
pub(crate) fn open(flags: &Flags, keep: bool) -> Result<Engine, EngineError> {
    if !keep {
        clear(&flags.db)?;
    }
    let (engine, _) = Engine::open_bytes(options(flags))?;
    Ok(engine)
}

/// Removes the files of a store. A directory that holds anything else is left alone.
fn clear(dir: &Path) -> Result<(), EngineError> {
    let failed = |error: std::io::Error| {
        EngineError::Storage(format!("cannot empty {}: {error}", dir.display()))
    };
    let Ok(entries) = std::fs::read_dir(dir) else { return Ok(()) };
    let mut names = Vec::new();
    for entry in entries {
        names.push(entry.map_err(failed)?.file_name());
    }
    let is_ours = |name: &std::ffi::OsString| {
        ["tree", "undo", "appendonlydir"].iter().any(|ours| name == ours)
            || name.to_string_lossy().to_ascii_lowercase().contains("lock")
    };
    if let Some(other) = names.iter().find(|name| !is_ours(name)) {
        return Err(EngineError::Refused(format!(
            "{} holds {}, which is not a store's: not emptied",
            dir.display(),
            other.to_string_lossy()
        )));
    }
    for name in ["tree", "undo", "appendonlydir"] {
        match std::fs::remove_dir_all(dir.join(name)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(failed(error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Waits until flush, compaction and burial have nothing to do, for `longest` at most; false when they
/// still had.
pub(crate) fn settle(engine: &Engine, longest: Duration) -> bool {
    let start = Instant::now();
    let mut last = None;
    let mut quiet = 0;
    while start.elapsed() < longest {
        let stats = engine.stats();
        let now = (stats.flushes, stats.compactions, stats.memtables_frozen, stats.levels);
        let busy = stats.memtables_frozen > 0 || stats.compaction_debt_bytes > 0;
        quiet = if busy || last.as_ref() != Some(&now) { 0 } else { quiet + 1 };
        if quiet >= QUIET_LOOKS {
            return true;
        }
        last = Some(now);
        std::thread::sleep(LOOK);
    }
    false
}

//! The store under test.

use crate::cpu;
use crate::flags::Flags;
use sexton_config::profile::DeviceProfile;
use sexton_engine::{
    Compression, Engine, EngineError, EngineOptions, OpenReport, POOL_DIR, POOL_MARKER, UNDO_DIR,
};
use sexton_persistence::device::{Device, DiskStorage, PlacedStorage, Storage, SystemClock};
use sexton_persistence::pmem::{MappedMedium, Medium as _, PmemOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// All benchmarks use one logical database.
pub(crate) const DB: usize = 0;

/// The log's directory in that of the store.
const LOG_DIR: &str = "appendonlydir";

/// What memtables in persistent memory may take without --pmem_size: the server's default.
const POOL_BYTES: u64 = 1 << 30;

/// Pause between two looks at how far the background is.
const LOOK: Duration = Duration::from_millis(20);
/// It is at rest when that many looks in a row saw nothing change: longer than it takes merges at rest to begin.
const QUIET_LOOKS: u32 = 75;

/// What --undo_profile calls the device below, with its own delays only.
const OWN_DISK: &str = "disk";

/// Name of the device of the tables, which has everything that is not on one of its own.
pub(crate) const DB_DEVICE: &str = "db";

/// Name of the device of undo runs.
pub(crate) const UNDO_DEVICE: &str = "undo";

/// The device with the delays of a profile, if one is named.
fn emulate(device: Device, profile: Option<&str>) -> Result<Device, EngineError> {
    let Some(name) = profile else { return Ok(device) };
    let known = DeviceProfile::built_in();
    let profile = known.into_iter().find(|profile| profile.name == name);
    let profile = profile
        .ok_or_else(|| EngineError::Refused(format!("no device profile is named {name}")))?;
    Ok(device.emulating(profile, Arc::new(SystemClock::default())))
}

/// The file system, with the delays of --db_profile, --wal_profile and --undo_profile around it.
fn storage(flags: &Flags) -> Result<Arc<PlacedStorage>, EngineError> {
    let tables = Device::new(DB_DEVICE, None, flags.db.clone());
    let tables = emulate(tables, flags.db_profile.as_deref())?;
    let log = Device::new("wal", None, flags.db.join(LOG_DIR));
    // Without a profile of its own the log shares the medium of the tables.
    let mut others = match flags.wal_profile.as_deref() {
        Some(name) => vec![emulate(log, Some(name))?],
        None => Vec::new(),
    };
    // Likewise for undo runs, unless they have a device of their own.
    let profile = flags.undo_profile.as_deref();
    if profile.is_some() || flags.undo_dir.is_some() {
        let undo = Device::new(UNDO_DEVICE, None, undo_dir(flags));
        others.push(emulate(undo, profile.filter(|name| *name != OWN_DISK))?);
    }
    Ok(Arc::new(PlacedStorage::new(DiskStorage::shared(), tables, others)))
}

/// Directory of the undo runs.
fn undo_dir(flags: &Flags) -> PathBuf {
    flags.undo_dir.as_ref().unwrap_or(&flags.db).join(UNDO_DIR)
}

/// Directory of the memtables with --mode=wbl.
fn pool(flags: &Flags) -> Result<PmemOptions, EngineError> {
    let dir = flags.pmem_dir.clone().unwrap_or_else(|| flags.db.join(POOL_DIR));
    let device = emulate(Device::new("pmem", None, dir.clone()), flags.pmem_profile.as_deref())?;
    let medium = MappedMedium::load(&dir, flags.pmem_profile.is_some())
        .map_err(|error| EngineError::Refused(format!("--mode=wbl: {error}")))?;
    println!("memtables    : in {}", medium.kind().describe());
    let mut pool = PmemOptions::new(medium, dir);
    pool.max_bytes = flags.pmem_size.unwrap_or(POOL_BYTES.max(8 * flags.write_buffer_size));
    pool.initial_bytes = (2 * flags.write_buffer_size).min(pool.max_bytes);
    pool.file_bytes = flags.write_buffer_size;
    pool.device = Some(Arc::new(device));
    Ok(pool)
}

fn options(flags: &Flags, storage: Arc<dyn Storage>) -> Result<EngineOptions, EngineError> {
    let mut options = EngineOptions::new(storage, flags.db.clone());
    options.databases = 1;
    options.log_dir_name = LOG_DIR.into();
    options.sync_policy = flags.sync_policy();
    options.undo_dir = Some(undo_dir(flags));
    options.write_behind = flags.write_behind;
    options.pool = flags.write_behind.then(|| pool(flags)).transpose()?;
    options.memtable = flags.memtable;
    options.memtable_bytes = flags.write_buffer_size;
    options.max_write_buffer_number = flags.max_write_buffer_number;
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
    options.cemetery_max_bytes = flags.cemetery_max_memory;
    options.compaction.base_bytes = 4 * flags.write_buffer_size;
    Ok(options)
}

/// Opens an empty store, with its devices.
pub(crate) fn open_on_devices(flags: &Flags) -> Result<(Engine, Arc<PlacedStorage>), EngineError> {
    clear(&flags.db)?;
    clear_undo(flags)?;
    let devices = storage(flags)?;
    let storage: Arc<dyn Storage> = Arc::<PlacedStorage>::clone(&devices);
    let (engine, _) = Engine::open_bytes(options(flags, storage)?)?;
    Ok((engine, devices))
}

/// Opens the store, without what was in it unless it is to be kept.
pub(crate) fn open(flags: &Flags, keep: bool) -> Result<Engine, EngineError> {
    open_reporting(flags, keep).map(|(engine, _)| engine)
}

/// Like `open`, and also returns the recovery report.
pub(crate) fn open_reporting(
    flags: &Flags,
    keep: bool,
) -> Result<(Engine, OpenReport), EngineError> {
    if !keep {
        clear(&flags.db)?;
        clear_undo(flags)?;
        if let Some(dir) = &flags.wal_dir {
            lead_log_to(dir, &flags.db)?;
        }
        if let Some(dir) = &flags.pmem_dir {
            clear_pool(dir)?;
        }
    }
    Engine::open_bytes(options(flags, storage(flags)?)?)
}

/// Removes the undo runs of an earlier store from --undo_dir.
fn clear_undo(flags: &Flags) -> Result<(), EngineError> {
    let Some(dir) = &flags.undo_dir else { return Ok(()) };
    match std::fs::remove_dir_all(undo_dir(flags)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(EngineError::Storage(format!("--undo_dir={}: {error}", dir.display())))
        }
        _ => Ok(()),
    }
}

/// Removes the pool's files, and nothing else, from --pmem_dir.
fn clear_pool(dir: &Path) -> Result<(), EngineError> {
    let failed = |error: std::io::Error| {
        EngineError::Storage(format!("--pmem_dir={}: {error}", dir.display()))
    };
    let Ok(entries) = std::fs::read_dir(dir) else { return Ok(()) };
    for entry in entries {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|extension| extension == "pmem") {
            std::fs::remove_file(path).map_err(failed)?;
        }
    }
    Ok(())
}

/// Empties `dir`, and puts the log of the store in `db` there.
fn lead_log_to(dir: &Path, db: &Path) -> Result<(), EngineError> {
    let make = || {
        std::fs::create_dir_all(db)?;
        std::fs::create_dir_all(dir)?;
        let target = dir.canonicalize()?.join(LOG_DIR);
        match std::fs::remove_dir_all(&target) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => std::fs::create_dir(&target)?,
        }
        std::os::unix::fs::symlink(&target, db.join(LOG_DIR))
    };
    make().map_err(|error: std::io::Error| {
        EngineError::Storage(format!("--wal_dir={}: {error}", dir.display()))
    })
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
        ["tree", UNDO_DIR, LOG_DIR, POOL_DIR, POOL_MARKER].iter().any(|ours| name == ours)
            || name.to_string_lossy().to_ascii_lowercase().contains("lock")
    };
    if let Some(other) = names.iter().find(|name| !is_ours(name)) {
        return Err(EngineError::Refused(format!(
            "{} holds {}, which is not a store's: not emptied",
            dir.display(),
            other.to_string_lossy()
        )));
    }
    match std::fs::remove_file(dir.join(POOL_MARKER)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    for name in ["tree", UNDO_DIR, LOG_DIR, POOL_DIR] {
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
pub(crate) fn wait_until_idle(engine: &Engine, longest: Duration) -> bool {
    let start = Instant::now();
    let mut last = None;
    let mut quiet = 0;
    let mut busy_ns = cpu::process_ns();
    while start.elapsed() < longest {
        let stats = engine.stats();
        let now = (stats.flushes, stats.compactions, stats.memtables_frozen, stats.levels);
        // A look at millions of graves changes none of these for seconds.
        let now_ns = cpu::process_ns();
        let works = now_ns - std::mem::replace(&mut busy_ns, now_ns) > LOOK.as_nanos() as u64 / 2;
        let busy = works || stats.memtables_frozen > 0 || stats.compaction_debt_bytes > 0;
        quiet = if busy || last.as_ref() != Some(&now) { 0 } else { quiet + 1 };
        if quiet >= QUIET_LOOKS {
            return true;
        }
        last = Some(now);
        std::thread::sleep(LOOK);
    }
    false
}

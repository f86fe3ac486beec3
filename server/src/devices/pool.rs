//! The location of the memtables with `persistence-mode wbl`.

use super::carry::{self, Content};
use super::mapping::stands_for_pmem;
use super::{declared, dir_of, forget_link, is_device};
use crate::log;
use sexton_config::Options;
use sexton_config::choice::PersistenceMode;
use sexton_config::device::DeviceKind;
use sexton_engine::{POOL_DIR, has_pool};
use sexton_persistence::device::{DiskStorage, PlacedStorage};
use sexton_persistence::pmem::{MappedMedium, Medium as _, PmemOptions};
use std::path::Path;
use std::sync::Arc;

/// Moves the pool to `memtable-device`, and returns that device's name.
///
/// # Errors
/// A mode without a device, a device of another kind, or files that cannot be moved.
pub(super) fn place(options: &Options) -> Result<Option<&str>, String> {
    let Some(device) = options.memtable_device.as_deref() else {
        return match options.persistence_mode {
            PersistenceMode::Wbl => Err("persistence-mode wbl needs memtable-device".to_owned()),
            PersistenceMode::Log => Ok(None),
        };
    };
    let spec = declared(options, "memtable-device", device)?;
    if spec.kind != DeviceKind::Pmem {
        return Err(format!(
            "memtable-device: device '{device}' is of kind {}, and must be of kind pmem",
            spec.kind.name()
        ));
    }
    let counts = has_pool(&DiskStorage, &options.dir).map_err(|error| error.to_string())?;
    if options.persistence_mode == PersistenceMode::Log && !counts {
        return Ok(None);
    }
    let (link, target) = (options.dir.join(POOL_DIR), dir_of(options, spec).join(POOL_DIR));
    if link.is_symlink() && !link.exists() {
        if counts {
            // Refused by `pool_options`.
            return Ok(Some(device));
        }
        // It may be older than what it leads to: memory forgets.
        forget_link(&link)?;
    }
    let is_device = |dir: &Path| is_device(options, dir);
    carry::to(&options.dir, Path::new(POOL_DIR), Content::Directory, Some(&target), is_device)
        .map_err(|error| format!("memtable-device: {error}"))?;
    Ok(Some(device))
}

/// The options to open the pool; `None` if there is no pool and none is wanted. The working directory is the
/// data directory.
///
/// # Errors
/// No libpmem, or a directory in which nothing can be mapped.
pub fn pool_options(
    options: &Options,
    devices: &PlacedStorage,
) -> Result<Option<PmemOptions>, String> {
    let wanted = options.persistence_mode == PersistenceMode::Wbl;
    let counts = has_pool(&DiskStorage, &options.dir).map_err(|error| error.to_string())?;
    if !wanted && !counts {
        return Ok(None);
    }
    let dir = Path::new(".").join(POOL_DIR);
    if counts && !dir.exists() {
        return Err(format!(
            "The newest writes of this store lie in persistent memory, in {}, which is not there: mount it, \
             or remove the file WBL in {} to give them up",
            std::fs::read_link(&dir).unwrap_or(dir).display(),
            options.dir.display()
        ));
    }
    let name = options.memtable_device.as_deref();
    let device = devices.devices().iter().find(|device| Some(device.name()) == name);
    let emulated = stands_for_pmem(device.map(|device| &**device), &dir);
    let medium = MappedMedium::load(&dir, emulated)
        .map_err(|error| format!("persistence-mode wbl: {error}"))?;
    log::notice(&format!("Memtables lie in {}", medium.kind().describe()));
    let mut pool = PmemOptions::new(medium, dir);
    pool.max_bytes = options.effective_memtable_pool_bytes();
    pool.initial_bytes = (2 * options.effective_memtable_bytes()).min(pool.max_bytes);
    pool.file_bytes = options.effective_memtable_bytes();
    pool.writers_max = WRITERS_MAX;
    pool.device = device.map(Arc::clone);
    Ok(Some(pool))
}

/// Threads that may write at a time: the workers, their helpers, and what runs in the background.
const WRITERS_MAX: usize = 128;

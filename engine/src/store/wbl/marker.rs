//! The file `WBL` in the data directory marks that the newest writes of a store are in a pool. It exists from before
//! the first commit to the pool until the tables have all of them.

use crate::store::engine::EngineError;
use sexton_persistence::device::Storage;
use std::path::Path;

/// Name of the file in the data directory.
pub const POOL_MARKER: &str = "WBL";

/// Directory of the pool in the data directory, or a link to it.
pub const POOL_DIR: &str = "pmem";

/// True when the newest writes of the store in `dir` are in a pool.
///
/// # Errors
/// A failing medium.
pub fn is_set(storage: &dyn Storage, dir: &Path) -> Result<bool, EngineError> {
    Ok(storage.exists(&dir.join(POOL_MARKER))?)
}

/// From here on the pool counts.
pub(super) fn set(storage: &dyn Storage, dir: &Path) -> Result<(), EngineError> {
    storage.create(&dir.join(POOL_MARKER))?;
    Ok(storage.sync_dir(dir)?)
}

/// From here on it does not.
pub(super) fn clear(storage: &dyn Storage, dir: &Path) -> Result<(), EngineError> {
    storage.remove(&dir.join(POOL_MARKER))?;
    Ok(storage.sync_dir(dir)?)
}

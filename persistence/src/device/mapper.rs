//! Files that are written by way of a mapping.

use std::fmt::Debug;
use std::sync::Arc;

use super::{File, StorageResult};

/// Maps files for writing: what a device that is persistent memory has. Implemented by
/// [`MappedFiles`](crate::pmem::MappedFiles).
pub trait Mapper: Send + Sync + Debug {
    /// How what is stored becomes durable, a word for INFO.
    fn name(&self) -> &'static str;
    /// Returns a view of `file` in which writes inside its present length go to a mapping from now on. Every byte
    /// of that length must have been written before.
    ///
    /// # Errors
    ///
    /// It cannot be mapped.
    fn map(&self, file: Arc<dyn File>) -> StorageResult<Arc<dyn File>>;
}

//! Devices: everything that touches a medium goes through [`Storage`] and [`File`].
//!
//! The real implementation is [`DiskStorage`]; tests use [`sim::SimStorage`], that can lose, tear
//! and reorder what was not synced.

mod disk;
pub mod sim;
mod storage;
mod system;

pub use disk::DiskStorage;
pub use storage::{File, Storage, StorageError, StorageResult, UNBUFFERED_ALIGNMENT};

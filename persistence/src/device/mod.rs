//! Devices: everything that touches a medium goes through [`Storage`] and [`File`].
//!
//! The real implementation is [`DiskStorage`]; tests use [`sim::SimStorage`], which can lose, tear
//! and reorder what was not synced.

mod clock;
mod copy;
mod disk;
mod mapper;
mod meter;
mod model;
mod placed;
pub mod sim;
mod storage;
mod stream;
mod system;
mod temp_dir;
mod units;

pub use clock::{Clock, SystemClock};
pub use copy::{copy_file, link_or_copy};
pub use disk::DiskStorage;
pub use mapper::Mapper;
pub use meter::{DeviceFigures, Latency};
pub use placed::{Device, PlacedStorage};
pub use storage::{File, IoStyle, Storage, StorageError, StorageResult, UNBUFFERED_ALIGNMENT};
pub use stream::{FileReader, FileWriter};
pub use system::is_in_memory;
pub use temp_dir::TempDir;
pub use units::{LINE_BYTES, WORD_BYTES};
pub(crate) use units::{PAGE_BYTES, split};

pub use sexton_config::profile::DeviceProfile;

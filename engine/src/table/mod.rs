//! Tables: immutable sorted files of versions, their blocks, filters and the block cache.
//!
//! The bytes are described in `engine/FORMAT.md`. A table is written once by a [`TableBuilder`], opened
//! with [`Table::open`], and read by look-ups ([`Table::get`]) and iterators ([`TableIter`]).

mod aligned;
mod block;
mod builder;
mod cache;
mod filter;
mod format;
mod grave_file;
mod index;
mod iter;
mod marks;
mod ordered_gets;
mod properties;
mod reader;
mod work_memory;

pub use crate::error::{TableError, TableResult};
pub(crate) use block::shared_prefix;
pub use block::{Block, PinnedValue};
pub use builder::{BuilderBuffers, Compression, TableBuilder, TableOptions};
pub use cache::BlockCache;
pub use filter::key_hash;
pub use format::{SEQ_MAX, TABLE_VERSION};
pub use grave_file::{GraveFile, GravePlaces};
pub use iter::{ReadMode, TableIter};
pub use ordered_gets::OrderedGets;
pub use properties::{Properties, TableMeta};
pub use reader::{FoundVersion, Place, Scratch, Table};
pub use work_memory::work_bytes;

#[cfg(test)]
pub(crate) mod test_storage;
#[cfg(test)]
mod tests;

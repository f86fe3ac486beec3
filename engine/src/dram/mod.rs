//! The DRAM table of one shard: a cache of live entries, used under the shard's latch.
//!
//! A look-up costs two cache lines: a bucket of eight tagged pointers, and the entry with its key
//! and value in one block. Both can be asked for beforehand, without the latch, through a [`Hint`].
//! Blocks come from a slab of the shard, whose pages go back to a pool that all shards share.

mod buckets;
mod displaced;
mod due;
mod due_alarm;
mod due_keys;
mod entry;
mod evict;
mod large;
mod page_pool;
#[cfg(test)]
mod place_tests;
mod resize;
mod slab;
mod sweep;
mod table;
#[cfg(test)]
mod tests;

pub use buckets::{Hint, HintView};
pub(crate) use displaced::{Displaced, Replaced};
pub(crate) use due_alarm::DueAlarm;
pub use entry::EntryRef;
pub use evict::Evicted;
pub(crate) use large::LargeValue;
pub use page_pool::PagePool;
pub use sweep::SweepPass;
pub use table::{Located, Removed, Table, Upsert};

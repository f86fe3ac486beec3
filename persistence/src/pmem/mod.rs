//! Memtables in persistent memory, without a log (rules M1 to M9 of `docs/rules.md`; bytes in
//! `FORMAT.md`, "PMEM pool").
//!
//! A [`PmemPool`] is a directory of mapped files on a [`Medium`]. A [`PmemArena`] is the memory of one
//! memtable: chunks of the pool. Each thread that writes has a [`Writer`], which fills chunks of its own.
//!
//! # A write
//!
//! ```text
//! under the latch   writer.prepare(arena, list, bytes)   may fail, no sequence was taken yet
//!   commit mutex      pool.cover(last)                   c_d before the sequences (M5)
//!                     writer.begin(first, last)          pool.durable() stays below first
//!   end of it
//!                   writer.append(list, record) ...      has its place, is not copied yet (M9)
//! latch released: published (I2)
//! end of the batch  writer.fence()                       by that thread: copied, durable() may move
//! ```
//!
//! A thread that reads an arena before that calls `pool.settle()` first, at the barrier at which nothing is appended.
//!
//! `prepare` takes the total size of the commit's records for that list, so that `append` cannot fail
//! once there are sequences. Several commits may share one fence.
//!
//! # Freeze, flush, retire
//!
//! At the barrier a `pool.new_arena()` becomes active; writers move to it with their next `prepare`. When the
//! flush at m is installed: `pool.installed(m)` and `arena.retire()`. The arena's slots are
//! erased and freed by `pool.erase_retired()` after the last reader has dropped the arena.
//! An arena that is dropped without `retire` stays on the medium, for recovery.
//!
//! # Start
//!
//! [`PmemPool::open`] with the mark of the manifest returns what was [`Recovered`]: arenas, oldest first, whose
//! records (in sequence order) rebuild the memtables' place in DRAM; they are never added to. New
//! sequences start at [`Recovered::next_seq`]; those between `last_seq` and it were never used.

mod arena;
mod chunk;
mod control;
mod erase;
mod error;
mod figures;
mod files;
mod inspect;
mod libpmem;
mod mapped;
mod medium;
mod options;
mod pool;
mod position;
mod record;
mod recover;
mod rules;
mod run;
mod scan;
pub mod sim;
mod slots;
mod staging;
mod watermark;
mod writer;

pub use arena::PmemArena;
pub use control::CONTROL_FILE;
pub use error::{PmemError, PmemResult};
pub use figures::PmemFigures;
pub use files::MappedFiles;
pub use inspect::{Inspection, inspect};
pub use mapped::MappedMedium;
pub use medium::{Lane, MEDIA_LINE_BYTES, Medium, POOL_LANE, PmemKind, Readable, Region, Writable};
pub use options::{OnDamage, PmemOptions};
pub use pool::PmemPool;
pub use position::PmemPosition;
pub use record::{
    KIND_DELETE, KIND_MAX, KIND_PUT, LENGTH_MAX, List, NewRecord, RECORD_HEADER_BYTES, Record,
    encoded_len,
};
pub use recover::{InOrder, Recovered, RecoveredArena, RecoveryReport};
pub use sim::SimPmem;
pub use writer::Writer;

#[cfg(test)]
mod tests;

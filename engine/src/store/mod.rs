//! The store: latches, transactions, recovery, and the background work behind them.

mod flush;
mod graveyard;
mod read;
mod upkeep;
mod write;

mod bytes;
mod checkpoint;
mod engine;
mod latch;
mod log_base;
mod namespace;
mod open;
mod options;
mod page_key;
mod pages;
mod paper;
mod policy;
mod set_aside;
mod shard;
mod tx;
mod wbl;

pub use crate::error::EngineError;
pub use crate::memtable::MemtableKind;
pub use crate::table::Compression;
pub use crate::tree::{DeleteMode, LEVELS, LevelPlaces, PLACE_PREFIX};
pub use bytes::{WriteBatch, replay_bytes};
pub use checkpoint::CheckpointReport;
pub use engine::Engine;
pub use log_base::LogBase;
pub(crate) use namespace::{FIRST_SEQ, OWN_ID};
pub use open::{OpenReport, Opening, Replay, ReplayGroup};
pub use options::{EngineOptions, SyncPolicy};
pub use page_key::PageName;
pub use read::LoadPin;
pub use read::iter::{Iter, IterOptions};
pub use read::load::Want;
pub use read::open_snapshots::SnapshotInfo;
pub use read::scan::{Scan, ScanItem, ScanRange};
pub use read::snapshot::{Snapshot, SnapshotOptions, SnapshotValue, SnapshotWatch};
pub use read::undo::UNDO_DIR;
pub use read::undo_bound::UndoFull;
pub use set_aside::{aside_name, prepare_data_dir};
pub use tx::{
    AskedPage, Commit, Deletion, Entry, Found, FoundPage, HeldPage, HeldValue, Latched, LookAhead,
    NewPages, OwnedKey, PageOf, Prepared, Tx, TxBuf, TxPages,
};
pub use upkeep::cold_due::DueKey;
pub use upkeep::disk_order::DiskClaim;
pub use upkeep::events::{Event, EventSink, Fault};
pub use upkeep::evict::Candidate;
pub use upkeep::memory::MemoryParts;
pub use upkeep::shares::MemoryBound;
pub use upkeep::stats::Stats;
pub use wbl::{POOL_DIR, POOL_MARKER, WblStats, has_pool};

#[cfg(all(loom, test))]
mod loom_tests;
#[cfg(test)]
mod tests;

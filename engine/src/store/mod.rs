//! The store: latches, transactions, recovery, and the background work behind them.

mod background;
mod bytes;
mod checkpoint;
mod cold;
mod commit;
mod due;
mod engine;
mod evict;
mod expiry;
mod flush;
mod freeze;
mod iter;
mod load;
mod log_base;
mod memory;
mod namespace;
mod open;
mod options;
mod pace;
mod pins;
mod policy;
mod priority;
mod proofs;
mod random_key;
mod scan;
mod shard;
mod single_put;
mod snapshot;
mod stats;
mod superversion;
mod sweep;
mod tombstones;
mod tx;
mod undo;
mod view;

pub use crate::memtable::MemtableKind;
pub use crate::table::Compression;
pub use crate::tree::DeleteMode;
pub use bytes::{WriteBatch, replay_bytes};
pub use checkpoint::CheckpointReport;
pub use cold::LoadPin;
pub use engine::{Engine, EngineError};
pub use evict::Candidate;
pub use iter::{Iter, IterOptions};
pub use log_base::LogBase;
pub use open::{OpenReport, Replay, ReplayGroup};
pub use options::{EngineOptions, SyncPolicy};
pub use scan::{Scan, ScanItem, ScanRange};
pub use snapshot::{Snapshot, SnapshotInfo, SnapshotOptions, SnapshotValue, SnapshotWatch};
pub use stats::Stats;
pub use tx::{Commit, Entry, Found, Latched, OwnedKey, Tx, TxBuf};
pub use undo::UndoFull;

#[cfg(test)]
mod tests;

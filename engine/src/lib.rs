//! The FLSM-tree: an LSM-tree that keeps deleted keys in a side table, the cemetery, instead of
//! tombstones in the tree. `engine/DESIGN.md` describes the parts, `docs/rules.md` the rules that the code cites by number.
#![deny(unsafe_code)]

mod cemetery;
pub mod check;
#[doc(hidden)]
pub mod dram;
mod error;
mod huge_page;
mod iterator;
#[doc(hidden)]
pub mod key;
mod memtable;
mod shared_value;
mod source;
mod store;
mod sync;
pub mod table;
pub mod tree;

pub use key::{KEY_MAX_BYTES, Key, Meta, Seq, Slot, VALUE_MAX_BYTES, key_too_long};
pub use store::{
    Candidate, CheckpointReport, Commit, Compression, DeleteMode, DiskClaim, DueKey, Engine,
    EngineError, EngineOptions, Entry, Event, EventSink, Fault, Found, Iter, IterOptions, LEVELS,
    Latched, LevelPlaces, LoadPin, LogBase, MemoryParts, MemtableKind, OpenReport, Opening,
    OwnedKey, PLACE_PREFIX, POOL_DIR, POOL_MARKER, Replay, ReplayGroup, Scan, ScanItem, ScanRange,
    Snapshot, SnapshotInfo, SnapshotOptions, SnapshotValue, SnapshotWatch, Stats, SyncPolicy, Tx,
    TxBuf, UNDO_DIR, UndoFull, WblStats, WriteBatch, aside_name, has_pool, replay_bytes,
    settle_data_dir,
};

//! The FLSM-tree: an LSM-tree that keeps deleted keys in a side table, the cemetery, instead of tombstones in the tree.
//!
//! **Use it as a library through [`Db`]**: an ordered map from byte strings to byte strings that survives crashes.
//!
//! ```
//! use sexton_engine::Db;
//!
//! # fn main() -> Result<(), sexton_engine::EngineError> {
//! # let dir = std::env::temp_dir().join(format!("sexton-front-{}", std::process::id()));
//! # let _ = std::fs::remove_dir_all(&dir);
//! let db = Db::open(&dir)?;
//! db.put(b"ann", b"1815")?;
//! db.put(b"bob", b"1823")?;
//! db.delete(b"ann")?;
//! for pair in db.range("a".."c") {
//!     let (key, value) = pair?;
//!     println!("{} {}", key.escape_ascii(), value.escape_ascii());
//! }
//! db.close()?;
//! # let _ = std::fs::remove_dir_all(&dir);
//! # Ok(())
//! # }
//! ```
//!
//! | wanted | call |
//! |---|---|
//! | open, close a store | [`Db::open`], [`Db::open_with`], [`Db::close`] |
//! | read | [`Db::get`], [`Db::range`] |
//! | write | [`Db::put`], [`Db::delete`], [`Db::write`] with a [`Batch`] |
//! | a state that stays | [`Db::snapshot`] |
//! | durability now | [`Db::sync`] |
//! | a copy on disk | [`Db::checkpoint`] |
//! | figures | [`Db::stats`] |
//!
//! [`Engine`] and the types around it are for servers whose threads must not wait: latches, transactions, parked
//! reads, logs in the language of commands. `engine/DESIGN.md` describes the parts, and `docs/rules.md` the rules that the
//! code cites by number.
#![deny(unsafe_code)]

mod cemetery;
pub mod check;
mod counts;
mod db;
#[doc(hidden)]
pub mod dram;
mod error;
mod huge_page;
mod iterator;
#[doc(hidden)]
pub mod key;
mod memtable;
pub mod page;
mod prefetch;
mod shared_value;
mod source;
mod store;
mod sync;
pub mod table;
pub mod tree;
mod work;

pub use db::{Batch, Db, DbSnapshot, Range};
pub use key::{KEY_MAX_BYTES, Key, Meta, OWN_RECORDS, Seq, Slot, VALUE_MAX_BYTES, key_too_long};
pub use store::{
    AskedPage, Candidate, CheckpointReport, Commit, Compression, DeleteMode, Deletion, DiskClaim,
    DueKey, Engine, EngineError, EngineOptions, Entry, Event, EventSink, Fault, Found, FoundPage,
    HeldPage, HeldValue, Iter, IterOptions, LEVELS, Latched, LevelPlaces, LoadPin, LogBase,
    LookAhead, MemoryBound, MemoryParts, MemtableKind, NewPages, OpenReport, Opening, OwnedKey,
    PLACE_PREFIX, POOL_DIR, POOL_MARKER, PageName, PageOf, Prepared, Replay, ReplayGroup, Scan,
    ScanItem, ScanRange, Snapshot, SnapshotInfo, SnapshotOptions, SnapshotValue, SnapshotWatch,
    Stats, SyncPolicy, Tx, TxBuf, TxPages, UNDO_DIR, UndoFull, Want, WblStats, WriteBatch,
    aside_name, has_pool, prepare_data_dir, replay_bytes,
};
#[doc(hidden)]
pub use work::Work;

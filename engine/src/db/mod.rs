//! The engine as a library: an ordered map from byte strings to byte strings that survives crashes.
//!
//! [`Db`] is the front of the crate. It is built on [`Engine`], which a server drives itself, from threads that must not
//! wait. Every call here runs on the caller's thread and waits where it must: for a late flush, or for a device.

mod range;
#[cfg(test)]
mod tests;

pub use range::Range;

use crate::key::{KEY_MAX_BYTES, VALUE_MAX_BYTES};
use crate::store::{
    CheckpointReport, Engine, EngineError, EngineOptions, Snapshot, SnapshotOptions, Stats,
    SyncPolicy, WriteBatch,
};
use sexton_persistence::device::DiskStorage;
use std::ops::RangeBounds;
use std::path::Path;

/// The only logical database that a [`Db`] uses.
const DB: usize = 0;

/// An ordered, durable map from byte strings to byte strings.
///
/// Several threads may share one by reference. The directory belongs to one process at a time.
///
/// ```
/// use sexton_engine::{Batch, Db};
///
/// # fn main() -> Result<(), sexton_engine::EngineError> {
/// # let dir = std::env::temp_dir().join(format!("sexton-doc-{}", std::process::id()));
/// # let _ = std::fs::remove_dir_all(&dir);
/// let db = Db::open(&dir)?;
/// db.put(b"apple", b"red")?;
/// db.put(b"banana", b"yellow")?;
/// assert_eq!(db.get(b"apple")?.as_deref(), Some(&b"red"[..]));
///
/// // A snapshot goes on to see what it saw.
/// let before = db.snapshot()?;
///
/// // A batch is seen, and recovered, all or not at all.
/// let mut batch = Batch::new();
/// batch.put(b"cherry", b"dark");
/// batch.delete(b"apple");
/// db.write(&batch)?;
///
/// let keys: Result<Vec<_>, _> = db.range(&b"b"[..]..).map(|pair| pair.map(|(key, _)| key)).collect();
/// assert_eq!(keys?, [&b"banana"[..], b"cherry"]);
/// assert_eq!(before.get(b"apple")?.as_deref(), Some(&b"red"[..]));
/// drop(before);
///
/// // From here on all of it survives the loss of power.
/// db.sync()?;
/// db.close()?;
/// # std::fs::remove_dir_all(&dir).map_err(|error| sexton_engine::EngineError::Storage(error.to_string()))?;
/// # Ok(())
/// # }
/// ```
pub struct Db(Engine);

impl Db {
    /// Opens the store in `dir`, which is made when it is not there, with the default options: a log that is synced
    /// every second.
    ///
    /// # Errors
    /// A failing medium, a damaged file, or a directory that another process has open.
    pub fn open(dir: impl AsRef<Path>) -> Result<Self, EngineError> {
        let dir = dir.as_ref().to_path_buf();
        let options =
            EngineOptions { databases: 1, ..EngineOptions::new(DiskStorage::shared(), dir) };
        Self::open_with(options)
    }

    /// Opens a store with options of one's own.
    ///
    /// # Errors
    /// As for [`Db::open`]; options that do not fit the store.
    pub fn open_with(options: EngineOptions) -> Result<Self, EngineError> {
        Ok(Self(Engine::open_bytes(options)?.0))
    }

    /// The value of a key.
    ///
    /// # Errors
    /// A failing medium or a damaged table.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, EngineError> {
        self.0.get(DB, key)
    }

    /// Writes a value. It is seen at once, and survives a crash when [`Db::sync`] has passed it, or as the sync policy
    /// promises.
    ///
    /// # Errors
    /// A key or value that is too long, or writes that are refused since the log or flushes fail.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<(), EngineError> {
        check_length(key, value)?;
        self.0.put(DB, key, value)?;
        Ok(())
    }

    /// Deletes a key; false, and nothing written, when it has no value.
    ///
    /// # Errors
    /// As for [`Db::put`], and a key that cannot be read.
    pub fn delete(&self, key: &[u8]) -> Result<bool, EngineError> {
        Ok(self.0.delete(DB, key)?.operations > 0)
    }

    /// Runs the writes of a batch, in their order, as one.
    ///
    /// # Errors
    /// As for [`Db::delete`]; nothing is written then.
    pub fn write(&self, batch: &Batch) -> Result<(), EngineError> {
        if let Some(error) = &batch.refusal {
            return Err(error.clone());
        }
        self.0.write(&batch.writes)?;
        Ok(())
    }

    /// The keys of a range with their values, in order, as of this call.
    #[must_use]
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Range<'_> {
        Range::new(&range, |options| Ok(self.0.iter(options)))
    }

    /// A state that stays readable while writes go on.
    ///
    /// # Errors
    /// As many are open as the options allow, or their undo runs have reached the bound.
    pub fn snapshot(&self) -> Result<DbSnapshot<'_>, EngineError> {
        let snapshot = self.0.snapshot(SnapshotOptions::default())?;
        Ok(DbSnapshot { snapshot, _db: self })
    }

    /// Waits until everything written before survives the loss of power.
    ///
    /// # Errors
    /// A failing medium. A store without a log ([`SyncPolicy::Off`]) promises nothing over its end and refuses.
    pub fn sync(&self) -> Result<(), EngineError> {
        if self.0.sync_policy() == SyncPolicy::Off {
            return Err(EngineError::Refused("a store without a log is not durable".into()));
        }
        self.0.sync_through(self.0.last_seq())
    }

    /// Makes `dir`, which must not exist, a store of its own with everything that was written before. This one goes
    /// on meanwhile.
    ///
    /// # Errors
    /// `dir` exists, or a failing medium.
    pub fn checkpoint(&self, dir: impl AsRef<Path>) -> Result<CheckpointReport, EngineError> {
        self.0.checkpoint(dir.as_ref())
    }

    /// Figures of the store.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.0.stats()
    }

    /// Flushes, syncs, and ends the background threads. Dropping a `Db` does so too, but cannot report what
    /// failed.
    ///
    /// # Errors
    /// A failing medium. What was durable before stays so.
    pub fn close(self) -> Result<(), EngineError> {
        self.0.close()
    }
}

impl Drop for Db {
    fn drop(&mut self) {
        // Nobody hears of it. What was synced stays, and closing twice does nothing.
        let _ = self.0.close();
    }
}

impl std::fmt::Debug for Db {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Db").field("last_seq", &self.0.last_seq()).finish_non_exhaustive()
    }
}

/// Writes that happen together. See [`Db::write`].
#[derive(Default)]
pub struct Batch {
    writes: WriteBatch,
    /// The first key or value that is too long.
    refusal: Option<EngineError>,
}

impl Batch {
    /// A batch without writes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a put. What is too long is refused by [`Db::write`].
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> &mut Self {
        match check_length(key, value) {
            Ok(()) => self.writes.put(DB, key, value),
            Err(error) => {
                self.refusal.get_or_insert(error);
            }
        }
        self
    }

    /// Adds a delete. One of a key that has no value does nothing.
    pub fn delete(&mut self, key: &[u8]) -> &mut Self {
        self.writes.delete(DB, key);
        self
    }

    /// Number of writes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.writes.len()
    }

    /// True without writes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }
}

impl std::fmt::Debug for Batch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batch").field("len", &self.len()).finish_non_exhaustive()
    }
}

/// The state of a [`Db`] when [`Db::snapshot`] was called.
#[derive(Debug)]
pub struct DbSnapshot<'db> {
    snapshot: Snapshot,
    /// It reads the files of an open store.
    _db: &'db Db,
}

impl DbSnapshot<'_> {
    /// The value that a key had.
    ///
    /// # Errors
    /// A failing medium or a damaged table; a snapshot that was ended because undo runs had reached their bound.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, EngineError> {
        Ok(self.snapshot.get(DB, key)?.map(|found| found.value))
    }

    /// The keys of a range with the values that they had, in order.
    #[must_use]
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Range<'_> {
        Range::new(&range, |options| self.snapshot.iter(options))
    }
}

/// Refuses what a file could not hold.
fn check_length(key: &[u8], value: &[u8]) -> Result<(), EngineError> {
    if key.len() > KEY_MAX_BYTES {
        return Err(EngineError::KeyTooLong { bytes: key.len() });
    }
    if value.len() as u64 > VALUE_MAX_BYTES {
        return Err(EngineError::ValueTooLong { bytes: value.len() as u64 });
    }
    Ok(())
}

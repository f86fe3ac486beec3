//! The engine's manifest: an append-only file of framed records (version edits).
//!
//! Records are opaque here. `CURRENT` names the file in use; a rewrite makes a new file and moves
//! the pointer, so that at every instant one complete manifest exists. `FORMAT.md` has the bytes.

mod error;
mod frame;
mod salvage;

pub use error::ManifestError;
pub use frame::RECORD_BYTES_MAX;
pub use salvage::{Salvaged, salvage};

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::device::{File, Storage};
use crate::random::random_u64;
use frame::{FrameReader, Scan, Secret};

/// Name of the pointer file.
const CURRENT: &str = "CURRENT";
/// The pointer's new value until it is renamed.
const CURRENT_TEMP: &str = "CURRENT.tmp";
const PREFIX: &str = "MANIFEST-";

/// An open manifest with one writer.
#[derive(Debug)]
pub struct Manifest {
    storage: Arc<dyn Storage>,
    dir: PathBuf,
    file: Arc<dyn File>,
    number: u64,
    secret: Secret,
    /// The highest number that a rewrite has tried: `CURRENT` may name its file although it failed.
    last_number: u64,
    end: u64,
    records: u64,
    failed: Option<String>,
}

impl Manifest {
    /// True when `dir` holds a manifest.
    ///
    /// # Errors
    ///
    /// A failing device.
    pub fn exists(storage: &dyn Storage, dir: &Path) -> Result<bool, ManifestError> {
        Ok(storage.exists(&dir.join(CURRENT))?)
    }

    /// Makes the first manifest of `dir`, without records; durable when it returns.
    ///
    /// # Errors
    ///
    /// A failing device.
    pub fn create(storage: Arc<dyn Storage>, dir: &Path) -> Result<Self, ManifestError> {
        Self::write_new(storage, dir, 1, &[])
    }

    /// Opens the manifest that `CURRENT` names. A torn last record, the trace of a crash during
    /// an append that was never confirmed, is cut off; leftovers of rewrites are removed.
    ///
    /// # Errors
    ///
    /// Damage, or a failing device.
    pub fn open(storage: Arc<dyn Storage>, dir: &Path) -> Result<Self, ManifestError> {
        let number = read_current(&*storage, dir)?;
        let file = storage.open(&file_path(dir, number))?;
        let Scan { secret, end, records, torn } = frame::scan(&*file)?;
        if torn {
            file.set_len(end)?;
        }
        // After the mere end of a process the last record, and the pointer, may be in the page cache
        // only. What is built on them, first of all the removal of old files, must not be durable
        // before they are.
        file.sync_data()?;
        storage.sync_dir(dir)?;
        let mut manifest = Self::in_file(storage, dir, file, number, secret, (end, records));
        manifest.remove_leftovers()?;
        if secret == Secret::None {
            // What clients write could be taken for a frame of it.
            let records = manifest.replay()?;
            let records: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
            manifest.rewrite(&records)?;
        }
        Ok(manifest)
    }

    /// Opens the manifest that `CURRENT` names for reading: nothing is cut off, synced or removed. Appending
    /// to it is refused.
    ///
    /// # Errors
    ///
    /// Damage, or a failing device.
    pub fn open_read_only(storage: Arc<dyn Storage>, dir: &Path) -> Result<Self, ManifestError> {
        let number = read_current(&*storage, dir)?;
        let file = storage.open(&file_path(dir, number))?;
        let Scan { secret, end, records, .. } = frame::scan(&*file)?;
        let opened = Self::in_file(storage, dir, file, number, secret, (end, records));
        Ok(Self { failed: Some("it was opened for reading".to_owned()), ..opened })
    }

    /// Bytes behind the last whole record: the torn end of an append that was never confirmed.
    ///
    /// # Errors
    ///
    /// A failing device.
    pub fn torn_bytes(&self) -> Result<u64, ManifestError> {
        Ok(self.file.len()?.saturating_sub(self.end))
    }

    /// The file in use.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// All records, oldest first.
    ///
    /// # Errors
    ///
    /// Damage, or a failing device.
    pub fn replay(&self) -> Result<Vec<Vec<u8>>, ManifestError> {
        let mut reader = FrameReader::new(&*self.file, self.end, self.secret);
        let mut records = Vec::with_capacity(self.records.min(1 << 16) as usize);
        while let Some(record) = reader.next_record()? {
            records.push(record);
        }
        if records.len() as u64 != self.records {
            return Err(reader.damaged("a record that was valid is no longer"));
        }
        Ok(records)
    }

    /// Appends a record and syncs; the record is durable when this returns. After a failure it is
    /// unknown whether the record will be found again, and only [`rewrite`](Self::rewrite) works.
    ///
    /// # Errors
    ///
    /// A failing device, an earlier failure, or a record that is too large.
    pub fn append(&mut self, record: &[u8]) -> Result<(), ManifestError> {
        if let Some(reason) = &self.failed {
            let file = self.file.path().to_path_buf();
            return Err(ManifestError::Failed { file, reason: reason.clone() });
        }
        let bytes = self.secret.encode(self.records, record)?;
        let written = self.file.write_all_at(&bytes, self.end).and_then(|()| self.file.sync_data());
        if let Err(error) = written {
            self.failed = Some(error.to_string());
            return Err(error.into());
        }
        self.end += bytes.len() as u64;
        self.records += 1;
        Ok(())
    }

    /// Replaces the whole manifest by `records`, in one atomic and durable step.
    ///
    /// # Errors
    ///
    /// A failing device, or a record that is too large. The old manifest then stays in force,
    /// unless only the last sync of the directory failed: then either may be found after a crash.
    pub fn rewrite(&mut self, records: &[&[u8]]) -> Result<(), ManifestError> {
        let storage = Arc::clone(&self.storage);
        // A number of its own for each attempt: one that failed at the last sync has left a file that
        // CURRENT may name, and creating it again would empty the manifest in force.
        self.last_number += 1;
        match Self::write_new(storage, &self.dir, self.last_number, records) {
            Ok(new) => {
                *self = new;
                // The old file is in nobody's way; the next open removes what stays.
                let _ = self.remove_leftovers();
                Ok(())
            }
            Err(error) => {
                // CURRENT may name either file: appending to this one could be in vain.
                self.failed.get_or_insert_with(|| error.to_string());
                Err(error)
            }
        }
    }

    /// Length of the file, to decide about a rewrite.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.end
    }

    /// Number of records.
    #[must_use]
    pub fn record_count(&self) -> u64 {
        self.records
    }

    fn write_new(
        storage: Arc<dyn Storage>,
        dir: &Path,
        number: u64,
        records: &[&[u8]],
    ) -> Result<Self, ManifestError> {
        let file = storage.create(&file_path(dir, number))?;
        let secret = Secret::Known(random_u64());
        let header = secret.header();
        file.write_all_at(&header, 0)?;
        let mut end = header.len() as u64;
        for (index, record) in records.iter().enumerate() {
            let bytes = secret.encode(index as u64, record)?;
            file.write_all_at(&bytes, end)?;
            end += bytes.len() as u64;
        }
        file.sync_data()?;
        let temp = dir.join(CURRENT_TEMP);
        let pointer = storage.create(&temp)?;
        pointer.write_all_at(format!("{PREFIX}{number:08}\n").as_bytes(), 0)?;
        pointer.sync_data()?;
        // The new manifest's name must be durable before the pointer can name it.
        storage.sync_dir(dir)?;
        storage.rename(&temp, &dir.join(CURRENT))?;
        storage.sync_dir(dir)?;
        Ok(Self::in_file(storage, dir, file, number, secret, (end, records.len() as u64)))
    }

    /// The manifest in file `number`, which holds `end` bytes and `records` records.
    fn in_file(
        storage: Arc<dyn Storage>,
        dir: &Path,
        file: Arc<dyn File>,
        number: u64,
        secret: Secret,
        (end, records): (u64, u64),
    ) -> Self {
        let dir = dir.to_path_buf();
        Self { storage, dir, file, number, secret, last_number: number, end, records, failed: None }
    }

    fn remove_leftovers(&self) -> Result<(), ManifestError> {
        for name in self.storage.list(&self.dir)? {
            let old = parse_name(&name).is_some_and(|number| number != self.number);
            if old || name == CURRENT_TEMP {
                self.storage.remove(&self.dir.join(name))?;
            }
        }
        Ok(())
    }
}

fn file_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{PREFIX}{number:08}"))
}

fn parse_name(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(PREFIX)?;
    let number = digits.parse().ok()?;
    (digits == format!("{number:08}")).then_some(number)
}

fn read_current(storage: &dyn Storage, dir: &Path) -> Result<u64, ManifestError> {
    let path = dir.join(CURRENT);
    let file = storage.open(&path)?;
    let mut text = vec![0; file.len()?.min(64) as usize];
    file.read_exact_at(&mut text, 0)?;
    std::str::from_utf8(&text)
        .ok()
        .and_then(|text| parse_name(text.strip_suffix('\n')?))
        .ok_or(ManifestError::Damaged { file: path, offset: 0, reason: "names no manifest" })
}

#[cfg(test)]
mod tests;

//! Identifies which store wrote a dump, and whether the dump was seen before.
//!
//! The file `store-id` of the data directory:
//!
//! ```text
//! id 40 hexadecimal digits       made with the store; every file it saves carries it (`sexton-store`)
//! imported SIZE TRAILER          the file of the last --import
//! seen SIZE TRAILER              the dump.rdb that lay beside an import
//! ```

use crate::observe::random_id;
use sexton_persistence::device::{DiskStorage, Storage};
use sexton_persistence::rdb::{Input, Reader, Record};
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

const NAME: &str = "store-id";

/// Size of a file and its last eight bytes, which for an RDB file are the checksum of all others.
pub(super) type Identity = (u64, u64);

/// # Errors
/// The file cannot be read.
pub(super) fn of_file(path: &Path) -> io::Result<Identity> {
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    file.seek(SeekFrom::Start(size.saturating_sub(8)))?;
    let mut trailer = Vec::new();
    file.take(8).read_to_end(&mut trailer)?;
    let trailer = trailer.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte));
    Ok((size, trailer))
}

/// The store that wrote an RDB file; empty when it was another server, or the file is damaged.
pub(super) fn store_of(path: &Path) -> String {
    let find = || -> Option<String> {
        let file = File::open(path).ok()?;
        let size = file.metadata().ok()?.len();
        let mut reader = Reader::open(Input::stream(file, size)).ok()?;
        while let Ok(Some(Record::Aux(name, value))) = reader.next_record() {
            if name == b"sexton-store" {
                return String::from_utf8(value).ok();
            }
        }
        None
    };
    find().unwrap_or_default()
}

/// Whether a file was changed after everything below `paths`.
pub(super) fn is_newer(path: &Path, paths: &[PathBuf]) -> bool {
    let changed = |path: &Path| fs::metadata(path).and_then(|data| data.modified()).ok();
    let newest = |dir: &PathBuf| -> Option<SystemTime> {
        let entries = fs::read_dir(dir).ok()?;
        entries.flatten().filter_map(|entry| changed(&entry.path())).max()
    };
    changed(path) > paths.iter().filter_map(newest).max()
}

/// The file `store-id`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StoreFile {
    path: PathBuf,
    id: String,
    imported: Option<Identity>,
    seen: Option<Identity>,
}

impl StoreFile {
    /// Reads the file of a data directory, or makes one.
    ///
    /// # Errors
    /// It cannot be read or written.
    pub(super) fn open(dir: &Path) -> io::Result<Self> {
        let path = dir.join(NAME);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error),
        };
        let identity = |size: &str, trailer: &str| -> Option<Identity> {
            Some((size.parse().ok()?, u64::from_str_radix(trailer, 16).ok()?))
        };
        let mut file = Self { path, id: String::new(), imported: None, seen: None };
        for line in text.lines() {
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["id", id] => file.id = id.to_owned(),
                ["imported", size, trailer] => file.imported = identity(size, trailer),
                ["seen", size, trailer] => file.seen = identity(size, trailer),
                _ => {}
            }
        }
        if file.id.is_empty() {
            file.id = random_id();
            file.write()?;
        }
        Ok(file)
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn imported(&self) -> Option<Identity> {
        self.imported
    }

    pub(super) fn has_seen(&self, identity: Identity) -> bool {
        self.seen == Some(identity) || self.imported == Some(identity)
    }

    /// Records the file that an import read, and the dump beside it.
    pub(super) fn note(
        &mut self,
        imported: Option<Identity>,
        seen: Option<Identity>,
    ) -> io::Result<()> {
        (self.imported, self.seen) = (imported, seen);
        self.write()
    }

    fn write(&self) -> io::Result<()> {
        let mut text = format!("id {}\n", self.id);
        for (name, identity) in [("imported", self.imported), ("seen", self.seen)] {
            if let Some((size, trailer)) = identity {
                text.push_str(&format!("{name} {size} {trailer:016x}\n"));
            }
        }
        let temporary = self.path.with_extension("temp");
        let mut file = File::create(&temporary)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, &self.path)?;
        let dir = self.path.parent().unwrap_or(Path::new("."));
        Ok(DiskStorage.sync_dir(dir)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sexton_persistence::device::TempDir;

    #[test]
    fn what_is_noted_is_read_back() {
        let dir = TempDir::new("identity");
        let mut first = StoreFile::open(&dir).unwrap();
        assert_eq!(first.id().len(), 40);
        first.note(Some((5, 0xff)), Some((1 << 40, u64::MAX))).unwrap();
        let again = StoreFile::open(&dir).unwrap();
        assert_eq!(again, first);
        assert!(again.has_seen((5, 0xff)) && !again.has_seen((5, 0xfe)));
        fs::write(dir.join("file"), b"123456789").unwrap();
        assert_eq!(of_file(&dir.join("file")).unwrap(), (9, 0x3233_3435_3637_3839));
    }
}

//! The journal of an import: what was put aside, so that an import that did not end can be undone.
//!
//! ```text
//! import-journal:  moved <tab> FROM <tab> TO        one line for each rename
//!                  created <tab> PATH               what the import makes
//! ```
//!
//! Paths are relative to the data directory, which may itself be moved.
//!
//! It is written and synced before anything is renamed, and removed when the import is durable.
//! Undoing removes what was created and renames back what was moved; doing it twice does no harm.

use crate::log;
use sexton_persistence::device::{DiskStorage, Storage};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

const NAME: &str = "import-journal";

/// An import that has begun.
#[derive(Debug)]
pub struct Journal {
    dir: PathBuf,
    aside: PathBuf,
    moved: Vec<(PathBuf, PathBuf)>,
    created: Vec<PathBuf>,
}

fn remove_all(path: &Path) -> io::Result<()> {
    let removed = if path.is_file() { fs::remove_file(path) } else { fs::remove_dir_all(path) };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

impl Journal {
    /// Renames those of `paths` that exist into `aside`. `created` is what the import will make; what
    /// stands there now must be among `paths`, or may be lost.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub fn begin(
        dir: &Path,
        aside: &Path,
        paths: &[PathBuf],
        created: &[PathBuf],
    ) -> io::Result<Self> {
        let name = |path: &PathBuf| path.file_name().map(|name| aside.join(name));
        let moved: Vec<_> = paths
            .iter()
            .filter(|path| path.exists())
            .filter_map(|path| Some((path.clone(), name(path)?)))
            .collect();
        let journal = Self {
            dir: dir.to_path_buf(),
            aside: aside.to_path_buf(),
            moved,
            created: created.to_vec(),
        };
        let relative = |path: &PathBuf| {
            let rest = path.strip_prefix(dir).unwrap_or(path);
            rest.to_str().map(str::to_owned).ok_or(io::ErrorKind::InvalidFilename)
        };
        let mut text = String::new();
        for (from, to) in &journal.moved {
            text.push_str(&format!("moved\t{}\t{}\n", relative(from)?, relative(to)?));
        }
        for path in &journal.created {
            text.push_str(&format!("created\t{}\n", relative(path)?));
        }
        let temporary = dir.join(format!("{NAME}.temp"));
        let mut file = File::create(&temporary)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, dir.join(NAME))?;
        DiskStorage.sync_dir(dir)?;
        if !journal.moved.is_empty() {
            fs::create_dir_all(aside)?;
            for (from, to) in &journal.moved {
                fs::rename(from, to)?;
            }
            DiskStorage.sync_dir(aside)?;
            DiskStorage.sync_dir(dir)?;
        }
        Ok(journal)
    }

    /// Puts back what an import of an earlier run has changed that did not end.
    ///
    /// # Errors
    /// The directory cannot be read or written.
    pub fn undo_unfinished(dir: &Path) -> io::Result<()> {
        let text = match fs::read_to_string(dir.join(NAME)) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        log::warning("An import was not finished: it is undone before anything else");
        let (mut moved, mut created) = (Vec::new(), Vec::new());
        for line in text.lines() {
            match line.split('\t').collect::<Vec<_>>()[..] {
                ["moved", from, to] => moved.push((dir.join(from), dir.join(to))),
                ["created", path] => created.push(dir.join(path)),
                _ => return Err(io::Error::other(format!("{NAME}: unknown line '{line}'"))),
            }
        }
        let aside = moved.first().and_then(|(_, to)| to.parent()).map(Path::to_path_buf);
        Self { dir: dir.to_path_buf(), aside: aside.unwrap_or_default(), moved, created }.undo()
    }

    /// Removes what was created, renames back what was moved.
    ///
    /// # Errors
    /// The directory cannot be written; the journal stays for the next start.
    pub fn undo(self) -> io::Result<()> {
        let not_moved = |path: &&PathBuf| {
            // The crash came before the rename: what stands there is the original.
            !self.moved.iter().any(|(from, to)| from == *path && !to.exists())
        };
        for path in self.created.iter().filter(not_moved) {
            remove_all(path)?;
        }
        for (from, to) in self.moved.iter().filter(|(_, to)| to.exists()) {
            fs::rename(to, from)?;
        }
        DiskStorage.sync_dir(&self.dir)?;
        fs::remove_file(self.dir.join(NAME))?;
        // Holds nothing any more, unless somebody put something there.
        let _ = fs::remove_dir(&self.aside);
        Ok(DiskStorage.sync_dir(&self.dir)?)
    }

    /// The import is durable. Gives the directory that holds the originals, if any were moved.
    ///
    /// # Errors
    /// The directory cannot be written: the next start would undo the import.
    pub fn commit(self) -> io::Result<Option<PathBuf>> {
        fs::remove_file(self.dir.join(NAME))?;
        DiskStorage.sync_dir(&self.dir)?;
        Ok((!self.moved.is_empty()).then_some(self.aside))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sexton_persistence::device::TempDir;

    /// A data directory with a log.
    struct Dir(TempDir);

    impl Dir {
        fn new(name: &str) -> Self {
            let dir = TempDir::new(name);
            fs::create_dir_all(dir.join("log")).unwrap();
            fs::write(dir.join("log/a"), "original").unwrap();
            Self(dir)
        }

        fn begin(&self) -> Journal {
            let log = self.0.join("log");
            let created = [self.0.join("tree"), log.clone()];
            Journal::begin(&self.0, &self.0.join("aside"), &[log], &created).unwrap()
        }

        fn entries(&self) -> Vec<String> {
            let entries = fs::read_dir(&*self.0).unwrap();
            let mut names: Vec<_> =
                entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        }
    }

    #[test]
    fn an_import_that_did_not_end_is_undone() {
        let dir = Dir::new("journal-undo");
        // The process dies here.
        let _ = dir.begin();
        fs::create_dir_all(dir.0.join("tree")).unwrap();
        fs::create_dir_all(dir.0.join("log")).unwrap();
        fs::write(dir.0.join("log/a"), "half").unwrap();
        Journal::undo_unfinished(&dir.0).unwrap();
        assert_eq!(dir.entries(), ["log"]);
        assert_eq!(fs::read(dir.0.join("log/a")).unwrap(), b"original");
        Journal::undo_unfinished(&dir.0).unwrap();
    }

    #[test]
    fn a_crash_before_the_rename_loses_nothing() {
        let dir = Dir::new("journal-early");
        let _ = dir.begin();
        fs::rename(dir.0.join("aside/log"), dir.0.join("log")).unwrap();
        Journal::undo_unfinished(&dir.0).unwrap();
        assert_eq!(fs::read(dir.0.join("log/a")).unwrap(), b"original");
    }

    #[test]
    fn a_finished_one_keeps_the_originals() {
        let dir = Dir::new("journal-commit");
        let journal = dir.begin();
        fs::create_dir_all(dir.0.join("tree")).unwrap();
        assert_eq!(journal.commit().unwrap(), Some(dir.0.join("aside")));
        Journal::undo_unfinished(&dir.0).unwrap();
        assert_eq!(dir.entries(), ["aside", "tree"]);
        assert_eq!(fs::read(dir.0.join("aside/log/a")).unwrap(), b"original");
    }
}

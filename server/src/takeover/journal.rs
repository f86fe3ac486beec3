//! The journal of an import: it records what was set aside, so that an unfinished import can be undone.
//!
//! ```text
//! import-journal:  moved <tab> FROM <tab> TO        one line for each rename
//!                  created <tab> PATH               a file or directory that the import creates
//! ```
//!
//! Paths are relative to the data directory, which may itself be moved; paths on other devices are absolute.
//!
//! The journal is written and synced before anything is renamed, and removed once the import is durable.
//! Undoing removes what was created and renames back what was moved; it is idempotent.

use crate::log;
use sexton_engine::PLACE_PREFIX;
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

/// Where the files of `path` really are: on another device it is a link.
pub(super) fn real(path: &Path) -> PathBuf {
    fs::read_link(path).unwrap_or_else(|_| path.to_path_buf())
}

/// Removes a directory, and for a tree also its places on other devices.
fn remove_all(path: &Path) -> io::Result<()> {
    for name in DiskStorage.list(path).unwrap_or_default() {
        let place = path.join(&name);
        if name.starts_with(PLACE_PREFIX) && place.is_symlink() {
            remove_all(&real(&place))?;
        }
    }
    let removed = if path.is_file() { fs::remove_file(path) } else { fs::remove_dir_all(path) };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Makes the renames of these paths durable, on whatever device.
fn sync_parents<'p>(paths: impl Iterator<Item = &'p PathBuf>) -> io::Result<()> {
    let mut parents: Vec<_> = paths.filter_map(|path| path.parent()).collect();
    parents.sort_unstable();
    parents.dedup();
    for parent in parents {
        DiskStorage.sync_dir(parent)?;
    }
    Ok(())
}

impl Journal {
    /// Renames those of `paths` that exist to `name/` in `dir`. Links to a directory on another device are kept: that
    /// directory is renamed to `name-...` beside it, and replaced by an empty one, since the import does not change where files
    /// are stored. `created` are the paths that the import will create; anything that exists there must be among `paths`,
    /// or may be lost.
    ///
    /// # Errors
    /// A directory cannot be written.
    pub fn begin(
        dir: &Path,
        name: &str,
        paths: &[PathBuf],
        created: &[PathBuf],
    ) -> io::Result<Self> {
        let aside = dir.join(name);
        let move_of = |path: &PathBuf| {
            let (real, last) = (real(path), path.file_name()?);
            let to = if real == *path {
                aside.join(last)
            } else {
                real.with_file_name(format!("{name}-{}", last.display()))
            };
            Some((real, to))
        };
        let moved: Vec<_> = paths.iter().filter(|path| path.exists()).filter_map(move_of).collect();
        let journal = Self {
            dir: dir.to_path_buf(),
            aside,
            moved,
            created: created.iter().map(|path| real(path)).collect(),
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
        for (from, to) in &journal.moved {
            if to.starts_with(&journal.aside) {
                fs::create_dir_all(&journal.aside)?;
                fs::rename(from, to)?;
            } else {
                fs::rename(from, to)?;
                fs::create_dir(from)?;
            }
        }
        sync_parents(journal.moved.iter().flat_map(|(from, to)| [from, to]))?;
        DiskStorage.sync_dir(dir)?;
        Ok(journal)
    }

    /// Where `path` was put, if it was.
    #[must_use]
    pub fn aside_of(&self, path: &Path) -> Option<&Path> {
        let real = real(path);
        self.moved.iter().find(|(from, _)| *from == real).map(|(_, to)| to.as_path())
    }

    /// Whether an import of an earlier run has not ended.
    pub(super) fn is_unfinished(dir: &Path) -> bool {
        dir.join(NAME).exists()
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
        let in_dir = |path: &&Path| path.parent() == Some(dir);
        let aside = moved.iter().filter_map(|(_, to)| to.parent()).find(in_dir);
        let aside = aside.map(Path::to_path_buf).unwrap_or_default();
        Self { dir: dir.to_path_buf(), aside, moved, created }.undo()
    }

    /// Removes what was created, renames back what was moved.
    ///
    /// # Errors
    /// The directory cannot be written; the journal stays for the next start.
    pub fn undo(self) -> io::Result<()> {
        let not_moved = |path: &&PathBuf| {
            // The crash happened before the rename: the existing file is the original.
            !self.moved.iter().any(|(from, to)| from == *path && !to.exists())
        };
        for path in self.created.iter().filter(not_moved) {
            remove_all(path)?;
            if path.parent() != Some(&*self.dir) {
                // A link leads here from the data directory.
                fs::create_dir(path)?;
            }
        }
        for (from, to) in self.moved.iter().filter(|(_, to)| to.exists()) {
            fs::rename(to, from)?;
        }
        sync_parents(self.moved.iter().map(|(from, _)| from).chain(&self.created))?;
        DiskStorage.sync_dir(&self.dir)?;
        fs::remove_file(self.dir.join(NAME))?;
        // Empty by now, unless someone has put a file there.
        let _ = fs::remove_dir(&self.aside);
        Ok(DiskStorage.sync_dir(&self.dir)?)
    }

    /// The import is durable. Gives the directories that were moved, where they are now.
    ///
    /// # Errors
    /// The directory cannot be written: the next start would undo the import.
    pub fn commit(self) -> io::Result<Vec<PathBuf>> {
        fs::remove_file(self.dir.join(NAME))?;
        DiskStorage.sync_dir(&self.dir)?;
        Ok(self.moved.into_iter().map(|(_, to)| to).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sexton_persistence::device::TempDir;
    use std::os::unix::fs::symlink;

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
            Journal::begin(&self.0, "aside", &[log], &created).unwrap()
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
        assert_eq!(journal.commit().unwrap(), [dir.0.join("aside/log")]);
        Journal::undo_unfinished(&dir.0).unwrap();
        assert_eq!(dir.entries(), ["aside", "tree"]);
        assert_eq!(fs::read(dir.0.join("aside/log/a")).unwrap(), b"original");
    }

    /// The log and a place of the tree are on another device; the process dies after each step.
    #[test]
    fn what_lies_on_a_device_is_put_aside_there() {
        for step in 0..3 {
            let (dir, device) = (Dir::new("journal-data"), TempDir::new("journal-device"));
            let (log, on_device) = (dir.0.join("log"), device.join("log"));
            fs::rename(&log, &on_device).unwrap();
            symlink(&on_device, &log).unwrap();
            let journal = dir.begin();
            assert_eq!(fs::read_dir(&log).unwrap().count(), 0, "there is room for a new one");
            let aside = device.join("aside-log");
            assert_eq!(journal.aside_of(&log), Some(aside.as_path()));
            if step == 0 {
                // Before the rename.
                fs::remove_dir(&on_device).unwrap();
                fs::rename(&aside, &on_device).unwrap();
            }
            if step == 2 {
                let tables = device.join("tables-1");
                fs::create_dir_all(&tables).unwrap();
                fs::create_dir_all(dir.0.join("tree")).unwrap();
                symlink(&tables, dir.0.join("tree/on-device")).unwrap();
                fs::write(tables.join("1.tbl"), "half").unwrap();
                fs::write(log.join("a"), "half").unwrap();
            }
            Journal::undo_unfinished(&dir.0).unwrap();
            assert_eq!(fs::read(log.join("a")).unwrap(), b"original", "step {step}");
            assert_eq!(fs::read_dir(&*device).unwrap().count(), 1, "step {step}");
            assert_eq!(dir.entries(), ["log"]);
        }
        let (dir, device) = (Dir::new("journal-data"), TempDir::new("journal-device"));
        fs::rename(dir.0.join("log"), device.join("log")).unwrap();
        symlink(device.join("log"), dir.0.join("log")).unwrap();
        assert_eq!(dir.begin().commit().unwrap(), [device.join("aside-log")]);
        assert_eq!(fs::read(device.join("aside-log/a")).unwrap(), b"original");
    }
    /// A data directory whose log and whose empty tree are on a device.
    fn on_device() -> (Dir, TempDir) {
        let (dir, device) = (Dir::new("journal-data"), TempDir::new("journal-device"));
        fs::rename(dir.0.join("log"), device.join("log")).unwrap();
        fs::create_dir(device.join("tree")).unwrap();
        for name in ["log", "tree"] {
            symlink(device.join(name), dir.0.join(name)).unwrap();
        }
        (dir, device)
    }

    /// The process dies after each step.
    #[test]
    fn a_link_leads_to_a_directory_after_an_import_that_did_not_end() {
        for step in 0..4 {
            let (dir, device) = on_device();
            let (log, aside) = (dir.0.join("log"), device.join("aside-log"));
            let journal = dir.begin();
            assert_eq!(fs::read_dir(&log).unwrap().count(), 0, "there is room for a new one");
            assert_eq!(journal.aside_of(&log), Some(aside.as_path()));
            match step {
                // Before the rename, and before the new directory.
                0 => {
                    fs::remove_dir(device.join("log")).unwrap();
                    fs::rename(&aside, device.join("log")).unwrap();
                }
                1 => fs::remove_dir(device.join("log")).unwrap(),
                2 => {}
                _ => {
                    fs::write(dir.0.join("tree/1.tbl"), "half").unwrap();
                    fs::write(log.join("a"), "half").unwrap();
                }
            }
            Journal::undo_unfinished(&dir.0).unwrap();
            assert_eq!(fs::read(log.join("a")).unwrap(), b"original", "step {step}");
            assert_eq!(fs::read_dir(dir.0.join("tree")).unwrap().count(), 0, "step {step}");
            assert_eq!(fs::read_dir(&*device).unwrap().count(), 2, "step {step}");
            assert_eq!(dir.entries(), ["log", "tree"]);
            for name in ["log", "tree"] {
                assert_eq!(fs::read_link(dir.0.join(name)).unwrap(), device.join(name));
            }
        }
    }
}

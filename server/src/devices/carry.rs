//! Moving a kind of file to another device, with the data.
//!
//! `NAME` in the data directory is a directory, or a link to the one that counts. The copy is made beside its
//! place, synced, and only then takes it; the old files go last. At every instant `NAME` leads to the whole
//! data, or, for the moment in which a directory gives way to a link or the other way round,
//! `NAME.moved` does, which the next start puts in place.

use crate::log;
use sexton_persistence::device::{DiskStorage, Storage};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Sees to it that `dir/name` lies in `target`, or in `dir` itself without one.
///
/// # Errors
/// A target that holds other files, or a failing medium; `dir/name` is what it was.
pub(super) fn to(dir: &Path, name: &Path, target: Option<&Path>) -> Result<(), String> {
    let place = dir.join(name);
    let moved = with_suffix(&place, "moved");
    let failed = |what: &Path| {
        let what = what.display().to_string();
        move |error: io::Error| format!("{what}: {error}")
    };
    if !exists(&place) && exists(&moved) {
        fs::rename(&moved, &place).and_then(|()| sync(dir)).map_err(failed(&moved))?;
    }
    // A directory that a link has taken the place of.
    let old = with_suffix(&place, "old");
    if place.is_symlink() && old.is_dir() {
        fs::remove_dir_all(&old).map_err(failed(&old))?;
    }
    // A new link that never took its place.
    if moved.is_symlink() {
        fs::remove_file(&moved).map_err(failed(&moved))?;
    }
    let wanted = target.map_or_else(|| place.clone(), Path::to_path_buf);
    let found = match fs::read_link(&place) {
        Ok(link) => Some(link),
        Err(_) => exists(&place).then(|| place.clone()),
    };
    let Some(found) = found else {
        // A new store.
        if target.is_some() {
            fs::create_dir_all(&wanted).map_err(failed(&wanted))?;
            must_be_empty(&wanted)?;
            link(dir, &place, &wanted).map_err(failed(&place))?;
        }
        return Ok(());
    };
    if found == wanted {
        return Ok(());
    }
    log::notice(&format!("Carrying {} to {}", found.display(), wanted.display()));
    let copy = if target.is_some() { wanted.clone() } else { moved };
    copy_all(&found, &copy)?;
    if target.is_some() {
        link(dir, &place, &wanted).map_err(failed(&place))?;
    } else {
        fs::remove_file(&place).map_err(failed(&place))?;
        fs::rename(&copy, &place).map_err(failed(&place))?;
        sync(dir).map_err(failed(dir))?;
    }
    // What is left of the old place does no harm but takes room.
    let old = if found == place { old } else { found };
    if let Err(error) = fs::remove_dir_all(&old) {
        log::warning(&format!("{} is carried, but stays: {error}", old.display()));
    }
    Ok(())
}

/// Makes `place` a link to `target`; a directory there becomes `place.old`.
fn link(dir: &Path, place: &Path, target: &Path) -> io::Result<()> {
    let moved = with_suffix(place, "moved");
    std::os::unix::fs::symlink(target, &moved)?;
    sync(dir)?;
    if exists(place) && !place.is_symlink() {
        fs::rename(place, with_suffix(place, "old"))?;
    }
    fs::rename(&moved, place)?;
    sync(dir)
}

/// Copies the files of a flat directory into a new one, durably.
fn copy_all(from: &Path, to: &Path) -> Result<(), String> {
    let partial = with_suffix(to, "partial");
    let failed = |path: &Path, error: io::Error| format!("{}: {error}", path.display());
    if to.exists() {
        must_be_empty(to)?;
        fs::remove_dir(to).map_err(|error| failed(to, error))?;
    }
    if partial.exists() {
        fs::remove_dir_all(&partial).map_err(|error| failed(&partial, error))?;
    }
    let copy = || -> io::Result<()> {
        fs::create_dir_all(&partial)?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            let to = partial.join(entry.file_name());
            fs::copy(entry.path(), &to)?;
            File::open(&to)?.sync_all()?;
        }
        sync(&partial)?;
        fs::rename(&partial, to)?;
        sync(to.parent().unwrap_or(Path::new("/")))
    };
    copy().map_err(|error| failed(to, error))
}

fn must_be_empty(dir: &Path) -> Result<(), String> {
    let mut entries = fs::read_dir(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    match entries.next() {
        None => Ok(()),
        Some(_) => Err(format!("{} is not empty: move away what is in it", dir.display())),
    }
}

/// True for a link, too, whatever it leads to.
fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    name.into()
}

fn sync(dir: &Path) -> io::Result<()> {
    Ok(DiskStorage.sync_dir(dir)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sexton_persistence::device::TempDir;

    /// A data directory with a tree.
    struct Data(TempDir);

    impl Data {
        fn new(name: &str) -> Self {
            let dir = TempDir::new(name);
            fs::create_dir_all(dir.join("data/tree")).unwrap();
            fs::write(dir.join("data/tree/CURRENT"), "x").unwrap();
            Self(dir)
        }

        fn content(&self) -> String {
            fs::read_to_string(self.0.join("data/tree/CURRENT")).unwrap()
        }
    }

    #[test]
    fn files_follow_the_configuration_there_and_back() {
        let temp = Data::new("carry");
        let (dir, name) = (temp.0.join("data"), Path::new("tree"));
        let (one, two) = (temp.0.join("one/tree"), temp.0.join("two/tree"));
        for target in [None, Some(&one), Some(&one), Some(&two), None, Some(&two)] {
            to(&dir, name, target.map(PathBuf::as_path)).unwrap();
            assert_eq!(temp.content(), "x");
            assert_eq!(fs::read_link(dir.join("tree")).ok().as_ref(), target);
            let elsewhere = [&one, &two].into_iter().filter(|place| Some(*place) != target);
            assert_eq!(elsewhere.filter(|place| place.exists()).count(), 0, "old files are gone");
            assert_eq!(fs::read_dir(&dir).unwrap().count(), 1, "nothing is left beside it");
        }
    }

    #[test]
    fn other_files_are_not_overwritten() {
        let temp = Data::new("carry-full");
        let target = temp.0.join("one/tree");
        fs::create_dir_all(&target).unwrap();
        fs::write(target.join("CURRENT"), "other").unwrap();
        let error = to(&temp.0.join("data"), Path::new("tree"), Some(&target)).unwrap_err();
        assert!(error.contains("is not empty"), "{error}");
        assert_eq!(temp.content(), "x");
        assert_eq!(fs::read_to_string(target.join("CURRENT")).unwrap(), "other");
    }

    #[test]
    fn an_interrupted_change_is_finished() {
        let temp = Data::new("carry-crash");
        let dir = temp.0.join("data");
        // A directory has given way, and the link has not taken its place.
        let target = temp.0.join("one/tree");
        copy_all(&dir.join("tree"), &target).unwrap();
        std::os::unix::fs::symlink(&target, dir.join("tree.moved")).unwrap();
        fs::rename(dir.join("tree"), dir.join("tree.old")).unwrap();
        to(&dir, Path::new("tree"), Some(&target)).unwrap();
        assert_eq!(temp.content(), "x");
        assert_eq!(fs::read_link(dir.join("tree")).unwrap(), target);
        // The link is gone, and the copy has not taken its place.
        copy_all(&target, &dir.join("tree.moved")).unwrap();
        fs::remove_file(dir.join("tree")).unwrap();
        to(&dir, Path::new("tree"), None).unwrap();
        assert_eq!(temp.content(), "x");
        assert!(!dir.join("tree").is_symlink());
    }
}

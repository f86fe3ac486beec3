//! Moving a kind of file to another device, with the data.
//!
//! `NAME` in the data directory is the directory itself, or a link to the one that counts.
//!
//! ```text
//! to a device:   NAME.moved -> new place      what lies there is ours from here on, and not whole yet
//!                copy, sync
//!                NAME -> NAME.old, NAME.moved -> NAME (where NAME was a link: in one step)
//! back:          NAME.moved: the copy, synced
//!                NAME (the link) goes, NAME.moved -> NAME
//! then:          the old files go
//! ```
//!
//! At every instant `NAME` leads to the whole data, or is missing and `NAME.moved` does. A start after a crash
//! puts that one in its place in the second case, and removes what it finds of a copy in the first
//! ([`settle`]).

use crate::log;
use sexton_persistence::device::{DiskStorage, Storage, StorageError, StorageResult};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// Sees to it that `dir/name` lies in `target`, or in `dir` itself without one.
///
/// # Errors
/// A target that holds other files, or a failing medium; `dir/name` is what it was.
pub(super) fn to(dir: &Path, name: &Path, target: Option<&Path>) -> Result<(), String> {
    let place = dir.join(name);
    settle(dir, &place).map_err(|error| error.to_string())?;
    let found = match fs::read_link(&place) {
        Ok(link) => Some(link),
        Err(_) => exists(&place).then(|| place.clone()),
    };
    let wanted = target.map_or_else(|| place.clone(), Path::to_path_buf);
    match found {
        Some(found) if found == wanted => Ok(()),
        Some(found) => carry(dir, &place, &found, target),
        None => target.map_or(Ok(()), |target| begin(dir, &place, target)),
    }
}

/// Finishes a change that a crash has interrupted, or takes it back.
pub(super) fn settle(dir: &Path, place: &Path) -> StorageResult<()> {
    let (moved, old) = (with_suffix(place, "moved"), with_suffix(place, "old"));
    if !exists(place) && exists(&moved) {
        DiskStorage.rename(&moved, place)?;
        DiskStorage.sync_dir(dir)?;
    } else if let Ok(copy) = fs::read_link(&moved) {
        if fs::read_link(place).ok().as_ref() != Some(&copy) {
            remove_all(&copy)?;
        }
        remove_all(&moved)?;
    } else {
        remove_all(&moved)?;
    }
    // What a link has taken the place of.
    if place.is_symlink() { remove_all(&old) } else { Ok(()) }
}

/// A new store, whose files will lie at `target`.
fn begin(dir: &Path, place: &Path, target: &Path) -> Result<(), String> {
    must_be_free(target)?;
    DiskStorage
        .create_dir_all(target)
        .and_then(|()| link(dir, target, place))
        .and_then(|()| take_place(dir, place))
        .map_err(|error| error.to_string())
}

fn carry(dir: &Path, place: &Path, found: &Path, target: Option<&Path>) -> Result<(), String> {
    log::notice(&format!("Carrying {} to {}", found.display(), target.unwrap_or(place).display()));
    if let Some(target) = target {
        must_be_free(target)?;
    }
    let change = || -> StorageResult<()> {
        if let Some(target) = target {
            link(dir, target, place)?;
            copy(found, target)?;
            take_place(dir, place)
        } else {
            let moved = with_suffix(place, "moved");
            copy(found, &moved)?;
            remove_all(place)?;
            DiskStorage.rename(&moved, place)?;
            DiskStorage.sync_dir(dir)
        }
    };
    change().map_err(|error| error.to_string())?;
    // What is left of the old place does no harm but takes room.
    let old = if found == place { with_suffix(place, "old") } else { found.to_path_buf() };
    if let Err(error) = remove_all(&old) {
        log::warning(&format!("{} is carried, but stays: {error}", old.display()));
    }
    Ok(())
}

/// Says durably that what lies at `target` is the copy of `place`.
fn link(dir: &Path, target: &Path, place: &Path) -> StorageResult<()> {
    let moved = with_suffix(place, "moved");
    std::os::unix::fs::symlink(target, &moved)
        .map_err(|error| StorageError::new("symlink", &moved, error))?;
    DiskStorage.sync_dir(dir)
}

/// Makes `place` the link that [`link`] has made; a directory there becomes `place.old`.
fn take_place(dir: &Path, place: &Path) -> StorageResult<()> {
    if exists(place) && !place.is_symlink() {
        DiskStorage.rename(place, &with_suffix(place, "old"))?;
    }
    DiskStorage.rename(&with_suffix(place, "moved"), place)?;
    DiskStorage.sync_dir(dir)
}

/// Copies the files of a flat directory, durably.
fn copy(from: &Path, to: &Path) -> StorageResult<()> {
    let names = DiskStorage.list(from)?;
    DiskStorage.create_dir_all(to)?;
    for name in names {
        let to = to.join(&name);
        fs::copy(from.join(&name), &to)
            .and_then(|_| File::open(&to)?.sync_all())
            .map_err(|error| StorageError::new("copy", &to, error))?;
    }
    DiskStorage.sync_dir(to)?;
    DiskStorage.sync_dir(to.parent().unwrap_or(Path::new("/")))
}

fn must_be_free(target: &Path) -> Result<(), String> {
    if !exists(target) {
        return Ok(());
    }
    let mut entries =
        fs::read_dir(target).map_err(|error| format!("{}: {error}", target.display()))?;
    match entries.next() {
        None => Ok(()),
        Some(_) => Err(format!("{} is not empty: move away what is in it", target.display())),
    }
}

/// Removes whatever is there, if anything; of a link, the link.
fn remove_all(path: &Path) -> StorageResult<()> {
    if !exists(path) {
        return Ok(());
    }
    let removed = if path.is_dir() && !path.is_symlink() {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    };
    removed.map_err(|error| StorageError::new("remove", path, error))
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

    /// What is on the disk after each step of a change, each time with a start behind it.
    #[test]
    fn an_interrupted_change_is_finished_or_taken_back() {
        for step in 0..5 {
            let temp = Data::new("carry-crash");
            let (dir, target) = (temp.0.join("data"), temp.0.join("one/tree"));
            let place = dir.join("tree");
            let steps: [&dyn Fn(); 5] = [
                &|| link(&dir, &target, &place).unwrap(),
                &|| copy(&place, &target).unwrap(),
                &|| fs::rename(&place, dir.join("tree.old")).unwrap(),
                &|| fs::rename(dir.join("tree.moved"), &place).unwrap(),
                &|| fs::remove_dir_all(dir.join("tree.old")).unwrap(),
            ];
            steps[..=step].iter().for_each(|step| step());
            to(&dir, Path::new("tree"), Some(&target)).unwrap();
            assert_eq!(temp.content(), "x", "step {step}");
            assert_eq!(fs::read_link(&place).unwrap(), target);
            assert_eq!(fs::read_dir(&dir).unwrap().count(), 1, "step {step}");
        }
        for step in 0..3 {
            let temp = Data::new("carry-crash-back");
            let (dir, target) = (temp.0.join("data"), temp.0.join("one/tree"));
            let place = dir.join("tree");
            to(&dir, Path::new("tree"), Some(&target)).unwrap();
            let steps: [&dyn Fn(); 3] = [
                &|| copy(&target, &dir.join("tree.moved")).unwrap(),
                &|| fs::remove_file(&place).unwrap(),
                &|| fs::rename(dir.join("tree.moved"), &place).unwrap(),
            ];
            steps[..=step].iter().for_each(|step| step());
            to(&dir, Path::new("tree"), None).unwrap();
            assert_eq!(temp.content(), "x", "step {step}");
            assert!(!place.is_symlink());
            assert_eq!(fs::read_dir(&dir).unwrap().count(), 1, "step {step}");
        }
    }

    /// The device of the copy is not the one that is wanted any more: the copy goes.
    #[test]
    fn a_copy_that_is_not_wanted_any_more_is_removed() {
        let temp = Data::new("carry-change-of-mind");
        let (dir, one) = (temp.0.join("data"), temp.0.join("one/tree"));
        link(&dir, &one, &dir.join("tree")).unwrap();
        fs::create_dir_all(&one).unwrap();
        fs::write(one.join("CURRENT"), "half").unwrap();
        let two = temp.0.join("two/tree");
        to(&dir, Path::new("tree"), Some(&two)).unwrap();
        assert_eq!(temp.content(), "x");
        assert_eq!(fs::read_link(dir.join("tree")).unwrap(), two);
        assert!(!exists(&one));
    }
}

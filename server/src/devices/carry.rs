//! Moves one kind of file, with its data, to another device.
//!
//! `NAME` in the data directory is the directory or file itself, or a symbolic link to the current one.
//!
//! ```text
//! to a device:   NAME.moved -> new place      the contents there are ours from now on, and still incomplete
//!                copy, sync
//!                NAME -> NAME.old, NAME.moved -> NAME (in one step where NAME is no directory)
//! back:          NAME.moved: the copy, synced
//!                NAME (the link) is removed, NAME.moved -> NAME
//! then:          the old files are removed
//! ```
//!
//! Old files on a device are announced before the change: `NAME.leaves` -> old place. This link is removed after the
//! files. If some of the files remain, a later start removes them.
//!
//! At every instant either `NAME` leads to the complete data, or `NAME` is missing and `NAME.moved` leads to it. After a
//! crash, a start renames `NAME.moved` to `NAME` in the second case, and removes the partial copy in the first.

use crate::log;
use sexton_persistence::device::{DiskStorage, Storage, StorageError, StorageResult};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// What is carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// A directory, made at the first start.
    Directory,
    /// One file, made by the first save.
    File,
}

/// Ensures that `dir/name` is stored at `target`, or in `dir` itself if there is no target. `is_device` recognizes the
/// directories of devices: an operator's own link to any other place is kept.
///
/// # Errors
/// A target with other files, or a failing medium; `dir/name` is unchanged.
pub(super) fn to(
    dir: &Path,
    name: &Path,
    content: Content,
    target: Option<&Path>,
    is_device: impl Fn(&Path) -> bool,
) -> Result<(), String> {
    let place = dir.join(name);
    recover_move(dir, &place).map_err(|error| error.to_string())?;
    let found = match fs::read_link(&place) {
        Ok(link) => Some(link),
        Err(_) => exists(&place).then(|| place.clone()),
    };
    let wanted = target.map_or_else(|| place.clone(), Path::to_path_buf);
    match found {
        None => match target {
            Some(target) => begin(dir, &place, content, target),
            None => Ok(()),
        },
        Some(found) if found == wanted => check_leads(content, &place, &found),
        Some(found) => {
            let home = found.parent().unwrap_or(Path::new("/"));
            let is_ours = found == place || is_device(home);
            if content == Content::File && !is_ours {
                return match target {
                    None => Ok(()),
                    Some(_) => Err(format!(
                        "{} is a link to {}, which is on no device: move the file there",
                        place.display(),
                        found.display()
                    )),
                };
            }
            if found != place {
                check_leads(content, &place, &found)?;
            }
            if content == Content::File && !exists(&found) {
                // Nothing was saved yet.
                DiskStorage.remove(&place).map_err(|error| error.to_string())?;
                return to(dir, name, content, target, is_device);
            }
            carry(dir, &place, content, &found, target)
        }
    }
}

/// Finishes a change that a crash has interrupted, or takes it back.
pub(super) fn recover_move(dir: &Path, place: &Path) -> StorageResult<()> {
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
    clear_old(dir, place)?;
    // What a link has taken the place of.
    if place.is_symlink() { remove_all(&old) } else { Ok(()) }
}

/// Removes the files that `place` has left behind, if a change got that far. Files that cannot be removed do not prevent
/// the start: they stay announced.
fn clear_old(dir: &Path, place: &Path) -> StorageResult<()> {
    let leaves = with_suffix(place, "leaves");
    let Ok(old) = fs::read_link(&leaves) else { return Ok(()) };
    let leads_there = fs::read_link(place).is_ok_and(|found| found == old);
    if exists(place) && !leads_there {
        // Where its device is not mounted nothing can be said of them.
        if !old.parent().is_some_and(Path::is_dir) {
            return Ok(());
        }
        if let Err(error) = remove_all(&old) {
            log::warning(&format!("{} is carried, but stays: {error}", old.display()));
            return Ok(());
        }
    }
    if exists(place) {
        DiskStorage.remove(&leaves)?;
        DiskStorage.sync_dir(dir)?;
    }
    Ok(())
}

/// Begins a new store, whose files will be stored at `target`.
fn begin(dir: &Path, place: &Path, content: Content, target: &Path) -> Result<(), String> {
    must_be_free(content, target)?;
    let parent = target.parent().unwrap_or(Path::new("/"));
    let made = match content {
        Content::Directory => DiskStorage
            .create_dir_all(target)
            .and_then(|()| announce(dir, place, target))
            .and_then(|()| take_place(dir, place)),
        Content::File => DiskStorage.create_dir_all(parent),
    };
    made.map_err(|error| error.to_string())
}

/// A missing target may be on an absent device. Files are created by the first save, so for a file its directory is
/// checked.
fn check_leads(content: Content, place: &Path, found: &Path) -> Result<(), String> {
    let home = match content {
        Content::Directory => found,
        Content::File => found.parent().unwrap_or(Path::new("/")),
    };
    if home.is_dir() {
        return Ok(());
    }
    let (place, found, home) = (place.display(), found.display(), home.display());
    Err(format!("{place} leads to {found}, and there is no {home}: is its device mounted?"))
}

fn carry(
    dir: &Path,
    place: &Path,
    content: Content,
    found: &Path,
    target: Option<&Path>,
) -> Result<(), String> {
    let wanted = target.unwrap_or(place);
    log::notice(&format!("Carrying {} to {}", found.display(), wanted.display()));
    if let Some(target) = target {
        must_be_free(content, target)?;
    }
    let moved = with_suffix(place, "moved");
    let copied = match target {
        Some(target) => announce(dir, place, target).and_then(|()| copy(found, target)),
        None => copy(found, &moved),
    };
    if let Err(error) = copied {
        // A device that is full should not stay so because of half a copy; if not now, the next start does it.
        let _ = recover_move(dir, place);
        return Err(error.to_string());
    }
    let change = || -> StorageResult<()> {
        if found != place {
            let leaves = with_suffix(place, "leaves");
            remove_all(&leaves)?;
            link(found, &leaves)?;
            DiskStorage.sync_dir(dir)?;
        }
        if target.is_none() {
            // The link.
            remove_all(place)?;
        }
        take_place(dir, place)
    };
    change().map_err(|error| error.to_string())?;
    // What is left of the old place does no harm but takes room; the next start tries again.
    if found == place {
        let old = with_suffix(place, "old");
        if let Err(error) = remove_all(&old) {
            log::warning(&format!("{} is carried, but stays: {error}", old.display()));
        }
        return Ok(());
    }
    clear_old(dir, place).map_err(|error| error.to_string())
}

/// Records durably that the files at `target`, present or future, will replace `place`, and are still incomplete.
pub(super) fn announce(dir: &Path, place: &Path, target: &Path) -> StorageResult<()> {
    let moved = with_suffix(place, "moved");
    if moved.is_symlink() {
        DiskStorage.remove(&moved)?;
    }
    link(target, &moved)?;
    DiskStorage.sync_dir(dir)
}

/// Durably replaces `place` by the announced files, or by the copy beside it. A directory there becomes `place.old`; a file
/// or a link is replaced in one step.
pub(super) fn take_place(dir: &Path, place: &Path) -> StorageResult<()> {
    if place.is_dir() && !place.is_symlink() {
        DiskStorage.rename(place, &with_suffix(place, "old"))?;
    }
    DiskStorage.rename(&with_suffix(place, "moved"), place)?;
    DiskStorage.sync_dir(dir)
}

fn link(target: &Path, at: &Path) -> StorageResult<()> {
    std::os::unix::fs::symlink(target, at).map_err(|error| StorageError::new("symlink", at, error))
}

/// Durably copies a file, or a directory with its contents. Links in it are copied as links: they lead to places
/// on other devices.
fn copy(from: &Path, to: &Path) -> StorageResult<()> {
    let parent = to.parent().unwrap_or(Path::new("/"));
    if from.is_dir() {
        DiskStorage.create_dir_all(to)?;
        for name in DiskStorage.list(from)? {
            let (from, to) = (from.join(&name), to.join(&name));
            match fs::read_link(&from) {
                Ok(target) => link(&target, &to)?,
                Err(_) => copy(&from, &to)?,
            }
        }
        DiskStorage.sync_dir(to)?;
    } else {
        DiskStorage.create_dir_all(parent)?;
        copy_file(from, to)?;
    }
    DiskStorage.sync_dir(parent)
}

fn copy_file(from: &Path, to: &Path) -> StorageResult<()> {
    fs::copy(from, to)
        .and_then(|_| File::open(to)?.sync_all())
        .map_err(|error| StorageError::new("copy", to, error))
}

fn must_be_free(content: Content, target: &Path) -> Result<(), String> {
    let path = target.display();
    match content {
        Content::File if exists(target) => {
            Err(format!("{path} is there already: move it away, or load it with --import"))
        }
        Content::Directory if exists(target) => {
            let names = DiskStorage.list(target).map_err(|error| error.to_string())?;
            match names.first() {
                None => Ok(()),
                Some(_) => Err(format!("{path} is not empty: move away what is in it")),
            }
        }
        _ => Ok(()),
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
pub(super) fn exists(path: &Path) -> bool {
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

    /// A data directory with a directory `tree` and a file `dump`, and two devices beside it.
    struct Places(TempDir);

    impl Places {
        fn new(name: &str) -> Self {
            let temp = TempDir::new(name);
            fs::create_dir_all(temp.join("data/tree")).unwrap();
            fs::write(temp.join("data/tree/CURRENT"), "x").unwrap();
            std::os::unix::fs::symlink("/nowhere", temp.join("data/tree/on-other")).unwrap();
            fs::write(temp.join("data/dump"), "x").unwrap();
            Self(temp)
        }

        fn at(&self, path: &str) -> PathBuf {
            self.0.join(path)
        }

        fn to(&self, name: &str, target: Option<&Path>) -> Result<(), String> {
            let content = if name == "tree" { Content::Directory } else { Content::File };
            let is_device = |dir: &Path| dir == self.at("one") || dir == self.at("two");
            to(&self.at("data"), Path::new(name), content, target, is_device)
        }

        fn content(&self, name: &str) -> String {
            let file = if name == "tree" { "data/tree/CURRENT" } else { "data/dump" };
            fs::read_to_string(self.at(file)).unwrap()
        }
    }

    #[test]
    fn files_follow_the_configuration_there_and_back() {
        for name in ["tree", "dump"] {
            let places = Places::new("carry");
            let (one, two) = (places.at("one").join(name), places.at("two").join(name));
            for target in [None, Some(&one), Some(&one), Some(&two), None, Some(&two)] {
                places.to(name, target.map(PathBuf::as_path)).unwrap();
                assert_eq!(places.content(name), "x");
                let other = fs::read_link(places.at("data/tree/on-other")).unwrap();
                assert_eq!(other, Path::new("/nowhere"), "a link in it is a link");
                assert_eq!(fs::read_link(places.at("data").join(name)).ok().as_ref(), target);
                let elsewhere = [&one, &two].into_iter().filter(|place| Some(*place) != target);
                assert_eq!(elsewhere.filter(|p| p.exists()).count(), 0, "old files are gone");
                let left = fs::read_dir(places.at("data")).unwrap().count();
                assert_eq!(left, 2, "nothing is left beside it");
            }
        }
    }

    #[test]
    fn other_files_are_not_overwritten() {
        let places = Places::new("carry-full");
        fs::create_dir_all(places.at("one/tree")).unwrap();
        fs::write(places.at("one/tree/CURRENT"), "other").unwrap();
        fs::write(places.at("one/dump"), "other").unwrap();
        for (name, other, reason) in
            [("tree", "one/tree/CURRENT", "is not empty"), ("dump", "one/dump", "is there already")]
        {
            for step in ["with files of one's own", "without"] {
                let target = places.at("one").join(name);
                let error = places.to(name, Some(&target)).unwrap_err();
                assert!(error.contains(reason), "{step}: {error}");
                assert_eq!(fs::read_to_string(places.at(other)).unwrap(), "other");
                remove_all(&places.at("data").join(name)).unwrap();
            }
        }
    }

    #[test]
    fn a_link_of_the_operators_own_is_left_alone() {
        let places = Places::new("carry-own");
        let (link, elsewhere) = (places.at("data/dump"), places.at("elsewhere"));
        fs::rename(&link, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &link).unwrap();
        places.to("dump", None).unwrap();
        assert!(link.is_symlink());
        let error = places.to("dump", Some(&places.at("one/dump"))).unwrap_err();
        assert!(error.contains("on no device"), "{error}");
        assert_eq!(places.content("dump"), "x");
    }

    #[test]
    fn a_file_is_made_by_the_first_save_and_a_device_that_is_not_there_is_noticed() {
        let places = Places::new("carry-first");
        let (dir, place, target) =
            (places.at("data"), places.at("data/dump"), places.at("one/dump"));
        let lead = || {
            announce(&dir, &place, &target).unwrap();
            take_place(&dir, &place).unwrap();
        };
        remove_all(&place).unwrap();
        places.to("dump", Some(&target)).unwrap();
        assert!(!exists(&place) && places.at("one").is_dir());
        lead();
        places.to("dump", Some(&target)).unwrap();
        places.to("dump", Some(&places.at("two/dump"))).unwrap();
        assert!(!exists(&place), "nothing was saved that could be carried");
        lead();
        fs::remove_dir(places.at("one")).unwrap();
        let error = places.to("dump", Some(&target)).unwrap_err();
        assert!(error.contains("there is no"), "{error}");
    }

    #[test]
    fn a_directory_on_a_device_that_is_not_there_is_noticed() {
        let places = Places::new("carry-away");
        let (target, mount) = (places.at("one/tree"), places.at("one"));
        places.to("tree", Some(&target)).unwrap();
        fs::rename(&mount, places.at("unmounted")).unwrap();
        for wanted in [Some(target.as_path()), Some(&places.at("two/tree")), None] {
            let error = places.to("tree", wanted).unwrap_err();
            assert!(error.contains("is its device mounted?"), "{error}");
        }
        fs::rename(places.at("unmounted"), &mount).unwrap();
        places.to("tree", None).unwrap();
        assert_eq!(places.content("tree"), "x");
    }

    #[test]
    fn half_a_copy_does_not_stay() {
        let places = Places::new("carry-half");
        // This one cannot be read as a file: the copy ends there.
        let socket = std::os::unix::net::UnixListener::bind(places.at("data/tree/socket")).unwrap();
        let target = places.at("one/tree");
        places.to("tree", Some(&target)).unwrap_err();
        assert_eq!(places.content("tree"), "x");
        assert!(!exists(&target));
        assert_eq!(fs::read_dir(places.at("data")).unwrap().count(), 2, "no link stays");
        drop(socket);
        fs::remove_file(places.at("data/tree/socket")).unwrap();
        places.to("tree", Some(&target)).unwrap();
        assert_eq!(places.content("tree"), "x");
    }

    /// The disk's state after each step of a change, each followed by a start.
    #[test]
    fn an_interrupted_change_is_finished_or_taken_back() {
        for name in ["tree", "dump"] {
            for step in 0..5 {
                let places = Places::new("carry-crash");
                let target = places.at("one").join(name);
                let place = places.at("data").join(name);
                let moved = with_suffix(&place, "moved");
                let steps: [&dyn Fn(); 5] = [
                    &|| link(&target, &moved).unwrap(),
                    &|| copy(&place, &target).unwrap(),
                    &|| fs::rename(&place, with_suffix(&place, "old")).unwrap(),
                    &|| fs::rename(&moved, &place).unwrap(),
                    &|| remove_all(&with_suffix(&place, "old")).unwrap(),
                ];
                steps[..=step].iter().for_each(|step| step());
                places.to(name, Some(&target)).unwrap();
                assert_eq!(places.content(name), "x", "step {step}");
                assert_eq!(fs::read_link(&place).unwrap(), target);
                assert_eq!(fs::read_dir(places.at("data")).unwrap().count(), 2, "step {step}");
            }
            for step in 0..3 {
                let places = Places::new("carry-crash-back");
                let target = places.at("one").join(name);
                let place = places.at("data").join(name);
                let moved = with_suffix(&place, "moved");
                places.to(name, Some(&target)).unwrap();
                let steps: [&dyn Fn(); 3] = [
                    &|| copy(&target, &moved).unwrap(),
                    &|| fs::remove_file(&place).unwrap(),
                    &|| fs::rename(&moved, &place).unwrap(),
                ];
                steps[..=step].iter().for_each(|step| step());
                places.to(name, None).unwrap();
                assert_eq!(places.content(name), "x", "step {step}");
                assert!(!place.is_symlink());
                assert_eq!(fs::read_dir(places.at("data")).unwrap().count(), 2, "step {step}");
            }
        }
    }

    /// Regression: a crash after the change left the old files for ever, and moving back was refused because of
    /// them.
    #[test]
    fn old_files_on_a_device_go_whenever_a_crash_has_left_them() {
        for name in ["tree", "dump"] {
            for back in [false, true] {
                for step in 0..4 {
                    let places = Places::new("carry-crash-leaves");
                    let (one, two) = (places.at("one").join(name), places.at("two").join(name));
                    let place = places.at("data").join(name);
                    let (moved, leaves) =
                        (with_suffix(&place, "moved"), with_suffix(&place, "leaves"));
                    places.to(name, Some(&one)).unwrap();
                    let (dir, next) = (places.at("data"), if back { &moved } else { &two });
                    let steps: [&dyn Fn(); 4] = [
                        &|| {
                            if !back {
                                announce(&dir, &place, &two).unwrap();
                            }
                            copy(&one, next).unwrap();
                        },
                        &|| link(&one, &leaves).unwrap(),
                        &|| {
                            if back {
                                fs::remove_file(&place).unwrap();
                            }
                        },
                        &|| take_place(&dir, &place).unwrap(),
                    ];
                    steps[..=step].iter().for_each(|step| step());
                    let case = format!("{name}, back: {back}, step {step}");
                    recover_move(&dir, &place).unwrap();
                    assert_eq!(places.content(name), "x", "{case}");
                    assert!(!exists(&leaves), "{case}");
                    let is_carried = fs::read_link(&place).ok().as_ref() != Some(&one);
                    assert_eq!(exists(&one), !is_carried, "{case}");
                    for target in [Some(&two), Some(&one), None] {
                        places.to(name, target.map(PathBuf::as_path)).expect(&case);
                        assert_eq!(places.content(name), "x", "{case}");
                    }
                    assert!(!exists(&one) && !exists(&two), "{case}");
                }
            }
        }
    }

    /// Old files that cannot be removed now are removed by a later start.
    #[test]
    fn old_files_that_stay_are_tried_again() {
        let places = Places::new("carry-leaves-stay");
        let (one, two) = (places.at("one/tree"), places.at("two/tree"));
        places.to("tree", Some(&one)).unwrap();
        places.to("tree", Some(&two)).unwrap();
        // As a start finds them whose removal has failed.
        fs::create_dir_all(&one).unwrap();
        fs::write(one.join("CURRENT"), "old").unwrap();
        link(&one, &places.at("data/tree.leaves")).unwrap();
        // Its device is not there.
        fs::rename(places.at("one"), places.at("unmounted")).unwrap();
        places.to("tree", Some(&two)).unwrap();
        assert!(exists(&places.at("data/tree.leaves")));
        fs::rename(places.at("unmounted"), places.at("one")).unwrap();
        places.to("tree", Some(&two)).unwrap();
        assert!(!exists(&one) && !exists(&places.at("data/tree.leaves")));
        assert_eq!(places.content("tree"), "x");
    }

    /// The device of the copy is no longer configured: the copy is removed.
    #[test]
    fn a_copy_that_is_not_wanted_any_more_is_removed() {
        let places = Places::new("carry-change-of-mind");
        let (one, two) = (places.at("one/tree"), places.at("two/tree"));
        link(&one, &places.at("data/tree.moved")).unwrap();
        fs::create_dir_all(&one).unwrap();
        fs::write(one.join("CURRENT"), "half").unwrap();
        places.to("tree", Some(&two)).unwrap();
        assert_eq!(places.content("tree"), "x");
        assert_eq!(fs::read_link(places.at("data/tree")).unwrap(), two);
        assert!(!exists(&one));
    }
}

//! Named devices: the location of each kind of file (`device`, `aof-device`, `aof-route`, `rdb-device`, `tree-device`,
//! `undo-device`, `memtable-device`).
//!
//! Tables, log, dump and undo runs have fixed names in the data directory. If one is on another device, its name is a
//! symbolic link to a directory or file there. So the data directory always tells where its files are, even if the
//! configuration has changed meanwhile. A start moves them to their configured place (`carry`).

mod carry;
mod info;
mod mapping;
mod pool;

pub(crate) use info::lines;
pub use pool::pool_options;

use crate::log;
use crate::observe::random_id;
use carry::Content;
use sexton_config::Options;
use sexton_config::device::{DeviceKind, DeviceSpec};
use sexton_config::level_device::LEVEL_MAX;
use sexton_config::profile::DeviceProfile;
use sexton_config::size_route::{ROUTES_MAX, SizeRoute};
use sexton_engine::{LEVELS, LevelPlaces, PLACE_PREFIX, POOL_DIR, UNDO_DIR, aside_name};
use sexton_persistence::aof::{self, LogRoute};
use sexton_persistence::device::{
    Clock, Device, DiskStorage, FileReader, PlacedStorage, Storage, StorageError, StorageResult,
    SystemClock,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Name of the tables' directory in the data directory.
const TREE: &str = "tree";

/// Of the names of undo runs.
const UNDO_EXTENSION: &str = "undo";

/// Hexadecimal digits that distinguish the tables of several trees, or the records of several logs, on one device.
const ID_DIGITS: usize = 16;

// The configuration crate knows the maximum number of levels and routes, and may not depend on the crates that implement them.
const _: () = assert!(LEVEL_MAX + 1 == LEVELS);
const _: () = assert!(ROUTES_MAX == aof::ROUTES_MAX);

/// Moves the files to their configured locations, and opens the devices. The working directory
/// is the data directory.
///
/// # Errors
/// One line for the operator: a device or a profile that is not declared, or files that cannot be
/// moved. Nothing is lost then.
pub fn open(options: &Options) -> Result<Arc<PlacedStorage>, String> {
    let profiles = profiles(options)?;
    let tree = options.tree_devices.iter().find(|line| line.levels.is_none());
    let (aof, rdb) = (options.aof_device.as_ref(), options.rdb_device.as_ref());
    let places = [
        ("aof-device", aof, options.appenddirname.as_path(), Content::Directory),
        ("rdb-device", rdb, options.dbfilename.as_path(), Content::File),
        ("tree-device", tree.map(|line| &line.device), Path::new(TREE), Content::Directory),
        ("undo-device", options.undo_device.as_ref(), Path::new(UNDO_DIR), Content::Directory),
    ];
    // Let go before the store is opened, which takes it again.
    let _lock = DiskStorage.lock_dir(&options.dir).map_err(|error| error.to_string())?;
    let is_device = |dir: &Path| is_device(options, dir);
    let mut held: Vec<(&str, PathBuf)> = Vec::new();
    for device in level_devices(options) {
        declared(options, "tree-device", device)?;
        held.push((device, Path::new(".").join(TREE).join(place_name(device))));
    }
    for device in route_devices(options) {
        declared(options, "aof-route", device)?;
        let dir = Path::new(".").join(&options.appenddirname);
        held.push((device, dir.join(place_name(device))));
    }
    for (directive, device, name, content) in places {
        let target = match device {
            None => None,
            Some(device) => {
                let spec = declared(options, directive, device)?;
                held.push((device, Path::new(".").join(name)));
                Some(dir_of(options, spec).join(name))
            }
        };
        if name == Path::new(UNDO_DIR) {
            // Its readers ended with the process: nothing is carried, and nothing may stay behind (N17).
            forget_undo(&options.dir.join(name), target.as_deref())
                .map_err(|error| format!("{directive}: {error}"))?;
        }
        // While the server runs without a log, files that belong to a log are kept under another name (N3).
        let aside = aside_name(name);
        if content == Content::Directory {
            carry::recover_move(&options.dir, &options.dir.join(&aside))
                .map_err(|error| format!("{directive}: {error}"))?;
        }
        // A link that leads nowhere counts: what waits on a device that is away must not be forgotten.
        let is_aside = content == Content::Directory && carry::exists(&options.dir.join(&aside));
        let name = if is_aside { &aside } else { name };
        carry::to(&options.dir, name, content, target.as_deref(), is_device)
            .map_err(|error| format!("{directive}: {error}"))?;
    }
    if let Some(device) = pool::place(options)? {
        held.push((device, Path::new(".").join(POOL_DIR)));
    }
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let mut devices = Vec::new();
    for spec in &options.devices {
        let mut device = Device::new(&spec.name, Some(spec.kind), dir_of(options, spec));
        for (_, path) in held.iter().filter(|(name, _)| *name == spec.name) {
            device = device.holding(path.clone());
        }
        if let Some(name) = &spec.emulate {
            let profile = profiles.iter().find(|profile| profile.name == *name);
            let profile = profile
                .ok_or_else(|| format!("device {}: no profile is named '{name}'", spec.name))?;
            device = device.emulating(profile.clone(), Arc::clone(&clock));
            log::warning(&format!("Device {} is emulated: {name}", spec.name));
        }
        if mapping::is_wanted(options, spec) {
            device = mapping::try_on(device);
        }
        devices.push(device);
    }
    let default = Device::new("dir", None, options.dir.clone());
    Ok(Arc::new(PlacedStorage::new(DiskStorage::shared(), default, devices)))
}

/// The devices of levels of the tree.
fn level_devices(options: &Options) -> Vec<&str> {
    let lines = options.tree_devices.iter().filter(|line| line.levels.is_some());
    let mut devices: Vec<_> = lines.map(|line| line.device.as_str()).collect();
    devices.sort_unstable();
    devices.dedup();
    devices
}

/// The devices of long records of the log.
fn route_devices(options: &Options) -> Vec<&str> {
    options.aof_routes.iter().map(|route| route.device.as_str()).collect()
}

fn place_name(device: &str) -> String {
    format!("{PLACE_PREFIX}{device}")
}

/// Name of the device of a level of the tree; `dir` is that of the data directory.
pub(crate) fn of_level(options: &Options, level: usize) -> &str {
    let lines = &options.tree_devices;
    let named = lines.iter().find(|line| line.levels.as_ref().is_some_and(|l| l.contains(&level)));
    let rest = || lines.iter().find(|line| line.levels.is_none());
    named.or_else(rest).map_or("dir", |line| &line.device)
}

/// Name of the device of level 0, the target of flushes, if it is a disk.
#[must_use]
pub fn disk_of_level_0(options: &Options) -> Option<&str> {
    let name = of_level(options, 0);
    let is_disk = |spec: &&DeviceSpec| spec.name == name && spec.kind == DeviceKind::Hdd;
    options.devices.iter().find(is_disk).map(|spec| spec.name.as_str())
}

/// Whether a directory is on the disk of level 0. False if level 0 is not on a disk, or if either location is unknown.
pub(crate) fn is_on_disk_of_level_0(options: &Options, dir: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let disk =
        disk_of_level_0(options).and_then(|name| declared(options, "tree-device", name).ok());
    let file_system = |path: &Path| std::fs::metadata(path).ok().map(|found| found.dev());
    disk.and_then(|spec| file_system(&dir_of(options, spec)))
        .is_some_and(|number| file_system(dir) == Some(number))
}

/// The engine's side of `tree-device`: in which places it makes the tables of which level.
#[must_use]
pub fn level_places(options: &Options) -> LevelPlaces {
    let lines = options.tree_devices.iter();
    lines.fold(LevelPlaces::default(), |places, line| match &line.levels {
        Some(levels) => places.with(levels.clone(), &line.device),
        None => places,
    })
}

/// The log's side of `aof-route`.
#[must_use]
pub fn log_routes(options: &Options) -> Vec<LogRoute> {
    let route =
        |route: &SizeRoute| LogRoute { least_bytes: route.least_bytes, name: route.device.clone() };
    options.aof_routes.iter().map(route).collect()
}

/// Ensures that the places of the tree and the log to be opened are on their devices, each in a directory of its
/// own, so that a tree or log that is set aside keeps its places. To be called once the data directory is
/// settled, before the store is opened, which moves the tables themselves.
///
/// # Errors
/// As for [`open`].
pub fn place_entries(options: &Options) -> Result<(), String> {
    let _lock = DiskStorage.lock_dir(&options.dir).map_err(|error| error.to_string())?;
    let tree = options.dir.join(TREE);
    let entries = Entries { options, dir: &tree, directive: "tree-device", stem: "tables" };
    entries.place(&level_devices(options))?;
    let log = options.dir.join(&options.appenddirname);
    let entries = Entries { options, dir: &log, directive: "aof-route", stem: "records" };
    entries.place(&route_devices(options))
}

/// The places in one directory.
struct Entries<'o> {
    options: &'o Options,
    dir: &'o Path,
    directive: &'o str,
    /// Prefix of the names of their directories on the devices.
    stem: &'o str,
}

impl Entries<'_> {
    fn place(&self, wanted: &[&str]) -> Result<(), String> {
        let text = |error: StorageError| error.to_string();
        let Self { options, dir, directive, stem } = *self;
        if wanted.is_empty() && !dir.exists() {
            return Ok(());
        }
        DiskStorage.create_dir_all(dir).map_err(text)?;
        for name in DiskStorage.list(dir).map_err(text)? {
            let Some(place) = name.strip_prefix(PLACE_PREFIX) else { continue };
            let place = place.trim_end_matches(".moved").trim_end_matches(".old");
            carry::recover_move(dir, &dir.join(place_name(place))).map_err(text)?;
        }
        for device in wanted {
            let spec = declared(options, directive, device)?;
            let (home, name) = (dir_of(options, spec), place_name(device));
            let found = std::fs::read_link(dir.join(&name)).ok();
            let target = found.filter(|link| link.parent() == Some(&home)).unwrap_or_else(|| {
                // Two trees may have a place on one device.
                home.join(format!("{stem}-{}", &random_id()[..ID_DIGITS]))
            });
            let is_device = |dir: &Path| is_device(options, dir);
            carry::to(dir, Path::new(&name), Content::Directory, Some(&target), is_device)
                .map_err(|error| format!("{directive}: {error}"))?;
        }
        for name in DiskStorage.list(dir).map_err(text)? {
            let place = name.strip_prefix(PLACE_PREFIX);
            if place.is_some_and(|place| !wanted.contains(&place)) {
                let link = dir.join(name);
                if !link.exists() {
                    return Err(format!(
                        "{} leads nowhere: is its device mounted? If it is gone for good, and had no files, \
                         remove this link",
                        link.display()
                    ));
                }
                // The store has moved its tables at the last start, or will at this one; remaining records of
                // the log are removed with their segments.
                let _ = DiskStorage.remove_dir(&link);
            }
        }
        Ok(())
    }
}

fn is_device(options: &Options, dir: &Path) -> bool {
    options.devices.iter().any(|spec| dir_of(options, spec) == dir)
}

fn declared<'o>(
    options: &'o Options,
    directive: &str,
    device: &str,
) -> Result<&'o DeviceSpec, String> {
    let declared = options.devices.iter().find(|spec| spec.name == device);
    declared.ok_or_else(|| format!("{directive}: no device is named '{device}'"))
}

/// Removes the undo runs at `place`, which may be a link, and at `target`. A dangling link is removed, too:
/// the device that held them is absent.
fn forget_undo(place: &Path, target: Option<&Path>) -> Result<(), String> {
    for dir in std::iter::once(place).chain(target) {
        let failed = |error: std::io::Error| format!("{}: {error}", dir.display());
        let entries = match std::fs::read_dir(dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(failed(error)),
        };
        for entry in entries {
            let path = entry.map_err(failed)?.path();
            if path.extension().is_some_and(|extension| extension == UNDO_EXTENSION) {
                std::fs::remove_file(path).map_err(failed)?;
            }
        }
    }
    forget_link(place)
}

/// Removes a link that leads nowhere.
fn forget_link(place: &Path) -> Result<(), String> {
    if place.is_symlink() && !place.exists() {
        std::fs::remove_file(place).map_err(|error| format!("{}: {error}", place.display()))?;
    }
    Ok(())
}

/// Directory of the dump: that of its device, or the data directory.
pub(crate) fn dump_dir(options: &Options) -> PathBuf {
    let spec =
        options.rdb_device.as_deref().and_then(|name| declared(options, "rdb-device", name).ok());
    spec.map_or_else(|| options.dir.clone(), |spec| dir_of(options, spec))
}

/// Gives a complete and durable dump its name: on its device, and as a link in the data directory. A crash in between leaves
/// the previous dump, or none.
///
/// # Errors
/// A directory cannot be written.
pub(crate) fn put_dump(
    storage: &dyn Storage,
    options: &Options,
    temporary: &Path,
) -> StorageResult<()> {
    let (dir, name) = (dump_dir(options), &options.dbfilename);
    let (place, target) = (options.dir.join(name), dir.join(name));
    let is_led = place == target || std::fs::read_link(&place).is_ok_and(|link| link == target);
    if !is_led {
        carry::announce(&options.dir, &place, &target)?;
    }
    storage.rename(temporary, &target)?;
    storage.sync_dir(&dir)?;
    if is_led { Ok(()) } else { carry::take_place(&options.dir, &place) }
}

/// A file for reading, counted by the device that a link leads to.
///
/// # Errors
/// It does not exist, or cannot be read.
pub(crate) fn open_to_read(storage: &dyn Storage, path: &Path) -> StorageResult<FileReader> {
    let target = std::fs::read_link(path).ok().filter(|link| link.is_absolute());
    FileReader::new(storage.open_to_read(target.as_deref().unwrap_or(path))?)
}

fn dir_of(options: &Options, spec: &DeviceSpec) -> PathBuf {
    use std::os::unix::ffi::OsStrExt as _;
    options.dir.join(std::ffi::OsStr::from_bytes(&spec.path))
}

/// The built-in profiles, and the operator's, which take precedence if names are equal.
fn profiles(options: &Options) -> Result<Vec<DeviceProfile>, String> {
    let mut profiles = Vec::new();
    if let Some(path) = &options.device_profiles {
        let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let text = std::fs::read_to_string(path).map_err(|error| failed(&error))?;
        profiles = DeviceProfile::read_all(&text).map_err(|error| failed(&error))?;
    }
    profiles.extend(DeviceProfile::built_in());
    Ok(profiles)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sexton_persistence::device::TempDir;
    use std::fs;

    #[test]
    fn undo_runs_stay_nowhere() {
        let base = TempDir::new("undo-places");
        let (place, old, new) = (base.join("undo"), base.join("old"), base.join("new"));
        for dir in [&old, &new] {
            fs::create_dir_all(dir).unwrap();
            fs::write(dir.join("000000000007.undo"), "stale").unwrap();
            fs::write(dir.join("other"), "of somebody").unwrap();
        }
        std::os::unix::fs::symlink(&old, &place).unwrap();
        forget_undo(&place, Some(&new)).unwrap();
        for dir in [&old, &new] {
            assert!(!dir.join("000000000007.undo").exists());
            assert!(dir.join("other").exists(), "what is not ours stays");
        }
        assert!(place.is_symlink());
        fs::remove_dir_all(&old).unwrap();
        forget_undo(&place, None).unwrap();
        assert!(!place.is_symlink(), "a link to a device that is away");
        forget_undo(&place, Some(&base.join("not yet"))).unwrap();
    }

    #[test]
    fn a_dump_shares_the_disk_of_the_tables_by_its_file_system() {
        let base = TempDir::new("shares-disk");
        let (disk, other) = (base.join("disk"), base.join("other"));
        fs::create_dir_all(&disk).unwrap();
        fs::create_dir_all(&other).unwrap();
        let shares = |tree: &str, dir: &Path| {
            let text = format!("device disk kind hdd path {}\n{tree}", disk.display());
            let config = sexton_config::Config::from_text(text.as_bytes()).unwrap();
            is_on_disk_of_level_0(config.options(), dir)
        };
        assert!(shares("tree-device disk\n", &disk) && shares("tree-device disk\n", &other));
        assert!(shares("tree-device 0 disk\n", &other));
        assert!(!shares("tree-device disk\n", Path::new("/proc")), "another file system");
        assert!(!shares("tree-device disk\n", &base.join("none")));
        assert!(!shares("tree-device 3 disk\n", &disk), "flushes go elsewhere");
        assert!(!shares("", &disk));
    }
}

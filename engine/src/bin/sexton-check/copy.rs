//! A copy of a backup: of its tree, and of its log if it has one.

use std::fs;
use std::io;
use std::path::Path;

/// Folders in a data directory. A store has one below another; more are not its own.
const DEPTH_MAX: usize = 4;

/// Copies the store in `from` to `to`, which must not exist or be empty.
pub(crate) fn copy_store(from: &Path, to: &Path) -> Result<(), String> {
    if !from.join("tree").is_dir() {
        return Err(format!("{} holds no store: there is no tree in it", from.display()));
    }
    let is_empty = |dir: &Path| fs::read_dir(dir).is_ok_and(|mut all| all.next().is_none());
    if to.exists() && !is_empty(to) {
        return Err(format!("{} is there already and is not empty", to.display()));
    }
    copy(from, to, DEPTH_MAX)
        .map_err(|error| format!("cannot copy {} to {}: {error}", from.display(), to.display()))
}

fn copy(from: &Path, to: &Path, depth: usize) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (kind, target) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_dir() && depth > 0 {
            copy(&entry.path(), &target, depth - 1)?;
        } else if kind.is_file() {
            fs::copy(entry.path(), &target)?;
            fs::File::open(&target)?.sync_all()?;
        }
    }
    fs::File::open(to)?.sync_all()
}

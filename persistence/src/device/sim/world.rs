//! The state of the simulated file system.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use super::crash::{CrashOptions, SECTOR_BYTES};
use super::random::SimRandom;
use super::stores::{Copied, store};
use crate::device::{StorageError, StorageResult};

/// What shall fail. Counting starts when the faults are set; 1 is the next operation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SimFaults {
    /// The n-th write fails with EIO.
    pub fail_write: Option<u64>,
    /// This many bytes of a failing write still arrive (a short write).
    pub short_write_bytes: usize,
    /// The n-th sync of a file fails with EIO. As on Linux, the data it should have made durable
    /// is dropped: a later sync succeeds and saves nothing of it, although reads still show it.
    pub fail_sync: Option<u64>,
    /// The n-th sync of a directory fails with EIO.
    pub fail_sync_dir: Option<u64>,
    /// After this many more operations that change something, the power is off: all further ones
    /// fail with EIO and change nothing, so that a crash can be put between any two steps.
    pub power_off_after: Option<u64>,
    /// The power goes while something is done to a certain kind of file.
    pub power_off_on: Option<PowerPoint>,
    /// Files may grow by this many bytes in all; then ENOSPC.
    pub space_left_bytes: Option<u64>,
}

/// An instant at which the power goes: during the n-th change to files of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PowerPoint {
    /// What the paths of these files contain.
    pub path_part: &'static str,
    /// Changes to them that are still made whole. The next one fails as all later ones do, but if it
    /// is a write, it was under way: a crash may find it whole, in part, or not at all.
    pub after: u64,
}

/// Counts of operations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SimCounters {
    /// Writes, failed ones included.
    pub writes: u64,
    /// Bytes that arrived.
    pub written_bytes: u64,
    /// Bytes read through files.
    pub read_bytes: u64,
    /// Syncs of files, failed ones included.
    pub syncs: u64,
    /// Fences and `msync` of mapped files, failed ones included.
    pub fences: u64,
    /// Times that a write-back was begun.
    pub writebacks: u64,
    /// Syncs of directories, failed ones included.
    pub dir_syncs: u64,
    /// Files created or truncated by `create`.
    pub creates: u64,
    /// Renames.
    pub renames: u64,
    /// Removals.
    pub removes: u64,
}

#[derive(Debug, Clone)]
pub(super) enum FileOperation {
    Write {
        offset: usize,
        data: Vec<u8>,
    },
    SetLen(usize),
    /// Stored to a mapping.
    Copy(Copied),
}

#[derive(Debug, Clone, Default)]
pub(super) struct Inode {
    /// What programs see.
    pub(super) content: Vec<u8>,
    /// What the medium holds for certain.
    pub(super) durable: Vec<u8>,
    /// What happened since the last sync.
    pub(super) pending: Vec<FileOperation>,
}

/// A change of names that a crash keeps or loses as a whole.
#[derive(Debug, Clone)]
pub(super) struct NameOperation {
    unlink: Vec<PathBuf>,
    link: Vec<(PathBuf, u64)>,
    /// The directories whose sync makes it durable.
    in_dirs: Vec<PathBuf>,
    /// A directory that got another name.
    moved_dir: Option<(PathBuf, PathBuf)>,
}

impl NameOperation {
    /// At most one name goes, and at most one comes.
    pub(super) fn of(unlink: Option<&Path>, link: Option<(&Path, u64)>) -> Self {
        let paths = unlink.iter().copied().chain(link.map(|(path, _)| path));
        Self {
            in_dirs: paths.filter_map(Path::parent).map(Path::to_path_buf).collect(),
            unlink: unlink.map(Path::to_path_buf).into_iter().collect(),
            link: link.map(|(path, inode)| (path.to_path_buf(), inode)).into_iter().collect(),
            moved_dir: None,
        }
    }

    fn apply(&self, names: &mut BTreeMap<PathBuf, u64>) {
        for path in &self.unlink {
            names.remove(path);
        }
        names.extend(self.link.iter().cloned());
    }

    fn touches(&self, dir: &Path) -> bool {
        self.in_dirs.iter().any(|own| own == dir)
    }
}

#[derive(Debug, Default)]
pub(super) struct World {
    pub(super) inodes: BTreeMap<u64, Inode>,
    next_inode: u64,
    pub(super) names: BTreeMap<PathBuf, u64>,
    durable_names: BTreeMap<PathBuf, u64>,
    pending_names: Vec<NameOperation>,
    pub(super) dirs: BTreeSet<PathBuf>,
    pub(super) locked_dirs: BTreeSet<PathBuf>,
    pub(super) faults: SimFaults,
    /// The power goes with the operation that is being counted.
    pub(super) goes_off: bool,
    pub(super) counters: SimCounters,
}

impl World {
    pub(super) fn find(&self, operation: &'static str, path: &Path) -> StorageResult<u64> {
        self.names.get(path).copied().ok_or_else(|| {
            StorageError::new(operation, path, io::Error::from(io::ErrorKind::NotFound))
        })
    }

    /// Counts an operation that changes something.
    pub(super) fn powered(&mut self, path: &Path) -> io::Result<()> {
        self.goes_off = false;
        if let Some(point) = &mut self.faults.power_off_on
            && path.to_string_lossy().contains(point.path_part)
        {
            if point.after == 0 {
                self.faults.power_off_on = None;
                self.faults.power_off_after = Some(0);
                self.goes_off = true;
            } else {
                point.after -= 1;
            }
        }
        match &mut self.faults.power_off_after {
            None => Ok(()),
            Some(0) => Err(input_output_error()),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
        }
    }

    /// [`powered`](Self::powered) for an operation on a name.
    pub(super) fn powered_for(
        &mut self,
        operation: &'static str,
        path: &Path,
    ) -> StorageResult<()> {
        self.powered(path).map_err(|error| StorageError::new(operation, path, error))
    }

    pub(super) fn check_parent(&self, operation: &'static str, path: &Path) -> StorageResult<()> {
        match path.parent() {
            Some(dir) if self.dirs.contains(dir) => Ok(()),
            _ => {
                let error = io::Error::from(io::ErrorKind::NotFound);
                Err(StorageError::new(operation, path, error))
            }
        }
    }

    pub(super) fn create(&mut self, path: &Path) -> StorageResult<u64> {
        self.check_parent("create", path)?;
        if let Some(inode) = self.names.get(path).copied() {
            self.set_len((inode, path), 0)
                .map_err(|error| StorageError::new("create", path, error))?;
            return Ok(inode);
        }
        self.next_inode += 1;
        self.inodes.insert(self.next_inode, Inode::default());
        self.change_names(NameOperation::of(None, Some((path, self.next_inode))));
        Ok(self.next_inode)
    }

    /// Renames a directory with all below it. A crash keeps or loses the new names together; the
    /// directories themselves, empty then, are there at once, as all directories are.
    pub(super) fn rename_dir(&mut self, from: &Path, to: &Path) {
        let moved = |path: &Path| below_other(path, from, to);
        let names = self
            .names
            .iter()
            .filter_map(|(path, inode)| moved(path).map(|new| (path.clone(), (new, *inode))));
        let (unlink, link) = names.unzip();
        let in_dirs = [from, to].into_iter().filter_map(Path::parent).map(Path::to_path_buf);
        let moved_dir = Some((from.to_path_buf(), to.to_path_buf()));
        let operation = NameOperation { unlink, link, in_dirs: in_dirs.collect(), moved_dir };
        rename_dirs(&mut self.dirs, from, to);
        self.change_names(operation);
    }

    pub(super) fn list(&self, dir: &Path) -> StorageResult<Vec<String>> {
        if !self.dirs.contains(dir) {
            let error = io::Error::from(io::ErrorKind::NotFound);
            return Err(StorageError::new("readdir", dir, error));
        }
        let children =
            self.names.keys().chain(&self.dirs).filter(|path| path.parent() == Some(dir));
        let names = children.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()));
        Ok(names.collect::<BTreeSet<_>>().into_iter().collect())
    }

    pub(super) fn change_names(&mut self, operation: NameOperation) {
        operation.apply(&mut self.names);
        self.pending_names.push(operation);
    }

    pub(super) fn sync_dir(&mut self, dir: &Path) -> StorageResult<()> {
        self.counters.dir_syncs += 1;
        self.powered_for("fsync directory", dir)?;
        if count_down(&mut self.faults.fail_sync_dir) {
            return Err(StorageError::new("fsync directory", dir, input_output_error()));
        }
        if !self.dirs.contains(dir) {
            let error = io::Error::from(io::ErrorKind::NotFound);
            return Err(StorageError::new("fsync directory", dir, error));
        }
        let durable = &mut self.durable_names;
        self.pending_names.retain(|operation| {
            let synced = operation.touches(dir);
            if synced {
                operation.apply(durable);
            }
            !synced
        });
        Ok(())
    }

    /// The content of an inode; empty when it is unknown, which cannot happen by way of handles.
    pub(super) fn content(&self, inode: u64) -> &[u8] {
        self.inodes.get(&inode).map_or(&[], |inode| &inode.content)
    }

    pub(super) fn write(
        &mut self,
        (inode, path): (u64, &Path),
        buf: &[u8],
        offset: usize,
    ) -> io::Result<()> {
        self.counters.writes += 1;
        if let Err(error) = self.powered(path) {
            if std::mem::take(&mut self.goes_off) {
                self.put(inode, buf, offset);
            }
            return Err(error);
        }
        let (mut accepted, mut error) = (buf.len(), None);
        if count_down(&mut self.faults.fail_write) {
            accepted = accepted.min(self.faults.short_write_bytes);
            error = Some(input_output_error());
        }
        let file = self.inodes.entry(inode).or_default();
        if let Some(left) = &mut self.faults.space_left_bytes {
            let room = file.content.len() as u64 + *left;
            if (offset + accepted) as u64 > room {
                accepted = (room as usize).saturating_sub(offset);
                error = Some(io::Error::from_raw_os_error(libc::ENOSPC));
            }
            *left -= (offset + accepted).saturating_sub(file.content.len()) as u64;
        }
        if accepted > 0 {
            self.put(inode, &buf[..accepted], offset);
        }
        error.map_or(Ok(()), Err)
    }

    fn put(&mut self, inode: u64, data: &[u8], offset: usize) {
        self.counters.written_bytes += data.len() as u64;
        let write = FileOperation::Write { offset, data: data.to_vec() };
        let file = self.inodes.entry(inode).or_default();
        apply(&mut file.content, &write, None);
        file.pending.push(write);
    }

    pub(super) fn set_len(&mut self, (inode, path): (u64, &Path), len: usize) -> io::Result<()> {
        self.powered(path)?;
        let file = self.inodes.entry(inode).or_default();
        let operation = FileOperation::SetLen(len);
        apply(&mut file.content, &operation, None);
        file.pending.push(operation);
        Ok(())
    }

    pub(super) fn sync(&mut self, (inode, path): (u64, &Path)) -> io::Result<()> {
        self.counters.syncs += 1;
        self.powered(path)?;
        let fails = count_down(&mut self.faults.fail_sync);
        let file = self.inodes.entry(inode).or_default();
        let pending = std::mem::take(&mut file.pending);
        if fails {
            return Err(input_output_error());
        }
        for operation in &pending {
            apply(&mut file.durable, operation, None);
        }
        Ok(())
    }

    pub(super) fn flip_bit(&mut self, inode: u64, bit: u64) -> io::Result<()> {
        let file = self.inodes.entry(inode).or_default();
        let (at, mask) = ((bit / 8) as usize, 1_u8 << (bit % 8));
        let byte = file.content.get_mut(at).ok_or(io::ErrorKind::UnexpectedEof)?;
        *byte ^= mask;
        if let Some(byte) = file.durable.get_mut(at) {
            *byte ^= mask;
        }
        Ok(())
    }

    pub(super) fn crash(&self, random: &mut SimRandom, options: CrashOptions) -> Self {
        let mut inodes = BTreeMap::new();
        for (number, inode) in &self.inodes {
            let mut content = inode.durable.clone();
            for operation in &inode.pending {
                if let FileOperation::Copy(copied) = operation {
                    copied.crash(&mut content, random, options);
                } else if random.percent(options.keep_percent) {
                    let torn = random.percent(options.tear_percent);
                    apply(&mut content, operation, torn.then_some(&mut *random));
                }
            }
            let durable = content.clone();
            inodes.insert(*number, Inode { content, durable, pending: Vec::new() });
        }
        let mut names = self.durable_names.clone();
        let mut lost = Vec::new();
        for operation in &self.pending_names {
            if random.percent(options.keep_percent) {
                operation.apply(&mut names);
            } else {
                lost.push(operation);
            }
        }
        let mut dirs = self.dirs.clone();
        for (from, to) in lost.iter().rev().filter_map(|operation| operation.moved_dir.as_ref()) {
            rename_dirs(&mut dirs, to, from);
        }
        dirs.extend(names.keys().flat_map(|path| path.ancestors().skip(1)).map(Path::to_path_buf));
        inodes.retain(|number, _| names.values().any(|inode| inode == number));
        Self {
            inodes,
            next_inode: self.next_inode,
            durable_names: names.clone(),
            names,
            dirs,
            ..Self::default()
        }
    }
}

/// Where a path below `from` is after the directory has become `to`; `None` for a path elsewhere.
fn below_other(path: &Path, from: &Path, to: &Path) -> Option<PathBuf> {
    path.strip_prefix(from).ok().map(|below| to.join(below))
}

fn rename_dirs(dirs: &mut BTreeSet<PathBuf>, from: &Path, to: &Path) {
    let moved: Vec<PathBuf> = dirs.iter().filter_map(|dir| below_other(dir, from, to)).collect();
    dirs.retain(|dir| !dir.starts_with(from));
    dirs.extend(moved);
}

/// Applies an operation; with `torn`, each sector of a write arrives or not.
pub(super) fn apply(
    content: &mut Vec<u8>,
    operation: &FileOperation,
    torn: Option<&mut SimRandom>,
) {
    match operation {
        FileOperation::SetLen(len) => content.resize(*len, 0),
        FileOperation::Copy(copied) => store(content, copied.offset as usize, &copied.data),
        FileOperation::Write { offset, data } => {
            let Some(random) = torn else {
                store(content, *offset, data);
                return;
            };
            let mut at = 0;
            while at < data.len() {
                let to_boundary = SECTOR_BYTES - (offset + at) % SECTOR_BYTES;
                let end = data.len().min(at + to_boundary);
                if random.percent(50) {
                    store(content, offset + at, &data[at..end]);
                }
                at = end;
            }
        }
    }
}

/// True for the operation a fault was set for.
pub(super) fn count_down(fault: &mut Option<u64>) -> bool {
    let Some(left) = fault else { return false };
    *left = left.saturating_sub(1);
    if *left == 0 {
        *fault = None;
        return true;
    }
    false
}

pub(super) fn input_output_error() -> io::Error {
    io::Error::from_raw_os_error(libc::EIO)
}

//! Checkpoints: a second store made of links to existing files, or of copies where it is on another file system.

use super::engine::{Engine, EngineError};
use crate::key::Seq;
use sexton_persistence::device::{Storage, StorageResult, link_or_copy};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// Suffix of a checkpoint's directory until it is complete.
const PARTIAL_SUFFIX: &str = ".partial";

/// File of the data directory that names the checkpoint that is being made.
const UNDER_WAY: &str = "CHECKPOINT";
/// Longest path that it may hold.
const PATH_BYTES_MAX: u64 = 4096;

/// What a checkpoint is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckpointReport {
    /// The last write in it.
    pub seq: Seq,
    /// Files that got a second name.
    pub linked_files: u64,
    /// Files that had to be copied, because the directory is on another file system.
    pub copied_files: u64,
    /// Length of all of them in bytes.
    pub bytes: u64,
}

/// Says durably which directory will be there until the checkpoint is complete.
fn note_under_way(storage: &dyn Storage, dir: &Path, partial: &Path) -> StorageResult<()> {
    let note = storage.create(&dir.join(UNDER_WAY))?;
    note.write_all_at(partial.as_os_str().as_bytes(), 0)?;
    note.sync_data()?;
    storage.sync_dir(dir)
}

/// Removes what a crash has left of a checkpoint. Where that fails the next start tries again.
pub(super) fn clear_partial(storage: &dyn Storage, dir: &Path) -> StorageResult<()> {
    let path = dir.join(UNDER_WAY);
    if !storage.exists(&path)? {
        return Ok(());
    }
    let note = storage.open(&path)?;
    let mut name = vec![0; note.len()?.min(PATH_BYTES_MAX) as usize];
    note.read_exact_at(&mut name, 0)?;
    let partial = Path::new(OsStr::from_bytes(&name));
    let is_ours = name.ends_with(PARTIAL_SUFFIX.as_bytes());
    if !is_ours || !storage.exists(partial)? || remove_partial(storage, partial).is_ok() {
        storage.remove(&path)?;
    }
    Ok(())
}

/// What [`Engine::checkpoint`] makes in a directory, and the directory; nothing else that may be in it.
fn remove_partial(storage: &dyn Storage, partial: &Path) -> StorageResult<()> {
    let tree = partial.join("tree");
    if storage.exists(&tree)? {
        for name in storage.list(&tree)? {
            storage.remove(&tree.join(name))?;
        }
        storage.remove_dir(&tree)?;
    }
    storage.remove_dir(partial)
}

impl Engine {
    /// Makes `dir`, which must not exist, a store of its own: the state as of a flush that this starts with.
    /// It takes no part in this one's log; whoever opens it starts a new one. The store goes on
    /// meanwhile.
    ///
    /// The directory has its name only once it is complete and durable (until then that name and
    /// `.partial`), so what a crash leaves behind cannot be opened by mistake; the next start removes it.
    ///
    /// # Errors
    /// `dir` exists, a flush that fails, or a failing medium.
    pub fn checkpoint(&self, dir: &Path) -> Result<CheckpointReport, EngineError> {
        let inner = self.inner();
        let _one_at_a_time = inner.views.checkpoints.lock();
        let storage = &*inner.options.storage;
        if storage.exists(dir)? {
            return Err(EngineError::Refused(format!("{} exists already", dir.display())));
        }
        let (Some(parent), Some(name)) = (dir.parent(), dir.file_name()) else {
            return Err(EngineError::Refused(format!("{} names no directory", dir.display())));
        };
        let mut partial = name.to_owned();
        partial.push(PARTIAL_SUFFIX);
        let partial = dir.with_file_name(partial);
        let tree = partial.join("tree");
        if storage.exists(&partial)? {
            remove_partial(storage, &partial)?;
        }
        note_under_way(storage, &inner.options.dir, &partial)?;
        storage.create_dir_all(&tree)?;
        let result = self.fill_checkpoint(&tree).and_then(|report| {
            storage.sync_dir(&tree)?;
            storage.sync_dir(&partial)?;
            storage.rename(&partial, dir)?;
            storage.sync_dir(parent)?;
            Ok(report)
        });
        let is_gone = match result {
            Ok(_) => true,
            Err(_) => remove_partial(storage, &partial).is_ok(),
        };
        if is_gone {
            // Naming what is not there does no harm: the next start finds that out.
            let _ = storage.remove(&inner.options.dir.join(UNDER_WAY));
        }
        result
    }

    /// Removes a directory that [`Engine::checkpoint`] has made and nobody has opened.
    ///
    /// # Errors
    /// The directory contains something else, or a failing medium.
    pub fn remove_checkpoint(&self, dir: &Path) -> Result<(), EngineError> {
        Ok(remove_partial(&*self.inner().options.storage, dir)?)
    }

    fn fill_checkpoint(&self, tree: &Path) -> Result<CheckpointReport, EngineError> {
        let inner = self.inner();
        let storage = &inner.options.storage;
        let mut report = CheckpointReport::default();
        let mut add = |from: &Path, name: &str| -> Result<(), EngineError> {
            let to = tree.join(name);
            let linked = link_or_copy(&**storage, from, &to)?;
            *if linked { &mut report.linked_files } else { &mut report.copied_files } += 1;
            let file = storage.open(&to)?;
            report.bytes += file.len()?;
            // A store that is wiped at its start (N3) does not sync its tables; a copy of it must.
            file.sync_data()?;
            Ok(())
        };
        let export = {
            let mut permit = inner.flusher.flush_permit.lock();
            self.flush_all(&mut permit)?;
            let export = inner.versions.export();
            // The next flush removes this cemetery checkpoint: it is kept from beginning.
            let graves = export.mark.as_ref().and_then(|mark| mark.checkpoint.as_deref());
            graves.map_or(Ok(()), |name| add(&inner.tree_dir().join(name), name))?;
            export
        };
        // The version that the export holds keeps these.
        for (path, name) in export.files() {
            add(path, &name)?;
        }
        report.seq = export.mark.as_ref().map_or(0, |mark| mark.m);
        export.write_manifest(Arc::clone(storage), tree)?;
        Ok(report)
    }
}

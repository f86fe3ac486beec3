//! BACKUP: the command surface of Redis 8.10 over checkpoints.
//!
//! A backup is a directory with a complete store: `sexton-server` starts on a copy of it. START makes a checkpoint, whose files
//! can be copied elsewhere at once. SEAL replaces it with a checkpoint of that later moment. Both only link existing files:
//! nothing is rewritten, nothing forks. A table that START has named keeps its name and its bytes.

use crate::log;
use crate::observe::now_s;
use crate::server::Server;
use crate::state::backup::BackupState;
use sexton_persistence::device::StorageResult;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// The suffix of a backup's name until its second checkpoint has replaced the first.
const SEALED_SUFFIX: &str = "sealed";

fn no_such_step(what: &str, state: BackupState) -> String {
    format!("BACKUP {what} is not possible: the backup is {}", state.name())
}

/// The directory of backups, from the root.
#[must_use]
pub fn dir(server: &Server) -> PathBuf {
    let options = server.config.options();
    let dir = options.dir.join(server.setting("backupdirname"));
    std::path::absolute(&dir).unwrap_or(dir)
}

fn sealed_dir(dir: &Path) -> PathBuf {
    dir.with_extension(SEALED_SUFFIX)
}

/// Removes both directories of a backup, as far as they are there.
fn clear(server: &Server) -> Result<(), String> {
    let dir = dir(server);
    for one in [sealed_dir(&dir), dir] {
        if server.storage().exists(&one).map_err(|error| error.to_string())? {
            server.engine.remove_checkpoint(&one).map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}

/// Makes the first checkpoint. Blocks on I/O.
///
/// # Errors
/// Another backup is in progress or has to be cleaned up, or the checkpoint fails.
pub fn start(server: &Server) -> Result<(), String> {
    let backup = &server.backup;
    let (storage, dir) = (server.storage(), dir(server));
    let may = |state| matches!(state, BackupState::Idle | BackupState::Failed);
    let had_failed = backup.view().state == BackupState::Failed;
    backup.step(may, BackupState::Snapshotting).map_err(|state| no_such_step("START", state))?;
    let made = (|| {
        if had_failed {
            clear(server)?;
        }
        if storage.exists(&dir).map_err(|error| error.to_string())? {
            let names = storage.list(&dir).map_err(|error| error.to_string())?;
            if !names.is_empty() {
                return Err(format!(
                    "{} is not empty: BACKUP CLEANUP removes a backup",
                    dir.display()
                ));
            }
            storage.remove_dir(&dir).map_err(|error| error.to_string())?;
        }
        let report = server.engine.checkpoint(&dir).map_err(|error| error.to_string())?;
        log::notice(&format!(
            "Backup started in {}: {} files linked, {} copied, {} bytes",
            dir.display(),
            report.linked_files,
            report.copied_files,
            report.bytes
        ));
        Ok(())
    })();
    end_step(server, made, BackupState::Snapshotting, BackupState::Incrementing)
}

/// Replaces the first checkpoint by a current one. Blocks on I/O.
///
/// # Errors
/// No backup is in progress, or the checkpoint fails: then the first one is lost, too.
pub fn seal(server: &Server) -> Result<(), String> {
    let (storage, dir) = (server.storage(), dir(server));
    let may = |state| state == BackupState::Incrementing;
    server.backup.step(may, BackupState::Sealing).map_err(|state| no_such_step("SEAL", state))?;
    let made = (|| {
        let sealed = sealed_dir(&dir);
        server.engine.checkpoint(&sealed).map_err(|error| error.to_string())?;
        server.engine.remove_checkpoint(&dir).map_err(|error| error.to_string())?;
        let rename = || -> StorageResult<()> {
            storage.rename(&sealed, &dir)?;
            dir.parent().map_or(Ok(()), |parent| storage.sync_dir(parent))
        };
        rename().map_err(|error| error.to_string())?;
        log::notice(&format!("Backup sealed in {}", dir.display()));
        Ok(())
    })();
    end_step(server, made, BackupState::Sealing, BackupState::Sealed)
}

/// Ends a step. If the backup was aborted meanwhile, the result says so.
fn end_step(
    server: &Server,
    made: Result<(), String>,
    from: BackupState,
    to: BackupState,
) -> Result<(), String> {
    let ended = made.and_then(|()| {
        let is_there = |state| state == from;
        server.backup.step(is_there, to).map_err(|_| "the backup was called off".to_owned())
    });
    ended.inspect_err(|error| {
        log::warning(&format!("Backup failed: {error}"));
        server.backup.fail(error.clone());
        // What cannot be removed now is in the way of the next START, which says so.
        let _ = clear(server);
    })
}

/// Calls off a backup that is not sealed yet, and removes its files.
///
/// # Errors
/// None is under way.
pub fn abort(server: &Server) -> Result<(), String> {
    let state = server.backup.view().state;
    let is_quiet = state == BackupState::Incrementing;
    server
        .backup
        .step(BackupState::is_at_work, BackupState::Failed)
        .map_err(|state| no_such_step("ABORT", state))?;
    server.backup.fail("the backup was called off".to_owned());
    // The thread that is making a checkpoint removes it.
    if is_quiet { clear(server) } else { Ok(()) }
}

/// Removes the files of a sealed or failed backup, or of a backup from before the last start.
///
/// # Errors
/// A backup is in progress, or its directory contains other files.
pub fn cleanup(server: &Server) -> Result<(), String> {
    let may = |state: BackupState| !state.is_at_work();
    server.backup.step(may, BackupState::Idle).map_err(|state| no_such_step("CLEANUP", state))?;
    clear(server)
}

/// The files that do not change any more, from the root.
///
/// # Errors
/// A failing medium.
pub fn files(server: &Server) -> Result<Vec<PathBuf>, String> {
    if !matches!(server.backup.view().state, BackupState::Incrementing | BackupState::Sealed) {
        return Ok(Vec::new());
    }
    let tree = dir(server).join("tree");
    let mut names = server.storage().list(&tree).map_err(|error| error.to_string())?;
    names.sort_unstable();
    Ok(names.into_iter().map(|name| tree.join(name)).collect())
}

/// Removes an expired sealed backup (`backup-sealed-ttl`). Called periodically.
pub(crate) fn look_at_sealed(server: &Server) {
    let ttl_s = server.backup.sealed_ttl_s.load(Ordering::Relaxed);
    let view = server.backup.view();
    let is_over = ttl_s != 0
        && view.state == BackupState::Sealed
        && now_s().saturating_sub(view.ended_s) >= ttl_s;
    if is_over {
        match cleanup(server) {
            Ok(()) => log::notice("The sealed backup has been removed (backup-sealed-ttl)"),
            Err(error) => log::warning(&format!("Cannot remove the sealed backup: {error}")),
        }
    }
}

//! BACKUP: the command surface of Redis 8.10 over checkpoints.
//!
//! A backup is a directory with a complete store: `sexton-server` starts on a copy of it. START makes a checkpoint, whose files can
//! be copied elsewhere at once; SEAL makes another one in its place, as of then. Both are names for files that are there anyway:
//! nothing is rewritten, nothing forks. A table that START has named keeps its name and its bytes.

use crate::log;
use crate::observe::now_s;
use crate::server::Server;
use parking_lot::Mutex;
use sexton_persistence::device::StorageResult;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// What stands behind the name of a backup until its second checkpoint has taken its place.
const SEALED_SUFFIX: &str = "sealed";

/// How far a backup is, in Redis' words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackupState {
    /// There is none.
    #[default]
    Idle,
    /// Its first checkpoint is being made.
    Snapshotting,
    /// That is there, and writes go on.
    Incrementing,
    /// Its last checkpoint is being made; Redis has no name for it.
    Sealing,
    /// It is complete.
    Sealed,
    /// It failed, or was called off.
    Failed,
}

impl BackupState {
    /// Redis' word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Snapshotting => "snapshotting",
            Self::Incrementing | Self::Sealing => "incrementing",
            Self::Sealed => "sealed",
            Self::Failed => "failed",
        }
    }

    fn is_at_work(self) -> bool {
        matches!(self, Self::Snapshotting | Self::Incrementing | Self::Sealing)
    }
}

/// What BACKUP STATUS tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackupView {
    /// How far it is.
    pub state: BackupState,
    /// Why it failed; empty when it did not.
    pub error: String,
    /// When it was started, in seconds since the epoch; 0 for never.
    pub started_s: u64,
    /// When it was sealed; 0 when it was not.
    pub ended_s: u64,
}

/// The backup of a server.
#[derive(Debug, Default)]
pub struct Backup {
    view: Mutex<BackupView>,
    /// `backup-sealed-ttl`, in seconds; 0 for none.
    pub sealed_ttl_s: AtomicU64,
}

impl Backup {
    /// How far it is.
    #[must_use]
    pub fn view(&self) -> BackupView {
        self.view.lock().clone()
    }

    /// From a state of which `may` is true to another one.
    fn step(&self, may: impl Fn(BackupState) -> bool, to: BackupState) -> Result<(), BackupState> {
        let mut view = self.view.lock();
        if !may(view.state) {
            return Err(view.state);
        }
        match to {
            BackupState::Snapshotting => {
                *view = BackupView { started_s: now_s(), ..BackupView::default() };
            }
            BackupState::Sealed => view.ended_s = now_s(),
            BackupState::Idle => *view = BackupView::default(),
            _ => {}
        }
        view.state = to;
        Ok(())
    }

    fn fail(&self, error: String) {
        let mut view = self.view.lock();
        view.state = BackupState::Failed;
        view.error = error;
    }
}

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
/// Another backup is under way or waits to be cleaned up, or the checkpoint fails.
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

/// Puts a checkpoint of now in the place of the first one. Blocks on I/O.
///
/// # Errors
/// No backup is under way, or the checkpoint fails: then the first one is lost, too.
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

/// A step has ended. Who has called the backup off meanwhile gets that.
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
    // Whoever makes a checkpoint removes it.
    if is_quiet { clear(server) } else { Ok(()) }
}

/// Removes the files of a backup that is sealed or failed, or of one of before the last start.
///
/// # Errors
/// One is under way, or something else lies in its directory.
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

/// Removes a sealed backup whose time is over (`backup-sealed-ttl`). Called by the clock.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_goes_its_steps_and_no_others() {
        let backup = Backup::default();
        let seal = |backup: &Backup| {
            backup.step(|state| state == BackupState::Incrementing, BackupState::Sealing)
        };
        assert_eq!(seal(&backup), Err(BackupState::Idle));
        backup.step(|state| state == BackupState::Idle, BackupState::Snapshotting).unwrap();
        let view = backup.view();
        assert!(view.started_s > 0 && view.ended_s == 0);
        backup.fail("because".into());
        assert_eq!(
            (backup.view().state.name(), backup.view().error.as_str()),
            ("failed", "because")
        );
        assert_eq!(seal(&backup), Err(BackupState::Failed));
        backup.step(|state| !state.is_at_work(), BackupState::Idle).unwrap();
        assert_eq!(backup.view(), BackupView::default());
    }
}

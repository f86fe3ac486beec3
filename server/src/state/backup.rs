//! How far a backup is: its steps, and no others.

use crate::observe::now_s;
use parking_lot::Mutex;
use std::sync::atomic::AtomicU64;

/// How far a backup is, in Redis' words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackupState {
    /// There is none.
    #[default]
    Idle,
    /// Its first checkpoint is being made.
    Snapshotting,
    /// It is complete, and writes continue.
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

    pub(crate) fn is_at_work(self) -> bool {
        matches!(self, Self::Snapshotting | Self::Incrementing | Self::Sealing)
    }
}

/// The state that BACKUP STATUS reports.
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
    pub(crate) fn step(
        &self,
        may: impl Fn(BackupState) -> bool,
        to: BackupState,
    ) -> Result<(), BackupState> {
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

    pub(crate) fn fail(&self, error: String) {
        let mut view = self.view.lock();
        view.state = BackupState::Failed;
        view.error = error;
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

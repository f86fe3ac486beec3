//! Data directories that are used sometimes with a log and sometimes without (N3).
//!
//! Without a log the tree is overflow: it is wiped at the next start. The data of an earlier run with a log is
//! authoritative, and no start may lose it. It is therefore kept under other names (`tree.aside`,
//! `appendonlydir.aside`) until a start with a log restores it, as Redis leaves its AOF alone
//! while `appendonly` is `no`. Two marker files in the data directory tell what the tree is:
//!
//! | file | says |
//! |---|---|
//! | `OVERFLOW` | the tree belongs to a run without a log |
//! | `OVERFLOW.LOG` | a log has begun beside it, of which nothing has been promised to anybody yet |
//!
//! Every step is one rename or removal, and [`prepare_data_dir`] continues wherever a crash has left it.
//! The tree is the last to be restored and the first to be put aside. A tree beside things put aside therefore means
//! that those were given up.

use super::engine::EngineError;
use super::wbl;
use crate::tree::PLACE_PREFIX;
use sexton_persistence::device::Storage;
use std::path::{Path, PathBuf};

const OVERFLOW: &str = "OVERFLOW";
const OVERFLOW_LOG: &str = "OVERFLOW.LOG";
/// What every tree has, from its first moment on.
const CURRENT: &str = "CURRENT";

/// The directories and files that this is about.
struct Layout<'s> {
    storage: &'s dyn Storage,
    dir: &'s Path,
    tree: PathBuf,
    tree_aside: PathBuf,
    log: PathBuf,
    log_aside: PathBuf,
}

/// Makes the tree in `dir` what a start with (`logged`) or without a log needs, before anything else
/// looks at it: the one that goes with the log, or an empty one. `log_dir` is the log's directory in
/// `dir`. May be called again.
///
/// # Errors
/// A failing medium; the next call goes on. Without a log: the newest writes are in persistent memory, where they
/// would be forgotten.
pub fn prepare_data_dir(
    storage: &dyn Storage,
    dir: &Path,
    log_dir: &Path,
    logged: bool,
) -> Result<(), EngineError> {
    let layout = Layout::new(storage, dir, log_dir);
    storage.create_dir_all(dir)?;
    if !logged && wbl::has_pool(storage, dir)? {
        return Err(EngineError::Refused(format!(
            "the newest writes of the store in {} lie in persistent memory: appendonly no needs a \
             start with appendonly yes or persistence-mode wbl before",
            dir.display()
        )));
    }
    if layout.has(OVERFLOW)? {
        layout.empty(&layout.tree)?;
        if layout.has(OVERFLOW_LOG)? {
            layout.empty(&layout.log)?;
            layout.unmark(OVERFLOW_LOG)?;
        }
        if !logged {
            return Ok(());
        }
        layout.unmark(OVERFLOW)?;
    }
    layout.unmark(OVERFLOW_LOG)?;
    if storage.exists(&layout.tree.join(CURRENT))? {
        layout.give_up_aside()?;
    } else {
        layout.put_back(&layout.log_aside, &layout.log)?;
        layout.put_back(&layout.tree_aside, &layout.tree)?;
    }
    if !logged {
        if storage.exists(&layout.tree.join(CURRENT))? {
            layout.put_aside(&layout.tree, &layout.tree_aside)?;
            layout.put_aside(&layout.log, &layout.log_aside)?;
        }
        storage.create_dir_all(&layout.tree)?;
        layout.empty(&layout.tree)?;
        layout.mark(OVERFLOW)?;
    }
    Ok(())
}

/// Under which name `name` waits while the data directory is used without a log.
#[must_use]
pub fn aside_name(name: &Path) -> PathBuf {
    let mut aside = name.as_os_str().to_owned();
    aside.push(".aside");
    aside.into()
}

/// Notes that a log begins beside a tree of a run without one, if this is one. Until [`adopt`]
/// neither counts.
pub(super) fn log_begins(
    storage: &dyn Storage,
    dir: &Path,
    log_dir: &Path,
) -> Result<(), EngineError> {
    let layout = Layout::new(storage, dir, log_dir);
    if layout.has(OVERFLOW)? {
        layout.mark(OVERFLOW_LOG)?;
    }
    Ok(())
}

/// The tree and the log that has begun are the truth from here on; what had been put aside is given up.
pub(super) fn adopt(storage: &dyn Storage, dir: &Path, log_dir: &Path) -> Result<(), EngineError> {
    let layout = Layout::new(storage, dir, log_dir);
    if layout.has(OVERFLOW)? {
        layout.unmark(OVERFLOW)?;
        layout.unmark(OVERFLOW_LOG)?;
        layout.give_up_aside()?;
    }
    Ok(())
}

impl<'s> Layout<'s> {
    fn new(storage: &'s dyn Storage, dir: &'s Path, log_dir: &Path) -> Self {
        let (tree, log) = (dir.join("tree"), dir.join(log_dir));
        let (tree_aside, log_aside) = (aside_name(&tree), aside_name(&log));
        Self { storage, dir, tree_aside, log_aside, tree, log }
    }

    fn has(&self, marker: &str) -> Result<bool, EngineError> {
        Ok(self.storage.exists(&self.dir.join(marker))?)
    }

    fn mark(&self, marker: &str) -> Result<(), EngineError> {
        self.storage.create(&self.dir.join(marker))?;
        Ok(self.storage.sync_dir(self.dir)?)
    }

    fn unmark(&self, marker: &str) -> Result<(), EngineError> {
        if self.has(marker)? {
            self.storage.remove(&self.dir.join(marker))?;
            self.storage.sync_dir(self.dir)?;
        }
        Ok(())
    }

    /// Removes the files of a directory, those in the places of a tree too, and makes that durable: what refers
    /// to them may go next. The places stay.
    fn empty(&self, dir: &Path) -> Result<(), EngineError> {
        if self.storage.exists(dir)? {
            for name in self.storage.list(dir)? {
                if name.starts_with(PLACE_PREFIX) {
                    self.empty(&dir.join(name))?;
                } else {
                    self.storage.remove(&dir.join(name))?;
                }
            }
            self.storage.sync_dir(dir)?;
        }
        Ok(())
    }

    fn put_aside(&self, from: &Path, to: &Path) -> Result<(), EngineError> {
        if self.storage.exists(from)? {
            self.storage.rename(from, to)?;
            self.storage.sync_dir(self.dir)?;
        }
        Ok(())
    }

    /// Back to a place that nothing of value is in.
    fn put_back(&self, from: &Path, to: &Path) -> Result<(), EngineError> {
        if self.storage.exists(from)? {
            if self.storage.exists(to)? {
                self.remove_places(to)?;
                self.storage.remove_dir(to)?;
            }
            self.storage.rename(from, to)?;
            self.storage.sync_dir(self.dir)?;
        }
        Ok(())
    }

    /// Takes the empty places out of a tree's directory that is going to be removed.
    fn remove_places(&self, dir: &Path) -> Result<(), EngineError> {
        for name in self.storage.list(dir)? {
            if name.starts_with(PLACE_PREFIX) {
                self.storage.remove_dir(&dir.join(name))?;
            }
        }
        Ok(())
    }

    fn give_up_aside(&self) -> Result<(), EngineError> {
        for dir in [&self.tree_aside, &self.log_aside] {
            if self.storage.exists(dir)? {
                self.empty(dir)?;
                self.remove_places(dir)?;
                self.storage.remove_dir(dir)?;
                self.storage.sync_dir(self.dir)?;
            }
        }
        Ok(())
    }
}

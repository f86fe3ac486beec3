//! Verification of a store's files, for `sexton-check`. Nothing is changed unless requested.
//!
//! Checks what can be proved wrong from the files alone: checksums and order of every table, the manifest against the
//! tables, overlap in a level, levels that are not newest first (the order that look-ups
//! rely on), claims of `buried_through` (C3), graves that a put should have closed (P3), the checkpoint
//! and the grave runs against the mark (N1, D2), and the chain of the log (N8) or the pool of persistent memory. A dead
//! version whose grave was lost looks alive; it shows up
//! in the number of keys, which the mark records independently of the files.

mod graves;
mod log;
mod pool;
mod rebuild;
mod table;
mod tree;

#[cfg(test)]
mod tests;

use crate::error::EngineError;
use crate::store::EngineOptions;
use sexton_persistence::device::Storage;
use sexton_persistence::pmem::Inspection;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// What is checked, and how.
#[derive(Clone, Debug)]
pub struct CheckOptions {
    /// The medium.
    pub storage: Arc<dyn Storage>,
    /// The data directory.
    pub dir: PathBuf,
    /// `appenddirname`.
    pub log_dir_name: String,
    /// `appendfilename`.
    pub log_file_name: String,
    /// Cut the log where it can no longer be read, and lose what follows.
    pub truncate_log: bool,
    /// Cut the log behind the last write of this second (seconds since 1970).
    pub truncate_to_s: Option<u64>,
    /// Log directories and archives from which a log is put together first: for a checkpoint.
    pub log_sources: Vec<PathBuf>,
    /// Make the tree anew from its tables if its manifest cannot be used.
    pub rebuild_manifest: bool,
    /// Number of databases, where only the lost manifest would know.
    pub databases: usize,
}

impl CheckOptions {
    /// Checks `dir` with the names of the default configuration, and changes nothing.
    #[must_use]
    pub fn new(storage: Arc<dyn Storage>, dir: PathBuf) -> Self {
        let store = EngineOptions::new(storage, dir);
        Self {
            storage: store.storage,
            dir: store.dir,
            log_dir_name: store.log_dir_name,
            log_file_name: store.log_file_name,
            truncate_log: false,
            truncate_to_s: None,
            log_sources: Vec::new(),
            rebuild_manifest: false,
            databases: store.databases,
        }
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Where: a file, or the directory.
    pub file: PathBuf,
    /// What, with what was expected and what was found.
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file.display(), self.what)
    }
}

/// The result of a check.
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    /// What is wrong; empty for a healthy store.
    pub findings: Vec<Finding>,
    /// What is no damage, but worth a line: leftovers, a torn tail, what a repair did.
    pub notes: Vec<String>,
    /// Tables read, their bytes and versions.
    pub tables: u64,
    /// Bytes of the tables.
    pub table_bytes: u64,
    /// Versions in the tables.
    pub versions: u64,
    /// Open graves of the cemetery checkpoint, and graves of grave runs.
    pub graves: u64,
    /// Files of grave runs.
    pub grave_files: u64,
    /// Keys alive as of the mark.
    pub live_keys: u64,
    /// The recovery mark.
    pub mark: u64,
    /// What is in persistent memory above the mark, if anything.
    pub pool: Option<Inspection>,
    /// Groups of the log behind the mark.
    pub groups: u64,
    /// Last sequence in the log.
    pub logged_seq: u64,
    /// Seconds of the first and the last write in the log that has a time.
    pub logged_s: Option<(u64, u64)>,
}

impl CheckReport {
    fn found(&mut self, file: impl Into<PathBuf>, what: impl Into<String>) {
        self.findings.push(Finding { file: file.into(), what: what.into() });
    }
}

/// Checks the store in a directory that no server has open.
///
/// # Errors
/// The directory is in use or cannot be read at all. What is wrong in it is no error: it is in the report.
pub fn check(
    options: &CheckOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<CheckReport, EngineError> {
    let tree_dir = options.dir.join("tree");
    if !options.storage.exists(&tree_dir)? {
        let dir = options.dir.display();
        return Err(EngineError::Refused(format!("{dir} holds no store: there is no tree in it")));
    }
    let _lock = options.storage.lock_dir(&options.dir)?;
    let mut report = CheckReport::default();
    if options.rebuild_manifest {
        let mut first = CheckReport::default();
        if tree::check(options, &tree_dir, &mut first, &mut |_, _| {})? {
            // Where the last record is lost, only the log shows that there was one.
            let reading = CheckOptions {
                truncate_log: false,
                truncate_to_s: None,
                log_sources: Vec::new(),
                ..options.clone()
            };
            log::check(&reading, &mut first)?;
        }
        if first.findings.is_empty() {
            report.notes.push("the manifest is whole and so are its tables: not rebuilt".into());
        } else {
            rebuild::rebuild(options, &tree_dir, &mut report)?;
            if !report.findings.is_empty() {
                return Ok(report);
            }
        }
    }
    note_undo_runs(options, &mut report)?;
    if tree::check(options, &tree_dir, &mut report, progress)? {
        pool::check(options, &mut report)?;
        log::check(options, &mut report)?;
    } else {
        report.notes.push("the log was not read: its start is not known without the mark".into());
    }
    Ok(report)
}

/// Undo runs (N6) belong to snapshots of a process that has ended: no damage, and nothing to be read.
fn note_undo_runs(options: &CheckOptions, report: &mut CheckReport) -> Result<(), EngineError> {
    let dir = options.dir.join("undo");
    if !options.storage.exists(&dir)? {
        return Ok(());
    }
    let names = options.storage.list(&dir)?;
    let mut bytes = 0;
    for name in &names {
        bytes += options.storage.open(&dir.join(name))?.len()?;
    }
    if !names.is_empty() {
        report.notes.push(format!(
            "{} undo runs, {bytes} bytes: versions that only snapshots of an ended process needed, the \
             next start removes them",
            names.len()
        ));
    }
    Ok(())
}

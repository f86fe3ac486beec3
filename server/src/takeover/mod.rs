//! Inspects the data directory at the start, and imports the data of a Redis server (N3).
//!
//! | configuration | store | what happens |
//! |---|---|---|
//! | `appendonly no` | emptied | `dump.rdb` is loaded, as Redis does |
//! | `appendonly yes` | empty | a Redis log, or else its `dump.rdb`, is imported, once |
//! | `appendonly yes` | has data | nothing; a newer `dump.rdb` of another server makes the start fail |
//! | `--import FILE` | any | the store is set aside, FILE imported; the manifest of a log represents its files |
//!
//! An import is all or nothing. Conflicting files are renamed into `imported-TIME/`, which keeps the
//! originals (on a device, to `imported-TIME-...` beside it), and a journal records this. If the import has
//! not finished by the next start, everything is restored first (see [`Journal`]).

mod aof;
mod identity;
mod journal;
mod sources;

pub use journal::Journal;
pub use sources::Source;

use crate::jobs::rdb::{Loader, remove_temporary_files};
use crate::log;
use crate::observe::now_s;
use crate::server::Server;
use identity::StoreFile;
use sexton_config::Options;
use sexton_engine::{POOL_MARKER, has_pool, prepare_data_dir};
use sexton_persistence::aof::record_bytes;
use sexton_persistence::device::{DiskStorage, Storage};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Where the engine keeps its tables.
const TREE: &str = "tree";

/// Undoes the changes of an unfinished import of an earlier run. To be called before files are
/// moved to other devices: the journal has their locations.
///
/// # Errors
/// The directory cannot be read or written.
pub fn undo_unfinished(options: &Options) -> Result<(), String> {
    let dir = &options.dir;
    // Let go before the store is opened, which takes it again.
    let _lock = DiskStorage.lock_dir(dir).map_err(|error| error.to_string())?;
    Journal::undo_unfinished(dir).map_err(|error| format!("{}: {error}", dir.display()))
}

/// Whether this start has anything to load, as far as file names show.
#[must_use]
pub fn finds_data(options: &Options) -> bool {
    let is_there = |name: &Path| options.dir.join(name).exists();
    let of_a_log =
        [&Path::new(TREE).join("CURRENT"), Path::new(POOL_MARKER), &options.appendfilename];
    options.import.is_some()
        || Journal::is_unfinished(&options.dir)
        || is_there(&options.dbfilename)
        || options.appendonly
            && (of_a_log.into_iter().any(is_there) || sources::has_manifest(options))
}

/// Approximate number of bytes of records in the log, which is not read yet; the tables may already contain part of them. 0 if
/// unknown; reading the log then reports the reason.
#[must_use]
pub fn log_bytes(options: &Options) -> u64 {
    record_bytes(&DiskStorage, &sources::own_log(options)).unwrap_or_default()
}

/// What is to be loaded at this start.
#[derive(Debug)]
pub struct Takeover {
    dir: PathBuf,
    store: StoreFile,
    source: Option<Source>,
    journal: Option<Journal>,
    dump: PathBuf,
    /// `aof-load-truncated`.
    cuts_torn: bool,
}

/// Keys of all databases: what a log has left in the end, only the store knows.
fn keys_in(server: &Server) -> Result<u64, String> {
    let counts = (0..server.databases).map(|db| server.engine.count(db));
    counts.sum::<Result<u64, _>>().map_err(|error| error.to_string())
}

impl Takeover {
    /// Inspects the data directory, and sets aside files that conflict with an import. To be called
    /// before the store is opened.
    ///
    /// # Errors
    /// One line for the operator: a file that cannot be read, or a `dump.rdb` that may be meant to
    /// replace the store.
    pub fn prepare(options: &Options) -> Result<Self, String> {
        let dir = options.dir.clone();
        // Let go before the store is opened, which takes it again.
        let _lock = DiskStorage.lock_dir(&dir).map_err(|error| error.to_string())?;
        remove_temporary_files(options);
        prepare_data_dir(&DiskStorage, &dir, &options.appenddirname, options.appendonly)
            .map_err(|error| error.to_string())?;
        let failed = |error: std::io::Error| format!("{}: {error}", dir.display());
        let is_new = is_new(&dir.join(TREE)).map_err(failed)?;
        let store = StoreFile::open(&dir).map_err(failed)?;
        let dump = dir.join(&options.dbfilename);
        let cuts_torn = options.aof_load_truncated;
        let mut takeover =
            Self { dir: dir.clone(), store, source: None, journal: None, dump, cuts_torn };
        if let Some(path) = &options.import {
            takeover.import(&dir.join(path), options)?;
        } else if !options.appendonly {
            takeover.source = Some(Source::file(&takeover.dump)).filter(|source| source.exists());
        } else if is_new {
            takeover.source = Source::find(options)?;
            if takeover.source.is_some() {
                // Theirs: a manifest of our own is no source.
                let theirs = sources::has_manifest(options);
                let aside = theirs.then(|| dir.join(&options.appenddirname));
                takeover.put_aside(aside.as_slice(), options)?;
            }
        } else {
            takeover.check_dump(options)?;
        }
        Ok(takeover)
    }

    /// Name of the store in the files it saves.
    #[must_use]
    pub fn store_id(&self) -> &str {
        self.store.id()
    }

    /// Bytes to load; `None` when there is nothing to load.
    #[must_use]
    pub fn bytes(&self) -> Option<u64> {
        self.source.as_ref().map(Source::bytes)
    }

    /// `--import`: unless it was the last thing imported, so that the option may stay in a unit file.
    fn import(&mut self, path: &Path, options: &Options) -> Result<(), String> {
        if sources::is_own_manifest(path, options) && !sources::has_foreign_writes(options)? {
            log::notice(&format!("{} holds nothing to import", path.display()));
            return Ok(());
        }
        let seen = identity::of_file(path).map_err(|e| format!("{}: {e}", path.display()))?;
        if self.store.imported() == Some(seen) {
            log::notice(&format!("{} is imported already", path.display()));
            return Ok(());
        }
        if has_pool(&DiskStorage, &self.dir).map_err(|error| error.to_string())? {
            return Err(format!(
                "--import: the newest writes of the store in {} lie in persistent memory: start it with \
                 persistence-mode log once, which takes them along, before it is put aside",
                self.dir.display()
            ));
        }
        self.source = Some(Source::named(path)?);
        if options.appendonly {
            let in_the_way = [self.dir.join(TREE), self.dir.join(&options.appenddirname)];
            self.put_aside(&in_the_way, options)?;
        }
        Ok(())
    }

    /// Renames `paths` into a directory of their own, and the source's along with them.
    fn put_aside(&mut self, paths: &[PathBuf], options: &Options) -> Result<(), String> {
        let name = format!("imported-{}", now_s());
        // Without the marker the pool of a start that did not end counts for nothing.
        let made = [Path::new(POOL_MARKER), Path::new(TREE), &options.appenddirname];
        let created = made.map(|name| self.dir.join(name));
        let journal = Journal::begin(&self.dir, &name, paths, &created)
            .map_err(|error| format!("{}: {error}", self.dir.display()))?;
        if let Some(source) = &mut self.source {
            source.moved(paths, &journal);
        }
        self.journal = Some(journal);
        Ok(())
    }

    /// For a store with data: checks for a dump that the operator may have put here to be loaded.
    fn check_dump(&self, options: &Options) -> Result<(), String> {
        let path = self.dump.display();
        let Ok(seen) = identity::of_file(&self.dump) else { return Ok(()) };
        if self.store.has_seen(seen) || identity::store_of(&self.dump) == self.store.id() {
            return Ok(());
        }
        let store_paths = [self.dir.join(TREE), self.dir.join(&options.appenddirname)];
        if identity::is_newer(&self.dump, &store_paths) {
            return Err(format!(
                "{path} is newer than the store and was not written by it: start with --import \
                 {path} to load it in place of the store's data, or move it away"
            ));
        }
        log::warning(&format!(
            "{path} was not written by this store and is older than it: it is not loaded (--import \
             {path} would)"
        ));
        Ok(())
    }

    /// Loads what there is into the open store of `server`. Blocks on I/O.
    ///
    /// # Errors
    /// The file and what is wrong with it. The store must not be served then, but closed and, with
    /// [`Takeover::undo`], put back.
    pub fn load(&self, server: &Server) -> Result<(), String> {
        let Some(source) = &self.source else { return Ok(()) };
        let started = Instant::now();
        let mut loader = Loader::new(server);
        source.load(server, &mut loader, self.cuts_torn)?;
        let counts = loader.counts();
        if self.journal.is_some() {
            // The import counts once it would survive a crash, under any policy.
            server.engine.flush().map_err(|error| error.to_string())?;
        }
        server.saving.note_loaded(server.engine.last_seq());
        log::notice(&format!(
            "Done loading {source}, keys loaded: {}, keys expired: {}, empty keys skipped: {}.",
            keys_in(server)?,
            counts.expired,
            counts.empty
        ));
        log::notice(&format!(
            "DB loaded from disk: {:.3} seconds",
            started.elapsed().as_secs_f64()
        ));
        Ok(())
    }

    /// The data is loaded: an import is final from here on.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub fn finish(mut self, options: &Options) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("{}: {error}", self.dir.display());
        let Some(journal) = self.journal.take() else { return Ok(()) };
        let imported = match &options.import {
            Some(path) => Some(identity::of_file(&self.dir.join(path)).map_err(failed)?),
            None => None,
        };
        self.store.note(imported, identity::of_file(&self.dump).ok()).map_err(failed)?;
        let kept = journal.commit().map_err(failed)?;
        if let Some(source) = &self.source {
            log::notice(&format!("Imported {source}, which is kept."));
            for kept in kept {
                log::notice(&format!("What was in its place is in {}", kept.display()));
            }
        }
        Ok(())
    }

    /// Puts everything back as it was found. The store must be closed.
    pub fn undo(self) {
        if let Some(journal) = self.journal
            && let Err(error) = journal.undo()
        {
            log::warning(&format!("Cannot put the files back, the next start will: {error}"));
        }
    }
}

/// True when `tree` belongs to no store yet. Tables without `CURRENT` are those of a store, which refuses to open by
/// the name of what is missing.
fn is_new(tree: &Path) -> std::io::Result<bool> {
    if tree.join("CURRENT").exists() {
        return Ok(false);
    }
    let entries = match std::fs::read_dir(tree) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(true),
        Err(error) => return Err(error),
    };
    for entry in entries {
        if entry?.path().extension().is_some_and(|extension| extension == "tbl") {
            return Ok(false);
        }
    }
    Ok(true)
}

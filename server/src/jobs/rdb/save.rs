//! Writing the file.

use super::image::Image;
use crate::devices;
use crate::log;
use crate::server::Server;
use crate::session::Pause;
use crate::state::saving::Start;
use sexton_config::Options;
use sexton_engine::{EngineError, Snapshot, SnapshotOptions};
use sexton_persistence::device::{DiskStorage, FileWriter, Storage, StorageError};
use sexton_persistence::rdb::{FIELD_TIMES_VERSION, FILE_VERSION, Writer, WriterOptions};
use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Size of the pieces whose write-back is started early under `rdb-save-incremental-fsync`
/// (`REDIS_AUTOSYNC_BYTES`).
const PIECE_BYTES: u64 = 4 << 20;

/// Writes rest for at most so long while a server that stops saves.
const LAST_SAVE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Why there is no new file.
#[derive(Debug)]
pub enum SaveError {
    /// Another save runs.
    Busy,
    /// It was called off.
    Aborted,
    /// Writing, syncing or renaming failed.
    Io {
        /// What was tried.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The data could not be read.
    Engine(EngineError),
    /// A key of a type that cannot be written.
    Type(String),
    /// A hash with fields that expire, in a file of a version that does not have them.
    FieldTimes,
}

impl fmt::Display for SaveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy => f.write_str("Background save already in progress"),
            Self::Aborted => f.write_str("the save was called off"),
            Self::Io { operation, path, error } => {
                write!(f, "Write error saving DB on disk({operation} {}): {error}", path.display())
            }
            Self::Engine(error) => write!(f, "Error reading the data to save: {error}"),
            Self::Type(text) => f.write_str(text),
            Self::FieldTimes => f.write_str("fields that expire need a file of a newer version"),
        }
    }
}

impl std::error::Error for SaveError {}

impl From<StorageError> for SaveError {
    fn from(error: StorageError) -> Self {
        let StorageError { operation, path, source, .. } = error;
        Self::Io { operation, path, error: io::Error::new(source.kind(), source.to_string()) }
    }
}

impl From<EngineError> for SaveError {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
    }
}

/// SAVE: returns when the file is complete. Blocks on I/O.
///
/// # Errors
/// Another save is running, or the file could not be written; the log has the reason.
pub fn save(server: &Server) -> Result<(), SaveError> {
    if server.saving.start_here() == Start::Busy {
        return Err(SaveError::Busy);
    }
    run(server)
}

/// Runs the save that was started, and notes how it ended.
pub(super) fn run(server: &Server) -> Result<(), SaveError> {
    let result = write_dump(server, &server.config.options());
    match &result {
        Ok(_) => log::notice("DB saved on disk"),
        Err(SaveError::Aborted) => {}
        Err(error) => log::warning(&error.to_string()),
    }
    server.saving.end(result.as_ref().ok().copied());
    result.map(|_| ())
}

/// Saves at shutdown: `wanted` is SAVE or NOSAVE of SHUTDOWN; without it the save points decide. A background save is
/// cancelled: the final save contains more.
///
/// # Errors
/// The save failed: the server must not stop, unless the shutdown is forced.
pub fn save_before_exit(server: &Server, wanted: Option<bool>) -> Result<(), SaveError> {
    if server.saving.view().in_background {
        log::warning("There is a background save. Calling it off!");
        server.saving.abort();
    }
    // Partly loaded data is not worth a file, and must not replace the file it is loaded from.
    if server.loading.is_active() || !wanted.unwrap_or_else(|| server.saving.has_points()) {
        return Ok(());
    }
    // The last save has everything that was answered. The pause ends with the server, or below.
    server.sessions.pause(Pause::Write, Instant::now() + LAST_SAVE_MAX);
    log::notice("Saving the final RDB snapshot before exiting.");
    // Not after one of SAVE, which would have less.
    server.saving.start_last();
    run(server).inspect_err(|_| {
        server.sessions.unpause();
        log::warning("Error trying to save the DB, can't exit.");
    })
}

pub(super) fn failed<'p>(
    operation: &'static str,
    path: &'p Path,
) -> impl Fn(io::Error) -> SaveError + Copy + use<'p> {
    move |error| SaveError::Io { operation, path: path.to_path_buf(), error }
}

/// Writes the file of `rdb-device` or `dir` and `dbfilename`; returns the last sequence it contains.
fn write_dump(server: &Server, options: &Options) -> Result<u64, SaveError> {
    let (storage, dir) = (server.storage(), devices::dump_dir(options));
    let temporary = dir.join(temporary_name());
    let write = |writer: &mut Writer<FileWriter>| write_all(server, &temporary, writer);
    let written = write_file(server, options, &temporary, write).and_then(|seq| {
        devices::put_dump(&*storage, options, &temporary)?;
        Ok(seq)
    });
    if written.is_err() {
        // It may not even exist.
        let _ = storage.remove(&temporary);
    }
    written
}

fn temporary_name() -> String {
    format!("temp-{}.rdb", std::process::id())
}

/// Removes what saves of processes that were killed have left.
pub(crate) fn remove_temporary_files(options: &Options) {
    for dir in [devices::dump_dir(options), options.dir.clone()] {
        for name in DiskStorage.list(&dir).unwrap_or_default() {
            let number = name.strip_prefix("temp-").and_then(|rest| rest.strip_suffix(".rdb"));
            if number.is_some_and(|number| number.parse::<u32>().is_ok()) {
                // One that cannot be removed takes room and does no harm.
                let _ = DiskStorage.remove(&dir.join(name));
            }
        }
    }
}

/// Makes the file durable at `path`. If that is on the tree's disk, which would otherwise seek between the two, the tree
/// waits.
fn write_file<T>(
    server: &Server,
    options: &Options,
    path: &Path,
    write: impl Fn(&mut Writer<FileWriter>) -> Result<T, SaveError>,
) -> Result<T, SaveError> {
    let pieces = if options.rdb_save_incremental_fsync { PIECE_BYTES } else { 0 };
    let shares_disk = path.parent().is_some_and(|dir| devices::is_on_disk_of_level_0(options, dir));
    let _claim = shares_disk.then(|| server.engine.claim_disk());
    let mut has_field_times = server.saving.field_times.load(Ordering::Relaxed);
    loop {
        let out = FileWriter::new(server.storage().create(path)?, pieces);
        let mut writer = Writer::new(out, writer_options(options, has_field_times));
        match write(&mut writer) {
            Err(SaveError::FieldTimes) if !has_field_times => has_field_times = true,
            Err(error) => return Err(error),
            Ok(written) => {
                if writer.version() == FIELD_TIMES_VERSION {
                    log::notice(&format!(
                        "{} has fields that expire: it is of version {FIELD_TIMES_VERSION}, that of Valkey 9, which Redis \
                         cannot read",
                        path.display()
                    ));
                }
                writer.finish().map_err(failed("write", path))?.finish()?;
                return Ok(written);
            }
        }
    }
}

/// The version is Valkey's where the data may have fields that expire.
pub(crate) fn writer_options(options: &Options, has_field_times: bool) -> WriterOptions {
    WriterOptions {
        version: if has_field_times { FIELD_TIMES_VERSION } else { FILE_VERSION },
        compress: options.rdbcompression,
        checksum: options.rdbchecksum,
    }
}

/// Durably writes the contents of `snapshot` to `path`, as the base of an append only file. `goes_on` is called
/// now and then.
pub(crate) fn write_base(
    server: &Server,
    path: &Path,
    snapshot: &Snapshot,
    goes_on: impl Fn() -> bool,
) -> Result<(), SaveError> {
    let options = server.config.options();
    let note = |_| if goes_on() { Ok(()) } else { Err(SaveError::Aborted) };
    write_file(server, &options, path, |writer| {
        Image::of(server, snapshot).into_base().write(writer, path, note)
    })
}

/// Writes a current snapshot: remarks, databases and keys. Returns the last sequence it contains.
pub(super) fn write_all<W: Write>(
    server: &Server,
    path: &Path,
    writer: &mut Writer<W>,
) -> Result<u64, SaveError> {
    let engine = &server.engine;
    let total = (0..server.databases).map(|db| engine.count_provisional(db).0).sum();
    server.saving.keys_total.store(total, Ordering::Relaxed);
    let named = SnapshotOptions { name: "bgsave".into(), timeout_ms: 0 };
    let snapshot = engine.snapshot(named)?;
    let note = |done| {
        server.saving.keys_done.store(done, Ordering::Relaxed);
        if server.saving.is_aborted() { Err(SaveError::Aborted) } else { Ok(()) }
    };
    Image::of(server, &snapshot).write(writer, path, note)?;
    Ok(snapshot.seq())
}

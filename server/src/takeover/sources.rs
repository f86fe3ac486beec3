//! The files of a Redis server: `dump.rdb`, the log in one file, the log in several.

use super::journal::real;
use super::{Journal, aof};
use crate::devices;
use crate::rdb::Loader;
use crate::server::Server;
use sexton_config::Options;
use sexton_config::syntax::split_words;
use sexton_persistence::aof::{self as aof_files, LogLocation};
use sexton_persistence::device::{DiskStorage, Storage};
use sexton_persistence::rdb::{Input, is_rdb};
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Files to be loaded one after the other.
#[derive(Debug)]
pub struct Source {
    files: Vec<PathBuf>,
    /// As the log calls it.
    name: String,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// What the first bytes of our own log files are.
const OWN_LOG: &[u8] = b"#SXH ";

fn starts_with(path: &Path, bytes: &[u8]) -> bool {
    let mut start = vec![0; bytes.len()];
    File::open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok() && start == bytes
}

impl Source {
    /// One file: RDB, log, or log with an RDB file in front.
    pub(super) fn file(path: &Path) -> Self {
        Self { files: vec![path.to_path_buf()], name: path.display().to_string() }
    }

    /// What an operator names: one file, or all that the manifest of a log lists.
    pub(super) fn named(path: &Path) -> Result<Self, String> {
        if !is_manifest(path) {
            return Ok(Self::file(path));
        }
        Ok(Self { files: read_manifest(path)?, name: path.display().to_string() })
    }

    /// What a Redis server left in the directory: its log, which is newer than its dump, or else that.
    pub(super) fn find(options: &Options) -> Result<Option<Self>, String> {
        let dir = &options.dir;
        let log_dir = dir.join(&options.appenddirname);
        let manifest = log_dir.join(format!("{}.manifest", options.appendfilename.display()));
        if manifest.exists() {
            let files = read_manifest(&manifest)?;
            if files.iter().any(|file| starts_with(file, OWN_LOG)) {
                // Our own log without its tree: the engine knows whether it can do with that.
                return Ok(None);
            }
            return Ok(Some(Self { files, name: manifest.display().to_string() }));
        }
        let candidates = [dir.join(&options.appendfilename), dir.join(&options.dbfilename)];
        Ok(candidates.iter().map(|path| Self::file(path)).find(Self::exists))
    }

    /// Whether there is anything to load.
    pub(super) fn exists(&self) -> bool {
        self.bytes() > 0
    }

    /// Size of all files.
    pub(super) fn bytes(&self) -> u64 {
        let size = |path: &PathBuf| std::fs::metadata(path).map_or(0, |data| data.len());
        self.files.iter().map(size).sum()
    }

    pub(super) fn is_in(&self, dir: &Path) -> bool {
        self.files.iter().any(|file| file.starts_with(dir))
    }

    /// The files' directory is among `paths`, which were put aside, or is what one of them leads to.
    pub(super) fn moved(&mut self, paths: &[PathBuf], journal: &Journal) {
        for file in &mut self.files {
            for path in paths {
                let rest = file.strip_prefix(path).or_else(|_| file.strip_prefix(real(path)));
                if let Ok(rest) = rest
                    && let Some(aside) = journal.aside_of(path)
                {
                    *file = aside.join(rest);
                    break;
                }
            }
        }
    }

    /// Loads all files; only the last may end in the middle of a command or a transaction,
    /// and that only as `aof-load-truncated` says.
    pub(super) fn load(
        &self,
        server: &Server,
        loader: &mut Loader<'_>,
        cuts_torn: bool,
    ) -> Result<(), String> {
        let (mut log, storage) = (aof::Replay::new(server), server.storage());
        for (nth, path) in self.files.iter().enumerate() {
            // The path may be that of after the renaming, which an error takes back.
            let name = path.file_name().unwrap_or_default().display();
            let failed = |text: String| match self.files.len() {
                1 => format!("{self}: {text}"),
                _ => format!("{self}: {name}: {text}"),
            };
            let is_last = nth + 1 == self.files.len();
            load_file(&*storage, path, is_last && cuts_torn, loader, &mut log).map_err(failed)?;
        }
        Ok(())
    }
}

fn load_file(
    storage: &dyn Storage,
    path: &Path,
    may_be_torn: bool,
    loader: &mut Loader<'_>,
    log: &mut aof::Replay<'_>,
) -> Result<(), String> {
    let mut file = devices::open_to_read(storage, path).map_err(|error| error.to_string())?;
    let size = file.len();
    let mut start = Vec::new();
    (&mut file).take(9).read_to_end(&mut start).map_err(|error| error.to_string())?;
    file.rewind();
    let mut input = Input::stream(file, size);
    if is_rdb(&start) {
        input = loader.load(input)?;
    }
    if input.left() > 0 {
        log.run(&mut input, path, may_be_torn)?;
    }
    Ok(())
}

fn is_manifest(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "manifest")
}

/// Whether the path is the manifest of the store's own log.
pub(super) fn is_own_manifest(path: &Path, options: &Options) -> bool {
    let own = own_log(options).manifest_path();
    match (path.canonicalize(), own.canonicalize()) {
        (Ok(path), Ok(own)) => path == own,
        _ => false,
    }
}

/// Whether another server has written to the store's own log.
pub(super) fn has_foreign_writes(options: &Options) -> Result<bool, String> {
    let storage: Arc<dyn Storage> = Arc::new(DiskStorage);
    aof_files::has_foreign_writes(&storage, &own_log(options)).map_err(|error| error.to_string())
}

fn own_log(options: &Options) -> LogLocation {
    LogLocation {
        dir: options.dir.join(&options.appenddirname),
        file_name: options.appendfilename.display().to_string(),
    }
}

/// The files of a log in the order in which they are to be loaded.
fn read_manifest(path: &Path) -> Result<Vec<PathBuf>, String> {
    let failed = |text: String| format!("{}: {text}", path.display());
    let text = std::fs::read(path).map_err(|error| failed(error.to_string()))?;
    let dir = path.parent().unwrap_or(Path::new("."));
    let (mut base, mut increments) = (None, Vec::new());
    for line in text.split(|&byte| byte == b'\n') {
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let bad = || failed(format!("bad line '{}'", line.escape_ascii()));
        let words = split_words(line).map_err(|_| bad())?;
        let value = |name: &[u8]| -> Option<&Vec<u8>> {
            words.chunks_exact(2).find(|pair| pair[0] == name).map(|pair| &pair[1])
        };
        let name = value(b"file").ok_or_else(bad)?;
        let file = dir.join(String::from_utf8_lossy(name).into_owned());
        match value(b"type").map(Vec::as_slice) {
            Some(b"b") if base.is_none() => base = Some(file),
            Some(b"i") => increments.push(file),
            // History: Redis deletes it when it comes to it.
            Some(b"h") => {}
            _ => return Err(bad()),
        }
    }
    let files: Vec<PathBuf> = base.into_iter().chain(increments).collect();
    match files.iter().find(|file| !file.exists()) {
        Some(missing) => Err(failed(format!("{} is missing", missing.display()))),
        None => Ok(files),
    }
}

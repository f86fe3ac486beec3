//! The files of a Redis server: `dump.rdb`, the log in one file, the log in several.

use super::journal::real;
use super::{Journal, aof};
use crate::devices;
use crate::jobs::rdb::Loader;
use crate::number::parse_i64;
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
        Ok(Self {
            files: read_manifest(path, &former_log(path))?,
            name: path.display().to_string(),
        })
    }

    /// What a Redis server left in the directory: its log, which is newer than its dump, or else that.
    pub(super) fn find(options: &Options) -> Result<Option<Self>, String> {
        let dir = &options.dir;
        let manifest = own_log(options).manifest_path();
        if manifest.exists() {
            let files = read_manifest(&manifest, &dir.join(&options.appendfilename))?;
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
    /// if `aof-load-truncated` allows it.
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

/// Whether the log directory has a manifest, be it ours or that of another server.
pub(super) fn has_manifest(options: &Options) -> bool {
    own_log(options).manifest_path().exists()
}

/// Whether another server has written to the store's own log.
pub(super) fn has_foreign_writes(options: &Options) -> Result<bool, String> {
    let storage: Arc<dyn Storage> = Arc::new(DiskStorage);
    aof_files::has_foreign_writes(&storage, &own_log(options)).map_err(|error| error.to_string())
}

/// The location of the store's own log.
pub(super) fn own_log(options: &Options) -> LogLocation {
    LogLocation {
        dir: options.dir.join(&options.appenddirname),
        file_name: options.appendfilename.display().to_string(),
    }
}

/// Longest line of a manifest, in bytes, as in Redis.
const MANIFEST_LINE_BYTES_MAX: usize = 1023;

/// The path at which a Redis before 7.0 kept the log whose files the manifest lists now: one file beside the directory.
fn former_log(manifest: &Path) -> PathBuf {
    let name = manifest.file_stem().unwrap_or_default();
    let dir = manifest.parent().and_then(Path::parent).unwrap_or(Path::new(""));
    dir.join(name)
}

/// The files of a log in loading order. Errors in the manifest are reported in Redis' words. `former`: the path at which a
/// Redis before 7.0 kept its single file. A manifest that lists only this file, which is not in its directory yet,
/// is that of an interrupted upgrade.
fn read_manifest(path: &Path, former: &Path) -> Result<Vec<PathBuf>, String> {
    let text = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let names = names_in(&text)
        .map_err(|(line, reason)| format!("{}, line {line}: {reason}", path.display()))?;
    let dir = path.parent().unwrap_or(Path::new("."));
    let files: Vec<PathBuf> = names.iter().map(|name| dir.join(name)).collect();
    if let [only] = &files[..]
        && only.file_name() == former.file_name()
        && !only.exists()
        && former.exists()
    {
        return Ok(vec![former.to_path_buf()]);
    }
    match files.iter().find(|file| !file.exists()) {
        Some(missing) => Err(format!(
            "{}: Unable to obtain the AOF file {} length. stat: No such file or directory",
            path.display(),
            missing.file_name().unwrap_or_default().display()
        )),
        None => Ok(files),
    }
}

/// The files that the manifest lists, base first; or the number of a line and what is wrong with it.
fn names_in(manifest: &[u8]) -> Result<Vec<String>, (usize, &'static str)> {
    const BAD_FORMAT: &str = "Invalid AOF manifest file format";
    if manifest.is_empty() {
        return Err((1, "Found an empty AOF manifest"));
    }
    let (mut base, mut increments, mut last_seq) = (None, Vec::new(), 0);
    let lines = manifest.strip_suffix(b"\n").unwrap_or(manifest).split(|&byte| byte == b'\n');
    for (number, line) in (1..).zip(lines) {
        let failed = |reason| (number, reason);
        if line.starts_with(b"#") {
            continue;
        }
        if line.len() > MANIFEST_LINE_BYTES_MAX {
            return Err(failed("The AOF manifest file contains too long line"));
        }
        let words = split_words(line).map_err(|_| failed(BAD_FORMAT))?;
        let value = |name: &[u8]| {
            let pairs = words.chunks_exact(2);
            pairs.rev().find(|pair| pair[0].eq_ignore_ascii_case(name)).map(|pair| &pair[1])
        };
        let seq = value(b"seq").and_then(|seq| parse_i64(seq)).filter(|&seq| seq != 0);
        let (Some(name), Some(seq), Some(kind), 0) =
            (value(b"file"), seq, value(b"type"), words.len() % 2)
        else {
            return Err(failed(BAD_FORMAT));
        };
        let name = String::from_utf8_lossy(name).into_owned();
        if name.contains('/') {
            return Err(failed("File can't be a path, just a filename"));
        }
        match kind.first() {
            Some(b'b') if base.is_some() => {
                return Err(failed("Found duplicate base file information"));
            }
            Some(b'b') => base = Some(name),
            Some(b'i') if seq <= last_seq => {
                return Err(failed("Found a non-monotonic sequence number"));
            }
            Some(b'i') => {
                last_seq = seq;
                increments.push(name);
            }
            // History: Redis deletes it when it reaches it.
            Some(b'h') => {}
            _ => return Err(failed("Unknown AOF file type")),
        }
    }
    Ok(base.into_iter().chain(increments).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_is_read_as_redis_reads_it() {
        let good =
            b"# made by hand\nfile a.2.incr.aof seq 2 type i\nfile a.1.base.rdb seq 1 type b\n\
                     file old seq 1 type h\nfile \"with a blank\" seq 4 type i newkey newvalue\n";
        let names = names_in(good).expect("a manifest");
        assert_eq!(names, ["a.1.base.rdb", "a.2.incr.aof", "with a blank"]);
        let long = format!("file a seq 1 type b{}", " x y".repeat(400));
        for (bad, line, reason) in [
            ("", 1, "Found an empty AOF manifest"),
            ("file a seq 1 type i\n\nfile b seq 3 type i\n", 2, "Invalid AOF manifest file format"),
            ("filx a seq 1 type b\n", 1, "Invalid AOF manifest file format"),
            ("file a type i\n", 1, "Invalid AOF manifest file format"),
            ("file a seq 1 type i newkey\n", 1, "Invalid AOF manifest file format"),
            ("file a seq 1 type x\n", 1, "Unknown AOF file type"),
            (
                "file a seq 2 type i\nfile b seq 1 type i\n",
                2,
                "Found a non-monotonic sequence number",
            ),
            (
                "file a seq 1 type b\nfile b seq 2 type b\n",
                2,
                "Found duplicate base file information",
            ),
            ("file d/a seq 1 type b\n", 1, "File can't be a path, just a filename"),
            (&long, 1, "The AOF manifest file contains too long line"),
        ] {
            assert_eq!(names_in(bad.as_bytes()), Err((line, reason)), "{bad}");
        }
    }
}

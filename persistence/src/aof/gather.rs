//! Putting segments of one log together in a new place, to go from a checkpoint to a later time.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::listing::Listing;
use super::recover::Segment;
use super::route::{file_name, parts};
use super::{LogError, LogLocation};
use crate::device::{Storage, copy_file};

/// How often a source may change while it is read.
const ATTEMPTS_MAX: u32 = 10;

/// What was put together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Gathered {
    /// Segments copied.
    pub segments: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Copies the segments that hold what came after `mark` from `sources` (log directories and archives) to
/// `location`, which must not have a log yet, and lists them. A number that is in several sources is
/// taken from the first. Whether they follow each other shows when they are read. A running server may
/// move a segment to its archive meanwhile: it is looked for again.
///
/// # Errors
///
/// A failing device, a log at `location`, or none that begins at or below the mark.
pub fn gather(
    storage: &dyn Storage,
    sources: &[PathBuf],
    location: &LogLocation,
    mark: u64,
) -> Result<Gathered, LogError> {
    if Listing::load(storage, location)?.is_some_and(|listing| !listing.segments.is_empty()) {
        return Err(LogError::InTheWay { file: location.manifest_path() });
    }
    for _ in 1..ATTEMPTS_MAX {
        match copy_all(storage, sources, location, mark) {
            Err(LogError::Storage(error)) if error.kind() == ErrorKind::NotFound => {}
            Err(LogError::MissingSegment { .. }) => {}
            outcome => return outcome,
        }
    }
    copy_all(storage, sources, location, mark)
}

fn copy_all(
    storage: &dyn Storage,
    sources: &[PathBuf],
    location: &LogLocation,
    mark: u64,
) -> Result<Gathered, LogError> {
    let mut found: BTreeMap<u64, (PathBuf, u64)> = BTreeMap::new();
    let mut secret = None;
    for dir in sources {
        let source = LogLocation { dir: dir.clone(), file_name: location.file_name.clone() };
        // An archive has none, and one that cannot be read is no obstacle: the segments tell the rest.
        let listing = Listing::load(storage, &source).unwrap_or_default();
        secret = secret.or(listing.and_then(|listing| listing.secret));
        for name in storage.list(dir)? {
            let Some(number) = source.segment_number(&name) else { continue };
            // One without a header was made ahead and never used.
            if let Some(header) = Segment::open(storage, &source, number)?.header {
                found.entry(number).or_insert((dir.join(name), header.previous_seq));
            }
        }
    }
    let low =
        |(number, (_, previous)): (&u64, &(PathBuf, u64))| (*previous <= mark).then_some(*number);
    let Some(first) = found.iter().rev().find_map(low) else {
        let oldest = found.into_values().next();
        return Err(match oldest {
            Some((file, previous_seq)) => LogError::StartsAboveMark { file, previous_seq, mark },
            None => LogError::MissingSegment { file: location.segment_path(1) },
        });
    };
    storage.create_dir_all(&location.dir)?;
    sync_parent(storage, &location.dir)?;
    let mut gathered = Gathered::default();
    let mut listing = Listing { incomplete: true, secret, ..Listing::default() };
    for (number, (path, _)) in found.range(first..) {
        let target = location.segment_path(*number);
        if let Some(source) = path.parent() {
            // Before the segment: a server that retires it removes that first.
            gathered.bytes += copy_parts(storage, source, *number, location)?;
        }
        gathered.bytes += copy_file(storage, path, &target)?;
        gathered.segments += 1;
        listing.segments.push(*number);
    }
    listing.store(storage, location)?;
    Ok(gathered)
}

/// Copies what a segment has on other devices into the log's own directory, where it is found as well.
fn copy_parts(
    storage: &dyn Storage,
    source: &Path,
    number: u64,
    location: &LogLocation,
) -> Result<u64, LogError> {
    let source = LogLocation { dir: source.to_path_buf(), file_name: location.file_name.clone() };
    let mut bytes = 0;
    for (of, path) in parts(storage, &source)? {
        if of == number {
            bytes += copy_file(storage, &path, &location.dir.join(file_name(&path)))?;
        }
    }
    Ok(bytes)
}

/// The last sequences logged before each of the listed segments, as their headers say.
///
/// # Errors
///
/// A failing device, or a log that is not ours.
pub fn segment_starts(storage: &dyn Storage, location: &LogLocation) -> Result<Vec<u64>, LogError> {
    let listing = Listing::load(storage, location)?.unwrap_or_default();
    let mut starts = Vec::new();
    for number in listing.segments {
        starts.extend(Segment::open(storage, location, number)?.header.map(|h| h.previous_seq));
    }
    Ok(starts)
}

fn sync_parent(storage: &dyn Storage, dir: &Path) -> Result<(), LogError> {
    Ok(dir.parent().map_or(Ok(()), |parent| storage.sync_dir(parent))?)
}

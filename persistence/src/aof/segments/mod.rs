//! The files of the log: which are listed, which one is ready next, which wait for reuse.

mod make;
mod reuse;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard};

use crate::aof::listing::{Base, Listing};
use crate::aof::route::{file_name, remove_parts};
use crate::aof::{LogError, LogLocation, LogOptions, LogRoute, LogTail, SegmentHeader, SyncPolicy};
use crate::device::{File, Storage};
use crate::random::random_u64;

/// A segment that may be written.
#[derive(Debug)]
pub(in crate::aof) struct Segment {
    pub(in crate::aof) number: u64,
    pub(in crate::aof) file: Arc<dyn File>,
    /// Where the next group goes.
    pub(in crate::aof) end: u64,
    /// What it has on other devices, by route.
    pub(in crate::aof) parts: Vec<Part>,
}

/// The records of a segment in one place.
#[derive(Debug)]
pub(in crate::aof) struct Part {
    pub(in crate::aof) file: Arc<dyn File>,
    /// Where the next records go.
    pub(in crate::aof) end: u64,
}

#[derive(Debug)]
struct Listed {
    number: u64,
    /// The last sequence logged before it; `None` until its header was written.
    previous_seq: Option<u64>,
    used_bytes: u64,
    /// Its parts that this process has written, with the bytes used.
    parts: Vec<(PathBuf, u64)>,
}

/// A retired segment.
#[derive(Debug)]
struct Spare {
    number: u64,
    /// Bytes that may still hold old groups; the rest of the file is filler.
    dirty_bytes: u64,
}

/// A base that is listed, with what the segments behind it may grow to.
#[derive(Debug, Clone, Copy)]
struct ListedBase {
    base: Base,
    bytes: u64,
    /// Bytes of segments at which the base is given up (N4).
    pinned_max_bytes: u64,
}

#[derive(Debug, Default)]
struct Catalog {
    listed: Vec<Listed>,
    incomplete: bool,
    base: Option<ListedBase>,
    /// Segments with something above this sequence are wanted by a base that is being written.
    hold_after: Option<u64>,
    next_number: u64,
    spares: Vec<Spare>,
    retired: u64,
}

/// What the writer has to say to the catalog.
#[derive(Debug)]
enum Note {
    /// The header of a segment is written, with the last sequence logged before it.
    Started { number: u64, previous_seq: u64 },
    /// A segment is used up to its end.
    Used { number: u64, bytes: u64, parts: Vec<(PathBuf, u64)> },
}

/// All files of a log. Locks are taken in this order: `preparing` for as long as a file is made,
/// `cleaning` for as long as one is overwritten, `catalog` for the lists and while they are stored. The writer
/// takes none of these as long as a segment is ready: on a busy disk each holds for several syncs, and it
/// would keep the log from being written for as long. What it has to say waits in `notes`.
#[derive(Debug)]
pub(in crate::aof) struct Segments {
    storage: Arc<dyn Storage>,
    location: LogLocation,
    segment_bytes: u64,
    /// Proves annotations (N8).
    secret: u64,
    spares_max: AtomicUsize,
    /// Retired segments are kept for reuse.
    recycles: AtomicBool,
    archive_dir: Option<PathBuf>,
    routes: Vec<LogRoute>,
    preparing: Mutex<()>,
    cleaning: Mutex<()>,
    catalog: Mutex<Catalog>,
    /// The next segments, all listed.
    ready: Mutex<VecDeque<Segment>>,
    /// Known from the first one that was made.
    is_on_disk: AtomicBool,
    notes: Mutex<Vec<Note>>,
}

impl Segments {
    /// Takes over what recovery left, and clears away what nothing lists.
    pub(in crate::aof) fn open(
        storage: Arc<dyn Storage>,
        options: &LogOptions,
        tail: &LogTail,
    ) -> Result<Self, LogError> {
        let location = options.location.clone();
        storage.create_dir_all(&location.dir)?;
        if let Some(parent) = location.dir.parent() {
            storage.sync_dir(parent)?;
        }
        let on_disk = Listing::load(&*storage, &location)?.unwrap_or_default();
        // After the mere end of a process the listing just read may be in the page cache only: an
        // older one, which lists more, must not come back once those files are gone.
        storage.sync_dir(&location.dir)?;
        for name in storage.list(&location.dir)? {
            let listed = on_disk.segments.iter().any(|n| location.segment_name(*n) == name);
            // Nobody else's base: a directory without a list of ours may be another server's.
            let old_base = location.is_base(&name)
                && (on_disk.incomplete || !on_disk.segments.is_empty())
                && on_disk.base.is_none_or(|base| location.base_name(base.number) != name);
            if (location.is_ours(&name) && !listed) || old_base {
                storage.remove(&location.dir.join(name))?;
            }
        }
        remove_parts(&*storage, &location, |number| !on_disk.segments.contains(&number))?;
        for route in &options.routes {
            storage.create_dir_all(&location.place(&route.name))?;
        }
        storage.sync_dir(&location.dir)?;
        // What the tables have and the log has not, no base covers; nor what lies in places (R5).
        let is_covered = tail.logged_seq >= tail.last_seq && options.routes.is_empty();
        let base = match tail.base.filter(|_| is_covered) {
            Some(base) => {
                let path = location.base_path(base.number);
                // Without its file it is worth nothing; the log goes on as if there were none.
                let bytes =
                    if storage.exists(&path)? { Some(storage.open(&path)?.len()?) } else { None };
                bytes.map(|bytes| ListedBase { base, bytes, pinned_max_bytes: u64::MAX })
            }
            None => None,
        };
        let listed = tail.segments.iter().map(|segment| Listed {
            number: segment.number,
            previous_seq: segment.previous_seq,
            used_bytes: segment.bytes,
            parts: Vec::new(),
        });
        let catalog = Catalog {
            listed: listed.collect(),
            incomplete: tail.incomplete || !options.routes.is_empty(),
            base,
            next_number: tail.next_number,
            ..Catalog::default()
        };
        let segments = Self {
            storage,
            location,
            segment_bytes: options.segment_bytes,
            secret: tail.secret.unwrap_or_else(random_u64),
            // Archived is the file itself where it can be, so none is left for reuse.
            spares_max: AtomicUsize::new(match options.archive_dir {
                Some(_) => 0,
                None => options.recycled_segments_max,
            }),
            recycles: AtomicBool::new(true),
            archive_dir: options.archive_dir.clone(),
            routes: options.routes.clone(),
            preparing: Mutex::new(()),
            cleaning: Mutex::new(()),
            catalog: Mutex::new(catalog),
            ready: Mutex::default(),
            is_on_disk: AtomicBool::new(false),
            notes: Mutex::default(),
        };
        // The listing now drops what recovery gave up; only then may those files go.
        if let Some(dir) = &segments.archive_dir {
            segments.storage.create_dir_all(dir)?;
        }
        segments.prepare(options.policy)?;
        let kept: Vec<u64> = tail.segments.iter().map(|segment| segment.number).collect();
        for number in on_disk.segments.iter().filter(|number| !kept.contains(number)) {
            segments.storage.remove(&segments.location.segment_path(*number))?;
        }
        let is_given_up = |number| on_disk.segments.contains(&number) && !kept.contains(&number);
        remove_parts(&*segments.storage, &segments.location, is_given_up)?;
        if let Some(base) = on_disk.base.filter(|_| segments.catalog().base.is_none()) {
            let path = segments.location.base_path(base.number);
            if segments.storage.exists(&path)? {
                segments.storage.remove(&path)?;
            }
        }
        Ok(segments)
    }

    /// What proves that an annotation is the log's own; stored in the list of segments.
    pub(in crate::aof) fn secret(&self) -> u64 {
        self.secret
    }

    /// Segments are on a rotating disk.
    pub(in crate::aof) fn is_on_disk(&self) -> bool {
        self.is_on_disk.load(Ordering::Relaxed)
    }

    /// The lists, up to date with what the writer has said.
    fn catalog(&self) -> MutexGuard<'_, Catalog> {
        let mut catalog = self.catalog.lock();
        for note in self.notes.lock().drain(..) {
            let (Note::Started { number, .. } | Note::Used { number, .. }) = note;
            let listed = catalog.listed.iter_mut().rev().find(|listed| listed.number == number);
            match (listed, note) {
                (Some(listed), Note::Started { previous_seq, .. }) => {
                    listed.previous_seq = Some(previous_seq);
                }
                (Some(listed), Note::Used { bytes, parts, .. }) => {
                    (listed.used_bytes, listed.parts) = (bytes, parts);
                }
                (None, _) => {}
            }
        }
        catalog
    }

    /// The next segment, for writing: the one that is ready, or one made on the spot.
    pub(in crate::aof) fn next(&self) -> Result<Segment, LogError> {
        if let Some(segment) = self.ready.lock().pop_front() {
            return Ok(segment);
        }
        // Waits for a preparation that is under way rather than making a second file.
        let _turn = self.preparing.lock();
        loop {
            if let Some(segment) = self.ready.lock().pop_front() {
                return Ok(segment);
            }
            self.prepare_locked(SyncPolicy::No)?;
        }
    }

    /// The segment's header is written: from here on it counts.
    pub(in crate::aof) fn started(&self, header: &SegmentHeader) {
        let (number, previous_seq) = (header.number, header.previous_seq);
        self.notes.lock().push(Note::Started { number, previous_seq });
    }

    /// The segment is used up to its end.
    pub(in crate::aof) fn used(&self, segment: &Segment) {
        let used = |part: &Part| (file_name(part.file.path()).to_path_buf(), part.end);
        let parts = segment.parts.iter().map(used).collect();
        let (number, bytes) = (segment.number, segment.end);
        self.notes.lock().push(Note::Used { number, bytes, parts });
    }

    /// Gives up the segments with nothing above `mark`, unless a base needs them: one that is being
    /// written keeps those behind it, and one that is listed keeps all until they are too many.
    pub(in crate::aof) fn retire_through(&self, mark: u64) -> Result<(), LogError> {
        let mut catalog = self.catalog();
        if let Some(base) = catalog.base {
            let pinned: u64 = catalog.listed.iter().map(|listed| listed.used_bytes).sum();
            if pinned <= base.pinned_max_bytes || catalog.hold_after.is_some() {
                return Ok(());
            }
            self.replace_base(&mut catalog, None)?;
        }
        let mark = catalog.hold_after.map_or(mark, |hold| mark.min(hold));
        self.retire_locked(&mut catalog, mark)
    }

    /// From now on segments with something above `seq` stay, until a base is
    /// [installed](Self::install_base) or this is called with `None`.
    pub(in crate::aof) fn hold_after(&self, seq: Option<u64>) {
        self.catalog().hold_after = seq;
    }

    /// Lists the base in [`LogLocation::new_base_path`], which holds everything up to `through_seq`,
    /// where a segment starts, and gives up what is before it. Everything up to there must be
    /// durable without the log.
    pub(in crate::aof) fn install_base(
        &self,
        through_seq: u64,
        pinned_max_bytes: u64,
    ) -> Result<(), LogError> {
        let mut catalog = self.catalog();
        if catalog.hold_after != Some(through_seq) {
            let reason = "the log has failed since its base was begun".to_owned();
            return Err(LogError::Failed { reason });
        }
        let temporary = self.location.new_base_path();
        let bytes = self.storage.open(&temporary)?.len()?;
        let number = catalog.next_number;
        catalog.next_number += 1;
        self.storage.rename(&temporary, &self.location.base_path(number))?;
        // First the segments: until the list names the base, it refuses a redis-server.
        self.replace_base(&mut catalog, None)?;
        self.retire_locked(&mut catalog, through_seq)?;
        let base = Base { number, through_seq };
        self.replace_base(&mut catalog, Some(ListedBase { base, bytes, pinned_max_bytes }))?;
        catalog.hold_after = None;
        Ok(())
    }

    /// The log has a hole from here on: base and segments are no longer the whole data.
    pub(in crate::aof) fn give_up_base(&self) -> Result<(), LogError> {
        let mut catalog = self.catalog();
        catalog.hold_after = None;
        if catalog.base.is_some() { self.replace_base(&mut catalog, None) } else { Ok(()) }
    }

    /// The new bound of the segments behind the base.
    pub(in crate::aof) fn set_pinned_max(&self, bytes: u64) {
        if let Some(base) = &mut self.catalog().base {
            base.pinned_max_bytes = bytes;
        }
    }

    /// Bytes of the base and of the used-up segments behind it, when there is one.
    pub(in crate::aof) fn base_bytes(&self) -> Option<(u64, u64)> {
        let catalog = self.catalog();
        let segments = catalog.listed.iter().map(|listed| listed.used_bytes).sum();
        catalog.base.map(|base| (base.bytes, segments))
    }

    fn replace_base(
        &self,
        catalog: &mut Catalog,
        base: Option<ListedBase>,
    ) -> Result<(), LogError> {
        let old = std::mem::replace(&mut catalog.base, base);
        let was_incomplete = std::mem::replace(&mut catalog.incomplete, true);
        if let Err(error) = self.store_listing(catalog) {
            catalog.base = old;
            catalog.incomplete = was_incomplete;
            return Err(error);
        }
        if let Some(old) = old {
            self.storage.remove(&self.location.base_path(old.base.number))?;
        }
        Ok(())
    }

    fn retire_locked(&self, catalog: &mut Catalog, mark: u64) -> Result<(), LogError> {
        let low = |listed: &Listed| listed.previous_seq.is_some_and(|previous| previous <= mark);
        let keep_from = catalog.listed.iter().rposition(low).unwrap_or(0);
        if keep_from == 0 {
            return Ok(());
        }
        if let Some(dir) = &self.archive_dir {
            // First the archive: what is not listed any more, a start clears away.
            for listed in &catalog.listed[..keep_from] {
                self.archive(dir, listed)?;
            }
            self.storage.sync_dir(dir)?;
        }
        let kept = catalog.listed.split_off(keep_from);
        let retired = std::mem::replace(&mut catalog.listed, kept);
        let was_incomplete = std::mem::replace(&mut catalog.incomplete, true);
        if let Err(error) = self.store_listing(catalog) {
            let kept = std::mem::replace(&mut catalog.listed, retired);
            catalog.listed.extend(kept);
            catalog.incomplete = was_incomplete;
            return Err(error);
        }
        catalog.retired += retired.len() as u64;
        let numbers: Vec<_> = retired.iter().map(|listed| listed.number).collect();
        for Listed { number, used_bytes, .. } in retired {
            let path = self.location.segment_path(number);
            let spares_max = match self.recycles.load(Ordering::Acquire) {
                true => self.spares_max.load(Ordering::Acquire),
                false => 0,
            };
            if catalog.spares.len() < spares_max {
                self.storage.rename(&path, &self.location.spare_path(number))?;
                catalog.spares.push(Spare { number, dirty_bytes: used_bytes });
            } else {
                self.storage.remove(&path)?;
            }
        }
        // Last: whoever copies a segment that is there finds its parts.
        Ok(remove_parts(&*self.storage, &self.location, |number| numbers.contains(&number))?)
    }

    /// Bytes in all listed segments, and how many segments were retired.
    pub(in crate::aof) fn figures(&self) -> (u64, u64) {
        let catalog = self.catalog();
        let routed = |listed: &Listed| listed.parts.iter().map(|(_, bytes)| bytes).sum::<u64>();
        let bytes = |listed: &Listed| listed.used_bytes + routed(listed);
        (catalog.listed.iter().map(bytes).sum(), catalog.retired)
    }

    fn store_listing(&self, catalog: &Catalog) -> Result<(), LogError> {
        let segments = catalog.listed.iter().map(|listed| listed.number).collect();
        let base = catalog.base.map(|listed| listed.base);
        let secret = Some(self.secret);
        let listing = Listing { segments, incomplete: catalog.incomplete, base, secret };
        listing.store(&*self.storage, &self.location)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aof::supersede;
    use crate::device::sim::SimStorage;
    use std::path::Path;
    use std::sync::mpsc;
    use std::time::Duration;

    /// A list that is being stored waits for several syncs; the writer goes on meanwhile.
    #[test]
    fn the_writer_takes_what_is_ready_while_the_list_is_being_stored() {
        let storage = SimStorage::new();
        storage.create_dir_all(Path::new("/data")).expect("mkdir");
        let dir = PathBuf::from("/data/appendonlydir");
        let options = LogOptions::new(LogLocation { dir, file_name: "appendonly.aof".to_owned() });
        let tail = supersede(&storage, &options.location, 0).expect("an empty log");
        let segments = Segments::open(Arc::new(storage), &options, &tail).expect("opens");
        let (done, is_done) = mpsc::channel();
        let storing = segments.catalog.lock();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut segment = segments.next().expect("one is ready");
                segment.end = 5000;
                let (epoch, number) = (1, segment.number);
                let (previous_seq, after_seq, synced_seq, filled_bytes) = (7, 7, 0, 0);
                let header = SegmentHeader {
                    epoch,
                    number,
                    previous_seq,
                    after_seq,
                    synced_seq,
                    filled_bytes,
                };
                segments.started(&header);
                segments.used(&segment);
                done.send(()).expect("somebody waits");
            });
            let went_on = is_done.recv_timeout(Duration::from_secs(20));
            drop(storing);
            went_on.expect("the writer does not wait for the list");
        });
        assert_eq!(segments.figures(), (5000, 0), "and is heard afterwards");
        assert_eq!(segments.catalog().listed.last().and_then(|last| last.previous_seq), Some(7));
    }
}

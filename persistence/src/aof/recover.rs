//! Reading the log after a start.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::annotation::{ALIGNMENT_BYTES, ANNOTATION_MIN_BYTES, Annotation, annotation_bytes};
use super::filled::filled_bytes;
use super::foreign::begin_of_foreign;
use super::listing::{Base, Listing};
use super::route::{read_extents, splice, split_extents, sync_parts};
use super::stamp::split_stamp;
use super::window::Window;
use super::write_again::write_again;
use super::{FILLER, HEADER_BYTES, LogError, LogLocation, SegmentHeader};
use crate::device::{File, Storage};

/// One group, as recovery hands it to the engine.
#[derive(Debug, Clone, Copy)]
pub struct RecoveredGroup<'a> {
    /// Incarnation that wrote it.
    pub epoch: u32,
    /// Sequence of the first command that takes one.
    pub first_seq: u64,
    /// Sequences in the group; running the commands again must use up exactly as many (N1).
    pub count: u64,
    /// The second it was written in, where the log has time annotations.
    pub time_s: Option<u64>,
    /// RESP arrays, one after the other, beginning with a SELECT.
    pub commands: &'a [u8],
    /// The segment, for error messages.
    pub file: &'a Path,
    /// Offset of the group in the segment.
    pub offset: u64,
}

/// A torn tail that was cut off. Nothing in it was known to be durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TailCut {
    /// The segment.
    pub file: PathBuf,
    /// Its new length.
    pub offset: u64,
    /// Bytes behind it that were no filler, later segments included.
    pub lost_bytes: u64,
}

/// The end of a recovered log: what [`Log::open`](super::Log::open) continues from.
#[derive(Debug)]
pub struct LogTail {
    /// The last sequence recovered, at least the recovery mark.
    pub last_seq: u64,
    /// What was cut off, if anything.
    pub cut: Option<TailCut>,
    /// The last sequence of the last group in the files.
    pub(super) logged_seq: u64,
    pub(super) segments: Vec<TailSegment>,
    pub(super) incomplete: bool,
    pub(super) base: Option<Base>,
    /// Above every number ever used.
    pub(super) next_number: u64,
    /// What proves its annotations.
    pub(super) secret: Option<u64>,
}

/// The end of a log whose content is no longer needed, because everything up to `mark` is durable
/// elsewhere: its segments go when the next one has started. A directory without a log is fine.
///
/// # Errors
///
/// A failing device, or an AOF manifest that is not ours: nothing of it is given up then.
pub fn supersede(
    storage: &dyn Storage,
    location: &LogLocation,
    mark: u64,
) -> Result<LogTail, LogError> {
    let listing = Listing::load(storage, location)?.unwrap_or_default();
    Ok(LogTail {
        last_seq: mark,
        cut: None,
        logged_seq: mark,
        segments: Vec::new(),
        incomplete: true,
        base: None,
        next_number: listing.next_number(),
        secret: listing.secret,
    })
}

/// A segment that recovery leaves in place.
#[derive(Debug, Clone, Copy)]
pub(super) struct TailSegment {
    pub(super) number: u64,
    /// The last sequence logged before it; `None` when its header is unreadable.
    pub(super) previous_seq: Option<u64>,
    pub(super) bytes: u64,
}

#[derive(Debug)]
pub(super) struct Segment {
    pub(super) number: u64,
    pub(super) file: Arc<dyn File>,
    pub(super) bytes: u64,
    pub(super) header: Option<SegmentHeader>,
}

/// A log being read.
#[derive(Debug)]
pub struct Recovery {
    storage: Arc<dyn Storage>,
    location: LogLocation,
    listing: Listing,
    segments: Vec<Segment>,
    mark: u64,
    synced_hint: u64,
    /// The last sequence of which what was read says that it was synced.
    synced_seq: u64,
    /// First segment that may hold sequences above the mark.
    first: usize,
    at: usize,
    offset: u64,
    expected_seq: u64,
    logged_seq: u64,
    window: Option<Window>,
    /// The commands of the last group, where some of them are elsewhere.
    spliced: Vec<u8>,
    done_bytes: u64,
    /// Estimated bytes of groups to be read.
    all_bytes: u64,
    lost_bytes: u64,
    ended: bool,
    accepts_loss: bool,
    /// The log ends in front of the first group of a later second.
    until_s: Option<u64>,
    /// The second of the group at which it did.
    stopped_at_s: Option<u64>,
}

/// Opens the log for reading. `mark` is the recovery mark: groups up to it are skipped (N1).
/// `synced_hint` is a sequence known from elsewhere to have been synced, 0 if none is known: the
/// log must reach it (N8). A directory or AOF manifest that does not exist is an empty log.
///
/// # Errors
///
/// Everything in [`LogError`] but `Failed` and `NeverAppended`.
pub fn recover(
    storage: &Arc<dyn Storage>,
    location: &LogLocation,
    mark: u64,
    synced_hint: u64,
) -> Result<Recovery, LogError> {
    let listing = Listing::load(&**storage, location)?;
    if listing.is_none() && synced_hint > mark {
        return Err(LogError::MissingSegment { file: location.manifest_path() });
    }
    let listing = listing.unwrap_or_default();
    check_unlisted(&**storage, location, &listing)?;
    let mut segments = Vec::with_capacity(listing.segments.len());
    for number in &listing.segments {
        segments.push(Segment::open(&**storage, location, *number)?);
    }
    let mut recovery = Recovery {
        storage: Arc::clone(storage),
        location: location.clone(),
        listing,
        segments,
        mark,
        synced_hint,
        synced_seq: synced_hint.max(mark),
        first: 0,
        at: 0,
        offset: 0,
        expected_seq: mark + 1,
        logged_seq: mark,
        window: None,
        spliced: Vec::new(),
        done_bytes: 0,
        all_bytes: 0,
        lost_bytes: 0,
        ended: false,
        accepts_loss: false,
        until_s: None,
        stopped_at_s: None,
    };
    recovery.find_start()?;
    for segment in &recovery.segments[recovery.first..] {
        recovery.all_bytes += filled_bytes(&*segment.file, segment.bytes)?;
    }
    Ok(recovery)
}

/// A segment is listed before its header is written. One with a header and a number above all that are
/// listed is log that a lost or old AOF manifest does not know: nothing may clear it away.
fn check_unlisted(
    storage: &dyn Storage,
    location: &LogLocation,
    listing: &Listing,
) -> Result<(), LogError> {
    if !storage.exists(&location.dir)? {
        return Ok(());
    }
    let last = listing.segments.last().copied();
    for name in storage.list(&location.dir)? {
        let Some(number) = location.segment_number(&name) else { continue };
        if last.is_some_and(|last| number <= last) {
            continue;
        }
        if Segment::open(storage, location, number)?.header.is_some() {
            let (file, manifest) = (location.segment_path(number), location.manifest_path());
            return Err(LogError::UnlistedSegment { file, manifest });
        }
    }
    Ok(())
}

impl Segment {
    pub(super) fn open(
        storage: &dyn Storage,
        location: &LogLocation,
        number: u64,
    ) -> Result<Self, LogError> {
        let path = location.segment_path(number);
        if !storage.exists(&path)? {
            return Err(LogError::MissingSegment { file: path });
        }
        let file = storage.open(&path)?;
        let bytes = file.len()?;
        let mut line = [0; HEADER_BYTES];
        let known = bytes.min(HEADER_BYTES as u64) as usize;
        file.read_exact_at(&mut line[..known], 0)?;
        if line.starts_with(b"REDIS") {
            return Err(LogError::Foreign { file: path, manifest: location.manifest_path() });
        }
        let header = SegmentHeader::decode(&line).filter(|header| header.number == number);
        Ok(Self { number, file, bytes, header })
    }
}

impl Recovery {
    /// Skips the segments that end at or below the mark: the next header says where they end.
    fn find_start(&mut self) -> Result<(), LogError> {
        let mark = self.mark;
        let starts_low_enough =
            |segment: &Segment| segment.header.is_some_and(|header| header.previous_seq <= mark);
        if let Some(first) = self.segments.iter().rposition(starts_low_enough) {
            self.first = first;
            self.enter(first);
            return Ok(());
        }
        if let Some((segment, header)) =
            self.segments.first().and_then(|segment| Some((segment, segment.header?)))
        {
            let file = segment.file.path().to_path_buf();
            return Err(LogError::StartsAboveMark {
                file,
                previous_seq: header.previous_seq,
                mark,
            });
        }
        // The oldest has no header: a crash while the very first segment was made, or one that lost it, and whatever
        // else had not been synced, with some segment behind it whole; or nothing ever.
        self.check_evidence(0)?;
        self.ended = true;
        Ok(())
    }

    fn enter(&mut self, index: usize) {
        let segment = &self.segments[index];
        self.at = index;
        self.offset = HEADER_BYTES as u64;
        self.window = Some(Window::new(Arc::clone(&segment.file), segment.bytes));
        if let Some(header) = segment.header {
            if index == self.first {
                self.logged_seq = header.previous_seq;
            }
            self.expected_seq = header.after_seq + 1;
            self.synced_seq = self.synced_seq.max(header.synced_seq);
        }
    }

    /// The next group above the mark, `None` at the end of the log. Holds one group in memory.
    ///
    /// # Errors
    ///
    /// Damage, a hole in the sequences, or a failing device. Not an error: a torn tail.
    pub fn next_group(&mut self) -> Result<Option<RecoveredGroup<'_>>, LogError> {
        while !self.ended {
            let offset = self.offset;
            let epoch = self.epoch();
            let found = match &mut self.window {
                Some(window) => window.group(offset, epoch..=epoch)?,
                None => None,
            };
            let Some((annotation, length)) = found else {
                self.end_segment()?;
                continue;
            };
            if annotation.first_seq != self.expected_seq {
                if self.accepts_loss {
                    self.check_evidence(self.at)?;
                    self.ended = true;
                    continue;
                }
                return Err(self.gap(annotation.first_seq));
            }
            let head = annotation_bytes(annotation.command_bytes as usize);
            let Some(window) = &mut self.window else { break };
            let (extents, content) = split_extents(&window.get(offset, length)?[head..]);
            let (time_s, _) = split_stamp(content);
            if time_s.is_some_and(|time_s| self.until_s.is_some_and(|until_s| time_s > until_s)) {
                self.stopped_at_s = time_s;
                // Whether what follows was acknowledged or is whole does not matter any more.
                self.accepts_loss = true;
                self.check_evidence(self.at)?;
                self.ended = true;
                continue;
            }
            let is_routed = !extents.is_empty() && annotation.last_seq() > self.mark;
            if is_routed {
                let (storage, number) = (&*self.storage, self.segments[self.at].number);
                let records = read_extents(storage, &self.location, number, &extents)?;
                let Some(spliced) = records.and_then(|records| splice(content, &extents, &records))
                else {
                    // As good as no group (R1).
                    self.end_segment()?;
                    continue;
                };
                self.spliced = spliced;
            }
            self.offset += length;
            self.done_bytes += length;
            self.synced_seq = self.synced_seq.max(annotation.synced_seq);
            if annotation.count == 0 {
                continue;
            }
            self.logged_seq = annotation.last_seq();
            self.expected_seq = self.logged_seq + 1;
            if self.logged_seq <= self.mark {
                continue;
            }
            if annotation.first_seq <= self.mark {
                // A group never straddles a memtable, so it cannot straddle the mark (N1).
                self.offset = offset;
                self.expected_seq = self.mark + 1;
                return Err(self.gap(annotation.first_seq));
            }
            let file = self.segments[self.at].file.path();
            let Some(window) = &mut self.window else { break };
            let content = match is_routed {
                true => self.spliced.as_slice(),
                false => &window.get(offset, length)?[head..],
            };
            let (_, commands) = split_stamp(content);
            return Ok(Some(RecoveredGroup {
                time_s,
                epoch,
                first_seq: annotation.first_seq,
                count: annotation.count,
                commands,
                file,
                offset,
            }));
        }
        Ok(None)
    }

    fn epoch(&self) -> u32 {
        self.segments.get(self.at).and_then(|segment| segment.header).map_or(0, |h| h.epoch)
    }

    fn gap(&self, got_seq: u64) -> LogError {
        LogError::SequenceGap {
            file: self.segments[self.at].file.path().to_path_buf(),
            offset: self.offset,
            expected_seq: self.expected_seq,
            got_seq,
        }
    }

    /// No valid group at the current offset: the segment's end, the log's end, or damage.
    fn end_segment(&mut self) -> Result<(), LogError> {
        let next = self.at + 1;
        if let Some(header) = self.segments.get(next).and_then(|segment| segment.header) {
            let follows = header.previous_seq == self.logged_seq && header.epoch >= self.epoch();
            if follows && header.after_seq >= self.logged_seq {
                self.enter(next);
                return Ok(());
            }
        }
        self.check_evidence(self.at)?;
        self.ended = true;
        Ok(())
    }

    /// Refuses a log to which another server has appended: what it wrote is no torn tail.
    fn check_foreign(&self, at: usize) -> Result<(), LogError> {
        for (index, segment) in self.segments.iter().enumerate().skip(at) {
            let is_end = index == self.at && self.window.is_some();
            if segment.header.is_some() && !is_end {
                continue;
            }
            let from = if is_end { self.offset } else { 0 };
            let mut window = Window::new(Arc::clone(&segment.file), segment.bytes);
            let filled_bytes = segment.header.map_or(0, |header| header.filled_bytes);
            if let Some(offset) = begin_of_foreign(&mut window, from, filled_bytes)? {
                let file = segment.file.path().to_path_buf();
                let manifest = self.location.manifest_path();
                return Err(LogError::ForeignWrites { file, offset, manifest });
            }
        }
        Ok(())
    }

    /// Cut or refuse (N8): looks through everything behind the current offset for a word that
    /// what is missing here had been synced.
    fn check_evidence(&mut self, at: usize) -> Result<(), LogError> {
        if !self.accepts_loss {
            self.check_foreign(at)?;
        }
        let mut synced_seq = self.synced_hint;
        self.lost_bytes = 0;
        for (index, segment) in self.segments.iter().enumerate().skip(at) {
            let mut from = if index == self.at { self.offset } else { 0 };
            // Where the header is unreadable, any group not older than what was read is a witness.
            let epochs = match segment.header {
                Some(header) => {
                    if index != self.at || self.window.is_none() {
                        synced_seq = synced_seq.max(header.synced_seq);
                    }
                    header.epoch..=header.epoch
                }
                None => self.epoch()..=u32::MAX,
            };
            let mut window = Window::new(Arc::clone(&segment.file), segment.bytes);
            self.lost_bytes += behind(&mut window, from)?;
            from = from.next_multiple_of(ALIGNMENT_BYTES as u64);
            while from + ANNOTATION_MIN_BYTES as u64 <= segment.bytes {
                // Before anything else is looked at: a value may hold what looks like a group at each of its lines.
                let is_own = match self.listing.secret {
                    Some(secret) => {
                        let line = window.get(from, ANNOTATION_MIN_BYTES as u64)?;
                        Annotation::is_proven(line, secret)
                    }
                    None => true,
                };
                let group = if is_own { window.group(from, epochs.clone())? } else { None };
                match group {
                    Some((annotation, length)) => {
                        synced_seq = synced_seq.max(annotation.synced_seq);
                        from += length;
                    }
                    None => from += ALIGNMENT_BYTES as u64,
                }
            }
        }
        // What lies up to the mark is in the tables; its loss here is no loss.
        if self.accepts_loss || synced_seq < self.expected_seq.max(self.mark + 1) {
            return Ok(());
        }
        let file = match self.segments.get(at) {
            Some(segment) => segment.file.path().to_path_buf(),
            None => self.location.manifest_path(),
        };
        let (offset, expected_seq) = (self.offset, self.expected_seq);
        Err(LogError::Damaged { file, offset, expected_seq, synced_seq })
    }

    /// Bytes of groups read so far and to be read in all, for progress lines. Filler that was prepared behind them does
    /// not count. What a group has on other devices (`aof-route`) does not count either. The second figure is an estimate:
    /// it counts groups below the recovery mark, which are read fast, and a tail that will be cut off.
    #[must_use]
    pub fn progress(&self) -> (u64, u64) {
        (self.done_bytes, self.all_bytes.max(self.done_bytes))
    }

    /// From now on the log ends where it can no longer be read, even if what follows had been acknowledged:
    /// for a repair that somebody asked for.
    pub fn accept_loss(&mut self) {
        self.accepts_loss = true;
    }

    /// The log ends in front of the first group of a second after `time_s`, whatever follows. Groups without
    /// a time go with those before them.
    pub fn end_after(&mut self, time_s: u64) {
        self.until_s = Some(time_s);
    }

    /// The second of the group at which [`end_after`](Self::end_after) has ended the log; `None` when there was
    /// none.
    #[must_use]
    pub fn ended_before_s(&self) -> Option<u64> {
        self.stopped_at_s
    }

    /// The torn tail that [`finish`](Self::finish) would cut off; known when
    /// [`next_group`](Self::next_group) has answered `None`.
    #[must_use]
    pub fn torn_tail(&self) -> Option<TailCut> {
        let segment = self.segments.get(self.at).filter(|_| self.lost_bytes > 0)?;
        let file = segment.file.path().to_path_buf();
        Some(TailCut { file, offset: self.offset, lost_bytes: self.lost_bytes })
    }

    /// Bytes behind the end of the log that are no filler; known when [`next_group`](Self::next_group)
    /// has answered `None`.
    #[must_use]
    pub fn lost_bytes(&self) -> u64 {
        self.lost_bytes
    }

    /// As [`finish`](Self::finish), and empties the segments behind the cut, so that the next start finds
    /// no word of what was lost. They stay listed: no number is used twice.
    ///
    /// # Errors
    ///
    /// As for [`finish`](Self::finish).
    pub fn finish_and_empty(mut self) -> Result<Option<TailCut>, LogError> {
        while self.next_group()?.is_some() {}
        let kept = if self.window.is_none() { 0 } else { self.at + 1 };
        let behind: Vec<_> =
            self.segments.iter().skip(kept).map(|segment| Arc::clone(&segment.file)).collect();
        let cut = self.finish()?.cut;
        for file in behind {
            file.set_len(0)?;
            file.sync_data()?;
        }
        Ok(cut)
    }

    /// Reads what is left, cuts off a torn tail, and makes everything recovered durable: after a
    /// mere end of the process it may be in the page cache only.
    ///
    /// # Errors
    ///
    /// A failing device, or damage in what was not read yet.
    pub fn finish(mut self) -> Result<LogTail, LogError> {
        while self.next_group()?.is_some() {}
        let kept = if self.segments.is_empty() || self.window.is_none() { 0 } else { self.at + 1 };
        let mut cut = None;
        if let Some(segment) = kept.checked_sub(1).map(|last| &mut self.segments[last]) {
            if segment.bytes > self.offset {
                segment.file.set_len(self.offset)?;
                segment.bytes = self.offset;
            }
            let file = segment.file.path().to_path_buf();
            let (offset, lost_bytes) = (self.offset, self.lost_bytes);
            cut = (lost_bytes > 0).then_some(TailCut { file, offset, lost_bytes });
        }
        let read = &self.segments[self.first..kept.max(self.first)];
        for (index, segment) in read.iter().enumerate() {
            let next = read.get(index + 1).and_then(|next| next.header);
            let last_seq = next.map_or(self.logged_seq, |next| next.previous_seq);
            // With a group that was synced the header was, too.
            let has_groups = segment.header.is_some_and(|header| header.previous_seq < last_seq);
            if last_seq > self.synced_seq || !has_groups {
                write_again(&*self.storage, &self.location, segment, self.synced_seq)?;
            }
            segment.file.sync_data()?;
        }
        if !read.is_empty() {
            let is_read = |number| read.iter().any(|segment| segment.number == number);
            sync_parts(&*self.storage, &self.location, is_read)?;
        }
        let next_number = self.listing.next_number();
        if kept < self.segments.len() {
            // The last number stays listed until a higher one is, so that none is used twice.
            self.segments.truncate(kept);
        }
        let describe = |segment: &Segment| TailSegment {
            number: segment.number,
            previous_seq: segment.header.map(|header| header.previous_seq),
            bytes: segment.bytes,
        };
        Ok(LogTail {
            last_seq: self.logged_seq.max(self.mark),
            cut,
            logged_seq: self.logged_seq,
            segments: self.segments.iter().map(describe).collect(),
            incomplete: self.listing.incomplete,
            base: self.listing.base,
            next_number,
            secret: self.listing.secret,
        })
    }
}

/// Bytes from `from` on that are no filler.
fn behind(window: &mut Window, from: u64) -> Result<u64, LogError> {
    let mut lost_bytes = 0;
    let mut at = from;
    while at < window.file_bytes() {
        let line = window.get(at, ALIGNMENT_BYTES as u64)?;
        if *line != FILLER {
            lost_bytes += line.len() as u64;
        }
        at += line.len() as u64;
    }
    Ok(lost_bytes)
}

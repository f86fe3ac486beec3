//! The buffer into which commits copy their commands, and the groups that come out of it.

use std::mem;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::annotation::{ALIGNMENT_BYTES, ANNOTATION_MIN_BYTES, Annotation, annotation_bytes};
use super::gauge::BufferGauge;
use super::route::{
    EXTENT_BYTES, Extent, RECORD_LINE_BYTES, ROUTES_MAX, largest_argument, link_record_line,
    write_record_line,
};
use super::stamp::{LogClock, STAMP_MAX_BYTES, write_stamp};

/// A group is closed when another append would bring its commands above this size.
pub const GROUP_TARGET_BYTES: usize = 256 << 10;
/// Room in front of the commands, so that sealing copies nothing.
const HEAD_BYTES: usize = ANNOTATION_MIN_BYTES + ALIGNMENT_BYTES + ROUTES_MAX * EXTENT_BYTES;
const CHUNK_BYTES: usize = HEAD_BYTES + GROUP_TARGET_BYTES;
/// Chunks a new buffer starts with, touched so that the first writes meet no fresh page.
pub(crate) const CHUNKS_AT_START: usize = 4;
/// Unused chunks that are kept for the next burst; more go back to the allocator.
pub(crate) const SPARE_CHUNKS_MAX: usize = 256;

/// Bytes of the chunks of all logs of the process, in use or kept for reuse.
static HELD_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Memory of the buffers of all logs of the process, in bytes.
#[must_use]
pub fn held_bytes() -> u64 {
    HELD_BYTES.load(Ordering::Relaxed) as u64
}

/// Memory that is counted.
#[derive(Debug)]
struct Chunk(Box<[u8]>);

impl Chunk {
    fn new(bytes: usize) -> Self {
        HELD_BYTES.fetch_add(bytes, Ordering::Relaxed);
        // Not zeroed lazily by the kernel: a fresh page costs microseconds, and the first one to
        // touch it would be a commit.
        Self(vec![b' '; bytes].into_boxed_slice())
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        HELD_BYTES.fetch_sub(self.0.len(), Ordering::Relaxed);
    }
}

impl Deref for Chunk {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for Chunk {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

/// Commands of consecutive sequences that become one group of the log.
#[derive(Debug)]
pub struct Group {
    /// Wholly initialised; commands are at `HEAD_BYTES..end`.
    chunk: Chunk,
    end: usize,
    first_seq: u64,
    last_seq: u64,
    selected_db: Option<u32>,
    /// The second it is of, when the log has time annotations.
    time_s: Option<u64>,
    starts_segment_after: Option<u64>,
    /// Records that go to other devices, by route; as long as the last route used.
    routed: Vec<Vec<u8>>,
    /// Where the first and the last line that stand for them are, behind [`HEAD_BYTES`].
    record_lines: Option<(u32, u32)>,
}

impl Group {
    fn new(command_bytes_max: usize) -> Self {
        Self {
            chunk: Chunk::new(HEAD_BYTES + command_bytes_max),
            end: HEAD_BYTES,
            first_seq: 0,
            last_seq: 0,
            selected_db: None,
            time_s: None,
            starts_segment_after: None,
            routed: Vec::new(),
            record_lines: None,
        }
    }

    /// An empty group of the usual size.
    pub(crate) fn regular() -> Self {
        Self::new(GROUP_TARGET_BYTES)
    }

    /// A group without sequences, which only carries an annotation.
    pub(crate) fn closing(next_seq: u64) -> Self {
        Self { first_seq: next_seq, last_seq: next_seq - 1, ..Self::new(0) }
    }

    /// A segment that starts after `mark` exists already.
    pub(crate) fn forget_cut_at(&mut self, mark: u64) {
        if self.starts_segment_after == Some(mark) {
            self.starts_segment_after = None;
        }
    }

    fn reset(&mut self) {
        self.end = HEAD_BYTES;
        self.selected_db = None;
        self.time_s = None;
        self.starts_segment_after = None;
        self.record_lines = None;
        for records in &mut self.routed {
            records.clear();
            records.shrink_to(GROUP_TARGET_BYTES);
        }
    }

    /// The annotation of its second, in front of everything else.
    fn begin(&mut self, time_s: u64) {
        self.end += write_stamp(&mut self.chunk[HEAD_BYTES..], time_s);
        self.time_s = Some(time_s);
    }

    /// Worth keeping for reuse: neither grown nor shrunk.
    pub(crate) fn is_regular(&self) -> bool {
        self.chunk.len() == CHUNK_BYTES
    }

    /// Length of the commands, SELECT included, with those that go to other devices.
    #[must_use]
    pub fn command_bytes(&self) -> usize {
        self.own_bytes() + self.routed_bytes()
    }

    /// Length of what is in the group itself.
    fn own_bytes(&self) -> usize {
        self.end - HEAD_BYTES
    }

    fn routed_bytes(&self) -> usize {
        self.routed.iter().map(Vec::len).sum()
    }

    /// The records that go to other devices, each with its route.
    pub(crate) fn routed(&self) -> impl Iterator<Item = (usize, &[u8])> {
        let routes = self.routed.iter().map(Vec::as_slice).enumerate();
        routes.filter(|(_, records)| !records.is_empty())
    }

    /// Where the line that stands for the first of them is.
    pub(super) fn first_record_line(&self) -> u32 {
        self.record_lines.map_or(0, |(first, _)| first)
    }

    /// Puts `parts` with the records of `route`, and the line that stands for them into the group.
    fn add_routed(&mut self, route: usize, parts: &[&[u8]]) {
        if self.routed.len() <= route {
            self.routed.resize_with(route + 1, Vec::new);
        }
        let records = &mut self.routed[route];
        let before = records.len();
        parts.iter().for_each(|part| records.extend_from_slice(part));
        let bytes = records.len() - before;
        let at = u32::try_from(self.end - HEAD_BYTES).unwrap_or(u32::MAX);
        self.record_lines = match self.record_lines {
            None => Some((at, at)),
            Some((first, last)) => {
                link_record_line(&mut self.chunk[HEAD_BYTES + last as usize..], at);
                Some((first, at))
            }
        };
        self.end += write_record_line(&mut self.chunk[self.end..], route, bytes);
    }

    /// True when nothing was appended; such a group exists only to start a segment.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.last_seq < self.first_seq || self.first_seq == 0
    }

    /// First sequence.
    #[must_use]
    pub fn first_seq(&self) -> u64 {
        self.first_seq
    }

    /// Last sequence.
    #[must_use]
    pub fn last_seq(&self) -> u64 {
        self.last_seq
    }

    /// A memtable was frozen at this sequence right before the group: a new segment starts here.
    #[must_use]
    pub fn starts_segment_after(&self) -> Option<u64> {
        self.starts_segment_after
    }

    /// Length of the sealed group in its segment.
    #[must_use]
    pub fn sealed_bytes(&self) -> usize {
        let content = self.own_bytes() + self.routed().count() * EXTENT_BYTES;
        annotation_bytes(content) + content
    }

    /// Writes annotation and extents into the head room and answers the bytes to write: a multiple of 64.
    pub(super) fn seal(
        &mut self,
        epoch: u32,
        synced_seq: u64,
        secret: u64,
        extents: &[Extent],
    ) -> &[u8] {
        let content = HEAD_BYTES - extents.len() * EXTENT_BYTES;
        let lines = self.chunk[content..HEAD_BYTES].chunks_mut(EXTENT_BYTES);
        lines.zip(extents).for_each(|(line, extent)| extent.encode(line));
        let command_bytes = self.end - content;
        let start = content - annotation_bytes(command_bytes);
        let group = &mut self.chunk[start..self.end];
        let annotation = Annotation {
            epoch,
            first_seq: self.first_seq,
            count: self.last_seq + 1 - self.first_seq,
            command_bytes: command_bytes as u64,
            synced_seq,
        };
        annotation.encode(group, secret);
        group
    }
}

/// Groups handed to the log thread, oldest first.
#[derive(Debug)]
pub struct Sealed {
    pub(crate) groups: Vec<Group>,
    /// When the oldest byte was appended, in [`monotonic_us`](super::gauge::monotonic_us).
    pub(crate) oldest_us: u64,
    /// Chunks the buffer has in stock.
    pub(crate) spare_count: usize,
}

impl Sealed {
    /// The groups, oldest first.
    #[must_use]
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }
}

/// Buffers on their way back from the log thread, for reuse.
#[derive(Debug, Default)]
pub struct SealedBuffers {
    pub(crate) groups: Vec<Group>,
}

/// Where the log thread gets its work.
///
/// The engine implements it by locking its commit mutex and calling [`LogBuffer::take`]. The
/// implementor must not own the [`Log`](super::Log), or neither would ever be dropped.
pub trait LogSource: Send + Sync {
    /// Everything appended since the last call, or `None` when there is nothing. Takes back the
    /// buffers written meanwhile in any case.
    fn take(&self, spare: SealedBuffers) -> Option<Sealed>;
}

impl LogSource for parking_lot::Mutex<LogBuffer> {
    fn take(&self, spare: SealedBuffers) -> Option<Sealed> {
        self.lock().take(spare)
    }
}

/// Collects the commands of commits until the log thread takes them. A plain structure: it lives
/// inside the engine's commit mutex.
///
/// Sequences must be appended without a hole. What one `append` adds is never torn apart: it is
/// in one group, survives a crash as a whole or not at all, and may hold a MULTI/EXEC pair. Every
/// group begins with its own SELECT, so callers just name the database.
#[derive(Debug)]
pub struct LogBuffer {
    current: Group,
    full: Vec<Group>,
    spare: Vec<Group>,
    next_seq: u64,
    /// Set when groups carry the second they are of.
    clock: Option<LogClock>,
    /// The last second given to a group: times do not fall within one run.
    time_s: u64,
    /// The last append or cut has already asked for the log thread.
    woken: bool,
    gauge: Arc<BufferGauge>,
    /// Bytes of an argument from which on its record goes to each of the routes, ascending.
    routes: Vec<u64>,
}

impl LogBuffer {
    /// An empty buffer; the first sequence appended will be `after_seq + 1`.
    #[must_use]
    pub fn new(after_seq: u64) -> Self {
        Self {
            current: Group::new(GROUP_TARGET_BYTES),
            full: Vec::with_capacity(SPARE_CHUNKS_MAX),
            spare: (1..CHUNKS_AT_START).map(|_| Group::new(GROUP_TARGET_BYTES)).collect(),
            next_seq: after_seq + 1,
            clock: None,
            time_s: 0,
            woken: false,
            gauge: BufferGauge::shared(),
            routes: Vec::new(),
        }
    }

    /// An empty buffer behind `after_seq` with the settings of this one.
    #[must_use]
    pub fn successor(&self, after_seq: u64) -> Self {
        let routes = self.routes.clone();
        Self { clock: self.clock, time_s: self.time_s, routes, ..Self::new(after_seq) }
    }

    /// From now on records with an argument of at least `least_bytes[i]` bytes go to route `i`
    /// (`aof-route`), the others into the segments. Must be called before the first append.
    ///
    /// # Panics
    ///
    /// When they do not ascend, or there are more than [`ROUTES_MAX`].
    pub fn set_routes(&mut self, least_bytes: Vec<u64>) {
        assert!(least_bytes.len() <= ROUTES_MAX && least_bytes.is_sorted(), "routes ascend");
        self.routes = least_bytes;
    }

    /// The route of a record, if it has one. Only one that is long enough for the first is looked through.
    fn route_of(&self, bytes: usize, parts: &[&[u8]]) -> Option<usize> {
        self.routes.first().filter(|least| bytes as u64 >= **least)?;
        let largest = largest_argument(parts);
        self.routes.iter().rposition(|least| largest >= *least)
    }

    /// From now on groups carry the second that `clock` shows, or no time (`aof-timestamp-enabled`).
    pub fn set_clock(&mut self, clock: Option<LogClock>) {
        self.clock = clock;
        if clock.is_none() && self.current.time_s.is_some() && !self.current.is_empty() {
            // What follows is not of that second.
            self.close_current(GROUP_TARGET_BYTES);
        }
    }

    /// The gauge [`Log::open`](super::Log::open) wants, so that it sees age and size of what waits.
    #[must_use]
    pub fn gauge(&self) -> Arc<BufferGauge> {
        Arc::clone(&self.gauge)
    }

    /// Appends the commands of the sequences `first_seq .. first_seq + count`, RESP encoded, in
    /// logical database `db`. Copies, and allocates only when one append alone exceeds
    /// [`GROUP_TARGET_BYTES`] or the log thread is far behind.
    ///
    /// True: call [`Log::kick`](super::Log::kick), best after letting go of the commit mutex.
    ///
    /// # Panics
    ///
    /// When `first_seq` does not follow the sequence appended before: recovery could not tell
    /// such a log from a damaged one.
    #[must_use]
    pub fn append(&mut self, first_seq: u64, count: u32, db: u32, parts: &[&[u8]]) -> bool {
        assert_eq!(first_seq, self.next_seq, "sequences reach the log in order, without holes");
        assert!(count > 0, "an append holds at least one sequence");
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        let time_s = self.clock.map(|clock| self.tick(clock));
        let route = self.route_of(bytes, parts);
        let own_bytes = if route.is_some() { RECORD_LINE_BYTES } else { bytes };
        if self.current.end + own_bytes + LINES_MAX_BYTES > self.current.chunk.len()
            || self.current.routed_bytes() > GROUP_TARGET_BYTES
        {
            self.make_room(own_bytes + LINES_MAX_BYTES);
        }
        let group = &mut self.current;
        let before = group.command_bytes();
        if let Some(time_s) = time_s.filter(|_| group.is_empty()) {
            group.begin(time_s);
        }
        if group.selected_db != Some(db) {
            let end = group.end;
            group.end += write_select(&mut group.chunk[end..], db);
            group.selected_db = Some(db);
        }
        match route {
            Some(route) => group.add_routed(route, parts),
            None => {
                for part in parts {
                    group.chunk[group.end..group.end + part.len()].copy_from_slice(part);
                    group.end += part.len();
                }
            }
        }
        if group.is_empty() {
            group.first_seq = first_seq;
        }
        group.last_seq = first_seq + u64::from(count) - 1;
        self.next_seq = group.last_seq + 1;
        self.gauge.appended(group.command_bytes() - before);
        self.wake()
    }

    /// A memtable was frozen at `mark`: what is appended from now on goes to a new segment, whose
    /// sequences start above `mark`. Takes effect with the next take; nobody needs to be woken for it.
    ///
    /// # Panics
    ///
    /// When `mark` is below a sequence already appended.
    pub fn cut(&mut self, mark: u64) {
        assert!(mark + 1 >= self.next_seq, "a cut lies behind everything appended");
        if !self.current.is_empty() {
            self.close_current(GROUP_TARGET_BYTES);
        }
        self.current.starts_segment_after = Some(mark);
        self.next_seq = mark + 1;
    }

    /// Hands out everything collected, and takes written buffers back. The body of
    /// [`LogSource::take`].
    pub fn take(&mut self, mut spare: SealedBuffers) -> Option<Sealed> {
        self.woken = false;
        for mut group in spare.groups.drain(..) {
            group.reset();
            group.first_seq = 0;
            group.last_seq = 0;
            self.spare.push(group);
        }
        if !self.current.is_empty() || self.current.starts_segment_after.is_some() {
            self.close_current(GROUP_TARGET_BYTES);
        }
        if self.full.is_empty() {
            return None;
        }
        let groups = mem::replace(&mut self.full, spare.groups);
        Some(Sealed { groups, oldest_us: self.gauge.taken(), spare_count: self.spare.len() })
    }

    /// Bytes of commands in the buffer; those the log thread has taken but not yet written are in
    /// [`BufferGauge::pending_bytes`].
    #[must_use]
    pub fn len(&self) -> usize {
        self.full.iter().chain([&self.current]).map(Group::command_bytes).sum()
    }

    /// True when nothing was appended since the last take.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.current.is_empty() && self.full.iter().all(Group::is_empty)
    }

    /// The last sequence appended or skipped by a cut.
    #[must_use]
    pub fn last_seq(&self) -> u64 {
        self.next_seq - 1
    }

    /// The first append after a take wakes the log thread, later ones need not.
    fn wake(&mut self) -> bool {
        if self.woken {
            return false;
        }
        self.woken = true;
        if self.gauge.oldest_us() == 0 {
            self.gauge.began();
        }
        true
    }

    /// The second of the next append; ends a group of another one.
    fn tick(&mut self, clock: LogClock) -> u64 {
        self.time_s = clock().max(self.time_s);
        if !self.current.is_empty() && self.current.time_s != Some(self.time_s) {
            self.close_current(GROUP_TARGET_BYTES);
        }
        self.time_s
    }

    #[cold]
    fn make_room(&mut self, bytes: usize) {
        if self.current.is_empty() {
            // One append above the target: a chunk of its own, given back afterwards.
            let starts_segment_after = self.current.starts_segment_after;
            self.current = Group::new(bytes);
            self.current.starts_segment_after = starts_segment_after;
        } else {
            self.close_current(bytes);
            // A full group need not wait for the gathering time to pass.
            self.woken = false;
        }
    }

    fn close_current(&mut self, bytes: usize) {
        let next = if bytes > GROUP_TARGET_BYTES {
            Group::new(bytes)
        } else {
            self.spare.pop().unwrap_or_else(|| Group::new(GROUP_TARGET_BYTES))
        };
        self.full.push(mem::replace(&mut self.current, next));
    }
}

/// `*2 $6 SELECT $10 4294967295` and the line ends.
const SELECT_MAX_BYTES: usize = 4 + 4 + 8 + 5 + 10 + 2;

/// What an append may add to its commands.
const LINES_MAX_BYTES: usize = SELECT_MAX_BYTES + STAMP_MAX_BYTES;

/// Writes `SELECT db` and answers its length.
fn write_select(out: &mut [u8], db: u32) -> usize {
    let mut digits = [0; 10];
    let mut start = digits.len();
    let mut rest = db;
    loop {
        start -= 1;
        digits[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    let digits = &digits[start..];
    let length: &[u8] = match digits.len() {
        10 => b"10",
        short => &[b'0' + short as u8],
    };
    let mut end = 0;
    for part in [b"*2\r\n$6\r\nSELECT\r\n$", length, b"\r\n", digits, b"\r\n"] {
        out[end..end + part.len()].copy_from_slice(part);
        end += part.len();
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commands(group: &Group) -> &[u8] {
        &group.chunk[HEAD_BYTES..group.end]
    }

    #[test]
    fn select_is_written_per_group_and_where_the_database_changes() {
        let mut buffer = LogBuffer::new(10);
        assert!(buffer.append(11, 1, 0, &[b"A"]), "the first append wakes the log thread");
        assert!(!buffer.append(12, 2, 0, &[b"B", b"C"]));
        assert!(!buffer.append(14, 1, u32::MAX, &[b"D"]));
        let sealed = buffer.take(SealedBuffers::default()).expect("three appends");
        let [group] = sealed.groups() else { panic!("one group, got {sealed:?}") };
        assert_eq!((group.first_seq(), group.last_seq()), (11, 14));
        let expected =
            "*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\nABC*2\r\n$6\r\nSELECT\r\n$10\r\n4294967295\r\nD";
        assert_eq!(String::from_utf8_lossy(commands(group)), expected);
        assert!(buffer.take(SealedBuffers::default()).is_none());
        assert!(buffer.append(15, 1, u32::MAX, &[b"E"]));
        let sealed = buffer.take(SealedBuffers::default()).expect("one append");
        assert!(commands(&sealed.groups()[0]).starts_with(b"*2\r\n$6\r\nSELECT"));
    }

    #[test]
    fn large_appends_stay_whole_and_full_groups_wake_again() {
        let mut buffer = LogBuffer::new(0);
        let (small, huge) = (vec![b's'; 100_000], vec![b'h'; 3 * GROUP_TARGET_BYTES]);
        let woken: Vec<bool> = (1..=3).map(|seq| buffer.append(seq, 1, 0, &[&small])).collect();
        assert_eq!(woken, [true, false, true], "the third one closes a group");
        assert!(buffer.append(4, 1, 0, &[&huge]));
        assert!(buffer.append(5, 1, 0, &[&small]));
        assert_eq!(buffer.len(), 400_000 + 3 * GROUP_TARGET_BYTES + 4 * 23);
        let sealed = buffer.take(SealedBuffers::default()).expect("groups");
        let ranges: Vec<_> =
            sealed.groups().iter().map(|g| (g.first_seq(), g.last_seq())).collect();
        assert_eq!(ranges, [(1, 2), (3, 3), (4, 4), (5, 5)]);
        assert!(!sealed.groups()[2].is_regular());
    }

    #[test]
    fn a_cut_starts_a_segment_even_without_anything_behind_it() {
        let mut buffer = LogBuffer::new(0);
        let _ = buffer.append(1, 1, 0, &[b"A"]);
        buffer.cut(5);
        let _ = buffer.append(6, 1, 0, &[b"B"]);
        buffer.cut(6);
        let sealed = buffer.take(SealedBuffers::default()).expect("groups");
        let cuts: Vec<_> = sealed.groups().iter().map(Group::starts_segment_after).collect();
        assert_eq!(cuts, [None, Some(5), Some(6)]);
        assert!(sealed.groups()[2].is_empty());
    }

    #[test]
    fn written_buffers_are_used_again() {
        let mut buffer = LogBuffer::new(0);
        let mut spare = SealedBuffers::default();
        let mut chunks = std::collections::BTreeSet::new();
        for seq in 1..100 {
            let _ = buffer.append(seq, 1, 0, &[b"A"]);
            let sealed = buffer.take(std::mem::take(&mut spare)).expect("one group");
            chunks.extend(sealed.groups().iter().map(|group| group.chunk.as_ptr() as usize));
            spare.groups = sealed.groups;
        }
        assert!(chunks.len() <= CHUNKS_AT_START, "{} chunks for one at a time", chunks.len());
    }

    #[test]
    fn a_group_is_of_one_second() {
        thread_local!(static NOW_S: std::cell::Cell<u64> = const { std::cell::Cell::new(50) });
        let mut buffer = LogBuffer::new(0);
        let _ = buffer.append(1, 1, 0, &[b"A"]);
        buffer.set_clock(Some(|| NOW_S.get()));
        for (seq, now_s) in [(2, 50), (3, 50), (4, 51), (5, 49)] {
            NOW_S.set(now_s);
            let _ = buffer.append(seq, 1, 0, &[b"B"]);
        }
        buffer.set_clock(None);
        let _ = buffer.append(6, 1, 0, &[b"C"]);
        let sealed = buffer.take(SealedBuffers::default()).expect("four groups");
        let shown = |group| String::from_utf8_lossy(commands(group)).into_owned();
        let groups: Vec<_> = sealed.groups().iter().map(shown).collect();
        let select = "*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n";
        let stamped = |time_s, rest| format!("#TS:{time_s}\r\n{select}{rest}");
        let expected =
            [format!("{select}A"), stamped(50, "BB"), stamped(51, "BB"), format!("{select}C")];
        assert_eq!(groups, expected, "the clock went back, the log's time does not");
        let huge = vec![b'h'; 2 * GROUP_TARGET_BYTES];
        let mut next = buffer.successor(6);
        next.set_clock(Some(|| NOW_S.get()));
        let _ = next.append(7, 1, 0, &[&huge]);
        let sealed = next.take(SealedBuffers::default()).expect("one group");
        assert!(commands(&sealed.groups()[0]).starts_with(b"#TS:51\r\n*2"));
    }

    #[test]
    #[should_panic(expected = "without holes")]
    fn a_hole_in_the_sequences_is_a_bug_of_the_caller() {
        let _ = LogBuffer::new(0).append(2, 1, 0, &[b"A"]);
    }
}

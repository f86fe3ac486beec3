//! The buffer into which commits copy their commands, and the groups that come out of it.

use std::mem;
use std::sync::Arc;

use super::gauge::BufferGauge;
use super::group::{GROUP_TARGET_BYTES, Group, LINES_MAX_BYTES, LargeArgument};
use super::route::{RECORD_LINE_BYTES, ROUTES_MAX, largest_argument};
use super::stamp::LogClock;

/// Chunks a new buffer starts with, touched so that the first writes meet no fresh page.
pub(crate) const CHUNKS_AT_START: usize = 4;
/// Unused chunks that are kept for the next burst; more go back to the allocator.
pub(crate) const SPARE_CHUNKS_MAX: usize = 256;

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
            current: Group::regular(),
            full: Vec::with_capacity(SPARE_CHUNKS_MAX),
            spare: (1..CHUNKS_AT_START).map(|_| Group::regular()).collect(),
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
        if clock.is_none() && self.current.time_s().is_some() && !self.current.is_empty() {
            // What follows is not of that second.
            self.close_current();
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
        self.check(first_seq, count);
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        let time_s = self.clock.map(|clock| self.tick(clock));
        let route = self.route_of(bytes, parts);
        let own_bytes = if route.is_some() { RECORD_LINE_BYTES } else { bytes };
        if !self.current.has_room_for(own_bytes) || self.current.routed_bytes() > GROUP_TARGET_BYTES
        {
            self.make_room(own_bytes + LINES_MAX_BYTES);
        }
        let group = &mut self.current;
        let before = group.command_bytes();
        group.announce(time_s, db);
        match route {
            Some(route) => group.add_routed(route, parts),
            None => group.add(parts),
        }
        self.end(first_seq, count, before)
    }

    /// The same of a command with a large argument, between `before` and `behind`, which is not copied again, unless it goes to another
    /// device or these are long.
    ///
    /// # Panics
    ///
    /// As [`LogBuffer::append`].
    #[must_use]
    pub fn append_around(
        &mut self,
        (first_seq, count): (u64, u32),
        db: u32,
        before: &[u8],
        large: LargeArgument,
        behind: &[u8],
    ) -> bool {
        let parts = [before, large.bytes(), behind];
        let is_routed = self.route_of(large.bytes().len(), &parts).is_some();
        if is_routed || !large.has_room_for(before, behind) {
            return self.append(first_seq, count, db, &parts);
        }
        self.check(first_seq, count);
        let time_s = self.clock.map(|clock| self.tick(clock));
        let group = Group::around(large, (time_s, db), before, behind);
        self.begin_group(group);
        self.end(first_seq, count, 0)
    }

    fn check(&self, first_seq: u64, count: u32) {
        assert_eq!(first_seq, self.next_seq, "sequences reach the log in order, without holes");
        assert!(count > 0, "an append holds at least one sequence");
    }

    /// The commands of these sequences are in the last group, which had `before` bytes of commands without them.
    fn end(&mut self, first_seq: u64, count: u32, before: usize) -> bool {
        let last_seq = first_seq + u64::from(count) - 1;
        self.current.note(first_seq, last_seq);
        self.next_seq = last_seq + 1;
        self.gauge.appended(self.current.command_bytes() - before);
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
            self.close_current();
        }
        self.current.cut_after(Some(mark));
        self.next_seq = mark + 1;
    }

    /// Hands out everything collected, and takes written buffers back. The body of
    /// [`LogSource::take`].
    pub fn take(&mut self, mut spare: SealedBuffers) -> Option<Sealed> {
        self.woken = false;
        for mut group in spare.groups.drain(..) {
            group.reset();
            self.spare.push(group);
        }
        if !self.current.is_empty() || self.current.starts_segment_after().is_some() {
            self.close_current();
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
        if !self.current.is_empty() && self.current.time_s() != Some(self.time_s) {
            self.close_current();
        }
        self.time_s
    }

    #[cold]
    fn make_room(&mut self, bytes: usize) {
        // One append above the target has a chunk of its own, given back afterwards.
        let is_large = bytes > GROUP_TARGET_BYTES;
        let next = if is_large { Group::new(bytes) } else { self.regular() };
        self.begin_group(next);
    }

    /// An empty group of the usual size.
    fn regular(&mut self) -> Group {
        self.spare.pop().unwrap_or_else(Group::regular)
    }

    /// What follows goes to this group.
    fn begin_group(&mut self, group: Group) {
        let before = mem::replace(&mut self.current, group);
        if before.is_empty() {
            self.current.cut_after(before.starts_segment_after());
            self.spare.extend(before.into_spare());
        } else {
            self.full.push(before);
            // A full group need not wait for the gathering time to pass.
            self.woken = false;
        }
    }

    fn close_current(&mut self) {
        let next = self.regular();
        self.full.push(mem::replace(&mut self.current, next));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(String::from_utf8_lossy(group.commands()), expected);
        assert!(buffer.take(SealedBuffers::default()).is_none());
        assert!(buffer.append(15, 1, u32::MAX, &[b"E"]));
        let sealed = buffer.take(SealedBuffers::default()).expect("one append");
        assert!(sealed.groups()[0].commands().starts_with(b"*2\r\n$6\r\nSELECT"));
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
    fn a_large_argument_is_logged_from_where_it_was_copied_to() {
        let huge = vec![b'h'; 3 * GROUP_TARGET_BYTES];
        let (mut buffer, mut copied) = (LogBuffer::new(0), LogBuffer::new(0));
        let long = vec![b'l'; 5000];
        for (seq, before, behind) in
            [(1, &b"A"[..], &b"Z"[..]), (2, b"", b""), (3, b"A", &long), (4, &long, b"Z")]
        {
            let db = seq as u32 / 3;
            let large = LargeArgument::new(&huge);
            let at = large.bytes().as_ptr();
            let _ = buffer.append_around((seq, 1), db, before, large, behind);
            let here = buffer.current.commands().as_ptr_range().contains(&at);
            assert_eq!(here, before.len().max(behind.len()) < 2, "copied where there is no room");
            let _ = copied.append(seq, 1, db, &[before, &huge, behind]);
        }
        let _ = buffer.append(5, 1, 0, &[b"B"]);
        let _ = copied.append(5, 1, 0, &[b"B"]);
        let all = |buffer: &mut LogBuffer| {
            let sealed = buffer.take(SealedBuffers::default()).expect("groups");
            let groups = sealed.groups().iter();
            let shown = groups.map(|g| (g.first_seq(), g.last_seq(), g.commands().to_vec()));
            shown.collect::<Vec<_>>()
        };
        assert_eq!(all(&mut buffer), all(&mut copied));
    }

    #[test]
    fn a_large_argument_behind_a_cut_begins_its_segment() {
        let mut buffer = LogBuffer::new(0);
        let _ = buffer.append(1, 1, 0, &[b"A"]);
        buffer.cut(5);
        let large = LargeArgument::new(&[b'h'; 100]);
        let _ = buffer.append_around((6, 2), 0, b"B", large, b"C");
        let sealed = buffer.take(SealedBuffers::default()).expect("groups");
        let cuts: Vec<_> = sealed.groups().iter().map(Group::starts_segment_after).collect();
        assert_eq!(cuts, [None, Some(5)]);
        assert!(sealed.groups()[1].commands().ends_with(b"hhhC"));
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
            chunks.extend(sealed.groups().iter().map(|group| group.commands().as_ptr() as usize));
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
        let shown = |group: &Group| String::from_utf8_lossy(group.commands()).into_owned();
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
        assert!(sealed.groups()[0].commands().starts_with(b"#TS:51\r\n*2"));
    }

    #[test]
    #[should_panic(expected = "without holes")]
    fn a_hole_in_the_sequences_is_a_bug_of_the_caller() {
        let _ = LogBuffer::new(0).append(2, 1, 0, &[b"A"]);
    }
}

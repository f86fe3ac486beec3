//! A memtable, or the part of it that a scan needs, in key order.

use super::Memtable;
use super::arena::{Mark, Position};
use super::prefix::{BitCloser, Cut, PREFIX_BYTES, Place, prefix_of};
use super::record::{self, Record};
use super::skiplist::SkipList;
use crate::key::Seq;
use std::cmp::Ordering;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// How far ahead a walk in key order, which jumps about the arena, asks for records.
const PREFETCH_RECORDS: usize = 10;

/// Bytes of a record that are asked for at most: the processor itself asks for what follows those.
const PREFETCH_BYTES_MAX: usize = 256;

const CACHE_LINE_BYTES: usize = 64;

/// Slots that share a mark.
const MARK_SLOTS: usize = 64;

/// Records at the start of a run whose common prefix is tried on all the others.
const SAMPLE_RECORDS: usize = 64;

#[derive(Clone, Copy)]
struct Slot {
    /// See [`Cut`]; 0 in a run that was in order already.
    prefix: u64,
    at: Position,
}

/// Records of a memtable sorted by key, newest first within a key.
pub(crate) struct Run {
    memtable: Arc<Memtable>,
    slots: Vec<Slot>,
    /// How the prefixes in the slots were made from the keys.
    cut: Cut,
    /// Slots with equal prefixes are versions of one key.
    exact: bool,
    /// Bytes of a record that a walk asks for ahead of time.
    prefetch_bytes: usize,
    /// Largest sequence of a record; [`Seq::MAX`] where it is not known.
    max_seq: Seq,
    /// Largest sequence of each [`MARK_SLOTS`] slots, once somebody has asked (N5: a fact about the
    /// records, by which a walk passes over what a dead run proves dead).
    marks: OnceLock<Box<[Seq]>>,
}

/// What the keys of a run have in common.
struct Extent {
    first_key: Vec<u8>,
    shared_len: usize,
    min_len: usize,
    max_len: usize,
}

impl Run {
    /// Sorts the records of `memtable` between two marks. Both were taken at barriers.
    ///
    /// A radix sort over the eight bytes behind the shared prefix, which is stable: versions of a
    /// key stay in the order of the arena, that is of their sequences. Where eight bytes tell all
    /// keys apart no record is read a second time.
    #[must_use]
    pub(crate) fn sort(memtable: Arc<Memtable>, from: Mark, to: Mark) -> Self {
        let mut run = Self::empty(memtable);
        // An arena is larger than the caches, so each pass over it is dear: the prefix of a few
        // keys is tried first, and all are read for their prefix only where that fails.
        let Some(sample) = run.extent(from, to, SAMPLE_RECORDS) else { return run };
        let gathered = run.gather(from, to, sample).or_else(|| {
            let all = run.extent(from, to, usize::MAX)?;
            run.gather(from, to, all)
        });
        let Some((mut slots, extent)) = gathered else { return run };
        run.exact =
            extent.min_len == extent.max_len && extent.max_len - extent.shared_len <= PREFIX_BYTES;
        run.cut = Cut::new(&extent.first_key[..extent.shared_len], radix_sort(&mut slots));
        for group in slots.chunk_by_mut(|a, b| a.prefix == b.prefix) {
            if group.len() == 1 {
                continue;
            }
            group.reverse();
            if !run.exact {
                group.sort_by(|a, b| run.read(a.at).key.cmp(run.read(b.at).key));
            }
        }
        run.slots = slots;
        run
    }

    fn empty(memtable: Arc<Memtable>) -> Self {
        Self {
            memtable,
            slots: Vec::new(),
            cut: Cut::default(),
            exact: false,
            prefetch_bytes: 0,
            max_seq: 0,
            marks: OnceLock::new(),
        }
    }

    /// Calls `f` with the records between two marks and their places, in the order of the arena,
    /// until it answers false.
    fn each(&self, from: Mark, to: Mark, mut f: impl FnMut(&Record<'_>, usize, Position) -> bool) {
        if let Some(pooled) = self.memtable.pooled() {
            let range = (from.count(), to.count());
            pooled.positions.each(range, PREFETCH_RECORDS, |at, ahead| {
                if let Some(ahead) = ahead {
                    ahead.prefetch();
                }
                let record = self.read(at);
                let len = record::encoded_len(record.key.len(), record.value.len());
                f(&record, len, at)
            });
            return;
        }
        let mut go_on = true;
        self.memtable.arena().for_each_filled(from, to, |bytes, start| {
            let mut at = 0;
            while go_on && at < bytes.len() {
                let (record, len) = record::decode(&bytes[at..]);
                start.advance(at + PREFETCH_RECORDS * len).prefetch();
                go_on = f(&record, len, start.advance(at));
                at += len;
            }
        });
    }

    /// What the first `count` keys have in common; `None` without records.
    fn extent(&self, from: Mark, to: Mark, count: usize) -> Option<Extent> {
        let mut extent: Option<Extent> = None;
        let mut left = count;
        self.each(from, to, |record, _, _| {
            let key = record.key;
            let extent = extent.get_or_insert_with(|| Extent {
                first_key: key.to_vec(),
                shared_len: key.len(),
                min_len: key.len(),
                max_len: key.len(),
            });
            extent.shared_len = shared_len(&extent.first_key, key, extent.shared_len);
            extent.min_len = extent.min_len.min(key.len());
            extent.max_len = extent.max_len.max(key.len());
            left -= 1;
            left > 0
        });
        extent
    }

    /// About how many records there are, should the others be as long as the first of each chunk.
    fn estimate(&self, from: Mark, to: Mark) -> usize {
        if self.memtable.pooled().is_some() {
            return to.count() - from.count();
        }
        let mut records = 0;
        self.memtable.arena().for_each_filled(from, to, |bytes, _| {
            let (_, len) = record::decode(bytes);
            records += bytes.len().div_ceil(len);
        });
        records
    }

    /// A slot for each record, and the lengths of all keys; `None` when a key does not begin with
    /// what those of `extent` share.
    fn gather(&mut self, from: Mark, to: Mark, mut extent: Extent) -> Option<(Vec<Slot>, Extent)> {
        let shared = extent.first_key[..extent.shared_len].to_vec();
        let mut slots = Vec::with_capacity(self.estimate(from, to));
        let (mut bytes, mut max_seq) = (0, 0);
        let mut all_share = true;
        self.each(from, to, |record, len, at| {
            let Some(rest) = record.key.strip_prefix(&*shared) else {
                all_share = false;
                return false;
            };
            slots.push(Slot { prefix: prefix_of(record.key, rest.len()), at });
            extent.min_len = extent.min_len.min(record.key.len());
            extent.max_len = extent.max_len.max(record.key.len());
            bytes += len;
            max_seq = record.seq.max(max_seq);
            true
        });
        self.max_seq = max_seq;
        self.prefetch_bytes = (bytes / slots.len().max(1)).min(PREFETCH_BYTES_MAX);
        all_share.then_some((slots, extent))
    }

    /// The records of a skip list, which is in order already.
    #[must_use]
    pub(super) fn of_list(memtable: Arc<Memtable>, list: &SkipList) -> Self {
        let mut slots = Vec::new();
        let mut next = list.first();
        while let Some(at) = next {
            slots.push(Slot { prefix: 0, at });
            next = list.after(at);
        }
        let prefetch_bytes = PREFETCH_BYTES_MAX / 2;
        Self { slots, prefetch_bytes, max_seq: Seq::MAX, ..Self::empty(memtable) }
    }

    fn read(&self, at: Position) -> Record<'_> {
        self.memtable.record(at)
    }

    /// Index of the first record behind `index` that may be of another key. Only a hint for merges
    /// that want newest versions: it is `index + 1` where the run cannot tell without reading.
    #[must_use]
    pub(crate) fn skip_older_versions(&self, index: usize) -> usize {
        let prefix = self.slots[index].prefix;
        let mut next = index + 1;
        while self.exact && next < self.slots.len() && self.slots[next].prefix == prefix {
            next += 1;
        }
        next
    }

    /// Hint: the record a few places behind `index` will be read soon.
    pub(crate) fn prefetch_behind(&self, index: usize) {
        if let Some(slot) = self.slots.get(index + PREFETCH_RECORDS) {
            for at in (0..self.prefetch_bytes).step_by(CACHE_LINE_BYTES) {
                slot.at.advance(at).prefetch();
            }
            slot.at.advance(self.prefetch_bytes.saturating_sub(1)).prefetch();
        }
    }

    /// Largest sequence of a record, or [`Seq::MAX`].
    #[must_use]
    pub(super) fn max_seq(&self) -> Seq {
        self.max_seq
    }

    /// Memory of the order, in bytes; the records are the memtable's.
    #[must_use]
    pub(crate) fn held_bytes(&self) -> u64 {
        (self.slots.capacity() * size_of::<Slot>()) as u64
    }

    /// Number of records.
    #[must_use]
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// True when there are none.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Smallest and largest key; `None` without records.
    #[must_use]
    pub(crate) fn key_range(&self) -> Option<(&[u8], &[u8])> {
        let last = self.len().checked_sub(1)?;
        Some((self.record(0).key, self.record(last).key))
    }

    /// Record `index` in key order.
    #[must_use]
    pub(crate) fn record(&self, index: usize) -> Record<'_> {
        self.read(self.slots[index].at)
    }

    /// Index of the first record at or behind (`key`, newest first from `seq` down). Reads the records
    /// with the key's own prefix only.
    #[must_use]
    pub(crate) fn lower_bound(&self, key: &[u8], seq: Seq) -> usize {
        let below = |word: u64| self.slots.partition_point(|slot| slot.prefix < word);
        let word = match self.cut.place(key) {
            Place::BeforeAll => return 0,
            Place::BehindAll => return self.len(),
            Place::Before(word) => return below(word),
            Place::Among(word) => word,
        };
        let from = below(word);
        let same = self.slots[from..].partition_point(|slot| slot.prefix == word);
        let is_before = |slot: &Slot| {
            let record = self.read(slot.at);
            match record.key.cmp(key) {
                Ordering::Less => true,
                Ordering::Equal => record.seq > seq,
                Ordering::Greater => false,
            }
        };
        from + self.slots[from..from + same].partition_point(is_before)
    }

    /// Index of the first record behind `index` with another key.
    #[must_use]
    pub(super) fn next_key(&self, index: usize) -> usize {
        let first = self.slots[index];
        let is_same = |slot: &Slot| {
            slot.prefix == first.prefix
                && (self.exact || self.read(slot.at).key == self.read(first.at).key)
        };
        let same = self.slots[index + 1..].iter().take_while(|slot| is_same(slot)).count();
        index + 1 + same
    }

    /// Index of the first record in `range` that is younger than `d`; its end when there is none.
    #[must_use]
    pub(super) fn first_younger(&self, range: Range<usize>, d: Seq) -> usize {
        if self.max_seq <= d {
            return range.end;
        }
        let marks = self.marks.get_or_init(|| self.max_seqs());
        let mut at = range.start;
        while at < range.end {
            let block = at / MARK_SLOTS;
            let end = range.end.min((block + 1) * MARK_SLOTS);
            if marks[block] > d
                && let Some(found) = (at..end).find(|&index| self.record(index).seq > d)
            {
                return found;
            }
            at = end;
        }
        range.end
    }

    fn max_seqs(&self) -> Box<[Seq]> {
        let mut index = 0;
        let mut newest = |block: &[Slot]| {
            let seqs = block.iter().map(|slot| {
                // The header alone: the sequence lies in it.
                if let Some(ahead) = self.slots.get(index + PREFETCH_RECORDS) {
                    ahead.at.prefetch();
                }
                index += 1;
                self.read(slot.at).seq
            });
            seqs.max().unwrap_or(0)
        };
        self.slots.chunks(MARK_SLOTS).map(&mut newest).collect()
    }

    /// Newest version of `key` with a sequence of at most `bound`.
    #[must_use]
    pub(crate) fn get(&self, key: &[u8], bound: Seq) -> Option<Record<'_>> {
        let at = self.lower_bound(key, bound);
        (at < self.len()).then(|| self.record(at)).filter(|record| record.key == key)
    }
}

/// Least significant byte first, over the bits in which the prefixes differ at all. Answers how the other
/// bits were taken out.
fn radix_sort(slots: &mut Vec<Slot>) -> BitCloser {
    let (mut all, mut any) = (u64::MAX, 0);
    for slot in slots.iter() {
        all &= slot.prefix;
        any |= slot.prefix;
    }
    let closer = BitCloser::new(all ^ any, all);
    let shifts = (0..closer.width).step_by(8);
    let digit = |slot: &Slot, shift: u32| (slot.prefix >> shift) as usize & 0xff;
    let mut counts = vec![[0_usize; 256]; shifts.len()];
    for slot in slots.iter_mut() {
        slot.prefix = closer.close(slot.prefix);
        for (count, shift) in counts.iter_mut().zip(shifts.clone()) {
            count[digit(slot, shift)] += 1;
        }
    }
    let Some(&first) = slots.first() else { return closer };
    let mut from = std::mem::take(slots);
    let mut to = vec![first; from.len()];
    for (starts, shift) in counts.iter_mut().zip(shifts) {
        let mut start = 0;
        for count in starts.iter_mut() {
            start += std::mem::replace(count, start);
        }
        for slot in &from {
            let place = &mut starts[digit(slot, shift)];
            to[*place] = *slot;
            *place += 1;
        }
        std::mem::swap(&mut from, &mut to);
    }
    *slots = from;
    closer
}

fn shared_len(a: &[u8], b: &[u8], at_most: usize) -> usize {
    let at_most = at_most.min(a.len()).min(b.len());
    if a[..at_most] == b[..at_most] {
        return at_most;
    }
    a.iter().zip(b).take_while(|(x, y)| x == y).count()
}

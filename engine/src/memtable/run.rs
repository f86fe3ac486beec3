//! A memtable, or the part of it that a scan needs, in key order.

use super::Memtable;
use super::arena::{Mark, Position};
use super::record::{self, Record};
use super::skiplist::SkipList;
use crate::key::{Meta, Seq};
use crate::table::TableResult;
use crate::tree::{BackSource, Source};
use std::cmp::Ordering;
use std::sync::Arc;

/// Key bytes that are sorted without reading the records again.
const PREFIX_BYTES: usize = size_of::<u64>();

/// How far ahead a walk in key order, which jumps about the arena, asks for records.
const PREFETCH_RECORDS: usize = 10;

/// Bytes of a record that are asked for at most: the processor itself asks for what follows those.
const PREFETCH_BYTES_MAX: usize = 256;

const CACHE_LINE_BYTES: usize = 64;

/// Records at the start of a run whose common prefix is tried on all the others.
const SAMPLE_RECORDS: usize = 64;

#[derive(Clone, Copy)]
struct Slot {
    /// The eight key bytes behind the prefix that all keys of the run share, big endian, without the
    /// bits in which all of them agree.
    prefix: u64,
    at: Position,
}

/// Records of a memtable sorted by key, newest first within a key.
pub(crate) struct Run {
    memtable: Arc<Memtable>,
    slots: Vec<Slot>,
    /// Slots with equal prefixes are versions of one key.
    exact: bool,
    /// Bytes of a record that a walk asks for ahead of time.
    prefetch_bytes: usize,
    /// Largest sequence of a record; [`Seq::MAX`] where it is not known.
    max_seq: Seq,
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
        let mut run =
            Self { memtable, slots: Vec::new(), exact: false, prefetch_bytes: 0, max_seq: 0 };
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
        radix_sort(&mut slots);
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
        Self {
            memtable,
            slots,
            exact: false,
            prefetch_bytes: PREFETCH_BYTES_MAX / 2,
            max_seq: Seq::MAX,
        }
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

    /// Index of the first record at or behind (`key`, newest first from `seq` down).
    #[must_use]
    pub(crate) fn lower_bound(&self, key: &[u8], seq: Seq) -> usize {
        self.slots.partition_point(|slot| {
            let record = self.read(slot.at);
            match record.key.cmp(key) {
                Ordering::Less => true,
                Ordering::Equal => record.seq > seq,
                Ordering::Greater => false,
            }
        })
    }

    /// Newest version of `key` with a sequence of at most `bound`.
    #[must_use]
    pub(crate) fn get(&self, key: &[u8], bound: Seq) -> Option<Record<'_>> {
        let at = self.lower_bound(key, bound);
        (at < self.len()).then(|| self.record(at)).filter(|record| record.key == key)
    }
}

/// The first eight of the last `rest_len` bytes of a key, big endian, zeros behind them.
fn prefix_of(key: &[u8], rest_len: usize) -> u64 {
    let rest = &key[key.len() - rest_len..];
    if let Some(eight) = rest.first_chunk() {
        return u64::from_be_bytes(*eight);
    }
    if let Some(eight) = key.last_chunk().filter(|_| rest_len > 0) {
        // One load instead of a copy of unknown length: what is not wanted is shifted out.
        return u64::from_be_bytes(*eight) << (8 * (PREFIX_BYTES - rest_len));
    }
    let mut bytes = [0; PREFIX_BYTES];
    bytes[..rest_len].copy_from_slice(rest);
    u64::from_be_bytes(bytes)
}

/// Takes bits out of a word and closes the gaps. Words that agree in the bits taken out keep their
/// order.
struct BitCloser {
    /// Bits that stay and how far they move down, the lowest first.
    runs: Vec<(u64, u32)>,
    /// Bits that stay.
    width: u32,
}

impl BitCloser {
    /// With more runs of bits than this, closing the gaps costs more than it saves.
    const RUNS_MAX: usize = 8;

    fn new(keep: u64) -> Self {
        let (mut runs, mut rest, mut width) = (Vec::new(), keep, 0);
        while rest != 0 {
            let at = rest.trailing_zeros();
            let bits = (rest >> at).trailing_ones();
            let mask = (u64::MAX >> (u64::BITS - bits)) << at;
            runs.push((mask, at - width));
            rest &= !mask;
            width += bits;
        }
        if runs.len() > Self::RUNS_MAX {
            return Self { runs: vec![(u64::MAX, 0)], width: u64::BITS };
        }
        Self { runs, width }
    }

    fn close(&self, word: u64) -> u64 {
        self.runs.iter().fold(0, |closed, (mask, shift)| closed | (word & mask) >> shift)
    }
}

/// Least significant byte first, over the bits in which the prefixes differ at all.
fn radix_sort(slots: &mut Vec<Slot>) {
    let (mut all, mut any) = (u64::MAX, 0);
    for slot in slots.iter() {
        all &= slot.prefix;
        any |= slot.prefix;
    }
    let closer = BitCloser::new(all ^ any);
    let shifts = (0..closer.width).step_by(8);
    let digit = |slot: &Slot, shift: u32| (slot.prefix >> shift) as usize & 0xff;
    let mut counts = vec![[0_usize; 256]; shifts.len()];
    for slot in slots.iter_mut() {
        slot.prefix = closer.close(slot.prefix);
        for (count, shift) in counts.iter_mut().zip(shifts.clone()) {
            count[digit(slot, shift)] += 1;
        }
    }
    let Some(&first) = slots.first() else { return };
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
}

fn shared_len(a: &[u8], b: &[u8], at_most: usize) -> usize {
    let at_most = at_most.min(a.len()).min(b.len());
    if a[..at_most] == b[..at_most] {
        return at_most;
    }
    a.iter().zip(b).take_while(|(x, y)| x == y).count()
}

/// A walk over a run, as merges want it.
pub(crate) struct RunSource {
    run: Arc<Run>,
    at: usize,
}

impl RunSource {
    /// A walk, not positioned yet.
    #[must_use]
    pub(crate) fn new(run: Arc<Run>) -> Self {
        let at = run.len();
        Self { run, at }
    }
}

impl Source for RunSource {
    fn valid(&self) -> bool {
        self.at < self.run.len()
    }

    fn key(&self) -> &[u8] {
        self.run.record(self.at).key
    }

    fn seq(&self) -> Seq {
        self.run.record(self.at).seq
    }

    fn meta(&self) -> Meta {
        self.run.record(self.at).meta
    }

    fn value(&self) -> &[u8] {
        self.run.record(self.at).value
    }

    fn next(&mut self) -> TableResult<()> {
        self.at += 1;
        self.run.prefetch_behind(self.at);
        Ok(())
    }

    fn seek(&mut self, key: &[u8]) -> TableResult<()> {
        self.at = self.run.lower_bound(key, Seq::MAX);
        Ok(())
    }

    fn pass_dead(&mut self, to: &[u8], d: Seq) -> TableResult<()> {
        if self.run.max_seq <= d { self.seek(to) } else { Ok(()) }
    }
}

impl BackSource for RunSource {
    fn prev(&mut self) -> TableResult<()> {
        self.at = self.at.checked_sub(1).unwrap_or(self.run.len());
        Ok(())
    }

    fn seek_back(&mut self, key: Option<&[u8]>) -> TableResult<()> {
        self.at = key.map_or(self.run.len(), |key| self.run.lower_bound(key, Seq::MAX));
        self.prev()
    }

    fn pass_dead_back(&mut self, from: &[u8], d: Seq) -> TableResult<()> {
        if self.run.max_seq <= d { self.seek_back(Some(from)) } else { Ok(()) }
    }
}

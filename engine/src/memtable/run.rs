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
const PREFETCH_RECORDS: usize = 12;

#[derive(Clone, Copy)]
struct Slot {
    /// The eight key bytes behind the prefix that all keys of the run share, big endian.
    prefix: u64,
    at: Position,
}

/// Records of a memtable sorted by key, newest first within a key.
pub(crate) struct Run {
    memtable: Arc<Memtable>,
    slots: Vec<Slot>,
    shared_prefix_len: usize,
    /// Slots with equal prefixes are versions of one key.
    exact: bool,
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
        let mut run = Self { memtable, slots: Vec::new(), shared_prefix_len: 0, exact: false };
        let Some(extent) = run.extent(from, to) else { return run };
        run.shared_prefix_len = extent.shared_len;
        run.exact =
            extent.min_len == extent.max_len && extent.max_len - extent.shared_len <= PREFIX_BYTES;
        let mut slots = Vec::new();
        run.memtable.arena().for_each_filled(from, to, |bytes, start| {
            let mut at = 0;
            while at < bytes.len() {
                let (record, len) = record::decode(&bytes[at..]);
                slots.push(Slot { prefix: run.prefix_of(record.key), at: start.advance(at) });
                at += len;
            }
        });
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

    fn extent(&self, from: Mark, to: Mark) -> Option<Extent> {
        let mut extent: Option<Extent> = None;
        self.memtable.arena().for_each_filled(from, to, |bytes, _| {
            let mut at = 0;
            while at < bytes.len() {
                let (record, len) = record::decode(&bytes[at..]);
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
                at += len;
            }
        });
        extent
    }

    fn prefix_of(&self, key: &[u8]) -> u64 {
        let rest = &key[self.shared_prefix_len.min(key.len())..];
        let mut bytes = [0; PREFIX_BYTES];
        let len = rest.len().min(PREFIX_BYTES);
        bytes[..len].copy_from_slice(&rest[..len]);
        u64::from_be_bytes(bytes)
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
        Self { memtable, slots, shared_prefix_len: 0, exact: false }
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
            slot.at.prefetch();
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

/// Least significant byte first, over the bytes in which the prefixes differ at all.
fn radix_sort(slots: &mut Vec<Slot>) {
    let (mut all, mut any) = (u64::MAX, 0);
    for slot in slots.iter() {
        all &= slot.prefix;
        any |= slot.prefix;
    }
    let differs = all ^ any;
    let mut from = std::mem::take(slots);
    let mut to = from.clone();
    for shift in (0..u64::BITS).step_by(8).filter(|shift| differs >> shift & 0xff != 0) {
        let digit = |slot: &Slot| (slot.prefix >> shift) as usize & 0xff;
        let mut starts = [0_usize; 256];
        for slot in &from {
            starts[digit(slot)] += 1;
        }
        let mut start = 0;
        for count in &mut starts {
            start += std::mem::replace(count, start);
        }
        for slot in &from {
            let place = &mut starts[digit(slot)];
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
}

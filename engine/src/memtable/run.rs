//! A memtable, or the part of it that a scan needs, in key order.

use super::Memtable;
use super::arena::{Mark, Position};
use super::order::{MARK_SLOTS, Order, PREFETCH_RECORDS, Slot};
use super::prefix::Place;
use super::record::Record;
use super::skiplist::SkipList;
use crate::key::Seq;
use crate::prefetch::LINE_BYTES;
use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

/// Records of a memtable sorted by key, newest first within a key.
pub(crate) struct Run {
    memtable: Arc<Memtable>,
    order: Arc<Order>,
}

impl Run {
    /// The records of `memtable` that are in `order`.
    #[must_use]
    pub(super) fn new(memtable: Arc<Memtable>, order: Arc<Order>) -> Self {
        Self { memtable, order }
    }

    /// Sorts the records of `memtable` between two marks. Both were taken at barriers.
    #[must_use]
    pub(crate) fn sort(memtable: Arc<Memtable>, from: Mark, to: Mark) -> Self {
        let order = Arc::new(Order::sort(&memtable, from, to));
        Self { memtable, order }
    }

    /// The records of a skip list, which is in order already.
    #[must_use]
    pub(super) fn of_list(memtable: Arc<Memtable>, list: &SkipList) -> Self {
        Self { memtable, order: Arc::new(Order::of_list(list)) }
    }

    fn read(&self, at: Position) -> Record<'_> {
        self.memtable.record(at)
    }

    /// Index of the first record behind `index` that may be of another key. Only a hint for merges
    /// that want newest versions: it is `index + 1` where the run cannot tell without reading.
    #[must_use]
    pub(crate) fn skip_older_versions(&self, index: usize) -> usize {
        let prefix = self.order.slots[index].prefix;
        let mut next = index + 1;
        while self.order.exact
            && next < self.order.slots.len()
            && self.order.slots[next].prefix == prefix
        {
            next += 1;
        }
        next
    }

    /// Hint: the record a few places behind `index` will be read soon.
    pub(crate) fn prefetch_behind(&self, index: usize) {
        if let Some(slot) = self.order.slots.get(index + PREFETCH_RECORDS) {
            for at in (0..self.order.prefetch_bytes).step_by(LINE_BYTES) {
                slot.at.advance(at).prefetch();
            }
            slot.at.advance(self.order.prefetch_bytes.saturating_sub(1)).prefetch();
        }
    }

    /// Largest sequence of a record, or [`Seq::MAX`].
    #[must_use]
    pub(super) fn max_seq(&self) -> Seq {
        self.order.max_seq
    }

    /// Memory of the order, in bytes; the records are the memtable's.
    #[must_use]
    pub(crate) fn held_bytes(&self) -> u64 {
        (self.order.slots.capacity() * size_of::<Slot>()) as u64
    }

    /// Number of records.
    #[must_use]
    pub(crate) fn len(&self) -> usize {
        self.order.slots.len()
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
        self.read(self.order.slots[index].at)
    }

    /// Index of the first record at or behind (`key`, newest first from `seq` down). Reads the records
    /// with the key's own prefix only.
    #[must_use]
    pub(crate) fn lower_bound(&self, key: &[u8], seq: Seq) -> usize {
        let below = |word: u64| self.order.slots.partition_point(|slot| slot.prefix < word);
        let word = match self.order.cut.place(key) {
            Place::BeforeAll => return 0,
            Place::BehindAll => return self.len(),
            Place::Before(word) => return below(word),
            Place::Among(word) => word,
        };
        let from = below(word);
        let same = self.order.slots[from..].partition_point(|slot| slot.prefix == word);
        let is_before = |slot: &Slot| {
            let record = self.read(slot.at);
            match record.key.cmp(key) {
                Ordering::Less => true,
                Ordering::Equal => record.seq > seq,
                Ordering::Greater => false,
            }
        };
        from + self.order.slots[from..from + same].partition_point(is_before)
    }

    /// Index of the first record behind `index` with another key.
    #[must_use]
    pub(super) fn next_key(&self, index: usize) -> usize {
        let first = self.order.slots[index];
        let is_same = |slot: &Slot| {
            slot.prefix == first.prefix
                && (self.order.exact || self.read(slot.at).key == self.read(first.at).key)
        };
        let same = self.order.slots[index + 1..].iter().take_while(|slot| is_same(slot)).count();
        index + 1 + same
    }

    /// Index of the first record in `range` that is younger than `d`; its end when there is none.
    #[must_use]
    pub(super) fn first_younger(&self, range: Range<usize>, d: Seq) -> usize {
        if self.order.max_seq <= d {
            return range.end;
        }
        let marks = self.order.marks.get_or_init(|| self.max_seqs());
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
                if let Some(ahead) = self.order.slots.get(index + PREFETCH_RECORDS) {
                    ahead.at.prefetch();
                }
                index += 1;
                self.read(slot.at).seq
            });
            seqs.max().unwrap_or(0)
        };
        self.order.slots.chunks(MARK_SLOTS).map(&mut newest).collect()
    }

    /// Newest version of `key` with a sequence of at most `bound`.
    #[must_use]
    pub(crate) fn get(&self, key: &[u8], bound: Seq) -> Option<Record<'_>> {
        let at = self.lower_bound(key, bound);
        (at < self.len()).then(|| self.record(at)).filter(|record| record.key == key)
    }
}

//! The order of a memtable's records, without the memtable: which keeps it for the next scan.

use super::Memtable;
use super::arena::{Mark, Position};
use super::prefix::{BitCloser, Cut, PREFIX_BYTES, prefix_of};
use super::record::{self, Record};
use super::skiplist::SkipList;
use super::stretches::skip_room;
use crate::key::Seq;
use std::sync::OnceLock;

/// How far ahead a walk in key order, which jumps about the arena, asks for records.
pub(super) const PREFETCH_RECORDS: usize = 10;

/// Bytes of a record that are asked for at most: the processor itself asks for what follows those.
const PREFETCH_BYTES_MAX: usize = 256;

/// Slots that share a mark.
pub(super) const MARK_SLOTS: usize = 64;

/// Records at the start of a run whose common prefix is tried on all the others.
const SAMPLE_RECORDS: usize = 64;

/// Groups with one prefix that have no more records are sorted by comparing keys.
const COMPARED_MAX: usize = 32;

/// How often a group is taken apart by the next eight bytes of its keys, before these are compared as a whole.
const SORT_DEPTH_MAX: usize = 16;

#[derive(Clone, Copy)]
pub(super) struct Slot {
    /// See [`Cut`]; 0 in a run that was in order already.
    pub(super) prefix: u64,
    pub(super) at: Position,
}

/// Where records of a memtable are, sorted by key, newest first within a key.
#[derive(Default)]
pub(super) struct Order {
    pub(super) slots: Vec<Slot>,
    /// How the prefixes in the slots were made from the keys.
    pub(super) cut: Cut,
    /// Slots with equal prefixes are versions of one key.
    pub(super) exact: bool,
    /// Bytes of a record that a walk asks for ahead of time.
    pub(super) prefetch_bytes: usize,
    /// Largest sequence of a record; [`Seq::MAX`] where it is not known.
    pub(super) max_seq: Seq,
    /// Largest sequence of each [`MARK_SLOTS`] slots, once somebody has asked (N5: a fact about the
    /// records, by which a walk passes over what a dead run proves dead).
    pub(super) marks: OnceLock<Box<[Seq]>>,
}

/// What the keys of a run have in common.
struct Extent {
    first_key: Vec<u8>,
    shared_len: usize,
    min_len: usize,
    max_len: usize,
}

impl Order {
    /// Sorts the records of `memtable` between two marks. Both were taken at barriers.
    ///
    /// A radix sort over the eight bytes behind the shared prefix, which is stable: versions of a
    /// key stay in the order of the arena, that is of their sequences. Where eight bytes tell all
    /// keys apart no record is read a second time.
    pub(super) fn sort(memtable: &Memtable, from: Mark, to: Mark) -> Self {
        // An arena is larger than the caches, so each pass over it is dear: the prefix of a few
        // keys is tried first, and all are read for their prefix only where that fails.
        let Some(sample) = extent(memtable, from, to, SAMPLE_RECORDS) else {
            return Self::default();
        };
        let gathered = gather(memtable, from, to, sample).or_else(|| {
            let all = extent(memtable, from, to, usize::MAX)?;
            gather(memtable, from, to, all)
        });
        let Some((mut order, extent)) = gathered else { return Self::default() };
        order.exact =
            extent.min_len == extent.max_len && extent.max_len - extent.shared_len <= PREFIX_BYTES;
        let closer = radix_sort(&mut order.slots);
        order.cut = Cut::new(&extent.first_key[..extent.shared_len], closer);
        for group in order.slots.chunk_by_mut(|a, b| a.prefix == b.prefix) {
            if order.exact {
                group.reverse();
            } else {
                sort_group(memtable, group, 0);
            }
        }
        order
    }

    /// The records of a skip list, which is in order already.
    pub(super) fn of_list(list: &SkipList) -> Self {
        let mut slots = Vec::new();
        let mut next = list.first();
        while let Some(at) = next {
            slots.push(Slot { prefix: 0, at });
            next = list.after(at);
        }
        let prefetch_bytes = PREFETCH_BYTES_MAX / 2;
        Self { slots, prefetch_bytes, max_seq: Seq::MAX, ..Self::default() }
    }
}

/// Calls `f` with the records between two marks and their places, in the order of the arena,
/// until it answers false.
fn each(
    memtable: &Memtable,
    from: Mark,
    to: Mark,
    mut f: impl FnMut(&Record<'_>, usize, Position) -> bool,
) {
    let mut go_on = true;
    memtable.for_each_filled(from, to, |bytes, start| {
        let mut at = skip_room(bytes, 0);
        while go_on && at < bytes.len() {
            let (record, len) = record::decode(&bytes[at..]);
            start.advance(at + PREFETCH_RECORDS * len).prefetch();
            go_on = f(&record, len, start.advance(at));
            at = skip_room(bytes, at + len);
        }
    });
}

/// What the first `count` keys have in common; `None` without records.
fn extent(memtable: &Memtable, from: Mark, to: Mark, count: usize) -> Option<Extent> {
    let mut extent: Option<Extent> = None;
    let mut left = count;
    each(memtable, from, to, |record, _, _| {
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

/// Sorts records that eight bytes of their keys do not tell apart and that are in arena order: pages of one collection, or
/// versions of one key that is written repeatedly. Larger groups are sorted by the next eight bytes likewise, and so on.
fn sort_group(memtable: &Memtable, group: &mut [Slot], depth: usize) {
    let key = |slot: &Slot| memtable.record(slot.at).key;
    let Some(first) = group.first().filter(|_| group.len() > 1).map(key) else { return };
    if group.len() <= COMPARED_MAX || depth == SORT_DEPTH_MAX {
        group.reverse();
        group.sort_by(|a, b| key(a).cmp(key(b)));
        return;
    }
    let slots = &*group;
    let key_ahead = |at: usize| {
        if let Some(ahead) = slots.get(at + PREFETCH_RECORDS) {
            ahead.at.prefetch();
        }
        key(&slots[at])
    };
    let (mut shared, mut min_len, mut max_len) = (first.len(), first.len(), first.len());
    for at in 0..slots.len() {
        let key = key_ahead(at);
        shared = shared_len(first, key, shared);
        min_len = min_len.min(key.len());
        max_len = max_len.max(key.len());
    }
    if shared == max_len {
        group.reverse();
        return;
    }
    let next = |at: usize| {
        let key = key_ahead(at);
        Slot { prefix: prefix_of(key, key.len() - shared), at: slots[at].at }
    };
    let mut by_next: Vec<Slot> = (0..slots.len()).map(next).collect();
    radix_sort(&mut by_next);
    let exact = min_len == max_len && max_len - shared <= PREFIX_BYTES;
    for group in by_next.chunk_by_mut(|a, b| a.prefix == b.prefix) {
        if exact {
            group.reverse();
        } else {
            sort_group(memtable, group, depth + 1);
        }
    }
    group.iter_mut().zip(by_next).for_each(|(slot, sorted)| slot.at = sorted.at);
}

/// About how many records there are, should the others be as long as the first of each chunk or stretch.
fn estimate(memtable: &Memtable, from: Mark, to: Mark) -> usize {
    let mut records = 0;
    memtable.for_each_filled(from, to, |bytes, _| {
        let (_, len) = record::decode(&bytes[skip_room(bytes, 0)..]);
        records += bytes.len().div_ceil(len);
    });
    records
}

/// A slot for each record, and the lengths of all keys; `None` when a key does not begin with
/// what those of `extent` share.
fn gather(
    memtable: &Memtable,
    from: Mark,
    to: Mark,
    mut extent: Extent,
) -> Option<(Order, Extent)> {
    let shared = extent.first_key[..extent.shared_len].to_vec();
    let mut slots = Vec::with_capacity(estimate(memtable, from, to));
    let (mut bytes, mut max_seq) = (0, 0);
    let mut all_share = true;
    each(memtable, from, to, |record, len, at| {
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
    let prefetch_bytes = (bytes / slots.len().max(1)).min(PREFETCH_BYTES_MAX);
    all_share.then(|| (Order { slots, max_seq, prefetch_bytes, ..Order::default() }, extent))
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

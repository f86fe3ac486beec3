//! The due times of a table's entries (N11).
//!
//! A heap of items, one for each entry that has an expiry or elements with due times (their earliest time counts). The
//! entry stores its item's position. A changed due time moves the item, and an entry that leaves the table
//! removes it: however often keys are given an expiry, the heap holds no more items than the table holds entries.

use super::due_alarm::DueAlarm;
use super::entry::Entry;
use crate::prefetch::prefetch_line;
use std::sync::Arc;

/// Position of an entry without an item: it is never due, or was handed out as due.
pub(super) const UNQUEUED: u32 = u32::MAX;

/// Items of a chunk. Chunks are never moved, so a heap that grows stops nobody.
const CHUNK_ITEMS: usize = 256;

/// Children of an item: a line or two of memory.
const CHILDREN: usize = 4;

/// Items below the first that come into its place soon.
const NEXT_ITEMS: usize = CHILDREN + CHILDREN * CHILDREN;

#[derive(Clone, Copy)]
struct Item {
    at_ms: u64,
    entry: Entry,
}

/// See the module comment. Whoever writes, moves or frees an entry of the table says so here.
#[derive(Default)]
pub(super) struct Dues {
    /// All but the last are full; the first grows from nothing, the others have their size at once.
    chunks: Vec<Vec<Item>>,
    alarm: Arc<DueAlarm>,
}

impl Dues {
    /// What comes first from now on rings this alarm.
    pub(super) fn set_alarm(&mut self, alarm: Arc<DueAlarm>) {
        self.alarm = alarm;
    }

    /// The first due time.
    pub(super) fn next_ms(&self) -> Option<u64> {
        Some(self.chunks.first()?.first()?.at_ms)
    }

    /// Brings the entries into the cache that `count` calls of [`Dues::pop_due`] read or write: the first ones, and the last
    /// ones, which take their places.
    pub(super) fn prefetch(&self, count: usize) {
        let len = self.len();
        let first = 0..len.min(NEXT_ITEMS);
        let last = len.saturating_sub(count).max(first.end)..len;
        first.chain(last).for_each(|at| prefetch_line(self.item(at).entry.address() as *const u8));
    }

    /// Entries that have an item.
    pub(super) fn len(&self) -> usize {
        let last = self.chunks.last().map_or(0, Vec::len);
        self.chunks.len().saturating_sub(1) * CHUNK_ITEMS + last
    }

    /// Bytes of the items.
    pub(super) fn item_bytes(&self) -> usize {
        self.len() * size_of::<Item>()
    }

    /// Memory held.
    pub(super) fn bytes(&self) -> usize {
        let last = self.chunks.last().map_or(0, Vec::capacity);
        let items = self.chunks.len().saturating_sub(1) * CHUNK_ITEMS + last;
        items * size_of::<Item>() + self.chunks.capacity() * size_of::<Vec<Item>>()
    }

    /// `entry` was written in the place of one whose item was at `queued`, or anew.
    #[inline]
    pub(super) fn written(&mut self, queued: u32, entry: Entry) {
        if queued != UNQUEUED || entry.may_be_due() {
            self.write(queued, entry);
        }
    }

    fn write(&mut self, queued: u32, entry: Entry) {
        let at_ms = entry.due_ms();
        match (queued, at_ms) {
            (UNQUEUED, 0) => {}
            (queued, 0) => {
                self.take(queued as usize);
                if entry.may_be_due() {
                    entry.set_queued(UNQUEUED);
                }
            }
            (UNQUEUED, at_ms) => self.push(Item { at_ms, entry }),
            (queued, at_ms) => self.sift(queued as usize, Item { at_ms, entry }),
        }
    }

    /// The entry was copied here, with the place of its item.
    pub(super) fn moved(&mut self, entry: Entry) {
        let at = entry.queued() as usize;
        if let Some(item) = self.chunks.get_mut(at / CHUNK_ITEMS) {
            item[at % CHUNK_ITEMS].entry = entry;
        }
    }

    /// The entry goes.
    #[inline]
    pub(super) fn removed(&mut self, entry: Entry) {
        let queued = entry.queued();
        if queued != UNQUEUED {
            self.take(queued as usize);
        }
    }

    /// Takes the first entry that is due out of the heap. It stays in the table.
    pub(super) fn pop_due(&mut self, now_ms: u64) -> Option<Entry> {
        let first = self.chunks.first()?.first()?;
        if first.at_ms > now_ms {
            return None;
        }
        let entry = first.entry;
        self.take(0);
        entry.set_queued(UNQUEUED);
        Some(entry)
    }

    /// Shows entries from places that `random` chooses, `looks` of them at most, until `f` has enough.
    pub(super) fn sample(&self, random: u64, looks: usize, mut f: impl FnMut(Entry) -> bool) {
        let len = self.len();
        for nth in 0..looks.min(len) {
            let at = (random as usize).wrapping_add(nth.wrapping_mul(0x9e37_79b1)) % len;
            if !f(self.item(at).entry) {
                return;
            }
        }
    }

    fn item(&self, at: usize) -> Item {
        self.chunks[at / CHUNK_ITEMS][at % CHUNK_ITEMS]
    }

    fn put(&mut self, at: usize, item: Item) {
        self.chunks[at / CHUNK_ITEMS][at % CHUNK_ITEMS] = item;
        item.entry.set_queued(at as u32);
        if at == 0 {
            self.alarm.note(item.at_ms);
        }
    }

    fn push(&mut self, item: Item) {
        let at = self.len();
        if at >= UNQUEUED as usize {
            // More than a place can count: such keys are found as those on devices are.
            return;
        }
        match self.chunks.last_mut().filter(|last| last.len() < CHUNK_ITEMS) {
            Some(last) => last.push(item),
            None => {
                let items = if self.chunks.is_empty() { 0 } else { CHUNK_ITEMS };
                let mut chunk = Vec::with_capacity(items);
                chunk.push(item);
                self.chunks.push(chunk);
            }
        }
        self.rise(at, item);
    }

    /// Takes the item at a place out.
    fn take(&mut self, at: usize) {
        let Some(last) = self.chunks.last_mut() else { return };
        let Some(item) = last.pop() else { return };
        if last.is_empty() {
            self.chunks.pop();
            if self.chunks.capacity() > 4 * self.chunks.len() {
                self.chunks.shrink_to(2 * self.chunks.len());
            }
        }
        if at < self.len() {
            self.sift(at, item);
        }
    }

    /// Writes an item for which `at` is free, or a place above or below.
    fn sift(&mut self, at: usize, item: Item) {
        if at > 0 && self.item((at - 1) / CHILDREN).at_ms > item.at_ms {
            self.rise(at, item);
        } else {
            self.sink(at, item);
        }
    }

    fn rise(&mut self, mut at: usize, item: Item) {
        while at > 0 {
            let above = (at - 1) / CHILDREN;
            let parent = self.item(above);
            if parent.at_ms <= item.at_ms {
                break;
            }
            self.put(at, parent);
            at = above;
        }
        self.put(at, item);
    }

    fn sink(&mut self, mut at: usize, item: Item) {
        let len = self.len();
        loop {
            let children = CHILDREN * at + 1..(CHILDREN * at + 1 + CHILDREN).min(len);
            let earliest = children.min_by_key(|&child| self.item(child).at_ms);
            let Some(child) = earliest.filter(|&child| self.item(child).at_ms < item.at_ms) else {
                break;
            };
            let below = self.item(child);
            self.put(at, below);
            at = child;
        }
        self.put(at, item);
    }

    /// What must hold at any time, for tests: each item knows its entry and is known by it, with its due time, and is
    /// not due before the one above it.
    #[cfg(test)]
    pub(super) fn assert_whole(&self) {
        for at in 0..self.len() {
            let Item { at_ms, entry } = self.item(at);
            assert_eq!((entry.queued(), entry.due_ms()), (at as u32, at_ms));
            assert!(at == 0 || self.item((at - 1) / CHILDREN).at_ms <= at_ms);
        }
    }
}

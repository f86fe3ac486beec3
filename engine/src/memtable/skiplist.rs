//! A skip list over the records of an arena (`memtable = skiplist`): ordered as it grows.
//!
//! A node is a record with its tower: the links of its levels are stored between the record's header and its
//! key, so a comparison mostly touches one cache line. Threads that hold different latches link nodes by compare-and-swap,
//! from level 0 up; nodes are never removed. A record is complete before it is linked and never
//! changes afterwards, so a thread that reaches it by a link may read it.
#![allow(unsafe_code)]

use super::arena::{Position, Room};
use super::record::{self, HEADER_BYTES, Record};
use crate::key::Seq;
use std::cell::Cell;
use std::cmp::Ordering as Order;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Levels of the list. With one node of four going up a level, enough for 16 million records.
pub(crate) const HEIGHT_MAX: usize = 12;

/// Bytes of one link.
pub(crate) const LINK_BYTES: usize = size_of::<AtomicPtr<u8>>();

/// A node's address: that of its record; null for the head as a predecessor, and for the end.
type Node = *mut u8;

/// The list. Its nodes are in the arena that its memtable owns.
#[derive(Default)]
pub(super) struct SkipList {
    head: [AtomicPtr<u8>; HEIGHT_MAX],
    /// A node that was the last of its level at some time: where keys arrive in order, the place to
    /// link the next one, without a search.
    last: [AtomicPtr<u8>; HEIGHT_MAX],
}

thread_local! {
    static RANDOM: Cell<u64> = const { Cell::new(0x9e37_79b9_7f4a_7c15) };
}

/// The height of a new node.
#[must_use]
pub(crate) fn random_height() -> usize {
    let bits = RANDOM.with(|state| {
        let mut x = state.get();
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        state.set(x);
        x
    });
    // Two zero bits: one of four.
    1 + (bits.trailing_zeros() as usize / 2).min(HEIGHT_MAX - 1)
}

/// The record of a node.
///
/// # Safety
/// `node` is not null and was linked into a list whose arena lives as long as `'a`.
unsafe fn record_of<'a>(node: Node) -> Record<'a> {
    // SAFETY: a linked node starts with a complete header, which says how long tower and body are, and
    // neither header nor body change any more. The tower, which changes, is not part of the slices.
    unsafe {
        let header = &*node.cast::<[u8; HEADER_BYTES]>();
        let (height, body_len) = record::extent(header);
        let body = node.add(HEADER_BYTES + height * LINK_BYTES);
        record::assemble(header, std::slice::from_raw_parts(body, body_len))
    }
}

impl SkipList {
    /// The link of `node` (null: the head) on a level below its height.
    ///
    /// # Safety
    /// `node` is null or a node of this list, or one about to be linked, whose tower is filled; `level` is
    /// below its height.
    unsafe fn link(&self, node: Node, level: usize) -> &AtomicPtr<u8> {
        if node.is_null() {
            return &self.head[level];
        }
        // SAFETY: the tower starts behind the header, is aligned as the record is (8 bytes), and is
        // only ever accessed as atomics once it is filled.
        unsafe { &*node.add(HEADER_BYTES + level * LINK_BYTES).cast::<AtomicPtr<u8>>() }
    }

    fn next(&self, node: Node, level: usize) -> Node {
        // SAFETY: callers go along levels on which they have met the node.
        unsafe { self.link(node, level) }.load(Ordering::Acquire)
    }

    /// True when `node` comes before (`key`, `seq`): keys ascending, newest first.
    fn is_before(node: Node, key: &[u8], seq: Seq) -> bool {
        // SAFETY: callers pass nodes that they reached by a link.
        let record = unsafe { record_of(node) };
        match record.key.cmp(key) {
            Order::Less => true,
            Order::Equal => record.seq > seq,
            Order::Greater => false,
        }
    }

    /// Finds the last node before (`key`, `seq`) on each level, from the top down.
    fn search(&self, key: &[u8], seq: Seq, mut found: impl FnMut(usize, Node)) {
        let mut node = ptr::null_mut();
        for level in (0..HEIGHT_MAX).rev() {
            let mut next = self.next(node, level);
            while !next.is_null() && Self::is_before(next, key, seq) {
                node = next;
                next = self.next(node, level);
            }
            found(level, node);
        }
    }

    /// Links the record in `room`, a reservation of this list's arena, whose header and body are written.
    /// Its (key, seq) is in no other node.
    pub(super) fn insert(&self, room: Room) {
        // Taken by value: from now on the record is read only, and its tower atomic.
        let node = room.into_start();
        // SAFETY: the room held a whole record, and the arena keeps it.
        let (record, height) = unsafe {
            let header = &*node.cast::<[u8; HEADER_BYTES]>();
            (record_of(node), record::extent(header).0)
        };
        for level in 0..height {
            // SAFETY: inside the tower, which nobody else knows of yet.
            unsafe {
                let link = node.add(HEADER_BYTES + level * LINK_BYTES).cast::<AtomicPtr<u8>>();
                link.write(AtomicPtr::new(ptr::null_mut()));
            }
        }
        let (key, seq) = (record.key, record.seq);
        let mut before = [ptr::null_mut(); HEIGHT_MAX];
        if !self.is_behind_all(height, key, seq, &mut before) {
            self.search(key, seq, |level, node| before[level] = node);
        }
        for (level, &start) in before.iter().enumerate().take(height) {
            let mut previous = start;
            loop {
                let mut next = self.next(previous, level);
                // Others may have linked nodes here meanwhile.
                while !next.is_null() && Self::is_before(next, key, seq) {
                    previous = next;
                    next = self.next(previous, level);
                }
                // SAFETY: `level` is below the height of `node`, and `previous` was met on it.
                let (own, link) = unsafe { (self.link(node, level), self.link(previous, level)) };
                own.store(next, Ordering::Relaxed);
                let linked =
                    link.compare_exchange(next, node, Ordering::Release, Ordering::Relaxed);
                if linked.is_ok() {
                    if next.is_null() {
                        self.last[level].store(node, Ordering::Release);
                    }
                    break;
                }
            }
        }
    }

    /// Sets `before` and answers true when the last nodes noted of all levels below `height` come before the
    /// key. Notes may be stale: then the walk from there finds the place.
    fn is_behind_all(&self, height: usize, key: &[u8], seq: Seq, before: &mut [Node]) -> bool {
        before.iter_mut().zip(&self.last).take(height).all(|(before, last)| {
            *before = last.load(Ordering::Acquire);
            !before.is_null() && Self::is_before(*before, key, seq)
        })
    }

    /// The first record at or behind (`key`, newest first from `seq` down).
    #[must_use]
    pub(super) fn lower_bound(&self, key: &[u8], seq: Seq) -> Option<Position> {
        let mut before = ptr::null_mut();
        self.search(key, seq, |_, node| before = node);
        // Others may have linked nodes here since.
        let mut next = self.next(before, 0);
        while !next.is_null() && Self::is_before(next, key, seq) {
            next = self.next(next, 0);
        }
        Position::of_node(next)
    }

    /// The last record before (`key`, `seq`).
    #[must_use]
    pub(super) fn last_before(&self, key: &[u8], seq: Seq) -> Option<Position> {
        let mut found = ptr::null_mut();
        self.search(key, seq, |_, node| found = node);
        Position::of_node(found)
    }

    /// The last record of all.
    #[must_use]
    pub(super) fn last(&self) -> Option<Position> {
        let mut node = ptr::null_mut();
        for level in (0..HEIGHT_MAX).rev() {
            loop {
                let next = self.next(node, level);
                if next.is_null() {
                    break;
                }
                node = next;
            }
        }
        Position::of_node(node)
    }

    /// The first record.
    #[must_use]
    pub(super) fn first(&self) -> Option<Position> {
        Position::of_node(self.next(ptr::null_mut(), 0))
    }

    /// The record behind `at`, which is one of this list.
    #[must_use]
    pub(super) fn after(&self, at: Position) -> Option<Position> {
        Position::of_node(self.next(at.node(), 0))
    }
}

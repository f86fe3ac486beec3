//! Memtables: put records in commit order in an arena, sorted on demand.
//!
//! A memtable has no index: keys changed in it are pinned in the DRAM table until it is sorted
//! (`engine/DESIGN.md`, "A write"). With `memtable = skiplist` it also has a skip list, which keeps it
//! in order as it grows. With `persistence-mode wbl` its records are in persistent memory.

mod arena;
mod list_source;
mod order;
mod pooled;
mod prefix;
mod record;
mod run;
mod run_source;
mod skiplist;
mod stretches;

pub(crate) use arena::{Arena, ChunkPool, Cursor, Mark, Position, Room};
pub(crate) use list_source::ListSource;
pub(crate) use pooled::Pooled;
pub(crate) use record::{
    HEADER_BYTES, Record, append, append_shared, decode, encode, encode_shared, encoded_len, stamp,
};
pub(crate) use run::Run;
pub(crate) use run_source::RunSource;
pub(crate) use skiplist::{LINK_BYTES, random_height};

use self::order::Order;
use self::skiplist::SkipList;
use crate::key::Seq;
use crate::shared_value::SharedValue;
use parking_lot::Mutex;
use sexton_persistence::pmem::PmemArena;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How a memtable finds and orders its records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemtableKind {
    /// Found through the DRAM table, sorted when somebody needs them in order.
    #[default]
    Hash,
    /// Like `Hash`, and linked into a skip list one by one as they are written: the usual memtable of an
    /// LSM-tree, for comparison.
    SkipList,
}

/// An arena with its place in the order of memtables.
pub(crate) struct Memtable {
    arena: Arena,
    list: Option<SkipList>,
    pooled: Option<Pooled>,
    /// Stands in the DRAM entries changed while this memtable was active.
    pub(crate) generation: u8,
    /// Lowest sequence it can hold.
    pub(crate) first_seq: Seq,
    /// What scans have sorted of it so far: orders, not runs, which would keep the memtable for ever.
    ordered: Mutex<Ordered>,
    shared: Shared,
    /// Log bytes of commits whose values are in blocks: of changes in place, which have put no record (E3), and of the first ones.
    logged_bytes: AtomicU64,
    /// What of the shared values does not fill it: see [`Memtable::count_kept_less`].
    unfilling_bytes: AtomicU64,
}

/// The values that records refer to, a count of each, and their bytes in all.
#[derive(Default)]
struct Shared {
    values: Mutex<Vec<SharedValue>>,
    bytes: AtomicU64,
}

#[derive(Default)]
struct Ordered {
    /// Oldest first, each with the mark at which it starts. Every one has more than `RUN_RATIO` times the
    /// records of the one behind it.
    runs: Vec<(Mark, Arc<Order>)>,
    upto: Mark,
}

/// A sorted piece that is not this many times as long as what is to be sorted is sorted again together
/// with it. So scans between single writes find about log4(n) pieces, and a record is sorted a few times that
/// often, however many scans come.
const RUN_RATIO: usize = 4;

/// Up to this many shared values are all inspected; of more, a sample.
const LOOKS_MAX: usize = 4096;
const LOOKS_AT_ONCE: usize = 256;

/// Shared values that the DRAM table refers to as well fill a memtable by their bytes divided by this.
const KEPT_SHARE: u64 = 4;

impl Memtable {
    /// An empty memtable.
    #[must_use]
    pub(crate) fn new(
        pool: Arc<ChunkPool>,
        kind: MemtableKind,
        generation: u8,
        first_seq: Seq,
    ) -> Arc<Self> {
        let ordered = Mutex::new(Ordered::default());
        let list = (kind == MemtableKind::SkipList).then(SkipList::default);
        Arc::new(Self {
            arena: Arena::new(pool),
            list,
            pooled: None,
            generation,
            first_seq,
            ordered,
            shared: Shared::default(),
            logged_bytes: AtomicU64::new(0),
            unfilling_bytes: AtomicU64::new(0),
        })
    }

    /// One whose records are in arenas of persistent memory: those of an earlier run, oldest first, and the
    /// one that takes new records.
    #[must_use]
    pub(crate) fn in_pool(
        pool: Arc<ChunkPool>,
        (recovered, active): (Vec<Arc<PmemArena>>, Arc<PmemArena>),
        generation: u8,
        first_seq: Seq,
    ) -> Arc<Self> {
        Arc::new(Self {
            arena: Arena::new(pool),
            list: None,
            pooled: Some(Pooled::new(recovered, active)),
            generation,
            first_seq,
            ordered: Mutex::new(Ordered::default()),
            shared: Shared::default(),
            logged_bytes: AtomicU64::new(0),
            unfilling_bytes: AtomicU64::new(0),
        })
    }

    /// What of it is in persistent memory.
    #[must_use]
    pub(crate) fn pooled(&self) -> Option<&Pooled> {
        self.pooled.as_ref()
    }

    /// Bytes of its records, and of the values that these share.
    #[must_use]
    pub(crate) fn used_bytes(&self) -> u64 {
        let pooled = self.pooled.as_ref().map_or(0, Pooled::used_bytes);
        self.arena.used_bytes() + self.shared_bytes() + pooled
    }

    /// How full it is: its bytes, or those that a start would have to read of the log for it, if these are more.
    #[must_use]
    pub(crate) fn filled_bytes(&self) -> u64 {
        let own = self.used_bytes().saturating_sub(self.unfilling_bytes.load(Ordering::Relaxed));
        own.max(self.logged_bytes.load(Ordering::Relaxed))
    }

    /// Of the shared values that the DRAM table refers to as well, only a share fills it from here on: its flush frees nothing
    /// of them, and those that are changed again in this epoch are not written once more (E3). As of now: later values count in full.
    pub(crate) fn count_kept_less(&self) {
        let kept = self.shared_bytes().saturating_sub(self.left_bytes());
        self.unfilling_bytes.store(kept - kept / KEPT_SHARE, Ordering::Relaxed);
    }

    /// All of its bytes fill it again.
    pub(crate) fn count_all(&self) {
        self.unfilling_bytes.store(0, Ordering::Relaxed);
    }

    /// Notes a commit of `log_bytes` bytes whose values are in blocks. Callers hold the commit mutex.
    pub(crate) fn note_logged(&self, log_bytes: usize) {
        let bytes = self.logged_bytes.load(Ordering::Relaxed) + log_bytes as u64;
        self.logged_bytes.store(bytes, Ordering::Relaxed);
    }

    /// About the bytes of the shared values that nobody but this memtable refers to any more: what was overwritten or evicted. Looks at
    /// some of many.
    #[must_use]
    pub(crate) fn left_bytes(&self) -> u64 {
        let (mut left, mut from, mut step) = (0, 0, 1);
        loop {
            // A few at a time: a commit may be waiting.
            let values = self.shared.values.lock();
            step = values.len().div_ceil(LOOKS_MAX).max(step);
            let some = values.iter().skip(from).step_by(step).take(LOOKS_AT_ONCE);
            let alone = some.filter(|value| value.holders() == 1);
            left += alone.map(|value| value.held_bytes() as u64).sum::<u64>() * step as u64;
            from += LOOKS_AT_ONCE * step;
            if from >= values.len() {
                return left;
            }
        }
    }

    /// Bytes of the values that records share with the DRAM table, or shared before they were overwritten there.
    #[must_use]
    pub(crate) fn shared_bytes(&self) -> u64 {
        self.shared.bytes.load(Ordering::Relaxed)
    }

    /// Keeps a value that a record refers to. Callers hold the commit mutex.
    pub(crate) fn keep(&self, value: SharedValue) {
        let bytes = self.shared_bytes() + value.held_bytes() as u64;
        self.shared.bytes.store(bytes, Ordering::Relaxed);
        self.shared.values.lock().push(value);
    }

    /// The same for values that hold `bytes` bytes together: the list is empty afterwards.
    pub(crate) fn keep_all(&self, values: &mut Vec<SharedValue>, bytes: u64) {
        self.shared.bytes.store(self.shared_bytes() + bytes, Ordering::Relaxed);
        self.shared.values.lock().append(values);
    }

    /// Its end, as of a barrier: below it everything can be read. Callers hold the commit mutex, which owns
    /// `cursor`.
    #[must_use]
    pub(crate) fn mark(&self, cursor: &Cursor) -> Mark {
        match &self.pooled {
            Some(pooled) => pooled.mark(),
            None => self.arena.mark(cursor),
        }
    }

    /// Copies an encoded record into `room`, which has `height` links more than the record needs, and
    /// puts it into the skip list. The room is one of this memtable's arena.
    pub(crate) fn link(&self, mut room: Room, encoded: &[u8], height: usize) {
        record::copy_with_tower(room.bytes(), encoded, height, LINK_BYTES);
        if let Some(list) = &self.list {
            list.insert(room);
        }
    }

    /// Calls `f` with records in the order in which they were written, as many as are in one piece, and where that
    /// begins. Both marks were taken at barriers.
    fn for_each_filled(&self, from: Mark, to: Mark, f: impl FnMut(&[u8], Position)) {
        match &self.pooled {
            Some(pooled) => pooled.stretches.for_each_filled(from, to, f),
            None => self.arena.for_each_filled(from, to, f),
        }
    }

    /// The record at a position of its arena.
    fn record(&self, at: Position) -> Record<'_> {
        let header = self.arena.record_bytes(at, HEADER_BYTES);
        let header = header.first_chunk::<HEADER_BYTES>().expect("a whole header");
        let (height, body_len) = record::extent(header);
        let body = at.advance(HEADER_BYTES + height * LINK_BYTES);
        record::assemble(header, self.arena.record_bytes(body, body_len))
    }

    /// Newest version of `key` with a sequence of at most `bound`, from the skip list; `None` without.
    #[must_use]
    pub(crate) fn get(&self, key: &[u8], bound: Seq) -> Option<Record<'_>> {
        let at = self.list.as_ref()?.lower_bound(key, bound)?;
        Some(self.record(at)).filter(|record| record.key == key)
    }

    /// True when it has a skip list.
    #[must_use]
    pub(crate) fn is_linked(&self) -> bool {
        self.list.is_some()
    }

    /// All its records in order. Everything below `upto` is written, and nothing follows.
    #[must_use]
    pub(crate) fn sorted(self: &Arc<Self>, upto: Mark) -> Run {
        match &self.list {
            Some(list) => Run::of_list(Arc::clone(self), list),
            None => Run::sort(Arc::clone(self), Mark::default(), upto),
        }
    }

    /// Its memory.
    #[must_use]
    pub(crate) fn arena(&self) -> &Arena {
        &self.arena
    }

    /// Sorted runs, newest last, that together hold everything below `upto`, a mark taken at a barrier,
    /// and perhaps more, which readers tell by its sequences. Sorts only what came since the last call.
    #[must_use]
    pub(crate) fn ordered_through(self: &Arc<Self>, upto: Mark) -> Vec<Arc<Run>> {
        let mut ordered = self.ordered.lock();
        if ordered.upto < upto {
            let mut from = ordered.upto;
            let mut order = Order::sort(self, from, upto);
            let mut len = order.slots.len();
            while let Some((start, last)) = ordered.runs.last()
                && last.slots.len() <= RUN_RATIO * len
            {
                len += last.slots.len();
                from = *start;
                ordered.runs.pop();
            }
            if len > order.slots.len() {
                order = Order::sort(self, from, upto);
            }
            ordered.upto = upto;
            if !order.slots.is_empty() {
                ordered.runs.push((from, Arc::new(order)));
            }
        }
        let run = |order: &Arc<Order>| Run::new(Arc::clone(self), Arc::clone(order));
        ordered.runs.iter().map(|(_, order)| Arc::new(run(order))).collect()
    }
}

#[cfg(test)]
mod tests;

//! A memtable, or the part of it that a scan needs, in key order.

use super::Memtable;
use super::arena::{Mark, Position};
use super::record::{self, HEADER_BYTES, Record};
use crate::key::{Meta, Seq};
use crate::table::TableResult;
use crate::tree::Source;
use std::cmp::Ordering;
use std::sync::Arc;

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
}

impl Run {
    /// Sorts the records of `memtable` between two marks. Both were taken at barriers.
    #[must_use]
    pub(crate) fn sort(memtable: Arc<Memtable>, from: Mark, to: Mark) -> Self {
        let mut slots: Vec<Slot> = Vec::new();
        let mut first_key: Option<Vec<u8>> = None;
        let mut shared = usize::MAX;
        memtable.arena().for_each_filled(from, to, |bytes, start| {
            let mut at = 0;
            while at < bytes.len() {
                let (record, len) = record::decode(&bytes[at..]);
                match &first_key {
                    None => {
                        shared = record.key.len();
                        first_key = Some(record.key.to_vec());
                    }
                    Some(first) => shared = shared_len(first, record.key, shared),
                }
                slots.push(Slot { prefix: 0, at: start.advance(at) });
                at += len;
            }
        });
        let mut run = Self { memtable, slots, shared_prefix_len: shared.min(1 << 20) };
        for i in 0..run.slots.len() {
            run.slots[i].prefix = run.prefix_of(run.record(i).key);
        }
        let mut slots = std::mem::take(&mut run.slots);
        slots.sort_unstable_by_key(|slot| slot.prefix);
        run.order_equal_prefixes(&mut slots);
        run.slots = slots;
        run
    }

    fn order_equal_prefixes(&self, slots: &mut [Slot]) {
        for group in slots.chunk_by_mut(|a, b| a.prefix == b.prefix) {
            if group.len() > 1 {
                group.sort_unstable_by(|a, b| {
                    let (a, b) = (self.read(a.at), self.read(b.at));
                    a.key.cmp(b.key).then(b.seq.cmp(&a.seq))
                });
            }
        }
    }

    fn prefix_of(&self, key: &[u8]) -> u64 {
        let rest = &key[self.shared_prefix_len.min(key.len())..];
        let mut bytes = [0; 8];
        let len = rest.len().min(8);
        bytes[..len].copy_from_slice(&rest[..len]);
        u64::from_be_bytes(bytes)
    }

    fn read(&self, at: Position) -> Record<'_> {
        let arena = self.memtable.arena();
        let header = arena.record_bytes(at, HEADER_BYTES);
        let len = |at: usize| {
            u32::from_ne_bytes(header[at..at + 4].try_into().expect("4 bytes")) as usize
        };
        record::decode(arena.record_bytes(at, HEADER_BYTES + len(16) + len(20))).0
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
        Ok(())
    }

    fn seek(&mut self, key: &[u8]) -> TableResult<()> {
        self.at = self.run.lower_bound(key, Seq::MAX);
        Ok(())
    }
}

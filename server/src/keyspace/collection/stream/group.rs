//! Consumer groups of a stream.
//!
//! ```text
//! groups u32 LE, each by its name:
//!   name, packed | last delivered ID | entries read, u64 LE (all ones: not known)
//!   consumers u32 LE, each by its name: name, packed | seen at, u64 LE
//!   pending u32 LE, each by its ID:     ID | delivered at, u64 LE | deliveries, u64 LE | consumer, u32 LE
//! ```

use super::id::{ID_BYTES, push_id, read_id};
use crate::keyspace::collection::packed;
use sexton_persistence::rdb::{self, StreamId};

const UNKNOWN: u64 = u64::MAX;

/// Bytes of a pending entry.
const PENDING_BYTES: usize = ID_BYTES + 20;

/// A consumer of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consumer {
    /// Its name.
    pub name: Vec<u8>,
    /// When it asked last, in ms since the epoch.
    pub seen_ms: u64,
    /// Entries that were pending for it when the group was read.
    pub pending: u64,
}

/// An entry that was delivered and not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// The entry.
    pub id: StreamId,
    /// When it was delivered last, in ms since the epoch.
    pub delivered_ms: u64,
    /// How often.
    pub deliveries: u64,
    /// Whose it is, as a position in [`Group::consumers`].
    pub consumer: usize,
}

/// All that is pending for a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PendingTotals {
    /// Entries.
    pub entries: u64,
    /// The lowest ID and the highest one; of a group in pages only where they were asked for.
    pub ends: Option<(StreamId, StreamId)>,
}

/// A consumer group. In a paged stream it contains only the requested pending entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// Its name.
    pub name: Vec<u8>,
    /// Last delivered.
    pub last_id: StreamId,
    /// Entries read; `None` when not known.
    pub entries_read: Option<u64>,
    /// By name.
    pub consumers: Vec<Consumer>,
    /// By ID.
    pub pending: Vec<Pending>,
    /// Of all pending entries, when the group was read.
    pub totals: PendingTotals,
}

impl Group {
    /// The index of a consumer.
    #[must_use]
    pub fn find_consumer(&self, name: &[u8]) -> Option<usize> {
        self.consumers.binary_search_by(|consumer| consumer.name.as_slice().cmp(name)).ok()
    }

    /// The index of a consumer, and whether it was missing and has been added.
    pub fn consumer_or_new(&mut self, name: &[u8], now_ms: u64) -> (usize, bool) {
        let found = self.consumers.binary_search_by(|consumer| consumer.name.as_slice().cmp(name));
        let Err(at) = found else { return (found.unwrap_or_default(), false) };
        self.consumers.insert(at, Consumer { name: name.to_vec(), seen_ms: now_ms, pending: 0 });
        for pending in self.pending.iter_mut().filter(|pending| pending.consumer >= at) {
            pending.consumer += 1;
        }
        (at, true)
    }

    /// Removes a consumer and its pending entries; returns how many these were.
    pub fn remove_consumer(&mut self, at: usize) -> usize {
        let before = self.pending.len();
        self.consumers.remove(at);
        self.pending.retain(|pending| pending.consumer != at);
        for pending in self.pending.iter_mut().filter(|pending| pending.consumer > at) {
            pending.consumer -= 1;
        }
        before - self.pending.len()
    }

    /// The index at which an entry is pending, or would be inserted.
    ///
    /// # Errors
    /// It is not pending.
    pub fn find_pending(&self, id: StreamId) -> Result<usize, usize> {
        // Mostly it is a new one, behind all others.
        match self.pending.last() {
            Some(last) if last.id < id => Err(self.pending.len()),
            _ => self.pending.binary_search_by_key(&id, |pending| pending.id),
        }
    }

    /// Nothing of `ids` is pending any more; which of them were.
    pub fn acknowledge(&mut self, ids: &[StreamId]) -> Vec<StreamId> {
        let mut found: Vec<_> =
            ids.iter().copied().filter(|&id| self.find_pending(id).is_ok()).collect();
        found.sort_unstable();
        found.dedup();
        if !found.is_empty() {
            self.pending.retain(|pending| found.binary_search(&pending.id).is_err());
        }
        found
    }

    /// All pending entries are there: they are what the totals are of.
    pub(in crate::keyspace) fn count_pending(&mut self) {
        let ends = self.pending.first().zip(self.pending.last());
        let ends = ends.map(|(first, last)| (first.id, last.id));
        self.totals = PendingTotals { entries: self.pending.len() as u64, ends };
        self.consumers.iter_mut().for_each(|consumer| consumer.pending = 0);
        for pending in &self.pending {
            let consumer = self.consumers.get_mut(pending.consumer);
            consumer.into_iter().for_each(|consumer| consumer.pending += 1);
        }
    }

    /// Entries that are pending for a consumer.
    pub fn pending_of(&self, consumer: usize) -> impl Iterator<Item = &Pending> {
        self.pending.iter().filter(move |pending| pending.consumer == consumer)
    }

    /// About how many bytes of a record it takes, and no fewer.
    #[must_use]
    pub fn record_bytes(&self) -> usize {
        let consumers: usize = self.consumers.iter().map(|one| one.name.len() + 16).sum();
        self.name.len() + 48 + consumers + self.pending.len() * PENDING_BYTES
    }

    fn write(&self, out: &mut Vec<u8>) {
        packed::push(out, &self.name);
        push_id(out, self.last_id);
        out.extend_from_slice(&self.entries_read.unwrap_or(UNKNOWN).to_le_bytes());
        out.extend_from_slice(&(self.consumers.len() as u32).to_le_bytes());
        for consumer in &self.consumers {
            packed::push(out, &consumer.name);
            out.extend_from_slice(&consumer.seen_ms.to_le_bytes());
        }
        out.extend_from_slice(&(self.pending.len() as u32).to_le_bytes());
        for pending in &self.pending {
            push_id(out, pending.id);
            out.extend_from_slice(&pending.delivered_ms.to_le_bytes());
            out.extend_from_slice(&pending.deliveries.to_le_bytes());
            out.extend_from_slice(&(pending.consumer as u32).to_le_bytes());
        }
    }

    /// As dumps have it.
    #[must_use]
    pub fn to_dumped(&self) -> rdb::Group {
        let pending = self.pending.iter().map(|pending| rdb::Pending {
            id: pending.id,
            delivered_ms: pending.delivered_ms,
            deliveries: pending.deliveries,
        });
        let consumers = self.consumers.iter().enumerate().map(|(at, consumer)| rdb::Consumer {
            name: consumer.name.clone(),
            seen_ms: consumer.seen_ms,
            active_ms: None,
            pending: self.pending_of(at).map(|pending| pending.id).collect(),
        });
        rdb::Group {
            name: self.name.clone(),
            last_id: self.last_id,
            entries_read: self.entries_read,
            pending: pending.collect(),
            consumers: consumers.collect(),
        }
    }

    /// From a dump; `None` when it contradicts itself.
    #[must_use]
    pub fn of_dumped(dumped: rdb::Group) -> Option<Self> {
        let mut group = Self {
            name: dumped.name,
            last_id: dumped.last_id,
            entries_read: dumped.entries_read,
            ..Self::default()
        };
        let nobody = usize::MAX;
        group.pending = dumped
            .pending
            .iter()
            .map(|pending| Pending {
                id: pending.id,
                delivered_ms: pending.delivered_ms,
                deliveries: pending.deliveries,
                consumer: nobody,
            })
            .collect();
        let mut consumers = dumped.consumers;
        consumers.sort_by(|a, b| a.name.cmp(&b.name));
        for (at, consumer) in consumers.iter().enumerate() {
            for &id in &consumer.pending {
                let place = group.find_pending(id).ok()?;
                let owner = &mut group.pending[place].consumer;
                if *owner != nobody {
                    return None;
                }
                *owner = at;
            }
        }
        let is_sorted = group.pending.is_sorted_by(|a, b| a.id < b.id)
            && consumers.is_sorted_by(|a, b| a.name < b.name);
        let is_owned = group.pending.iter().all(|pending| pending.consumer != nobody);
        group.consumers = consumers
            .into_iter()
            .map(|own| Consumer { name: own.name, seen_ms: own.seen_ms, pending: 0 })
            .collect();
        group.count_pending();
        (is_sorted && is_owned).then_some(group)
    }
}

/// Takes from the front of bytes that [`write_all`] has written.
struct Source<'v>(&'v [u8]);

impl<'v> Source<'v> {
    fn item(&mut self) -> Option<&'v [u8]> {
        let (item, rest) = packed::split(self.0)?;
        self.0 = rest;
        Some(item)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*bytes)
    }

    fn u32(&mut self) -> Option<usize> {
        self.array().map(|bytes| u32::from_le_bytes(bytes) as usize)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn id(&mut self) -> Option<StreamId> {
        self.array::<ID_BYTES>().and_then(|bytes| read_id(&bytes))
    }

    fn group(&mut self) -> Option<Group> {
        let mut group = Group {
            name: self.item()?.to_vec(),
            last_id: self.id()?,
            entries_read: self.u64().map(|read| (read != UNKNOWN).then_some(read))?,
            ..Group::default()
        };
        for _ in 0..self.u32()? {
            let name = self.item()?.to_vec();
            group.consumers.push(Consumer { name, seen_ms: self.u64()?, pending: 0 });
        }
        for _ in 0..self.u32()? {
            group.pending.push(Pending {
                id: self.id()?,
                delivered_ms: self.u64()?,
                deliveries: self.u64()?,
                consumer: self.u32()?,
            });
        }
        group.count_pending();
        Some(group)
    }
}

/// The last delivered ID of the group of this name, if nothing else of it is needed.
pub(in crate::keyspace) fn find_last_id(bytes: &[u8], name: &[u8]) -> Option<StreamId> {
    let mut source = Source(bytes);
    for _ in 0..source.u32()? {
        let (own, last_id) = (source.item()?, source.id()?);
        if own == name {
            return Some(last_id);
        }
        source.u64()?;
        for _ in 0..source.u32()? {
            source.item()?;
            source.u64()?;
        }
        let pending_bytes = source.u32()?.checked_mul(PENDING_BYTES)?;
        source.0 = source.0.get(pending_bytes..)?;
    }
    None
}

/// Reads all groups, up to the first corruption; records written here have none.
pub(super) fn read_all(bytes: &[u8]) -> Vec<Group> {
    let mut source = Source(bytes);
    let count = source.u32().unwrap_or(0);
    (0..count).map_while(|_| source.group()).collect()
}

/// The bytes of all groups: none without any.
pub(in crate::keyspace) fn write_all(groups: &[Group]) -> Vec<u8> {
    let mut out = Vec::new();
    if !groups.is_empty() {
        out.extend_from_slice(&(groups.len() as u32).to_le_bytes());
        groups.iter().for_each(|group| group.write(&mut out));
    }
    out
}

//! Consumer groups of a paged stream: what a command requests of them, and how they are written.
//!
//! A command sees the groups as in a single-record stream, but with only those pending entries that it requests. The changed
//! group is compared with the one it has seen, and the difference is written.

use super::super::none_of;
use super::{Missed, Stop, Streamed};
use crate::keyspace::collection::stream::{
    Consumer, Group, HIGHEST, LOWEST, Pending, PendingTotals, id_number, id_of_number,
};
use sexton_engine::page::stream::{GroupChange, PendingChange, PendingEntry, StreamGroup};
use sexton_engine::page::{PageError, Pages, PartKind};
use sexton_persistence::rdb::StreamId;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// What a command asks of the consumer groups.
#[derive(Clone, Copy, Debug)]
pub enum GroupsAsked<'a> {
    /// Nothing.
    None,
    /// All of them, without pending entries.
    Heads,
    /// All of them, with at most this many pending entries of each group and of each of its consumers.
    Full(usize),
    /// The group of a name, if there is one.
    One(&'a [u8], PendingAsked<'a>),
}

/// The request of a command for pending entries of a group, in addition to the counts per consumer.
#[derive(Clone, Copy, Debug)]
pub enum PendingAsked<'a> {
    /// Nothing.
    None,
    /// Which is the first one, and which the last.
    Ends,
    /// Those of these IDs that are pending.
    Ids(&'a [StreamId]),
    /// Some neighbours.
    Span(PendingSpan<'a>),
}

/// Pending entries from `start` to `end`, both included.
#[derive(Clone, Copy, Debug)]
pub struct PendingSpan<'a> {
    /// From this ID on.
    pub start: StreamId,
    /// Up to this one.
    pub end: StreamId,
    /// Maximum number of entries.
    pub most: usize,
    /// Only those of this consumer.
    pub consumer: Option<&'a [u8]>,
    /// Only those that were delivered last at this time or before, in ms since the epoch.
    pub delivered_max_ms: i64,
}

impl PendingSpan<'_> {
    /// All.
    pub const ALL: Self = Self {
        start: LOWEST,
        end: HIGHEST,
        most: usize::MAX,
        consumer: None,
        delivered_max_ms: i64::MAX,
    };

    fn takes(&self, entry: PendingEntry) -> bool {
        entry.delivered_ms as i64 <= self.delivered_max_ms
    }

    /// Maximum number of entries to examine, if the idle time does not limit them.
    fn looks(&self) -> usize {
        if self.delivered_max_ms == i64::MAX { self.most } else { usize::MAX }
    }
}

impl Streamed {
    /// The groups that are asked for. What is missing is noted.
    pub(super) fn read_groups<P: Pages>(
        &self,
        pages: &P,
        asked: GroupsAsked<'_>,
        missed: &mut Missed,
    ) -> Result<Vec<Group>, PageError> {
        let (name, pending) = match asked {
            GroupsAsked::None => return Ok(Vec::new()),
            GroupsAsked::One(name, pending) => (name, pending),
            GroupsAsked::Heads | GroupsAsked::Full(_) => {
                let mut missing = Vec::new();
                let found = self.stream.groups(pages, &mut missing)?;
                missed.0.extend(missing);
                let mut groups = Vec::with_capacity(found.len());
                for of in found {
                    let mut entries = BTreeMap::new();
                    if let GroupsAsked::Full(most) = asked {
                        self.first_pending(pages, &of, most, &mut entries, missed)?;
                    }
                    groups.push(group_of(of, None, entries.into_values())?);
                }
                return Ok(groups);
            }
        };
        let Some(of) = missed.note(self.stream.group(pages, name))?.flatten() else {
            return Ok(Vec::new());
        };
        let (mut ends, mut entries) = (None, BTreeMap::new());
        match pending {
            PendingAsked::None => {}
            PendingAsked::Ends => {
                ends = missed.note(self.stream.pending_ends(pages, &of))?.flatten();
            }
            PendingAsked::Ids(ids) => {
                for &id in ids {
                    let found = missed.note(self.stream.pending(pages, &of, id_number(id)))?;
                    entries.extend(found.flatten().map(|entry| (entry.id, entry)));
                }
            }
            PendingAsked::Span(span) => self.span(pages, &of, span, &mut entries, missed)?,
        }
        Ok(vec![group_of(of, ends, entries.into_values())?])
    }

    fn first_pending<P: Pages>(
        &self,
        pages: &P,
        of: &StreamGroup,
        most: usize,
        entries: &mut BTreeMap<u128, PendingEntry>,
        missed: &mut Missed,
    ) -> Result<(), PageError> {
        self.span(pages, of, PendingSpan { most, ..PendingSpan::ALL }, entries, missed)?;
        if entries.len() < most {
            // Those were all.
            return Ok(());
        }
        for consumer in &of.head.consumers {
            let consumer = Some(consumer.name.as_slice());
            let span = PendingSpan { most, consumer, ..PendingSpan::ALL };
            self.span(pages, of, span, entries, missed)?;
        }
        Ok(())
    }

    /// Adds some neighbours.
    fn span<P: Pages>(
        &self,
        pages: &P,
        of: &StreamGroup,
        span: PendingSpan<'_>,
        entries: &mut BTreeMap<u128, PendingEntry>,
        missed: &mut Missed,
    ) -> Result<(), PageError> {
        let (start, end) = (id_number(span.start), id_number(span.end));
        if span.most == 0 || start > end {
            return Ok(());
        }
        let consumer = match span.consumer {
            Some(name) => match of.head.consumers.iter().find(|own| own.name == name) {
                Some(own) => Some(own.number),
                None => return Ok(()),
            },
            None => None,
        };
        let mut missing = Vec::new();
        let (ids, looks) = (start..=end, span.looks() as u64);
        self.stream.missing_pending(pages, of, (consumer, ids), looks, &mut missing)?;
        if !missing.is_empty() {
            missed.0.extend(missing);
            return Ok(());
        }
        let mut left = span.most;
        let Some(number) = consumer else {
            let walk = self.stream.walk_pending(pages, of, start, |entry| {
                if entry.id > end {
                    return false;
                }
                if span.takes(entry) {
                    entries.insert(entry.id, entry);
                    left -= 1;
                }
                left > 0
            });
            missed.note(walk)?;
            return Ok(());
        };
        let (mut own, mut looks) = (Vec::new(), span.looks());
        let walk = self.stream.walk_pending_of(pages, of, (number, start), |id| {
            if id > end {
                return Ok(false);
            }
            own.push(id);
            looks -= 1;
            Ok(looks > 0)
        });
        missed.note(walk)?;
        for id in own {
            let found = missed.note(self.stream.pending(pages, of, id))?.flatten();
            if let Some(entry) = found.filter(|entry| span.takes(*entry)) {
                entries.insert(id, entry);
                left -= 1;
            }
            if left == 0 {
                break;
            }
        }
        Ok(())
    }

    /// All groups with all that is pending.
    pub(super) fn all_groups<P: Pages>(&self, pages: &P) -> Result<Vec<Group>, Stop> {
        let mut missed = Missed::default();
        let groups = self.read_groups(pages, GroupsAsked::Full(usize::MAX), &mut missed)?;
        missed.end()?;
        Ok(groups)
    }

    /// Writes groups, of which there were none.
    pub(super) fn add_groups<P: Pages>(
        &mut self,
        pages: &mut P,
        groups: &[Group],
    ) -> Result<(), PageError> {
        for group in groups {
            self.stream.add_group(pages, &group.name, &change(&Group::default(), group))?;
        }
        Ok(())
    }

    /// Makes of the groups that a command has asked for what it has made of them.
    ///
    /// # Errors
    /// [`Stop`].
    pub fn change_groups<P: Pages>(
        &mut self,
        pages: &mut P,
        before: &[Group],
        after: &[Group],
    ) -> Result<(), Stop> {
        let mut missing = Vec::new();
        let find = |groups: &'_ [Group], name: &[u8]| {
            groups.iter().position(|group| group.name.as_slice() == name)
        };
        for gone in before.iter().filter(|group| find(after, &group.name).is_none()) {
            self.stream.remove_group(pages, &gone.name, &mut missing)?;
        }
        for group in after {
            match find(before, &group.name).and_then(|at| before.get(at)) {
                Some(old) if old == group => {}
                Some(old) => {
                    let change = change(old, group);
                    self.stream.change_group(pages, &group.name, &change, &mut missing)?;
                }
                None => {
                    let change = change(&Group::default(), group);
                    self.stream.add_group(pages, &group.name, &change)?;
                }
            }
        }
        none_of(missing)
    }
}

/// A group as commands see it, with these of its pending entries, ascending.
fn group_of(
    of: StreamGroup,
    ends: Option<(u128, u128)>,
    entries: impl ExactSizeIterator<Item = PendingEntry>,
) -> Result<Group, PageError> {
    let head = of.head;
    let mut places: Vec<(u32, usize)> = Vec::new();
    if entries.len() > 0 {
        places = head.consumers.iter().map(|own| own.number).zip(0..).collect();
        places.sort_unstable();
    }
    let mut pending = Vec::with_capacity(entries.len());
    for entry in entries {
        let found = places.binary_search_by_key(&entry.consumer, |place| place.0);
        let Ok(at) = found else { return Err(super::super::without(PartKind::Pending)) };
        pending.push(Pending {
            id: id_of_number(entry.id),
            delivered_ms: entry.delivered_ms,
            deliveries: entry.deliveries,
            consumer: places[at].1,
        });
    }
    let consumers = head.consumers.into_iter();
    let ends = ends.map(|(first, last)| (id_of_number(first), id_of_number(last)));
    Ok(Group {
        name: of.name,
        last_id: id_of_number(head.last_id),
        entries_read: head.entries_read,
        consumers: consumers
            .map(|own| Consumer { name: own.name, seen_ms: own.seen_ms, pending: own.pending })
            .collect(),
        pending,
        totals: PendingTotals { entries: head.pending, ends },
    })
}

/// The change that turns `old` into `new`; both cover one excerpt of the pending entries.
fn change(old: &Group, new: &Group) -> GroupChange {
    // The index of an old consumer among the new ones.
    let place = |at: usize| {
        let name = old.consumers.get(at).map(|consumer| consumer.name.as_slice());
        match (new.consumers.get(at), name) {
            (Some(own), Some(name)) if own.name == name => Some(at),
            (_, name) => name.and_then(|name| new.find_consumer(name)),
        }
    };
    let put = |pending: &Pending| {
        PendingChange::Put(PendingEntry {
            id: id_number(pending.id),
            consumer: pending.consumer as u32,
            delivered_ms: pending.delivered_ms,
            deliveries: pending.deliveries,
        })
    };
    let (mut before, mut after) = (old.pending.iter().peekable(), new.pending.iter().peekable());
    let mut changes = Vec::new();
    loop {
        let order = match (before.peek(), after.peek()) {
            (Some(old), Some(new)) => old.id.cmp(&new.id),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => break,
        };
        let old = if order.is_le() { before.next() } else { None };
        let new = if order.is_ge() { after.next() } else { None };
        match (old, new) {
            (Some(old), Some(new)) => {
                let same = Pending { consumer: new.consumer, ..*old };
                if same != *new || place(old.consumer) != Some(new.consumer) {
                    changes.push(put(new));
                }
            }
            (Some(old), None) => changes.push(PendingChange::Remove(id_number(old.id))),
            (_, new) => changes.extend(new.map(put)),
        }
    }
    GroupChange {
        last_id: id_number(new.last_id),
        entries_read: new.entries_read,
        consumers: new.consumers.iter().map(|own| (own.name.clone(), own.seen_ms)).collect(),
        pending: changes,
    }
}

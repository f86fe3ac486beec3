//! What a change of a group does to its consumers and to the rows of its pending entries.

use crate::page::bytes::damage;
use crate::page::group_page::{GroupConsumer, GroupHead};
use crate::page::pending_rows::{
    BY_CONSUMER, PendingChange, PendingEntry, by_consumer_row, by_id_row,
};
use crate::page::rows::RowChange;
use crate::page::store::{Damage, PageError};
use std::collections::BTreeSet;

/// Consumers with these names: those that were there before with their numbers and counts, new ones with a number that is free.
pub(super) fn consumers_of(
    old: &[GroupConsumer],
    new: &[(Vec<u8>, u64)],
) -> Result<Vec<GroupConsumer>, PageError> {
    let mut consumers = Vec::with_capacity(new.len());
    let mut used: Option<BTreeSet<u32>> = None;
    for (name, seen_ms) in new {
        let found = old.binary_search_by(|own| own.name.as_slice().cmp(name));
        let own = found.ok().and_then(|at| old.get(at));
        let (number, pending) = match own {
            Some(own) => (own.number, own.pending),
            None => {
                let used = used.get_or_insert_with(|| old.iter().map(|own| own.number).collect());
                let free = (0..=u32::MAX).zip(used.iter()).find(|(free, used)| free != *used);
                // Without a gap it is the number behind all others.
                let behind = || u32::try_from(used.len()).ok();
                let free = free.map(|(free, _)| free).or_else(behind);
                let number = free.ok_or(PageError::TooLong { bytes: name.len() })?;
                used.insert(number);
                (number, 0)
            }
        };
        consumers.push(GroupConsumer { name: name.clone(), number, seen_ms: *seen_ms, pending });
    }
    Ok(consumers)
}

/// Rows that change with pending entries, and the counts of a group.
pub(super) struct Plan<'h> {
    head: &'h mut GroupHead,
    /// What is pending for consumers that go, by their number.
    going: Vec<(u32, u64)>,
    /// Position of the last consumer that was looked up.
    last: usize,
    of_ids: Vec<RowChange>,
    of_consumers: Vec<RowChange>,
}

impl<'h> Plan<'h> {
    /// `head`: with the consumers that stay and the new ones.
    pub(super) fn new(head: &'h mut GroupHead, old: &GroupHead) -> Self {
        let stays = |name: &[u8]| {
            head.consumers.binary_search_by(|own| own.name.as_slice().cmp(name)).is_ok()
        };
        let going = old.consumers.iter().filter(|own| !stays(&own.name));
        let going = going.map(|own| (own.number, own.pending)).collect();
        Self { head, going, last: 0, of_ids: Vec::new(), of_consumers: Vec::new() }
    }

    /// What is pending for the consumer of a number.
    fn count(&mut self, number: u32) -> Result<&mut u64, Damage> {
        let consumers = &mut self.head.consumers;
        if consumers.get(self.last).is_none_or(|own| own.number != number) {
            let found = consumers.iter().position(|own| own.number == number);
            self.last = found.unwrap_or(usize::MAX);
        }
        if let Some(own) = consumers.get_mut(self.last) {
            return Ok(&mut own.pending);
        }
        match self.going.iter_mut().find(|own| own.0 == number) {
            Some(own) => Ok(&mut own.1),
            None => damage(0, "the consumer of a pending entry"),
        }
    }

    pub(super) fn note(
        &mut self,
        change: PendingChange,
        before: Option<PendingEntry>,
    ) -> Result<(), Damage> {
        let id = change.id();
        let new = match change {
            PendingChange::Put(entry) => match self.head.consumers.get(entry.consumer as usize) {
                Some(own) => Some(PendingEntry { consumer: own.number, ..entry }),
                None => return damage(0, "the consumer of a pending entry"),
            },
            PendingChange::Remove(_) => None,
        };
        match (new, before) {
            (Some(new), _) => self.of_ids.push(RowChange::Put(by_id_row(new))),
            (None, Some(_)) => self.of_ids.push(RowChange::Remove(id.to_be_bytes().to_vec())),
            (None, None) => return Ok(()),
        }
        if new.map(|new| new.consumer) == before.map(|before| before.consumer) {
            return Ok(());
        }
        if let Some(before) = before {
            let count = self.count(before.consumer)?;
            *count = count.saturating_sub(1);
            self.head.pending = self.head.pending.saturating_sub(1);
            let row = by_consumer_row(before.consumer, id);
            self.of_consumers.push(RowChange::Remove(row));
        }
        if let Some(new) = new {
            let count = self.count(new.consumer)?;
            *count = count.saturating_add(1);
            self.head.pending = self.head.pending.saturating_add(1);
            let row = by_consumer_row(new.consumer, id);
            self.of_consumers.push(RowChange::Put(row));
        }
        Ok(())
    }

    /// The changes of rows in both orders, by their keys.
    pub(super) fn finish(mut self) -> Result<(Vec<RowChange>, Vec<RowChange>), Damage> {
        if self.going.iter().any(|(_, pending)| *pending > 0) {
            return damage(0, "nothing that is pending for a consumer that goes");
        }
        self.of_consumers.sort_by(|one, other| one.key(BY_CONSUMER).cmp(other.key(BY_CONSUMER)));
        Ok((self.of_ids, self.of_consumers))
    }
}

//! Consumer groups of a stream: a page with their names, one page for each, and pending entries in two orders, by ID and by consumer, as
//! rows on pages indexed by trees.
//!
//! A change of a group names the pending entries that it adds or removes, and touches their pages and the group's own.
//!
//! Invariants: each pending entry has a row in both orders; a consumer's count is that of its rows, the group's count that of all; every
//! consumer named by a row is on the group's page.

use super::plan::{Plan, consumers_of};
use super::{Stream, wrong};
use crate::page::group_page::{self, GroupHead, TreeSizes};
use crate::page::pending_rows::{
    BY_CONSUMER, BY_ID, EntryId, ID_BYTES, PendingChange, PendingEntry, by_consumer_row,
    owner_of_row, pending_of_row, row_id, rows_bytes,
};
use crate::page::rows::{Form, Rows, note};
use crate::page::store::{PageEdit, PageError, PageId, Pages, PartKind, at_page};
use crate::page::tree::Tree;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

/// The page of the groups' names.
pub(super) const NAMES: PageId = PageId { part: PartKind::Groups, number: 0 };

/// The pages of all groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct GroupPages {
    /// All of them, and those of the nodes over pending entries.
    pub pages: u32,
    /// Their bytes, but for the nodes.
    pub bytes: u64,
}

/// A group, as its page says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamGroup {
    /// Its name.
    pub name: Vec<u8>,
    /// What its page says.
    pub head: GroupHead,
    number: u64,
}

/// What becomes of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupChange {
    /// Last delivered.
    pub last_id: EntryId,
    /// Entries read; `None` when not known.
    pub entries_read: Option<u64>,
    /// Names of all consumers, ascending, and when they were seen last, in ms since the epoch.
    pub consumers: Vec<(Vec<u8>, u64)>,
    /// Pending entries that change, ascending by ID. Nothing may be left pending for a consumer that goes.
    pub pending: Vec<PendingChange>,
}

fn group_id(number: u64) -> PageId {
    PageId { part: PartKind::Groups, number }
}

impl Stream {
    fn rows(&self, form: Form, sizes: TreeSizes) -> Rows {
        let TreeSizes { root, levels, nodes, pages } = sizes;
        let next = self.tree.next;
        Rows::new(form, Tree { part: form.part, root, levels, nodes, pages, next })
    }

    fn by_id(&self, head: &GroupHead) -> Rows {
        self.rows(BY_ID, head.by_id)
    }

    fn by_consumer(&self, head: &GroupHead) -> Rows {
        self.rows(BY_CONSUMER, head.by_consumer)
    }

    fn names<'p, P: Pages>(&self, pages: &'p P) -> Result<&'p [u8], PageError> {
        if self.groups.pages == 0 { Ok(&[]) } else { pages.read(NAMES) }
    }

    fn number_of<P: Pages>(&self, pages: &P, name: &[u8]) -> Result<Option<u64>, PageError> {
        Ok(group_page::find(self.names(pages)?, name).map_err(at_page(NAMES))?.1)
    }

    fn head<P: Pages>(pages: &P, number: u64) -> Result<GroupHead, PageError> {
        let id = group_id(number);
        GroupHead::decode(pages.read(id)?).map_err(at_page(id))
    }

    /// What the group of this name has read up to; `None` without one.
    ///
    /// # Errors
    /// [`PageError`].
    pub fn group_last_id<P: Pages>(
        &self,
        pages: &P,
        name: &[u8],
    ) -> Result<Option<EntryId>, PageError> {
        let Some(number) = self.number_of(pages, name)? else { return Ok(None) };
        let id = group_id(number);
        group_page::last_id_of(pages.read(id)?).map(Some).map_err(at_page(id))
    }

    /// The group of this name.
    ///
    /// # Errors
    /// [`PageError`].
    pub fn group<P: Pages>(
        &self,
        pages: &P,
        name: &[u8],
    ) -> Result<Option<StreamGroup>, PageError> {
        let Some(number) = self.number_of(pages, name)? else { return Ok(None) };
        Ok(Some(StreamGroup { name: name.to_vec(), head: Self::head(pages, number)?, number }))
    }

    /// All groups, by name; without those whose pages are not in memory, which are added to `missing`.
    ///
    /// # Errors
    /// [`PageError`].
    pub fn groups<P: Pages>(
        &self,
        pages: &P,
        missing: &mut Vec<PageId>,
    ) -> Result<Vec<StreamGroup>, PageError> {
        let Some(names) = note(self.names(pages), missing)? else { return Ok(Vec::new()) };
        let mut groups = Vec::new();
        for (name, number) in group_page::all(names).map_err(at_page(NAMES))? {
            if let Some(head) = note(Self::head(pages, number), missing)? {
                groups.push(StreamGroup { name: name.to_vec(), head, number });
            }
        }
        Ok(groups)
    }

    /// The entry with this ID, if it is pending.
    ///
    /// # Errors
    /// [`PageError`].
    pub fn pending<P: Pages>(
        &self,
        pages: &P,
        group: &StreamGroup,
        id: EntryId,
    ) -> Result<Option<PendingEntry>, PageError> {
        let rows = self.by_id(&group.head);
        rows.get(pages, &id.to_be_bytes())?.map(pending_of_row).transpose()
    }

    /// The lowest ID that is pending, and the highest one.
    ///
    /// # Errors
    /// [`PageError`].
    pub fn pending_ends<P: Pages>(
        &self,
        pages: &P,
        group: &StreamGroup,
    ) -> Result<Option<(EntryId, EntryId)>, PageError> {
        let rows = self.by_id(&group.head);
        let (first, last) = (rows.end(pages, false)?, rows.end(pages, true)?);
        Ok(first.zip(last).map(|(first, last)| (row_id(first, 0), row_id(last, 0))))
    }

    /// Shows what is pending from an ID on, until it is told to end.
    ///
    /// # Errors
    /// [`PageError`].
    pub fn walk_pending<P: Pages>(
        &self,
        pages: &P,
        group: &StreamGroup,
        from: EntryId,
        mut visit: impl FnMut(PendingEntry) -> bool,
    ) -> Result<(), PageError> {
        let rows = self.by_id(&group.head);
        rows.walk(pages, &from.to_be_bytes(), |row| Ok(visit(pending_of_row(row)?)))
    }

    /// Shows the IDs of what is pending for the consumer of a number from an ID on, until it is told to end.
    ///
    /// # Errors
    /// [`PageError`].
    pub fn walk_pending_of<P: Pages>(
        &self,
        pages: &P,
        group: &StreamGroup,
        (consumer, from): (u32, EntryId),
        mut visit: impl FnMut(EntryId) -> Result<bool, PageError>,
    ) -> Result<(), PageError> {
        let rows = self.by_consumer(&group.head);
        rows.walk(pages, &by_consumer_row(consumer, from), |row| {
            let (own, id) = owner_of_row(row);
            Ok(own == consumer && visit(id)?)
        })
    }

    /// Adds the missing ones of the pages that a walk over this many pending entries reads, from one ID to another; over
    /// those of a consumer, if one is named.
    ///
    /// # Errors
    /// [`PageError`].
    pub fn missing_pending<P: Pages>(
        &self,
        pages: &P,
        group: &StreamGroup,
        (consumer, ids): (Option<u32>, RangeInclusive<EntryId>),
        entries: u64,
        missing: &mut Vec<PageId>,
    ) -> Result<(), PageError> {
        let (from, to) = (*ids.start(), *ids.end());
        if let Some(number) = consumer {
            let (from, to) = (by_consumer_row(number, from), by_consumer_row(number, to));
            self.by_consumer(&group.head).missing(pages, (&from, &to), entries, missing)
        } else {
            let (from, to) = (from.to_be_bytes(), to.to_be_bytes());
            self.by_id(&group.head).missing(pages, (&from, &to), entries, missing)
        }
    }

    /// Adds a group, which was not there, with what is pending for it.
    ///
    /// # Errors
    /// [`PageError`]; there is one of this name.
    pub fn add_group<P: Pages>(
        &mut self,
        pages: &mut P,
        name: &[u8],
        change: &GroupChange,
    ) -> Result<(), PageError> {
        let found = group_page::find(self.names(pages)?, name).map_err(at_page(NAMES))?;
        let (at, None) = found else { return Err(wrong(NAMES, "no group of this name")) };
        let mut number = self.tree.new_number();
        if number == NAMES.number {
            number = self.tree.new_number();
        }
        let (own, page) = (group_page::name_bytes(name, number), GroupHead::default().encode());
        if self.groups.pages == 0 {
            pages.add(NAMES, &own);
            self.groups.pages = 1;
        } else {
            if u32::try_from(self.names(pages)?.len() + own.len()).is_err() {
                return Err(PageError::TooLong { bytes: name.len() });
            }
            pages.edit(NAMES)?.splice(at..at, &own);
        }
        pages.add(group_id(number), &page);
        self.groups.pages += 1;
        self.count_groups(0, own.len() + page.len());
        self.change_group(pages, name, change, &mut Vec::new())
    }

    fn count_groups(&mut self, less: usize, more: usize) {
        for bytes in [&mut self.groups.bytes, &mut self.totals.bytes] {
            *bytes = bytes.saturating_sub(less as u64).saturating_add(more as u64);
        }
    }

    /// Removes a group. What is missing for that is added to `missing`; nothing was changed then.
    ///
    /// # Errors
    /// [`PageError`].
    pub fn remove_group<P: Pages>(
        &mut self,
        pages: &mut P,
        name: &[u8],
        missing: &mut Vec<PageId>,
    ) -> Result<(), PageError> {
        let Some(group) = self.group(pages, name)? else { return Ok(()) };
        let mut gone = Vec::new();
        for rows in [self.by_id(&group.head), self.by_consumer(&group.head)] {
            gone.extend(rows.tree.every_id(pages, missing)?);
        }
        if !missing.is_empty() {
            return Ok(());
        }
        let own = group_page::name_bytes(name, group.number).len();
        let found = group_page::find(self.names(pages)?, name).map_err(at_page(NAMES))?;
        let (at, names, page) =
            (found.0, self.names(pages)?.len(), pages.read(group_id(group.number))?.len());
        for id in &gone {
            pages.remove(*id);
        }
        pages.remove(group_id(group.number));
        let mut count = gone.len() as u32 + 1;
        if names == own {
            pages.remove(NAMES);
            count += 1;
        } else {
            pages.edit(NAMES)?.splice(at..at + own, &[]);
        }
        self.groups.pages = self.groups.pages.saturating_sub(count);
        self.count_groups(rows_bytes(group.head.pending).saturating_add(own + page), 0);
        Ok(())
    }

    /// Changes a group. What is missing for that is added to `missing`; nothing was changed then.
    ///
    /// # Errors
    /// [`PageError`].
    pub fn change_group<P: Pages>(
        &mut self,
        pages: &mut P,
        name: &[u8],
        change: &GroupChange,
        missing: &mut Vec<PageId>,
    ) -> Result<(), PageError> {
        let Some(group) = self.group(pages, name)? else {
            return Err(wrong(NAMES, "the group that is to change"));
        };
        let old = &group.head;
        let (mut by_id, mut by_consumer) = (self.by_id(old), self.by_consumer(old));
        let keys: Vec<[u8; ID_BYTES]> =
            change.pending.iter().map(|change| change.id().to_be_bytes()).collect();
        let ids = keys.iter().map(<[u8; ID_BYTES]>::as_slice);
        let known = by_id.missing_of(pages, ids, missing)?;
        if !missing.is_empty() {
            return Ok(());
        }
        let mut head = GroupHead {
            last_id: change.last_id,
            entries_read: change.entries_read,
            consumers: consumers_of(&old.consumers, &change.consumers)?,
            ..old.clone()
        };
        let id = group_id(group.number);
        let mut plan = Plan::new(&mut head, old);
        for (change, key) in change.pending.iter().zip(&keys) {
            let before =
                by_id.get_from(pages, key, known.as_ref())?.map(pending_of_row).transpose()?;
            plan.note(*change, before).map_err(at_page(id))?;
        }
        let (of_ids, of_consumers) = plan.finish().map_err(at_page(id))?;
        let keys = of_consumers.iter().map(|change| change.key(BY_CONSUMER));
        let known_of_consumer = by_consumer.missing_of(pages, keys, missing)?;
        let page_bytes = pages.read(id)?.len();
        if !missing.is_empty() {
            return Ok(());
        }
        let before = by_id.pages().saturating_add(by_consumer.pages());
        by_id.change(pages, &of_ids, known)?;
        by_consumer.tree.next = by_id.tree.next;
        by_consumer.change(pages, &of_consumers, known_of_consumer)?;
        self.tree.next = by_consumer.tree.next;
        let after = by_id.pages().saturating_add(by_consumer.pages());
        self.groups.pages = self.groups.pages.saturating_sub(before).saturating_add(after);
        head.by_id = sizes_of(&by_id.tree);
        head.by_consumer = sizes_of(&by_consumer.tree);
        let page = head.encode();
        if u32::try_from(page.len()).is_err() {
            return Err(PageError::TooLong { bytes: page.len() });
        }
        pages.edit(id)?.replace(&page);
        let (less, more) = (rows_bytes(old.pending), rows_bytes(head.pending));
        self.count_groups(less.saturating_add(page_bytes), more.saturating_add(page.len()));
        Ok(())
    }

    /// Looks at the pages of all groups; answers how many there are and their bytes.
    pub(super) fn check_groups<P: Pages>(&self, pages: &P) -> Result<(), PageError> {
        let mut missing = Vec::new();
        let groups = self.groups(pages, &mut missing)?;
        if let Some(page) = missing.first() {
            return Err(PageError::Missing(*page));
        }
        let names = self.names(pages)?.len();
        let mut found = GroupPages { pages: u32::from(names > 0), bytes: names as u64 };
        let mut numbers = BTreeSet::from([NAMES.number]);
        for group in &groups {
            let id = group_id(group.number);
            if !numbers.insert(group.number) {
                return Err(wrong(id, "a page for each group"));
            }
            self.check_group(pages, group)?;
            let head = &group.head;
            let own = [self.by_id(head).pages(), self.by_consumer(head).pages(), 1];
            found.pages = own.into_iter().fold(found.pages, u32::saturating_add);
            let own = rows_bytes(head.pending).saturating_add(pages.read(id)?.len());
            found.bytes = found.bytes.saturating_add(own as u64);
        }
        if found == self.groups {
            Ok(())
        } else {
            Err(wrong(NAMES, "as many pages and bytes of groups as the descriptor says"))
        }
    }

    fn check_group<P: Pages>(&self, pages: &P, group: &StreamGroup) -> Result<(), PageError> {
        let (head, id) = (&group.head, group_id(group.number));
        let (by_id, by_consumer) = (self.by_id(head), self.by_consumer(head));
        let count = by_id.check(pages, |row| {
            let pending = pending_of_row(row)?;
            let own = by_consumer_row(pending.consumer, pending.id);
            match by_consumer.get(pages, &own)? {
                Some(_) => Ok(()),
                None => Err(wrong(id, "each pending entry by its consumer, too")),
            }
        })?;
        let mut counts = vec![0; head.consumers.len()];
        let own = by_consumer.check(pages, |row| {
            let (number, _) = owner_of_row(row);
            match head.consumers.iter().position(|consumer| consumer.number == number) {
                Some(at) => counts[at] += 1,
                None => return Err(wrong(id, "the consumer of a pending entry")),
            }
            Ok(())
        })?;
        let counts_are_true =
            head.consumers.iter().zip(&counts).all(|(consumer, count)| consumer.pending == *count);
        if count == own && count == head.pending && counts_are_true {
            Ok(())
        } else {
            Err(wrong(id, "as many pending entries as there are"))
        }
    }
}

fn sizes_of(tree: &Tree) -> TreeSizes {
    let Tree { root, levels, nodes, pages, .. } = *tree;
    TreeSizes { root, levels, nodes, pages }
}

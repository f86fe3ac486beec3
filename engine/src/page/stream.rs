//! Streams: entries in the order of their IDs, on pages indexed by a tree; and their consumer groups, on pages of their own.
//!
//! A page holds the bytes of neighbouring entries as the caller supplies them: a *node* of the stream. This module interprets only
//! its head: the first ID of the page, and its number of entries. Appending an entry therefore touches one page, the last one, which
//! the descriptor names; adding or removing a page touches the tree.
//!
//! Invariants: pages ascend by the ID in their head, which does not change when that entry is deleted; the
//! tree counts pages, one for each, and is as its file says; `totals` counts the entries that are not deleted, and the bytes of all
//! pages except those of trees. Pages and nodes of all trees of a stream are numbered from one counter.

mod groups;
mod plan;

pub use super::group_page::{GroupConsumer, GroupHead};
pub use super::pending_rows::{EntryId, PendingChange, PendingEntry};
pub use groups::{GroupChange, StreamGroup};

use super::Totals;
use super::bytes::{damage, u32_at};
use super::descriptor::{Descriptor, Part};
use super::store::{Damage, PageEdit, PageError, PageId, Pages, PartKind, at_page};
use super::tree::{Bound, Child, Place, Tree};
use groups::{GroupPages, NAMES};
use std::ops::Range;

/// Bytes before the entries of a page.
const HEAD_BYTES: usize = 28;

const ENTRIES_AT: usize = 20;

/// A page of entries, being read.
#[derive(Clone, Copy, Debug)]
pub struct StreamPage<'p> {
    payload: &'p [u8],
    first: EntryId,
    entries: u32,
}

impl<'p> StreamPage<'p> {
    /// Looks at the head.
    ///
    /// # Errors
    /// It is not that of a page.
    pub fn parse(payload: &'p [u8]) -> Result<Self, Damage> {
        let first = payload.first_chunk().filter(|_| payload.len() >= HEAD_BYTES);
        let Some(first) = first else { return damage(payload.len(), "head of a stream's page") };
        let entries = u32_at(payload, ENTRIES_AT)?;
        Ok(Self { payload, first: EntryId::from_le_bytes(*first), entries })
    }

    /// The whole.
    #[must_use]
    pub fn payload(&self) -> &'p [u8] {
        self.payload
    }

    /// The ID that the page begins with, at or below those of its entries.
    #[must_use]
    pub fn first(&self) -> EntryId {
        self.first
    }

    /// Entries that are not deleted.
    #[must_use]
    pub fn entries(&self) -> u32 {
        self.entries
    }
}

/// The place of an ID, behind a page that begins with it.
struct At(EntryId);

impl Place for At {
    fn order(&self) -> u64 {
        (self.0 >> 64) as u64
    }

    fn is_above(&self, order: u64, rest: &[u8]) -> bool {
        (order, rest) <= ((self.0 >> 64) as u64, (self.0 as u64).to_be_bytes().as_slice())
    }
}

fn child(number: u64, first: EntryId) -> Child {
    let member = (first as u64).to_be_bytes().into();
    Child { number, count: 1, bound: Bound { order: (first >> 64) as u64, member } }
}

fn page_id(number: u64) -> PageId {
    PageId { part: PartKind::Stream, number }
}

/// A stream.
#[derive(Clone, Debug)]
pub struct Stream {
    /// Entries, and bytes of their pages and of the groups'.
    pub totals: Totals,
    tree: Tree,
    /// The last page.
    last: u64,
    groups: GroupPages,
}

impl Default for Stream {
    fn default() -> Self {
        let tree = Tree::new(PartKind::Stream);
        Self { totals: Totals::default(), tree, last: 0, groups: GroupPages::default() }
    }
}

impl Stream {
    /// A stream with pages of these payloads, which ascend.
    ///
    /// # Errors
    /// A payload is not that of a page, or too long.
    pub fn build<'b, P: Pages>(
        pages: &mut P,
        payloads: impl Iterator<Item = &'b [u8]>,
    ) -> Result<Self, PageError> {
        let mut stream = Self::default();
        let (mut below, mut last) = (Vec::new(), None);
        for payload in payloads {
            let number = stream.tree.new_number();
            let page = accept(number, payload, last)?;
            pages.add(page_id(number), payload);
            stream.count(page);
            below.push(child(number, page.first));
            (stream.last, last) = (number, Some(page.first));
        }
        if !below.is_empty() {
            stream.tree.lay_out(pages, below);
        }
        Ok(stream)
    }

    /// The stream that a descriptor says.
    ///
    /// # Errors
    /// It says another structure.
    pub fn open(descriptor: &Descriptor) -> Result<Self, Damage> {
        let parts = [PartKind::Stream, PartKind::Nodes, PartKind::Groups];
        let [Some(own), Some(nodes), Some(groups)] = parts.map(|kind| descriptor.part(kind)) else {
            return Err(Damage { at: 0, expected: "the parts of a stream" });
        };
        let tree = Tree {
            part: PartKind::Stream,
            root: nodes.a,
            levels: nodes.b as u8,
            nodes: nodes.pages / 2,
            pages: own.pages,
            next: own.b,
        };
        let groups = GroupPages { pages: groups.pages, bytes: groups.a };
        Ok(Self { totals: descriptor.totals, tree, last: own.a, groups })
    }

    /// Entries.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.totals.elements
    }

    /// True without entries: the stream has no pages then.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Pages of entries.
    #[must_use]
    pub fn pages(&self) -> u64 {
        u64::from(self.tree.pages)
    }

    /// What the descriptor says of the pages: of entries, nodes with their counts, and groups; `None` without entries.
    #[must_use]
    pub fn parts(&self) -> Option<[Part; 3]> {
        if self.is_empty() {
            return None;
        }
        let Tree { root, levels, nodes, pages, next, .. } = self.tree;
        let part = |kind, pages, a, b| Part { kind, flags: 0, pages, a, b };
        Some([
            part(PartKind::Stream, pages, self.last, next),
            part(PartKind::Nodes, nodes * 2, root, u64::from(levels)),
            part(
                PartKind::Groups,
                self.groups.pages,
                self.groups.bytes,
                u64::from(self.groups.pages > 0),
            ),
        ])
    }

    /// The pages that nearly every operation needs: the last one, that of the groups' names, and those at the top.
    pub fn likely_ids(&self) -> impl Iterator<Item = PageId> + use<> {
        let own = (self.tree.pages > 0).then_some(page_id(self.last));
        let groups = (self.groups.pages > 0).then_some(NAMES);
        let root = self.tree.root;
        let top: &[PartKind] =
            if self.tree.levels > 0 { &[PartKind::Nodes, PartKind::Counts] } else { &[] };
        let top = top.iter().map(move |part| PageId { part: *part, number: root });
        own.into_iter().chain(groups).chain(top)
    }

    fn count(&mut self, page: StreamPage<'_>) {
        self.totals.elements += u64::from(page.entries);
        self.totals.bytes += page.payload.len() as u64;
    }

    /// Damaged pages may hold more than was counted.
    fn discount(&mut self, entries: u32, bytes: usize) {
        self.totals.elements = self.totals.elements.saturating_sub(u64::from(entries));
        self.totals.bytes = self.totals.bytes.saturating_sub(bytes as u64);
    }

    fn page<'p, P: Pages>(&self, pages: &'p P, number: u64) -> Result<StreamPage<'p>, PageError> {
        let id = page_id(number);
        StreamPage::parse(pages.read(id)?).map_err(at_page(id))
    }

    /// The last page, and its number; `None` without entries.
    ///
    /// # Errors
    /// [`PageError`].
    pub fn last<'p, P: Pages>(
        &self,
        pages: &'p P,
    ) -> Result<Option<(u64, StreamPage<'p>)>, PageError> {
        if self.tree.pages == 0 {
            return Ok(None);
        }
        Ok(Some((self.last, self.page(pages, self.last)?)))
    }

    /// The page at a position, of which there are [`pages`](Self::pages), and its number.
    ///
    /// # Errors
    /// [`PageError`].
    pub fn at<'p, P: Pages>(
        &self,
        pages: &'p P,
        position: u64,
    ) -> Result<(u64, StreamPage<'p>), PageError> {
        if position >= self.pages() {
            return Err(wrong(page_id(self.last), "as many pages as are asked for"));
        }
        let number = self.tree.at(pages, position)?.0.page;
        Ok((number, self.page(pages, number)?))
    }

    /// The IDs that pages begin with, as the nodes above them know it: of pages, only the first one is read. Nothing is answered for
    /// nodes that are not in memory, which are added to `missing`. Where the first page of a node was removed, its ID may stand for
    /// that of the next one.
    ///
    /// # Errors
    /// [`PageError`].
    pub fn first_ids<P: Pages>(
        &self,
        pages: &P,
        missing: &mut Vec<PageId>,
    ) -> Result<Vec<EntryId>, PageError> {
        let bounds = self.tree.bounds(pages, missing)?;
        let id = |bound: &Bound| {
            let low = bound.member.first_chunk().map_or(0, |low| u64::from_be_bytes(*low));
            EntryId::from(bound.order) << 64 | EntryId::from(low)
        };
        let mut ids: Vec<EntryId> = bounds.iter().map(id).collect();
        if let (Some(first), true) = (ids.first_mut(), missing.is_empty()) {
            *first = self.at(pages, 0)?.1.first;
        }
        Ok(ids)
    }

    /// The position of the page in which an entry with this ID is. Where there is none it is that of a neighbour: all entries before
    /// the page are below the ID, and all behind it above.
    ///
    /// # Errors
    /// [`PageError`].
    pub fn position<P: Pages>(&self, pages: &P, id: EntryId) -> Result<u64, PageError> {
        match self.tree.find(pages, &At(id))? {
            Some(path) => self.tree.before(pages, &path),
            None => Ok(0),
        }
    }

    /// The pages that are not in memory, of those at these positions and those that lead to them. Where it names some there may be
    /// others below.
    ///
    /// # Errors
    /// [`PageError`].
    pub fn missing<P: Pages>(
        &self,
        pages: &P,
        positions: Range<u64>,
    ) -> Result<Vec<PageId>, PageError> {
        let mut missing = Vec::new();
        let positions = positions.start..positions.end.min(self.pages());
        self.tree.missing(pages, positions, &mut missing)?;
        Ok(missing)
    }

    /// Changes entries of a page.
    ///
    /// # Errors
    /// [`PageError`].
    pub fn change<P: Pages>(
        &mut self,
        pages: &mut P,
        number: u64,
        change: impl FnOnce(&mut P::Edit<'_>),
    ) -> Result<(), PageError> {
        let (id, old) = (page_id(number), self.page(pages, number)?);
        let (entries, bytes) = (old.entries, old.payload.len());
        let mut edit = pages.edit(id)?;
        change(&mut edit);
        let new = StreamPage::parse(edit.bytes()).map_err(at_page(id))?;
        self.count(new);
        self.discount(entries, bytes);
        Ok(())
    }

    /// Adds a page behind all others.
    ///
    /// # Errors
    /// [`PageError`]; the payload is not that of such a page, or too long.
    pub fn push<P: Pages>(&mut self, pages: &mut P, payload: &[u8]) -> Result<(), PageError> {
        let last = self.last(pages)?.map(|(_, page)| page.first);
        let number = self.tree.next;
        let page = accept(number, payload, last)?;
        let path = self.tree.find(pages, &At(page.first))?;
        if let Some(path) = &path {
            self.tree.hold(pages, path)?;
            if path.page != self.last {
                return Err(wrong(
                    page_id(path.page),
                    "the page that the descriptor calls the last",
                ));
            }
        }
        let number = self.tree.new_number();
        pages.add(page_id(number), payload);
        match path {
            Some(path) => {
                self.tree.split(pages, &path, 1, vec![child(number, page.first)])?;
            }
            None => (self.tree.root, self.tree.pages) = (number, 1),
        }
        self.last = number;
        self.count(page);
        Ok(())
    }

    /// Removes the pages at these positions, which ascend.
    ///
    /// # Errors
    /// [`PageError`].
    pub fn remove<P: Pages>(&mut self, pages: &mut P, positions: &[u64]) -> Result<(), PageError> {
        for position in positions {
            self.at(pages, *position)?;
        }
        // The last one that stays.
        let going = positions.iter().rev().zip((0..self.pages()).rev());
        let at_end = going.take_while(|(position, last)| **position == *last).count() as u64;
        let stays = (self.pages() - at_end).checked_sub(1);
        let last = match stays.filter(|_| at_end > 0) {
            Some(stays) => Some(self.tree.at(pages, stays)?.0.page),
            None => None,
        };
        for position in positions.iter().rev() {
            let (path, _) = self.tree.at(pages, *position)?;
            let page = self.page(pages, path.page)?;
            let (entries, bytes) = (page.entries, page.payload.len());
            self.tree.remove(pages, &path)?;
            self.discount(entries, bytes);
        }
        self.last = last.unwrap_or(self.last);
        Ok(())
    }

    /// Looks at all pages: whether they ascend, the tree leads to them, and the counts are true.
    ///
    /// # Errors
    /// [`PageError`].
    pub fn check<P: Pages>(&self, pages: &P) -> Result<(), PageError> {
        let (mut totals, mut last) = (Totals::default(), None);
        for (number, count) in self.tree.all(pages)? {
            let (id, page) = (page_id(number), self.page(pages, number)?);
            if count.is_some_and(|count| count != 1) {
                return Err(wrong(id, "a node above that counts one page"));
            }
            if last.is_some_and(|(_, last)| page.first <= last) {
                return Err(wrong(id, "entries behind those of the page before"));
            }
            if self.tree.find(pages, &At(page.first))?.is_none_or(|path| path.page != number) {
                return Err(wrong(id, "entries that the nodes lead to"));
            }
            totals.elements += u64::from(page.entries);
            totals.bytes += page.payload.len() as u64;
            last = Some((number, page.first));
        }
        self.check_groups(pages)?;
        totals.bytes += self.groups.bytes;
        if totals != self.totals || last.is_some_and(|(number, _)| number != self.last) {
            return Err(wrong(
                page_id(self.last),
                "as many entries and bytes as the descriptor says",
            ));
        }
        Ok(())
    }
}

/// The page that a payload is, if it may follow one that begins with `last`.
fn accept(number: u64, payload: &[u8], last: Option<EntryId>) -> Result<StreamPage<'_>, PageError> {
    if u32::try_from(payload.len()).is_err() {
        return Err(PageError::TooLong { bytes: payload.len() });
    }
    let page = StreamPage::parse(payload).map_err(at_page(page_id(number)))?;
    if last.is_some_and(|last| page.first <= last) {
        return Err(wrong(page_id(number), "entries behind those of the page before"));
    }
    Ok(page)
}

fn wrong(page: PageId, expected: &'static str) -> PageError {
    at_page(page)(Damage { at: 0, expected })
}

//! Streams in pages: each node on a page of its own, consumer groups on others, and the head in the root.

mod groups;

pub use groups::{GroupsAsked, PendingAsked, PendingSpan};

use super::{Paged, Stop, Structure, none_of};
use crate::keyspace::collection::stream::node::{self, NewEntry, NodeView};
use crate::keyspace::collection::stream::{
    EntryView, Excerpt, HIGHEST, Head, LOWEST, Rest, Span, StreamEdit, StreamView, Trim, TrimPlan,
    TrimTo, id_number, id_of_number, write_all,
};
use crate::value::thresholds::Thresholds;
use sexton_engine::page::stream::StreamPage;
use sexton_engine::page::{Descriptor, PageEdit, PageError, PageId, Pages, PartKind, Stream};
use sexton_persistence::rdb::StreamId;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Nodes that are read for their IDs; of more, what the tree over them knows must do.
const NODES_LOOKED_AT: u64 = if cfg!(test) { 16 } else { 64 };

/// A stream, with its head.
#[derive(Clone, Debug)]
pub struct Streamed {
    /// What it says of itself.
    pub head: Head,
    stream: Stream,
}

/// What a command needs of a stream besides its head and entries.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    /// Of the consumer groups.
    pub groups: GroupsAsked<'a>,
    /// The ID of its first entry.
    pub first_id: bool,
    /// The IDs that its nodes begin with.
    pub node_ids: bool,
}

impl<'a> Parts<'a> {
    /// Nothing else.
    pub const NONE: Self = Self { groups: GroupsAsked::None, first_id: false, node_ids: false };

    /// A group, and of what is pending for it this.
    #[must_use]
    pub fn group(name: &'a [u8], pending: PendingAsked<'a>) -> Self {
        Self { groups: GroupsAsked::One(name, pending), ..Self::NONE }
    }
}

/// What a removal of entries has done.
#[derive(Debug)]
pub enum Removed {
    /// There was nothing to be removed.
    Nothing,
    /// So many have gone.
    Some(u64),
    /// So many would go, and no other is left. Pages have entries: nothing was changed, and this is the stream from now on.
    All(u64, Box<StreamEdit>),
}

impl Removed {
    /// True when no entry goes.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        matches!(self, Self::Nothing)
    }
}

impl Structure for Streamed {
    fn open(paged: &Paged) -> Result<Self, PageError> {
        let page = PageId { part: PartKind::Stream, number: 0 };
        let stream = Stream::open(&paged.descriptor)
            .map_err(|damage| PageError::Damaged { page, damage })?;
        let head = Head::of_bytes(&paged.descriptor.tail);
        Ok(Self { head: head.ok_or_else(|| super::without(PartKind::Stream))?, stream })
    }

    fn describe(&self, descriptor: &mut Descriptor) {
        descriptor.totals = self.stream.totals;
        descriptor.tail = self.head.to_bytes();
        self.stream.parts().into_iter().flatten().for_each(|part| descriptor.set_part(part));
    }

    fn len(&self) -> u64 {
        self.stream.len()
    }
}

fn node_of(page: StreamPage<'_>) -> Result<NodeView<'_>, PageError> {
    NodeView::of(page.payload()).ok_or_else(|| super::without(PartKind::Stream))
}

/// Pages that were missed, so that all of them are brought at once.
#[derive(Default)]
struct Missed(BTreeSet<PageId>);

impl Missed {
    /// What was found; `None` when a page is missing.
    fn note<T>(&mut self, found: Result<T, PageError>) -> Result<Option<T>, PageError> {
        match found {
            Ok(found) => Ok(Some(found)),
            Err(PageError::Missing(page)) => {
                self.0.insert(page);
                if page.part == PartKind::Nodes {
                    // Whoever reads a node reads its counts.
                    self.0.insert(PageId { part: PartKind::Counts, ..page });
                }
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn end(self) -> Result<(), Stop> {
        none_of(self.0.into_iter().collect())
    }
}

impl Streamed {
    /// One that was whole, and has entries.
    ///
    /// # Errors
    /// It is longer than pages take.
    pub fn build<P: Pages>(pages: &mut P, view: StreamView<'_>) -> Result<Self, PageError> {
        let stream = Stream::build(pages, view.node_bytes())?;
        let mut built = Self { head: view.head(), stream };
        built.add_groups(pages, &view.groups())?;
        Ok(built)
    }

    /// The pages that nearly every command needs.
    pub fn likely_ids(&self) -> impl Iterator<Item = PageId> + use<> {
        self.stream.likely_ids()
    }

    /// The same stream as if it lay in one record.
    ///
    /// # Errors
    /// [`Stop`].
    pub fn whole<P: Pages>(&self, pages: &P) -> Result<StreamEdit, Stop> {
        self.needs(pages, 0..self.stream.pages())?;
        let bytes = self.stream.totals.bytes;
        if u32::try_from(bytes).is_err() {
            return Err(PageError::TooLong { bytes: bytes as usize }.into());
        }
        let groups = write_all(&self.all_groups(pages)?);
        let mut edit = StreamEdit::without_nodes(self.head, self.len() as usize, &groups);
        let mut nodes = Vec::new();
        for position in 0..self.stream.pages() {
            nodes.push(self.stream.at(pages, position)?.1.payload());
        }
        edit.lay_in(nodes.into_iter());
        Ok(edit)
    }

    /// The pages at these positions are in memory.
    ///
    /// # Errors
    /// Those that are not.
    pub fn needs<P: Pages>(&self, pages: &P, positions: Range<u64>) -> Result<(), Stop> {
        none_of(self.stream.missing(pages, positions)?)
    }

    /// Adds an entry, whose ID is above the last one.
    ///
    /// # Errors
    /// [`PageError`].
    pub fn add<P: Pages>(
        &mut self,
        pages: &mut P,
        entry: &NewEntry<'_>,
        thresholds: &Thresholds,
    ) -> Result<(), PageError> {
        let room = match self.stream.last(pages)? {
            Some((number, page)) => {
                let node = node_of(page)?;
                let fits = node.first_id < entry.id && node.has_room(entry, thresholds);
                fits.then(|| (number, node::more(node, entry), node))
            }
            None => None,
        };
        if let Some((number, (more, size), node)) = room {
            let (at, counts) = node::counts_with(node, size);
            let full_bytes = usize::try_from(node.full_bytes(thresholds)).unwrap_or(usize::MAX);
            self.stream.change(pages, number, |page| {
                let end = page.bytes().len();
                page.grows(full_bytes.min(2 * end));
                page.splice(end..end, &more);
                page.write(at, &counts);
            })?;
        } else {
            self.stream.push(pages, &node::new_node(entry))?;
        }
        self.head.last_id = entry.id;
        self.head.entries_added = self.head.entries_added.wrapping_add(1);
        Ok(())
    }

    /// Marks entries of a page as deleted: those whose flags are there.
    fn mark_deleted<P: Pages>(
        &mut self,
        pages: &mut P,
        number: u64,
        flags_at: &[usize],
    ) -> Result<(), PageError> {
        self.stream.change(pages, number, |page| {
            for &at in flags_at {
                let flags = page.bytes().get(at).copied();
                flags.into_iter().for_each(|flags| page.write(at, &[node::deleted_flags(flags)]));
            }
            let counts =
                NodeView::of(page.bytes()).map(|node| node::counts_without(node, flags_at.len()));
            counts.into_iter().for_each(|(at, counts)| page.write(at, &counts));
        })
    }

    /// The same stream without entries.
    fn emptied<P: Pages>(&self, pages: &P) -> Result<Box<StreamEdit>, Stop> {
        let groups = write_all(&self.all_groups(pages)?);
        Ok(Box::new(StreamEdit::without_nodes(self.head, 0, &groups)))
    }

    /// What a trim is going to remove.
    ///
    /// # Errors
    /// [`Stop`].
    pub fn plan<P: Pages>(&self, pages: &P, trim: Trim) -> Result<TrimPlan, Stop> {
        trim.plan(self.len(), |position| {
            let position = position as u64;
            if position >= self.stream.pages() {
                return Ok(None);
            }
            match self.stream.at(pages, position) {
                Ok((_, page)) => Ok(Some(node_of(page)?)),
                Err(PageError::Missing(page)) => Err(self.missing_of_trim(pages, trim, page)?),
                Err(error) => Err(error.into()),
            }
        })
    }

    /// Removes entries from the front, as planned.
    ///
    /// # Errors
    /// [`Stop`].
    pub fn trim<P: Pages>(&mut self, pages: &mut P, plan: &TrimPlan) -> Result<Removed, Stop> {
        if plan.removed == 0 {
            return Ok(Removed::Nothing);
        }
        if plan.left == 0 {
            return Ok(Removed::All(plan.removed, self.emptied(pages)?));
        }
        let partial = match plan.within.is_empty() {
            true => None,
            false => Some(self.stream.at(pages, plan.whole as u64)?.0),
        };
        let whole: Vec<u64> = (0..plan.whole as u64).collect();
        self.stream.remove(pages, &whole)?;
        if let Some(number) = partial {
            self.mark_deleted(pages, number, &plan.within)?;
        }
        Ok(Removed::Some(plan.removed))
    }

    /// Nodes that have about so many entries, at least one.
    #[must_use]
    pub fn nodes_of(&self, entries: u64) -> u64 {
        (entries / (self.len() / self.stream.pages().max(1)).max(1)).max(1)
    }

    /// The pages that a trim which has missed one probably looks at.
    fn missing_of_trim<P: Pages>(
        &self,
        pages: &P,
        trim: Trim,
        missed: PageId,
    ) -> Result<Stop, Stop> {
        let position = match trim.to {
            TrimTo::Entries(max) => self.pages_of(self.len().saturating_sub(max)),
            TrimTo::From(id) => self.stream.position(pages, id_number(id))?,
        };
        let limit = if trim.limit == 0 { u64::MAX } else { self.pages_of(trim.limit) };
        let limit = limit.min(trim.nodes_max);
        let mut missing = self.stream.missing(pages, 0..position.min(limit).saturating_add(1))?;
        if missing.is_empty() {
            missing.push(missed);
        }
        Ok(Stop::Missing(missing))
    }

    /// About how many pages have so many entries, rounded up.
    fn pages_of(&self, entries: u64) -> u64 {
        let each = (self.len() / self.stream.pages().max(1)).max(1);
        entries.div_ceil(each)
    }

    /// Deletes entries.
    ///
    /// # Errors
    /// [`Stop`].
    pub fn delete<P: Pages>(&mut self, pages: &mut P, ids: &[StreamId]) -> Result<Removed, Stop> {
        let mut missed = Missed::default();
        let mut found: BTreeMap<u64, (u64, u32, BTreeSet<usize>)> = BTreeMap::new();
        let (mut count, mut highest) = (0, StreamId::default());
        for &id in ids {
            let position = self.stream.position(pages, id_number(id));
            let Some(position) = missed.note(position)? else { continue };
            let Some((number, page)) = missed.note(self.stream.at(pages, position))? else {
                continue;
            };
            let mut entries = node_of(page)?.entries();
            let Some(entry) = entries.find(|entry| entry.id == id && !entry.is_deleted) else {
                continue;
            };
            let new = BTreeSet::new();
            let (_, _, own) = found.entry(position).or_insert((number, page.entries(), new));
            count += u64::from(own.insert(entry.flags_at));
            highest = highest.max(id);
        }
        missed.end()?;
        if count == 0 {
            return Ok(Removed::Nothing);
        }
        self.head.max_deleted_id = self.head.max_deleted_id.max(highest);
        if count >= self.len() {
            return Ok(Removed::All(count, self.emptied(pages)?));
        }
        let is_whole = |entries: u32, own: &BTreeSet<usize>| own.len() >= entries as usize;
        let whole = found.iter().filter(|(_, (_, entries, own))| is_whole(*entries, own));
        let whole: Vec<u64> = whole.map(|(position, _)| *position).collect();
        self.stream.remove(pages, &whole)?;
        for (number, entries, own) in found.values() {
            if !is_whole(*entries, own) {
                let own: Vec<usize> = own.iter().copied().collect();
                self.mark_deleted(pages, *number, &own)?;
            }
        }
        Ok(Removed::Some(count))
    }

    /// The ID of the last entry.
    ///
    /// # Errors
    /// [`PageError`].
    pub fn last_valid_id<P: Pages>(&self, pages: &P) -> Result<StreamId, PageError> {
        let Some((_, page)) = self.stream.last(pages)? else { return Ok(StreamId::default()) };
        // A trim may leave a page at the front without entries, and none behind it.
        node_of(page)?.last_id().ok_or_else(|| super::without(PartKind::Stream))
    }

    /// What a group has read up to, and whether there is more; `None` without such a group.
    ///
    /// # Errors
    /// [`Stop`].
    pub fn group_position<P: Pages>(
        &self,
        pages: &P,
        name: &[u8],
    ) -> Result<Option<(StreamId, bool)>, Stop> {
        let mut missed = Missed::default();
        let last_id = missed.note(self.stream.group_last_id(pages, name))?.flatten();
        let last_id = last_id.map(id_of_number);
        if let Some(last_id) = last_id
            && last_id >= self.head.last_id
        {
            return Ok(Some((last_id, false)));
        }
        let last_valid_id = missed.note(self.last_valid_id(pages))?;
        missed.end()?;
        Ok(last_id.map(|last_id| (last_id, last_valid_id.is_some_and(|last| last > last_id))))
    }

    fn first_id<P: Pages>(&self, pages: &P) -> Result<StreamId, PageError> {
        for position in 0..self.stream.pages() {
            let mut entries = node_of(self.stream.at(pages, position)?.1)?.entries();
            if let Some(first) = entries.find(|entry| !entry.is_deleted) {
                return Ok(first.id);
            }
        }
        Err(super::without(PartKind::Stream))
    }

    /// What a command needs: the head, the parts that it asks for, and the entries that it asks for when it has seen those.
    ///
    /// # Errors
    /// [`Stop`].
    pub fn excerpt<P: Pages>(
        &self,
        pages: &P,
        parts: Parts<'_>,
        asks: impl Fn(StreamView<'_>) -> Vec<Span>,
    ) -> Result<Excerpt, Stop> {
        let mut missed = Missed::default();
        let mut first_id = Some(LOWEST);
        if parts.first_id {
            first_id = missed.note(self.first_id(pages))?;
        }
        let groups = self.read_groups(pages, parts.groups, &mut missed)?;
        std::mem::take(&mut missed).end()?;
        let Some(first_id) = first_id else {
            return Err(super::without(PartKind::Stream).into());
        };
        let mut node_ids = Vec::new();
        if parts.node_ids && self.stream.pages() > NODES_LOOKED_AT {
            let mut missing = Vec::new();
            node_ids = self.stream.first_ids(pages, &mut missing)?;
            if !missing.is_empty() {
                return Err(Stop::Missing(missing));
            }
        } else if parts.node_ids {
            self.needs(pages, 0..self.stream.pages())?;
            for position in 0..self.stream.pages() {
                node_ids.push(self.stream.at(pages, position)?.1.first());
            }
        }
        let rest = Rest { first_id, groups, node_ids };
        let mut excerpt = Excerpt::new(self.head, self.len() as usize, rest);
        let mut nodes = BTreeMap::new();
        for span in asks(excerpt.view()) {
            self.find_span(pages, span, &mut nodes, &mut missed)?;
        }
        missed.end()?;
        excerpt.lay_in(nodes.values().copied());
        Ok(excerpt)
    }

    /// The positions of the pages in which entries from one ID to another are.
    ///
    /// # Errors
    /// [`Stop`].
    pub fn positions_of<P: Pages>(
        &self,
        pages: &P,
        (start, end): (StreamId, StreamId),
    ) -> Result<Range<u64>, Stop> {
        if start > end || self.is_empty() {
            return Ok(0..0);
        }
        let mut missed = Missed::default();
        let positions = self.span_of(pages, (start, end), &mut missed)?;
        missed.end()?;
        Ok(positions.unwrap_or_default())
    }

    /// The same of IDs that ascend, in a stream with entries; `None` when a page is missing.
    fn span_of<P: Pages>(
        &self,
        pages: &P,
        (start, end): (StreamId, StreamId),
        missed: &mut Missed,
    ) -> Result<Option<Range<u64>>, PageError> {
        let first = missed.note(self.stream.position(pages, id_number(start)))?;
        let last = match end {
            HIGHEST => Some(self.stream.pages().saturating_sub(1)),
            _ => missed.note(self.stream.position(pages, id_number(end)))?,
        };
        Ok(first.zip(last).map(|(first, last)| first..last + 1))
    }

    /// Pages, which have the positions from 0 on.
    pub fn pages(&self) -> u64 {
        self.stream.pages()
    }

    /// Shows the entries at a position.
    ///
    /// # Errors
    /// [`Stop`].
    pub fn entries_at<'p, P: Pages>(
        &self,
        pages: &'p P,
        position: u64,
    ) -> Result<impl Iterator<Item = EntryView<'p>> + use<'p, P>, Stop> {
        let entries = node_of(self.stream.at(pages, position)?.1)?.entries();
        Ok(entries.filter(|entry| !entry.is_deleted))
    }

    /// Adds the nodes that have these entries, by position.
    fn find_span<'p, P: Pages>(
        &self,
        pages: &'p P,
        span: Span,
        nodes: &mut BTreeMap<u64, &'p [u8]>,
        missed: &mut Missed,
    ) -> Result<(), PageError> {
        if span.most == 0 || span.start > span.end {
            return Ok(());
        }
        let Some(within) = self.span_of(pages, (span.start, span.end), missed)? else {
            return Ok(());
        };
        let (first, last) = (within.start, within.end - 1);
        let mut left = span.most;
        for step in 0..=last - first {
            let position = if span.is_back { last - step } else { first + step };
            let Some((_, page)) = missed.note(self.stream.at(pages, position))? else {
                // All that it is going to look at is brought at once.
                let likely = self.pages_of(left as u64).saturating_add(1);
                let likely = match span.is_back {
                    false => position..within.end.min(position.saturating_add(likely)),
                    true => first.max((position + 1).saturating_sub(likely))..position + 1,
                };
                missed.0.extend(self.stream.missing(pages, likely)?);
                break;
            };
            nodes.insert(position, page.payload());
            let own = if position == first || position == last {
                node_of(page)?.count_within(span.start..=span.end, left)
            } else {
                page.entries() as usize
            };
            left = left.saturating_sub(own);
            if left == 0 {
                break;
            }
        }
        Ok(())
    }
}

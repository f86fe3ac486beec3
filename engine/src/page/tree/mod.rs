//! The tree over the pages of an order (a sorted set's or a stream's): a counted tree that is itself stored on pages. A step down
//! reads two pages, and a write that changes a count changes one small page of counts on each level.
//!
//! The caller defines what is counted: members of a sorted set, pages of a stream.
//!
//! Invariants: no page of the order is empty, and no node is without children; all pages of the order have equal depth; counts are
//! correct; a bound is at or below everything below its child, and above everything before, except for the bound of a node's first
//! child, which is ignored. How full nodes are is no invariant.

mod bound;
mod node;

pub(super) use bound::Bound;
pub(super) use node::Child;

use crate::page::bytes::u32_at;
use crate::page::store::{Damage, PageEdit, PageError, PageId, Pages, PartKind, at_page};
use node::{Counts, NodePage};
use std::ops::Range;

/// A node above this many bytes is split if it has at least `FEW_CHILDREN`.
const NODE_MAX_BYTES: usize = 4096;
const FEW_CHILDREN: usize = 8;

/// More levels than any tree can have that was grown by splits.
pub(super) const LEVELS_MAX: u8 = 16;

/// A place in an order, which bounds are compared with.
pub(super) trait Place {
    /// The score that bounds are compared with first: most differ in it.
    fn order(&self) -> u64;

    /// True if a bound with this score and these bytes is before the place.
    fn is_above(&self, order: u64, rest: &[u8]) -> bool;
}

/// The tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tree {
    /// What the pages of the order are.
    pub part: PartKind,
    /// The node at the top; the only page of the order where there is none.
    pub root: u64,
    /// Levels of nodes.
    pub levels: u8,
    pub nodes: u32,
    /// Pages of the order.
    pub pages: u32,
    /// Number of the next page, which was never used.
    pub next: u64,
}

/// A child that was gone down to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub node: u64,
    pub at: usize,
}

/// The way to a page of the order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Path {
    pub steps: Vec<Step>,
    pub page: u64,
}

pub(super) fn node_id(number: u64) -> PageId {
    PageId { part: PartKind::Nodes, number }
}

pub(super) fn counts_id(node: u64) -> PageId {
    PageId { part: PartKind::Counts, number: node }
}

fn node<P: Pages>(pages: &P, number: u64) -> Result<NodePage<'_>, PageError> {
    let id = node_id(number);
    NodePage::parse(pages.read(id)?).map_err(at_page(id))
}

/// The pages of a node, both at once: where one is away, so may be the other.
fn whole<P: Pages>(pages: &P, number: u64) -> Result<(NodePage<'_>, Counts<'_>), PageError> {
    let (node, id) = (node(pages, number)?, counts_id(number));
    let counts = Counts::parse(pages.read(id)?, node.len()).map_err(at_page(id))?;
    Ok((node, counts))
}

fn children<P: Pages>(pages: &P, number: u64) -> Result<Vec<Child>, PageError> {
    let counts = pages.read(counts_id(number))?;
    node(pages, number)?.children(counts).map_err(at_page(node_id(number)))
}

/// The count of child `at` in the payload of a page of counts.
fn count(id: PageId, payload: &[u8], at: usize) -> Result<u32, PageError> {
    u32_at(payload, node::count_at(at))
        .map_err(|_| wrong(id, "as many counts as the node has children"))
}

/// True if the node above the page at the end of `path` needs no change of other nodes without so many of its children, and with these.
fn stays_one<P: Pages>(
    pages: &P,
    path: &Path,
    (removed, added): (usize, &[Child]),
) -> Result<bool, PageError> {
    let Some((last, above)) = path.steps.split_last() else { return Ok(false) };
    let node = node(pages, last.node)?;
    let len = (node.len() + added.len()).saturating_sub(removed);
    let bytes = node.children_bytes() + added.iter().map(node::child_bytes).sum::<usize>();
    let least = if above.is_empty() { 1 } else { NODE_MIN };
    Ok((least + 1..=CHILDREN_MAX).contains(&len) && bytes <= NODE_MAX_BYTES)
}

fn is_in_memory<P: Pages>(pages: &P, number: u64) -> bool {
    pages.is_in_memory(node_id(number)) && pages.is_in_memory(counts_id(number))
}

impl Tree {
    /// One without pages.
    pub(super) fn new(part: PartKind) -> Self {
        Self { part, root: 0, levels: 0, nodes: 0, pages: 0, next: 0 }
    }

    fn page_id(&self, number: u64) -> PageId {
        PageId { part: self.part, number }
    }

    /// A number for a page of the order, or for a node.
    pub(super) fn new_number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    fn path(&self) -> Path {
        Path { steps: Vec::with_capacity(self.levels as usize), page: self.root }
    }

    /// The path to the page that has the place, or would have it; `None` without pages.
    pub(super) fn find<P: Pages>(
        &self,
        pages: &P,
        place: &impl Place,
    ) -> Result<Option<Path>, PageError> {
        if self.pages == 0 {
            return Ok(None);
        }
        let mut path = self.path();
        for _ in 0..self.levels {
            let number = path.page;
            let node = node(pages, number)?;
            let at = node.find(place).map_err(at_page(node_id(number)))?;
            path.steps.push(Step { node: number, at });
            path.page = node.number(at).map_err(at_page(node_id(number)))?;
        }
        Ok(Some(path))
    }

    /// The page that holds the member of a rank, and the number of members before that page. There are more members than `rank`.
    pub(super) fn at<P: Pages>(&self, pages: &P, rank: u64) -> Result<(Path, u64), PageError> {
        let (mut path, mut before) = (self.path(), 0);
        for _ in 0..self.levels {
            let number = path.page;
            let (node, counts) = whole(pages, number)?;
            let mut at = 0;
            for count in counts.iter().map(u64::from) {
                if rank < before + count {
                    break;
                }
                before += count;
                at += 1;
            }
            path.steps.push(Step { node: number, at });
            path.page = node.number(at).map_err(at_page(node_id(number)))?;
        }
        Ok((path, before))
    }

    /// Number of members before the page at the end of a path.
    pub(super) fn before<P: Pages>(&self, pages: &P, path: &Path) -> Result<u64, PageError> {
        path.steps.iter().try_fold(0, |before, step| {
            let id = counts_id(step.node);
            Ok(before + node::sum_before(pages.read(id)?, step.at).map_err(at_page(id))?)
        })
    }

    /// Reads the counts on the way of a path, which a change of its page changes. The path's search has read the nodes.
    pub(super) fn hold<P: Pages>(&self, pages: &P, path: &Path) -> Result<(), PageError> {
        path.steps.iter().try_for_each(|step| {
            let id = counts_id(step.node);
            count(id, pages.read(id)?, step.at).map(|_| ())
        })
    }

    /// Adds the pages that are not in memory and hold members with ranks in `range`, or lead to one that does.
    pub(super) fn missing<P: Pages>(
        &self,
        pages: &P,
        range: Range<u64>,
        missing: &mut Vec<PageId>,
    ) -> Result<(), PageError> {
        if self.pages > 0 && !range.is_empty() {
            return self.gather(pages, (self.root, self.levels), range, missing);
        }
        Ok(())
    }

    /// All pages of the order, and how many members each has.
    pub(super) fn all<P: Pages>(&self, pages: &P) -> Result<Vec<(u64, Option<u32>)>, PageError> {
        let mut level: Vec<(u64, Option<u32>)> = Vec::new();
        if self.pages > 0 {
            level.push((self.root, None));
        }
        let mut nodes = 0;
        for _ in 0..self.levels {
            nodes += level.len();
            let mut below = Vec::new();
            for (number, count) in level {
                let children = children(pages, number)?;
                let own = node::sum(pages.read(counts_id(number))?);
                if count.is_some_and(|count| count != own) {
                    return Err(wrong(
                        counts_id(number),
                        "as many members as the node above counts",
                    ));
                }
                below.extend(children.iter().map(|child| (child.number, Some(child.count))));
                if below.len() > self.pages as usize {
                    return Err(wrong(node_id(number), "as many pages as the descriptor counts"));
                }
            }
            level = below;
        }
        if level.len() == self.pages as usize && nodes == self.nodes as usize {
            Ok(level)
        } else {
            Err(wrong(node_id(self.root), "as many pages as the descriptor counts"))
        }
    }

    /// All pages of the order, which need not be in memory, and of nodes; fewer where one of a node is missing, which is added to `missing`.
    pub(super) fn every_id<P: Pages>(
        &self,
        pages: &P,
        missing: &mut Vec<PageId>,
    ) -> Result<Vec<PageId>, PageError> {
        let (mut level, mut ids) = (Vec::new(), Vec::new());
        if self.pages > 0 {
            level.push(self.root);
        }
        for _ in 0..self.levels {
            let mut below = Vec::new();
            for number in level {
                let own = [node_id(number), counts_id(number)];
                missing.extend(own.into_iter().filter(|id| !pages.is_in_memory(*id)));
                ids.extend(own);
                if pages.is_in_memory(node_id(number)) {
                    let node = node(pages, number)?;
                    for at in 0..node.len() {
                        below.push(node.number(at).map_err(at_page(node_id(number)))?);
                    }
                }
                if below.len() > self.pages as usize {
                    return Err(wrong(node_id(number), "as many pages as the descriptor counts"));
                }
            }
            level = below;
        }
        ids.extend(level.into_iter().map(|number| self.page_id(number)));
        Ok(ids)
    }

    /// What parts each page of the order from the one before, as nodes say it; the least of the first one. Nothing is answered for
    /// nodes that are not in memory, which are added to `missing`. Where the first page of a node has gone, the next one has its bound.
    pub(super) fn bounds<P: Pages>(
        &self,
        pages: &P,
        missing: &mut Vec<PageId>,
    ) -> Result<Vec<Bound>, PageError> {
        let mut level = Vec::new();
        if self.pages > 0 {
            level.push((self.root, Bound::least()));
        }
        for _ in 0..self.levels {
            let mut below = Vec::new();
            for (number, own) in level {
                let id = node_id(number);
                if !pages.is_in_memory(id) {
                    missing.push(id);
                    continue;
                }
                let node = node(pages, number)?;
                below.push((node.number(0).map_err(at_page(id))?, own));
                for at in 1..node.len() {
                    let (order, member) = node.bound(at).map_err(at_page(id))?;
                    let bound = Bound { order, member: member.into() };
                    below.push((node.number(at).map_err(at_page(id))?, bound));
                }
                if below.len() > self.pages as usize {
                    return Err(wrong(id, "as many pages as the descriptor counts"));
                }
            }
            level = below;
        }
        Ok(level.into_iter().map(|(_, bound)| bound).collect())
    }

    /// Says how many members the page at the end of a way has, on all levels. What is above is in memory.
    pub(super) fn set_count<P: Pages>(
        &self,
        pages: &mut P,
        steps: &[Step],
        count: u32,
    ) -> Result<(), PageError> {
        // By how much the counts above differ; each of them is the sum of the counts below.
        let mut by = None;
        for step in steps.iter().rev() {
            let id = counts_id(step.node);
            let mut edit = pages.edit(id)?;
            let old = self::count(id, edit.bytes(), step.at)?;
            let by = *by.get_or_insert(count.wrapping_sub(old));
            if by == 0 {
                break;
            }
            edit.write(node::count_at(step.at), &old.wrapping_add(by).to_le_bytes());
        }
        Ok(())
    }

    /// True if no page of the order follows the one at the end of a path.
    pub(super) fn is_last<P: Pages>(&self, pages: &P, path: &Path) -> Result<bool, PageError> {
        for step in &path.steps {
            if step.at + 1 < node(pages, step.node)?.len() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Sets the member count of the page at the end of `path`, and inserts the pages `behind` after it. What ascends as time does leaves
    /// full nodes behind.
    pub(super) fn split<P: Pages>(
        &mut self,
        pages: &mut P,
        path: &Path,
        count: u32,
        behind: Vec<Child>,
    ) -> Result<(), PageError> {
        self.pages += behind.len() as u32;
        let Some((last, above)) = path.steps.split_last() else {
            let first = Child { number: path.page, count, bound: Bound::least() };
            return self.grow(pages, std::iter::once(first).chain(behind).collect());
        };
        if stays_one(pages, path, (0, &behind))? {
            let counts: Vec<u32> =
                std::iter::once(count).chain(behind.iter().map(|child| child.count)).collect();
            return self.edit_node(pages, path, (1, &counts), |node| {
                node::insert(node, last.at + 1, &behind)
            });
        }
        let fills = if self.is_last(pages, path)? { Fills::Whole } else { Fills::Half };
        let mut children = children(pages, last.node)?;
        match children.get_mut(last.at) {
            Some(child) => child.count = count,
            None => return Err(wrong(node_id(last.node), "more children")),
        }
        children.splice(last.at + 1..last.at + 1, behind);
        self.write(pages, last.node, above, (children, fills))
    }

    /// Takes out the page at the end of a path.
    pub(super) fn remove<P: Pages>(&mut self, pages: &mut P, path: &Path) -> Result<(), PageError> {
        pages.remove(self.page_id(path.page));
        self.pages = self.pages.saturating_sub(1);
        if let Some(last) = path.steps.last()
            && stays_one(pages, path, (1, &[]))?
        {
            return self.edit_node(pages, path, (1, &[]), |node| node::remove(node, last.at));
        }
        self.take_out(pages, &path.steps)
    }

    /// Changes the node above the page at the end of `path`, which stays one node: `change` does so with its children, and in place of the
    /// counts of so many of them, from that of this page on, these come.
    fn edit_node<P: Pages>(
        &self,
        pages: &mut P,
        path: &Path,
        (replaced, counts): (usize, &[u32]),
        change: impl FnOnce(&mut P::Edit<'_>) -> Result<(), Damage>,
    ) -> Result<(), PageError> {
        let Some((last, above)) = path.steps.split_last() else { return Ok(()) };
        let (id, counts_id) = (node_id(last.node), counts_id(last.node));
        change(&mut pages.edit(id)?).map_err(at_page(id))?;
        let counts: Vec<u8> = counts.iter().flat_map(|count| count.to_le_bytes()).collect();
        let own = node::count_at(last.at)..node::count_at(last.at + replaced);
        let count = {
            let mut edit = pages.edit(counts_id)?;
            if own.end > edit.bytes().len() {
                return Err(wrong(counts_id, "as many counts as the node has children"));
            }
            edit.splice(own, &counts);
            node::sum(edit.bytes())
        };
        self.set_count(pages, above, count)
    }

    fn take_out<P: Pages>(&mut self, pages: &mut P, steps: &[Step]) -> Result<(), PageError> {
        let Some((last, above)) = steps.split_last() else {
            (self.root, self.levels) = (0, 0);
            return Ok(());
        };
        let mut children = children(pages, last.node)?;
        if last.at < children.len() {
            children.remove(last.at);
        }
        self.write(pages, last.node, above, (children, Fills::Half))
    }

    /// The pages before and behind the one at the end of a path, if they are below one node with it; with their numbers of members.
    pub(super) fn neighbours<P: Pages>(
        &self,
        pages: &P,
        path: &Path,
    ) -> Result<[Option<(u64, u32)>; 2], PageError> {
        let Some(last) = path.steps.last() else { return Ok([None, None]) };
        let (node, counts) = whole(pages, last.node)?;
        let child = |at: Option<usize>| match at.filter(|at| *at < node.len()) {
            Some(at) => {
                let number = node.number(at).map_err(at_page(node_id(last.node)))?;
                Ok(counts.iter().nth(at).map(|count| (number, count)))
            }
            None => Ok(None),
        };
        Ok([child(last.at.checked_sub(1))?, child(last.at.checked_add(1))?])
    }

    /// Sets the member count of the page at the end of `path`, and removes the page that follows it.
    pub(super) fn join<P: Pages>(
        &mut self,
        pages: &mut P,
        path: &Path,
        count: u32,
    ) -> Result<(), PageError> {
        let Some((last, above)) = path.steps.split_last() else { return Ok(()) };
        if stays_one(pages, path, (1, &[]))? {
            let gone = node(pages, last.node)?.number(last.at + 1);
            pages.remove(self.page_id(gone.map_err(at_page(node_id(last.node)))?));
            self.pages = self.pages.saturating_sub(1);
            return self
                .edit_node(pages, path, (2, &[count]), |node| node::remove(node, last.at + 1));
        }
        let mut children = children(pages, last.node)?;
        if last.at + 1 >= children.len() {
            return Err(wrong(node_id(last.node), "more children"));
        }
        let gone = children.remove(last.at + 1);
        children[last.at].count = count;
        pages.remove(self.page_id(gone.number));
        self.pages = self.pages.saturating_sub(1);
        self.write(pages, last.node, above, (children, Fills::Half))
    }

    /// Makes a new node at the top.
    fn grow<P: Pages>(&mut self, pages: &mut P, below: Vec<Child>) -> Result<(), PageError> {
        let number = self.new_number();
        self.root = number;
        self.levels += 1;
        self.add_node(pages, number, &below);
        // It may be too full at once.
        self.write(pages, number, &[], (below, Fills::Half))
    }

    fn add_node<P: Pages>(&mut self, pages: &mut P, number: u64, children: &[Child]) {
        let (node, counts) = node::build(children);
        pages.add(node_id(number), &node);
        pages.add(counts_id(number), &counts);
        self.nodes += 1;
    }

    fn remove_node<P: Pages>(&mut self, pages: &mut P, number: u64) {
        pages.remove(node_id(number));
        pages.remove(counts_id(number));
        self.nodes = self.nodes.saturating_sub(1);
    }

    /// Gives a node, to which `above` leads, other children, and what is above it its counts.
    fn write<P: Pages>(
        &mut self,
        pages: &mut P,
        number: u64,
        above: &[Step],
        (children, fills): (Vec<Child>, Fills),
    ) -> Result<(), PageError> {
        if children.is_empty() {
            self.remove_node(pages, number);
            return self.take_out(pages, above);
        }
        if let ([only], []) = (children.as_slice(), above) {
            self.root = only.number;
            self.levels = self.levels.saturating_sub(1);
            self.remove_node(pages, number);
            return Ok(());
        }
        let mut parts = parts(children, fills).into_iter();
        let first = parts.next().unwrap_or_default();
        let (node, counts) = node::build(&first);
        pages.edit(node_id(number))?.replace(&node);
        pages.edit(counts_id(number))?.replace(&counts);
        let mut behind = Vec::new();
        for part in parts {
            let own = self.new_number();
            self.add_node(pages, own, &part);
            let bound = part.first().map_or_else(Bound::least, |child| child.bound.clone());
            behind.push(Child { number: own, count: total(&part), bound });
        }
        let count = total(&first);
        let Some((last, higher)) = above.split_last() else {
            if behind.is_empty() {
                return Ok(());
            }
            let first = Child { number, count, bound: Bound::least() };
            return self.grow(pages, std::iter::once(first).chain(behind).collect());
        };
        if behind.is_empty() && first.len() > NODE_MIN {
            return self.set_count(pages, above, count);
        }
        let mut siblings = self::children(pages, last.node)?;
        match siblings.get_mut(last.at) {
            Some(child) => child.count = count,
            None => return Err(wrong(node_id(last.node), "more children")),
        }
        if behind.is_empty() {
            if !self.join_nodes(pages, &mut siblings, last.at)? {
                return self.set_count(pages, above, count);
            }
        } else {
            siblings.splice(last.at + 1..last.at + 1, behind);
        }
        self.write(pages, last.node, higher, (siblings, fills))
    }

    /// Joins the node of child `at`, which has become small, with a neighbour that is in memory, if one node has room for both.
    fn join_nodes<P: Pages>(
        &mut self,
        pages: &mut P,
        siblings: &mut Vec<Child>,
        at: usize,
    ) -> Result<bool, PageError> {
        for left in [Some(at), at.checked_sub(1)].into_iter().flatten() {
            let Some([own, behind]) = siblings.get(left..left + 2) else { continue };
            if !is_in_memory(pages, own.number) || !is_in_memory(pages, behind.number) {
                continue;
            }
            let mut joined = children(pages, own.number)?;
            let mut more = children(pages, behind.number)?;
            if joined.len() + more.len() > CHILDREN_MAX * 3 / 4 {
                continue;
            }
            // What was the first child of its node has the bound of that node.
            if let Some(first) = more.first_mut() {
                first.bound = behind.bound.clone();
            }
            joined.append(&mut more);
            if parts_of(&joined, Fills::Half).len() > 1 {
                continue;
            }
            let (number, gone) = (own.number, behind.number);
            let (node, counts) = node::build(&joined);
            pages.edit(node_id(number))?.replace(&node);
            pages.edit(counts_id(number))?.replace(&counts);
            self.remove_node(pages, gone);
            siblings.remove(left + 1);
            siblings[left].count = total(&joined);
            return Ok(true);
        }
        Ok(false)
    }

    /// Makes the tree over these pages of the order, which are there.
    pub(super) fn lay_out<P: Pages>(&mut self, pages: &mut P, below: Vec<Child>) {
        self.pages = below.len() as u32;
        let mut level = below;
        while level.len() > 1 {
            let mut above = Vec::new();
            let bytes: Vec<usize> = level.iter().map(node::child_bytes).collect();
            // Some room is left for what comes.
            let counts = cut(&bytes, CHILDREN_MAX * 3 / 4);
            let mut rest = level.into_iter();
            for count in counts {
                let own: Vec<Child> = rest.by_ref().take(count).collect();
                let number = self.new_number();
                self.add_node(pages, number, &own);
                let bound = own.first().map_or_else(Bound::least, |child| child.bound.clone());
                above.push(Child { number, count: total(&own), bound });
            }
            level = above;
            self.levels += 1;
        }
        self.root = level.first().map_or(0, |child| child.number);
    }

    /// [`missing`](Self::missing) below a node or a page.
    fn gather<P: Pages>(
        &self,
        pages: &P,
        (number, levels): (u64, u8),
        range: Range<u64>,
        missing: &mut Vec<PageId>,
    ) -> Result<(), PageError> {
        let before = missing.len();
        let ids = if levels == 0 {
            vec![self.page_id(number)]
        } else {
            vec![node_id(number), counts_id(number)]
        };
        missing.extend(ids.into_iter().filter(|id| !pages.is_in_memory(*id)));
        if levels == 0 || missing.len() > before {
            return Ok(());
        }
        let (node, counts) = whole(pages, number)?;
        let mut start = 0;
        for (at, count) in counts.iter().map(u64::from).enumerate() {
            let own = range.start.max(start)..range.end.min(start + count);
            if !own.is_empty() {
                let below = node.number(at).map_err(at_page(node_id(number)))?;
                self.gather(
                    pages,
                    (below, levels - 1),
                    own.start - start..own.end - start,
                    missing,
                )?;
            }
            start += count;
        }
        Ok(())
    }
}

/// Most children of a node.
pub(super) const CHILDREN_MAX: usize = if cfg!(test) { 12 } else { 64 };

/// A node with no more is joined with its neighbour, if there is room.
const NODE_MIN: usize = CHILDREN_MAX / 4;

fn total(children: &[Child]) -> u32 {
    children.iter().fold(0, |sum, child| child.count.saturating_add(sum))
}

/// How many children each node of a row gets: no more than `most`, and not too many bytes.
fn cut(bytes: &[usize], most: usize) -> Vec<usize> {
    let (mut counts, mut count, mut own) = (Vec::new(), 0, 0);
    for bytes in bytes {
        let is_full = count == most || (count >= FEW_CHILDREN && own + bytes > NODE_MAX_BYTES);
        if is_full {
            counts.push(count);
            (count, own) = (0, 0);
        }
        (count, own) = (count + 1, own + bytes);
    }
    counts.push(count);
    counts
}

/// How full the nodes get that one node becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fills {
    /// Two halves: there may be more anywhere.
    Half,
    /// All but the last: there will be more behind.
    Whole,
}

/// How many children each of the nodes gets that one node becomes, if it is too full for one.
fn parts_of(children: &[Child], fills: Fills) -> Vec<usize> {
    let bytes: Vec<usize> = children.iter().map(node::child_bytes).collect();
    let whole = cut(&bytes, CHILDREN_MAX);
    if whole.len() <= 1 || fills == Fills::Whole {
        return whole;
    }
    cut(&bytes, children.len().div_ceil(2).min(CHILDREN_MAX))
}

fn parts(children: Vec<Child>, fills: Fills) -> Vec<Vec<Child>> {
    let counts = parts_of(&children, fills);
    let mut rest = children.into_iter();
    counts.into_iter().map(|count| rest.by_ref().take(count).collect()).collect()
}

fn wrong(page: PageId, expected: &'static str) -> PageError {
    at_page(page)(Damage { at: 0, expected })
}

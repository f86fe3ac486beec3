//! The tree over the pages of an order (a sorted set's or a stream's): a counted tree that is itself stored on pages. A step down
//! reads two pages, and a write that changes a count changes one small page of counts on each level.
//!
//! The caller defines what is counted: members of a sorted set, pages of a stream.
//!
//! Invariants: no page of the order is empty, and no node is without children; all pages of the order have equal depth; counts are
//! correct; a bound is at or below everything below its child, and above everything before, except for the bound of a node's first
//! child, which is ignored. How full nodes are is no invariant.

mod bound;
mod change;
mod node;

pub(super) use bound::Bound;
#[cfg(test)]
pub(super) use change::CHILDREN_MAX;
pub(super) use node::Child;

use crate::page::bytes::u32_at;
use crate::page::store::{Damage, PageError, PageId, Pages, PartKind, at_page};
use node::{Counts, NodePage};
use std::ops::Range;

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

    /// True if no page of the order follows the one at the end of a path.
    pub(super) fn is_last<P: Pages>(&self, pages: &P, path: &Path) -> Result<bool, PageError> {
        for step in &path.steps {
            if step.at + 1 < node(pages, step.node)?.len() {
                return Ok(false);
            }
        }
        Ok(true)
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

fn wrong(page: PageId, expected: &'static str) -> PageError {
    at_page(page)(Damage { at: 0, expected })
}

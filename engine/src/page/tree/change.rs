//! How a tree grows and shrinks: children of a node come and go where they are, unless other nodes change with it.

use super::node::Child;
use super::{Bound, Path, Step, Tree, children, count, counts_id, node, node_id, wrong};
use crate::page::store::{Damage, PageEdit, PageError, Pages, at_page};

/// A node above this many bytes is split if it has at least `FEW_CHILDREN`.
const NODE_MAX_BYTES: usize = 4096;
const FEW_CHILDREN: usize = 8;

/// Most children of a node.
pub(in crate::page) const CHILDREN_MAX: usize = if cfg!(test) { 12 } else { 64 };

/// A node with no more is joined with its neighbour, if there is room.
const NODE_MIN: usize = CHILDREN_MAX / 4;

/// How full the nodes get that one node becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fills {
    /// Two halves: there may be more anywhere.
    Half,
    /// All but the last: there will be more behind.
    Whole,
}

impl Tree {
    /// Says how many members the page at the end of a way has, on all levels. What is above is in memory.
    pub(in crate::page) fn set_count<P: Pages>(
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

    /// Sets the member count of the page at the end of `path`, and inserts the pages `behind` after it. What ascends as time does leaves
    /// full nodes behind.
    pub(in crate::page) fn split<P: Pages>(
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
    pub(in crate::page) fn remove<P: Pages>(
        &mut self,
        pages: &mut P,
        path: &Path,
    ) -> Result<(), PageError> {
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

    /// Sets the member count of the page at the end of `path`, and removes the page that follows it.
    pub(in crate::page) fn join<P: Pages>(
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
    pub(in crate::page) fn lay_out<P: Pages>(&mut self, pages: &mut P, below: Vec<Child>) {
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

//! The directory of a sequence of pages: a counted tree over labels, in memory only.
//!
//! It finds a page by its label, by the position of an element, or by a bound, each in O(log pages). A *bound* lies at or
//! below all that a page holds, and above all that the page before holds; sequences without order have `()`.
//!
//! Invariants: labels ascend; the count of an inner node's child is the sum of what lies below it; no node is empty but
//! the root of an empty directory, none has more than 64 children, and all leaves lie equally deep.

/// Most children of a node.
const NODE_MAX: usize = 64;

/// A node with fewer children is joined with its neighbour, if that has room.
const NODE_MIN: usize = 16;

/// A page, as the directory knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    /// Its label.
    pub label: u64,
    /// Its elements.
    pub count: u32,
    /// Elements of all pages before it.
    pub before: u64,
}

#[derive(Clone, Debug)]
struct Leaf<B> {
    label: u64,
    count: u32,
    bound: B,
}

#[derive(Clone, Debug)]
struct Child<B> {
    /// Label and bound of the first page below.
    label: u64,
    bound: B,
    elements: u64,
    node: Node<B>,
}

#[derive(Clone, Debug)]
enum Node<B> {
    Leaves(Vec<Leaf<B>>),
    Children(Vec<Child<B>>),
}

/// The directory. `B` is the bound of a page.
#[derive(Clone, Debug)]
pub struct Directory<B> {
    root: Node<B>,
    pages: u32,
    elements: u64,
}

impl<B: Clone> Default for Directory<B> {
    fn default() -> Self {
        Self { root: Node::Leaves(Vec::new()), pages: 0, elements: 0 }
    }
}

/// The child that would hold what `is_at_or_below` says of a child's first page.
fn child_of<T>(children: &[T], is_at_or_below: impl FnMut(&T) -> bool) -> usize {
    children.partition_point(is_at_or_below).saturating_sub(1)
}

impl<B: Clone> Node<B> {
    fn len(&self) -> usize {
        match self {
            Self::Leaves(leaves) => leaves.len(),
            Self::Children(children) => children.len(),
        }
    }

    fn elements(&self) -> u64 {
        match self {
            Self::Leaves(leaves) => leaves.iter().map(|leaf| u64::from(leaf.count)).sum(),
            Self::Children(children) => children.iter().map(|child| child.elements).sum(),
        }
    }

    /// The node as its parent names it; `None` if it is empty.
    fn into_child(self) -> Option<Child<B>> {
        let (label, bound) = match &self {
            Self::Leaves(leaves) => leaves.first().map(|leaf| (leaf.label, leaf.bound.clone()))?,
            Self::Children(children) => {
                children.first().map(|child| (child.label, child.bound.clone()))?
            }
        };
        Some(Child { label, bound, elements: self.elements(), node: self })
    }

    /// Puts the page in its place. What does not fit comes back, to stand behind this node.
    fn insert(&mut self, page: Leaf<B>) -> Option<Self> {
        match self {
            Self::Leaves(leaves) => {
                let at = leaves.partition_point(|leaf| leaf.label < page.label);
                leaves.insert(at, page);
                overflow(leaves, at).map(Self::Leaves)
            }
            Self::Children(children) => {
                let at = child_of(children, |child| child.label <= page.label);
                let child = children.get_mut(at)?;
                if page.label < child.label {
                    (child.label, child.bound) = (page.label, page.bound.clone());
                }
                child.elements += u64::from(page.count);
                let behind = child.node.insert(page)?.into_child()?;
                child.elements -= behind.elements;
                children.insert(at + 1, behind);
                overflow(children, at + 1).map(Self::Children)
            }
        }
    }

    fn remove(&mut self, label: u64) -> Option<Leaf<B>> {
        match self {
            Self::Leaves(leaves) => {
                let at = leaves.binary_search_by_key(&label, |leaf| leaf.label).ok()?;
                Some(leaves.remove(at))
            }
            Self::Children(children) => {
                let at = child_of(children, |child| child.label <= label);
                let child = children.get_mut(at)?;
                let removed = child.node.remove(label)?;
                if child.node.len() < NODE_MIN {
                    let neighbour = if at + 1 < children.len() { at } else { at.saturating_sub(1) };
                    join(children, neighbour);
                }
                // Where the child and its neighbours stand now; one of them has another first page.
                let end = children.len().min(at + 1);
                for at in (at.saturating_sub(1)..end).rev() {
                    let node = std::mem::replace(&mut children[at].node, Self::Leaves(Vec::new()));
                    match node.into_child() {
                        Some(child) => children[at] = child,
                        None => drop(children.remove(at)),
                    }
                }
                Some(removed)
            }
        }
    }

    fn count_mut(&mut self, label: u64) -> Option<&mut u32> {
        match self {
            Self::Leaves(leaves) => {
                let at = leaves.binary_search_by_key(&label, |leaf| leaf.label).ok()?;
                Some(&mut leaves.get_mut(at)?.count)
            }
            Self::Children(children) => {
                let at = child_of(children, |child| child.label <= label);
                children.get_mut(at)?.node.count_mut(label)
            }
        }
    }

    fn recount(&mut self, label: u64, old: u32, new: u32) {
        if let Self::Children(children) = self {
            let at = child_of(children, |child| child.label <= label);
            if let Some(child) = children.get_mut(at) {
                child.elements = child.elements + u64::from(new) - u64::from(old);
                child.node.recount(label, old, new);
            }
        }
    }
}

/// Joins children `at` and `at + 1`, if one node has room for both.
fn join<B: Clone>(children: &mut Vec<Child<B>>, at: usize) {
    let [left, right] = match children.get_mut(at..at + 2) {
        Some([left, right]) => [left, right],
        _ => return,
    };
    if left.node.len() + right.node.len() > NODE_MAX {
        return;
    }
    match (&mut left.node, &mut right.node) {
        (Node::Leaves(left), Node::Leaves(right)) => left.append(right),
        (Node::Children(left), Node::Children(right)) => left.append(right),
        _ => return,
    }
    left.elements += right.elements;
    children.remove(at + 1);
}

/// The upper half of what has become too much. What grew at its end stays full.
fn overflow<T>(items: &mut Vec<T>, grown_at: usize) -> Option<Vec<T>> {
    if items.len() <= NODE_MAX {
        return None;
    }
    let keep = if grown_at + 1 == items.len() { NODE_MAX } else { items.len() / 2 };
    Some(items.split_off(keep))
}

impl<B: Clone> Directory<B> {
    /// Pages.
    #[must_use]
    pub fn pages(&self) -> u32 {
        self.pages
    }

    /// Elements of all pages.
    #[must_use]
    pub fn elements(&self) -> u64 {
        self.elements
    }

    /// Walks down. `choose` says which child the page is below; the children before it are counted.
    fn descend(
        &self,
        choose_child: impl Fn(&[Child<B>], u64) -> usize,
        choose_leaf: impl Fn(&[Leaf<B>], u64) -> Option<usize>,
    ) -> Option<Spot> {
        let (mut node, mut before) = (&self.root, 0);
        loop {
            match node {
                Node::Children(children) => {
                    let at = choose_child(children, before);
                    before += children[..at].iter().map(|child| child.elements).sum::<u64>();
                    node = &children.get(at)?.node;
                }
                Node::Leaves(leaves) => {
                    let at = choose_leaf(leaves, before)?;
                    let counts = leaves[..at].iter().map(|leaf| u64::from(leaf.count));
                    before += counts.sum::<u64>();
                    let leaf = leaves.get(at)?;
                    return Some(Spot { label: leaf.label, count: leaf.count, before });
                }
            }
        }
    }

    /// The page that holds element number `position`.
    #[must_use]
    pub fn at(&self, position: u64) -> Option<Spot> {
        fn nth(counts: impl Iterator<Item = u64>, mut left: u64) -> usize {
            let mut at = 0;
            for count in counts {
                if left < count {
                    break;
                }
                left -= count;
                at += 1;
            }
            at
        }
        if position >= self.elements {
            return None;
        }
        self.descend(
            |children, before| nth(children.iter().map(|child| child.elements), position - before),
            |leaves, before| {
                Some(nth(leaves.iter().map(|leaf| u64::from(leaf.count)), position - before))
            },
        )
    }

    /// The page of this label.
    #[must_use]
    pub fn of(&self, label: u64) -> Option<Spot> {
        self.descend(
            |children, _| child_of(children, |child| child.label <= label),
            |leaves, _| leaves.binary_search_by_key(&label, |leaf| leaf.label).ok(),
        )
    }

    /// The last page whose bound is at or below what is sought; the first page if there is none.
    #[must_use]
    pub fn find(&self, is_at_or_below: impl Fn(&B) -> bool) -> Option<Spot> {
        self.descend(
            |children, _| child_of(children, |child| is_at_or_below(&child.bound)),
            |leaves, _| Some(child_of(leaves, |leaf| is_at_or_below(&leaf.bound))),
        )
    }

    /// The first page.
    #[must_use]
    pub fn first(&self) -> Option<Spot> {
        self.descend(|_, _| 0, |_, _| Some(0))
    }

    /// The last page.
    #[must_use]
    pub fn last(&self) -> Option<Spot> {
        self.descend(|children, _| children.len() - 1, |leaves, _| leaves.len().checked_sub(1))
    }

    /// The page behind the one of this label.
    #[must_use]
    pub fn next(&self, label: u64) -> Option<Spot> {
        let page = self.of(label)?;
        self.after(label).map(|(label, count)| Spot {
            label,
            count,
            before: page.before + u64::from(page.count),
        })
    }

    /// Label and count of the first page above the label.
    fn after(&self, label: u64) -> Option<(u64, u32)> {
        fn after<B: Clone>(node: &Node<B>, label: u64) -> Option<(u64, u32)> {
            match node {
                Node::Leaves(leaves) => {
                    let at = leaves.partition_point(|leaf| leaf.label <= label);
                    leaves.get(at).map(|leaf| (leaf.label, leaf.count))
                }
                Node::Children(children) => {
                    let at = child_of(children, |child| child.label <= label);
                    let below = |at: usize| after(&children.get(at)?.node, label);
                    below(at).or_else(|| below(at + 1))
                }
            }
        }
        after(&self.root, label)
    }

    /// The page before the one of this label.
    #[must_use]
    pub fn previous(&self, label: u64) -> Option<Spot> {
        let page = self.of(label)?;
        // Pages that hold nothing are not kept, so the element before lies in the page before.
        self.at(page.before.checked_sub(1)?)
    }

    /// Adds a page whose label is not there. `count` is not 0.
    pub fn insert(&mut self, label: u64, count: u32, bound: B) {
        debug_assert!(self.of(label).is_none() && count > 0);
        self.pages += 1;
        self.elements += u64::from(count);
        if let Some(behind) = self.root.insert(Leaf { label, count, bound }) {
            let before = std::mem::replace(&mut self.root, Node::Leaves(Vec::new()));
            let halves = [before, behind].into_iter().filter_map(Node::into_child);
            self.root = Node::Children(halves.collect());
        }
    }

    /// Removes the page of this label, and gives its bound.
    pub fn remove(&mut self, label: u64) -> Option<B> {
        let removed = self.root.remove(label)?;
        self.pages -= 1;
        self.elements -= u64::from(removed.count);
        while let Node::Children(children) = &mut self.root {
            match children.len() {
                0 => self.root = Node::Leaves(Vec::new()),
                1 => match children.pop() {
                    Some(only) => self.root = only.node,
                    None => break,
                },
                _ => break,
            }
        }
        Some(removed.bound)
    }

    /// Says how many elements the page of this label has now; not 0.
    pub fn set_count(&mut self, label: u64, count: u32) {
        debug_assert!(count > 0);
        let Some(slot) = self.root.count_mut(label) else { return };
        let old = std::mem::replace(slot, count);
        self.root.recount(label, old, count);
        self.elements = self.elements + u64::from(count) - u64::from(old);
    }

    /// All pages, in their order.
    pub fn iter(&self) -> impl Iterator<Item = Spot> + '_ {
        let mut next = self.first();
        std::iter::from_fn(move || {
            let spot = next?;
            next = self.next(spot.label);
            Some(spot)
        })
    }

    /// Panics where an invariant does not hold.
    #[cfg(test)]
    fn assert_whole(&self) {
        fn depth<B: Clone>(node: &Node<B>, is_root: bool) -> (usize, u64) {
            assert!(node.len() <= NODE_MAX);
            match node {
                Node::Leaves(leaves) => {
                    assert!(is_root || !leaves.is_empty());
                    assert!(leaves.is_sorted_by(|a, b| a.label < b.label));
                    (1, node.elements())
                }
                Node::Children(children) => {
                    assert!(children.len() > usize::from(is_root));
                    assert!(children.is_sorted_by(|a, b| a.label < b.label));
                    let mut depths = Vec::new();
                    for child in children {
                        let (below, elements) = depth(&child.node, false);
                        assert_eq!(child.elements, elements);
                        let first = child.node.clone().into_child().expect("a page");
                        assert_eq!(child.label, first.label);
                        depths.push(below);
                    }
                    assert!(depths.windows(2).all(|two| two[0] == two[1]));
                    (depths[0] + 1, node.elements())
                }
            }
        }
        assert_eq!(depth(&self.root, true).1, self.elements);
        assert_eq!(self.iter().count(), self.pages as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Random;
    use super::*;
    use std::collections::BTreeMap;

    fn assert_same(directory: &Directory<u64>, model: &BTreeMap<u64, u32>) {
        directory.assert_whole();
        let mut before = 0;
        let mut last: Option<Spot> = None;
        for (label, count) in model {
            let spot = Spot { label: *label, count: *count, before };
            assert_eq!(directory.of(*label), Some(spot));
            assert_eq!(directory.at(before), Some(spot));
            before += u64::from(*count);
            assert_eq!(directory.at(before - 1), Some(spot));
            assert_eq!(directory.find(|bound| *bound <= label + 1), Some(spot));
            assert_eq!(directory.previous(*label), last);
            match last {
                Some(last) => assert_eq!(directory.next(last.label), Some(spot)),
                None => {
                    assert_eq!(directory.first(), Some(spot));
                    assert_eq!(directory.find(|_| false), Some(spot));
                }
            }
            last = Some(spot);
        }
        assert_eq!(directory.last(), last);
        assert_eq!(directory.at(before), None);
        assert_eq!((directory.elements(), directory.pages() as usize), (before, model.len()));
    }

    #[test]
    fn a_directory_does_what_a_map_does() {
        for seed in 0..12 {
            let mut random = Random::new(seed);
            let (mut directory, mut model) = (Directory::default(), BTreeMap::new());
            let space = [50, 500, 20_000][seed as usize % 3];
            for step in 0..6000 {
                let grows = (step / 1500) % 2 == 0;
                // Ends are met more often: lists grow and shrink there.
                let label = match random.below(4) {
                    0 => model.first_key_value().map_or(1000, |(label, _)| *label),
                    1 => model.last_key_value().map_or(1000, |(label, _)| label + 2),
                    _ => 2 * random.below(space) as u64,
                };
                let count = 1 + random.below(9) as u32;
                let is_there = model.contains_key(&label);
                if is_there {
                    if grows || random.is_one_in(3) {
                        directory.set_count(label, count);
                        model.insert(label, count);
                    } else {
                        assert_eq!(directory.remove(label), Some(label));
                        model.remove(&label);
                    }
                } else if grows || random.is_one_in(3) {
                    directory.insert(label, count, label);
                    model.insert(label, count);
                } else {
                    assert_eq!(directory.of(label), None);
                    assert_eq!(directory.remove(label), None);
                }
                if step % 500 == 499 || step < 80 {
                    assert_same(&directory, &model);
                }
            }
            for label in model.keys().copied().collect::<Vec<_>>() {
                directory.remove(label);
            }
            assert_same(&directory, &BTreeMap::new());
        }
    }

    #[test]
    fn a_directory_that_grows_at_its_end_has_full_nodes() {
        let mut directory = Directory::default();
        for label in 0..10_000 {
            directory.insert(label, 3, ());
        }
        directory.assert_whole();
        let Node::Children(children) = &directory.root else { panic!("a node of children") };
        assert_eq!(children.len(), 10_000_usize.div_ceil(64 * 64));
        // Three levels deep, wherever it is changed.
        let mut random = Random::new(1);
        let mut elements = 30_000;
        for step in 0..3000 {
            let label = random.below(10_000) as u64;
            let Some(spot) = directory.of(label) else {
                directory.insert(label, 5, ());
                elements += 5;
                continue;
            };
            elements -= u64::from(spot.count);
            if random.is_one_in(2) {
                directory.remove(label);
            } else {
                directory.set_count(label, 7);
                elements += 7;
            }
            assert_eq!(directory.elements(), elements);
            if step % 300 == 0 {
                directory.assert_whole();
            }
        }
        directory.assert_whole();
    }
}

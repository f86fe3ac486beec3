//! A node of the tree over an order, stored on two pages of one number. What seldom changes, the names of its children and
//! the bounds between them, is on a page of part `n`. What each write changes, their counts, is on a small page of part `c`.
//!
//! The bound of a node's first child is ignored: whatever is below all bounds belongs to that child, too.

use super::{Bound, Place};
use crate::page::bytes::{self, HEAD_BYTES, damage, u32_at, u64_at};
use crate::page::score::is_before;
use crate::page::store::{Damage, PageEdit};
use std::ops::Range;

const NUMBER_BYTES: usize = 8;
const ORDER_BYTES: usize = 8;
const END_BYTES: usize = 4;

/// Bytes of a count.
const COUNT_BYTES: usize = 4;

/// A page of the order, or a node, as the node above names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::page) struct Child {
    pub number: u64,
    /// What is counted of it.
    pub count: u32,
    pub bound: Bound,
}

/// A page of part `n`, being read.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodePage<'p> {
    payload: &'p [u8],
    len: usize,
}

impl<'p> NodePage<'p> {
    /// Parses the head. Whether bounds are within the payload is checked when they are read.
    pub(super) fn parse(payload: &'p [u8]) -> Result<Self, Damage> {
        let (len, _) = bytes::head(payload, 0)?;
        let page = Self { payload, len };
        if len == 0 || page.heap() > payload.len() {
            return damage(payload.len(), "children of a node");
        }
        Ok(page)
    }

    /// Children.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The name of child `at`.
    pub(super) fn number(&self, at: usize) -> Result<u64, Damage> {
        if at >= self.len {
            return damage(0, "more children");
        }
        u64_at(self.payload, HEAD_BYTES + at * NUMBER_BYTES)
    }

    fn orders(&self) -> usize {
        HEAD_BYTES + self.len * NUMBER_BYTES
    }

    fn ends(&self) -> usize {
        self.orders() + self.len * ORDER_BYTES
    }

    fn heap(&self) -> usize {
        self.ends() + self.len * END_BYTES
    }

    /// Where the member of bound `at` ends.
    fn end(&self, at: usize) -> Result<usize, Damage> {
        Ok(self.heap().saturating_add(u32_at(self.payload, self.ends() + at * END_BYTES)? as usize))
    }

    /// Where the member of bound `at` begins; behind the last one for the one that would follow.
    fn start(&self, at: usize) -> Result<usize, Damage> {
        if at == 0 { Ok(self.heap()) } else { self.end(at - 1) }
    }

    /// What parts child `at`, which is not the first one, from the one before.
    pub(super) fn bound(&self, at: usize) -> Result<(u64, &'p [u8]), Damage> {
        let order = u64_at(self.payload, self.orders() + at * ORDER_BYTES)?;
        match self.payload.get(self.start(at)?..self.end(at)?) {
            Some(member) => Ok((order, member)),
            None => damage(self.ends() + at * END_BYTES, "bound of a child"),
        }
    }

    /// Bytes that its children take.
    pub(super) fn children_bytes(&self) -> usize {
        self.payload.len() - HEAD_BYTES
    }

    /// The child below which the place is.
    pub(super) fn find(&self, place: &impl Place) -> Result<usize, Damage> {
        let (mut low, mut high) = (1, self.len);
        while low < high {
            let middle = usize::midpoint(low, high);
            let order = u64_at(self.payload, self.orders() + middle * ORDER_BYTES)?;
            let tie = || Ok(place.is_above(order, self.bound(middle)?.1));
            let is_above = is_before(order, place.order(), tie)?;
            if is_above { low = middle + 1 } else { high = middle }
        }
        Ok(low - 1)
    }

    /// All children, with the counts of the other page.
    pub(super) fn children(&self, counts: &[u8]) -> Result<Vec<Child>, Damage> {
        let counts = Counts::parse(counts, self.len)?;
        let mut children = Vec::with_capacity(self.len);
        for (at, count) in counts.iter().enumerate() {
            let (order, member) = self.bound(at)?;
            let bound = Bound { order, member: member.into() };
            children.push(Child { number: self.number(at)?, count, bound });
        }
        Ok(children)
    }
}

/// A page of part `c` of an order, being read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counts<'p>(&'p [[u8; COUNT_BYTES]]);

impl<'p> Counts<'p> {
    /// The counts of `children` children.
    pub(super) fn parse(payload: &'p [u8], children: usize) -> Result<Self, Damage> {
        match payload.as_chunks::<COUNT_BYTES>() {
            (counts, []) if counts.len() == children => Ok(Self(counts)),
            _ => damage(payload.len(), "as many counts as the node has children"),
        }
    }

    /// Members below each child.
    pub(super) fn iter(&self) -> impl Iterator<Item = u32> + use<'p> {
        self.0.iter().map(|count| u32::from_le_bytes(*count))
    }
}

/// Members below the first `at` children of a node with such a page of counts.
pub(super) fn sum_before(counts: &[u8], at: usize) -> Result<u64, Damage> {
    let Some(before) = counts.as_chunks::<COUNT_BYTES>().0.get(..at) else {
        return damage(counts.len(), "as many counts as the node has children");
    };
    Ok(Counts(before).iter().map(u64::from).sum())
}

/// Offset of the count of child `at`.
pub(super) const fn count_at(at: usize) -> usize {
    at * COUNT_BYTES
}

/// Members below a node with such a page of counts.
pub(super) fn sum(counts: &[u8]) -> u32 {
    let counts = counts.as_chunks::<COUNT_BYTES>().0.iter();
    counts.fold(0, |sum, count| u32::from_le_bytes(*count).saturating_add(sum))
}

/// Bytes that a child takes in a page of part `n`.
pub(super) fn child_bytes(child: &Child) -> usize {
    NUMBER_BYTES + ORDER_BYTES + END_BYTES + child.bound.member.len()
}

/// The two pages of a node with these children, at least one.
pub(super) fn build(children: &[Child]) -> (Vec<u8>, Vec<u8>) {
    let mut payload = bytes::new_payload(children.len(), 0, children.iter().map(child_bytes).sum());
    for child in children {
        payload.extend_from_slice(&child.number.to_le_bytes());
    }
    // That of the first means nothing.
    let least = Bound::least();
    let bounds =
        || std::iter::once(&least).chain(children.iter().skip(1).map(|child| &child.bound));
    for bound in bounds() {
        payload.extend_from_slice(&bound.order.to_le_bytes());
    }
    let mut end = 0;
    for bound in bounds() {
        end += bound.member.len() as u32;
        payload.extend_from_slice(&end.to_le_bytes());
    }
    for bound in bounds() {
        payload.extend_from_slice(&bound.member);
    }
    (payload, children.iter().flat_map(|child| child.count.to_le_bytes()).collect())
}

/// Puts children before child `at` of a node, but for the first, or behind the last: into its page of part `n`.
pub(super) fn insert(
    page: &mut impl PageEdit,
    at: usize,
    children: &[Child],
) -> Result<(), Damage> {
    splice(page, at..at, at..at, children)
}

/// Takes child `at` out of the page of part `n` of a node with others. What parts the second child from the first goes with the first.
pub(super) fn remove(page: &mut impl PageEdit, at: usize) -> Result<(), Damage> {
    let bound = at.max(1);
    splice(page, at..at + 1, bound..bound + 1, &[])
}

/// Puts children in place of those with these numbers and these bounds.
fn splice(
    page: &mut impl PageEdit,
    numbers: Range<usize>,
    bounds: Range<usize>,
    children: &[Child],
) -> Result<(), Damage> {
    let view = NodePage::parse(page.bytes())?;
    let (len, ends, heap) = (view.len, view.ends(), view.heap());
    if numbers.end > len || bounds.end > len {
        return damage(0, "more children");
    }
    let members = view.start(bounds.start)?..view.start(bounds.end)?;
    if members.start > members.end || members.end > view.payload.len() {
        return damage(ends, "bounds of children");
    }
    let mut end = (members.start - heap) as u32;
    let (mut new_numbers, mut new_orders, mut new_members) = (Vec::new(), Vec::new(), Vec::new());
    let mut new_ends = Vec::with_capacity((len - bounds.start + children.len()) * END_BYTES);
    for Child { number, bound, .. } in children {
        new_numbers.extend_from_slice(&number.to_le_bytes());
        new_orders.extend_from_slice(&bound.order.to_le_bytes());
        new_members.extend_from_slice(&bound.member);
        end += bound.member.len() as u32;
        new_ends.extend_from_slice(&end.to_le_bytes());
    }
    let grown = (new_members.len() as u32).wrapping_sub(members.len() as u32);
    for old in view.payload[ends + bounds.end * END_BYTES..heap].as_chunks().0 {
        let end = u32::from_le_bytes(*old).wrapping_add(grown);
        new_ends.extend_from_slice(&end.to_le_bytes());
    }
    let order_at = |at: usize| view.orders() + at * ORDER_BYTES;
    let orders = order_at(bounds.start)..order_at(bounds.end);
    page.several();
    page.splice(members, &new_members);
    page.splice(ends + bounds.start * END_BYTES..heap, &new_ends);
    page.splice(orders, &new_orders);
    let number_at = |at: usize| HEAD_BYTES + at * NUMBER_BYTES;
    page.splice(number_at(numbers.start)..number_at(numbers.end), &new_numbers);
    bytes::set_elements(page, len - numbers.len() + children.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::tests::Random;

    fn child(random: &mut Random) -> Child {
        let member = vec![random.next() as u8; random.below(3) * random.below(20)];
        let bound = Bound { order: random.next(), member: member.into() };
        Child { number: random.next(), count: 1, bound }
    }

    /// What is left of a node whose page was changed piece by piece is what was built of its children.
    #[test]
    fn a_page_that_was_changed_is_as_one_that_was_built() {
        let mut random = Random::new(5);
        let mut children: Vec<Child> = (0..3).map(|_| child(&mut random)).collect();
        let mut page = build(&children).0;
        for _ in 0..2000 {
            if children.len() > 1 && random.below(children.len() + 10) > 12 {
                let at = random.below(children.len());
                remove(&mut page, at).expect("a child");
                children.remove(at);
            } else {
                let at = 1 + random.below(children.len());
                let new: Vec<Child> = (0..=random.below(2)).map(|_| child(&mut random)).collect();
                insert(&mut page, at, &new).expect("a place");
                children.splice(at..at, new);
            }
            assert_eq!(page, build(&children).0, "{} children", children.len());
        }
        let len = children.len();
        assert!(remove(&mut page, len).is_err() && insert(&mut page, len + 1, &[]).is_err());
    }

    #[test]
    fn a_damaged_node_is_not_changed_beyond_its_page() {
        let mut random = Random::new(6);
        let children: Vec<Child> = (0..5).map(|_| child(&mut random)).collect();
        let whole = build(&children).0;
        for _ in 0..10_000 {
            let mut page = whole.clone();
            page[random.below(whole.len())] ^= 1 << random.below(8);
            // Refused, or done without a panic.
            let _ = if random.below(2) == 0 {
                remove(&mut page, random.below(5))
            } else {
                insert(&mut page, 1 + random.below(5), &children[..1])
            };
        }
    }
}

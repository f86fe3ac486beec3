//! A node of the tree over an order, stored on two pages of one number. What seldom changes, the names of its children and
//! the bounds between them, is on a page of part `n`. What each write changes, their counts, is on a small page of part `c`.
//!
//! The bound of a node's first child is ignored: whatever is below all bounds belongs to that child, too.

use super::{Bound, Place};
use crate::page::bytes::{self, HEAD_BYTES, damage, u32_at, u64_at};
use crate::page::score::is_before;
use crate::page::store::Damage;

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

    /// What parts child `at`, which is not the first one, from the one before.
    pub(super) fn bound(&self, at: usize) -> Result<(u64, &'p [u8]), Damage> {
        let order = u64_at(self.payload, self.orders() + at * ORDER_BYTES)?;
        let start = if at == 0 { self.heap() } else { self.end(at - 1)? };
        match self.payload.get(start..self.end(at)?) {
            Some(member) => Ok((order, member)),
            None => damage(self.ends() + at * END_BYTES, "bound of a child"),
        }
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

//! The elements that a waiter wants from a collection.

/// An end of a list, or of a sorted set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The left end; the lowest score.
    First,
    /// The right end; the highest score.
    Last,
}

/// What is to be taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pop {
    /// From a sorted set, not from a list.
    pub scored: bool,
    /// From which end.
    pub side: Side,
    /// Maximum number of elements, answered with their key as BLMPOP does; `None`: one element, as for BLPOP.
    pub count: Option<u64>,
}

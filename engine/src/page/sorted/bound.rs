//! What parts a page of the order from the one before.

use crate::page::scores_page::Scored;

/// Lies at or below all members of a page, and above those of the page before: a score, and the beginning of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bound {
    pub order: u64,
    pub member: Box<[u8]>,
}

impl Bound {
    /// At or below every member.
    pub(super) fn least() -> Self {
        Self { order: 0, member: [].into() }
    }

    /// The shortest that parts two neighbours.
    pub(super) fn between(left: Option<Scored<'_>>, right: Scored<'_>) -> Self {
        let order = right.0.order();
        let shared = match left {
            Some(left) if left.0.order() == order => {
                1 + left.1.iter().zip(right.1).take_while(|(a, b)| a == b).count()
            }
            _ => 0,
        };
        Self { order, member: right.1[..shared.min(right.1.len())].into() }
    }
}

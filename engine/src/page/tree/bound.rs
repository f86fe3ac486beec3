//! What parts a page of an order from the one before.

/// Lies at or below all that a page holds, and above what the page before does: a number, and the beginning of bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::page) struct Bound {
    pub order: u64,
    pub member: Box<[u8]>,
}

impl Bound {
    /// At or below everything.
    pub(in crate::page) fn least() -> Self {
        Self { order: 0, member: [].into() }
    }

    /// The shortest that parts two neighbours.
    pub(in crate::page) fn between(left: Option<(u64, &[u8])>, right: (u64, &[u8])) -> Self {
        let shared = match left {
            Some(left) if left.0 == right.0 => {
                1 + left.1.iter().zip(right.1).take_while(|(a, b)| a == b).count()
            }
            _ => 0,
        };
        Self { order: right.0, member: right.1[..shared.min(right.1.len())].into() }
    }
}

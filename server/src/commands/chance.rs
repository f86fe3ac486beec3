//! Random choices of commands.

use crate::jobs::eviction::random;

/// A random number below `bound`, which is not 0.
pub(in crate::commands) fn below(bound: usize) -> usize {
    ((u128::from(random()) * bound as u128) >> 64) as usize
}

/// Each of the items at most once, `wanted` of `len` in all: the next one is taken with the share that the wanted ones have
/// of those that are left.
pub(in crate::commands) fn sample<T>(
    items: impl Iterator<Item = T>,
    len: usize,
    wanted: usize,
) -> impl Iterator<Item = T> {
    let (mut left, mut wanted) = (len, wanted.min(len));
    items.filter(move |_| {
        let is_taken = left > 0 && below(left) < wanted;
        wanted -= usize::from(is_taken);
        left = left.saturating_sub(1);
        is_taken
    })
}

//! Positions in what has an order.

use std::ops::Range;

/// The elements from `first` to `last`, where negative numbers count from the end, as a range within `len`.
pub(in crate::commands) fn range_of(first: i64, last: i64, len: usize) -> Range<usize> {
    let len = len as i64;
    let from_start = |index: i64| if index < 0 { index.saturating_add(len) } else { index };
    let first = from_start(first).max(0);
    let last = from_start(last).min(len - 1);
    if first > last { 0..0 } else { first as usize..last as usize + 1 }
}

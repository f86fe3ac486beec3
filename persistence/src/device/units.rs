//! What media write and lose as a whole.

use std::ops::Range;

/// What a power failure keeps or loses as a whole, in bytes.
pub const WORD_BYTES: u64 = 8;
/// What the processor flushes, in bytes.
pub const LINE_BYTES: u64 = 64;
/// What `msync` takes to the medium as a whole, in bytes.
pub(crate) const PAGE_BYTES: u64 = 4096;

/// Cuts a stretch at the multiples of `unit`.
pub(crate) fn split(stretch: Range<u64>, unit: u64) -> impl Iterator<Item = Range<u64>> {
    let mut at = stretch.start;
    std::iter::from_fn(move || {
        let end = stretch.end.min((at / unit + 1) * unit);
        let piece = at..end;
        at = end;
        (piece.start < piece.end).then_some(piece)
    })
}

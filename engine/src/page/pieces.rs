//! How many elements go into each of several pages.

/// Cuts elements of the given sizes, in bytes, into pages of at most `page_bytes`; what fits two pages is split about
/// evenly. Returns the number of elements of each page.
pub(super) fn pieces(bytes: &[usize], head_bytes: usize, page_bytes: usize) -> Vec<usize> {
    let room = page_bytes.saturating_sub(head_bytes);
    let mut counts = Vec::new();
    let mut rest = bytes;
    let mut left: usize = bytes.iter().sum();
    while !rest.is_empty() {
        // What two pages hold is cut in the middle.
        let wanted = if left > room && left <= 2 * room { left.div_ceil(2) } else { room };
        let (mut own, mut count) = (0, 0);
        for more in rest {
            if count > 0 && (own >= wanted || own + more > room) {
                break;
            }
            (own, count) = (own + more, count + 1);
        }
        counts.push(count);
        rest = &rest[count..];
        left -= own;
    }
    counts
}

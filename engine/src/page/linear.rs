//! Linear hashing: maps a hash to one of `pages` pages, and defines the order in which a cursor visits pages.
//!
//! With `pages` pages, the low bits of a hash select its page: as many bits as the highest page number needs, or one
//! fewer if that page does not exist yet. Splits create page numbers in ascending order and merges remove them in
//! descending order, so the count alone determines where everything is.
//!
//! A cursor is a position in the space of *bit-reversed* hashes. A page owns one interval of that space at any count; a
//! split cuts the interval in two, and a merge joins two neighbours. A scan that answers interval after interval from
//! the cursor on therefore visits each hash once, however many splits and merges happen between two calls.

/// Bits of a place that a cursor does not carry. Stretches begin at multiples: there are fewer than 2^32 pages.
const CURSOR_SHIFT: u32 = 16;

/// Pages that a scan asks for at once, at most.
pub const SCANNED_AT_ONCE: u64 = 256;

/// The page of the hash. There is at least one page.
#[must_use]
pub fn page_of(hash: u64, pages: u32) -> u32 {
    let mask = mask(pages);
    let page = hash & mask;
    if page < u64::from(pages) { page as u32 } else { (page & (mask >> 1)) as u32 }
}

/// All bits that a page number may have.
fn mask(pages: u32) -> u64 {
    u64::from(pages).next_power_of_two() - 1
}

/// The page that is split when page `new` comes, and takes it in when it goes. `new` is not 0.
#[must_use]
pub fn buddy_of(new: u32) -> u32 {
    new & !(1 << new.ilog2())
}

/// The pages that `splits` splits in a row begin with, as far as they exist before the first one.
pub fn buddies_of(pages: u32, splits: u64) -> impl Iterator<Item = u32> {
    let last = u64::from(pages).saturating_add(splits).min(u64::from(u32::MAX)) as u32;
    (pages..last).map(buddy_of).filter(move |buddy| *buddy < pages)
}

/// A page, and the hashes that a cursor meets in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// The page.
    pub page: u32,
    /// First place that the cursor has not passed: hashes of the page that are before it have been answered.
    from: u64,
    /// The cursor after this stretch; 0 at the end.
    pub next: u64,
}

impl Stretch {
    /// The stretch at the cursor; 0 begins.
    #[must_use]
    pub fn at(cursor: u64, pages: u32) -> Self {
        let from = cursor << CURSOR_SHIFT;
        let page = page_of(from.reverse_bits(), pages);
        let (mask, half) = (mask(pages), mask(pages) / 2 + 1);
        let is_whole = u64::from(page) < half && u64::from(page) + half >= u64::from(pages);
        let bits = mask.count_ones() - u32::from(is_whole && mask != 0);
        let start = u64::from(page).reverse_bits();
        let next = if bits == 0 { 0 } else { start.wrapping_add(1 << (u64::BITS - bits)) };
        Self { page, from, next: next >> CURSOR_SHIFT }
    }

    /// True if a hash of the page is at the cursor or behind.
    #[must_use]
    pub fn holds(&self, hash: u64) -> bool {
        hash.reverse_bits() >= self.from
    }
}

/// The stretches that a scan of about `count` elements of all goes through from a cursor on, and not very many of them.
pub fn scanned(cursor: u64, pages: u32, (count, all): (u64, u64)) -> impl Iterator<Item = Stretch> {
    let average = (all / u64::from(pages.max(1))).max(1);
    let wanted = count.div_ceil(average).clamp(1, SCANNED_AT_ONCE);
    let next =
        move |stretch: &Stretch| (stretch.next != 0).then(|| Stretch::at(stretch.next, pages));
    std::iter::successors(Some(Stretch::at(cursor, pages)), next).take(wanted as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(n: u64) -> u64 {
        (n + 1)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29)
            .wrapping_mul(0xbf58_476d_1ce4_e5b9)
    }

    #[test]
    fn splits_in_a_row_begin_with_pages_that_follow_each_other() {
        assert_eq!(buddies_of(5, 0).collect::<Vec<_>>(), []);
        assert_eq!(buddies_of(5, 3).collect::<Vec<_>>(), [1, 2, 3]);
        // The fourth begins again, the ninth would split a page that the first four have made.
        assert_eq!(buddies_of(5, 7).collect::<Vec<_>>(), [1, 2, 3, 0, 1, 2, 3]);
        assert_eq!(buddies_of(5, 9).collect::<Vec<_>>(), [1, 2, 3, 0, 1, 2, 3, 4]);
    }

    #[test]
    fn a_split_moves_hashes_from_the_buddy_to_the_new_page_and_no_others() {
        for pages in 1..200 {
            for n in 0..500 {
                let (before, after) = (page_of(hash(n), pages), page_of(hash(n), pages + 1));
                assert!(before < pages);
                if before != after {
                    assert_eq!((before, after), (buddy_of(pages), pages));
                }
            }
        }
    }

    #[test]
    fn stretches_cover_every_hash_once() {
        for pages in 1..150 {
            let mut seen = vec![0; 300];
            let (mut cursor, mut calls) = (0, 0);
            loop {
                let stretch = Stretch::at(cursor, pages);
                for (n, seen) in seen.iter_mut().enumerate() {
                    let hash = hash(n as u64);
                    if page_of(hash, pages) == stretch.page && stretch.holds(hash) {
                        *seen += 1;
                    }
                }
                calls += 1;
                cursor = stretch.next;
                if cursor == 0 {
                    break;
                }
            }
            assert_eq!(calls, pages);
            assert!(seen.iter().all(|seen| *seen == 1), "{pages} pages: {seen:?}");
        }
    }

    #[test]
    fn a_cursor_survives_splits_and_merges() {
        for seed in 0..200 {
            let mut seen = vec![0; 300];
            let (mut cursor, mut pages) = (0, 1 + (hash(seed) % 40) as u32);
            for step in 0.. {
                let stretch = Stretch::at(cursor, pages);
                for (n, seen) in seen.iter_mut().enumerate() {
                    let hash = hash(n as u64);
                    if page_of(hash, pages) == stretch.page && stretch.holds(hash) {
                        *seen += 1;
                    }
                }
                cursor = stretch.next;
                if cursor == 0 {
                    break;
                }
                pages = 1 + (hash(seed * 1000 + step) % 60) as u32;
            }
            assert!(seen.iter().all(|seen| *seen == 1), "{seen:?}");
        }
    }

    #[test]
    fn cursors_fit_into_48_bits() {
        let stretch = Stretch::at((1 << 48) - 1, u32::MAX);
        assert_eq!(stretch.next, 0);
        assert!(Stretch::at((1 << 47) + 12345, u32::MAX).next < 1 << 48);
        // Bits above are no place: a cursor of a client is any number.
        let _ = Stretch::at(u64::MAX, 7);
    }
}

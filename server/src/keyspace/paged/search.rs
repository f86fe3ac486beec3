//! Searches through lists in pages, which may be larger than memory: for LPOS, LREM and LINSERT.
//!
//! A request that misses pages runs again from its beginning once they are in memory, and until it ends it holds all that was loaded
//! for it. A search would hold the whole list in the end. What it has found is therefore kept between the runs of its request: how
//! many elements it has compared, and how many are before each equal one. The next run goes on from there, with the next window of
//! pages; those that were passed are let go.
//!
//! What was found is true of the list as it was. The dispatcher notices when another request has changed the list between two runs,
//! and the search begins again. After [`BEGUN_MAX`] times it holds all pages of the list, as other requests hold theirs, so that
//! a change costs few reads; a list that is too large for that is refused.

use super::{Paged, Stop};
use sexton_engine::page::{
    self, Descriptor, End, List, ListSizes, PageError, PageId, Pages, PartKind,
};

/// How often a search begins that lets go of what it has passed.
const BEGUN_MAX: u32 = 4;

/// Pages of a list that are in memory together for a search, at most.
const WINDOW_PAGES_MAX: u64 = 256;

/// What is looked for.
#[derive(Clone, Copy, Debug)]
pub struct Sought<'w> {
    /// What equal elements are equal to.
    pub element: &'w [u8],
    /// The end that the search begins at.
    pub from: End,
    /// Equal elements that do not count, before those that do.
    pub skipped: u64,
    /// Equal elements after which it ends.
    pub most: u64,
    /// Elements that it compares, at most.
    pub compared_max: u64,
}

impl<'w> Sought<'w> {
    /// The first `most` elements that are equal to `element`, from this end on.
    #[must_use]
    pub fn first(element: &'w [u8], from: End, most: u64) -> Self {
        Self { element, from, skipped: 0, most, compared_max: u64::MAX }
    }
}

/// What is loaded together.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Pages of a list.
    pub pages: usize,
    /// Bytes of long elements, or one of any length.
    pub bytes: u64,
}

impl Window {
    /// Where one load may have this many bytes.
    #[must_use]
    pub fn of(load_max_bytes: u64) -> Self {
        let pages = load_max_bytes / ListSizes::default().page_max_bytes as u64;
        Self { pages: pages.clamp(1, WINDOW_PAGES_MAX) as usize, bytes: load_max_bytes / 4 }
    }
}

/// Where a run of a search has ended.
#[derive(Debug)]
pub enum Step {
    /// It has found all.
    Over,
    /// It has compared the pages of one turn. These come next, whether or not they are in memory.
    Rests(Vec<PageId>),
}

/// A search, and what it has found.
#[derive(Debug)]
pub struct ListSearch {
    /// The list that it searches.
    list: Descriptor,
    walk: page::Search,
    from: End,
    skipped: u64,
    found: Distances,
    is_over: bool,
    /// How often it has begun.
    begun: u32,
}

impl ListSearch {
    /// One that has not compared anything.
    #[must_use]
    pub fn new(paged: &Paged, from: End) -> Self {
        Self {
            list: paged.descriptor.clone(),
            walk: page::Search::new(from),
            from,
            skipped: 0,
            found: Distances::default(),
            is_over: false,
            begun: 1,
        }
    }

    /// The same from its beginning.
    #[must_use]
    pub fn again(&self, paged: &Paged) -> Self {
        Self { begun: self.begun.saturating_add(1), ..Self::new(paged, self.from) }
    }

    /// False when this is another list, or has become another one.
    #[must_use]
    pub fn is_of(&self, paged: &Paged) -> bool {
        self.list == paged.descriptor
    }

    /// True when it has begun too often: it goes through the whole list at once.
    #[must_use]
    pub fn holds_all(&self) -> bool {
        self.begun > BEGUN_MAX
    }

    /// What rises while it comes on.
    #[must_use]
    pub fn progress(&self) -> (u64, bool) {
        (self.walk.compared(), self.is_over)
    }

    /// Bytes of what it has found.
    #[must_use]
    pub fn found_bytes(&self) -> usize {
        self.found.bytes.capacity()
    }

    /// The numbers of the elements that it has found, in the order in which it met them.
    #[must_use]
    pub fn indexes(&self) -> Vec<u64> {
        let last = self.list.totals.elements.saturating_sub(1);
        let found = self.found.iter().map(|before| match self.from {
            End::Front => before,
            End::Back => last.saturating_sub(before),
        });
        found.collect()
    }

    /// Goes on through `turn_pages` pages.
    ///
    /// # Errors
    /// [`Stop`], with what is missing of the next window. What was compared before is not compared again.
    pub fn go_on<P: Pages>(
        &mut self,
        (list, pages): (&List, &P),
        sought: &Sought<'_>,
        (window, turn_pages): (Window, usize),
    ) -> Result<Step, Stop> {
        let mut left = turn_pages;
        while !self.is_over {
            if left == 0 {
                return Ok(Step::Rests(self.walk.ahead(list).take(window.pages).collect()));
            }
            left -= 1;
            let (skipped, found) = (&mut self.skipped, &mut self.found);
            let step =
                self.walk.step((list, pages), (sought.element, sought.compared_max), |before| {
                    if *skipped < sought.skipped {
                        *skipped += 1;
                        return true;
                    }
                    found.push(before);
                    found.count < sought.most
                });
            self.is_over = match step {
                Ok(goes_on) => !goes_on,
                Err(PageError::Missing(missed)) => {
                    return Err(self.missing((list, pages), sought, window, missed)?);
                }
                Err(error) => return Err(error.into()),
            };
        }
        Ok(Step::Over)
    }

    /// What is missing of the next window, where one page is.
    fn missing<P: Pages>(
        &self,
        (list, pages): (&List, &P),
        sought: &Sought<'_>,
        window: Window,
        missed: PageId,
    ) -> Result<Stop, PageError> {
        let is_away = |page: &PageId| !pages.is_in_memory(*page);
        let missing: Vec<PageId> = if missed.part == PartKind::List {
            self.walk.ahead(list).take(window.pages).filter(is_away).collect()
        } else {
            let together = window.bytes / sought.element.len().max(1) as u64;
            let long = self.walk.long_ahead((list, pages), sought.element)?.into_iter();
            long.filter(is_away).take(together.max(1) as usize).collect()
        };
        Ok(Stop::Missing(missing))
    }
}

/// Ascending numbers, each as its distance from the one before: seven bits a byte, the lowest first.
#[derive(Debug, Default)]
struct Distances {
    bytes: Vec<u8>,
    count: u64,
    last: u64,
}

impl Distances {
    fn push(&mut self, number: u64) {
        let mut rest = number.wrapping_sub(self.last);
        (self.last, self.count) = (number, self.count + 1);
        while rest > 0x7f {
            self.bytes.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        self.bytes.push(rest as u8);
    }

    fn iter(&self) -> impl Iterator<Item = u64> {
        let (mut number, mut shift, mut distance) = (0_u64, 0, 0_u64);
        self.bytes.iter().filter_map(move |byte| {
            distance |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 != 0 {
                return None;
            }
            number = number.wrapping_add(distance);
            (shift, distance) = (0, 0);
            Some(number)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_give_the_numbers_back() {
        let numbers = [0, 1, 2, 129, 130, 20_000, 20_127, 20_255, 1 << 40, u64::MAX];
        let mut distances = Distances::default();
        numbers.iter().for_each(|number| distances.push(*number));
        assert_eq!(distances.iter().collect::<Vec<_>>(), numbers);
        assert_eq!(distances.count, numbers.len() as u64);
        assert!(distances.bytes.len() < 30, "{} bytes", distances.bytes.len());
    }
}

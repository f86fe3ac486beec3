//! Elements of collections in pages, drawn at random.
//!
//! An operation that misses pages begins again, and must then draw the same elements, or each time it would miss others.
//! What an element is drawn by is therefore a function of its number and of one random number for the whole request.
//! Since nobody knows which page a draw comes to before it has seen those that it tries, all draws that are left are tried
//! when one has missed a page: they then name theirs at once.

use super::{Drawn, Keyed, Ranked, Stop, Structure};
use sexton_engine::page::{IntegerText, PageError, PageId, Pages};
use std::collections::HashSet;
use std::ops::Range;

/// So many elements of a walk through all cost about as much as one that is drawn.
const DRAW_COST: u64 = 8;

/// Draws that are tried at once, at most.
const AT_ONCE: u64 = 1024;

/// The draws of one request.
#[derive(Clone, Copy, Debug)]
pub struct Draws {
    /// A random number.
    pub random: u64,
    /// How many elements are wanted.
    pub wanted: u64,
    /// Each of them once; then they must be far fewer than all.
    pub differ: bool,
}

impl Draws {
    /// For a count of a request: a negative one stands for elements that may be drawn again. `None` where so many are wanted that
    /// it is cheaper to look at all.
    #[must_use]
    pub fn of(count: i64, elements: usize, random: u64) -> Option<Self> {
        let wanted = count.unsigned_abs();
        let are_few = wanted.saturating_mul(DRAW_COST) <= elements as u64;
        are_few.then_some(Self { random, wanted, differ: count >= 0 })
    }

    /// What the nth element is drawn by; not 0.
    fn nth(&self, nth: u64) -> u64 {
        let mut mixed = (self.random ^ nth).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^= mixed >> 29;
        mixed = mixed.wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ mixed >> 32) | 1
    }

    fn block(&self, from: u64, shown: u64) -> Range<u64> {
        from..from.saturating_add(AT_ONCE.min(self.wanted - shown))
    }
}

impl Keyed {
    /// The nth key, and its value. `None`: there is none.
    ///
    /// # Errors
    /// [`PageError`].
    pub fn draw<P: Pages>(
        &self,
        pages: &P,
        draws: &Draws,
        nth: u64,
    ) -> Result<Option<Drawn>, PageError> {
        let mut state = draws.nth(nth);
        let next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state >> 3
        };
        let Some((key, value, _)) = self.hash.random(pages, next)? else { return Ok(None) };
        let mut text = IntegerText::default();
        let key = key.bytes(&mut text).to_vec();
        Ok(Some((key, self.hash.value(pages, value)?.to_vec())))
    }

    /// All pages that these draws miss, of which one has missed one.
    pub fn missing_of_draws<P: Pages>(
        &self,
        pages: &P,
        draws: &Draws,
        mut nths: Range<u64>,
        missed: PageError,
    ) -> Stop {
        nths.end = nths.end.min(nths.start.saturating_add(AT_ONCE));
        Stop::of_looks(nths.map(|nth| self.draw(pages, draws, nth)), missed)
    }

    /// Shows keys and values until `show` is false.
    ///
    /// # Errors
    /// [`Stop`].
    pub fn draw_all<P: Pages>(
        &self,
        pages: &P,
        draws: &Draws,
        mut show: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), Stop> {
        let (mut seen, mut nth, mut shown) = (HashSet::new(), 0, 0);
        while shown < draws.wanted {
            match self.draw(pages, draws, nth) {
                Ok(Some((key, value))) => {
                    let is_new = !draws.differ || !seen.contains(&key);
                    if is_new && !show(&key, &value) {
                        return Ok(());
                    }
                    shown += u64::from(is_new);
                    if draws.differ {
                        seen.insert(key);
                    }
                }
                Ok(None) => return Ok(()),
                Err(missed) => {
                    let nths = draws.block(nth, shown);
                    return Err(self.missing_of_draws(pages, draws, nths, missed));
                }
            }
            nth += 1;
        }
        Ok(())
    }
}

impl Ranked {
    /// Shows members and their scores until `show` is false.
    ///
    /// # Errors
    /// [`Stop`].
    pub fn draw_all<P: Pages>(
        &self,
        pages: &P,
        draws: &Draws,
        mut show: impl FnMut(&[u8], f64) -> bool,
    ) -> Result<(), Stop> {
        let rank = |nth| ((u128::from(draws.nth(nth)) * u128::from(self.len())) >> 64) as u64;
        let (mut seen, mut nths, mut shown) = (HashSet::new(), 0..0, 0);
        while shown < draws.wanted {
            if nths.is_empty() {
                nths = draws.block(nths.end, shown);
                let mut missing: Vec<PageId> = Vec::new();
                for rank in nths.clone().map(rank) {
                    missing.extend(self.missing(pages, rank..rank + 1)?);
                }
                if !missing.is_empty() {
                    return Err(Stop::Missing(missing));
                }
            }
            let Some(rank) = nths.next().map(rank) else { return Ok(()) };
            if draws.differ && !seen.insert(rank) {
                continue;
            }
            let Some((score, member)) = self.range(pages, rank..rank + 1)?.next().transpose()?
            else {
                return Ok(());
            };
            if !show(member, score) {
                return Ok(());
            }
            shown += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_elements_are_drawn_and_many_are_chosen_among_all() {
        assert!(Draws::of(12, 100, 7).is_some_and(|draws| draws.differ && draws.wanted == 12));
        assert!(Draws::of(-12, 100, 7).is_some_and(|draws| !draws.differ && draws.wanted == 12));
        assert!(Draws::of(13, 100, 7).is_none() && Draws::of(i64::MIN + 1, 100, 7).is_none());
    }

    #[test]
    fn draws_differ_from_each_other_and_are_equal_when_they_are_made_again() {
        let draws = Draws { random: 5, wanted: 1_000, differ: false };
        let all: HashSet<u64> = (0..1_000).map(|nth| draws.nth(nth)).collect();
        assert_eq!(all.len(), 1_000);
        assert_eq!(draws.nth(3), draws.nth(3));
        assert!(!all.contains(&0));
    }
}

//! Members one after the other.

use super::Sorted;
use crate::page::directory::Spot;
use crate::page::scores_page::{Scored, ScoresPage};
use crate::page::store::{PageError, Pages, at_page};

/// Members one after the other. What comes after an error is nothing.
pub struct Iter<'s, P> {
    pub(super) set: &'s Sorted,
    pub(super) pages: &'s P,
    /// The rank that comes next.
    pub(super) next: Option<u64>,
    pub(super) page: Option<(ScoresPage<'s>, Spot)>,
    pub(super) is_forward: bool,
}

impl<'s, P: Pages> Iter<'s, P> {
    fn step(&mut self) -> Result<Option<Scored<'s>>, PageError> {
        let Some(rank) = self.next else { return Ok(None) };
        let holds =
            |spot: &Spot| (spot.before..spot.before + u64::from(spot.count)).contains(&rank);
        let (page, spot) = match self.page {
            Some((page, spot)) if holds(&spot) => (page, spot),
            _ => {
                let Some(spot) = self.set.sequence.directory.at(rank) else { return Ok(None) };
                *self.page.insert((self.set.page(self.pages, spot)?, spot))
            }
        };
        let scored = page.get((rank - spot.before) as usize);
        self.next = if self.is_forward { rank.checked_add(1) } else { rank.checked_sub(1) };
        scored.map(Some).map_err(at_page(self.set.sequence.id(spot.label)))
    }
}

impl<'s, P: Pages> Iterator for Iter<'s, P> {
    type Item = Result<Scored<'s>, PageError>;

    fn next(&mut self) -> Option<Self::Item> {
        let step = self.step();
        if !matches!(step, Ok(Some(_))) {
            self.next = None;
        }
        step.transpose()
    }
}

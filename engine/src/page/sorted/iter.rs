//! Members one after the other.

use super::{Sorted, page_id};
use crate::page::scores_page::{Scored, ScoresPage};
use crate::page::store::{PageError, Pages, at_page};

/// Members one after the other. What comes after an error is nothing.
pub struct Iter<'s, P> {
    pub(super) set: &'s Sorted,
    pub(super) pages: &'s P,
    /// The rank that comes next.
    pub(super) next: Option<u64>,
    /// The page that was last read, its number, and the number of members before it.
    pub(super) page: Option<(ScoresPage<'s>, u64, u64)>,
    pub(super) is_forward: bool,
}

impl<'s, P: Pages> Iter<'s, P> {
    fn step(&mut self) -> Result<Option<Scored<'s>>, PageError> {
        let Some(rank) = self.next else { return Ok(None) };
        if rank >= self.set.len() {
            return Ok(None);
        }
        let holds = |(page, _, before): &(ScoresPage<'_>, u64, u64)| {
            (*before..before + page.len() as u64).contains(&rank)
        };
        let (page, number, before) = match self.page.filter(holds) {
            Some(page) => page,
            None => {
                let (path, before) = self.set.tree.at(self.pages, rank)?;
                *self.page.insert((self.set.page(self.pages, path.page)?, path.page, before))
            }
        };
        let scored = page.get((rank - before) as usize);
        self.next = if self.is_forward { rank.checked_add(1) } else { rank.checked_sub(1) };
        scored.map(Some).map_err(at_page(page_id(number)))
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

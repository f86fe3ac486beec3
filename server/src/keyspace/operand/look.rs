//! What is asked of the pages of an operand, wherever they are.

use super::{Asked, Members};
use crate::keyspace::paged::{Keyed, Paged, Ranked, Stop, Structure};
use crate::value::ValueType;
use sexton_engine::page::{PageError, PageId, Pages};
use std::ops::Range;

/// A look at the pages of a set or a sorted set. Where pages are missing it runs again.
pub trait Look {
    /// What it finds.
    type Found;

    /// Looks.
    ///
    /// # Errors
    /// [`Stop`].
    fn look<P: Pages>(&mut self, paged: &Paged, pages: &P) -> Result<Self::Found, Stop>;
}

/// Shows the members of some positions; those of a set have the score 1. What fails may have shown some.
fn each_member<P: Pages>(
    paged: &Paged,
    pages: &P,
    positions: Range<u64>,
    mut show: impl FnMut(f64, &[u8]),
) -> Result<(), Stop> {
    if paged.value_type() == Some(ValueType::SortedSet) {
        for scored in Ranked::open(paged)?.range(pages, positions)? {
            let (score, member) = scored?;
            show(score, member);
        }
        return Ok(());
    }
    // There are no more pages than that.
    let numbers = positions.start as u32..positions.end as u32;
    Keyed::open(paged)?.each_field(pages, numbers, |field| show(1.0, field.name))
}

/// Adds the members of some positions.
pub struct Part<'m> {
    /// The positions.
    pub positions: Range<u64>,
    /// What they are added to.
    pub members: &'m mut Members,
}

impl Look for Part<'_> {
    type Found = ();

    fn look<P: Pages>(&mut self, paged: &Paged, pages: &P) -> Result<(), Stop> {
        let before = self.members.len();
        let positions = self.positions.clone();
        each_member(paged, pages, positions, |score, name| self.members.push(score, name))
            .inspect_err(|_| self.members.truncate(before))
    }
}

/// Meets the members of some positions.
pub struct Meeting<'a, 'm> {
    /// The positions.
    pub positions: Range<u64>,
    /// What they are asked for.
    pub asked: &'a mut Asked<'m>,
}

impl Look for Meeting<'_, '_> {
    type Found = ();

    fn look<P: Pages>(&mut self, paged: &Paged, pages: &P) -> Result<(), Stop> {
        let positions = self.positions.clone();
        each_member(paged, pages, positions, |score, name| self.asked.meet(score, name))
    }
}

/// Asks for the scores of members; 1 for those that a set has.
pub struct Scores<'m> {
    /// Members.
    pub asked: &'m Members,
    /// The numbers of those that are asked for.
    pub numbers: &'m [usize],
}

impl Scores<'_> {
    /// The page that knows about a member.
    ///
    /// # Errors
    /// The root contradicts itself.
    pub fn page_of(paged: &Paged) -> Result<impl Fn(&[u8]) -> PageId + use<>, PageError> {
        let (mut ranked, mut keyed) = (None, None);
        if paged.value_type() == Some(ValueType::SortedSet) {
            ranked = Some(Ranked::open(paged)?);
        } else {
            keyed = Some(Keyed::open(paged)?);
        }
        Ok(move |member: &[u8]| match (&ranked, &keyed) {
            (Some(set), _) => set.page_of(member),
            (None, Some(set)) => set.page_of(member),
            (None, None) => unreachable!("one of them is there"),
        })
    }

    fn names(&self) -> impl Iterator<Item = &[u8]> + Clone {
        self.numbers.iter().map(|&number| self.asked.name(number))
    }
}

impl Look for Scores<'_> {
    type Found = Vec<Option<f64>>;

    fn look<P: Pages>(&mut self, paged: &Paged, pages: &P) -> Result<Self::Found, Stop> {
        if paged.value_type() == Some(ValueType::SortedSet) {
            return Ranked::open(paged)?.scores(pages, self.names());
        }
        let set = Keyed::open(paged)?;
        let mut found = Vec::with_capacity(self.numbers.len());
        set.each(pages, self.names(), |name| {
            found.push(set.get(pages, name)?.map(|_| 1.0));
            Ok(())
        })?;
        Ok(found)
    }
}

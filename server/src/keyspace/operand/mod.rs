//! Sets and sorted sets as the operands of an operation on several of them.
//!
//! An operand in pages is not copied: it is asked for members, or gone through part by part. So an operation costs what its smallest
//! operand and its outcome cost, as in Redis, however large the others are.

mod asked;
mod index;
mod look;
mod members;

pub use asked::Asked;
pub use index::Index;
pub use look::{Look, Meeting, Part, Scores};
pub use members::Members;

use super::collection::{Edit, Encoding, SetEdit, Sets, SortedSetEdit, SortedSets};
use super::paged::{Extent, Keyed, Paged, Ranked, Structure};
use super::{Kind, WrongType};
use crate::value::ValueType;
use sexton_engine::Entry;
use sexton_engine::page::PageError;

/// So many looks through a value in one record cost as much as an index of it.
const LOOKS_WITHOUT_INDEX: usize = 4;

/// What a key holds that is named as an operand.
#[derive(Debug)]
pub enum Operand {
    /// No value.
    Nothing,
    /// A set in one record: a copy.
    Set(SetEdit),
    /// A sorted set in one record: a copy.
    SortedSet(SortedSetEdit),
    /// A set or sorted set in pages.
    Paged(Paged),
}

impl Operand {
    /// What is in an entry of one of these types: a copy, or where its pages are.
    ///
    /// # Errors
    /// It is of another type.
    pub fn of(entry: Option<Entry<'_>>, types: &[ValueType]) -> Result<Self, WrongType> {
        let Some(entry) = entry else { return Ok(Self::Nothing) };
        let found = ValueType::of(entry.meta().flags).ok_or(WrongType)?;
        if !types.contains(&found) {
            return Err(WrongType);
        }
        if let Some(set) = SortedSets::view(entry) {
            return Ok(Self::SortedSet(set.edit()));
        }
        Sets::view(entry).map(|set| Self::Set(set.edit())).ok_or(WrongType)
    }

    /// One in pages.
    ///
    /// # Errors
    /// It is of another type.
    pub fn of_paged(paged: Paged, types: &[ValueType]) -> Result<Self, WrongType> {
        let is_one = paged.value_type().is_some_and(|found| types.contains(&found));
        is_one.then_some(Self::Paged(paged)).ok_or(WrongType)
    }

    /// Number of members.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Set(set) => set.len(),
            Self::SortedSet(set) => set.len(),
            Self::Paged(paged) => paged.count(),
        }
    }

    /// True without members.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Shows all members of one in one record; those of a set have the score 1.
    pub fn each(&self, mut show: impl FnMut(f64, &[u8])) {
        match self {
            Self::Nothing | Self::Paged(_) => {}
            Self::Set(set) => set.view().iter().for_each(|member| show(1.0, &member)),
            Self::SortedSet(set) => {
                set.view().iter().for_each(|(score, member)| show(score, member));
            }
        }
    }

    /// The scores of these members of `asked` in one that lies in one record.
    #[must_use]
    pub fn scores(&self, asked: &Members, numbers: &[usize]) -> Vec<Option<f64>> {
        let names = numbers.iter().map(|&number| asked.name(number));
        let are_few = numbers.len() <= LOOKS_WITHOUT_INDEX;
        match self {
            Self::Nothing | Self::Paged(_) => vec![None; numbers.len()],
            // Integers are in order.
            Self::Set(set) if are_few || set.view().encoding() == Encoding::Intset => {
                names.map(|name| set.view().contains(name).then_some(1.0)).collect()
            }
            Self::SortedSet(set) if are_few => names.map(|name| set.view().score(name)).collect(),
            Self::Set(_) | Self::SortedSet(_) => {
                let mut met = Asked::of(asked, numbers);
                self.each(|score, name| met.meet(score, name));
                met.into_scores(numbers)
            }
        }
    }
}

/// How a set or sorted set in pages is gone through.
#[derive(Clone, Copy, Debug)]
pub struct Positions {
    /// Number of positions: pages of a set, ranks of a sorted set.
    pub count: u64,
    /// What all of them hold.
    pub extent: Extent,
}

impl Positions {
    /// Those of a collection.
    ///
    /// # Errors
    /// Its root contradicts itself.
    pub fn of(paged: &Paged) -> Result<Self, PageError> {
        let count = match paged.value_type() {
            Some(ValueType::SortedSet) => Ranked::open(paged)?.len(),
            _ => u64::from(Keyed::open(paged)?.hash.pages),
        };
        let extent = Extent::of(paged, count);
        Ok(Self { count, extent })
    }
}

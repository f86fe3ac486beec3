//! Members by their names.

use super::Members;
use hashbrown::HashTable;
use sexton_engine::page::hash_of;
use std::hash::{BuildHasher, RandomState};

/// Finds members by their names.
#[derive(Debug)]
pub struct Index {
    /// Nobody may guess it.
    seed: u64,
    /// Numbers of members.
    table: HashTable<u32>,
}

impl Default for Index {
    fn default() -> Self {
        Self { seed: RandomState::new().hash_one(0), table: HashTable::new() }
    }
}

impl Index {
    /// That of the members with these numbers, of which no two have one name.
    #[must_use]
    pub fn of(members: &Members, numbers: impl ExactSizeIterator<Item = usize>) -> Self {
        let mut index = Self::default();
        index.table.reserve(numbers.len(), |_| 0);
        for number in numbers {
            let hash = hash_of(index.seed, members.name(number));
            // There is room for all.
            index.table.insert_unique(hash, number as u32, |_| 0);
        }
        index
    }

    /// The number of the member with a name.
    #[must_use]
    pub fn find(&self, members: &Members, name: &[u8]) -> Option<usize> {
        let is_it = |&number: &u32| members.name(number as usize) == name;
        self.table.find(hash_of(self.seed, name), is_it).map(|&number| number as usize)
    }

    /// The number of the member with a name; `None` where there is none: it was added, with this score.
    pub fn find_or_push(
        &mut self,
        members: &mut Members,
        (score, name): (f64, &[u8]),
    ) -> Option<usize> {
        let found = self.find(members, name);
        if found.is_none() {
            let (seed, number) = (self.seed, members.len() as u32);
            members.push(score, name);
            self.table.insert_unique(hash_of(seed, name), number, |&number| {
                hash_of(seed, members.name(number as usize))
            });
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_found_by_their_names_and_pushed_once() {
        let (mut members, mut index) = (Members::default(), Index::default());
        for nth in 0_usize..3000 {
            let name = (nth % 1000).to_string();
            let pushed = index.find_or_push(&mut members, (nth as f64, name.as_bytes()));
            assert_eq!(pushed, (nth >= 1000).then_some(nth % 1000));
        }
        let again = Index::of(&members, 0..members.len());
        let some = Index::of(&members, [7, 9].into_iter());
        assert_eq!(some.find(&members, b"7"), Some(7));
        assert_eq!(some.find(&members, b"8"), None);
        for nth in 0..1100_usize {
            let (name, found) = (nth.to_string(), (nth < 1000).then_some(nth));
            assert_eq!(index.find(&members, name.as_bytes()), found);
            assert_eq!(again.find(&members, name.as_bytes()), found);
        }
    }
}

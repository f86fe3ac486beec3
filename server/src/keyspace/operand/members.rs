//! Members with their scores.

use crate::keyspace::texts::Texts;

/// Members of sets, each with a score, in an order.
#[derive(Clone, Debug, Default)]
pub struct Members {
    names: Texts,
    scores: Vec<f64>,
}

impl Members {
    /// Adds one at the end.
    pub fn push(&mut self, score: f64, member: &[u8]) {
        self.names.push(member);
        self.scores.push(score);
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.scores.len()
    }

    /// True without members.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.scores.is_empty()
    }

    /// Memory in use.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        (self.names.memory_bytes() + size_of_val(self.scores.as_slice())) as u64
    }

    /// The member with a number, which exists.
    #[must_use]
    pub fn name(&self, number: usize) -> &[u8] {
        self.names.get(number)
    }

    /// Score and name of the member with a number, which exists.
    #[must_use]
    pub fn get(&self, number: usize) -> (f64, &[u8]) {
        (self.scores[number], self.name(number))
    }

    /// All of them.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (f64, &[u8])> + Clone {
        (0..self.len()).map(|number| self.get(number))
    }

    /// The names of all.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &[u8]> + Clone {
        (0..self.len()).map(|number| self.name(number))
    }

    /// Gives the member with a number, which exists, another score.
    pub fn set_score(&mut self, number: usize, score: f64) {
        self.scores[number] = score;
    }

    /// Without those behind the first `len`.
    pub fn truncate(&mut self, len: usize) {
        self.names.truncate(len);
        self.scores.truncate(len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_found_by_number_and_cut_at_one() {
        let mut members = Members::default();
        for (score, name) in [(1.0, "a"), (2.0, ""), (3.0, "ccc")] {
            members.push(score, name.as_bytes());
        }
        assert_eq!(members.get(2), (3.0, b"ccc".as_slice()));
        assert_eq!(members.names().collect::<Vec<_>>(), [b"a".as_slice(), b"", b"ccc"]);
        members.truncate(5);
        assert_eq!(members.len(), 3);
        members.truncate(1);
        members.push(4.0, b"d");
        assert_eq!(members.iter().collect::<Vec<_>>(), [(1.0, b"a".as_slice()), (4.0, b"d")]);
        members.truncate(0);
        assert!(members.is_empty() && members.memory_bytes() == 0);
    }
}

//! Members that an operand is asked for, which is gone through.

use super::{Index, Members};

/// Members that are met or not as an operand is gone through.
pub struct Asked<'m> {
    members: &'m Members,
    index: Index,
    /// The scores of those that were met, by their numbers.
    scores: Vec<Option<f64>>,
}

impl<'m> Asked<'m> {
    /// Those with these numbers, of which no two have one name.
    #[must_use]
    pub fn of(members: &'m Members, numbers: &[usize]) -> Self {
        let index = Index::of(members, numbers.iter().copied());
        Self { members, index, scores: vec![None; members.len()] }
    }

    /// The operand has this member.
    #[inline]
    pub fn meet(&mut self, score: f64, name: &[u8]) {
        if let Some(number) = self.index.find(self.members, name) {
            self.scores[number] = Some(score);
        }
    }

    /// The scores in the operand of the members with these numbers.
    #[must_use]
    pub fn into_scores(self, numbers: &[usize]) -> Vec<Option<f64>> {
        numbers.iter().map(|&number| self.scores[number]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_are_met_have_scores() {
        let mut members = Members::default();
        for name in ["a", "b", "c", "d"] {
            members.push(0.0, name.as_bytes());
        }
        let mut asked = Asked::of(&members, &[0, 3, 1]);
        for (score, name) in [(1.0, "b"), (2.0, "c"), (3.0, "x"), (4.0, "d"), (4.0, "d")] {
            asked.meet(score, name.as_bytes());
        }
        assert_eq!(asked.into_scores(&[0, 3, 1]), [None, Some(4.0), Some(1.0)]);
    }
}

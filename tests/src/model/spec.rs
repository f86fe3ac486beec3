//! The plain record of the operations: what every read must answer.

use super::keys::Key;
use std::collections::BTreeSet;

/// Sequence of an operation.
pub type Seq = u64;

/// What an operation did, as the specification sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The key has this value now.
    Put(Key, u64),
    /// The key has no value now.
    Delete(Key),
    /// No key has a value now.
    Flush,
}

/// All operations in order, with the clock's verdict on each put.
#[derive(Clone, Debug, Default)]
pub struct Spec {
    /// Sequence, last sequence of its batch, effect.
    operations: Vec<(Seq, Seq, Effect)>,
    expired: BTreeSet<Seq>,
}

impl Spec {
    /// Notes the operations of one batch, in order: readers see all of them or none.
    pub fn push_batch(&mut self, effects: &[(Seq, Effect)]) {
        let Some(&(last, _)) = effects.last() else { return };
        self.operations.extend(effects.iter().map(|&(seq, effect)| (seq, last, effect)));
    }

    /// From now on the put at `seq` counts as expired for every reader.
    pub fn expire(&mut self, seq: Seq) {
        self.expired.insert(seq);
    }

    /// True when the put at `seq` has expired.
    #[must_use]
    pub fn is_expired(&self, seq: Seq) -> bool {
        self.expired.contains(&seq)
    }

    /// Value of `key` for a reader at `s`, with the sequence that put it. Batches whose end is above
    /// `s` have not happened.
    #[must_use]
    pub fn value_at(&self, key: Key, s: Seq) -> Option<(Seq, u64)> {
        for &(seq, last, effect) in self.operations.iter().rev() {
            match effect {
                _ if last > s => {}
                Effect::Put(k, value) if k == key => {
                    return (!self.is_expired(seq)).then_some((seq, value));
                }
                Effect::Delete(k) if k == key => return None,
                Effect::Flush => return None,
                _ => {}
            }
        }
        None
    }

    /// The first delete of `key` above `from` and at or below `through`.
    #[must_use]
    pub fn deleted_between(&self, key: Key, from: Seq, through: Seq) -> Option<Seq> {
        let is_delete = |effect: Effect| matches!(effect, Effect::Delete(k) if k == key);
        let mut inside = self.operations.iter().filter(|(seq, ..)| *seq > from && *seq <= through);
        inside.find(|(.., e)| is_delete(*e) || *e == Effect::Flush).map(|(seq, ..)| *seq)
    }

    /// True when `key` was put above `from` and at or below `through`.
    #[must_use]
    pub fn put_between(&self, key: Key, from: Seq, through: Seq) -> bool {
        let is_put = |effect: Effect| matches!(effect, Effect::Put(k, _) if k == key);
        let mut inside = self.operations.iter().filter(|(seq, ..)| *seq > from && *seq <= through);
        inside.any(|(.., e)| is_put(*e))
    }

    /// A crash forgot everything above `r`; a batch that `r` splits counts as forgotten.
    pub fn truncate(&mut self, r: Seq) {
        self.operations.retain(|(_, last, _)| *last <= r);
        self.expired.retain(|seq| *seq <= r);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec_of(effects: &[Effect]) -> Spec {
        let mut spec = Spec::default();
        for (seq, effect) in (1..).zip(effects) {
            spec.push_batch(&[(seq, *effect)]);
        }
        spec
    }

    #[test]
    fn reads_see_the_newest_effect_at_or_below_their_sequence() {
        let mut spec = spec_of(&[
            Effect::Put(0, 10),
            Effect::Delete(0),
            Effect::Put(0, 30),
            Effect::Put(1, 40),
            Effect::Flush,
        ]);
        assert_eq!(spec.value_at(0, 1), Some((1, 10)));
        assert_eq!(spec.value_at(0, 2), None);
        assert_eq!(spec.value_at(0, 4), Some((3, 30)));
        assert_eq!(spec.value_at(1, 5), None);
        spec.expire(3);
        assert_eq!(spec.value_at(0, 4), None, "an older version never shows through");
        spec.truncate(2);
        assert_eq!(spec.value_at(0, 9), None);
    }

    #[test]
    fn half_a_batch_does_not_exist() {
        let mut spec = spec_of(&[Effect::Put(0, 10)]);
        spec.push_batch(&[(2, Effect::Put(0, 20)), (3, Effect::Put(1, 30))]);
        assert_eq!(spec.value_at(0, 2), Some((1, 10)));
        assert_eq!(spec.value_at(0, 3), Some((2, 20)));
        spec.truncate(2);
        assert_eq!(spec.value_at(0, 3), Some((1, 10)));
    }
}

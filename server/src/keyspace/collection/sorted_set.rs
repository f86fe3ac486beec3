//! Sorted sets.

use super::{Edit, Encoding, HEAD_BYTES, Parts, Thresholds, empty, packed, set_encoding, set_len};
use crate::keyspace::Kind;
use crate::value::ValueType;
use sexton_engine::{Entry, Meta};
use std::cmp::Ordering;
use std::ops::Range;

/// Bytes of a score.
const SCORE_BYTES: usize = 8;

/// The type of sorted sets, for a look-up.
#[derive(Clone, Copy, Debug)]
pub struct SortedSets;

impl Kind for SortedSets {
    type View<'v> = SortedSetView<'v>;

    fn view(entry: Entry<'_>) -> Option<SortedSetView<'_>> {
        Parts::of_entry(entry, ValueType::SortedSet).map(SortedSetView)
    }
}

/// The sorted set that a key holds.
#[derive(Clone, Copy)]
pub struct SortedSetView<'v>(Parts<'v>);

impl<'v> SortedSetView<'v> {
    /// `None` for a value of another type.
    #[must_use]
    pub fn of(meta: Meta, value: &'v [u8]) -> Option<Self> {
        Parts::of(meta, value, ValueType::SortedSet).map(Self)
    }

    /// Members.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len
    }

    /// When it expires, in milliseconds since the epoch; 0 for never.
    #[must_use]
    pub fn expire_at_ms(&self) -> u64 {
        self.0.meta.expire_at_ms
    }

    /// What OBJECT ENCODING answers.
    #[must_use]
    pub fn encoding(&self) -> Encoding {
        self.0.encoding
    }

    /// Scores and members in their order.
    #[must_use]
    pub fn iter(&self) -> Scored<'v> {
        Scored { rest: self.0.content() }
    }

    /// The score of `member`.
    #[must_use]
    pub fn score(&self, member: &[u8]) -> Option<f64> {
        self.iter().find(|(_, name)| *name == member).map(|(score, _)| score)
    }

    /// A copy to change.
    #[must_use]
    pub fn edit(&self) -> SortedSetEdit {
        SortedSetEdit { bytes: self.0.value.to_vec(), len: self.0.len, encoding: self.0.encoding }
    }
}

/// Walks scores and members in their order.
#[derive(Clone, Copy, Debug)]
pub struct Scored<'v> {
    rest: &'v [u8],
}

impl<'v> Iterator for Scored<'v> {
    type Item = (f64, &'v [u8]);

    #[inline]
    fn next(&mut self) -> Option<(f64, &'v [u8])> {
        let (score, rest) = self.rest.split_first_chunk::<SCORE_BYTES>()?;
        let (member, rest) = packed::split(rest)?;
        self.rest = rest;
        Some((f64::from_le_bytes(*score), member))
    }
}

/// The order of members: by score, equal scores by their bytes.
#[must_use]
pub fn order(one: (f64, &[u8]), other: (f64, &[u8])) -> Ordering {
    // No score is NaN; -0 and 0 are equal, as Redis compares them.
    one.0.partial_cmp(&other.0).unwrap_or(Ordering::Equal).then_with(|| one.1.cmp(other.1))
}

/// A sorted set that is being changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SortedSetEdit {
    bytes: Vec<u8>,
    len: usize,
    encoding: Encoding,
}

impl Default for SortedSetEdit {
    fn default() -> Self {
        Self { bytes: empty(Encoding::Listpack), len: 0, encoding: Encoding::Listpack }
    }
}

impl Edit for SortedSetEdit {
    const TYPE: ValueType = ValueType::SortedSet;

    fn len(&self) -> usize {
        self.len
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl SortedSetEdit {
    /// One of members that are not in order, each of them once; `None` when one is there twice or a score is NaN.
    #[must_use]
    pub fn of_unsorted(mut members: Vec<(f64, &[u8])>, thresholds: &Thresholds) -> Option<Self> {
        if members.iter().any(|(score, _)| score.is_nan()) {
            return None;
        }
        let names: std::collections::HashSet<_> = members.iter().map(|(_, name)| *name).collect();
        if names.len() != members.len() {
            return None;
        }
        members.sort_by(|one, other| order(*one, *other));
        let mut set = Self::default();
        for (score, member) in members {
            set.bytes.extend_from_slice(&entry(score, member));
            set.len += 1;
            set.note_size(member, thresholds);
        }
        set.set_len(set.len);
        Some(set)
    }

    /// The same, to read from.
    #[must_use]
    pub fn view(&self) -> SortedSetView<'_> {
        SortedSetView(Parts {
            meta: Self::expiring_at(0),
            value: &self.bytes,
            encoding: self.encoding,
            len: self.len,
        })
    }

    /// Gives `member` its score, which is no NaN. The score that it had, if it was there.
    pub fn set(&mut self, member: &[u8], score: f64, thresholds: &Thresholds) -> Option<f64> {
        let old = self.place_of(member);
        if let Some((old_score, place)) = &old {
            if old_score.to_bits() == score.to_bits() {
                return Some(*old_score);
            }
            super::splice(&mut self.bytes, place.clone(), b"");
        }
        let place = self.place_for((score, member));
        super::splice(&mut self.bytes, place..place, &entry(score, member));
        if old.is_none() {
            self.set_len(self.len + 1);
            self.note_size(member, thresholds);
        }
        old.map(|(old_score, _)| old_score)
    }

    /// Removes `member`; false when it is not there.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        let Some((_, place)) = self.place_of(member) else { return false };
        super::splice(&mut self.bytes, place, b"");
        self.set_len(self.len - 1);
        true
    }

    fn note_size(&mut self, member: &[u8], thresholds: &Thresholds) {
        let too_many = self.len as u64 > thresholds.sorted_set_entries;
        if too_many || member.len() as u64 > thresholds.sorted_set_value_bytes {
            self.encoding = Encoding::Skiplist;
            set_encoding(&mut self.bytes, Encoding::Skiplist);
        }
    }

    fn set_len(&mut self, len: usize) {
        self.len = len;
        set_len(&mut self.bytes, len);
    }

    /// The score of `member`, and where both lie in the value.
    fn place_of(&self, member: &[u8]) -> Option<(f64, Range<usize>)> {
        let end = self.bytes.len();
        let mut scored = Scored { rest: &self.bytes[HEAD_BYTES..] };
        loop {
            let start = end - scored.rest.len();
            let (score, name) = scored.next()?;
            if name == member {
                return Some((score, start..end - scored.rest.len()));
            }
        }
    }

    /// Where a member belongs that is not there.
    fn place_for(&self, new: (f64, &[u8])) -> usize {
        let end = self.bytes.len();
        let mut scored = Scored { rest: &self.bytes[HEAD_BYTES..] };
        loop {
            let start = end - scored.rest.len();
            match scored.next() {
                Some(old) if order(old, new) == Ordering::Less => {}
                _ => return start,
            }
        }
    }
}

fn entry(score: f64, member: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(SCORE_BYTES + packed::packed_bytes(member.len()));
    bytes.extend_from_slice(&score.to_le_bytes());
    packed::push(&mut bytes, member);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::collection::tests_thresholds;

    fn members(set: &SortedSetEdit) -> Vec<(f64, &[u8])> {
        set.view().iter().collect()
    }

    #[test]
    fn members_lie_by_score_then_name() {
        let thresholds = tests_thresholds();
        let mut set = SortedSetEdit::default();
        for (score, member) in [(2.0, "b"), (1.0, "c"), (2.0, "a"), (f64::NEG_INFINITY, "z")] {
            assert_eq!(set.set(member.as_bytes(), score, &thresholds), None);
        }
        let ordered: [(f64, &[u8]); 4] =
            [(f64::NEG_INFINITY, b"z"), (1.0, b"c"), (2.0, b"a"), (2.0, b"b")];
        assert_eq!(members(&set), ordered);
        assert_eq!(set.set(b"z", 1.5, &thresholds), Some(f64::NEG_INFINITY));
        assert_eq!(set.view().score(b"z"), Some(1.5));
        assert!(set.remove(b"c") && !set.remove(b"c"));
        assert_eq!(set.len(), 3);

        let unsorted = vec![(2.0, b"b".as_slice()), (1.5, b"z"), (2.0, b"a")];
        assert_eq!(SortedSetEdit::of_unsorted(unsorted, &thresholds), Some(set));
        let twice = vec![(1.0, b"a".as_slice()), (2.0, b"a")];
        assert_eq!(SortedSetEdit::of_unsorted(twice, &thresholds), None);
    }

    #[test]
    fn a_long_member_or_many_make_it_a_skiplist_for_good() {
        let thresholds = tests_thresholds();
        let mut set = SortedSetEdit::default();
        set.set(&[b'x'; 65], 0.0, &thresholds);
        assert_eq!(set.view().encoding(), Encoding::Skiplist);
        let mut many = SortedSetEdit::default();
        for number in 0..=thresholds.sorted_set_entries {
            assert_eq!(many.view().encoding(), Encoding::Listpack);
            many.set(number.to_string().as_bytes(), 0.0, &thresholds);
        }
        assert_eq!(many.view().encoding(), Encoding::Skiplist);
    }
}

//! Sorted sets.

use super::{
    ByName, Edit, Encoding, HEAD_BYTES, Names, Parts, Thresholds, empty, packed, set_encoding,
    set_len, splice,
};
use crate::interop::c_numbers;
use crate::keyspace::Kind;
use crate::value::ValueType;
use sexton_engine::{Entry, Meta};
use std::cmp::Ordering;
use std::ops::Range;

/// Up to this many members are each searched for from the start.
const FEW_MEMBERS: usize = 8;

/// Bytes of a score.
const SCORE_BYTES: usize = 8;

/// The type of sorted sets, for a look-up.
#[derive(Clone, Copy, Debug)]
pub struct SortedSets;

impl Kind for SortedSets {
    const TYPE: ValueType = ValueType::SortedSet;
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

    /// The scores of these members.
    #[must_use]
    pub fn scores<'m>(
        &self,
        members: impl ExactSizeIterator<Item = &'m [u8]> + Clone,
    ) -> Vec<Option<f64>> {
        if members.len() <= FEW_MEMBERS {
            return members.map(|member| self.score(member)).collect();
        }
        let mut asked: ByName<'_, Option<f64>> =
            members.clone().map(|member| (member, None)).collect();
        for (score, member) in self.iter() {
            if let Some(answer) = asked.get_mut(member) {
                *answer = Some(score);
            }
        }
        members.map(|member| asked.get(member).copied().flatten()).collect()
    }

    /// The number of members before `member`, and its score.
    #[must_use]
    pub fn rank(&self, member: &[u8]) -> Option<(usize, f64)> {
        let mut all = self.iter().enumerate();
        all.find(|(_, (_, name))| *name == member).map(|(rank, (score, _))| (rank, score))
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

/// A score as replies have it.
#[must_use]
pub fn score_text(score: f64) -> String {
    c_numbers::general(score, 17)
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
    /// An empty one that knows no compact encoding.
    #[must_use]
    pub fn of_any_size() -> Self {
        Self { bytes: empty(Encoding::Skiplist), len: 0, encoding: Encoding::Skiplist }
    }

    /// Appends a member that sorts after all others.
    pub fn push_behind(&mut self, score: f64, member: &[u8]) {
        push(&mut self.bytes, score, member);
        self.set_len(self.len + 1);
    }

    /// The value of the root record.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// A sorted set of unsorted, distinct members; `None` if one is repeated or a score is NaN.
    #[must_use]
    pub fn of_unsorted(members: Vec<(f64, &[u8])>, thresholds: &Thresholds) -> Option<Self> {
        if members.iter().any(|(score, _)| score.is_nan()) {
            return None;
        }
        let names: Names<_> = members.iter().map(|(_, name)| *name).collect();
        (names.len() == members.len()).then(|| Self::of_distinct(members, thresholds))
    }

    /// A sorted set of unsorted, distinct members; no score is NaN.
    #[must_use]
    pub fn of_distinct(mut members: Vec<(f64, &[u8])>, thresholds: &Thresholds) -> Self {
        members.sort_by(|one, other| order(*one, *other));
        let mut set = Self { len: members.len(), ..Self::default() };
        members.iter().for_each(|(_, member)| set.note_size(member, thresholds));
        for (score, member) in members {
            let score = set.stored(score);
            push(&mut set.bytes, score, member);
        }
        set.set_len(set.len);
        set
    }

    /// A read-only view of the edited sorted set.
    #[must_use]
    pub fn view(&self) -> SortedSetView<'_> {
        SortedSetView(Parts {
            meta: Self::expiring_at(0),
            value: &self.bytes,
            encoding: self.encoding,
            len: self.len,
        })
    }

    /// Calls `decide` for each of these members in turn, which may contain duplicates. It gets the member's current score and
    /// returns the new one, which is no NaN; `None` leaves it unchanged.
    pub fn update<'m>(
        &mut self,
        members: impl ExactSizeIterator<Item = &'m [u8]> + Clone,
        thresholds: &Thresholds,
        mut decide: impl FnMut(usize, Option<f64>) -> Option<f64>,
    ) {
        let mut named: ByName<'_, Named> =
            members.clone().map(|member| (member, Named::default())).collect();
        let (mut asked, is_one) = (members.clone(), members.len() == 1);
        let only = if is_one { asked.next() } else { None };
        for (score, name) in self.view().iter() {
            let found = match only {
                Some(member) => member == name,
                None => named.contains_key(name),
            };
            if found && let Some(old) = named.get_mut(name) {
                old.score = Some(score);
                if is_one {
                    break;
                }
            }
        }
        for (index, member) in members.enumerate() {
            let Some(now) = named.get_mut(member) else { continue };
            let Some(score) = decide(index, now.score) else { continue };
            if now.score.is_none() {
                self.len += 1;
                self.note_size(member, thresholds);
            }
            *now = Named { score: Some(self.stored(score)), is_changed: true };
        }
        let mut changed: Vec<(f64, &[u8])> = named
            .iter()
            .filter(|(_, now)| now.is_changed)
            .filter_map(|(member, now)| now.score.map(|score| (score, *member)))
            .collect();
        if changed.is_empty() {
            return;
        }
        changed.sort_by(|one, other| order(*one, *other));
        let old = &self.bytes;
        let mut bytes = empty(self.encoding);
        bytes.reserve(old.len());
        let mut changed = changed.into_iter().peekable();
        let (mut scored, mut copied) = (Scored { rest: &old[HEAD_BYTES..] }, HEAD_BYTES);
        loop {
            let start = old.len() - scored.rest.len();
            let Some(next) = scored.next() else { break };
            let goes = match only {
                Some(member) => member == next.1,
                None => named.get(next.1).is_some_and(|now| now.is_changed),
            };
            let comes_before = |new: &(f64, &[u8])| order(*new, next) == Ordering::Less;
            if goes || changed.peek().is_some_and(comes_before) {
                bytes.extend_from_slice(&old[copied..start]);
                while let Some((score, member)) = changed.next_if(comes_before) {
                    push(&mut bytes, score, member);
                }
                copied = if goes { old.len() - scored.rest.len() } else { start };
            }
        }
        bytes.extend_from_slice(&old[copied..]);
        changed.for_each(|(score, member)| push(&mut bytes, score, member));
        self.bytes = bytes;
        self.set_len(self.len);
    }

    /// Removes these members; how many were there.
    pub fn remove_all<'m>(&mut self, members: impl ExactSizeIterator<Item = &'m [u8]>) -> usize {
        let before = self.len;
        if members.len() <= FEW_MEMBERS {
            for member in members {
                if let Some(place) = self.place_of(member) {
                    splice(&mut self.bytes, place, b"");
                    self.set_len(self.len - 1);
                }
            }
            return before - self.len;
        }
        let going: Names<&[u8]> = members.collect();
        let mut rest = empty(self.encoding);
        self.len = 0;
        for (score, member) in (Scored { rest: &self.bytes[HEAD_BYTES..] }) {
            if !going.contains(member) {
                push(&mut rest, score, member);
                self.len += 1;
            }
        }
        self.bytes = rest;
        self.set_len(self.len);
        before - self.len
    }

    /// Removes the members with these ranks, which must be there.
    pub fn remove_ranks(&mut self, ranks: Range<usize>) {
        let end = self.bytes.len();
        let mut scored = Scored { rest: &self.bytes[HEAD_BYTES..] };
        scored.by_ref().take(ranks.start).for_each(drop);
        let first = end - scored.rest.len();
        scored.by_ref().take(ranks.len()).for_each(drop);
        let behind = end - scored.rest.len();
        splice(&mut self.bytes, first..behind, b"");
        self.set_len(self.len - ranks.len());
    }

    /// The score as it is kept: as in Redis, a small sorted set knows no -0.
    fn stored(&self, score: f64) -> f64 {
        if self.encoding == Encoding::Listpack && score == 0.0 { 0.0 } else { score }
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

    /// The byte range of `member` and its score in the value.
    fn place_of(&self, member: &[u8]) -> Option<Range<usize>> {
        let end = self.bytes.len();
        let mut scored = Scored { rest: &self.bytes[HEAD_BYTES..] };
        loop {
            let start = end - scored.rest.len();
            let (_, name) = scored.next()?;
            if name == member {
                return Some(start..end - scored.rest.len());
            }
        }
    }
}

/// A member that an update names.
#[derive(Default)]
struct Named {
    score: Option<f64>,
    is_changed: bool,
}

fn push(bytes: &mut Vec<u8>, score: f64, member: &[u8]) {
    bytes.extend_from_slice(&score.to_le_bytes());
    packed::push(bytes, member);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::collection::tests_thresholds;

    fn members(set: &SortedSetEdit) -> Vec<(f64, &[u8])> {
        set.view().iter().collect()
    }

    fn add(set: &mut SortedSetEdit, pairs: &[(f64, &str)]) {
        let names = pairs.iter().map(|(_, name)| name.as_bytes());
        set.update(names, &tests_thresholds(), |index, _| Some(pairs[index].0));
    }

    #[test]
    fn members_lie_by_score_then_name() {
        let mut set = SortedSetEdit::default();
        for pair in [(2.0, "b"), (1.0, "c"), (2.0, "a"), (f64::NEG_INFINITY, "z")] {
            add(&mut set, &[pair]);
        }
        let ordered: [(f64, &[u8]); 4] =
            [(f64::NEG_INFINITY, b"z"), (1.0, b"c"), (2.0, b"a"), (2.0, b"b")];
        assert_eq!(members(&set), ordered);
        let mut at_once = SortedSetEdit::default();
        add(
            &mut at_once,
            &[(9.0, "a"), (2.0, "b"), (1.0, "c"), (2.0, "a"), (f64::NEG_INFINITY, "z")],
        );
        assert_eq!(at_once, set);
        add(&mut set, &[(1.5, "z")]);
        assert_eq!(set.view().score(b"z"), Some(1.5));
        assert_eq!(set.view().rank(b"z"), Some((1, 1.5)));
        let gone = [b"c".as_slice(), b"c"];
        assert_eq!(set.remove_all(gone.into_iter()), 1);
        assert_eq!(set.len(), 3);

        let unsorted = vec![(2.0, b"b".as_slice()), (1.5, b"z"), (2.0, b"a")];
        assert_eq!(SortedSetEdit::of_unsorted(unsorted, &tests_thresholds()), Some(set));
        let twice = vec![(1.0, b"a".as_slice()), (2.0, b"a")];
        assert_eq!(SortedSetEdit::of_unsorted(twice, &tests_thresholds()), None);
    }

    #[test]
    fn what_is_decided_for_a_member_counts_for_its_next_mention() {
        let mut set = SortedSetEdit::default();
        let names = [b"a".as_slice(), b"b", b"a", b"a"];
        let mut told = Vec::new();
        set.update(names.into_iter(), &tests_thresholds(), |index, score| {
            told.push(score);
            (index != 3).then(|| score.unwrap_or(0.0) + 1.0)
        });
        assert_eq!(told, [None, None, Some(1.0), Some(2.0)]);
        assert_eq!(members(&set), [(1.0, b"b".as_slice()), (2.0, b"a")]);
    }

    #[test]
    fn many_members_and_ranks_are_removed_at_once() {
        let names: Vec<String> = (0..40).map(|number| format!("{number:02}")).collect();
        let mut set = SortedSetEdit::default();
        let pairs: Vec<(f64, &str)> = names.iter().map(|name| (0.0, name.as_str())).collect();
        add(&mut set, &pairs);
        assert_eq!(set.remove_all(names.iter().take(30).map(|name| name.as_bytes())), 30);
        set.remove_ranks(2..9);
        assert_eq!(members(&set), [(0.0, b"30".as_slice()), (0.0, b"31"), (0.0, b"39")]);
        set.remove_ranks(0..3);
        assert!(set.is_empty());
    }

    #[test]
    fn only_a_large_one_knows_a_negative_zero() {
        let mut set = SortedSetEdit::default();
        add(&mut set, &[(-0.0, "a")]);
        assert!(set.view().score(b"a").is_some_and(f64::is_sign_positive));
        let long = "x".repeat(65);
        add(&mut set, &[(-0.0, "b"), (1.0, &long), (-0.0, "c")]);
        assert!(set.view().score(b"b").is_some_and(f64::is_sign_positive));
        assert!(set.view().score(b"c").is_some_and(f64::is_sign_negative));
    }

    #[test]
    fn a_long_member_or_many_make_it_a_skiplist_for_good() {
        let mut set = SortedSetEdit::default();
        add(&mut set, &[(0.0, &"x".repeat(65))]);
        assert_eq!(set.view().encoding(), Encoding::Skiplist);
        let mut many = SortedSetEdit::default();
        for number in 0..=tests_thresholds().sorted_set_entries {
            assert_eq!(many.view().encoding(), Encoding::Listpack);
            add(&mut many, &[(0.0, &number.to_string())]);
        }
        assert_eq!(many.view().encoding(), Encoding::Skiplist);
        assert_eq!(many.remove_all([b"0".as_slice()].into_iter()), 1);
        assert_eq!(many.view().encoding(), Encoding::Skiplist);
    }
}

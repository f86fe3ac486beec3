//! Bounds of ranges: scores (`(1`, `+inf`), names (`[a`, `(b`, `-`, `+`) and ranks, and the members within.

use crate::commands::positions::range_of;
use crate::dispatch::CommandError;
use crate::interop::c_numbers::parse_prefix;
use crate::keyspace::collection::SortedSetView;
use crate::keyspace::paged::{Ranked, Stop, Structure};
use sexton_engine::page::{self, Cut, PageError, Pages};
use std::ops::Range;

const NO_SCORE: CommandError = CommandError::text("ERR min or max is not a float");
const NO_NAME: CommandError = CommandError::text("ERR min or max not valid string range item");

/// Which members are asked for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bounds<'a> {
    /// From rank to rank; negative ones count from the end.
    Ranks(i64, i64),
    /// From score to score.
    Scores(Score, Score),
    /// From name to name, among members of one score.
    Names(Name<'a>, Name<'a>),
}

/// A bound of scores.
#[derive(Clone, Copy, Debug)]
pub(super) struct Score {
    score: f64,
    is_open: bool,
}

/// A bound of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name<'a> {
    /// Before every name.
    Least,
    /// Greater than every name.
    Most,
    /// A name, which itself is within or not.
    Text { name: &'a [u8], is_open: bool },
}

impl<'a> Bounds<'a> {
    /// Bounds that are scores.
    pub(super) fn scores(min: &[u8], max: &[u8]) -> Result<Self, CommandError> {
        Ok(Self::Scores(Score::parse(min)?, Score::parse(max)?))
    }

    /// Bounds that are names.
    pub(super) fn names(min: &'a [u8], max: &'a [u8]) -> Result<Self, CommandError> {
        Ok(Self::Names(Name::parse(min)?, Name::parse(max)?))
    }

    /// The ranks of the members within the bounds, less the first `offset`. `descending` counts ranks and `offset` from the end.
    pub(super) fn ranks(
        &self,
        set: &SortedSetView<'_>,
        descending: bool,
        offset: usize,
    ) -> Range<usize> {
        let range = match *self {
            Self::Ranks(first, last) => {
                let (len, range) = (set.count(), range_of(first, last, set.count()));
                if descending { len - range.end..len - range.start } else { range }
            }
            Self::Scores(min, max) => {
                let scores = || set.iter().map(|(score, _)| score);
                let start = scores().take_while(|&score| !min.is_below(score)).count();
                let within = scores().skip(start).take_while(|&score| max.is_above(score)).count();
                start..start + within
            }
            Self::Names(min, max) if min.excludes(max) => 0..0,
            Self::Names(min, max) => {
                let names: Vec<&[u8]> = set.iter().map(|(_, name)| name).collect();
                return ranks_of_names(&names, (min, max), descending, offset);
            }
        };
        let offset = offset.min(range.len());
        if descending { range.start..range.end - offset } else { range.start + offset..range.end }
    }

    /// Like [`Self::ranks`], but for a paged sorted set.
    pub(super) fn ranks_in_pages<P: Pages>(
        &self,
        (set, pages): (&Ranked, &P),
        descending: bool,
        offset: usize,
    ) -> Result<Range<u64>, Stop> {
        let range = match *self {
            Self::Ranks(first, last) => {
                let len = set.len() as usize;
                let range = range_of(first, last, len);
                let range = if descending { len - range.end..len - range.start } else { range };
                range.start as u64..range.end as u64
            }
            Self::Scores(min, max) => match min.cut(true).zip(max.cut(false)) {
                Some((from, to)) => {
                    let [start, end] = set.counts_before(pages, [from, to])?;
                    start..end.max(start)
                }
                None => 0..0,
            },
            Self::Names(min, max) if min.excludes(max) => 0..0,
            Self::Names(min, max) => {
                let Some(score) = set.only_score(pages)? else {
                    let all = set.range(pages, 0..set.len())?;
                    let names = all.map(|member| Ok(member?.1));
                    let names = names.collect::<Result<Vec<_>, PageError>>()?;
                    let ranks = ranks_of_names(&names, (min, max), descending, offset);
                    return Ok(ranks.start as u64..ranks.end as u64);
                };
                let cuts = [min.cut(score, true), max.cut(score, false)];
                let [start, end] = set.counts_before(pages, cuts)?;
                start..end.max(start)
            }
        };
        let offset = (offset as u64).min(range.end - range.start);
        let (start, end) = (range.start, range.end);
        Ok(if descending { start..end - offset } else { start + offset..end })
    }
}

/// Names are ordered only among equal scores. If scores differ, the result is that of Redis' walk through a small sorted
/// set: from the first member within, over `offset` members regardless of the bounds, to the first one outside.
fn ranks_of_names(
    names: &[&[u8]],
    (min, max): (Name<'_>, Name<'_>),
    descending: bool,
    offset: usize,
) -> Range<usize> {
    let above = |name: &&&[u8]| min.is_below(name);
    let below = |name: &&&[u8]| max.is_above(name);
    // Redis checks the two ends first.
    let may_be = names.last().is_some_and(|name| above(&name))
        && names.first().is_some_and(|name| below(&name));
    if !may_be {
        return 0..0;
    }
    if descending {
        let last = names.iter().rposition(|name| below(&name));
        let Some(last) = last.filter(|&last| above(&&names[last])) else { return 0..0 };
        let end = (last + 1).saturating_sub(offset);
        end - names[..end].iter().rev().take_while(above).count()..end
    } else {
        let first = names.iter().position(|name| above(&name));
        let Some(first) = first.filter(|&first| below(&&names[first])) else { return 0..0 };
        let start = first.saturating_add(offset).min(names.len());
        start..start + names[start..].iter().take_while(below).count()
    }
}

impl Score {
    /// Parses the rest of a C string as `strtod` does: the empty string is 0.
    fn parse(text: &[u8]) -> Result<Self, CommandError> {
        let (number, is_open) = match text.strip_prefix(b"(") {
            Some(number) => (number, true),
            None => (text, false),
        };
        let (score, used) = parse_prefix(number).unwrap_or((0.0, 0));
        let is_whole = number.get(used).is_none_or(|&byte| byte == 0);
        if !is_whole || score.is_nan() {
            return Err(NO_SCORE);
        }
        Ok(Self { score, is_open })
    }

    /// The position where the range begins, for a lower bound, or ends.
    fn cut(self, is_lower: bool) -> Option<Cut<'static>> {
        let score = page::Score::of(self.score)?;
        let is_behind = self.is_open == is_lower;
        Some(if is_behind { Cut::BehindScore(score) } else { Cut::BeforeScore(score) })
    }

    fn is_below(self, score: f64) -> bool {
        if self.is_open { score > self.score } else { score >= self.score }
    }

    fn is_above(self, score: f64) -> bool {
        if self.is_open { score < self.score } else { score <= self.score }
    }
}

impl<'a> Name<'a> {
    fn parse(text: &'a [u8]) -> Result<Self, CommandError> {
        let ends = |rest: &[u8]| rest.first().is_none_or(|&byte| byte == 0);
        match text.split_first() {
            Some((b'+', rest)) if ends(rest) => Ok(Self::Most),
            Some((b'-', rest)) if ends(rest) => Ok(Self::Least),
            Some((b'(', name)) => Ok(Self::Text { name, is_open: true }),
            Some((b'[', name)) => Ok(Self::Text { name, is_open: false }),
            _ => Err(NO_NAME),
        }
    }

    /// True if every member within would have to precede its lower bound.
    fn excludes(self, max: Self) -> bool {
        match (self, max) {
            (Self::Least, Self::Least) | (Self::Most, _) => true,
            (Self::Least, _) | (_, Self::Most) => false,
            (_, Self::Least) => true,
            (Self::Text { name, is_open }, Self::Text { name: last, is_open: ends_open }) => {
                name > last || (name == last && (is_open || ends_open))
            }
        }
    }

    /// The position where the range begins, for a lower bound, or ends, among members of one score.
    fn cut(self, score: page::Score, is_lower: bool) -> Cut<'a> {
        match self {
            Self::Least => Cut::BeforeScore(score),
            Self::Most => Cut::BehindScore(score),
            Self::Text { name, is_open } if is_open == is_lower => Cut::Behind(score, name),
            Self::Text { name, .. } => Cut::Before(score, name),
        }
    }

    /// As a lower bound.
    fn is_below(self, other: &[u8]) -> bool {
        match self {
            Self::Least => true,
            Self::Most => false,
            Self::Text { name, is_open: true } => other > name,
            Self::Text { name, is_open: false } => other >= name,
        }
    }

    /// As an upper bound.
    fn is_above(self, other: &[u8]) -> bool {
        match self {
            Self::Least => false,
            Self::Most => true,
            Self::Text { name, is_open: true } => other < name,
            Self::Text { name, is_open: false } => other <= name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::collection::{SortedSetEdit, Thresholds};
    use crate::value::thresholds::SharedThresholds;

    fn set(members: &[(f64, &str)]) -> SortedSetEdit {
        let thresholds: Thresholds = SharedThresholds::default().now();
        let members = members.iter().map(|(score, name)| (*score, name.as_bytes())).collect();
        SortedSetEdit::of_distinct(members, &thresholds)
    }

    #[test]
    fn bounds_of_scores_are_closed_open_or_infinite() {
        let set = set(&[(1.0, "a"), (2.0, "b"), (2.0, "c"), (3.0, "d")]);
        for (min, max, ranks) in [
            ("1", "2", 0..3),
            ("(1", "3", 1..4),
            ("2", "(3", 1..3),
            ("-inf", "+inf", 0..4),
            ("(2", "(2", 3..3),
            ("3", "1", 3..3),
            ("", "1", 0..1),
        ] {
            let bounds = Bounds::scores(min.as_bytes(), max.as_bytes()).unwrap();
            assert_eq!(bounds.ranks(&set.view(), false, 0), ranks, "{min} {max}");
        }
        assert!(Bounds::scores(b"x", b"1").is_err() && Bounds::scores(b"1", b"nan").is_err());
    }

    #[test]
    fn bounds_of_names_are_closed_open_or_none() {
        let equal = set(&[(0.0, "a"), (0.0, "b"), (0.0, "c")]);
        let mixed = set(&[(0.0, "b"), (1.0, "a"), (2.0, "c")]);
        for (min, max, ranks, from_end) in [
            ("-", "+", 0..3, 0..3),
            ("[b", "+", 1..3, 1..3),
            ("(a", "(c", 1..2, 1..2),
            ("+", "-", 0..0, 0..0),
            ("[b", "(b", 0..0, 0..0),
        ] {
            let bounds = Bounds::names(min.as_bytes(), max.as_bytes()).unwrap();
            assert_eq!(bounds.ranks(&equal.view(), false, 0), ranks, "{min} {max}");
            assert_eq!(bounds.ranks(&equal.view(), true, 0), from_end, "{min} {max}");
        }
        let bounds = Bounds::names(b"[b", b"+").unwrap();
        assert_eq!(bounds.ranks(&mixed.view(), false, 0), 0..3, "from the first that is above");
        assert_eq!(bounds.ranks(&mixed.view(), true, 0), 2..3, "down to the first that is below");
        assert_eq!(bounds.ranks(&mixed.view(), true, 2), 0..1, "whatever stands between");
        assert!(Bounds::names(b"a", b"+").is_err() && Bounds::names(b"-x", b"+").is_err());
    }
}

//! Sorted sets in pages.

use super::{Failed, Paged, Stop, Structure, change, none_of};
use crate::blocking::{Pop, Side};
use crate::keyspace::pop::Popped;
use sexton_engine::page::{
    Cut, Descriptor, End, PageError, PageId, Pages, PartKind, Score, Sorted, SortedSizes, Totals,
    hash_of,
};
use sexton_engine::{Key, Tx};
use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;

/// A sorted set, with the seed of its own.
#[derive(Clone, Debug)]
pub struct Ranked {
    set: Sorted,
    seed: u64,
}

impl Structure for Ranked {
    fn open(paged: &Paged) -> Result<Self, PageError> {
        let page = PageId { part: PartKind::Scores, number: 0 };
        let set = Sorted::open(SortedSizes::default(), &paged.descriptor)
            .map_err(|damage| PageError::Damaged { page, damage })?;
        Ok(Self { set, seed: paged.descriptor.seed })
    }

    fn describe(&self, descriptor: &mut Descriptor) {
        descriptor.totals = self.set.totals;
        descriptor.seed = self.seed;
        self.set.parts().into_iter().flatten().for_each(|part| descriptor.set_part(part));
    }

    fn len(&self) -> u64 {
        self.set.len()
    }
}

impl Ranked {
    /// One of these members, which differ and ascend; no score is NaN.
    ///
    /// # Errors
    /// There are too many, or one is too long.
    pub fn build<'m, P: Pages>(
        pages: &mut P,
        members: impl Iterator<Item = (f64, &'m [u8])>,
    ) -> Result<Self, PageError> {
        // Nobody may guess it.
        let seed = RandomState::new().hash_one(0);
        let members: Vec<_> =
            members.filter_map(|(score, member)| Some((Score::of(score)?, member))).collect();
        let hash = |member: &[u8]| hash_of(seed, member);
        Ok(Self { set: Sorted::build(pages, SortedSizes::default(), &members, &hash)?, seed })
    }

    fn hash(&self, member: &[u8]) -> u64 {
        hash_of(self.seed, member)
    }

    /// The page that knows the score of a member.
    #[must_use]
    pub fn page_of(&self, member: &[u8]) -> PageId {
        self.set.index_page_of(self.hash(member))
    }

    /// The pages at the top, which everything but a look at the index passes.
    pub fn top_ids(&self) -> impl Iterator<Item = PageId> {
        self.set.top_ids()
    }

    /// All pages that a change of these members misses, where it has missed one; of those with a score, those where they stand
    /// with that, too; and those that these changes split, if splits are overdue.
    pub fn missing_of_change<'m, P: Pages>(
        &self,
        pages: &P,
        members: impl Iterator<Item = (&'m [u8], Option<Score>)>,
        missed: PageError,
    ) -> Stop {
        let mut changes = 0;
        let looks = members.flat_map(|(member, score)| {
            changes += 1;
            let place = score.map(|score| self.set.count_before(pages, Cut::Behind(score, member)));
            let own = self.set.rank(pages, member, self.hash(member)).map(|_| 0);
            std::iter::once(own).chain(place)
        });
        let stop = Stop::of_looks(looks, missed);
        stop.along_with(pages, self.set.overdue_splits(changes))
    }

    /// The pages that the members with these ranks miss.
    pub(super) fn missing<P: Pages>(
        &self,
        pages: &P,
        ranks: Range<u64>,
    ) -> Result<Vec<PageId>, PageError> {
        self.set.missing(pages, ranks)
    }

    /// The members with these ranks are in memory.
    ///
    /// # Errors
    /// The pages that are not.
    pub fn needs_range<P: Pages>(&self, pages: &P, ranks: Range<u64>) -> Result<(), Stop> {
        none_of(self.missing(pages, ranks)?)
    }

    /// The same of all of these ranges.
    ///
    /// # Errors
    /// The pages that are not.
    pub fn needs_ranges<P: Pages>(&self, pages: &P, ranges: &[Range<u64>]) -> Result<(), Stop> {
        let mut missing = BTreeSet::new();
        for ranks in ranges {
            missing.extend(self.missing(pages, ranks.clone())?);
        }
        none_of(missing.into_iter().collect())
    }

    /// A member's score.
    ///
    /// # Errors
    /// [`PageError`].
    pub fn score<P: Pages>(&self, pages: &P, member: &[u8]) -> Result<Option<f64>, PageError> {
        Ok(self.set.score(pages, member, self.hash(member))?.map(Score::number))
    }

    /// The scores of these members.
    ///
    /// # Errors
    /// [`Stop`].
    pub fn scores<'m, P: Pages>(
        &self,
        pages: &P,
        members: impl Iterator<Item = &'m [u8]> + Clone,
    ) -> Result<Vec<Option<f64>>, Stop> {
        let looks = || members.clone().map(|member| self.score(pages, member));
        looks().collect::<Result<_, _>>().map_err(|missed| Stop::of_looks(looks(), missed))
    }

    /// How many members come before a member, and its score.
    ///
    /// # Errors
    /// [`Stop`].
    pub fn rank<P: Pages>(&self, pages: &P, member: &[u8]) -> Result<Option<(u64, f64)>, Stop> {
        let found = self.set.rank(pages, member, self.hash(member))?;
        Ok(found.map(|(rank, score)| (rank, score.number())))
    }

    /// How many members come before each of these cuts.
    ///
    /// # Errors
    /// [`Stop`].
    pub fn counts_before<P: Pages, const N: usize>(
        &self,
        pages: &P,
        cuts: [Cut<'_>; N],
    ) -> Result<[u64; N], Stop> {
        let looks = || cuts.iter().map(|cut| self.set.count_before(pages, *cut));
        let mut counts = [0; N];
        for (count, found) in counts.iter_mut().zip(looks()) {
            *count = found.map_err(|missed| Stop::of_looks(looks(), missed))?;
        }
        Ok(counts)
    }

    /// The ranks of the members with scores in each of these ranges, none of which is NaN.
    ///
    /// # Errors
    /// [`Stop`].
    pub fn ranks_of_scores<P: Pages>(
        &self,
        pages: &P,
        scores: &[Range<f64>],
    ) -> Result<Vec<Range<u64>>, Stop> {
        let bounds = || scores.iter().flat_map(|scores| [scores.start, scores.end]);
        let looks = || {
            let cuts = bounds().filter_map(Score::of).map(Cut::BeforeScore);
            cuts.map(|cut| self.set.count_before(pages, cut))
        };
        let counts = looks().collect::<Result<Vec<_>, _>>();
        let counts = counts.map_err(|missed| Stop::of_looks(looks(), missed))?;
        Ok(counts.chunks_exact(2).map(|ranks| ranks[0]..ranks[1].max(ranks[0])).collect())
    }

    /// Sets the score of a member to what is decided, knowing the one that it has; `None` and NaN leave it as it is.
    ///
    /// # Errors
    /// [`PageError`].
    pub fn update<P: Pages>(
        &mut self,
        pages: &mut P,
        member: &[u8],
        decide: impl FnOnce(Option<f64>) -> Option<f64>,
    ) -> Result<(), PageError> {
        let hash = self.hash(member);
        let decide = |old: Option<Score>| decide(old.map(Score::number)).and_then(Score::of);
        self.set.update(pages, (member, hash), decide).map(|_| ())
    }

    /// Removes a member; false when it is not there.
    ///
    /// # Errors
    /// [`PageError`].
    pub fn remove<P: Pages>(&mut self, pages: &mut P, member: &[u8]) -> Result<bool, PageError> {
        let hash = self.hash(member);
        Ok(self.set.remove(pages, member, hash)?.is_some())
    }

    /// Removes the members with these ranks, which are there.
    ///
    /// # Errors
    /// [`Stop`].
    pub fn remove_range<P: Pages>(&mut self, pages: &mut P, ranks: Range<u64>) -> Result<(), Stop> {
        if ranks == (0..self.len()) {
            // Its pages all go with its key.
            self.set.totals = Totals::default();
            return Ok(());
        }
        self.needs_range(pages, ranks.clone())?;
        let seed = self.seed;
        let hash = |member: &[u8]| hash_of(seed, member);
        let missing = self.set.missing_index(pages, ranks.clone(), &hash)?;
        if !missing.is_empty() {
            return Err(Stop::Missing(missing));
        }
        self.set.remove_range(pages, ranks, &hash)?;
        Ok(())
    }

    /// Removes the member at an end, which is the answer.
    ///
    /// # Errors
    /// [`PageError`]: it may be that something was changed.
    pub fn pop<P: Pages>(
        &mut self,
        pages: &mut P,
        end: End,
    ) -> Result<Option<(Vec<u8>, f64)>, PageError> {
        let (seed, mut member) = (self.seed, Vec::new());
        let score =
            self.set.pop(pages, end, &|member: &[u8]| hash_of(seed, member), &mut member)?;
        Ok(score.map(|score| (member, score.number())))
    }

    /// The members with these ranks, ascending.
    ///
    /// # Errors
    /// [`Stop`], before the first; [`PageError`] for each.
    pub fn range<'s, P: Pages>(
        &'s self,
        pages: &'s P,
        ranks: Range<u64>,
    ) -> Result<impl Iterator<Item = Result<(f64, &'s [u8]), PageError>> + use<'s, P>, Stop> {
        self.needs_range(pages, ranks.clone())?;
        let all = self.set.iter(pages, ranks.start).take(count(&ranks));
        Ok(all.map(|scored| scored.map(|(score, member)| (score.number(), member))))
    }

    /// The same of several ranges, one after the other, each of which is looked for when the one before has ended.
    pub fn ranges<'s, P: Pages>(
        &'s self,
        pages: &'s P,
        ranges: &'s [Range<u64>],
    ) -> impl Iterator<Item = Result<(f64, &'s [u8]), Stop>> {
        ranges.iter().flat_map(|ranks| {
            let (members, stop) = match self.range(pages, ranks.clone()) {
                Ok(members) => (Some(members), None),
                Err(stop) => (None, Some(Err(stop))),
            };
            stop.into_iter().chain(members.into_iter().flatten().map(|member| Ok(member?)))
        })
    }

    /// The same, descending.
    ///
    /// # Errors
    /// As [`Ranked::range`].
    pub fn range_back<'s, P: Pages>(
        &'s self,
        pages: &'s P,
        ranks: Range<u64>,
    ) -> Result<impl Iterator<Item = Result<(f64, &'s [u8]), PageError>> + use<'s, P>, Stop> {
        self.needs_range(pages, ranks.clone())?;
        let all = self.set.iter_back(pages, ranks.end.saturating_sub(1)).take(count(&ranks));
        Ok(all.map(|scored| scored.map(|(score, member)| (score.number(), member))))
    }

    /// The score that all members have; `None` where they differ.
    ///
    /// # Errors
    /// [`Stop`].
    pub fn only_score<P: Pages>(&self, pages: &P) -> Result<Option<Score>, Stop> {
        let last = self.len().saturating_sub(1);
        let ends = || [self.set.iter(pages, 0).next(), self.set.iter_back(pages, last).next()];
        let missed = |missed| Stop::of_looks(ends().into_iter().flatten(), missed);
        let [Some(first), Some(last)] = ends() else { return Ok(None) };
        let (first, last) = (first.map_err(missed)?.0, last.map_err(missed)?.0);
        Ok((first.order() == last.order()).then_some(first))
    }

    /// Shows what is at a cursor, and answers the next one; 0 begins, and ends.
    ///
    /// # Errors
    /// [`PageError`].
    pub fn scan<P: Pages>(
        &self,
        pages: &P,
        cursor: u64,
        mut show: impl FnMut(&[u8], f64),
    ) -> Result<u64, PageError> {
        let hash = |member: &[u8]| hash_of(self.seed, member);
        self.set.scan(pages, cursor, &hash, |(score, member)| show(member, score.number()))
    }

    /// All pages that a scan of about `count` members from the cursor on misses, where it has missed one there.
    pub fn missing_of_scan<P: Pages>(
        &self,
        pages: &P,
        (cursor, count): (u64, u64),
        missed: PageError,
    ) -> Stop {
        Stop::of_missing(missed, || self.set.missing_of_scan(pages, cursor, count))
    }
}

fn count(ranks: &Range<u64>) -> usize {
    usize::try_from(ranks.end.saturating_sub(ranks.start)).unwrap_or(usize::MAX)
}

/// Takes members out of a sorted set.
///
/// # Errors
/// [`Failed`]; nothing was changed.
pub(super) fn take(
    tx: &mut Tx<'_>,
    key: Key<'_>,
    paged: &Paged,
    pop: Pop,
    reads_here: bool,
) -> Result<Popped, Failed> {
    let len = paged.descriptor.totals.elements;
    let count = pop.count.map_or(1, |count| count.min(len));
    if count == 0 {
        return Ok(Popped::of_pages(Vec::new(), false, pop));
    }
    let ranks = if pop.side == Side::First { 0..count } else { len - count..len };
    let taken = change(tx, key, paged, reads_here, |pages, set: &mut Ranked| {
        if count == 1 {
            let end = if pop.side == Side::First { End::Front } else { End::Back };
            let popped = set.pop(pages, end)?;
            return Ok(popped.map(|(member, score)| vec![(member, Some(score))]));
        }
        let mut members = Vec::with_capacity(count as usize);
        for member in set.range(pages, ranks.clone())? {
            let (score, member) = member?;
            members.push((member.to_vec(), Some(score)));
        }
        if pop.side == Side::Last {
            members.reverse();
        }
        set.remove_range(pages, ranks.clone())?;
        Ok(Some(members))
    })?;
    let (members, left) = taken.unwrap_or((Vec::new(), len));
    Ok(Popped::of_pages(members, left == 0, pop))
}

//! Sorted sets: members in order of score, then of their bytes, on pages indexed by a counted tree; and each member's score, on
//! index pages by hash.
//!
//! Everything is stored on pages, including the tree's nodes, so an operation reads only the pages it works on. A look-up of a
//! member reads its index page, one node per level, and the page of the order.
//!
//! Invariants: each member occurs once in the order and once in the index, with equal scores, on the index page that
//! [`linear::page_of`] selects for its fingerprint; a page of the order with several members has at most
//! `page_bytes` bytes; `totals` counts members, and their bytes plus eight for each score; the tree is as its file says.

mod check;
mod cut;
mod index;
mod iter;
mod order;

pub use iter::Iter;

use super::bytes::ELEMENT_MAX_BYTES;
use super::descriptor::{Descriptor, Part};
use super::index_page::{self, IndexPage, fingerprint_of};
use super::linear::{self, Stretch};
use super::list::End;
use super::score::Score;
use super::scores_page::{self, Cut, Scored, ScoresPage};
use super::store::{Damage, PageError, PageId, Pages, PartKind, at_page};
use super::tree::{Bound, Child, Path, Place, Tree};
use super::{Totals, fits};
use std::ops::Range;

/// How full pages get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SortedSizes {
    /// A page of the order with several members has no more bytes; at most 64 KiB.
    pub page_bytes: usize,
    /// An index page is split when the pages have more than this many members on average.
    pub index_split: u64,
    /// The last index page is merged when all have fewer.
    pub index_merge: u64,
}

impl Default for SortedSizes {
    fn default() -> Self {
        Self { page_bytes: 1024, index_split: 32, index_merge: 10 }
    }
}

/// What a write of a member found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutScore {
    /// The member is new.
    New,
    /// It had this score, and has another now.
    Moved(Score),
    /// It has an equal score, which stays.
    Unchanged,
}

/// A sorted set.
#[derive(Clone, Debug)]
pub struct Sorted {
    /// Members, and bytes of members and scores.
    pub totals: Totals,
    /// Index pages; 0 for a set that was never written.
    index_pages: u32,
    tree: Tree,
    sizes: SortedSizes,
}

/// Position of a member.
struct Located {
    index: PageId,
    slot: usize,
    score: Score,
    path: Path,
    at: usize,
}

impl Place for Cut<'_> {
    fn order(&self) -> u64 {
        self.score().order()
    }

    fn is_above(&self, order: u64, rest: &[u8]) -> bool {
        Cut::is_above(self, order, rest)
    }
}

/// The shortest bound that parts two neighbours.
fn bound_between(left: Option<Scored<'_>>, right: Scored<'_>) -> Bound {
    Bound::between(left.map(|(score, member)| (score.order(), member)), (right.0.order(), right.1))
}

/// A page of the order.
fn page_id(number: u64) -> PageId {
    PageId { part: PartKind::Scores, number }
}

fn index_id(page: u32) -> PageId {
    PageId { part: PartKind::Index, number: u64::from(page) }
}

/// Most members: what a node can count.
const MEMBERS_MAX: u64 = u32::MAX as u64;

/// Bytes that a member and its score count as.
const fn counted(member: &[u8]) -> usize {
    member.len() + 8
}

impl Sorted {
    /// A sorted set without members, which has no page.
    #[must_use]
    pub fn new(sizes: SortedSizes) -> Self {
        Self { totals: Totals::default(), index_pages: 0, tree: Tree::new(PartKind::Scores), sizes }
    }

    /// A sorted set of these members, which differ and ascend: from an inline form, or from a load.
    pub fn build<P: Pages>(
        pages: &mut P,
        sizes: SortedSizes,
        members: &[Scored<'_>],
        hash_of: &impl Fn(&[u8]) -> u64,
    ) -> Result<Self, PageError> {
        for (_, member) in members {
            accept(member)?;
        }
        if members.len() as u64 > MEMBERS_MAX {
            return Err(PageError::TooLong { bytes: members.len() });
        }
        Ok(Self::of_members(pages, sizes, members, hash_of))
    }

    fn of_members<P: Pages>(
        pages: &mut P,
        sizes: SortedSizes,
        members: &[Scored<'_>],
        hash_of: &impl Fn(&[u8]) -> u64,
    ) -> Self {
        let mut set = Self::new(sizes);
        if members.is_empty() {
            return set;
        }
        for (_, member) in members {
            set.totals.add(counted(member));
        }
        let (mut last, mut below) = (None, Vec::new());
        for own in set.pieces(members) {
            let Some(first) = own.first() else { continue };
            let bound = bound_between(last, *first);
            let number = set.tree.new_number();
            pages.add(page_id(number), &scores_page::build(own));
            below.push(Child { number, count: own.len() as u32, bound });
            last = own.last().copied();
        }
        set.tree.lay_out(pages, below);
        let wanted = set.totals.elements.div_ceil((sizes.index_split * 3 / 4).max(1));
        set.index_pages = u32::try_from(wanted.max(1)).unwrap_or(u32::MAX);
        let mut entries: Vec<(u32, (u32, Score))> = Vec::with_capacity(members.len());
        for (score, member) in members {
            let fingerprint = fingerprint_of(hash_of(member));
            let page = linear::page_of(u64::from(fingerprint), set.index_pages);
            entries.push((page, (fingerprint, *score)));
        }
        entries.sort_by_key(|(page, _)| *page);
        let mut rest = entries.as_slice();
        for page in 0..set.index_pages {
            let (own, others) = rest.split_at(rest.partition_point(|(of, _)| *of == page));
            rest = others;
            let own: Vec<(u32, Score)> = own.iter().map(|(_, entry)| *entry).collect();
            pages.add(index_id(page), &index_page::build(&own));
        }
        set
    }

    /// The sorted set that a descriptor says.
    pub fn open(sizes: SortedSizes, descriptor: &Descriptor) -> Result<Self, Damage> {
        let parts = [PartKind::Index, PartKind::Scores, PartKind::Nodes];
        let [Some(index), Some(order), Some(nodes)] = parts.map(|kind| descriptor.part(kind))
        else {
            return Err(Damage { at: 0, expected: "the parts of a sorted set" });
        };
        let tree = Tree {
            part: PartKind::Scores,
            root: nodes.a,
            levels: nodes.b as u8,
            nodes: nodes.pages / 2,
            pages: order.pages,
            next: order.b,
        };
        Ok(Self { totals: descriptor.totals, index_pages: index.pages, tree, sizes })
    }

    /// Members.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.totals.elements
    }

    /// True without members: the set is to be deleted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the descriptor says of the pages: index, order, and nodes with their counts; `None` without members.
    #[must_use]
    pub fn parts(&self) -> Option<[Part; 3]> {
        if self.is_empty() {
            return None;
        }
        let a = self.totals.elements * index_page::ENTRY_BYTES as u64;
        let Tree { root, levels, nodes, pages, next, .. } = self.tree;
        let part = |kind, pages, a, b| Part { kind, flags: 0, pages, a, b };
        Some([
            part(PartKind::Index, self.index_pages, a, 0),
            part(PartKind::Scores, pages, 0, next),
            part(PartKind::Nodes, nodes * 2, root, u64::from(levels)),
        ])
    }

    /// The index page of members with this hash.
    #[must_use]
    pub fn index_page_of(&self, hash: u64) -> PageId {
        index_id(linear::page_of(u64::from(fingerprint_of(hash)), self.index_pages.max(1)))
    }

    /// The pages at the top of the order.
    pub fn top_ids(&self) -> impl Iterator<Item = PageId> + use<> {
        let number = self.tree.root;
        let parts: &[PartKind] = match (self.tree.pages, self.tree.levels) {
            (0, _) => &[],
            (_, 0) => &[PartKind::Scores],
            _ => &[PartKind::Nodes, PartKind::Counts],
        };
        parts.iter().map(move |part| PageId { part: *part, number })
    }

    /// The pages that are not in memory, of those that hold the members whose ranks are in `range` and those that lead to them. Where it
    /// names some there may be others below.
    pub fn missing<P: Pages>(
        &self,
        pages: &P,
        range: Range<u64>,
    ) -> Result<Vec<PageId>, PageError> {
        let mut missing = Vec::new();
        self.tree.missing(pages, range.start..range.end.min(self.len()), &mut missing)?;
        Ok(missing)
    }

    /// The index pages that are not in memory, of those that know the members whose ranks are in `range`; their pages of the order are.
    pub fn missing_index<P: Pages>(
        &self,
        pages: &P,
        range: Range<u64>,
        hash_of: &impl Fn(&[u8]) -> u64,
    ) -> Result<Vec<PageId>, PageError> {
        let mut missing = Vec::new();
        let count = range.end.min(self.len()).saturating_sub(range.start);
        for scored in self.iter(pages, range.start).take(count as usize) {
            let index = self.index_page_of(hash_of(scored?.1));
            if !pages.is_in_memory(index) {
                missing.push(index);
            }
        }
        missing.sort_unstable();
        missing.dedup();
        Ok(missing)
    }

    fn page<'p, P: Pages>(&self, pages: &'p P, number: u64) -> Result<ScoresPage<'p>, PageError> {
        let id = page_id(number);
        let page = ScoresPage::parse(pages.read(id)?).map_err(at_page(id))?;
        if page.is_empty() { Err(wrong(id, "members")) } else { Ok(page) }
    }

    fn locate<P: Pages>(
        &self,
        pages: &P,
        member: &[u8],
        hash: u64,
    ) -> Result<Option<Located>, PageError> {
        if self.index_pages == 0 {
            return Ok(None);
        }
        let index = self.index_page_of(hash);
        let view = IndexPage::parse(pages.read(index)?).map_err(at_page(index))?;
        for candidate in view.candidates(fingerprint_of(hash)) {
            let (slot, score) = candidate.map_err(at_page(index))?;
            let Some(path) = self.tree.find(pages, &Cut::Behind(score, member))? else { continue };
            let page = self.page(pages, path.page)?;
            let id = page_id(path.page);
            let Some(at) = page.find(score, member).map_err(at_page(id))? else { continue };
            // Both zeros find the member; one of them is its own.
            if page.get(at).map_err(at_page(id))?.0 == score {
                return Ok(Some(Located { index, slot, score, path, at }));
            }
        }
        Ok(None)
    }

    /// The member's score.
    pub fn score<P: Pages>(
        &self,
        pages: &P,
        member: &[u8],
        hash: u64,
    ) -> Result<Option<Score>, PageError> {
        Ok(self.locate(pages, member, hash)?.map(|located| located.score))
    }

    /// The member's score, and its rank.
    pub fn rank<P: Pages>(
        &self,
        pages: &P,
        member: &[u8],
        hash: u64,
    ) -> Result<Option<(u64, Score)>, PageError> {
        let Some(found) = self.locate(pages, member, hash)? else { return Ok(None) };
        let before = self.tree.before(pages, &found.path)?;
        Ok(Some((before + found.at as u64, found.score)))
    }

    /// Number of members before the cut. The number between two cuts is the difference.
    pub fn count_before<P: Pages>(&self, pages: &P, cut: Cut<'_>) -> Result<u64, PageError> {
        let Some(path) = self.tree.find(pages, &cut)? else { return Ok(0) };
        let own = self.page(pages, path.page)?.count_before(cut);
        let own = own.map_err(at_page(page_id(path.page)))?;
        Ok(self.tree.before(pages, &path)? + own as u64)
    }

    /// The members from rank `from` on, ascending. Ends behind the first error.
    pub fn iter<'s, P: Pages>(&'s self, pages: &'s P, from: u64) -> Iter<'s, P> {
        Iter { set: self, pages, next: Some(from), page: None, is_forward: true }
    }

    /// The members from rank `from` on, descending.
    pub fn iter_back<'s, P: Pages>(&'s self, pages: &'s P, from: u64) -> Iter<'s, P> {
        Iter { set: self, pages, next: Some(from), page: None, is_forward: false }
    }

    /// Sets the score of a member. A score that is equal in the order leaves everything as it is.
    pub fn put<P: Pages>(
        &mut self,
        pages: &mut P,
        keyed: (&[u8], u64),
        score: Score,
    ) -> Result<PutScore, PageError> {
        self.update(pages, keyed, |_| Some(score))
    }

    /// Sets the score of a member to what is decided, knowing the one that it has; `None` leaves it as it is.
    pub fn update<P: Pages>(
        &mut self,
        pages: &mut P,
        (member, hash): (&[u8], u64),
        decide: impl FnOnce(Option<Score>) -> Option<Score>,
    ) -> Result<PutScore, PageError> {
        accept(member)?;
        let Some(old) = self.locate(pages, member, hash)? else {
            let Some(score) = decide(None) else { return Ok(PutScore::Unchanged) };
            return self.add(pages, (member, hash), score);
        };
        let Some(score) = decide(Some(old.score)) else { return Ok(PutScore::Unchanged) };
        if old.score.order() == score.order() {
            return Ok(PutScore::Unchanged);
        }
        self.tree.hold(pages, &old.path)?;
        self.move_to(pages, &old, score, member)?;
        index_page::set_score(&mut pages.edit(old.index)?, old.slot, score)
            .map_err(at_page(old.index))?;
        Ok(PutScore::Moved(old.score))
    }

    fn add<P: Pages>(
        &mut self,
        pages: &mut P,
        (member, hash): (&[u8], u64),
        score: Score,
    ) -> Result<PutScore, PageError> {
        if self.len() >= MEMBERS_MAX {
            return Err(PageError::TooLong { bytes: member.len() });
        }
        if self.index_pages == 0 {
            pages.add(index_id(0), &index_page::build(&[]));
            self.index_pages = 1;
        }
        let index = self.index_page_of(hash);
        self.insert(pages, score, member)?;
        index_page::insert(&mut pages.edit(index)?, fingerprint_of(hash), score)
            .map_err(at_page(index))?;
        self.totals.add(counted(member));
        self.step(pages);
        Ok(PutScore::New)
    }

    /// Removes a member; gives its score.
    pub fn remove<P: Pages>(
        &mut self,
        pages: &mut P,
        member: &[u8],
        hash: u64,
    ) -> Result<Option<Score>, PageError> {
        let Some(old) = self.locate(pages, member, hash)? else { return Ok(None) };
        self.tree.hold(pages, &old.path)?;
        self.take_out_at(pages, old.path, old.at)?;
        index_page::remove(&mut pages.edit(old.index)?, old.slot).map_err(at_page(old.index))?;
        self.totals.remove(counted(member));
        self.step(pages);
        Ok(Some(old.score))
    }

    /// Removes the member at an end, and puts it into `out` in place of what is there; gives its score.
    pub fn pop<P: Pages>(
        &mut self,
        pages: &mut P,
        end: End,
        hash_of: &impl Fn(&[u8]) -> u64,
        out: &mut Vec<u8>,
    ) -> Result<Option<Score>, PageError> {
        if self.is_empty() {
            return Ok(None);
        }
        let rank = if end == End::Front { 0 } else { self.len() - 1 };
        let (path, before) = self.tree.at(pages, rank)?;
        let (id, at) = (page_id(path.page), (rank - before) as usize);
        let (score, member) = self.page(pages, path.page)?.get(at).map_err(at_page(id))?;
        out.clear();
        out.extend_from_slice(member);
        let hash = hash_of(out);
        let index = self.index_page_of(hash);
        let view = IndexPage::parse(pages.read(index)?).map_err(at_page(index))?;
        // The index does not tell members of one fingerprint and score from each other.
        let own = view
            .candidates(fingerprint_of(hash))
            .find(|candidate| candidate.is_ok_and(|(_, other)| other == score));
        let Some((slot, _)) = own.transpose().map_err(at_page(index))? else {
            return Err(wrong(index, "member of the order"));
        };
        self.take_out_at(pages, path, at)?;
        index_page::remove(&mut pages.edit(index)?, slot).map_err(at_page(index))?;
        self.totals.remove(counted(out));
        self.step(pages);
        Ok(Some(score))
    }

    /// Answers the members at the cursor, and the cursor behind them; 0 begins, and ends. What is there from the first
    /// call to the last is answered once, whatever is written in between, other scores included. The index has no
    /// members: those of one score are looked through for the few that the cursor means.
    pub fn scan<P: Pages>(
        &self,
        pages: &P,
        cursor: u64,
        hash_of: &impl Fn(&[u8]) -> u64,
        mut answer: impl FnMut(Scored<'_>),
    ) -> Result<u64, PageError> {
        if self.index_pages == 0 {
            return Ok(0);
        }
        let stretch = Stretch::at(cursor, self.index_pages);
        for same in Self::at_stretch(pages, &stretch)?.chunk_by(|a, b| a.0 == b.0) {
            let Some((order, _, score)) = same.first() else { continue };
            let from = self.count_before(pages, Cut::BeforeScore(*score))?;
            let mut left = same.len();
            for scored in self.iter(pages, from) {
                let (score, member) = scored?;
                if score.order() != *order || left == 0 {
                    break;
                }
                let fingerprint = fingerprint_of(hash_of(member));
                if same.binary_search_by_key(&fingerprint, |(_, of, _)| *of).is_ok() {
                    left -= 1;
                    answer((score, member));
                }
            }
        }
        Ok(stretch.next)
    }

    /// What the index has at a stretch of a scan, by rising score.
    fn at_stretch<P: Pages>(
        pages: &P,
        stretch: &Stretch,
    ) -> Result<Vec<(u64, u32, Score)>, PageError> {
        let id = index_id(stretch.page);
        let mut wanted = Vec::new();
        for entry in IndexPage::parse(pages.read(id)?).map_err(at_page(id))?.entries() {
            let (fingerprint, score) = entry.map_err(at_page(id))?;
            if stretch.holds(u64::from(fingerprint)) {
                wanted.push((score.order(), fingerprint, score));
            }
        }
        wanted.sort_unstable_by_key(|(order, fingerprint, _)| (*order, *fingerprint));
        Ok(wanted)
    }

    /// The pages that a scan of about `count` members from the cursor on misses: of the index, and of the order where the page of the
    /// index is in memory. Not very many at once.
    pub fn missing_of_scan<P: Pages>(
        &self,
        pages: &P,
        cursor: u64,
        count: u64,
    ) -> Result<Vec<PageId>, PageError> {
        let mut missing = Vec::new();
        if self.index_pages == 0 {
            return Ok(missing);
        }
        for stretch in linear::scanned(cursor, self.index_pages, (count, self.totals.elements)) {
            if !pages.is_in_memory(index_id(stretch.page)) {
                missing.push(index_id(stretch.page));
                continue;
            }
            let mut wanted = Self::at_stretch(pages, &stretch)?;
            wanted.dedup_by_key(|(order, ..)| *order);
            for (.., score) in wanted {
                let first = self.count_before(pages, Cut::BeforeScore(score));
                match first.and_then(|first| self.iter(pages, first).next().transpose()) {
                    Err(PageError::Missing(page)) if !missing.contains(&page) => missing.push(page),
                    Err(PageError::Missing(_)) | Ok(_) => {}
                    Err(error) => return Err(error),
                }
                if missing.len() as u64 >= linear::SCANNED_AT_ONCE {
                    return Ok(missing);
                }
            }
        }
        Ok(missing)
    }
}

fn accept(member: &[u8]) -> Result<(), PageError> {
    if member.len() > ELEMENT_MAX_BYTES {
        return Err(PageError::TooLong { bytes: member.len() });
    }
    fits(0, member.len())
}

fn wrong(page: PageId, expected: &'static str) -> PageError {
    at_page(page)(Damage { at: 0, expected })
}

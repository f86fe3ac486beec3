//! A page of a sorted set's order: members ascending by score, then by their bytes.

use super::bytes::{
    self, FLAG_EQUAL, FLAG_WIDE, HEAD_BYTES, Offsets, PAGE_ELEMENTS_MAX, damage, len_at, u64_at,
};
use super::score::{Score, is_before};
use super::store::{Damage, PageEdit};
use std::cmp::Ordering;
use std::ops::Range;

pub(super) const SCORE_BYTES: usize = 8;

/// A member and its score.
pub type Scored<'p> = (Score, &'p [u8]);

/// The order of members.
#[must_use]
pub fn compare(a: Scored<'_>, b: Scored<'_>) -> Ordering {
    a.0.order().cmp(&b.0.order()).then_with(|| a.1.cmp(b.1))
}

/// A place between members.
#[derive(Clone, Copy, Debug)]
pub enum Cut<'m> {
    /// Before all members of the score.
    BeforeScore(Score),
    /// Behind all members of the score.
    BehindScore(Score),
    /// Before the member, or where it would be.
    Before(Score, &'m [u8]),
    /// Right behind the member, or where it would be.
    Behind(Score, &'m [u8]),
}

impl Cut<'_> {
    /// The score at which it is.
    #[must_use]
    pub fn score(&self) -> Score {
        match *self {
            Self::BeforeScore(score)
            | Self::BehindScore(score)
            | Self::Before(score, _)
            | Self::Behind(score, _) => score,
        }
    }

    /// True if a member of this order is before the cut.
    #[must_use]
    pub fn is_above(&self, order: u64, member: &[u8]) -> bool {
        match *self {
            Self::BeforeScore(score) => order < score.order(),
            Self::BehindScore(score) => order <= score.order(),
            Self::Before(score, of) => (order, member) < (score.order(), of),
            Self::Behind(score, of) => (order, member) <= (score.order(), of),
        }
    }
}

/// A page's payload, being read.
#[derive(Clone, Copy, Debug)]
pub struct ScoresPage<'p> {
    payload: &'p [u8],
    len: usize,
    is_equal: bool,
    offsets: Offsets,
}

impl<'p> ScoresPage<'p> {
    /// Parses the head. Whether members are within the payload is checked when they are read.
    pub fn parse(payload: &'p [u8]) -> Result<Self, Damage> {
        let (len, flags) = bytes::head(payload, FLAG_EQUAL | FLAG_WIDE)?;
        let is_equal = flags & FLAG_EQUAL != 0;
        let scores = if is_equal { 1 } else { len };
        let at = HEAD_BYTES + scores * SCORE_BYTES;
        let offsets = Offsets { at, len, wide: flags & FLAG_WIDE != 0 };
        if offsets.heap() > payload.len() {
            return damage(payload.len(), "scores and offsets");
        }
        Ok(Self { payload, len, is_equal, offsets })
    }

    /// Members.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True without members.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of the page.
    pub(super) fn bytes(&self) -> usize {
        self.payload.len()
    }

    /// Member number `index`.
    pub fn get(&self, index: usize) -> Result<Scored<'p>, Damage> {
        if index >= self.len {
            return damage(0, "more members");
        }
        Ok((self.score(index)?, &self.payload[self.item(index)?.1]))
    }

    /// All members in their order.
    pub fn iter(&self) -> impl Iterator<Item = Result<Scored<'p>, Damage>> + use<'p> {
        let page = *self;
        (0..page.len).map(move |index| page.get(index))
    }

    /// Number of members before the cut.
    pub fn count_before(&self, cut: Cut<'_>) -> Result<usize, Damage> {
        let (mut low, mut high) = (0, self.len);
        while low < high {
            let middle = usize::midpoint(low, high);
            let order = self.score(middle)?.order();
            let tie = || Ok(cut.is_above(order, self.get(middle)?.1));
            let is_above = is_before(order, cut.score().order(), tie)?;
            if is_above { low = middle + 1 } else { high = middle }
        }
        Ok(low)
    }

    /// Position of the member.
    pub fn find(&self, score: Score, member: &[u8]) -> Result<Option<usize>, Damage> {
        let index = self.count_before(Cut::Before(score, member))?;
        if index == self.len {
            return Ok(None);
        }
        let is_same = compare(self.get(index)?, (score, member)).is_eq();
        Ok(is_same.then_some(index))
    }

    /// Looks at every byte.
    pub fn check(&self) -> Result<(), Damage> {
        let mut end = self.offsets.heap();
        let mut last: Option<Scored<'_>> = None;
        for index in 0..self.len {
            let (entry, member) = self.item(index)?;
            if entry.start != end {
                return damage(end, "entry at its offset");
            }
            let own = (self.score(index)?, &self.payload[member]);
            if last.is_some_and(|last| compare(last, own).is_ge()) {
                return damage(end, "ascending members");
            }
            (last, end) = (Some(own), entry.end);
        }
        if end == self.payload.len() { Ok(()) } else { damage(end, "end of the page") }
    }

    fn score(&self, index: usize) -> Result<Score, Damage> {
        let at = HEAD_BYTES + if self.is_equal { 0 } else { index * SCORE_BYTES };
        match Score::of_bits(u64_at(self.payload, at)?) {
            Some(score) => Ok(score),
            None => damage(at, "score that is a number"),
        }
    }

    /// Positions of entry and member number `index`.
    fn item(&self, index: usize) -> Result<(Range<usize>, Range<usize>), Damage> {
        let start = self.offsets.start(self.payload, index)?;
        let (len, taken) = len_at(self.payload, start)?;
        let member = bytes::range(self.payload, start + taken, len)?;
        Ok((start..member.end, member))
    }

    /// Bytes of the page with one more member.
    pub(super) fn bytes_with(&self, score: Score, member_bytes: usize) -> usize {
        let offset = self.offsets.width();
        let entry = item_bytes(member_bytes);
        let scores = match (self.is_equal, self.score(0)) {
            (false, _) => SCORE_BYTES,
            (true, Ok(common)) if common == score => 0,
            (true, _) => self.len * SCORE_BYTES,
        };
        self.payload.len() + entry + offset + scores
    }
}

/// Bytes that a member takes; `is_equal` if one score stands for all.
pub(super) fn entry_bytes(member_bytes: usize, is_equal: bool) -> usize {
    let score = if is_equal { 0 } else { SCORE_BYTES };
    item_bytes(member_bytes) + 2 + score
}

/// Bytes of a member with its length.
const fn item_bytes(member_bytes: usize) -> usize {
    bytes::len_bytes(member_bytes) + member_bytes
}

/// True if one score stands for all of several.
pub(super) fn have_one_score(members: &[Scored<'_>]) -> bool {
    members.len() > 1 && members.windows(2).all(|two| two[0].0 == two[1].0)
}

/// A page of these members, at most 65,535, which ascend.
#[must_use]
pub fn build(members: &[Scored<'_>]) -> Vec<u8> {
    let is_equal = have_one_score(members);
    let heap_bytes: usize = members.iter().map(|(_, member)| item_bytes(member.len())).sum();
    let last = members.last().map_or(0, |(_, member)| item_bytes(member.len()));
    let wide = heap_bytes - last > u16::MAX as usize;
    let scores = if is_equal { 1 } else { members.len() };
    let flags = if is_equal { FLAG_EQUAL } else { 0 } | if wide { FLAG_WIDE } else { 0 };
    let width = if wide { 4 } else { 2 };
    let more_bytes = scores * SCORE_BYTES + members.len() * width + heap_bytes;
    let mut payload = bytes::new_payload(members.len(), flags, more_bytes);
    for (score, _) in &members[..scores] {
        payload.extend_from_slice(&score.bits().to_le_bytes());
    }
    let mut start: u32 = 0;
    for (_, member) in members {
        payload.extend_from_slice(&start.to_le_bytes()[..width]);
        start += item_bytes(member.len()) as u32;
    }
    for (_, member) in members {
        bytes::put_len(&mut payload, member.len());
        payload.extend_from_slice(member);
    }
    payload
}

/// Adds a member that is not there, in its place.
pub fn insert(page: &mut impl PageEdit, score: Score, member: &[u8]) -> Result<(), Damage> {
    let index = ScoresPage::parse(page.bytes())?.count_before(Cut::Before(score, member))?;
    insert_at(page, index, score, member)
}

/// Adds a member before which `index` others of the page are.
pub fn insert_at(
    page: &mut impl PageEdit,
    index: usize,
    score: Score,
    member: &[u8],
) -> Result<(), Damage> {
    let view = ScoresPage::parse(page.bytes())?;
    let (len, offsets, is_equal) = (view.len, view.offsets, view.is_equal);
    if len >= PAGE_ELEMENTS_MAX {
        return damage(0, "room for one more member");
    }
    let start = offsets.start(view.payload, index)?;
    let mut entry = Vec::with_capacity(5 + member.len());
    bytes::put_len(&mut entry, member.len());
    entry.extend_from_slice(member);
    let has_offset = offsets.wide || start - offsets.heap() <= u16::MAX as usize;
    let is_other = is_equal && view.score(0)? != score;
    // A page of one may become one of equal scores.
    let has_room = has_offset && offsets.can_shift(view.payload, index, entry.len());
    if len <= 1 || is_other || !has_room {
        let mut members = view.iter().collect::<Result<Vec<_>, _>>()?;
        members.insert(index, (score, member));
        let rebuilt = build(&members);
        page.replace(&rebuilt);
        return Ok(());
    }
    page.several();
    page.splice(start..start, &entry);
    offsets.shift(page, index, entry.len() as isize);
    offsets.insert(page, index, start - offsets.heap());
    if !is_equal {
        let at = HEAD_BYTES + index * SCORE_BYTES;
        page.splice(at..at, &score.bits().to_le_bytes());
    }
    bytes::set_elements(page, len + 1);
    Ok(())
}

/// Removes member number `index`.
pub fn remove(page: &mut impl PageEdit, index: usize) -> Result<(), Damage> {
    let view = ScoresPage::parse(page.bytes())?;
    if index >= view.len {
        return damage(0, "more members");
    }
    let (len, offsets, is_equal) = (view.len, view.offsets, view.is_equal);
    if len == 1 {
        page.replace(&build(&[]));
        return Ok(());
    }
    let (entry, _) = view.item(index)?;
    page.several();
    offsets.shift(page, index + 1, -(entry.len() as isize));
    page.splice(entry, &[]);
    offsets.remove(page, index);
    if !is_equal {
        let at = HEAD_BYTES + index * SCORE_BYTES;
        page.splice(at..at + SCORE_BYTES, &[]);
    }
    bytes::set_elements(page, len - 1);
    Ok(())
}

//! Collections of one page, which lies inside the root record: page by page what [`struct@super::Hash`],
//! [`super::Sorted`] and [`super::List`] do for many.
//!
//! A user reads by the page's view ([`HashPage`], [`ListPage`](super::list_page::ListPage), [`ScoresPage`]), changes
//! a copy of the page, and writes it back. A page that has [outgrown](is_outgrown) its record becomes pages of its own by
//! `of_page` of its structure, and never comes back; one without elements goes with its key. Lists have no functions here:
//! those of [`super::list_page`] are all that is needed. Sorted sets have no index: members are walked.

use super::Put;
use super::bytes::damage;
use super::external::Stored;
use super::hash_page::{self, HashPage, NO_VALUE};
use super::score::Score;
use super::scores_page::{self, ScoresPage};
use super::sorted::PutScore;
use super::store::{Damage, PageEdit, PartKind};

/// First byte of the root record's value.
pub const FORM_INLINE: u8 = 1;

/// Longest page in a root record.
pub const INLINE_MAX_BYTES: usize = 512;

/// Bytes before the page.
const HEAD_BYTES: usize = 2;

/// The value of the root record.
pub fn encode_into(encoding: u8, page: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&[FORM_INLINE, encoding]);
    out.extend_from_slice(page);
}

/// Encoding and page.
pub fn decode(value: &[u8]) -> Result<(u8, &[u8]), Damage> {
    match value.split_first_chunk::<HEAD_BYTES>() {
        Some((&[FORM_INLINE, encoding], page)) => Ok((encoding, page)),
        _ => damage(0, "inline collection"),
    }
}

/// A page without elements.
#[must_use]
pub fn empty(kind: PartKind, has_values: bool) -> Vec<u8> {
    match kind {
        PartKind::Hash => hash_page::empty(has_values),
        PartKind::List => super::list_page::build(&[]),
        PartKind::Scores
        | PartKind::Index
        | PartKind::Counts
        | PartKind::Nodes
        | PartKind::Stream
        | PartKind::Groups
        | PartKind::Pending
        | PartKind::PendingOf
        | PartKind::External
        | PartKind::Times => scores_page::build(&[]),
    }
}

/// True if the page is to become pages of its own.
#[must_use]
pub fn is_outgrown(page: &[u8]) -> bool {
    page.len() > INLINE_MAX_BYTES
}

/// Sets the value of a key; empty in a set.
pub fn put(
    page: &mut impl PageEdit,
    key: &[u8],
    value: &[u8],
    hash_of: &impl Fn(&[u8]) -> u64,
) -> Result<Put, Damage> {
    let view = HashPage::parse(page.bytes())?;
    if view.is_empty() && !view.has_values() {
        // The first member decides whether the set's page holds integers.
        page.replace(&hash_page::build(
            &[(hash_page::PageKey::Bytes(key), NO_VALUE, 0)],
            false,
            hash_of,
        ));
        return Ok(Put::New);
    }
    match view.find(key, hash_of(key))? {
        Some(place) => {
            if view.has_values() {
                hash_page::set_value(page, &place, Stored::Here(value), hash_of)?;
            }
            Ok(Put::Replaced)
        }
        None => hash_page::insert(page, key, Stored::Here(value), 0, hash_of).map(|()| Put::New),
    }
}

/// Removes a key. False if it is not there.
pub fn remove(
    page: &mut impl PageEdit,
    key: &[u8],
    hash_of: &impl Fn(&[u8]) -> u64,
) -> Result<bool, Damage> {
    match HashPage::parse(page.bytes())?.find(key, hash_of(key))? {
        Some(place) => hash_page::remove(page, &place).map(|()| true),
        None => Ok(false),
    }
}

/// Rank and score of a member.
pub fn rank(page: &[u8], member: &[u8]) -> Result<Option<(usize, Score)>, Damage> {
    for (rank, scored) in ScoresPage::parse(page)?.iter().enumerate() {
        let (score, other) = scored?;
        if other == member {
            return Ok(Some((rank, score)));
        }
    }
    Ok(None)
}

/// Sets the score of a member. A score that is equal in the order leaves everything as it is.
pub fn put_score(
    page: &mut impl PageEdit,
    member: &[u8],
    score: Score,
) -> Result<PutScore, Damage> {
    match rank(page.bytes(), member)? {
        None => scores_page::insert(page, score, member).map(|()| PutScore::New),
        Some((_, old)) if old.order() == score.order() => Ok(PutScore::Unchanged),
        Some((rank, old)) => {
            scores_page::remove(page, rank)?;
            scores_page::insert(page, score, member)?;
            Ok(PutScore::Moved(old))
        }
    }
}

/// Removes a member; gives its score.
pub fn remove_member(page: &mut impl PageEdit, member: &[u8]) -> Result<Option<Score>, Damage> {
    match rank(page.bytes(), member)? {
        None => Ok(None),
        Some((rank, score)) => scores_page::remove(page, rank).map(|()| Some(score)),
    }
}

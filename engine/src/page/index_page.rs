//! A page of a sorted set's member index: for each member, 32 bits of its hash and its score, unordered. Two members may
//! share a fingerprint, so a match must be confirmed by score and member.

use super::bytes::{self, HEAD_BYTES, PAGE_ELEMENTS_MAX, damage, u32_at, u64_at};
use super::score::Score;
use super::store::{Damage, PageEdit};

const FINGERPRINT_BYTES: usize = 4;
const SCORE_BYTES: usize = 8;

/// Bytes of a member in the index.
pub const ENTRY_BYTES: usize = FINGERPRINT_BYTES + SCORE_BYTES;

/// The fingerprint of a member with this hash.
#[must_use]
pub fn fingerprint_of(hash: u64) -> u32 {
    (hash >> 32) as u32
}

/// A page's payload, being read.
#[derive(Clone, Copy, Debug)]
pub struct IndexPage<'p> {
    payload: &'p [u8],
    len: usize,
}

impl<'p> IndexPage<'p> {
    /// Looks at head and length.
    pub fn parse(payload: &'p [u8]) -> Result<Self, Damage> {
        let (len, _) = bytes::head(payload, 0)?;
        if payload.len() != HEAD_BYTES + len * ENTRY_BYTES {
            return damage(payload.len(), "fingerprints and scores");
        }
        Ok(Self { payload, len })
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

    /// Number `slot`, which is below [`len`](Self::len).
    pub fn entry(&self, slot: usize) -> Result<(u32, Score), Damage> {
        Ok((u32_at(self.payload, fingerprint_at(slot))?, self.score(slot)?))
    }

    fn score(&self, slot: usize) -> Result<Score, Damage> {
        let at = score_at(slot, self.len);
        match Score::of_bits(u64_at(self.payload, at)?) {
            Some(score) => Ok(score),
            None => damage(at, "score that is a number"),
        }
    }

    /// Slots and scores of members with this fingerprint.
    pub fn candidates(
        &self,
        fingerprint: u32,
    ) -> impl Iterator<Item = Result<(usize, Score), Damage>> + use<'p> {
        let page = *self;
        let words =
            page.payload[HEAD_BYTES..HEAD_BYTES + page.len * FINGERPRINT_BYTES].as_chunks::<4>().0;
        let same =
            words.iter().enumerate().filter(move |(_, word)| **word == fingerprint.to_le_bytes());
        same.map(move |(slot, _)| Ok((slot, page.score(slot)?)))
    }

    /// All fingerprints and scores.
    pub fn entries(&self) -> impl Iterator<Item = Result<(u32, Score), Damage>> + use<'p> {
        let page = *self;
        (0..page.len).map(move |slot| page.entry(slot))
    }
}

const fn fingerprint_at(slot: usize) -> usize {
    HEAD_BYTES + slot * FINGERPRINT_BYTES
}

const fn score_at(slot: usize, len: usize) -> usize {
    HEAD_BYTES + len * FINGERPRINT_BYTES + slot * SCORE_BYTES
}

/// A page of these, at most 65,535.
#[must_use]
pub fn build(entries: &[(u32, Score)]) -> Vec<u8> {
    let mut payload = bytes::new_payload(entries.len(), 0, entries.len() * ENTRY_BYTES);
    for (fingerprint, _) in entries {
        payload.extend_from_slice(&fingerprint.to_le_bytes());
    }
    for (_, score) in entries {
        payload.extend_from_slice(&score.bits().to_le_bytes());
    }
    payload
}

/// Adds a member.
pub fn insert(page: &mut impl PageEdit, fingerprint: u32, score: Score) -> Result<(), Damage> {
    let len = IndexPage::parse(page.bytes())?.len;
    if len >= PAGE_ELEMENTS_MAX {
        return damage(0, "room for one more member");
    }
    let end = page.bytes().len();
    page.several();
    page.splice(end..end, &score.bits().to_le_bytes());
    let at = fingerprint_at(len);
    page.splice(at..at, &fingerprint.to_le_bytes());
    bytes::set_elements(page, len + 1);
    Ok(())
}

/// Puts another score in place of the one in `slot`.
pub fn set_score(page: &mut impl PageEdit, slot: usize, score: Score) -> Result<(), Damage> {
    let len = IndexPage::parse(page.bytes())?.len;
    if slot >= len {
        return damage(0, "more members");
    }
    page.write(score_at(slot, len), &score.bits().to_le_bytes());
    Ok(())
}

/// Removes the member in `slot`. The last one takes its place.
pub fn remove(page: &mut impl PageEdit, slot: usize) -> Result<(), Damage> {
    let view = IndexPage::parse(page.bytes())?;
    let len = view.len;
    if slot >= len {
        return damage(0, "more members");
    }
    let last = len - 1;
    let fingerprint = u32_at(view.payload, fingerprint_at(last))?.to_le_bytes();
    let score = u64_at(view.payload, score_at(last, len))?.to_le_bytes();
    page.several();
    page.write(score_at(slot, len), &score);
    page.write(fingerprint_at(slot), &fingerprint);
    page.splice(score_at(last, len)..score_at(len, len), &[]);
    page.splice(fingerprint_at(last)..fingerprint_at(len), &[]);
    bytes::set_elements(page, last);
    Ok(())
}

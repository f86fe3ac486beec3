//! What the root record of a paged collection says: how much it holds, and where its pages are.

use super::Totals;
use super::bytes::{damage, u32_at, u64_at};
use super::long_string::PAGE_BYTES_MAX;
use super::parts::Parts;
use super::store::{Damage, PartKind};
use std::ops::Deref;

/// First byte of a descriptor.
pub const FORM_PAGED: u8 = 2;

/// Bytes of a descriptor without its parts.
const HEAD_BYTES: usize = 44;

const PART_BYTES: usize = 24;

/// More levels of nodes than any order has.
const LEVELS_MAX: u64 = super::tree::LEVELS_MAX as u64;

/// A collection has three parts at most.
pub const PARTS_MAX: usize = 3;

/// Bytes that follow the parts of a stream.
pub const STREAM_TAIL_BYTES: usize = 40;

const ENCODED_MAX_BYTES: usize = HEAD_BYTES + PARTS_MAX * PART_BYTES + STREAM_TAIL_BYTES;

/// The value of a root record, without memory of its own: each change of a collection writes one.
#[derive(Clone, Copy, Debug)]
pub struct Encoded {
    bytes: [u8; ENCODED_MAX_BYTES],
    len: usize,
}

impl Deref for Encoded {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// The pages of one kind that a collection has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// What they hold.
    pub kind: PartKind,
    /// Of the store.
    pub flags: u8,
    /// How many.
    pub pages: u32,
    /// Bytes of content, of long values or of groups, the first label, the node at the top, or the last page of a stream; 0 of due times and of strings.
    pub a: u64,
    /// 0, the number of the next page or long value, the last label, or the levels of nodes.
    pub b: u64,
}

/// The root record of a paged collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// Of the collection's user.
    pub encoding: u8,
    /// Of the collection's user.
    pub flags: u8,
    /// Names the collection in its pages' keys; never used for another.
    pub collection: u64,
    /// What it holds.
    pub totals: Totals,
    /// No element expires before; 0 if none does.
    pub expire_at_ms: u64,
    /// Of its hashes, see [`super::hash_of`]; 0 where there are none.
    pub seed: u64,
    /// Its parts, each kind once.
    pub parts: Parts,
    /// Of the collection's user: [`STREAM_TAIL_BYTES`] of a stream, nothing of others.
    pub tail: Vec<u8>,
}

impl Descriptor {
    /// The part of the kind.
    #[must_use]
    pub fn part(&self, kind: PartKind) -> Option<&Part> {
        self.parts.iter().find(|part| part.kind == kind)
    }

    /// Says what a part has become. What the store says of it in its flags stays.
    pub fn set_part(&mut self, part: Part) {
        match self.parts.iter_mut().find(|own| own.kind == part.kind) {
            Some(own) => *own = Part { flags: own.flags, ..part },
            None => self.parts.push(part),
        }
    }

    /// Says that a part is not there any more.
    pub fn drop_part(&mut self, kind: PartKind) {
        self.parts.remove(kind);
    }

    /// Bytes of the record's value.
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        HEAD_BYTES + self.parts.len() * PART_BYTES + self.tail.len()
    }

    /// That of a new collection, without elements and pages.
    #[must_use]
    pub fn new(collection: u64, encoding: u8) -> Self {
        Self {
            encoding,
            flags: 0,
            collection,
            totals: Totals::default(),
            expire_at_ms: 0,
            seed: 0,
            parts: Parts::default(),
            tail: Vec::new(),
        }
    }

    /// The record's value.
    ///
    /// # Panics
    /// With a tail that does not belong to these parts.
    #[must_use]
    pub fn encoded(&self) -> Encoded {
        let mut out = Encoded { bytes: [0; ENCODED_MAX_BYTES], len: self.encoded_len() };
        let (head, rest) = out.bytes.split_at_mut(HEAD_BYTES);
        head[..4].copy_from_slice(&[FORM_PAGED, self.encoding, self.parts.len() as u8, self.flags]);
        let Totals { elements, bytes } = self.totals;
        let numbers = [self.collection, elements, bytes, self.expire_at_ms, self.seed];
        for (place, number) in head[4..].as_chunks_mut().0.iter_mut().zip(numbers) {
            *place = number.to_le_bytes();
        }
        let (parts, tail) = rest.split_at_mut(self.parts.len() * PART_BYTES);
        for (place, part) in parts.as_chunks_mut::<PART_BYTES>().0.iter_mut().zip(&*self.parts) {
            place[..2].copy_from_slice(&[part.kind.letter(), part.flags]);
            place[4..8].copy_from_slice(&part.pages.to_le_bytes());
            place[8..16].copy_from_slice(&part.a.to_le_bytes());
            place[16..].copy_from_slice(&part.b.to_le_bytes());
        }
        tail[..tail_bytes(&self.parts)].copy_from_slice(&self.tail);
        out
    }

    /// The number of the collection that a root's value names, without a look at the rest.
    #[must_use]
    pub fn collection_of(value: &[u8]) -> Option<u64> {
        (value.first() == Some(&FORM_PAGED)).then(|| u64_at(value, 4).ok())?
    }

    /// The collection that a root's value names; `None` for another value.
    #[must_use]
    pub fn named_by(value: &[u8]) -> Option<Named> {
        let found = Self::decode(value).ok()?;
        let pages = found.parts.iter().map(|part| u64::from(part.pages)).sum();
        let Totals { elements, bytes } = found.totals;
        let beside = elements.saturating_mul(ELEMENT_BYTES) + pages * PAGE_HEAD_BYTES;
        Some(Named { collection: found.collection, pages, bytes: bytes.saturating_add(beside) })
    }

    /// What the value of a root record says.
    pub fn decode(value: &[u8]) -> Result<Self, Damage> {
        let Some((head, rest)) = value.split_first_chunk::<HEAD_BYTES>() else {
            return damage(value.len(), "descriptor of a paged collection");
        };
        let [FORM_PAGED, encoding, count, flags, ..] = *head else {
            return damage(0, "descriptor of a paged collection");
        };
        let count = count as usize;
        if count == 0 || count > PARTS_MAX {
            return damage(2, "one to three parts");
        }
        let totals = Totals { elements: u64_at(head, 12)?, bytes: u64_at(head, 20)? };
        if totals.elements == 0 {
            return damage(12, "elements");
        }
        let Some((encoded, tail)) = rest.split_at_checked(count * PART_BYTES) else {
            return damage(value.len(), "parts");
        };
        let mut parts = Parts::default();
        for (nth, part) in encoded.as_chunks().0.iter().enumerate() {
            let at = HEAD_BYTES + nth * PART_BYTES;
            let part = part_at(part, at)?;
            if parts.iter().any(|other| other.kind == part.kind) {
                return damage(at, "each part once");
            }
            parts.push(part);
        }
        if tail.len() != tail_bytes(&parts) {
            return damage(value.len(), "descriptor as long as its parts say");
        }
        Ok(Self {
            encoding,
            flags,
            collection: u64_at(head, 4)?,
            totals,
            expire_at_ms: u64_at(head, 28)?,
            seed: u64_at(head, 36)?,
            parts,
            tail: tail.to_vec(),
        })
    }
}

/// What a root says of its collection as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    /// Its number.
    pub collection: u64,
    /// Its pages.
    pub pages: u64,
    /// About the bytes that all of them take in memory.
    pub bytes: u64,
}

/// What an element takes in a page besides its bytes, and a page in memory besides its elements, about.
const ELEMENT_BYTES: u64 = 2;
const PAGE_HEAD_BYTES: u64 = 64;

/// Bytes behind these parts.
fn tail_bytes(parts: &[Part]) -> usize {
    if parts.iter().any(|part| part.kind == PartKind::Stream) { STREAM_TAIL_BYTES } else { 0 }
}

/// The part with these bytes, which begin `at` in its descriptor.
fn part_at(bytes: &[u8; PART_BYTES], at: usize) -> Result<Part, Damage> {
    let [letter, flags, zero_low, zero_high, ..] = *bytes;
    let Some(kind) = PartKind::of(letter) else { return damage(at, "letter of a part") };
    if [zero_low, zero_high] != [0, 0] {
        return damage(at + 2, "zero");
    }
    let (pages, a, b) = (u32_at(bytes, 4)?, u64_at(bytes, 8)?, u64_at(bytes, 16)?);
    let part = Part { kind, flags, pages, a, b };
    // Long values come and go, and their ids are not used again; a list of two pages needs no counts, an order of one page no node.
    let may_be_none =
        matches!(kind, PartKind::External | PartKind::Counts | PartKind::Nodes | PartKind::Groups);
    if part.pages == 0 && !may_be_none {
        return damage(at + 4, "pages");
    }
    let is_whole = match kind {
        PartKind::External | PartKind::Scores => part.b >= u64::from(part.pages),
        PartKind::Hash | PartKind::Index | PartKind::Counts => part.b == 0,
        PartKind::Stream => part.b >= u64::from(part.pages) && part.a < part.b,
        PartKind::Groups => {
            part.b == u64::from(part.pages > 0) && (part.a == 0) == (part.pages == 0)
        }
        // They are counted with their groups.
        PartKind::Pending | PartKind::PendingOf => false,
        PartKind::Times => part.a == 0 && part.b == 0,
        PartKind::Bytes => part.a <= PAGE_BYTES_MAX as u64 && part.b == 0,
        PartKind::List if part.pages == 1 => part.a == part.b,
        PartKind::List => {
            part.b.checked_sub(part.a).is_some_and(|span| span >= u64::from(part.pages) - 1)
        }
        PartKind::Nodes => {
            part.b <= LEVELS_MAX
                && part.pages.is_multiple_of(2)
                && (part.b == 0) == (part.pages == 0)
        }
    };
    if is_whole { Ok(part) } else { damage(at + 8, "numbers that leave room for the pages") }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Random;
    use super::*;

    fn some() -> Descriptor {
        let scores = Part { kind: PartKind::Scores, flags: 1, pages: 3, a: 0, b: 9 };
        let index = Part { kind: PartKind::Index, flags: 0, pages: 7, a: 12 * 99, b: 0 };
        Descriptor {
            encoding: 3,
            flags: 5,
            collection: 77,
            totals: Totals { elements: 99, bytes: 1234 },
            expire_at_ms: 8,
            seed: 11,
            parts: [index, scores].into(),
            tail: Vec::new(),
        }
    }

    #[test]
    fn a_descriptor_is_read_as_it_was_written() {
        let value = some().encoded();
        assert_eq!(value.len(), 92);
        assert_eq!(Descriptor::decode(&value), Ok(some()));
        assert_eq!(some().part(PartKind::Index).map(|part| part.pages), Some(7));
        assert_eq!(some().part(PartKind::List), None);
        let mut changed = some();
        let part = Part { kind: PartKind::Scores, flags: 0, pages: 4, a: 5, b: 9 };
        changed.set_part(part);
        assert_eq!(*changed.parts, [some().parts[0], Part { flags: 1, ..part }]);
        changed.drop_part(PartKind::Scores);
        assert_eq!(*changed.parts, some().parts[..1]);
        for len in 0..value.len() {
            assert!(Descriptor::decode(&value[..len]).is_err());
        }
        for (at, byte) in
            [(0, 1), (2, 0), (2, 4), (12, 0), (44, b'z'), (44, b's'), (46, 1), (48, 0), (84, 1)]
        {
            let mut damaged = value.to_vec();
            damaged[at] = byte;
            assert!(Descriptor::decode(&damaged).is_err(), "byte {at} is {byte}");
        }
    }

    #[test]
    fn flipped_bits_of_a_descriptor_are_an_error_or_another_descriptor() {
        let value = some().encoded();
        let mut random = Random::new(3);
        for _ in 0..10_000 {
            let mut damaged = value.to_vec();
            for _ in 0..=random.below(3) {
                damaged[random.below(92)] ^= 1 << random.below(8);
            }
            if let Ok(descriptor) = Descriptor::decode(&damaged) {
                assert_eq!(*descriptor.encoded(), *damaged);
            }
        }
    }
}

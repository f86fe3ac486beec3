//! Long values and elements: each in a page of its own, which edits of its neighbours do not move.
//!
//! Invariants: an id is used once; exactly `count` pages of part `v` exist, with `bytes` bytes together; each is named
//! by one entry of a page, with its exact length. A page is written once, and is removed with its entry, read or not.

use super::bytes::{self, ELEMENT_MAX_BYTES, damage, u32_at, u64_at};
use super::descriptor::Part;
use super::store::{Damage, PageError, PageId, Pages, PartKind, at_page};

/// Values and elements of at least this many bytes are stored in pages of their own.
pub const EXTERNAL_MIN_BYTES: usize = 512;

/// In the place of a length: what follows names a page.
const MARK: u8 = 255;

/// Mark, id and length.
const REFERENCE_BYTES: usize = 13;

/// Names the page of a value, and says how long that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The page's number.
    pub id: u64,
    /// Its bytes.
    pub bytes: u32,
}

impl Reference {
    pub(super) fn page(self) -> PageId {
        PageId { part: PartKind::External, number: self.id }
    }
}

/// What a page holds of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored<'p> {
    /// The whole value.
    Here(&'p [u8]),
    /// The name of its page.
    External(Reference),
}

impl<'p> Stored<'p> {
    /// Bytes of the value.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Here(value) => value.len(),
            Self::External(reference) => reference.bytes as usize,
        }
    }

    /// True for a value of no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The name of the page, if that is what is here.
    pub(super) fn external(&self) -> Option<Reference> {
        match *self {
            Self::Here(_) => None,
            Self::External(reference) => Some(reference),
        }
    }

    /// The bytes that follow the length.
    pub(super) fn here(&self) -> &'p [u8] {
        match *self {
            Self::Here(value) => value,
            Self::External(_) => &[],
        }
    }

    /// Bytes of the length.
    pub(super) fn len_bytes(&self) -> usize {
        match self {
            Self::Here(value) => bytes::len_bytes(value.len()),
            Self::External(_) => REFERENCE_BYTES,
        }
    }

    pub(super) fn put_len(&self, out: &mut Vec<u8>) {
        match self {
            Self::Here(value) => bytes::put_len(out, value.len()),
            Self::External(reference) => {
                out.push(MARK);
                out.extend_from_slice(&reference.id.to_le_bytes());
                out.extend_from_slice(&reference.bytes.to_le_bytes());
            }
        }
    }
}

/// A length, as it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Length {
    /// Bytes that follow it.
    pub here: usize,
    /// Bytes that it takes.
    pub taken: usize,
    pub external: Option<Reference>,
}

impl Length {
    pub(super) fn at(payload: &[u8], at: usize) -> Result<Self, Damage> {
        if payload.get(at) != Some(&MARK) {
            let (here, taken) = bytes::len_at(payload, at)?;
            return Ok(Self { here, taken, external: None });
        }
        let reference = Reference { id: u64_at(payload, at + 1)?, bytes: u32_at(payload, at + 9)? };
        if reference.bytes as usize > ELEMENT_MAX_BYTES {
            return damage(at + 9, "length");
        }
        Ok(Self { here: 0, taken: REFERENCE_BYTES, external: Some(reference) })
    }
}

/// True if what ends before `end` names a page. The mark follows it, too, where a list's page is walked backwards.
pub(super) fn is_external_before(payload: &[u8], end: usize) -> bool {
    end.checked_sub(1).and_then(|at| payload.get(at)) == Some(&MARK)
}

/// Bytes of a list's entry that names a page.
pub(super) const EXTERNAL_ENTRY_BYTES: usize = REFERENCE_BYTES + 1;

/// The mark behind such an entry.
pub(super) const EXTERNAL_END: u8 = MARK;

/// The long values of a collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Externals {
    /// How many there are.
    pub count: u32,
    /// Their bytes.
    pub bytes: u64,
    /// The id of the next.
    pub next: u64,
}

impl Externals {
    /// Those whose descriptor says this.
    #[must_use]
    pub fn open(part: Option<&Part>) -> Self {
        part.map_or(Self::default(), |part| Self { count: part.pages, bytes: part.a, next: part.b })
    }

    /// What the descriptor says of them; `None` if there was never one.
    #[must_use]
    pub fn part(&self) -> Option<Part> {
        let kind = PartKind::External;
        (self.next > 0).then_some(Part {
            kind,
            flags: 0,
            pages: self.count,
            a: self.bytes,
            b: self.next,
        })
    }

    /// How a value will be stored, if it has at least `min_bytes`: [`add`](Self::add) is to follow.
    pub(super) fn plan<'v>(&self, value: &'v [u8], min_bytes: usize) -> Stored<'v> {
        if value.len() < min_bytes || self.count == u32::MAX {
            return Stored::Here(value);
        }
        Stored::External(Reference { id: self.next, bytes: value.len() as u32 })
    }

    /// Makes the page of a value that was planned just before.
    pub(super) fn add<P: Pages>(&mut self, pages: &mut P, stored: Stored<'_>, value: &[u8]) {
        if let Stored::External(reference) = stored {
            debug_assert_eq!(reference.id, self.next);
            pages.add(reference.page(), value);
            self.next += 1;
            self.count += 1;
            self.bytes += value.len() as u64;
        }
    }

    /// Counts a value that was found.
    pub(super) fn note(&mut self, stored: Stored<'_>) {
        if let Stored::External(reference) = stored {
            self.count += 1;
            self.bytes += u64::from(reference.bytes);
        }
    }

    /// Removes the page of a value that has gone, if it had one.
    pub(super) fn remove<P: Pages>(&mut self, pages: &mut P, external: Option<Reference>) {
        if let Some(reference) = external {
            pages.remove(reference.page());
            self.count = self.count.saturating_sub(1);
            self.bytes = self.bytes.saturating_sub(u64::from(reference.bytes));
        }
    }
}

/// The value itself.
pub(super) fn read<'p, P: Pages>(pages: &'p P, stored: Stored<'p>) -> Result<&'p [u8], PageError> {
    let reference = match stored {
        Stored::Here(value) => return Ok(value),
        Stored::External(reference) => reference,
    };
    let page = reference.page();
    let value = pages.read(page)?;
    if value.len() == reference.bytes as usize {
        Ok(value)
    } else {
        Err(at_page(page)(Damage { at: value.len(), expected: "as many bytes as the entry says" }))
    }
}

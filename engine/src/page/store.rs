//! How a structure reaches its pages, and how it changes them.
//!
//! A structure sees payloads and never where they are stored. The holder of a collection's pages implements [`Pages`] over
//! blocks in memory, and knows what is on a device. Two rules join the two sides.
//!
//! - **A missing page is reported before anything changes.** An operation calls [`Pages::read`] for each page that it
//!   needs before its first [`edit`](Pages::edit), [`add`](Pages::add) or [`remove`](Pages::remove). A page that is not
//!   in memory is [`PageError::Missing`]; the owner loads it and restarts the operation from the beginning.
//!   Once `read` has returned a page, `edit` must not fail on it within that operation.
//! - **Each change of a payload is a positional edit**: [`PageEdit::write`] or [`PageEdit::splice`]. An owner can therefore
//!   record a page's changes, write them instead of the page, and replay them without interpreting them.

use std::ops::Range;

/// What the pages of one part of a collection hold. The letter is in the pages' keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum PartKind {
    /// Keys with or without values, by their hash: hashes and sets.
    Hash = b'h',
    /// Fingerprints and scores of members, by their hash.
    Index = b'i',
    /// Members in order of score, then of their bytes.
    Scores = b's',
    /// Elements in list order.
    List = b'l',
    /// How many elements the pages of a list have, or what is below the children of a node.
    Counts = b'c',
    /// Nodes over the pages of an order.
    Nodes = b'n',
    /// Entries of a stream, ascending.
    Stream = b'x',
    /// Consumer groups of a stream: their names, and a page of each.
    Groups = b'g',
    /// Pending entries of a consumer group, by ID.
    Pending = b'p',
    /// Pending entries of a consumer group, by consumer.
    PendingOf = b'q',
    /// Long values, one each.
    External = b'v',
    /// When the first key of each page of a hash is due.
    Times = b't',
    /// Bytes of a string.
    Bytes = b'b',
}

impl PartKind {
    /// The part of the letter.
    #[must_use]
    pub const fn of(letter: u8) -> Option<Self> {
        match letter {
            b'h' => Some(Self::Hash),
            b'i' => Some(Self::Index),
            b's' => Some(Self::Scores),
            b'l' => Some(Self::List),
            b'c' => Some(Self::Counts),
            b'n' => Some(Self::Nodes),
            b'x' => Some(Self::Stream),
            b'g' => Some(Self::Groups),
            b'p' => Some(Self::Pending),
            b'q' => Some(Self::PendingOf),
            b'v' => Some(Self::External),
            b't' => Some(Self::Times),
            b'b' => Some(Self::Bytes),
            _ => None,
        }
    }

    /// The letter in keys and descriptors.
    #[must_use]
    pub const fn letter(self) -> u8 {
        self as u8
    }
}

/// Name of a page within its collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageId {
    /// The part it belongs to.
    pub part: PartKind,
    /// Number below 2^32 of a hashed part's page or of a string's; label of a list's page; number of a page of an order, of a node or of a consumer group, whose names are on page 0; id of a long value; level, in the upper
    /// half, and number of a block of due times.
    pub number: u64,
}

/// Why an operation could not be done. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageError {
    /// The page is not in memory: bring it, and run the operation again.
    Missing(PageId),
    /// The page is nowhere, though the collection names it.
    Absent(PageId),
    /// The page's payload is not what its part's pages look like.
    Damaged {
        /// The page.
        page: PageId,
        /// What is wrong with it.
        damage: Damage,
    },
    /// An element is longer than the structure takes.
    TooLong {
        /// Its bytes.
        bytes: usize,
    },
}

impl std::fmt::Display for PageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing(page) => write!(f, "page {page} is not in memory"),
            Self::Absent(page) => write!(f, "page {page} is nowhere, though it is named"),
            Self::Damaged { page, damage } => write!(f, "page {page} is damaged: {damage}"),
            Self::TooLong { bytes } => write!(f, "element of {bytes} bytes is too long"),
        }
    }
}

impl std::error::Error for PageError {}

impl std::fmt::Display for PageId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", self.part.letter() as char, self.number)
    }
}

/// What is wrong with bytes that were to be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Where, in bytes from the beginning.
    pub at: usize,
    /// What should be there and is not.
    pub expected: &'static str,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} expected at byte {}", self.expected, self.at)
    }
}

/// Names the page of a damage.
pub(super) fn at_page(page: PageId) -> impl Fn(Damage) -> PageError {
    move |damage| PageError::Damaged { page, damage }
}

/// The pages of one collection, for whoever holds the latch of its key.
pub trait Pages {
    /// A page that is being changed.
    type Edit<'a>: PageEdit
    where
        Self: 'a;

    /// The page's payload.
    fn read(&self, page: PageId) -> Result<&[u8], PageError>;

    /// The page, to be changed.
    fn edit(&mut self, page: PageId) -> Result<Self::Edit<'_>, PageError>;

    /// Creates a page that does not exist. Its name may have been used by a page removed before, even by this operation.
    fn add(&mut self, page: PageId, payload: &[u8]);

    /// Removes a page. [`read`](Self::read) has shown it, unless it is that of a long value, or has due times or pending entries: such a page
    /// may be away, and where an entry is damaged nowhere.
    fn remove(&mut self, page: PageId);

    /// True if [`read`](Self::read) would show the page: for work that may be left to a later operation.
    fn is_in_memory(&self, page: PageId) -> bool {
        self.read(page).is_ok()
    }
}

/// A payload that is being changed. Ranges are within the payload.
pub trait PageEdit {
    /// The payload as it is now.
    fn bytes(&self) -> &[u8];

    /// Puts `bytes` in place of as many bytes from `at` on.
    fn write(&mut self, at: usize, bytes: &[u8]);

    /// Puts `bytes` in place of those in `range`; what follows moves.
    fn splice(&mut self, range: Range<usize>, bytes: &[u8]);

    /// Announces several small changes of a payload that is not large: an owner that keeps what each of them replaces may
    /// keep the whole payload once.
    fn several(&mut self) {}

    /// Announces that the payload will go on growing: in a block of so many bytes it will be full.
    fn grows(&mut self, _whole_bytes: usize) {}

    /// Puts another payload in place of the whole.
    fn replace(&mut self, payload: &[u8]) {
        let len = self.bytes().len();
        self.splice(0..len, payload);
    }
}

/// A payload that nobody else holds: that of an inline collection.
impl PageEdit for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        self[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn splice(&mut self, range: Range<usize>, bytes: &[u8]) {
        let (old_len, tail) = (self.len(), range.end..self.len());
        let new_end = range.start + bytes.len();
        if bytes.len() > range.len() {
            self.resize(old_len + bytes.len() - range.len(), 0);
        }
        self.copy_within(tail.clone(), new_end);
        self.truncate(new_end + tail.len());
        self[range.start..new_end].copy_from_slice(bytes);
    }
}

impl<E: PageEdit> PageEdit for &mut E {
    fn bytes(&self) -> &[u8] {
        (**self).bytes()
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        (**self).write(at, bytes);
    }

    fn splice(&mut self, range: Range<usize>, bytes: &[u8]) {
        (**self).splice(range, bytes);
    }

    fn several(&mut self) {
        (**self).several();
    }

    fn grows(&mut self, whole_bytes: usize) {
        (**self).grows(whole_bytes);
    }

    fn replace(&mut self, payload: &[u8]) {
        (**self).replace(payload);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_splice_moves_what_follows() {
        for new in [b"".as_slice(), b"x", b"xy", b"xyz"] {
            for range in [0..0, 1..3, 0..6, 4..6, 6..6] {
                let mut payload = b"abcdef".to_vec();
                let expected = [&payload[..range.start], new, &payload[range.end..]].concat();
                PageEdit::splice(&mut payload, range, new);
                assert_eq!(payload, expected);
            }
        }
    }

    #[test]
    fn letters_name_their_parts() {
        for part in [
            PartKind::Hash,
            PartKind::Index,
            PartKind::Scores,
            PartKind::List,
            PartKind::Counts,
            PartKind::Nodes,
            PartKind::Stream,
            PartKind::Groups,
            PartKind::Pending,
            PartKind::PendingOf,
            PartKind::External,
            PartKind::Times,
            PartKind::Bytes,
        ] {
            assert_eq!(PartKind::of(part.letter()), Some(part));
        }
        assert_eq!(PartKind::of(b'E'), None);
    }
}

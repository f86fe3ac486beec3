//! A removal in pieces, kept from one run of its request to the next.

use crate::keyspace::paged::Paged;
use std::time::Instant;

/// A piece may be this part of what one load may read: changes of other pages belong to it.
const LOAD_SHARE: u64 = 8;

/// Bytes that an element takes besides its own.
const ELEMENT_BYTES: u64 = 16;

/// So often a piece becomes smaller because it could not be loaded; each time by [`SHRINKS_BY`].
const SHRINKS_MAX: u32 = 5;
const SHRINKS_BY: u64 = 4;

/// What earlier runs of a request have removed.
#[derive(Clone, Copy, Debug, Default)]
pub struct RemovedBefore {
    /// So many elements.
    pub elements: u64,
    /// What they have left for later ones, in the command's own terms; `None` in the first run.
    pub rest: Option<[u64; 2]>,
}

/// A removal of which a piece has gone, or is about to.
#[derive(Clone, Copy, Debug)]
pub struct Removal {
    /// The collection that the first piece was of.
    collection: u64,
    before: RemovedBefore,
    /// A piece has gone in this run.
    goes_on: bool,
    shrunk: u32,
    begun: Instant,
}

impl Removal {
    /// One from this collection, of which nothing has gone.
    #[must_use]
    pub fn new(paged: &Paged) -> Self {
        let (collection, before) = (paged.descriptor.collection, RemovedBefore::default());
        Self { collection, before, goes_on: false, shrunk: 0, begun: Instant::now() }
    }

    /// When its request began.
    #[must_use]
    pub fn begun(&self) -> Instant {
        self.begun
    }

    /// What has gone; `Err` with the number of elements if that was not of this collection.
    ///
    /// # Errors
    /// See above.
    pub fn before(&self, paged: Option<&Paged>) -> Result<RemovedBefore, u64> {
        let is_same = paged.is_some_and(|paged| paged.descriptor.collection == self.collection);
        let is_first = self.before.rest.is_none();
        if is_same || is_first { Ok(self.before) } else { Err(self.before.elements) }
    }

    /// Elements of a piece, where one load may read so many bytes.
    #[must_use]
    pub fn piece(&self, paged: &Paged, load_bytes: u64) -> u64 {
        let piece_bytes = load_bytes / LOAD_SHARE / SHRINKS_BY.pow(self.shrunk.min(SHRINKS_MAX));
        let totals = paged.descriptor.totals;
        let each_bytes = totals.bytes / totals.elements.max(1) + ELEMENT_BYTES;
        (piece_bytes / each_bytes).max(1)
    }

    /// A piece of so many elements has gone, and leaves this to be removed.
    pub fn note_piece(&mut self, elements: u64, rest: [u64; 2]) {
        self.before.elements += elements;
        self.before.rest = Some(rest);
        self.goes_on = true;
    }

    /// True once behind each piece: the request is to run again.
    pub fn take_goes_on(&mut self) -> bool {
        std::mem::take(&mut self.goes_on)
    }

    /// The last piece was too large to be loaded. False when smaller ones would not do either.
    pub fn shrink(&mut self) -> bool {
        self.shrunk += 1;
        self.shrunk <= SHRINKS_MAX
    }
}

//! Collections as sequences of small pages: the pure data structures, which know pages and positions and nothing else.
//!
//! | structure | parts | finds a page by |
//! |---|---|---|
//! | [`struct@Hash`]: hashes and sets | `h` | linear hashing of the key; pages with due keys by their earliest times, `t` |
//! | [`List`] | `l` | label; position by counts, `c` |
//! | [`LongString`]: strings | `b` | position |
//! | [`Stream`]: streams | `x` in order | a tree of nodes, `n` with `c`: ID |
//! | consumer groups of a stream | `g` each, `p` pending by ID, `q` by consumer | name; trees of nodes, `n` with `c` |
//! | [`Sorted`]: sorted sets | `s` in order, `i` by member | a tree of nodes, `n` with `c`: score and member, rank; linear hashing |
//!
//! `engine/FORMAT.md` documents the bytes. The holder of a collection provides its pages through [`Pages`], and hashes of
//! its keys, see [`hash_of`]: 64 bits that depend only on the bytes and the collection, since they determine where a key is
//! stored on a device. It keeps the values of a structure's fields in the collection's [`Descriptor`].
//!
//! Rules for all structures:
//!
//! - A missing page is reported before anything changes, and the operation restarts from its beginning.
//! - Maintenance work (a split, a merge, a join of two small pages) is skipped while its pages are not in memory. How full
//!   pages are is therefore never an invariant.
//! - A collection without elements is deleted as a whole, with any pages it has left.
//! - Bytes are not trusted. Damaged ones give [`PageError::Damaged`], which names page, place and expectation, or
//!   other elements; never a panic, and never an access outside the page.
//!
//! Nothing here is shared between threads: the caller holds the latch of the collection's key.

mod bytes;
pub mod descriptor;
pub mod external;
pub mod group_page;
pub mod hash;
mod hash_due;
pub mod hash_page;
pub mod index_page;
mod ints;
pub mod linear;
pub mod list;
pub mod list_page;
pub mod long_string;
mod parts;
pub mod pending_rows;
mod pieces;
mod rows;
mod score;
pub mod scores_page;
pub mod sorted;
mod store;
pub mod stream;
#[cfg(test)]
mod tests;
pub mod times;
mod tree;

pub use descriptor::{Descriptor, Named, Part};
pub use external::{Externals, Stored};
pub use hash::{Hash, HashSizes};
pub use ints::IntegerText;
pub use list::{End, List, ListSizes, Search};
pub use long_string::LongString;
pub use parts::Parts;
pub use score::Score;
pub use scores_page::{Cut, Scored};
pub use sorted::{PutScore, Sorted, SortedSizes};
pub use store::{Damage, PageEdit, PageError, PageId, Pages, PartKind};
pub use stream::Stream;
pub use times::Times;

/// Elements of a collection and the bytes that users gave for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Fields, members, or items.
    pub elements: u64,
    /// Their bytes, values included.
    pub bytes: u64,
}

impl Totals {
    fn add(&mut self, bytes: usize) {
        self.elements += 1;
        self.bytes += bytes as u64;
    }

    /// Damaged pages may hold more than was counted.
    fn remove(&mut self, bytes: usize) {
        self.elements = self.elements.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes as u64);
    }
}

/// Hash of a key or member under the seed of its collection. Clients must not learn the seed: with it they could direct
/// all their keys into one page.
#[must_use]
pub fn hash_of(seed: u64, bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64_with_seed(bytes, seed)
}

/// What a write found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// Nothing: the element is new.
    New,
    /// The element, which has another value now.
    Replaced,
}

/// Refuses what would make a page longer than offsets can say. Elements of a byte are counted as the most they take.
fn fits(payload_bytes: usize, element_bytes: usize) -> Result<(), PageError> {
    let most = payload_bytes.saturating_add(element_bytes).saturating_add(64);
    if u32::try_from(most).is_ok() {
        Ok(())
    } else {
        Err(PageError::TooLong { bytes: element_bytes })
    }
}

//! Names of pages: in commands of the layer above, in memory, and in the tree.

use crate::dram::{EntryRef, Located, Table};
use crate::key::{self, Key, Slot};

/// Bytes of a page's name in memory: collection, part, number. Behind kind and namespace it is the engine key.
pub(super) const NAME_BYTES: usize = 17;

/// Bytes of the collection in it.
const CID_BYTES: usize = 8;

/// Bits of a hash that choose the shard, see `store/shard.rs`.
const SHARD_BITS: u64 = 63 << 58;

/// Name of a page within its collection. What parts and numbers mean is the business of the layer above.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageName {
    /// Letter of the part.
    pub part: u8,
    /// Number or label of the page.
    pub number: u64,
}

/// A page's key in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageKey {
    slot: Slot,
    bytes: [u8; NAME_BYTES],
}

impl PageKey {
    pub(super) fn new(slot: Slot, cid: u64, page: PageName) -> Self {
        let mut bytes = [page.part; NAME_BYTES];
        bytes[..CID_BYTES].copy_from_slice(&cid.to_be_bytes());
        bytes[CID_BYTES + 1..].copy_from_slice(&page.number.to_be_bytes());
        Self { slot, bytes }
    }

    /// A page with this name in memory.
    pub(super) fn named(slot: Slot, bytes: [u8; NAME_BYTES]) -> Self {
        Self { slot, bytes }
    }

    /// The collection.
    pub(super) fn cid(&self) -> u64 {
        cid_of(&self.bytes).unwrap_or_default()
    }

    /// For the table of pages, whose entries are hashed again by their bytes.
    pub(super) fn in_table(&self) -> Key<'_> {
        self.in_table_at(key::hash(&self.bytes))
    }

    /// The same where its hash is known.
    pub(super) fn in_table_at(&self, hash: u64) -> Key<'_> {
        Key { slot: self.slot, bytes: &self.bytes, hash }
    }

    /// The page's entry, if it is at this place of the table.
    #[inline]
    pub(super) fn find_at<'t>(&self, table: &'t Table, at: Located) -> Option<EntryRef<'t>> {
        table.find_at(at, self.slot, &self.bytes)
    }

    /// A hash of the page that leads to the shard of its root.
    pub(super) fn hash_beside(&self, root_hash: u64) -> u64 {
        (root_hash & SHARD_BITS) | (key::hash(&self.bytes) & !SHARD_BITS)
    }

    /// What follows kind and namespace in the engine key.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// The collection that an entry of the table of pages belongs to.
pub(super) fn cid_of(entry_key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(*entry_key.first_chunk::<CID_BYTES>()?))
}

/// The head of a page's engine key, before its bytes in memory.
pub(super) fn head(namespace: u64) -> [u8; key::HEAD_BYTES] {
    let mut head = key::root_head(namespace);
    head[0] = key::KIND_ELEMENT;
    head
}

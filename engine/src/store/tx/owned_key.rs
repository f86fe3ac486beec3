//! A key that outlives the command it came with.

use crate::key::{Key, Slot};

/// A key that owns its bytes, for loads and waiters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OwnedKey {
    /// Namespace slot.
    pub slot: Slot,
    /// The user's bytes.
    pub bytes: Vec<u8>,
    /// Hash of the bytes.
    pub hash: u64,
}

impl OwnedKey {
    /// The borrowed form.
    #[must_use]
    pub fn as_key(&self) -> Key<'_> {
        Key { slot: self.slot, bytes: &self.bytes, hash: self.hash }
    }
}

//! Location of a record in memory.
#![allow(unsafe_code)]

/// Where a record of an arena begins in memory. Good as long as the arena lives; key and value follow its header of
/// [`RECORD_HEADER_BYTES`](super::RECORD_HEADER_BYTES).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PmemPosition(*const u8);

// SAFETY: only an address; whoever reads there holds the arena.
unsafe impl Send for PmemPosition {}
// SAFETY: as above.
unsafe impl Sync for PmemPosition {}

impl PmemPosition {
    /// Of a record whose header begins there.
    pub(super) fn new(address: *const u8) -> Self {
        Self(address)
    }

    /// The address of the record's header.
    #[must_use]
    pub fn address(self) -> *const u8 {
        self.0
    }
}

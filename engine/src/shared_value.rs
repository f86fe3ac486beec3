//! Values that a memtable and the DRAM table keep together: one copy, in memory touched once, for both.
//!
//! Memory that nobody had for a while is dear to touch (`docs/studies/notebook.md`), so a long value lies in a block of its
//! own. The block never changes; each place that refers to it holds one count of it as a plain address.
#![allow(unsafe_code)]

use std::sync::Arc;

/// Bytes of a value from which on a SET shares it. A shorter one is copied in less time than its block takes.
pub(crate) const SHARED_MIN_BYTES: usize = 512;

/// Bytes of what stands for the value where one is shared: the address of its bytes.
pub(crate) const ADDRESS_BYTES: usize = size_of::<u64>();

/// One count of a value's block.
#[derive(Clone, Debug)]
pub(crate) struct SharedValue(Arc<[u8]>);

impl SharedValue {
    /// Copies `value` into a block of its own.
    pub(crate) fn new(value: &[u8]) -> Self {
        Self(Arc::from(value))
    }

    /// The value.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Counts of it.
    #[cfg(test)]
    pub(crate) fn holders(&self) -> usize {
        Arc::strong_count(&self.0)
    }

    /// Where the value lies, as it stands in a record or an entry.
    pub(crate) fn address(&self) -> [u8; ADDRESS_BYTES] {
        (self.0.as_ptr().expose_provenance() as u64).to_ne_bytes()
    }

    /// Leaves the count with whoever keeps the address.
    pub(crate) fn into_address(self) -> [u8; ADDRESS_BYTES] {
        (Arc::into_raw(self.0).cast::<u8>().expose_provenance() as u64).to_ne_bytes()
    }

    /// Takes back the count that was left with an address.
    ///
    /// # Safety
    /// `address` came from [`Self::into_address`] of a value of `len` bytes, and is not used again.
    pub(crate) unsafe fn from_address(address: [u8; ADDRESS_BYTES], len: usize) -> Self {
        let start = std::ptr::with_exposed_provenance::<u8>(u64::from_ne_bytes(address) as usize);
        // SAFETY: the pointer and the length that into_raw had, by the caller's promise.
        Self(unsafe { Arc::from_raw(std::ptr::slice_from_raw_parts(start, len)) })
    }
}

/// The value at an address that stands in a record or an entry.
///
/// # Safety
/// Somebody holds a count of the value's block for as long as `'a`, and `len` is its length.
pub(crate) unsafe fn bytes_at<'a>(address: [u8; ADDRESS_BYTES], len: usize) -> &'a [u8] {
    let start = std::ptr::with_exposed_provenance::<u8>(u64::from_ne_bytes(address) as usize);
    // SAFETY: the caller's promise; the block never changes.
    unsafe { std::slice::from_raw_parts(start, len) }
}

/// A value on its way into an entry or a record.
#[derive(Clone, Copy)]
pub(crate) enum Value<'a> {
    /// To be copied there.
    Copied(&'a [u8]),
    /// To be referred to.
    Shared(&'a SharedValue),
}

impl<'a> Value<'a> {
    /// Its bytes.
    #[inline]
    pub(crate) fn bytes(self) -> &'a [u8] {
        match self {
            Self::Copied(bytes) => bytes,
            Self::Shared(value) => value.bytes(),
        }
    }

    /// Bytes that stand for it where it is kept.
    #[inline]
    pub(crate) fn stored_len(self) -> usize {
        match self {
            Self::Copied(bytes) => bytes.len(),
            Self::Shared(_) => ADDRESS_BYTES,
        }
    }
}

//! Asks for cache lines before they are needed. Nothing but the time changes by it, and any address may be asked for.
#![allow(unsafe_code)]

/// Bytes of a cache line.
pub(crate) const LINE_BYTES: usize = 64;

/// The line of this address will be read soon.
#[inline]
pub(crate) fn prefetch_line(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch does not access memory as far as the program can tell, and never faults.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// All lines from this address on, to where `bytes` end, will be read soon.
#[inline]
pub(crate) fn prefetch_lines(address: *const u8, bytes: usize) {
    let address = address as usize;
    for line in (address & !(LINE_BYTES - 1)..address + bytes).step_by(LINE_BYTES) {
        prefetch_line(line as *const u8);
    }
}

/// The lines from this address on, to where `bytes` end, will be written soon.
#[inline]
pub(crate) fn prefetch_for_write(address: *const u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    for ahead in (0..bytes).step_by(LINE_BYTES) {
        use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        // SAFETY: as in `prefetch_line`.
        unsafe { _mm_prefetch::<_MM_HINT_ET0>(address.wrapping_add(ahead).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (address, bytes);
}

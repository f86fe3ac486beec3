//! A hint for which the standard library has no safe form.
#![allow(unsafe_code)]

/// Bytes asked for: about as many as one small command has.
const AHEAD_BYTES: usize = 128;

/// The bytes of `buffer` from `at` on will be written soon.
pub(super) fn will_write(buffer: &[u8], at: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in buffer.iter().skip(at).take(AHEAD_BYTES).step_by(64) {
        use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        // SAFETY: a prefetch has no effect but on the caches.
        unsafe { _mm_prefetch::<_MM_HINT_ET0>(std::ptr::from_ref(line).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (buffer, at, AHEAD_BYTES);
}

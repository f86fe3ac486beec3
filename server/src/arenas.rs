//! When memory that was given back to the allocator goes on to the system.
#![allow(unsafe_code)]

use tikv_jemalloc_ctl::raw;

/// With a bound of memory a free stretch of this many bytes goes back to the system at once. What large values leave would
/// otherwise stay for a second, and a few of them are a good part of a small bound.
const BOUNDED_STRETCH_BYTES: usize = 1 << 20;

/// Without one, jemalloc's own default: fresh pages are dear.
const STRETCH_BYTES: usize = 8 << 20;

/// Tells all arenas that there are; new ones hear of it at the next call.
pub fn give_back_large_stretches(is_bounded: bool) {
    let bytes = if is_bounded { BOUNDED_STRETCH_BYTES } else { STRETCH_BYTES };
    // SAFETY: jemalloc describes it as an `unsigned`.
    let Ok(arenas) = (unsafe { raw::read::<u32>(b"arenas.narenas\0") }) else { return };
    let mut place = [0; 3];
    if raw::name_to_mib(b"arena.0.oversize_threshold\0", &mut place).is_err() {
        return;
    }
    for arena in 0..arenas as usize {
        place[1] = arena;
        // One that nobody has used yet answers an error.
        // SAFETY: jemalloc describes it as a `size_t`.
        let _ = unsafe { raw::write_mib(&place, bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_arena_that_is_used_hears_of_the_bound() {
        let threshold = || {
            // SAFETY: as above; the first arena is there from the start.
            unsafe { raw::read::<usize>(b"arena.0.oversize_threshold\0") }
        };
        give_back_large_stretches(true);
        assert_eq!(threshold(), Ok(BOUNDED_STRETCH_BYTES));
        give_back_large_stretches(false);
        assert_eq!(threshold(), Ok(STRETCH_BYTES));
    }
}

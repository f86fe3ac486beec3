//! When memory that was freed to the allocator is returned to the system.
#![allow(unsafe_code)]

use tikv_jemalloc_ctl::raw;

/// A `maxmemory` below this many bytes is a small bound.
const SMALL_BOUND_BYTES: u64 = 512 << 20;

/// Above the bound and this part of it, the resident set is too large, whatever it consists of.
const RESIDENT_MARGIN: u64 = 10;

/// Under a small bound a free extent of at least this many bytes is returned to the system at once. Extents freed by large
/// values would otherwise be kept for a second, and a few of them are a considerable part of the bound.
const SMALL_STRETCH_BYTES: usize = 1 << 20;

/// Otherwise jemalloc's own default: fresh pages are dear.
const STRETCH_BYTES: usize = 8 << 20;

/// All arenas at once, as jemalloc counts them.
const DECAY_OF_ALL: &[u8] = b"arena.4096.decay\0";
const PURGE_OF_ALL: &[u8] = b"arena.4096.purge\0";

/// Returns free memory to the system, depending on the memory bound (0: none). To be called often: new arenas are configured
/// at the next call, and under a small bound each call returns the pages whose decay time has passed. True if all of them were returned,
/// because the resident set is too large: nothing else should go for what nobody uses. A flood of writes would pay a tenth of its CPU for
/// fresh pages if that happened at the bound itself.
///
/// jemalloc returns nothing at once while its background threads do this work, which is cheaper for all other threads. So it has
/// these threads only if there is room for a second's garbage.
pub fn give_back(bound_bytes: u64, resident_bytes: u64) -> bool {
    let is_small = bound_bytes != 0 && bound_bytes < SMALL_BOUND_BYTES;
    let stretch_bytes = if is_small { SMALL_STRETCH_BYTES } else { STRETCH_BYTES };
    let in_background = !is_small;
    // SAFETY: jemalloc describes it as a `bool`.
    if unsafe { raw::read(b"background_thread\0") } != Ok(in_background) {
        // SAFETY: as above.
        let _ = unsafe { raw::write(b"background_thread\0", in_background) };
    }
    // SAFETY: jemalloc describes it as an `unsigned`.
    let Ok(arenas) = (unsafe { raw::read::<u32>(b"arenas.narenas\0") }) else { return false };
    let mut place = [0; 3];
    if raw::name_to_mib(b"arena.0.oversize_threshold\0", &mut place).is_err() {
        return false;
    }
    for arena in 0..arenas as usize {
        place[1] = arena;
        // An unused arena returns an error.
        // SAFETY: jemalloc describes it as a `size_t`.
        let _ = unsafe { raw::write_mib(&place, stretch_bytes) };
    }
    let is_too_large =
        bound_bytes != 0 && resident_bytes > bound_bytes + bound_bytes / RESIDENT_MARGIN;
    if is_too_large {
        call(PURGE_OF_ALL);
    } else if is_small {
        call(DECAY_OF_ALL);
    }
    is_too_large
}

/// Gives back every page that is free, now (MEMORY PURGE).
pub fn give_back_everything() {
    call(PURGE_OF_ALL);
}

/// Calls the mallctl of a name that has neither input nor output.
fn call(name: &[u8]) {
    debug_assert_eq!(name.last(), Some(&0));
    let nothing = std::ptr::null_mut();
    // SAFETY: the name ends with a zero byte, and null pointers say that there is nothing to read or write.
    let _ = unsafe {
        tikv_jemalloc_sys::mallctl(name.as_ptr().cast(), nothing, nothing.cast(), nothing, 0)
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of a stretch that is taken, touched and given back, above what a small bound tolerates.
    const FREED_BYTES: usize = 6 << 20;

    /// Unused pages that the process still holds in the arena of this number.
    fn unused_pages(arena: u32) -> usize {
        tikv_jemalloc_ctl::epoch::advance().unwrap();
        // SAFETY: jemalloc describes it as a `size_t`.
        unsafe { raw::read(format!("stats.arenas.{arena}.pdirty\0").as_bytes()) }.unwrap()
    }

    #[test]
    fn large_stretches_leave_at_once_under_a_small_bound_and_above_it() {
        // An arena of its own, which no other test uses.
        // SAFETY: jemalloc describes both as an `unsigned`.
        let arena: u32 = unsafe { raw::read(b"arenas.create\0") }.unwrap();
        // SAFETY: as above.
        let before: u32 = unsafe { raw::update(b"thread.arena\0", arena) }.unwrap();
        let leave_a_stretch = || drop(std::hint::black_box(vec![1_u8; FREED_BYTES]));
        give_back(64 << 20, 0);
        leave_a_stretch();
        let under_a_small_bound = unused_pages(arena);
        give_back(0, 0);
        leave_a_stretch();
        let without_a_bound = unused_pages(arena);
        let is_too_large = give_back(64 << 20, 72 << 20);
        let above_the_bound = unused_pages(arena);
        give_back(0, 0);
        leave_a_stretch();
        give_back_everything();
        let purged = unused_pages(arena);
        // SAFETY: as above.
        unsafe { raw::write(b"thread.arena\0", before) }.unwrap();
        let stretch = FREED_BYTES / 4096;
        assert!(under_a_small_bound < stretch, "{under_a_small_bound}");
        assert!(without_a_bound >= stretch, "{without_a_bound}");
        assert!(is_too_large && above_the_bound < stretch, "{above_the_bound}");
        assert!(purged < stretch, "{purged}");
    }
}

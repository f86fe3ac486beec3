//! CPU time of the whole process, background threads included.
#![allow(unsafe_code)]

/// Nanoseconds of CPU that all threads of this process have used, those that have ended included.
pub(crate) fn process_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec for the call to fill in; the clock exists on every Linux.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) } != 0;
    if failed { 0 } else { time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64 }
}

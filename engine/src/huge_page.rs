//! Huge pages for fresh memory, while the system provides them cheaply.
//!
//! With a huge page a look-up has fewer TLB misses. Its first touch clears 2 MB, which takes some 0.2 ms. If
//! memory has to be compacted for it, or a hypervisor has taken back free memory of the guest (free page reporting does
//! that with whole huge pages only), it takes 5 ms instead, in which a worker serves nobody, and one page after another
//! does so. Small pages then cost a fraction.
#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Size of a huge page.
pub(crate) const HUGE_PAGE_BYTES: usize = 2 << 20;

/// First touch of a huge page from which on it counts as slow: 2 us for each small page it stands for.
const SLOW: Duration = Duration::from_millis(1);

/// How many pieces of memory are left in small pages after a slow one, before another is tried: 256 MB.
const SMALL_AFTER_SLOW: u32 = 128;

/// What is asked for next.
struct Choice {
    small_left: AtomicU32,
}

impl Choice {
    const fn new() -> Self {
        Self { small_left: AtomicU32::new(0) }
    }

    fn takes_huge(&self) -> bool {
        let used = |left: u32| left.checked_sub(1);
        self.small_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, used).is_err()
    }

    fn note(&self, first_touch: Duration) {
        if first_touch >= SLOW {
            self.small_left.store(SMALL_AFTER_SLOW, Ordering::Relaxed);
        }
    }
}

/// The memory is the system's, so all stores of a process choose together.
static CHOICE: Choice = Choice::new();

/// Asks for huge pages. Advisory: failure is harmless.
///
/// # Safety
/// The caller's own memory, whole pages of it.
pub(crate) unsafe fn wish(start: NonNull<u8>, bytes: usize) {
    // SAFETY: by the contract; the advice changes no content.
    unsafe { libc::madvise(start.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE) };
}

/// Asks for one huge page behind fresh memory, when they are cheap: true then, and whoever uses the memory first is to
/// [touch](first_touch) it.
///
/// # Safety
/// `start` is aligned to [`HUGE_PAGE_BYTES`] and begins as many bytes of the caller's own.
pub(crate) unsafe fn wish_if_cheap(start: NonNull<u8>) -> bool {
    let takes_huge = CHOICE.takes_huge();
    if takes_huge {
        // SAFETY: by the contract.
        unsafe { wish(start, HUGE_PAGE_BYTES) };
    }
    takes_huge
}

/// Touches a huge page that was asked for, and notes how long the system took to clear it.
///
/// # Safety
/// The byte at `start` is the caller's own, and zero already if anybody is to find zeros there.
pub(crate) unsafe fn first_touch(start: NonNull<u8>) {
    let began = thread_time();
    // SAFETY: by the contract.
    unsafe { start.as_ptr().write_volatile(0) };
    CHOICE.note(thread_time().saturating_sub(began));
}

/// Time that the calling thread has run: to be preempted does not make a page slow.
fn thread_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills the structure it is given.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::{Choice, Duration, SLOW, SMALL_AFTER_SLOW};

    #[test]
    fn after_a_slow_huge_page_small_ones_are_taken_for_a_while() {
        let choice = Choice::new();
        for _ in 0..10 {
            assert!(choice.takes_huge());
            choice.note(SLOW - Duration::from_nanos(1));
        }
        assert!(choice.takes_huge());
        choice.note(SLOW);
        for _ in 0..SMALL_AFTER_SLOW {
            assert!(!choice.takes_huge());
        }
        assert!(choice.takes_huge(), "then another one is tried");
        choice.note(Duration::ZERO);
        assert!(choice.takes_huge());
    }
}

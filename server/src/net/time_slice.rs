//! How long the kernel's scheduler lets a worker run at a time.
//!
//! A thread that wakes up takes the processor from one that runs only if it asks for a shorter time slice (Linux 6.12 and later, EEVDF).
//! With equal slices a request waits for the 3 ms that the kernel gives a flush or a merge. A worker takes no more of the processor by
//! this: it has its share in smaller pieces.
#![allow(unsafe_code)]

use std::mem::size_of;

/// The slice of a worker. The least that the kernel accepts is 0.1 ms.
const WORKER_SLICE_NS: u64 = 200_000;

/// What the kernel knows of the calling thread; `None` where it does not say.
fn attributes() -> Option<libc::sched_attr> {
    // SAFETY: the type is a structure of integers, for which zeros are values.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    let bytes = size_of::<libc::sched_attr>();
    // SAFETY: the kernel writes at most so many bytes; 0 names the calling thread.
    let failed =
        unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, bytes, 0) };
    (failed == 0).then_some(attributes)
}

/// The calling thread asks for short slices. Nothing happens on kernels that do not know them, and to a thread for whose policy somebody
/// else has cared.
pub(super) fn ask_for_short() {
    let Some(mut attributes) = attributes() else { return };
    if attributes.sched_policy != libc::SCHED_OTHER as u32 || attributes.sched_runtime == 0 {
        return;
    }
    attributes.sched_runtime = WORKER_SLICE_NS;
    // SAFETY: the kernel reads the structure, which says how long it is. A refusal changes nothing.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_has_the_slice_that_it_has_asked_for() {
        let before = attributes().expect("the kernel tells a thread about itself");
        let slice_ns = || {
            ask_for_short();
            attributes().map(|now| (now.sched_runtime, now.sched_policy, now.sched_nice))
        };
        let after = std::thread::spawn(slice_ns).join().unwrap();
        // Kernels before 6.12 have no slices of threads.
        let slice_ns = if before.sched_runtime == 0 { 0 } else { WORKER_SLICE_NS };
        assert_eq!(after, Some((slice_ns, before.sched_policy, before.sched_nice)));
        assert_eq!(attributes().map(|now| now.sched_runtime), Some(before.sched_runtime));
    }
}

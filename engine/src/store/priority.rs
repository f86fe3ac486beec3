//! How important the I/O of a background thread is to the operating system.
#![allow(unsafe_code)]

/// Lets the calling thread's reads and writes of the device go behind those of others, where the device's
/// scheduler knows priorities: best effort, the lowest of eight. A wish: it may be refused.
pub(super) fn lower_io_priority() {
    #[cfg(target_os = "linux")]
    {
        const WHO_PROCESS: libc::c_int = 1;
        const THIS_THREAD: libc::c_int = 0;
        const BEST_EFFORT_LOWEST: libc::c_int = 2 << 13 | 7;
        // SAFETY: the call takes three integers and touches no memory of ours.
        unsafe {
            libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, THIS_THREAD, BEST_EFFORT_LOWEST)
        };
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #[test]
    fn a_thread_lowers_its_own_priority_only() {
        let of_this_thread = || {
            // SAFETY: the call takes two integers and touches no memory of ours.
            unsafe { libc::syscall(libc::SYS_ioprio_get, 1, 0) }
        };
        let before = of_this_thread();
        let lowered = std::thread::spawn(move || {
            super::lower_io_priority();
            of_this_thread()
        });
        assert_eq!(lowered.join().unwrap(), 2 << 13 | 7);
        assert_eq!(of_this_thread(), before);
    }
}

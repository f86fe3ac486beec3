//! CPU time, from getrusage(2).
#![allow(unsafe_code)]

/// The process whose CPU time is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuOf {
    /// All threads of this process.
    Process,
    /// Children that have ended.
    Children,
    /// The calling thread.
    Thread,
}

/// CPU seconds used so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuTimes {
    /// In the kernel.
    pub system_s: f64,
    /// Outside of it.
    pub user_s: f64,
}

/// CPU time used so far; zeros if the system does not provide it.
#[must_use]
pub fn cpu_times(of: CpuOf) -> CpuTimes {
    let who = match of {
        CpuOf::Process => libc::RUSAGE_SELF,
        CpuOf::Children => libc::RUSAGE_CHILDREN,
        CpuOf::Thread => libc::RUSAGE_THREAD,
    };
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is valid for one rusage, which the call fills or leaves as it is.
    let result = unsafe { libc::getrusage(who, usage.as_mut_ptr()) };
    if result != 0 {
        return CpuTimes::default();
    }
    // SAFETY: rusage holds integers only, for which zeros are valid.
    let usage = unsafe { usage.assume_init() };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    CpuTimes { system_s: seconds(usage.ru_stime), user_s: seconds(usage.ru_utime) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_used_at_least_what_this_thread_used() {
        let thread = cpu_times(CpuOf::Thread);
        let process = cpu_times(CpuOf::Process);
        let total = |times: CpuTimes| times.system_s + times.user_s;
        assert!(total(process) > 0.0);
        assert!(total(process) >= total(thread));
    }
}

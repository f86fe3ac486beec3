//! Steps that a test can make the short path skip, to check that the comparison with the long path notices. A product build
//! skips none, and contains no trace of the check.

/// A step of the short way that is easily forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Writes are put off while writers must wait (N14).
    Pacing,
    /// Slow requests are added to the slow log.
    SlowLog,
    /// Watchers are notified of a plain SET's change.
    Watch,
    /// Requests on one key share a transaction.
    Joining,
}

/// True where the thread leaves the step out.
#[cfg(not(test))]
#[inline(always)]
pub(super) const fn left_out(_: Step) -> bool {
    false
}

#[cfg(test)]
thread_local! {
    static LEFT_OUT: std::cell::Cell<Option<Step>> = const { std::cell::Cell::new(None) };
}

/// True where the thread leaves the step out.
#[cfg(test)]
pub(super) fn left_out(step: Step) -> bool {
    LEFT_OUT.get() == Some(step)
}

/// The result of `run` if the short path skips `step`.
#[cfg(test)]
pub(crate) fn leaving_out<R>(step: Option<Step>, run: impl FnOnce() -> R) -> R {
    let before = LEFT_OUT.replace(step);
    let answer = run();
    LEFT_OUT.set(before);
    answer
}

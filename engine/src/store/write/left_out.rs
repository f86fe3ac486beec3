//! Steps that a test makes a self-committing put skip, to verify that the comparison with the other commit
//! notices. A product build skips none, and contains no trace of the check.

/// A step of a put that commits by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum Step {
    /// The pace of writers hears of what was written.
    Pacing,
    /// Replies about the key wait for the write (N13).
    LastWrite,
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

/// What `run` answers where such a put leaves `step` out.
#[cfg(test)]
pub(in crate::store) fn leaving_out<R>(step: Step, run: impl FnOnce() -> R) -> R {
    let before = LEFT_OUT.replace(Some(step));
    let answer = run();
    LEFT_OUT.set(before);
    answer
}

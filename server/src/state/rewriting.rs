//! The state of rewrites: the current one, and the result of the last one.

use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Pauses after failures in a row double from here, as in Redis.
const RETRY_FIRST: Duration = Duration::from_secs(60);

/// The longest of them.
const RETRY_LONGEST: Duration = Duration::from_secs(60 * 60);

#[derive(Debug, Default)]
struct State {
    running_since: Option<Instant>,
    /// The thread has not taken it up yet.
    wanted: bool,
    failed: bool,
    last_took_s: Option<u64>,
    rewrites: u64,
    failures_in_a_row: u32,
    no_retry_before: Option<Instant>,
}

/// The rewrites of a server.
#[derive(Debug, Default)]
pub struct Rewriting {
    state: Mutex<State>,
    changed: Condvar,
    stop: AtomicBool,
}

/// The figures of INFO persistence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RewritingView {
    /// Seconds the one that runs has taken so far.
    pub current_s: Option<u64>,
    /// Whether the last one succeeded.
    pub last_ok: bool,
    /// Seconds it took.
    pub last_took_s: Option<u64>,
    /// How many were begun.
    pub rewrites: u64,
    /// Failures since the last success.
    pub failures_in_a_row: u32,
}

impl Rewriting {
    /// Hands a rewrite to its thread; false while another one runs.
    pub fn start(&self) -> bool {
        self.begin(true)
    }

    /// Begins a rewrite that the caller performs and ends with [`Rewriting::end`]; false while another one runs.
    pub(crate) fn start_here(&self) -> bool {
        self.begin(false)
    }

    fn begin(&self, wanted: bool) -> bool {
        let mut state = self.state.lock();
        if state.running_since.is_some() {
            return false;
        }
        state.running_since = Some(Instant::now());
        state.wanted = wanted;
        state.rewrites += 1;
        self.changed.notify_all();
        true
    }

    /// As [`start`](Self::start), but not soon after a failure.
    pub(crate) fn start_by_itself(&self) -> bool {
        let too_soon = |state: &State| state.no_retry_before.is_some_and(|at| Instant::now() < at);
        let refused = too_soon(&self.state.lock());
        !refused && self.start()
    }

    /// Waits for up to `timeout` until there is one for the thread.
    pub(crate) fn take_wanted(&self, timeout: Duration) -> bool {
        let mut state = self.state.lock();
        if !state.wanted {
            self.changed.wait_for(&mut state, timeout);
        }
        std::mem::take(&mut state.wanted)
    }

    /// The one that runs has ended.
    pub(crate) fn end(&self, succeeded: bool) {
        let mut state = self.state.lock();
        state.last_took_s = state.running_since.take().map(|since| since.elapsed().as_secs());
        state.failed = !succeeded;
        if succeeded {
            state.failures_in_a_row = 0;
            state.no_retry_before = None;
        } else {
            let doubled = RETRY_FIRST * 2_u32.saturating_pow(state.failures_in_a_row.min(16));
            state.failures_in_a_row += 1;
            state.no_retry_before = Instant::now().checked_add(doubled.min(RETRY_LONGEST));
        }
    }

    /// The server ends: so does the rewrite that runs.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// The figures of INFO.
    #[must_use]
    pub fn view(&self) -> RewritingView {
        let state = self.state.lock();
        RewritingView {
            current_s: state.running_since.map(|since| since.elapsed().as_secs()),
            last_ok: !state.failed,
            last_took_s: state.last_took_s,
            rewrites: state.rewrites,
            failures_in_a_row: state.failures_in_a_row,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_and_not_soon_after_a_failure() {
        let rewriting = Rewriting::default();
        assert!(rewriting.start());
        assert!(!rewriting.start(), "one runs");
        assert!(rewriting.take_wanted(Duration::ZERO));
        assert!(!rewriting.take_wanted(Duration::ZERO));
        rewriting.end(false);
        assert!(!rewriting.start_by_itself(), "it has just failed");
        assert!(rewriting.start(), "who asks gets another try");
        rewriting.end(false);
        let view = rewriting.view();
        assert_eq!((view.rewrites, view.failures_in_a_row, view.last_ok), (2, 2, false));
        assert!(rewriting.start());
        rewriting.end(true);
        assert!(rewriting.start_by_itself());
        assert_eq!(rewriting.view().failures_in_a_row, 0);
    }
}

//! Helper threads for commands that may block on I/O (SCAN, KEYS, SAVE, DEBUG...).

use crate::commands::table;
use crate::dispatch::Executor;
use crate::scripting::STACK_BYTES;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

type Job = Box<dyn FnOnce(&mut Executor) + Send>;

/// Threads that are always there.
const THREADS_MIN: usize = 2;

/// Maximum number of threads; beyond it jobs queue. Most jobs wait for a device, not for a processor.
const THREADS_MAX: usize = 32;

/// An idle thread beyond the minimum number ends after this time, and one of several that take turns if one fewer would have done for so long.
const IDLE: Duration = Duration::from_secs(10);

/// Threads that run jobs in order of arrival: as many threads as jobs, within bounds, so that slow jobs do not
/// delay others.
#[derive(Clone)]
pub(super) struct HelperPool(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
    /// The fewest threads that had nothing to do whenever a job came in this period, and when the period began.
    spare: Option<(usize, Instant)>,
}

impl State {
    /// A job has come, and is among the jobs.
    fn note_job(&mut self, now: Instant) {
        let spare = self.idle.saturating_sub(self.jobs.len());
        let (fewest, begun) = self.spare.unwrap_or((spare, now));
        self.spare = Some((fewest.min(spare), begun));
    }

    /// True once for each period in which one thread fewer would have done: who is woken in turn is never idle for long.
    fn has_spare(&mut self, now: Instant) -> bool {
        let Some((fewest, begun)) = self.spare else { return false };
        if now.saturating_duration_since(begun) < IDLE {
            return false;
        }
        self.spare = None;
        fewest > 0
    }
}

impl HelperPool {
    /// Starts the first threads. They live as long as the process.
    ///
    /// # Errors
    /// A thread could not be made.
    pub(super) fn start() -> io::Result<Self> {
        let pool = Self(Arc::new(Shared { state: Mutex::default(), arrived: Condvar::new() }));
        for _ in 0..THREADS_MIN {
            pool.0.state.lock().threads += 1;
            pool.add_thread()?;
        }
        Ok(pool)
    }

    /// Runs `job` on one of the threads.
    pub(super) fn run(&self, job: impl FnOnce(&mut Executor) + Send + 'static) {
        let mut state = self.0.state.lock();
        state.jobs.push_back(Box::new(job));
        state.note_job(Instant::now());
        let grows = state.jobs.len() > state.idle && state.threads < THREADS_MAX;
        state.threads += usize::from(grows);
        drop(state);
        self.0.arrived.notify_one();
        // Without another thread the job waits for those that are there.
        if grows && self.add_thread().is_err() {
            self.0.state.lock().threads -= 1;
        }
    }

    /// The thread is counted by the caller.
    fn add_thread(&self) -> io::Result<()> {
        let pool = self.clone();
        std::thread::Builder::new()
            .name("helper".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || pool.serve())?;
        Ok(())
    }

    fn serve(&self) {
        let mut executor = Executor::new(table::table(), 0, true);
        while let Some(job) = self.next() {
            // Jobs answer for their own panics; this thread belongs to all of them.
            if catch_unwind(AssertUnwindSafe(|| job(&mut executor))).is_err() {
                executor = Executor::new(table::table(), 0, true);
            }
        }
    }

    /// `None`: the thread is not needed any more.
    fn next(&self) -> Option<Job> {
        let mut state = self.0.state.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            if state.threads > THREADS_MIN && state.has_spare(Instant::now()) {
                state.threads -= 1;
                return None;
            }
            state.idle += 1;
            let waited = self.0.arrived.wait_for(&mut state, IDLE);
            state.idle -= 1;
            if waited.timed_out() && state.jobs.is_empty() && state.threads > THREADS_MIN {
                state.threads -= 1;
                return None;
            }
        }
    }
}

impl std::fmt::Debug for HelperPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.0.state.lock();
        f.debug_struct("HelperPool").field("threads", &state.threads).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, channel};

    /// Starts jobs that block until they are told to end.
    fn block(pool: &HelperPool, jobs: usize) -> (Vec<std::sync::mpsc::Sender<()>>, Receiver<()>) {
        let (begun, all_begun) = channel();
        let end = (0..jobs).map(|_| {
            let (end, told) = channel::<()>();
            let begun = begun.clone();
            pool.run(move |_| {
                // The test may have failed and ended.
                let _ = begun.send(());
                let _ = told.recv();
            });
            end
        });
        (end.collect(), all_begun)
    }

    #[test]
    fn slow_jobs_do_not_keep_others_waiting() {
        let pool = HelperPool::start().expect("threads");
        let (_end, begun) = block(&pool, THREADS_MAX - 1);
        let (done, is_done) = channel();
        pool.run(move |_| done.send(()).expect("the test waits"));
        is_done.recv_timeout(Duration::from_secs(60)).expect("it runs beside the slow ones");
        for _ in 0..THREADS_MAX - 1 {
            begun.recv_timeout(Duration::from_secs(60)).expect("all run at once");
        }
        assert!(pool.0.state.lock().threads <= THREADS_MAX);
    }

    #[test]
    fn threads_that_take_turns_become_fewer_if_one_fewer_would_do() {
        let (begun, mut state) = (Instant::now(), State { threads: 5, ..State::default() });
        let later = |seconds| begun + Duration::from_secs(seconds);
        let comes = |state: &mut State, idle, seconds| {
            state.idle = idle;
            state.jobs.push_back(Box::new(|_| {}));
            state.note_job(later(seconds));
            state.jobs.clear();
        };
        assert!(!state.has_spare(later(60)), "nothing is known");
        (0..9).for_each(|second| comes(&mut state, 2 + second as usize % 3, second));
        assert!(!state.has_spare(later(9)), "not yet");
        assert!(state.has_spare(later(10)), "one of two was enough");
        assert!(!state.has_spare(later(11)), "once a period");
        comes(&mut state, 3, 20);
        comes(&mut state, 1, 25);
        assert!(!state.has_spare(later(31)), "all were needed once");
    }

    #[test]
    fn a_panic_takes_no_thread_away() {
        let pool = HelperPool::start().expect("threads");
        for _ in 0..4 * THREADS_MAX {
            pool.run(|_| panic!("a test's own panic"));
        }
        let (done, is_done) = channel();
        pool.run(move |_| done.send(()).expect("the test waits"));
        is_done.recv_timeout(Duration::from_secs(60)).expect("a thread is left");
    }
}

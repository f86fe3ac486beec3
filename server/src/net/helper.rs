//! Helper threads for commands that may block on I/O (SCAN, KEYS, DEBUG...).

use crate::command::dispatch::Executor;
use parking_lot::Mutex;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};

type Job = Box<dyn FnOnce(&mut Executor) + Send>;

/// A few threads that run jobs in the order they came.
#[derive(Debug)]
pub(super) struct HelperPool {
    jobs: Mutex<mpsc::Sender<Job>>,
}

impl HelperPool {
    /// Starts `threads` threads; they end when the pool is dropped.
    pub(super) fn start(threads: usize) -> io::Result<Self> {
        let (sender, receiver) = mpsc::channel::<Job>();
        let receiver = Arc::new(Mutex::new(receiver));
        for number in 0..threads {
            let receiver = Arc::clone(&receiver);
            std::thread::Builder::new().name(format!("helper-{number}")).spawn(move || {
                let mut executor = Executor::new(number, true);
                loop {
                    // The lock is let go before the job runs.
                    let job = receiver.lock().recv();
                    let Ok(job) = job else { return };
                    // Jobs answer for their own panics; this thread belongs to all of them.
                    if catch_unwind(AssertUnwindSafe(|| job(&mut executor))).is_err() {
                        executor = Executor::new(number, true);
                    }
                }
            })?;
        }
        Ok(Self { jobs: Mutex::new(sender) })
    }

    /// Runs `job` on one of the threads.
    pub(super) fn run(&self, job: impl FnOnce(&mut Executor) + Send + 'static) {
        // The threads live as long as the sender: sending cannot fail.
        let _ = self.jobs.lock().send(Box::new(job));
    }
}

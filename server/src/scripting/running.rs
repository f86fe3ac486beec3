//! Scripts that take long: who runs, which shards they hold, and ending them.

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A script that runs on a thread of its own.
#[derive(Debug)]
pub struct Running {
    since: Instant,
    /// Its shards' latches, a bit each.
    shards: u64,
    /// Set by who kills it.
    pub kill: Arc<AtomicBool>,
    /// It has written: it cannot be killed any more.
    pub has_written: AtomicBool,
    /// The server ends: what it has written does not count.
    pub is_given_up: AtomicBool,
}

/// Why no script was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotKilled {
    /// None runs.
    NothingRuns,
    /// All that run have written.
    HasWritten,
}

/// The scripts that run on threads of their own.
#[derive(Debug, Default)]
pub struct RunningScripts {
    all: Mutex<Vec<Arc<Running>>>,
    occupied: AtomicU64,
}

/// The shards of a running script are occupied while this lives.
pub struct Occupied<'a> {
    scripts: &'a RunningScripts,
    /// The script.
    pub running: Arc<Running>,
}

impl RunningScripts {
    /// A script is about to take these latches and to run.
    pub fn start(&self, shards: u64) -> Occupied<'_> {
        let running = Arc::new(Running {
            since: Instant::now(),
            shards,
            kill: Arc::default(),
            has_written: AtomicBool::new(false),
            is_given_up: AtomicBool::new(false),
        });
        let mut all = self.all.lock();
        all.push(Arc::clone(&running));
        self.note(&all);
        drop(all);
        Occupied { scripts: self, running }
    }

    fn note(&self, all: &[Arc<Running>]) {
        let shards = all.iter().fold(0, |shards, running| shards | running.shards);
        self.occupied.store(shards, Ordering::SeqCst);
    }

    /// The shards that are held, or waited for, by scripts that may take long.
    #[must_use]
    pub fn occupied(&self) -> &AtomicU64 {
        &self.occupied
    }

    /// True while any runs.
    #[must_use]
    #[inline]
    pub fn is_any(&self) -> bool {
        self.occupied.load(Ordering::Relaxed) != 0
    }

    /// For how long the oldest has been running.
    #[must_use]
    pub fn longest(&self) -> Option<Duration> {
        self.all.lock().iter().map(|running| running.since.elapsed()).max()
    }

    /// The server ends: scripts are ended whatever they have written, and nothing of them stays.
    pub fn give_up(&self) {
        for running in self.all.lock().iter() {
            running.is_given_up.store(true, Ordering::Release);
            running.kill.store(true, Ordering::Release);
        }
    }

    /// SCRIPT KILL: all that have written nothing are told to end.
    ///
    /// # Errors
    /// None could be told.
    pub fn kill(&self) -> Result<(), NotKilled> {
        let all = self.all.lock();
        if all.is_empty() {
            return Err(NotKilled::NothingRuns);
        }
        let mut any = false;
        for running in all.iter() {
            if !running.has_written.load(Ordering::Acquire) {
                running.kill.store(true, Ordering::Release);
                any = true;
            }
        }
        if any { Ok(()) } else { Err(NotKilled::HasWritten) }
    }
}

impl Drop for Occupied<'_> {
    fn drop(&mut self) {
        let mut all = self.scripts.all.lock();
        all.retain(|other| !Arc::ptr_eq(other, &self.running));
        self.scripts.note(&all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_free_when_the_last_script_on_them_has_ended() {
        let scripts = RunningScripts::default();
        let first = scripts.start(0b011);
        let second = scripts.start(0b110);
        assert_eq!(scripts.occupied().load(Ordering::Relaxed), 0b111);
        first.running.has_written.store(true, Ordering::Release);
        assert_eq!(scripts.kill(), Ok(()));
        assert!(second.running.kill.load(Ordering::Relaxed));
        assert!(!first.running.kill.load(Ordering::Relaxed));
        drop(second);
        assert_eq!(scripts.occupied().load(Ordering::Relaxed), 0b011);
        assert_eq!(scripts.kill(), Err(NotKilled::HasWritten));
        drop(first);
        assert_eq!(scripts.kill(), Err(NotKilled::NothingRuns));
        assert!(!scripts.is_any());
    }
}

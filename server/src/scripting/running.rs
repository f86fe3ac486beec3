//! Long-running scripts, and other requests that take long: which ones run, the shards they hold, and how scripts are ended.

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A script that runs on a dedicated thread, or another request that takes long there.
#[derive(Debug)]
pub struct Running {
    since: Instant,
    is_script: bool,
    /// Its shards' latches, a bit each.
    shards: u64,
    /// Set from outside to stop the script.
    pub kill: Arc<AtomicBool>,
    /// It has written: it cannot be killed any more.
    pub has_written: AtomicBool,
    /// The server ends: what it has written does not count.
    pub is_given_up: AtomicBool,
    /// What it runs now.
    work: Mutex<Option<Work>>,
}

/// What runs.
#[derive(Clone, Debug)]
pub enum Work {
    /// A script.
    Script,
    /// A function.
    Function(Call),
}

/// A call of a function.
#[derive(Clone, Debug)]
pub struct Call {
    /// The function's name.
    pub name: Vec<u8>,
    /// The request.
    pub request: Vec<Vec<u8>>,
    /// When it began.
    pub since: Instant,
}

impl Running {
    /// It runs this from now on, or nothing: it has ended, waits, or is a transaction between two of its commands.
    pub fn works_on(&self, work: Option<Work>) {
        *self.work.lock() = work;
    }

    /// Whether it runs a function, where it runs anything.
    fn is_function(&self) -> Option<bool> {
        self.work.lock().as_ref().map(|work| matches!(work, Work::Function(_)))
    }

    fn call(&self) -> Option<Call> {
        match &*self.work.lock() {
            Some(Work::Function(call)) => Some(call.clone()),
            _ => None,
        }
    }
}

/// Why no script was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotKilled {
    /// None runs.
    NothingRuns,
    /// All that run have written.
    HasWritten,
    /// What runs are functions, and a script was to be killed, or the other way round.
    OtherKind,
}

/// How far the server has come with ending. Stages follow each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Ending {
    /// It goes on.
    #[default]
    No,
    /// What waits for other servers waits no longer.
    Hurries,
    /// Scripts are ended, and nothing of them stays.
    GivesUp,
}

impl Running {
    fn hear(&self, ending: Ending) {
        let gives_up = ending == Ending::GivesUp;
        if gives_up {
            self.is_given_up.store(true, Ordering::Release);
        }
        if gives_up || (ending == Ending::Hurries && !self.is_script) {
            self.kill.store(true, Ordering::Release);
        }
    }
}

#[derive(Debug, Default)]
struct All {
    running: Vec<Arc<Running>>,
    /// What begins hears it, too.
    ending: Ending,
}

/// The scripts that run on threads of their own.
#[derive(Debug, Default)]
pub struct RunningScripts {
    all: Mutex<All>,
    occupied: AtomicU64,
    /// `DEBUG SET-DISABLE-DENY-SCRIPTS`: scripts may call what is not meant for them.
    pub allows_all: AtomicBool,
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
        self.occupy(shards, true)
    }

    /// The same for another request that takes long: no command ends it, and who waits for it is not told BUSY.
    pub fn start_other(&self, shards: u64) -> Occupied<'_> {
        self.occupy(shards, false)
    }

    fn occupy(&self, shards: u64, is_script: bool) -> Occupied<'_> {
        let running = Arc::new(Running {
            since: Instant::now(),
            is_script,
            shards,
            kill: Arc::default(),
            has_written: AtomicBool::new(false),
            is_given_up: AtomicBool::new(false),
            work: Mutex::default(),
        });
        let mut all = self.all.lock();
        running.hear(all.ending);
        all.running.push(Arc::clone(&running));
        self.note(&all.running);
        drop(all);
        Occupied { scripts: self, running }
    }

    fn note(&self, all: &[Arc<Running>]) {
        let shards = all.iter().fold(0, |shards, running| shards | running.shards);
        self.occupied.store(shards, Ordering::SeqCst);
    }

    /// The shards that are held, or waited for, by what may take long.
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

    /// For how long the oldest script has been running.
    #[must_use]
    pub fn longest(&self) -> Option<Duration> {
        let all = self.all.lock();
        all.running
            .iter()
            .filter(|running| running.is_script)
            .map(|script| script.since.elapsed())
            .max()
    }

    /// True when the oldest runs a function.
    #[must_use]
    pub fn oldest_is_function(&self) -> bool {
        let all = self.all.lock();
        let oldest = all.running.iter().min_by_key(|running| running.since);
        oldest.and_then(|oldest| oldest.is_function()).unwrap_or(false)
    }

    /// The call of the function that has been running for the longest time.
    #[must_use]
    pub fn oldest_call(&self) -> Option<Call> {
        let all = self.all.lock();
        all.running.iter().filter_map(|running| running.call()).min_by_key(|call| call.since)
    }

    /// The server ends: scripts are ended whatever they have written, and nothing of them stays; those that begin, too.
    pub fn give_up(&self) {
        self.tell(Ending::GivesUp);
    }

    /// The server is about to end: what waits for other servers waits no longer, and what begins does not wait.
    pub fn hurry(&self) {
        self.tell(Ending::Hurries);
    }

    fn tell(&self, ending: Ending) {
        let mut all = self.all.lock();
        all.ending = all.ending.max(ending);
        for running in &all.running {
            running.hear(ending);
        }
    }

    /// A request to end was refused: nothing needs to hurry, unless another one has come further.
    pub fn need_not_hurry(&self) {
        let mut all = self.all.lock();
        if all.ending == Ending::Hurries {
            all.ending = Ending::No;
        }
    }

    /// The server does not end after all: what begins from now on takes as long as it takes.
    pub fn go_on(&self) {
        self.all.lock().ending = Ending::No;
    }

    /// SCRIPT KILL and FUNCTION KILL: ends all of the kind that have not written.
    ///
    /// # Errors
    /// None could be ended.
    pub fn kill(&self, functions: bool) -> Result<(), NotKilled> {
        let all = self.all.lock();
        let mut why = Some(NotKilled::NothingRuns);
        for running in &all.running {
            let Some(is_function) = running.is_function() else { continue };
            if running.has_written.load(Ordering::Acquire) {
                why = why.map(|why| match why {
                    NotKilled::NothingRuns => NotKilled::HasWritten,
                    other => other,
                });
            } else if is_function == functions {
                running.kill.store(true, Ordering::Release);
                why = None;
            } else {
                why = why.map(|_| NotKilled::OtherKind);
            }
        }
        why.map_or(Ok(()), Err)
    }
}

impl Drop for Occupied<'_> {
    fn drop(&mut self) {
        let mut all = self.scripts.all.lock();
        all.running.retain(|other| !Arc::ptr_eq(other, &self.running));
        self.scripts.note(&all.running);
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
        assert_eq!(scripts.kill(false), Err(NotKilled::NothingRuns), "they wait");
        first.running.works_on(Some(Work::Script));
        second.running.works_on(Some(Work::Script));
        assert_eq!(scripts.occupied().load(Ordering::Relaxed), 0b111);
        first.running.has_written.store(true, Ordering::Release);
        assert_eq!(scripts.kill(true), Err(NotKilled::OtherKind));
        assert!(!second.running.kill.load(Ordering::Relaxed));
        assert_eq!(scripts.kill(false), Ok(()));
        assert!(second.running.kill.load(Ordering::Relaxed));
        assert!(!first.running.kill.load(Ordering::Relaxed));
        drop(second);
        assert_eq!(scripts.occupied().load(Ordering::Relaxed), 0b011);
        assert_eq!(scripts.kill(false), Err(NotKilled::HasWritten));
        drop(first);
        assert_eq!(scripts.kill(false), Err(NotKilled::NothingRuns));
        assert!(!scripts.is_any());
    }

    #[test]
    fn what_begins_while_the_server_ends_is_told_at_once() {
        let told = |occupied: &Occupied<'_>| {
            let running = &occupied.running;
            (running.kill.load(Ordering::Relaxed), running.is_given_up.load(Ordering::Relaxed))
        };
        let scripts = RunningScripts::default();
        let (script, other) = (scripts.start(1), scripts.start_other(2));
        scripts.hurry();
        assert_eq!((told(&script), told(&other)), ((false, false), (true, false)));
        assert_eq!(told(&scripts.start(1)), (false, false));
        assert_eq!(told(&scripts.start_other(1)), (true, false));
        scripts.need_not_hurry();
        assert_eq!(told(&scripts.start_other(1)), (false, false));
        scripts.give_up();
        scripts.hurry();
        scripts.need_not_hurry();
        assert_eq!((told(&script), told(&other)), ((true, true), (true, true)));
        assert_eq!(told(&scripts.start(1)), (true, true));
        scripts.go_on();
        assert_eq!(told(&scripts.start(1)), (false, false));
        assert_eq!(told(&scripts.start_other(1)), (false, false));
    }
}

//! Decides when the running script must end: its time is over, it is killed, or its host has stopped it.

use super::raise::Raised;
use mlua::Error;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Why the program that runs must end.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    Host,
    Time,
    Killed,
}

/// The error of a killed script.
pub(super) const KILLED: &[u8] = b"ERR Script killed by user with SCRIPT KILL...";

impl Stop {
    /// The words of the error that the program ends with.
    pub(super) fn text(self) -> &'static [u8] {
        if self == Self::Killed { KILLED } else { b"ERR the script is stopped" }
    }

    pub(super) fn into_error(self) -> Error {
        Raised::Reply { text: self.text().to_vec(), is_counted: false }.into_error()
    }
}

/// The conditions checked between instructions, and before each command.
pub(super) struct Watch {
    started: Cell<Instant>,
    /// When its last command has ended.
    last: Cell<Instant>,
    slice: Cell<Option<Duration>>,
    kill: RefCell<Option<Arc<AtomicBool>>>,
    pub(super) stop: Cell<Option<Stop>>,
    /// Each instruction raises an error: the interpreter is of no use any more.
    pub(super) is_armed: Cell<bool>,
}

impl Watch {
    pub(super) fn new() -> Self {
        let now = Cell::new(Instant::now());
        Self {
            started: now.clone(),
            last: now,
            slice: Cell::new(None),
            kill: RefCell::default(),
            stop: Cell::new(None),
            is_armed: Cell::new(false),
        }
    }

    /// A program begins, which may take so long, and ends when the flag is set. `started`: when it begins, where that is known.
    pub(super) fn begin(
        &self,
        started: Option<Instant>,
        slice: Option<Duration>,
        kill: Option<Arc<AtomicBool>>,
    ) {
        let now = started.unwrap_or_else(Instant::now);
        self.started.set(now);
        self.last.set(now);
        self.slice.set(slice);
        *self.kill.borrow_mut() = kill;
        self.stop.set(None);
    }

    /// From now on the script cannot be killed.
    pub(super) fn end(&self) {
        *self.kill.borrow_mut() = None;
    }

    /// A command has ended at this moment.
    pub(super) fn note(&self, now: Instant) {
        self.last.set(now);
    }

    /// Notes that the program must end, if it must.
    pub(super) fn look(&self) -> Option<Stop> {
        self.last.set(Instant::now());
        self.look_without_clock()
    }

    /// Like [`Self::look`], but measures time until the end of the last command: the clock is read between instructions.
    pub(super) fn look_without_clock(&self) -> Option<Stop> {
        if self.stop.get().is_none() {
            let killed =
                self.kill.borrow().as_ref().is_some_and(|kill| kill.load(Ordering::Acquire));
            let took = self.last.get().saturating_duration_since(self.started.get());
            let is_late = self.slice.get().is_some_and(|slice| took > slice);
            self.stop.set(if killed { Some(Stop::Killed) } else { is_late.then_some(Stop::Time) });
        }
        self.stop.get()
    }
}

//! The interface of an interpreter to its host: scripts, limits, and access to commands.

use super::library::{Function as LibraryFunction, Library};
use super::script::Script;
use crate::resp::{Args, Reply};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// What became of a command that a script has asked for.
pub enum Answer {
    /// It ran until this time; its reply is in the buffer.
    Replied(Instant),
    /// It was refused before it ran, with this error.
    Refused(Vec<u8>),
    /// The script must end here: nothing of it counts.
    Stopped,
}

/// What a script reaches outside of its interpreter.
pub trait Host {
    /// Runs a command and writes its reply.
    fn call(&mut self, args: Args<'_>, reply: &mut Reply) -> Answer;

    /// Whether the script's user may run the command; `None`: there is no such command.
    fn may(&self, args: Args<'_>) -> Option<bool>;
}

/// What a script may take.
#[derive(Clone, Default)]
pub struct Limits {
    /// When it begins; `None`: now.
    pub started: Option<Instant>,
    /// Time limit after which it is stopped; `None`: never.
    pub slice: Option<Duration>,
    /// Set from outside to stop the script.
    pub kill: Option<Arc<AtomicBool>>,
    /// Bytes of memory of the interpreter; 0 for no limit.
    pub memory_max_bytes: usize,
}

/// What an interpreter runs.
#[derive(Clone, Copy, Debug)]
pub enum Program<'p> {
    /// A script.
    Script(&'p Script),
    /// A function of a library.
    Function(&'p Library, &'p LibraryFunction),
}

impl Program<'_> {
    /// What errors call it.
    pub(super) fn name(self) -> String {
        match self {
            Self::Script(script) => script.sha.as_str().to_owned(),
            Self::Function(_, function) => String::from_utf8_lossy(&function.name).into_owned(),
        }
    }
}

/// How a script has ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    /// Its value is written.
    Returned,
    /// It failed with this error; the flag tells whether the command has already counted it.
    Failed(Vec<u8>, bool),
    /// [`Host::call`] has stopped it.
    Stopped,
    /// Its time was over.
    OutOfTime,
}

//! Lua 5.1 as Redis scripts see it: the interpreter, its sandbox and libraries, and the script cache.
//!
//! This module does not know commands: a script reaches them through [`Host`].

mod bit;
mod cache;
mod cjson;
mod cmsgpack;
mod convert;
mod host;
mod interpreter;
mod libraries;
mod library;
mod native;
mod push;
mod raise;
mod random;
mod redis_api;
mod register;
mod running;
#[cfg(test)]
mod sandbox_tests;
mod script;
mod struct_lib;
#[cfg(test)]
mod tests;
mod trial;
mod unpack;
mod watch;

pub use cache::ScriptCache;
pub use host::{Answer, Ended, Host, Limits, Program};
pub use interpreter::Interpreter;
pub use libraries::{Functions, Libraries, NotAdded};
pub use library::{Function, Library};
pub use running::{Call, NotKilled, Occupied, Running, RunningScripts, Work};
pub use script::{Pace, Script, ScriptFlags, Sha};

/// Longest text that a library function makes, in bytes.
const OUTPUT_MAX_BYTES: usize = 512 << 20;

/// Longest text of a program, in bytes. Lua counts some things in it with 32 bits.
const PROGRAM_MAX_BYTES: usize = 512 << 20;

/// The stack size of a thread that runs scripts: libraries and patterns recurse as deeply as their input requires, within
/// bounds.
pub const STACK_BYTES: usize = 16 << 20;

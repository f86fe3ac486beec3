//! Lua 5.1 as scripts of Redis see it: the interpreter, its sandbox and libraries, and the cache of scripts.
//!
//! Nothing here knows commands: a script reaches them by way of [`Host`].

mod bit;
mod cache;
mod cjson;
mod cmsgpack;
mod convert;
mod interpreter;
mod raise;
mod random;
mod redis_api;
mod running;
mod script;
mod struct_lib;
#[cfg(test)]
mod tests;

pub use cache::ScriptCache;
pub use interpreter::{Answer, Ended, Host, Interpreter, Limits};
pub use running::{NotKilled, Occupied, Running, RunningScripts};
pub use script::{Script, ScriptFlags};

/// Longest text that a library function makes, in bytes.
const OUTPUT_MAX_BYTES: usize = 512 << 20;

/// The stack that a thread needs which runs scripts: libraries and patterns go down as deep as their input says, within
/// bounds.
pub const STACK_BYTES: usize = 16 << 20;

//! Loads a library in an interpreter on trial, to learn which functions it registers.

use super::STACK_BYTES;
use super::host::Limits;
use super::interpreter::Interpreter;
use super::library::Library;
use std::time::Duration;

/// Most memory of the interpreter that a library is tried in, in bytes.
const MEMORY_MAX_BYTES: usize = 1 << 30;

impl Library {
    /// Runs the text in an interpreter to find the functions it registers. The attempt ends after `time_max`.
    ///
    /// # Errors
    /// Redis' words about what is wrong with it.
    pub fn tried_in(
        interpreter: &Interpreter,
        code: &[u8],
        time_max: Duration,
    ) -> Result<Self, Vec<u8>> {
        let library = Self::of_text(code)?;
        let limits = Limits {
            slice: Some(time_max),
            memory_max_bytes: MEMORY_MAX_BYTES,
            ..Limits::default()
        };
        let functions = interpreter.try_library(&library, limits)?;
        library.with_functions(functions)
    }

    /// Like [`Self::tried_in`], but in an interpreter of its own. With `time_max` the attempt ends after this time.
    ///
    /// # Errors
    /// Redis' words about what is wrong with it.
    pub fn new(code: &[u8], time_max: Option<Duration>) -> Result<Self, Vec<u8>> {
        let library = Self::of_text(code)?;
        let limits =
            Limits { slice: time_max, memory_max_bytes: MEMORY_MAX_BYTES, ..Limits::default() };
        // On a stack that is large enough, regardless of the caller.
        let tried = std::thread::scope(|scope| {
            let run = || {
                let interpreter = Interpreter::new().map_err(|error| {
                    format!("ERR no interpreter for functions could be made: {error}").into_bytes()
                })?;
                interpreter.try_library(&library, limits)
            };
            let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
            let thread = thread.spawn_scoped(scope, run).map_err(|error| {
                format!("ERR no thread for the library could be made: {error}").into_bytes()
            })?;
            thread.join().unwrap_or_else(|_| Err(b"ERR internal error".to_vec()))
        });
        library.with_functions(tried?)
    }
}

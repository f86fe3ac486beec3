//! Handles commands that cannot continue, because of a panic or a failed device, without affecting others.

use super::CommandError;
use sexton_engine::EngineError;
use std::panic::resume_unwind;

/// What [`give_up`] unwinds with.
struct GivenUp(EngineError);

/// What [`miss`] unwinds with.
struct Missed;

/// Ends the run of a command that has recorded missing keys in its client: it runs again once they are in memory.
pub(crate) fn miss() -> ! {
    resume_unwind(Box::new(Missed))
}

/// Ends the current command, which needs a key that could not be read: any reply would be wrong.
/// Its whole transaction is rolled back.
pub(crate) fn give_up(error: EngineError) -> ! {
    // Without the panic hook: this is no bug.
    resume_unwind(Box::new(GivenUp(error)))
}

/// The error that reports a panic to the client.
pub(crate) fn error_of(name: &str, payload: Box<dyn std::any::Any + Send>) -> CommandError {
    if let Some(GivenUp(error)) = payload.downcast_ref() {
        return format!("ERR storage: {error}").into();
    }
    let text = payload.downcast_ref::<&str>().copied().map(str::to_owned);
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default();
    format!(
        "ERR internal error in '{name}', nothing was changed: {}",
        text.replace(['\r', '\n'], " ")
    )
    .into()
}

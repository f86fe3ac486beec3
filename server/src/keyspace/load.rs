//! Loading of cold keys by threads that may block.

use crate::server::Server;
use sexton_engine::{EngineError, LoadPin, Want};

/// Loads keys and pages synchronously; they stay in memory while the pin exists. For threads that may block.
///
/// # Errors
/// Those of [`Engine::load`](sexton_engine::Engine::load).
pub fn load_blocking(
    server: &Server,
    wanted: Vec<Want>,
    max_bytes: u64,
) -> Result<LoadPin, EngineError> {
    let (sender, receiver) = std::sync::mpsc::channel();
    server.engine.load_wanted(wanted, max_bytes, move |result| {
        // The receiver waits below; it can be dropped only if its thread has ended.
        let _ = sender.send(result);
    });
    receiver.recv().unwrap_or_else(|_| Err(EngineError::Storage("the load was dropped".to_owned())))
}

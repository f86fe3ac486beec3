//! Loading of cold keys by threads that may block.

use crate::server::Server;
use sexton_engine::{LoadPin, OwnedKey};

/// Loads keys and waits for them; they stay in memory while the pin lives. For threads that may block.
///
/// # Errors
/// The engine's text when a key could not be read.
pub fn load_blocking(server: &Server, keys: Vec<OwnedKey>) -> Result<LoadPin, String> {
    let (sender, receiver) = std::sync::mpsc::channel();
    server.engine.load(keys, move |result| {
        // The receiver waits below; it can only be gone when its thread is.
        let _ = sender.send(result);
    });
    match receiver.recv() {
        Ok(Ok(pin)) => Ok(pin),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("the load was dropped".to_owned()),
    }
}

//! Loading of cold keys: what keeps them for a request, and loads by threads that may block.

use crate::server::Server;
use sexton_engine::{EngineError, LoadPin, Want};

/// What was loaded for one request, and stays in memory until it has run.
#[derive(Debug, Default)]
pub struct Pins {
    pins: Vec<LoadPin>,
    page_bytes: u64,
}

impl Pins {
    /// How many bytes the next load of the request may read, of `most`. A request that misses pages may find that it needs
    /// others, run after run: all of them together are bounded.
    #[must_use]
    pub fn room_bytes(&self, most: u64, wanted: &[Want]) -> u64 {
        if wanted.iter().any(Want::is_page) { most.saturating_sub(self.page_bytes) } else { most }
    }

    /// Keeps what was loaded.
    pub fn push(&mut self, pin: LoadPin) {
        self.page_bytes += pin.page_bytes();
        self.pins.push(pin);
    }

    /// Lets all of it go; false when there was nothing.
    pub fn clear(&mut self) -> bool {
        let held = !self.pins.is_empty();
        *self = Self::default();
        held
    }
}

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

//! The request to stop, from SHUTDOWN or from a signal, and the waiters for its outcome.

use parking_lot::Mutex;
use tokio::sync::Notify;

/// How to stop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShutdownRequest {
    /// Do not wait for anything (`NOW`).
    pub now: bool,
    /// Stop even if the log or the files cannot be closed (`FORCE`).
    pub force: bool,
}

/// The state of stopping.
#[derive(Debug, Default)]
pub struct Shutdown {
    request: Mutex<Option<ShutdownRequest>>,
    wake: Notify,
}

impl Shutdown {
    /// Asks the server to stop. The first request counts.
    pub fn request(&self, request: ShutdownRequest) {
        self.request.lock().get_or_insert(request);
        self.wake.notify_one();
    }

    /// Takes a request back (`SHUTDOWN ABORT`, or a stop that failed); false when there is none.
    pub fn abort(&self) -> bool {
        self.request.lock().take().is_some()
    }

    /// The request, if there is one.
    #[must_use]
    pub fn requested(&self) -> Option<ShutdownRequest> {
        *self.request.lock()
    }

    /// Resolves when the server must stop. One task waits for it: the one that stops the server.
    pub async fn wait(&self) -> ShutdownRequest {
        loop {
            if let Some(request) = self.requested() {
                return request;
            }
            self.wake.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_request_counts_until_it_is_taken_back() {
        let shutdown = Shutdown::default();
        assert!(!shutdown.abort());
        shutdown.request(ShutdownRequest { now: true, force: false });
        shutdown.request(ShutdownRequest { now: false, force: true });
        assert_eq!(shutdown.requested(), Some(ShutdownRequest { now: true, force: false }));
        assert!(shutdown.abort());
        assert_eq!(shutdown.requested(), None);
    }
}

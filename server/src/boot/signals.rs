//! The signals of an operator, and what ends the server.

use crate::dispatch::is_busy;
use crate::log;
use crate::server::Server;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Interval of the looks whether a script keeps the server from ending.
const LOOK: Duration = Duration::from_millis(100);

/// Resolves when the server must stop: after SHUTDOWN, or after a signal and, if configured, a last save.
pub(super) async fn until_stopped(
    server: &Arc<Server>,
    signals: &mut Signals,
) -> Result<(), String> {
    loop {
        let directive = tokio::select! {
            _ = server.shutdown.wait() => return Ok(()),
            directive = signals.next() => directive,
        };
        server.running_scripts.hurry();
        let flags = server.setting(directive);
        let has = |flag: &str| flags.split(' ').any(|word| word == flag);
        let wanted = (has("save") || has("nosave")).then_some(has("save"));
        let save = {
            let server = Arc::clone(server);
            move || crate::jobs::rdb::save_before_exit(&server, wanted).is_ok()
        };
        // A second signal does not wait for it.
        let saved = tokio::select! {
            saved = tokio::task::spawn_blocking(save) => saved.unwrap_or(false),
            never = end_busy_scripts(server) => match never {},
            _ = signals.next() => std::process::exit(1),
        };
        if saved || has("force") {
            server.running_scripts.give_up();
            return Ok(());
        }
        server.running_scripts.go_on();
    }
}

/// Ends the scripts that the last save would wait for, once one has run for longer than `busy-reply-threshold`: who sends a
/// signal cannot be told to kill it first.
async fn end_busy_scripts(server: &Server) -> Infallible {
    loop {
        tokio::time::sleep(LOOK).await;
        if is_busy(server) {
            log::warning(
                "A script takes too long to wait for: it is ended, and has changed nothing.",
            );
            server.running_scripts.give_up();
        }
    }
}

/// The operator's signals. One that arrives while no task waits is delivered to the next waiter.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    /// A directive that was received but not acted on.
    left: Option<&'static str>,
    /// Whose certificates SIGHUP reads again.
    server: Option<Arc<Server>>,
}

impl Signals {
    /// From now on the signals are handled by [`next`](Self::next), and do not end the process. Rust's runtime ignores
    /// SIGPIPE.
    pub(super) fn listen() -> Result<Self, String> {
        let listen = |kind| signal(kind).map_err(|error| format!("Cannot handle signals: {error}"));
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            hangup: listen(SignalKind::hangup())?,
            left: None,
            server: None,
        })
    }

    /// There is a server now.
    pub(super) fn serve(&mut self, server: &Arc<Server>) {
        self.server = Some(Arc::clone(server));
    }

    /// Returns an unhandled directive; the next waiter receives it again.
    pub(super) fn put_back(&mut self, directive: &'static str) {
        self.left = Some(directive);
    }

    /// Resolves at SIGTERM or SIGINT, with the directive that configures the shutdown. SIGHUP reopens the log file, and reloads
    /// certificates and keys.
    pub(super) async fn next(&mut self) -> &'static str {
        if let Some(directive) = self.left.take() {
            return directive;
        }
        loop {
            tokio::select! {
                _ = self.terminate.recv() => {
                    log::warning("Received SIGTERM scheduling shutdown...");
                    return "shutdown-on-sigterm";
                }
                _ = self.interrupt.recv() => {
                    log::warning("Received SIGINT scheduling shutdown...");
                    return "shutdown-on-sigint";
                }
                _ = self.hangup.recv() => {
                    log::reopen();
                    if let Some(server) = &self.server {
                        crate::configuration::reload_tls(server);
                    }
                }
            }
        }
    }
}

//! Loads the contents of a data directory without a store: a dump or the log of another server.

use super::signals::Signals;
use crate::server::Server;
use crate::takeover::Takeover;
use sexton_config::Options;
use std::sync::Arc;

/// How the load at the start ended.
pub(super) enum Loaded {
    /// There was nothing to load, or it is loaded.
    Ready,
    /// The server was told to stop while it loaded.
    Stopped(Option<Takeover>),
    /// It could not be loaded.
    Failed(Option<Takeover>, String),
}

/// Loads the contents of the data directory into an empty store; meanwhile clients receive LOADING.
pub(super) async fn load(
    server: &Arc<Server>,
    takeover: Takeover,
    options: Options,
    signals: &mut Signals,
) -> Loaded {
    if takeover.bytes().is_none() {
        return Loaded::Ready;
    }
    let takeover = Arc::new(takeover);
    let job = {
        let (server, takeover) = (Arc::clone(server), Arc::clone(&takeover));
        tokio::task::spawn_blocking(move || takeover.load(&server))
    };
    let mut heard = None;
    let abort = async {
        tokio::select! {
            _ = server.shutdown.wait() => {}
            directive = signals.next() => heard = Some(directive),
        }
        server.loading.abort();
        std::future::pending::<()>().await;
    };
    let result = tokio::select! {
        result = job => result.unwrap_or_else(|panic| Err(panic.to_string())),
        () = abort => Ok(()),
    };
    let stopped = server.loading.is_aborted();
    // The job has ended and let go of it.
    let takeover = Arc::into_inner(takeover);
    match (result, takeover) {
        (Ok(()), Some(takeover)) => match takeover.finish(&options) {
            Ok(()) => {
                server.loading.end();
                // The load was over before it could be given up: the server stops as one that has begun to serve.
                heard.into_iter().for_each(|directive| signals.put_back(directive));
                Loaded::Ready
            }
            Err(error) => Loaded::Failed(None, error),
        },
        (_, takeover) if stopped => Loaded::Stopped(takeover),
        (Err(error), takeover) => {
            let text = format!("Fatal error loading the DB, nothing of it is kept. {error}");
            Loaded::Failed(takeover, text)
        }
        (Ok(()), None) => Loaded::Ready,
    }
}

//! Whether the server takes requests and writes.

use crate::server::Server;

/// Why it does not, one reason each; none when it does.
pub(super) fn obstacles(server: Option<&Server>) -> Vec<String> {
    let Some(server) = server else { return vec!["LOADING: the store is being opened".to_owned()] };
    let mut found = Vec::new();
    if server.loading.is_active() {
        found.push("LOADING: the data is being loaded".to_owned());
    }
    if let Some(reason) = server.engine.write_refusal() {
        found.push(format!("MISCONF: writes are refused: {reason}"));
    }
    if server.saving.refuses_writes() {
        found.push(
            "MISCONF: the last background save failed (stop-writes-on-bgsave-error)".to_owned(),
        );
    }
    if let Some(error) = server.engine.stats().background_error {
        found.push(format!("a background thread of the store failed: {error}"));
    }
    if server.shutdown.requested().is_some() {
        found.push("the server is stopping".to_owned());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shutdown::ShutdownRequest;
    use sexton_engine::Engine;

    #[test]
    fn who_is_not_ready_says_why() {
        assert_eq!(obstacles(None).len(), 1);
        let server = Server::new(Engine::in_memory(1).expect("a store in memory opens"), 1);
        server.loading.end();
        assert!(obstacles(Some(&server)).is_empty());
        server.loading.begin(1);
        server.shutdown.request(ShutdownRequest::default());
        assert_eq!(obstacles(Some(&server)).len(), 2);
        server.loading.end();
        server.engine.close().expect("a store in memory closes");
        let found = obstacles(Some(&server));
        assert!(found[0].starts_with("MISCONF"), "{found:?}");
    }
}

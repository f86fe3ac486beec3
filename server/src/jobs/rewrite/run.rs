//! The thread that writes bases.

use super::growth::pinned_max_bytes;
use crate::jobs::rdb::write_base;
use crate::log;
use crate::server::Server;
use sexton_engine::{LogBase, SnapshotOptions};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Interval of the checks whether the server stops.
const LOOK: Duration = Duration::from_millis(100);

/// Rewrites whenever BGREWRITEAOF or the growth of the log asks, until `stop` is set.
pub fn run_rewriter(server: &Server, stop: &AtomicBool) {
    while !stop.load(Ordering::Acquire) {
        if !server.rewriting.take_wanted(LOOK) {
            continue;
        }
        let pid = std::process::id();
        log::notice(&format!("Background append only file rewriting started by pid {pid}"));
        let result = rewrite(server);
        match &result {
            Ok(()) => {
                log::notice("Background AOF rewrite terminated with success");
                log::notice("Background AOF rewrite finished successfully");
            }
            Err(error) => log::warning(&format!("Background AOF rewrite failed: {error}")),
        }
        server.rewriting.end(result.is_ok());
    }
}

/// Writes a base as a rewrite would, passes its path to `load`, and discards it: the log is unchanged.
///
/// # Errors
/// A rewrite is running, the base cannot be written, or `load` fails.
pub fn with_base(
    server: &Server,
    load: impl FnOnce(&Path) -> Result<(), String>,
) -> Result<(), String> {
    if !server.rewriting.start_here() {
        return Err("Background append only file rewriting already in progress".into());
    }
    let result = new_base(server).and_then(|base| load(base.path()));
    server.rewriting.end(result.is_ok());
    result
}

/// A base, written but not part of the log.
fn new_base(server: &Server) -> Result<LogBase, String> {
    let named = SnapshotOptions { name: "bgrewriteaof".into(), timeout_ms: 0 };
    let base = server.engine.begin_log_base(named).map_err(|error| error.to_string())?;
    write_base(server, base.path(), base.snapshot(), || !server.rewriting.is_stopped())
        .map_err(|error| error.to_string())?;
    Ok(base)
}

fn rewrite(server: &Server) -> Result<(), String> {
    let base = new_base(server)?;
    let bytes = std::fs::metadata(base.path()).map_err(|error| error.to_string())?.len();
    base.install(pinned_max_bytes(&server.config.options(), bytes))
        .map_err(|error| error.to_string())
}

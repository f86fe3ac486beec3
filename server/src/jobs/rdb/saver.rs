//! The thread that saves in the background.

use super::save;
use crate::log;
use crate::server::Server;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Interval of the checks whether the server stops.
const LOOK: Duration = Duration::from_millis(100);

/// Saves whenever BGSAVE or a save point asks, until `stop` is set.
pub fn run_saver(server: &Server, stop: &AtomicBool) {
    while !stop.load(Ordering::Acquire) {
        if !server.saving.take_wanted(LOOK) {
            continue;
        }
        log::notice(&format!("Background saving started by pid {}", std::process::id()));
        match save::run(server) {
            Ok(()) => log::notice("Background saving terminated with success"),
            Err(save::SaveError::Aborted) => {
                log::warning("Background saving terminated by request");
            }
            Err(_) => log::warning("Background saving error"),
        }
    }
}

/// Starts the save that FLUSHALL wants. Called by the clock.
pub(crate) fn start_wanted_save(server: &Server) {
    if server.saving.start_wanted() {
        log::notice("All keys were deleted. Saving...");
    }
}

/// Starts a save when a save point is due. Called by the clock.
pub(crate) fn look_at_save_points(server: &Server) {
    let changes = server.saving.changes(server.engine.last_seq());
    if let Some(point) = server.saving.due_point(changes) {
        let (least, seconds) = (point.changes, point.seconds);
        log::notice(&format!("{least} changes in {seconds} seconds. Saving..."));
        server.saving.start_in_background();
    }
}

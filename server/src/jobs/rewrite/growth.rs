//! How large the segments after a base may grow, and when the next base is due.

use crate::server::Server;
use sexton_config::Options;

/// Growth, in percent, that counts when `auto-aof-rewrite-percentage` is 0.
const PERCENT_WITHOUT: u64 = 100;

/// Size of the segments after a base of `base_bytes` at which the next one is due; `None` if bases are not
/// renewed automatically. As in Redis, both directives must be satisfied.
fn due_bytes(options: &Options, base_bytes: u64) -> Option<u64> {
    let percent = u64::from(options.auto_aof_rewrite_percentage);
    let min = options.auto_aof_rewrite_min_size_bytes.saturating_sub(base_bytes);
    (percent > 0).then(|| (base_bytes / 100).saturating_mul(percent).max(min))
}

/// Size at which base and segments are abandoned, so that the log continues without a base: the size at which the next base would
/// be due, and twice that if it is made automatically.
pub(super) fn pinned_max_bytes(options: &Options, base_bytes: u64) -> u64 {
    let min = options.auto_aof_rewrite_min_size_bytes;
    match due_bytes(options, base_bytes) {
        Some(due) => due.max(min).saturating_mul(2),
        None => (base_bytes / 100 * PERCENT_WITHOUT).max(min),
    }
}

/// Starts a rewrite if the log after its base has grown enough. Called periodically.
pub(crate) fn look_at_growth(server: &Server) {
    let Some((base_bytes, segment_bytes)) = server.engine.log_base_bytes() else { return };
    let options = server.config.options();
    server.engine.set_log_pinned_max(pinned_max_bytes(&options, base_bytes));
    if due_bytes(&options, base_bytes).is_some_and(|due| segment_bytes > due)
        && server.rewriting.start_by_itself()
    {
        let growth = segment_bytes * 100 / base_bytes.max(1);
        crate::log::notice(&format!("Starting automatic rewriting of AOF on {growth}% growth"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentage_and_size_must_both_be_reached() {
        let mut options = sexton_config::Config::default().options().clone();
        options.auto_aof_rewrite_percentage = 50;
        options.auto_aof_rewrite_min_size_bytes = 1000;
        assert_eq!(due_bytes(&options, 100), Some(900), "1000 bytes with the base");
        assert_eq!(due_bytes(&options, 10_000), Some(5000));
        assert_eq!(pinned_max_bytes(&options, 10_000), 10_000);
        options.auto_aof_rewrite_percentage = 0;
        assert_eq!(due_bytes(&options, 10_000), None);
        assert_eq!(pinned_max_bytes(&options, 10_000), 10_000);
        assert_eq!(pinned_max_bytes(&options, 100), 1000);
    }
}

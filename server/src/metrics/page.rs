//! The page for people, and the figures that it asks for.

use super::readiness::obstacles;
use crate::commands::info::fields;
use crate::commands::table;
use crate::server::Server;
use serde_json::{Map, json};
use std::collections::BTreeMap;

/// The page: HTML, style and script in one.
pub(super) const HTML: &str = include_str!("page.html");

/// The sections of INFO that the page shows.
const SECTIONS: &[&str] =
    &["server", "clients", "memory", "persistence", "stats", "keyspace", "flsm", "devices"];

/// The parts of memory, as INFO names them: together they are `mem_held`.
pub(super) const MEMORY_PARTS: &[&str] = &[
    "mem_base",
    "mem_table",
    "mem_memtables",
    "mem_graves",
    "mem_tree",
    "mem_block_cache",
    "mem_work",
    "mem_aof_buffer",
    "mem_clients_normal",
    "mem_other",
];

/// All that the page shows, as JSON.
pub(super) fn status(server: Option<&Server>) -> String {
    let (mut times, mut commands) = (BTreeMap::<u64, u64>::new(), Map::new());
    for spec in table::all_with_subcommands() {
        let totals = spec.stats.totals();
        if totals.calls > 0 {
            commands.insert(spec.name.to_owned(), json!([totals.calls, totals.time_us]));
            for (bound, count) in spec.stats.histogram() {
                *times.entry(bound).or_default() += count;
            }
        }
    }
    let fields = server.map(|server| fields(server, SECTIONS)).unwrap_or_default();
    json!({
        "obstacles": obstacles(server),
        // Upper bounds in microseconds, each with its count.
        "times": times.into_iter().collect::<Vec<_>>(),
        "commands": commands,
        "memory_parts": MEMORY_PARTS,
        "fields": fields.into_iter().map(|(name, value)| (name.into_owned(), value.into())).collect::<Map<_, _>>(),
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn a_store_that_is_not_there_yet_is_an_obstacle() {
        let status: Value = serde_json::from_str(&status(None)).expect("it is JSON");
        assert_eq!(status["obstacles"][0], "LOADING: the store is being opened");
        assert_eq!(status["fields"], json!({}));
    }

    #[test]
    fn the_page_asks_nobody_else() {
        for word in ["http://", "https://", "src=", "@import", "url("] {
            let found = HTML
                .match_indices(word)
                .filter(|(at, _)| !HTML[*at..].starts_with("http://www.w3.org/2000/svg"));
            assert_eq!(found.count(), 0, "{word}");
        }
    }
}

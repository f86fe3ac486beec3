//! Crates and rooms use only the layers below them.
//!
//! A room is a file or folder directly below a crate's `src`. Each crate's rooms are arranged in floors, lowest first: a
//! room may use rooms of lower floors and itself, but nothing on its own floor or above. Violations would be listed by
//! file in [`EXCEPTIONS`], which is empty. Tests inside the crates are exempt.

use crate::files::{self, File};
use std::collections::BTreeSet;

/// Crates, and the crates of this repository that each may use.
const CRATES: &[(&str, &[&str])] = &[
    ("config", &[]),
    ("persistence", &["sexton_config"]),
    ("engine", &["sexton_config", "sexton_persistence", "sexton_engine"]),
    ("server", &["sexton", "sexton_config", "sexton_persistence", "sexton_engine"]),
];

/// The rooms of each crate by floors, from the ground up.
const FLOORS: &[(&str, &[&[&str]])] = &[
    ("persistence", &[&["checksum", "random"], &["device"], &["aof", "manifest", "pmem", "rdb"]]),
    (
        "engine",
        &[
            &["counts", "huge_page", "key", "page", "prefetch", "sync", "work"],
            &["error", "shared_value"],
            &["source"],
            &["dram", "memtable", "table"],
            &["cemetery", "tree"],
            &["iterator"],
            &["store"],
            &["check", "db"],
        ],
    ),
    (
        "server",
        &[
            &[
                "allocator",
                "arenas",
                "clock",
                "digest",
                "interop",
                "log",
                "number",
                "random",
                "version",
            ],
            &[
                "auth",
                "crash",
                "descriptors",
                "disk_bound",
                "oom_score",
                "process",
                "resp",
                "tls",
                "value",
            ],
            &["scripting", "session", "shutdown"],
            &["events"],
            &["blocking"],
            &["observe"],
            &["state"],
            &["server"],
            &["keyspace"],
            &["client_memory", "devices"],
            &["jobs"],
            &["dispatch"],
            &["client_eviction"],
            &["configuration"],
            &["commands"],
            &["net", "takeover"],
            &["metrics"],
            &["boot"],
        ],
    ),
];

/// Files that use a room they should not know. There are none, and nothing may be added.
const EXCEPTIONS: &[(&str, &str)] = &[];

/// The code of a file: without comments, and up to its tests.
fn code(file: &File) -> String {
    let mut code = String::new();
    let mut after_cfg_test = false;
    for (_, line) in file.lines() {
        let line = line.split("//").next().unwrap_or_default();
        if after_cfg_test && line.trim_start().starts_with("mod tests {") {
            break;
        }
        after_cfg_test = line.contains("cfg(test)") || line.contains("cfg(all(test");
        code.push_str(line);
        code.push('\n');
    }
    code
}

fn is_test(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("tests.rs") || path.contains("test_storage")
}

/// The word at the start of the text.
fn word(text: &str) -> &str {
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len());
    &text[..end]
}

/// The names directly after `crate::`, including those of `crate::{a::b, c}`.
fn rooms_used(code: &str) -> BTreeSet<&str> {
    let mut used = BTreeSet::new();
    for piece in code.split("crate::").skip(1) {
        let Some(group) = piece.strip_prefix('{') else {
            used.insert(word(piece));
            continue;
        };
        let mut depth = 0;
        let mut at_name = true;
        for (at, c) in group.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => at_name = true,
                c if at_name && !c.is_whitespace() => {
                    used.insert(word(&group[at..]));
                    at_name = false;
                }
                _ => {}
            }
        }
    }
    used
}

/// Crate and room of a source file of a crate's library.
fn room_of(path: &str) -> Option<(&str, &str)> {
    let (krate, inner) = path.split_once("/src/")?;
    if inner.starts_with("bin/")
        || !inner.ends_with(".rs")
        || ["lib.rs", "main.rs"].contains(&inner)
    {
        return None;
    }
    let room = inner.split('/').next().unwrap_or_default();
    Some((krate, room.strip_suffix(".rs").unwrap_or(room)))
}

#[test]
fn a_room_uses_only_what_lies_below_it() {
    let mut broken = BTreeSet::new();
    let mut homeless = BTreeSet::new();
    let files = files::all();
    for file in files.iter().filter(|file| !is_test(&file.path)) {
        let Some((krate, room)) = room_of(&file.path) else { continue };
        let Some((_, floors)) = FLOORS.iter().find(|(name, _)| *name == krate) else { continue };
        let floor_of = |room: &str| floors.iter().position(|floor| floor.contains(&room));
        let Some(floor) = floor_of(room) else {
            homeless.insert(format!("{krate}: {room}"));
            continue;
        };
        for used in rooms_used(&code(file)) {
            // A name that is on no floor is an item of the crate's root.
            if used != room && floor_of(used).is_some_and(|below| below >= floor) {
                broken.insert((file.path.clone(), used.to_string()));
            }
        }
    }
    assert!(
        homeless.is_empty(),
        "rooms that stand on no floor: give each its place in FLOORS: {homeless:?}"
    );
    let listed: BTreeSet<(String, String)> =
        EXCEPTIONS.iter().map(|(file, room)| ((*file).to_string(), (*room).to_string())).collect();
    assert_eq!(listed.len(), EXCEPTIONS.len(), "an exception stands twice");
    let new: Vec<_> = broken.difference(&listed).collect();
    assert!(new.is_empty(), "these files use a room that is not below their own:\n{new:#?}");
    let mended: Vec<_> = listed.difference(&broken).collect();
    assert!(mended.is_empty(), "these are mended: take them out of EXCEPTIONS:\n{mended:#?}");
}

#[test]
fn a_crate_uses_only_crates_below_it() {
    let all = ["sexton", "sexton_config", "sexton_persistence", "sexton_engine", "sexton_tests"];
    let mut broken = Vec::new();
    let files = files::all();
    for (krate, may_use) in CRATES {
        let sources = format!("{krate}/src/");
        for file in files.iter().filter(|file| file.path.starts_with(&sources) && file.is(".rs")) {
            let code = code(file);
            // The engine's benchmark reads device profiles; the engine itself knows no configuration.
            let is_library = *krate == "engine" && !file.path.contains("/bin/");
            for other in all {
                let is_for_bench = ["sexton_config", "sexton_engine"].contains(&other);
                let allowed = may_use.contains(&other) && !(is_library && is_for_bench);
                let uses = code.match_indices(&format!("{other}::")).any(|(at, _)| {
                    !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_')
                });
                if uses && !allowed {
                    broken.push(format!("{} uses {other}", file.path));
                }
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn uses_are_found_in_every_form() {
    let code = "use crate::key::Seq;\nuse crate::{tree::{Source, Job}, table, store::x};\nlet x = crate::check::run();";
    let found: Vec<&str> = rooms_used(code).into_iter().collect();
    assert_eq!(found, ["check", "key", "store", "table", "tree"]);
    assert_eq!(room_of("engine/src/store/tx/mod.rs"), Some(("engine", "store")));
    assert_eq!(room_of("engine/src/key.rs"), Some(("engine", "key")));
    assert_eq!(room_of("engine/src/bin/flsm-bench/main.rs"), None);
}

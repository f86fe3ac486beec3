//! Pages that are generated from tables: the commands and the directives. A test fails if one is out of date;
//! `SEXTON_WRITE_PAGES=1 cargo test -p sexton-tests --test repository pages` regenerates them (`make pages`).

use crate::files;
use sexton::commands::table::all_with_subcommands;
use sexton_config::directive::{Class, Mutability};
use sexton_config::table::GROUPS;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Titles of [`GROUPS`], in their order.
const TITLES: [&str; 8] = [
    "Network and clients",
    "Process, log and observation",
    "Memory and data",
    "Directory, snapshots, log of writes",
    "Replication",
    "Cluster",
    "Of Valkey",
    "Engine",
];

/// A command's metadata.
#[derive(Default)]
struct Row {
    since: String,
    group: String,
    summary: String,
}

fn metadata() -> BTreeMap<String, Row> {
    let mut rows = BTreeMap::new();
    for file in ["commands.txt", "own_commands.txt"] {
        let path = files::root().join("server/src/dispatch/table").join(file);
        let text = std::fs::read_to_string(path).expect("the metadata of commands can be read");
        for block in text.split("\n\n") {
            let mut row = Row::default();
            let mut name = None;
            for line in block.lines() {
                match line.split_once(' ') {
                    None => name = line.strip_prefix('@').or(name),
                    Some(("since", text)) => row.since = text.to_owned(),
                    Some(("group", text)) => row.group = text.to_owned(),
                    Some(("summary", text)) => row.summary = text.to_owned(),
                    Some(_) => {}
                }
            }
            if let Some(name) = name {
                rows.insert(name.to_owned(), row);
            }
        }
    }
    rows
}

/// Names in capitals, as the page of differences has them.
fn named_in_differences() -> BTreeSet<String> {
    let page = std::fs::read_to_string(files::root().join("docs/differences.md")).expect("a page");
    page.split(|c: char| !(c.is_ascii_alphanumeric() || "-._".contains(c)))
        .filter(|word| word.len() > 2 && word.chars().all(|c| !c.is_lowercase()))
        .map(str::to_lowercase)
        .collect()
}

fn commands_page() -> String {
    let rows = metadata();
    let built: BTreeSet<&str> = all_with_subcommands().map(|spec| spec.name).collect();
    let differing = named_in_differences();
    let mut groups: BTreeMap<&str, Vec<(&String, &Row)>> = BTreeMap::new();
    for (name, row) in &rows {
        groups.entry(&row.group).or_default().push((name, row));
    }
    let mut page = String::from(
        "# Commands\n\nMade from the command table: do not edit. *Same* is meant to answer as redis-server 7.0.15 does, byte by byte; \
         *see* leads to what [differs](differences.md); *not yet* is an unknown command; *own* is Sexton's.\n",
    );
    for (group, rows) in groups {
        let _ = write!(
            page,
            "\n## {group}\n\n| command | since | here | what it does |\n|---|---|---|---|\n"
        );
        for (name, row) in rows {
            let base = name.split('|').next().unwrap_or(name);
            let here = if !built.contains(name.as_str()) {
                "not yet"
            } else if name.starts_with("sexton.") {
                "own"
            } else if differing.contains(base) {
                "[see](differences.md)"
            } else {
                "same"
            };
            let name = name.replace('|', " ").to_uppercase();
            let summary = row.summary.replace('|', "\\|");
            let _ = writeln!(page, "| {name} | {} | {here} | {summary} |", row.since);
        }
    }
    page
}

fn configuration_page() -> String {
    let mut page = String::from(
        "# Configuration\n\nMade from the table of directives: do not edit. Names are those of Redis 7.0 unless they are marked *own*. \
         *Start* can be set by a start only, *protected* by CONFIG SET where `enable-protected-configs` allows it. \
         `config/sexton.conf` explains what most people set.\n",
    );
    for (title, group) in TITLES.iter().zip(GROUPS) {
        let _ = write!(
            page,
            "\n## {title}\n\n| directive | default | set by | remarks |\n|---|---|---|---|\n"
        );
        for directive in group.iter().filter(|directive| !directive.hidden) {
            let set_by = match directive.mutability {
                Mutability::Modifiable => "CONFIG SET",
                Mutability::Immutable => "start",
                Mutability::Protected => "protected",
            };
            let mut remarks = Vec::new();
            if directive.is_own() {
                remarks.push("*own*".to_owned());
            }
            match directive.class {
                Class::NoEffect(reason) => remarks.push(format!("no effect: {reason}")),
                Class::Refused(reason) => remarks.push(format!("only its default: {reason}")),
                _ => {}
            }
            if !directive.doc.is_empty() {
                remarks.push(directive.doc.to_owned());
            }
            let default = match directive.default {
                "" | "\"\"" => String::new(),
                text => format!("`{}`", text.replace('|', "\\|")),
            };
            let remarks = remarks.join(". ").replace('|', "\\|");
            let _ = writeln!(page, "| `{}` | {default} | {set_by} | {remarks} |", directive.name);
        }
    }
    page
}

fn is_current(name: &str, made: &str) {
    let path = files::root().join("docs").join(name);
    if std::env::var_os("SEXTON_WRITE_PAGES").is_some() {
        std::fs::write(&path, made).expect("the page can be written");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == made, "docs/{name} is not current: run 'make pages'");
}

#[test]
fn the_page_of_commands_is_current() {
    let page = commands_page();
    assert!(
        page.contains("| BACKUP START | 8.10.0 |")
            && page.contains("| FAILOVER | 6.2.0 | not yet |")
    );
    is_current("commands.md", &page);
}

#[test]
fn the_page_of_directives_is_current() {
    let page = configuration_page();
    assert!(page.contains("| `aof-archive-dir` |  | start | *own*"));
    is_current("configuration.md", &page);
}

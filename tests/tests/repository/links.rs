//! Links and paths in pages and comments lead to files of the repository.

use crate::files::{self, File};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

/// Endings of files that a page or comment may name between backticks.
const ENDINGS: &[&str] = &[".md", ".rs", ".py", ".sh", ".txt"];

/// Targets of the links of a page, with their lines. Code blocks have none.
fn links(page: &File) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut is_code = false;
    for (number, line) in page.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        if is_code || line.starts_with("    ") {
            continue;
        }
        for piece in line.split("](").skip(1) {
            if let Some(target) = piece.split(')').next() {
                found.push((number, target.split_whitespace().next().unwrap_or_default()));
            }
        }
    }
    found
}

/// The name under which a heading is found, as GitHub makes it.
fn slug(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// All anchors of a page.
fn anchors(page: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut times = BTreeMap::new();
    let mut is_code = false;
    for line in page.lines() {
        if line.starts_with("```") {
            is_code = !is_code;
        }
        let heading = line.trim_start_matches('#');
        if !is_code && line.starts_with('#') && heading.starts_with(' ') {
            let name = slug(heading.trim());
            let count = times.entry(name.clone()).or_insert(0);
            found.insert(if *count == 0 { name } else { format!("{name}-{count}") });
            *count += 1;
        }
        for id in line.split("<a id=\"").skip(1).filter_map(|rest| rest.split('"').next()) {
            found.insert(id.to_string());
        }
    }
    found
}

/// The path without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(normal.pop()),
            Component::CurDir => {}
            part => normal.push(part),
        }
    }
    normal
}

#[test]
fn every_link_leads_to_a_file_and_to_a_heading_in_it() {
    let files = files::all();
    let mut broken = Vec::new();
    let mut followed = 0;
    for page in files.iter().filter(|file| file.is(".md")) {
        for (line, target) in links(page) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            followed += 1;
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let folder = Path::new(&page.path).parent().unwrap_or(Path::new(""));
            let path = if path.is_empty() {
                PathBuf::from(&page.path)
            } else {
                normal(&folder.join(path))
            };
            let there = files::root().join(&path);
            if !there.exists() {
                broken.push(format!(
                    "{}:{line}: {target}: there is no {}",
                    page.path,
                    path.display()
                ));
            } else if !anchor.is_empty() {
                let text = std::fs::read_to_string(&there).unwrap_or_default();
                if !anchors(&text).contains(anchor) {
                    broken.push(format!("{}:{line}: {target}: no such heading", page.path));
                }
            }
        }
    }
    assert!(followed > 40, "only {followed} links were found: this test reads too little");
    assert!(broken.is_empty(), "broken links:\n{}", broken.join("\n"));
}

#[test]
fn anchors_are_made_as_on_the_page() {
    let page = "# One: `two`, 3\n```\n# no heading\n```\n## Same\n## Same\n<a id=\"own\"></a>";
    let found: Vec<String> = anchors(page).into_iter().collect();
    assert_eq!(found, ["one-two-3", "own", "same", "same-1"]);
}

#[test]
fn every_file_that_a_page_or_comment_names_is_there() {
    let files = files::all();
    let ends_so = |path: &str| {
        let tail = format!("/{path}");
        files.iter().any(|file| file.path == path || file.path.ends_with(&tail))
    };
    let is_path = |name: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
        name.len() > 4
            && name.chars().all(plain)
            && ENDINGS.iter().any(|ending| name.ends_with(ending))
    };
    let mut missing = Vec::new();
    for file in files.iter().filter(|file| !file.path.starts_with("docs/reports/")) {
        if !(file.is(".md")
            || file.is(".rs")
            || file.is(".sh")
            || file.is(".conf")
            || file.is("Makefile"))
        {
            continue;
        }
        for (line, text) in file.lines() {
            let text = files::comment(file, text);
            // Pages are also named without backticks: "see docs/durability.md".
            let words = text.split(|c: char| c.is_whitespace() || "`(),;:\"'[]".contains(c));
            let pages =
                words.map(|word| word.trim_end_matches('.')).filter(|word| word.ends_with(".md"));
            let named: BTreeSet<&str> =
                files::quoted(text).chain(pages).filter(|name| is_path(name)).collect();
            for name in named {
                // A link is followed by the test above, relative to its page.
                let name = name.trim_start_matches("./").trim_start_matches("../");
                if !ends_so(name) {
                    missing.push(format!("{}:{line}: {name}", file.path));
                }
            }
        }
    }
    assert!(missing.is_empty(), "named, but not there:\n{}", missing.join("\n"));
}

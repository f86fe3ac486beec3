//! ARCHITECTURE.md names the files that a plain SET passes through. They are few enough to be read at one sitting, and
//! each refers to the next.

use crate::files;

/// A longer path would be too long for a reader to follow.
const FILES_MAX: usize = 15;

/// Number, file and function of each row of the table.
fn rows(page: &str) -> Vec<(usize, String, String)> {
    let section = page.split("## One SET, from the socket to the log").nth(1).expect("the section");
    let section = section.split("\n## ").next().unwrap_or_default();
    let cells = |line: &str| -> Vec<String> {
        line.split('|').map(|cell| cell.trim().trim_matches('`').to_owned()).collect()
    };
    let rows = section.lines().filter(|line| line.starts_with('|')).map(cells);
    rows.filter_map(|cells| Some((cells[1].parse().ok()?, cells[2].clone(), cells[3].clone())))
        .collect()
}

#[test]
fn a_set_goes_through_few_files_and_each_is_called_by_one_before_it() {
    let root = files::root();
    let page = std::fs::read_to_string(root.join("ARCHITECTURE.md")).expect("the page");
    let rows = rows(&page);
    assert!((2..=FILES_MAX).contains(&rows.len()), "{} files", rows.len());
    let mut before: Vec<String> = Vec::new();
    for (at, (number, path, function)) in rows.iter().enumerate() {
        assert_eq!(*number, at + 1, "{path}");
        let text = std::fs::read_to_string(root.join(path));
        let text = text.unwrap_or_else(|error| panic!("{path}: {error}"));
        // Calls in tests lead nowhere.
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default().to_owned();
        assert!(
            code.contains(&format!("fn {function}(")) || code.contains(&format!("fn {function}<")),
            "{path} has no {function}"
        );
        let call = format!("{function}(");
        let calls = |code: &String| {
            code.match_indices(&call).any(|(at, _)| code[..at].ends_with(['.', ':']))
        };
        assert!(at == 0 || before.iter().any(calls), "nobody before {path} calls {function}");
        before.push(code);
    }
}

//! Every rule that is cited is stated in docs/rules.md, and what that page names exists.

use crate::files::{self, File};
use sexton_tests::model::Rule;
use std::collections::{BTreeMap, BTreeSet};

const PAGE: &str = "docs/rules.md";

/// Letters of the rules.
const LETTERS: &str = "IPXGCFDNERWM";

/// Files in which P and a number is a depth of pipelining (`redis-benchmark -P`).
fn has_pipelines(file: &File) -> bool {
    file.is(".py")
        || ["README.md", "docs/measurements.md", "docs/studies/notebook.md"]
            .contains(&file.path.as_str())
}

/// The page's rules: number and text.
fn rules() -> BTreeMap<String, String> {
    let page = std::fs::read_to_string(files::root().join(PAGE)).expect("the page of the rules");
    let mut rules = BTreeMap::new();
    for section in page.split("\n### ").skip(1) {
        let number = section.split_whitespace().next().unwrap_or_default().to_string();
        let text = section.split("\n## ").next().unwrap_or_default().to_string();
        assert!(rules.insert(number.clone(), text).is_none(), "{PAGE} states {number} twice");
    }
    rules
}

/// Numbers of rules in a text: a letter and one or two digits, not part of a longer word.
fn numbers(text: &str) -> Vec<(usize, &str)> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let joins = |byte: u8| byte.is_ascii_alphanumeric() || b"_-`\"'<>&/.".contains(&byte);
    for (at, letter) in text.char_indices() {
        if !LETTERS.contains(letter) || at > 0 && joins(bytes[at - 1]) {
            continue;
        }
        let digits = bytes[at + 1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let end = at + 1 + digits;
        let goes_on =
            bytes.get(end).is_some_and(|&byte| byte.is_ascii_alphabetic() || byte == b'_');
        if (1..=2).contains(&digits) && !goes_on {
            found.push((at, &text[at..end]));
        }
    }
    found
}

/// Numbers of rules that a line of the file cites.
fn cited<'a>(file: &File, line: &'a str) -> Vec<&'a str> {
    let comment = files::comment(file, line);
    let mut found: Vec<&str> = numbers(comment).into_iter().map(|(_, number)| number).collect();
    // In code, a message may cite one: "... (N14)", "rule X3".
    let code = &line[..line.len() - comment.len()];
    let in_message = |at: usize| code[..at].ends_with('(') || code[..at].ends_with("rule ");
    if code.contains('"') {
        found.extend(
            numbers(code).into_iter().filter(|&(at, _)| in_message(at)).map(|(_, number)| number),
        );
    }
    found.retain(|number| !(number.starts_with('P') && has_pipelines(file)));
    found
}

#[test]
fn every_rule_that_is_cited_is_stated() {
    let rules = rules();
    let mut missing = Vec::new();
    let mut seen = BTreeSet::new();
    // Reports show figures of machines, and are made by a script.
    let files = files::all();
    for file in files.iter().filter(|file| !file.path.starts_with("docs/reports/")) {
        if ![".rs", ".md", ".py", ".sh", ".conf", "Makefile", ".toml", "run"]
            .iter()
            .any(|end| file.is(end))
        {
            continue;
        }
        let mut is_code = false;
        for (line_number, line) in file.lines() {
            if file.is(".md") && line.starts_with("```") {
                is_code = !is_code;
            }
            for number in cited(file, line).into_iter().filter(|_| !is_code) {
                seen.insert(number.to_string());
                if !rules.contains_key(number) {
                    missing.push(format!("{}:{line_number}: {number}", file.path));
                }
            }
        }
    }
    assert!(seen.len() > 50, "only {seen:?} are cited: this test reads too little");
    assert!(missing.is_empty(), "{PAGE} does not state:\n{}", missing.join("\n"));
}

#[test]
fn a_citation_is_told_from_other_words() {
    let found: Vec<&str> =
        numbers("(N13), rule X3; F2(b), C1 to C5, I4. L0 xN1 N1x -P16 `P1` N100 R")
            .iter()
            .map(|n| n.1)
            .collect();
    assert_eq!(found, ["N13", "X3", "F2", "C1", "C5", "I4"]);
}

/// The lines of a rule's text that begin with the word, joined.
fn part<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let from = text.find(&format!("- *{word}:*"))?;
    let rest = &text[from + 2..];
    let end = rest.find("\n- ").or_else(|| rest.find("\n\n")).unwrap_or(rest.len());
    Some(&rest[..end])
}

#[test]
fn a_rule_says_why_where_it_is_kept_and_what_tests_it() {
    let all = files::all();
    let mut wrong = Vec::new();
    let mut switches = BTreeSet::new();
    for (number, text) in rules() {
        for name in files::quoted(&text)
            .filter(|name| Rule::ALL.iter().any(|rule| rule.to_string() == **name))
        {
            switches.insert(name.to_string());
        }
        for word in ["Why", "Kept", "Test"] {
            // What is not one rule but several conditions has its reason in each.
            if part(&text, word).is_none() && !(word == "Why" && number == "Spilled") {
                wrong.push(format!("{number}: no *{word}:*"));
            }
        }
        for path in
            files::quoted(part(&text, "Kept").unwrap_or_default()).filter(|path| path.contains('/'))
        {
            if !files::root().join(path).is_file() {
                wrong.push(format!("{number}: there is no file {path}"));
            }
        }
        let tests = part(&text, "Test").unwrap_or_default();
        for name in files::quoted(tests) {
            let exists = if name.contains('/') {
                files::root().join(name).is_file()
            } else if name.starts_with(char::is_uppercase) {
                Rule::ALL.iter().any(|rule| rule.to_string() == name)
            } else {
                let function = format!("fn {name}(");
                all.iter().any(|file| file.is(".rs") && file.text.contains(&function))
            };
            if !exists {
                wrong.push(format!("{number}: there is no test {name}"));
            }
        }
    }
    for rule in Rule::ALL.iter().filter(|rule| !switches.contains(&rule.to_string())) {
        wrong.push(format!("{PAGE} does not name the switch {rule}"));
    }
    assert!(wrong.is_empty(), "{PAGE}:\n{}", wrong.join("\n"));
}

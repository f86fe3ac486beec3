//! Cycles in the import graphs of the crates: counted by `scripts/import_circles.py`, which defines the bounds.

use crate::files;
use std::process::{Command, Output};

fn run(arguments: &[&str]) -> Output {
    let script = files::root().join("scripts/import_circles.py");
    Command::new("python3").arg(script).args(arguments).output().expect("python3 runs")
}

#[test]
fn circles_of_files_do_not_grow() {
    let done = run(&["--check"]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn circles_are_found_by_whatever_way_a_file_names_another() {
    let done = run(&["--test"]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

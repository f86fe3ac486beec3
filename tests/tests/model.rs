//! Tests the rules of the engine under random histories: with all rules on no history violates the guarantees, and a
//! disabled rule is detected. `make model` runs these tests for much longer.

use sexton_tests::model::history::{Emphasis, histories_until_violation, run, search};
use sexton_tests::model::{Rule, Rules};

/// Histories with all rules on.
const HISTORIES: u64 = 2_000;

/// A switch that is not caught within this many histories belongs to the rare ones.
const FEW: u64 = 3_000;

/// Rules whose switch needs more than [`FEW`] histories; `make model` covers them.
const RARE: &[Rule] = &[
    Rule::F1PendingMarks,
    Rule::F1Durable,
    Rule::F3ViewFirst,
    Rule::F4Marks,
    Rule::F4RunReaders,
    Rule::SpillListFirst,
    Rule::D5OpenAtMark,
    Rule::N5RunThroughMark,
    Rule::N6UndoClaim,
    Rule::N6UndoIsFile,
];

#[test]
fn with_all_rules_on_no_history_violates_the_specification() {
    for emphasis in [Emphasis::None, Emphasis::LongSnapshots] {
        let found = search(0..HISTORIES, Rules::default(), emphasis);
        assert!(found.is_none(), "{emphasis:?} {found:?}; replay with: make model ARGS='--seed N'");
    }
}

#[test]
fn long_snapshots_stay_open_over_undo_runs() {
    let share = |emphasis| {
        let all = (0..300).map(|seed| run(seed, Rules::default(), emphasis, None).expect("kept"));
        let (undo, steps) =
            all.fold((0, 0), |(undo, steps), seen| (undo + seen.with_undo_run, steps + seen.steps));
        undo as f64 / steps as f64
    };
    let (usual, long) = (share(Emphasis::None), share(Emphasis::LongSnapshots));
    assert!(long > 2.0 * usual, "{long} of the steps have an undo run, of the usual ones {usual}");
}

#[test]
fn every_rule_that_is_off_is_caught() {
    for &rule in Rule::ALL.iter().filter(|rule| !RARE.contains(rule)) {
        let caught = histories_until_violation(rule, FEW);
        assert!(caught.is_some(), "{rule} is off and {FEW} histories do not show it");
    }
}

#[test]
fn a_seed_is_one_history() {
    let trace = |seed| {
        let mut lines = Vec::new();
        let trace: &mut dyn FnMut(String) = &mut |line| lines.push(line);
        let result = run(seed, Rules::default(), Emphasis::None, Some(trace)).map(drop);
        (lines, result)
    };
    assert_eq!(trace(7), trace(7));
    assert_ne!(trace(7).0, trace(8).0);
}

#[test]
fn rules_are_found_by_their_names() {
    for rule in Rule::ALL {
        assert_eq!(rule.to_string().to_lowercase().parse(), Ok(*rule));
    }
    assert!("P99".parse::<Rule>().is_err());
}

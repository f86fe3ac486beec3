//! Tests of the tests: each rule switched off is found by the random histories.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::crashes::run_history;
use crate::pmem::rules::{Rule, set_broken};

/// The first seed whose history goes wrong without the rule; a panic is wrong, too.
fn found_without(rule: Rule) -> Option<u64> {
    set_broken(Some(rule));
    let wrong = |seed: &u64| {
        let run = catch_unwind(AssertUnwindSafe(|| run_history(*seed)));
        !matches!(run, Ok(Ok(_)))
    };
    let found = (0..2000).find(wrong);
    set_broken(None);
    found
}

#[test]
fn a_missing_fence_is_found() {
    assert!(found_without(Rule::Fence).is_some());
}

#[test]
fn an_unchecked_checksum_is_found() {
    assert!(found_without(Rule::Checksum).is_some());
}

#[test]
fn slots_that_are_used_again_without_being_erased_are_found() {
    assert!(found_without(Rule::Erase).is_some());
}

#[test]
fn publishing_before_persisting_is_found() {
    assert!(found_without(Rule::PersistBeforePublish).is_some());
}

#[test]
fn sequences_handed_out_above_the_reserve_are_found() {
    assert!(found_without(Rule::Reserve).is_some());
}

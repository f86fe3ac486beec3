//! Numbers that nobody can guess.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

/// A number from the system's random numbers.
pub(crate) fn random_u64() -> u64 {
    // Keyed by them, and never twice the same.
    RandomState::new().hash_one(std::process::id())
}

//! How many levels a tree has.

/// Levels of the tree, L0 included.
pub const LEVELS: usize = 7;

//! Sorted set commands.

use crate::dispatch::table::Binding;

/// The group's commands.
pub(super) const COMMANDS: &[Binding] = &[];
